/* What the public collectives over arrays share (arrays.c): who takes part and what is checked,
   jobs on all devices, votes of processes.  arrays_reduce.c is the all-reduce, arrays_scatter.c the
   reduce-scatter, arrays_gather.c the all-gather and the broadcast.

   Arrays meet in host memory.  Processes vote before anything goes between them, since whoever
   cannot take part would be waited for, and when all is done, so that all fail or none. */
#ifndef DPTI_ARRAYS_H
#define DPTI_ARRAYS_H

#include "collective/processes.h"
#include "collective/view.h"
#include "device/array.h"
#include "device/call_limit.h"

typedef enum dpti_arrays_kind {
    DPTI_ARRAYS_ALL_REDUCE,
    DPTI_ARRAYS_BROADCAST,
    DPTI_ARRAYS_REDUCE_SCATTER,
    DPTI_ARRAYS_ALL_GATHER,
} dpti_arrays_kind;

/* What the caller asks for. */
typedef struct dpti_arrays_request {
    dpti_arrays_kind kind;
    dpt_array *const *arrays, *const *parts; /* parts: of a reduce-scatter and an all-gather */
    size_t n;
    size_t root; /* of a broadcast */
} dpti_arrays_request;

typedef struct dpti_arrays dpti_arrays;
typedef struct dpti_seat dpti_seat;

/* [driver] A step of one device.  Its failure stands in the device's record, or in seat->error. */
typedef dpt_status dpti_seat_job(dpti_seat *seat);

/* A device of this process. */
struct dpti_seat {
    dpti_arrays *call;
    size_t rank; /* in this process */
    dpt_array *array;
    /* Of a broadcast the root's array, in its own seat, once processes have agreed.  NULL: none. */
    dpt_array *part;
    size_t begin, end;   /* elements of the whole that are its part's, once processes have agreed */
    dpti_view view;      /* of the array, for whoever opens it: */
    dpti_view part_view; /* its close closes it */
    bool in_place;       /* arrays_gather.c's */
    dpt_status verdict;  /* arrays_reduce.c's: of all devices */
    dpti_seat_job *job;
    uint64_t ticket;
    dpti_watch watch;
    dpt_error error; /* of the last job */
};

/* What a process says of its call. */
typedef struct dpti_arrays_terms {
    uint64_t kind, n, size, part_size, root; /* part_size: of all its parts */
} dpti_arrays_terms;

/* A call. */
struct dpti_arrays {
    dpti_arrays_kind kind;
    dpt_context *context;
    dpti_processes *processes; /* NULL: this one alone */
    size_t n, size;            /* seats; elements of every array */
    dpti_seat *seats;
    size_t n_processes, rank;
    dpti_arrays_terms *terms; /* (n_processes) */
    /* (n_processes + 1) The whole by processes, once they have agreed; of a broadcast it is the
       root's. */
    size_t *slices;
    size_t *begins; /* (n_processes + 1) */
    void *state;    /* the collective's own */
    const struct dpti_arrays_steps *steps;
    bool works; /* the processes have agreed */
    bool hung;  /* a device did not answer: nothing of the call is released */
};

/* What a collective does.  `open` and `work` return failures of this process, of which all learn
   before it goes on.  work makes the same exchanges in all processes, whatever fails on this one's
   devices. */
typedef struct dpti_arrays_steps {
    dpt_status (*open)(dpti_arrays *call);
    dpt_status (*work)(dpti_arrays *call);
    /* May be NULL: behind the last vote, what all processes see alike. */
    dpt_status (*judge)(dpti_arrays *call);
    /* May be NULL: a device hangs, and jobs of others that wait for it end. */
    void (*cancel)(dpti_arrays *call);
    void (*close)(dpti_arrays *call); /* if open was called, however it ended */
} dpti_arrays_steps;

DPT_CHECK_RESULT dpt_status dpti_arrays_run(const dpti_arrays_steps *steps,
                                            const dpti_arrays_request *request);

/* A job on all devices at the same time; waits for all.  The first failure, as the context's; or
   that of a device that does not answer in time. */
dpt_status dpti_arrays_on_all(dpti_arrays *call, dpti_seat_job *job);
/* Over processes, if there are several; waits.  A failure is the transport's. */
DPT_CHECK_RESULT dpt_status dpti_arrays_exchange(dpti_arrays *call, const dpti_collective *what);
/* Records a failure of the call itself, with the collective's name in front. */
DPT_PRINTF(3, 4)
dpt_status dpti_arrays_fail(dpti_arrays *call, dpt_status status, const char *format, ...);

/* [driver] Fails with what makes the array's contents invalid, if anything does. */
DPT_CHECK_RESULT dpt_status dpti_seat_check(dpti_seat *seat, const dpt_array *array);

#endif
