/* The fault backend for tests.  It wraps another backend (the plug-in that $DPTRAIN_FAULT_INNER
   names, whose memory must be the host's), forwards every call, and fails or falsifies the calls
   that the parameters of its device string select:

   fail=N        the N-th call after open that can fail, fails with DPT_E_DEVICE
   lost=N        from the N-th call on every call fails with DPT_E_DEVICE_LOST
   full=N        the N-th call fails with DPT_E_NO_MEMORY,
   for=M         and so do the next M - 1 calls
   room=N        every run of more than N samples fails with DPT_E_NO_MEMORY
   from=K        `full` and `room` act from step K on: after K - 1 runs of the optimizer
   starve=K      the K-th run of the optimizer has no memory, and neither have the next `for` - 1
   hang=N        the N-th call does not return
   stall=MS      with `hang`: the call returns after MS milliseconds, as if nothing had happened
   after=K       calls are counted only after K runs of the optimizer
   again=M       all faults act only in the first M openings of the device (default: in all; with
                 `away`: in the first)
   only=K        all faults act only in the K-th opening
   away=K        the K openings after the first one fail
   domain=N      devices with the same number are in one fault domain
   island=N      devices with the same number form an island (fault_collective.c)
   stick=N       from the N-th collective of its communicator on no collective ends in this process
   narrow=1      communicators are limited to one process
   cache=BYTES   the size of the device's caches
   entry=NAME    counts calls of this vtable entry only ("run", "sync").  Entries that cannot fail,
                 and can only hang, are counted only if they are named: "free", "host_free",
                 "stream_free", "event_free", "release", "recording_free", "destroy" and "close";
                 likewise "open"
   clock=MS      events report a simulated time: MS milliseconds per trained sample
   bug=NAME      plants a bug (fault_bug)
   poison=K      the gradients of weights have an infinite element in step K
   smudge=K      the parts of batch-norms have an infinite element in step K
   huge=K        gradients have an element close to the largest number in step K
   flip=K        after the K-th update one bit of the optimizer's output is flipped
   wreck=K       after the K-th update one element of the optimizer's output is NaN
   place=N       the output that `flip` and `wreck` change, from 1 (default 1): the weights, the
                 first moment, the second moment
   apart=1       does not say that it is the host's CPU
   late=1        records only work that has run once before
   varies=1      does not say that it can compute deterministically
   lag=1         an event counts as passed only after a wait for it or for its stream
   refuses=WHAT  refuses recording at its "begin", its "end" or a recorded "run"; or refuses to
                 wrap ("wrap") a small part of the host's memory
   All other parameters are passed on.

   $DPTRAIN_FAULT_HANG=BACKEND:CALL[:MS] makes a call hang that no parameter can select: "load" (the
   entry of the plug-in), "probe", "describe", "open" of a device without parameters.
   $DPTRAIN_FAULT_APART, if set, makes the device look like separate hardware, so that "all"
   includes it.

   The backend appends lines to the file that $DPTRAIN_FAULT_REPORT names: `fired CALL ENTRY` when a
   fault acts; `joined N` and `parted N` when a communicator is created and destroyed; `order WHAT`
   when a rule of communicators is broken; `opened SELF` when the device SELF is opened; `refused`
   when a recording is refused; `touched` when an object of a lost device is released, which must be
   abandoned instead; `closed CALLS LEFT` when a device is closed, with the number of counted calls
   and the number of objects that were not released.

   The backend is built twice: `fault`, and `faultstaged`, which hides that its memory is the host's
   and that it can record.  So core has to stage transfers as for a GPU. */
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
    X(FLUSH, flush)       /* subnormal results become 0 */                                         \
    X(ROUND, round)       /* a gradient of filters is rounded otherwise */                         \
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
    size_t island, stick, narrow, late, lag, cache, varies, apart;
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
