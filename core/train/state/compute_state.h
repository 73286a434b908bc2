/* The fields of compute: what each driver thread knows about its steps.

   Only files of core/train/compute touch these fields.  Other concerns call the functions that
   step.h, shard.h, single_launch.h, window.h and finite.h declare. */
#ifndef DPTI_COMPUTE_STATE_H
#define DPTI_COMPUTE_STATE_H

#include "graph/replica.h"
#include "train/components/finite_check.h"
#include "train/state/in_flight_step.h"

/* A transfer that is on its way to the device, which the next segment waits for, and whose time is
   counted with that segment. */
typedef enum dpti_pending_transfer {
    DPTI_PENDING_NONE = 0,
    DPTI_PENDING_UPLOAD,   /* samples: counts as upload */
    DPTI_PENDING_EXCHANGE, /* parts of batch-norms: counts as exchange */
} dpti_pending_transfer;

/* What failed steps have left behind on the device.  Any sum of these bits is legal.
 */
enum {
    DPTI_LEFT_GRADIENTS = 1 << 0,    /* gradients may not be zero where no segment writes them */
    DPTI_LEFT_HALT_WORD = 1 << 1,    /* the halt word may be set: a single-launch step failed */
    DPTI_LEFT_SHORT_UPDATE = 1 << 2, /* the last update failed for lack of memory */
};

/* What the driver thread knows about its steps.  The driver thread alone reads and writes these
   fields while a step is in flight.  The caller's thread resets halted_step when nothing is.

   Any combination is legal, with one exception: DPTI_LEFT_HALT_WORD is set only on a worker that
   has a single-launch program. */
typedef struct dpti_driver_state {
    size_t halted_step;            /* the step that failed, from 1; steps in flight behind it are
                                      skipped.  0: no step failed */
    unsigned left;                 /* bits of what failed steps have left behind */
    dpti_pending_transfer pending; /* transfer before the next segment */
    bool first_run;                /* this step has a first run, so its times say nothing */
} dpti_driver_state;

/* Events in a device's stream by which a single-launch step is timed. */
typedef struct dpti_marks {
    dpt_event *moving;      /* before the step's transfers */
    dpt_event *start, *end; /* around the step's segment */
    dpt_event *passed;      /* behind the step's results */
} dpti_marks;

/* The second program, by which a device that is left alone does single-launch steps. */
typedef enum dpti_alone_state {
    DPTI_ALONE_NOT_MADE = 0, /* the device was not alone yet, or the program was destroyed */
    DPTI_ALONE_MADE,
    DPTI_ALONE_REFUSED, /* the program could not be made: steps stay in segments */
} dpti_alone_state;

typedef struct dpti_single_launch {
    dpti_executable *program; /* steps are one piece of work by this program; NULL: several pieces.
                                 The caller's thread sets it when nothing is in flight */
    dpti_executable alone;    /* with DPTI_ALONE_MADE */
    dpti_alone_state alone_state;
    dpti_marks marks[DPTI_STEP_SLOTS]; /* of the steps in flight */
    dpt_event *last_end;               /* end of the last step that is over; NULL: not known */
    double ended;                      /* when that was, by the host's clock */
} dpti_single_launch;

typedef struct dpti_worker_compute {
    dpti_driver_state driver;
    dpti_single_launch single;
    dpti_finite finite; /* of all gradients: where the device is alone, or they are its island's sum
                         */
    float *kept;   /* host memory: gradients of buckets between micro-batches (window.h), or NULL */
    size_t n_kept; /* nodes of grains for which it has room; 1 without grains */
} dpti_worker_compute;

#endif
