/* What a transport between processes offers.  A transport plug-in includes this header alone; this
   header includes the error record and the status codes.

   Core opens libdptrain-NAME.so in the folder transports/ beside the backends' plug-ins, asks its
   entry point for the table, and makes all calls from one thread, the communication thread
   (collective/processes.h).  Core builds its collectives from these messages, so a transport has
   none. */
#ifndef DPT_TRANSPORT_H
#define DPT_TRANSPORT_H

#include "dpt_error.h"

#define DPT_TRANSPORT_ABI        7u
#define DPT_TRANSPORT_ENTRY_NAME "dpt_transport_entry"

/* Messages that are in flight at the same time and are started in no common order have different
   channels. */
enum { DPT_TRANSPORT_CHANNELS = 17 };

/* Bytes from one process to another.  Between two processes the messages of one channel arrive in
   the order in which they were sent, whatever their sizes.  A receive has the size of its send, and
   fails if it has not.  n_bytes > 0, and the peer is never the process itself. */
typedef struct dpt_message {
    bool receive;
    unsigned channel; /* below DPT_TRANSPORT_CHANNELS */
    size_t peer;      /* its rank */
    void *data;       /* read, or written if receive */
    size_t n_bytes;
} dpt_message;

/* Processes that come to a job that runs.  A transport that has this table also has `settle` and
   `mend`.  There is a fixed number of places: those of the processes of the start are their ranks,
   and each process that comes has one above these and above all that were there before it.  A
   process that has opened the transport in order to come has rank 0 of 1 and can send nothing until
   it has called `mend`, which waits until the others let it in. */
typedef struct dpt_transport_guests {
    /* Returns the number of places.  The result is the same in all processes and does not change.
       If it is the number of processes at the start, nobody can come. */
    size_t (*most)(void *self);
    /* Returns how many places are free.  The place of a process that has ended is not. */
    size_t (*left)(void *self);
    /* Returns whether this process has come and is not let in yet.  Sets its place and the number
       of processes at the start in any case. */
    bool (*comes)(void *self, size_t *place, size_t *n_first);
    /* A process that has come, before `mend`: what the first process has told.  The text belongs to
       the transport, and is valid until `tell`. */
    const char *(*told)(void *self);
    /* What processes that come from now on are told, if this is the first process then.  Until the
       first call nobody can come.  Copies the text.  DPT_E_INVALID if the text is too long;
       DPT_E_NO_MEMORY. */
    dpt_status (*tell)(void *self, const char *text, dpt_error *error);
    /* Any thread: whether a process waits to be let in, as far as this process knows. */
    bool (*waits)(void *self);
    /* All processes of the job call it, with no request in flight; some may call `mend` or die
       instead.  As `mend`, but it succeeds too if none has died, and the process that waits is one
       of the job from then on, with the highest rank, unless it has gone. */
    dpt_status (*admit)(void *self, size_t *rank, size_t *n_ranks, dpt_error *error);
} dpt_transport_guests;

typedef struct dpt_transport {
    uint32_t abi; /* DPT_TRANSPORT_ABI */
    const char *name;
    /* required.  Joins the processes of this job; all of them call it.  *rank becomes the number of
       this process, from 0, and *n_ranks the number of processes.  DPT_E_ABSENT if this process
       belongs to no job. */
    dpt_status (*open)(void **self, size_t *rank, size_t *n_ranks, dpt_error *error);
    /* required.  Leaves the job in good order; all processes call it. */
    void (*close)(void *self);
    /* required.  Starts all messages and returns.  Until `test` says that they are done, nobody
       touches the memory of receives or changes that of sends.  Several requests may be in
       flight. */
    dpt_status (*start)(void *self, const dpt_message *messages, size_t n, void **request,
                        dpt_error *error);
    /* required.  Looks, without waiting, whether all messages of a request are received, or sent so
       that their memory may be changed: *done.  Frees the request if so, and when it fails.  Data
       may move only while this function is called. */
    dpt_status (*test)(void *self, void *request, bool *done, dpt_error *error);

    /* What follows is optional, all of it or none: a transport with which the job goes on when a
       process has died.  Where `survives` is true, a failure of `start` or `test` fails all
       requests of all processes: those in flight when they are tested next, and later ones at once.
       The memory of a request that has failed is not touched any more. */

    /* Returns whether the job can go on when a process has died.  The result is the same in all
       processes and does not change. */
    bool (*survives)(void *self);
    /* All processes call it, or call `mend` after a failure, with no request in flight.  It
       succeeds in all of them if all have called it and none has died; otherwise it fails in all of
       them. */
    dpt_status (*settle)(void *self, dpt_error *error);
    /* After a failure, all processes that live call it, with no request in flight, or end.  *rank
       and *n_ranks become those of the job that is left.  The processes keep their order, and every
       message of before is forgotten.  It fails in all processes if none has died. */
    dpt_status (*mend)(void *self, size_t *rank, size_t *n_ranks, dpt_error *error);
    /* Optional beside these.  Tells the others that this process takes no part any more, as if it
       had died: they need not wait until it ends.  Any thread may call it after `open`, also while
       another function runs and more than once.  All other functions fail from then on, and the
       memory of what they have started is not touched any more. */
    void (*leave)(void *self);
    /* Optional beside these.  Returns for how many seconds a process may stand still, for example
       stopped by a signal, before the others count it as dead; 0: for ever.  The others may wait a
       little longer, and not less.  Core ends such a process when it goes on.  A transport through
       which a process learns by itself that the others have gone on leaves this function out.  The
       result is the same in all processes and does not change. */
    double (*timeout)(void *self);
    const dpt_transport_guests *guests; /* optional beside these; NULL: no process can come */
} dpt_transport;

/* The one exported symbol.  NULL if this number is not supported. */
typedef const dpt_transport *(*dpt_transport_entry_fn)(uint32_t abi);

#endif
