/* A backend for tests: wraps another one (the plug-in that $DPTRAIN_FAULT_INNER names, whose memory
   must be the host's), forwards every call, and fails or falsifies what its device string asks for.

   fail=N        the N-th call after open that can fail does, with DPT_E_DEVICE
   lost=N        from the N-th on every call fails with DPT_E_DEVICE_LOST
   full=N        the N-th call fails with DPT_E_NO_MEMORY, and
   for=M         so do the M - 1 behind it
   room=N        every run of more than N samples fails with DPT_E_NO_MEMORY
   from=K        both from step K on only: when the optimizer has run K - 1 times
   starve=K      the K-th run of the optimizer, and as many as `for` says, has no memory
   hang=N        the N-th call does not return, or
   stall=MS      only after so many milliseconds, and then as if nothing had been
   after=K       calls are counted when the optimizer has run K times, not before
   again=M       all this only until it has been opened so often (for ever; 1 with away), and
   only=K        or only in its K-th opening
   away=K        the K openings behind the first fail
   domain=N      its fault domain is one of the same number
   island=N      it sums with the others that have the same number (fault_collective.c)
   stick=N       from the N-th collective of its communicator on none ends in this process
   narrow=1      its communicators are within one process
   cache=BYTES   so much its caches hold
   entry=NAME    counts calls of this vtable entry only ("run", "sync"); those that cannot fail,
                 which hang at most, are counted so alone: "free", "host_free", "stream_free",
                 "event_free", "release", "recording_free", "destroy" and "close"; likewise "open"
   clock=MS      events tell a simulated time: MS milliseconds a sample that is trained
   bug=NAME      a planted mistake (fault_bug)
   poison=K      gradients of weights have an infinite element in step K,
   smudge=K      parts of batch-norms do,
   huge=K        or gradients have one that is close to the largest number
   flip=K        behind the K-th update a bit of what the optimizer wrote is another one:
   wreck=K       or an element is no number,
   place=N       of its output N, from 1 (1): the weights, the first moment, the second
   late=1        it records what has run once
   lag=1         an event has not passed when it is asked, only when it, or its stream, is waited
                 for
   refuses=WHAT  recording: already its begin, or its end, or a run that is recorded, which fails;
                 or, of wrap, to wrap little of the host's memory
   Anything else is passed on.

   $DPTRAIN_FAULT_HANG=BACKEND:CALL[:MS] lets a call hang that no parameter reaches: "load" (the
   entry of the plug-in), "probe", "describe", "open" of a device without parameters.
   $DPTRAIN_FAULT_APART, set, lets its device look like hardware of its own, so that "all" means it.

   Into the file that $DPTRAIN_FAULT_REPORT names it appends `fired CALL ENTRY` when a failure is
   planted, `joined N` and `parted N` when a communicator is made and destroyed, `order WHAT` when
   its rules are broken, `opened SELF` when the device SELF is opened, `refused` when a recording
   is, `touched` when something of a lost device is released, which must be abandoned, and `closed
   CALLS LEFT` when a device is closed: how many calls were counted, and how many objects nobody had
   released.

   Built twice: `fault`, and `faultstaged`, which hides that its memory is the host's and that it
   can record, so that core has to stage transfers as for a GPU. */
#ifndef DPT_TEST_FAULT_H
#define DPT_TEST_FAULT_H

#include "backend.h"

/* Mistakes that tests must notice. */
#define FAULT_BUG_LIST(X)                                                                          \
    X(NONE, none)                                                                                  \
    X(DROP, drop)         /* the softmax gradient is zero: this device's share is lost */          \
    X(SCALE, scale)       /* the softmax gradient is divided by the share, not the batch */        \
    X(STALE, stale)       /* SGD does nothing on every second call */                              \
    X(PART, part)         /* a batch-norm's part is zero: its samples are lost */                  \
    X(TALLY, tally)       /* a batch-norm's part counts twice the values */                        \
    X(FROZEN, frozen)     /* running statistics stay as they are */                                \
    X(WRONG, wrong)       /* one element of every output is off by a thousandth */                 \
    X(LAZY, lazy)         /* the last element of every output is not written */                    \
    X(OVERRUN, overrun)   /* one element behind every output is written */                         \
    X(INPUT, input)       /* the first element of every input is changed */                        \
    X(UNSTABLE, unstable) /* every second run differs in the last bit */                           \
    X(SUM, sum)           /* an element of an island's sum is one too much */                      \
    X(APART, apart)       /* its last bit is another one at this device than at the others */      \
    X(SHAKY, shaky)       /* likewise, at all, in every second sum */

typedef enum fault_bug {
#define FAULT_BUG_ENUM(name, word) FAULT_BUG_##name,
    FAULT_BUG_LIST(FAULT_BUG_ENUM)
#undef FAULT_BUG_ENUM
        FAULT_BUG_COUNT
} fault_bug;

typedef enum fault_object_kind {
    FAULT_BUFFER,
    FAULT_HOST,
    FAULT_STREAM,
    FAULT_EVENT,
    FAULT_OP,
    FAULT_RECORDING,
} fault_object_kind;

/* Something that was created and not released yet. */
typedef struct fault_object {
    fault_object_kind kind;
    void *handle;
    struct fault_object *next;
} fault_object;

typedef struct fault_state {
    dpt_device inner; /* what the wrapped backend sees */
    size_t fail, lost, full, lasting, room, from, clock, after, domain, hang, stall;
    size_t again, only, readmission, opening, starve;
    size_t poison, smudge, huge, flip, wreck, place;
    size_t island, stick, narrow, late, lag, cache;
    char entry[24], refuses[8];
    fault_bug bug;
    size_t n_calls, n_counted_full, n_updates;
    double seconds; /* of the simulated clock */
    bool is_lost, is_closing;
    fault_object *objects; /* the last created first */
} fault_state;

/* Until so many collectives of a communicator are done, or it is aborted; NULL: for nothing. */
typedef struct fault_wait {
    dpt_communicator *communicator;
    size_t n;
} fault_wait;

/* A download that is behind a collective. */
typedef struct fault_download {
    void *host;
    dpt_location from;
    size_t n_bytes;
    fault_wait behind;
} fault_download;

struct dpt_stream {
    dpt_device *device;
    dpt_stream *inner;
    dpt_recording *recording; /* not NULL from capture.begin to end */
    fault_wait waits;
    fault_download *downloads; /* in their order */
    size_t n_downloads;
};

struct dpt_event {
    dpt_device *device;
    dpt_event *inner;
    double seconds;     /* of the simulated clock, when it was recorded */
    dpt_stream *stream; /* there, */
    fault_wait waits;   /* behind this */
};

struct dpt_op {
    dpt_op_desc desc;
    dpt_op *inner;
    size_t n_runs;
};

static inline fault_state *fault_of(dpt_device *device)
{
    return device->state;
}

/* The wrapped backend; NULL with the reason in *error (which may be NULL). */
const dpt_backend *fault_inner(dpt_error *error);

/* Reads and takes out this plug-in's own parameters.  DPT_E_INVALID. */
dpt_status fault_parse(dpt_device *device, const dpt_device_request *request);
/* Behind it: counts the opening; a failure if it is to fail. */
dpt_status fault_appear(dpt_device *device, size_t self);
/* The requests without the own parameters, in one allocation to be freed; NULL without memory. */
dpt_device_request *fault_strip(const dpt_open_args *args);

/* Counts a call; a failure if it is this one's turn. */
dpt_status fault_enter(dpt_device *device, const char *entry);
/* Counts one that cannot fail, if entry= names it; it may hang. */
void fault_let_go(dpt_device *device, const char *entry);
/* Hangs if $DPTRAIN_FAULT_HANG names this call. */
void fault_hang_if_told(const char *backend, const char *call);
/* A failure if so many samples are too many. */
dpt_status fault_hold(dpt_device *device, size_t n_samples);
/* Copies the record of the wrapped device if a forwarded call failed; returns the status. */
dpt_status fault_forwarded(dpt_device *device, dpt_status status);

/* Remembers an object / forgets it.  track fails without memory. */
bool fault_track(dpt_device *device, fault_object_kind kind, void *handle);
void fault_forget(dpt_device *device, const void *handle);
size_t fault_count_objects(const fault_state *state);
DPT_PRINTF(1, 2) void fault_report(const char *format, ...);

/* Runs an operator on the wrapped device, with the planted bug. */
dpt_status fault_run(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args);

extern const dpt_capture_ops fault_capture_ops;
extern const dpt_collective_ops fault_collective_ops;

/* Whether it is over; waits until it is. */
bool fault_passed(const fault_wait *wait);
void fault_await(const fault_wait *wait);

/* A call to be recorded: a run if there is an op, a copy if there is a source, else a fill. */
typedef struct fault_call {
    dpt_op *op;
    size_t n_samples;
    dpt_op_args args;
    dpt_location to, from;
    uint32_t pattern;
    size_t n_bytes;
} fault_call;

/* False if the stream does not record.  Else the call is added to the recording, and *status tells
   whether it could be. */
bool fault_record(dpt_stream *stream, const fault_call *call, dpt_status *status);

#endif
