/* What the public collectives over arrays share (arrays.c): who takes part, checks, jobs on all
   devices, and votes of processes.  arrays_reduce.c is the all-reduce, arrays_scatter.c the
   reduce-scatter, and arrays_gather.c the all-gather and the broadcast.

   Arrays are combined in host memory.  Processes vote before they exchange data, because the others
   would wait for a process that cannot take part.  They vote again at the end, so that all
   processes fail or none. */
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

/* The call of the public function. */
typedef struct dpti_arrays_request {
    dpti_arrays_kind kind;
    dpt_array *const *arrays, *const *parts; /* parts: for a reduce-scatter and an all-gather */
    size_t n;
    size_t root; /* for a broadcast */
} dpti_arrays_request;

typedef struct dpti_arrays dpti_arrays;
typedef struct dpti_seat dpti_seat;

/* [driver] One step of the collective on one device.  A failure is in the device's record or in
   seat->error. */
typedef dpt_status dpti_seat_job(dpti_seat *seat);

/* A device of this process that takes part. */
struct dpti_seat {
    dpti_arrays *call;
    size_t rank; /* in this process */
    dpt_array *array;
    /* Set once the processes have agreed.  In a broadcast: the root's array, in the root's own
       seat. NULL: no part. */
    dpt_array *part;
    size_t begin,
        end; /* the elements of the whole that are the part; set once the processes have agreed */
    dpti_view view;      /* of the array; a collective that opens it closes it in its `close` */
    dpti_view part_view; /* of the part; likewise */
    bool in_place;       /* for arrays_gather.c */
    dpt_status verdict;  /* for arrays_reduce.c: the verdict of all devices */
    dpti_seat_job *job;
    uint64_t ticket;
    dpti_watch watch;
    dpt_error error; /* of the last job */
};

/* What each process says about its call, so that all can check that the calls agree. */
typedef struct dpti_arrays_terms {
    uint64_t kind, n, size, part_size, root; /* part_size: the sum of its parts */
} dpti_arrays_terms;

/* A call that is running. */
struct dpti_arrays {
    dpti_arrays_kind kind;
    dpt_context *context;
    dpti_processes *processes; /* NULL: this one alone */
    size_t n, size;            /* number of seats; elements of every array */
    dpti_seat *seats;
    size_t n_processes, rank;
    dpti_arrays_terms *terms; /* (n_processes) */
    /* (n_processes + 1) The slices of the processes, once they have agreed.  In a broadcast the
       slice of the root is the whole. */
    size_t *slices;
    size_t *begins; /* (n_processes + 1) */
    void *state;    /* memory of the particular collective */
    const struct dpti_arrays_steps *steps;
    bool works; /* the processes have agreed */
    bool hung;  /* a device did not answer: no memory of the call is freed */
};

/* The steps of a particular collective.  `open` and `work` return failures of this process; all
   processes learn of them before they go on.  `work` makes the same exchanges in all processes,
   whatever fails on the devices of this process. */
typedef struct dpti_arrays_steps {
    dpt_status (*open)(dpti_arrays *call);
    dpt_status (*work)(dpti_arrays *call);
    /* May be NULL.  Called after the last vote, for failures that all processes see alike. */
    dpt_status (*judge)(dpti_arrays *call);
    /* May be NULL.  Called when a device hangs: ends jobs of other devices that wait for it. */
    void (*cancel)(dpti_arrays *call);
    void (*close)(dpti_arrays *call); /* called if open was called, however that ended */
} dpti_arrays_steps;

DPT_CHECK_RESULT dpt_status dpti_arrays_run(const dpti_arrays_steps *steps,
                                            const dpti_arrays_request *request);

/* Runs a job on all devices at the same time and waits for all of them.  Returns the first failure,
   which is then the context's, or the failure of a device that does not answer in time. */
dpt_status dpti_arrays_on_all(dpti_arrays *call, dpti_seat_job *job);
/* Runs a collective over processes, if there are several, and waits for it.  Fails as the transport
   does. */
DPT_CHECK_RESULT dpt_status dpti_arrays_exchange(dpti_arrays *call, const dpti_collective *what);
/* Records a failure of the call itself, with the collective's name in front. */
DPT_PRINTF(3, 4)
dpt_status dpti_arrays_fail(dpti_arrays *call, dpt_status status, const char *format, ...);

/* [driver] Returns the failure that made the array's contents invalid; DPT_OK if they are valid. */
DPT_CHECK_RESULT dpt_status dpti_seat_check(dpti_seat *seat, const dpt_array *array);

#endif
