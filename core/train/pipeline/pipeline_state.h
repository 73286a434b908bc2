/* The fields of the pipeline: the plan of steps, what is in flight, and what each driver thread
   knows about its steps.

   Only files of this folder touch these fields.  Other concerns call the functions that
   in_flight.h, shards.h, step.h, single_launch.h, finite.h and micro_batches.h declare. */
#ifndef DPTI_PIPELINE_STATE_H
#define DPTI_PIPELINE_STATE_H

#include "balance/account.h"
#include "balance/balance.h"
#include "balance/split.h"
#include "collective/allgather.h"
#include "graph/replica.h"
#include "train/in_flight_step.h"

struct dpt_trainer;

/* The trainer's part.  The caller's thread alone writes it. */
typedef struct dpti_trainer_pipeline {
    dpt_status (*catch_up)(struct dpt_trainer *trainer); /* retries steps (steps.c) */
    dpti_in_flight_step slots[DPTI_STEP_SLOTS]; /* step s, from 0, uses slot s % DPTI_STEP_SLOTS */
    size_t n_in_flight;
    dpti_cursor done;      /* behind the last committed step that was collected */
    dpti_cursor next;      /* before the next step to be submitted */
    dpt_error unsubmitted; /* why a step that was in flight could not be submitted again behind one
                              that could; or status DPT_OK */
    float unsubmitted_lr;  /* the learning rate with which that step is tried again */
    double last_finished;  /* when the last collected step ended, by the host's clock */
    bool traced;           /* shares keep the spans of their times */
    /* The plan: how a batch is divided among the devices (shards.c). */
    char *split_text;      /* as the caller gave it */
    dpti_split split;      /* of steps with fixed shards, and of evaluation */
    dpti_balance *balance; /* with measured shards, else NULL */
    dpti_account account;  /* sums of what devices have done */
} dpti_trainer_pipeline;

/* ---- A worker's part ------------------------------------------------------------------------- */

/* A transfer that is on its way to the device, which the next segment waits for, and whose time is
   counted with that segment. */
typedef enum dpti_pending_transfer {
    DPTI_PENDING_NONE = 0,
    DPTI_PENDING_UPLOAD,   /* samples: counts as upload */
    DPTI_PENDING_EXCHANGE, /* parts of batch-norms: counts as exchange */
} dpti_pending_transfer;

/* What failed steps have left behind on the device.  Any of the four sums of these bits is legal.
 */
enum {
    DPTI_LEFT_GRADIENTS = 1 << 0, /* gradients may not be zero where no segment writes them */
    DPTI_LEFT_HALT_WORD = 1 << 1, /* the halt word may be set: a single-launch step failed */
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
    bool fresh;                    /* this step has a first run, so its times say nothing */
    bool starved;                  /* the last update failed for lack of memory */
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

/* A device's check of some of its gradients. */
typedef struct dpti_finite {
    bool looks; /* the fields below are made */
    dpti_op op;
    dpt_op_args args;
    dpti_buffer found; /* one float32 on the device; not 0 if any gradient is not finite */
    float *host;       /* host memory to which that is downloaded */
} dpti_finite;

/* Most places in which the gradients of one exchange lie. */
enum { DPTI_LOOK_PLACES = 2 };

/* The checks of a device in an island: for each segment of the training program that ends in an
   exchange of gradients, the gradients that the device contributes then. */
typedef struct dpti_looks {
    dpti_finite (*segments)[DPTI_LOOK_PLACES]; /* (n_segments); NULL: none are made */
    size_t n_segments;
} dpti_looks;

/* Why a worker computes a limited number of samples at once. */
typedef enum dpti_pass_reason {
    DPTI_PASS_UNLIMITED = 0, /* whatever its memory holds */
    DPTI_PASS_TOLD,          /* by an option, or by the log that is replayed */
    DPTI_PASS_CACHES,        /* its caches hold no more */
} dpti_pass_reason;

typedef struct dpti_pass_limit {
    size_t most; /* samples at once; SIZE_MAX: no limit */
    dpti_pass_reason reason;
} dpti_pass_limit;

typedef struct dpti_worker_pipeline {
    dpti_driver_state driver;
    dpti_single_launch single;
    dpti_finite finite; /* of all gradients: where the device is alone, or they are its island's sum
                         */
    dpti_looks looks;   /* made when the device is in an island first */
    dpti_pass_limit pass_limit;
    size_t last_step; /* the last step in which the device took part, from 1 */
} dpti_worker_pipeline;

#endif
