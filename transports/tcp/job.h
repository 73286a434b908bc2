/* An open job: its processes, the service thread, and what both threads know.

   There are two connections to every other process.  The *data* connection carries messages; the
   communication thread of core, which makes all calls of the transport, moves it (messages.c).  It
   may stand still while that thread does something else.  The *control* connection carries frames
   of a fixed size; the service thread moves it (service.c), so that a process that computes for
   long still shows that it lives.

   Processes have two numbers.  Their *place* is the rank that they had when they joined, and never
   changes.  Their rank counts those that are left.  Everything here has places; core has ranks.

   *Processes that come* (guests.c, door.c, enter.c).  Places from n_first on are kept for them.  A
   process that comes connects to all processes of the job while they work on, and is their *guest*
   until all of them call admit.  There is one guest at a time. */
#ifndef DPT_TCP_JOB_H
#define DPT_TCP_JOB_H

#include "handshake.h"
#include "join.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* A set of places. */
typedef struct tcp_set {
    uint8_t bits[TCP_MOST_PROCESSES / 8];
} tcp_set;

static inline bool dpt_tcp_has(const tcp_set *set, size_t place)
{
    return (set->bits[place / 8] >> place % 8 & 1) != 0;
}

static inline void dpt_tcp_add(tcp_set *set, size_t place)
{
    set->bits[place / 8] = (uint8_t)(set->bits[place / 8] | 1u << place % 8);
}

/* ---- Control --------------------------------------------------------------------------------- */

typedef enum tcp_kind {
    TCP_BEAT,    /* the process lives */
    TCP_REVOKE,  /* messages of this generation have failed */
    TCP_SETTLE,  /* the process has called settle, for the `count`th time in this generation */
    TCP_SETTLED, /* all have */
    TCP_STATE,   /* after a failure the process waits in settle or mend */
    TCP_OUTCOME, /* of settle after a failure: it succeeded up to the `count`th time */
    TCP_MENDED,  /* `members` are left, and their generation is this one */
    TCP_WHOLE,   /* mend: none has died */
    TCP_TOO_FEW, /* mend: those left may not go on */
    TCP_LEFT,    /* the others go on without the receiver */
    TCP_BYE,     /* the process has called close */
    TCP_KINDS
} tcp_kind;

/* One struct for all kinds; what a kind does not need is 0.  Bytes are those of the machine: the
   handshake refuses machines of another byte order. */
typedef struct tcp_frame {
    uint32_t kind;
    uint32_t generation; /* how often the job was mended */
    uint32_t count;      /* calls of settle in this generation, */
    uint32_t settled;    /* and how many of them are known to have succeeded */
    uint32_t in_settle;  /* of TCP_STATE */
    uint32_t admits;     /* of TCP_STATE: the process waits in admit */
    tcp_set members;     /* of this generation */
    tcp_set closed;      /* of which the sender knows that they have ended */
    tcp_set silent;      /* of which the sender does not know whether they live */
    uint32_t guest; /* of TCP_STATE: the place of the guest that has connected, plus 1; 0: none */
    uint8_t more[4];
} tcp_frame;

_Static_assert(sizeof(tcp_frame) == 128, "what travels has no padding");

enum { TCP_OUT_FRAMES = 32 };

typedef enum tcp_fate {
    TCP_LIVES,
    TCP_SILENT, /* nothing has come from it for the timeout; it may live */
    TCP_CLOSED, /* its kernel has closed the connection: it has ended */
} tcp_fate;

/* What a call of settle, mend or close waits for. */
typedef enum tcp_wait { TCP_NOTHING, TCP_IN_SETTLE, TCP_IN_MEND, TCP_IN_CLOSE } tcp_wait;

/* ---- Data ------------------------------------------------------------------------------------ */

typedef struct tcp_request tcp_request;

/* One message that this process sends or receives. */
typedef struct tcp_op {
    struct tcp_op *next;
    tcp_request *request;
    uint8_t *data;
    uint64_t n_bytes, n_moved;
} tcp_op;

struct tcp_request {
    size_t n_left; /* messages that are not done */
    tcp_op ops[];
};

/* A message that has begun to arrive before its receive was posted. */
typedef struct tcp_early {
    struct tcp_early *next;
    uint64_t n_bytes, n_got;
    size_t room;
    uint8_t *data; /* (room) */
} tcp_early;

typedef struct tcp_ops {
    tcp_op *first, *last;
} tcp_ops;

/* One channel to and from one process.  The counts are of bytes, since the job was mended last. */
typedef struct tcp_lane {
    tcp_ops sends, receives; /* receives whose message has not begun */
    tcp_op *current;         /* the receive whose message is arriving */
    tcp_early *early_first, *early_last;
    uint64_t n_sent, n_allowed; /* what the other process has posted receives for, as it has told */
    uint64_t n_got, n_posted, n_told;
    bool to_tell;
} tcp_lane;

/* Begins every frame of a data connection. */
typedef struct tcp_header {
    uint32_t generation;
    uint16_t channel;
    uint16_t kind;    /* tcp_part */
    uint32_t n_bytes; /* that follow */
    uint32_t zero;
    uint64_t count; /* of a message: its bytes; of a credit: the bytes of posted receives */
} tcp_header;

_Static_assert(sizeof(tcp_header) == 24, "what travels has no padding");

enum {
    TCP_STAGING_BYTES = 1 << 14,
    TCP_MOST_TEXT = 4 << 20, /* of what a process that comes is told */
};

/* The data connection to one process. */
typedef struct tcp_stream {
    int socket;      /* -1: none, or it has ended */
    tcp_lane *lanes; /* (DPT_TRANSPORT_CHANNELS) */
    /* The frame that is being sent. */
    tcp_header out;
    size_t out_header_left;
    uint64_t out_left;
    tcp_op
        *out_op; /* NULL: nobody needs the rest of the frame any more, and zeros go in its place */
    size_t next_lane;
    /* The frame that is arriving. */
    tcp_header in;
    size_t in_header_got;
    uint64_t in_left;
    uint8_t *staging; /* (TCP_STAGING_BYTES) */
    size_t staging_begin, staging_end;
} tcp_stream;

/* ---- The job --------------------------------------------------------------------------------- */

typedef struct tcp_peer {
    tcp_stream stream; /* the communication thread's */
    /* Guarded by the mutex: */
    int control; /* -1: none, or it has ended */
    tcp_fate fate;
    bool bye;            /* it has called close */
    bool left;           /* the others have gone on without it */
    double heard;        /* when something came from it last */
    double data_ended;   /* when the data connection ended; 0: it has not */
    tcp_frame in, state; /* what is arriving; the last TCP_STATE */
    size_t n_in;         /* bytes of `in` */
    bool has_state;
    uint32_t count; /* of the last TCP_SETTLE of this generation */
    uint8_t out[TCP_OUT_FRAMES * sizeof(tcp_frame)];
    size_t n_out;
    int guest_data; /* the data connection of a guest, until it is let in; -1: none */
} tcp_peer;

typedef struct tcp_door tcp_door;

typedef struct tcp_job {
    size_t n, place; /* places; and this process's */
    size_t n_first;  /* processes at the start */
    tcp_door *door;  /* NULL: no process can come */
    double timeout, beat;
    tcp_peer *peers;         /* (n) */
    size_t *members;         /* (n_members) places of those in the job, in their order */
    size_t n_members;        /* the communication thread's copy */
    uint32_t generation_now; /* the same */
    bool dropped;            /* the communication thread has seen the failure of this generation */
    atomic_bool revoked;     /* messages of this generation have failed */
    int wake;                /* an eventfd that wakes the service thread */
    struct pollfd *polls;    /* (n + 1) the service thread's */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    tcp_set in_job;
    uint32_t generation, revoked_generation; /* of the last TCP_REVOKE that has come */
    bool left_behind;                        /* or this process has left the others */
    double stood_until; /* this process stood still for longer than the timeout, not long ago */
    char reason[200];   /* of the failure */
    uint32_t count, settled;
    tcp_wait wait;
    bool over; /* the wait is: */
    dpt_status outcome;
    size_t told; /* who has got this process's state; n: nobody */
    /* Processes that come. */
    bool comes;           /* this process has come and is not let in yet */
    bool admits;          /* it waits in admit */
    size_t guest;         /* the place of the guest; n: none */
    uint32_t guest_visit; /* as its tcp_claim has it */
    double guest_since;   /* when it came */
    atomic_bool ready; /* it has connected and waits to be let in, as far as this process knows */
    tcp_set used;      /* places of processes that were let in at any time */
    char *text; /* (n_text) what the program says to processes that come; NULL: nothing yet */
    size_t n_text;
} tcp_job;

/* ---- service.c: the service thread; all but the first three are called with the mutex locked ----
 */

/* Starts a thread to which no signal goes; and the service thread.  Returns 0 or the number of an
   error. */
int dpt_tcp_thread_start(pthread_t *out, void *(*function)(void *), void *argument);
int dpt_tcp_service_start(tcp_job *job);
/* Sends what is waiting, and ends the thread. */
void dpt_tcp_service_stop(tcp_job *job);
void dpt_tcp_wake(const tcp_job *job);
/* Queues a frame of this generation. */
void dpt_tcp_send(tcp_job *job, size_t place, tcp_kind kind);
void dpt_tcp_send_all(tcp_job *job, tcp_kind kind);
/* Sends what is queued, as far as it goes, and ends the control connections.  For the other
   processes this one has died. */
void dpt_tcp_end_connections(tcp_job *job);
bool dpt_tcp_lives(const tcp_job *job, size_t place); /* also of this process itself */

/* ---- agree.c: failures, and what processes decide together ------------------------------------
 */

/* Fails the messages of this generation in all processes.  With the mutex locked. */
DPT_PRINTF(2, 3) void dpt_tcp_revoke(tcp_job *job, const char *format, ...);
/* Handles a frame, and looks whether a wait is over.  With the mutex locked. */
void dpt_tcp_hear(tcp_job *job, size_t place, const tcp_frame *frame);
void dpt_tcp_look(tcp_job *job);
/* The messages of this generation have failed: says why. */
dpt_status dpt_tcp_tell(tcp_job *job, dpt_error *error);
/* As `settle` and `mend` of the table, and the wait of `close`. */
dpt_status dpt_tcp_settle(tcp_job *job, dpt_error *error);
dpt_status dpt_tcp_mend(tcp_job *job, dpt_error *error);
dpt_status dpt_tcp_admit(tcp_job *job, dpt_error *error);
void dpt_tcp_part(tcp_job *job);
/* As `leave` of the table. */
void dpt_tcp_leave(tcp_job *job);

/* ---- guests.c: the guest, as the processes of the job see it; with the mutex locked -------------
 */

/* Begins a guest, where there is none.  Takes the socket of its control connection. */
void dpt_tcp_guest_seat(tcp_job *job, size_t place, uint32_t visit, int socket);
/* Whether a claim is for the second connection of the guest that is there; and adds it, which takes
   the socket. */
bool dpt_tcp_guest_lacks_data(const tcp_job *job, const tcp_claim *claim);
void dpt_tcp_guest_add_data(tcp_job *job, int socket);
/* Forgets the guest, whose connections it closes. */
void dpt_tcp_guest_drop(tcp_job *job);
/* Handles a frame; false: it comes from a process of the job. */
bool dpt_tcp_guest_hear(tcp_job *job, size_t place, const tcp_frame *frame);
/* The control connection to a place has ended and is closed. */
void dpt_tcp_guest_ended(tcp_job *job, size_t place);
/* Drops a guest that is silent, or not ready `most` seconds after it came. */
void dpt_tcp_guest_look(tcp_job *job, double now, double most);
/* The place of a guest that has both connections, plus 1; 0: none. */
uint32_t dpt_tcp_guest_told(const tcp_job *job);
/* The coordinator: whether any process waits in admit; and adds the guest to the members if all of
   them are connected to it.  Returns the next generation. */
bool dpt_tcp_guest_admitted(const tcp_job *job);
uint32_t dpt_tcp_guest_let_in(const tcp_job *job, tcp_set *members);
/* Every process, when those of the next generation are known: lets go of a guest that was ready and
   is not among them, because not all processes hear it.  It would otherwise stop them again and
   again. */
void dpt_tcp_guest_refuse(tcp_job *job, const tcp_set *members);
/* Every process: place p, which was no member, is one from now on. */
void dpt_tcp_guest_take_in(tcp_job *job, size_t place);

/* ---- door.c: the thread that listens for processes that come -----------------------------------
 */

/* Takes *parts, also on failure.  Copies the settings. */
DPT_CHECK_RESULT dpt_status dpt_tcp_door_open(tcp_job *job, const tcp_settings *settings,
                                              tcp_door_parts *parts, dpt_error *error);
void dpt_tcp_door_close(tcp_door *door); /* accepts NULL */

/* ---- enter.c: the process that comes ------------------------------------------------------------
 */

/* What a process that comes learns. */
typedef struct tcp_entry {
    tcp_set members, used;
    tcp_sockets *sockets; /* (places) */
    tcp_door_parts parts;
    char *text; /* (n_text + 1) ends with '\0' */
    size_t n_text;
} tcp_entry;

/* Connects to all processes of a job that runs.  Fills in n, rank, n_joiners and timeout of the
   settings.  The caller takes what *out holds.  DPT_E_IO, DPT_E_INVALID, DPT_E_NO_MEMORY: *out is
   empty then. */
DPT_CHECK_RESULT dpt_status dpt_tcp_enter(tcp_settings *settings, tcp_entry *out, dpt_error *error);

/* ---- messages.c ------------------------------------------------------------------------------ */

typedef struct tcp_messages {
    const dpt_message *items; /* (n) */
    size_t n;
} tcp_messages;

dpt_status dpt_tcp_start(tcp_job *job, tcp_messages what, tcp_request **out, dpt_error *error);
dpt_status dpt_tcp_test(tcp_job *job, tcp_request *request, bool *done, dpt_error *error);
/* After a failure: forgets the requests, whose memory is not touched any more. */
void dpt_tcp_drop(tcp_job *job);
/* After mending: forgets the messages of before. */
void dpt_tcp_renew(tcp_job *job);

#endif
