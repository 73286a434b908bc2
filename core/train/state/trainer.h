/* The trainer and its workers: what each concern of training keeps, put together.

   A trainer trains one model on one data set.  It has one worker for each device of this process.
   The caller's thread submits a step: it posts one job, a shard, to each device's driver thread.
   The caller's thread collects the step: it waits for these jobs and reads their results.  The jobs
   of a step meet in the all-reduce, where they also vote; only a unanimous step is committed.
   Nothing here needs a lock: what the caller's thread writes is posted with the job, and what a job
   writes is read when the job is over.

   A trainer has these concerns, the lowest first.  A concern calls only concerns above it in this
   list, never one below it.  Each concern X has a folder core/train/X with its functions.  Its
   fields are one struct in the trainer and one in each worker (X_state.h in this folder):

       progress     where training stands; the records of steps in flight; checks of calls
       membership   device state, replica validity, calls that do not return, events
       peers        the devices of all processes, and what processes agree on
       rounds       where rounds of local steps end, and the outer step
       plan         dividing a batch into shards, and a shard into micro-batches
       feeding      the order of samples, reading images, sending samples
       exchange     all-reduce, batch-norms' parts, islands, the link between processes
       standby      which devices are left out of steps
       replicas     reading, writing, copying and comparing the training state
       compute      what a driver thread does in a step
       programs     making a worker: its replica, its programs of training and of evaluation
       recovery     losing, restoring and readmitting devices, lack of memory, written samples
       evaluation   loss and accuracy over a data set, and predictions
       pipeline     submitting, collecting and retrying steps

   The files of core/train itself create and describe a trainer, and may call every concern.  What
   knows no trainer is in core/train/components, which all concerns may use.

   A file touches the fields of its own concern alone; for another concern's it calls a function of
   that concern.  scripts/check_concerns.py checks this; docs/design/trainer.md explains it. */
#ifndef DPTI_TRAINER_H
#define DPTI_TRAINER_H

#include "train/state/compute_state.h"
#include "train/state/evaluation_state.h"
#include "train/state/exchange_state.h"
#include "train/state/feeding_state.h"
#include "train/state/in_flight_step.h"
#include "train/state/membership_state.h"
#include "train/state/peers_state.h"
#include "train/state/pipeline_state.h"
#include "train/state/plan_state.h"
#include "train/state/programs_state.h"
#include "train/state/progress_state.h"
#include "train/state/recovery_state.h"
#include "train/state/replicas_state.h"
#include "train/state/rounds_state.h"
#include "train/state/standby_state.h"

#include "collective/processes.h"
#include "io/log.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Which calls a program may make on a trainer that dpt_fit runs: it depends on the callback in
   which the program makes them. */
typedef enum dpti_callback {
    DPTI_CALLBACK_NONE = 0, /* no callback: dpt_fit makes the call itself, or does not run */
    DPTI_CALLBACK_OF_EPOCH, /* behind an epoch: nothing is in flight */
    DPTI_CALLBACK_OTHER,    /* of a step, an event, a notice */
} dpti_callback;

/* What DPT_SHARD_AUTO has tried (choose.c). */
enum { DPTI_MOST_CANDIDATES = 14 };
typedef struct dpti_candidates {
    size_t n;
    dpt_candidate list[DPTI_MOST_CANDIDATES];
} dpti_candidates;

/* The trainer's record of one device of this process. */
struct dpti_worker {
    dpt_trainer *trainer;
    dpti_device *device;
    size_t rank;     /* among the workers of this process */
    size_t capacity; /* most samples of a batch in its shard */
    dpti_replica
        replica; /* its capacity: most samples at once; a larger shard takes micro-batches */
    dpti_executable train; /* the program of training, bound to the replica */
    bool recomputes;       /* that program computes activations again */
    /* The algorithms that the device took when its worker was made first.  It takes the same when
       it is made anew, for other shards and for evaluation, so that the choices in the log are
       those of the whole run. */
    dpti_recorded_choices kept;
    /* The concerns' parts. */
    dpti_worker_progress progress;
    dpti_worker_membership membership;
    dpti_worker_plan plan;
    dpti_worker_feeding feeding;
    dpti_worker_exchange exchange;
    dpti_worker_standby standby;
    dpti_worker_replicas replicas;
    dpti_worker_compute compute;
    dpti_worker_programs programs;
    dpti_worker_recovery recovery;
};

struct dpt_trainer {
    /* What the trainer was told, and what follows from that.  Fixed when dpt_trainer_create has
       returned, but for lr and callback; every concern may read it. */
    dpt_context *context;
    const dpt_device_set *devices;
    const dpt_model *model; /* `arranged`, or the caller's */
    dpt_model *arranged;    /* with frozen parameters behind the others; NULL: none is frozen */
    const dpt_dataset *data;
    dpti_program_options program;
    size_t batch_size;
    size_t micro_batch; /* most samples at once; 0: no limit was given */
    size_t accumulate;  /* batches of a step, at least 1 */
    size_t local_steps; /* steps of a round, which processes take by themselves; 0: all processes
                           share each step */
    float outer_lr, outer_momentum; /* of the step at the end of a round */
    size_t outer_delay; /* steps of the next round behind which that step is taken; 0: none */
    size_t n_fragments; /* of the parameters, which are exchanged one after the other; at least 1 */
    size_t joined;      /* batches that were made one batch of `batch_size` samples, at least 1 */
    dpt_recompute recompute;
    dpti_candidates candidates; /* n 0: nothing was to be chosen */
    size_t n_gradients;         /* elements of the flat buffer of the gradients (dpti_program) */
    uint64_t seed;
    dpt_init init; /* of the initial weights */
    bool shuffle;  /* samples are taken in a new order in each epoch */
    dpt_batch_norm_mode batch_norm;
    dpt_compression compress;
    size_t compress_rank;       /* of DPT_COMPRESS_LOWRANK */
    float lr;                   /* of the next step */
    dpti_parameter_rule *rules; /* (n_parameters) those of `program`; NULL: none */
    float *class_weights;       /* (classes) those of `program`; NULL: none */
    bool measured;              /* shards follow measured throughput; never with one device */
    bool in_micro_batches;  /* with measured: the devices together hold less at once than a batch */
    bool stop_on_loss;      /* a lost device ends the call */
    double device_timeout;  /* seconds; 0: by default */
    dpti_replay replay;     /* the shards of the log that is replayed; n_steps 0: none is */
    dpti_callback callback; /* in which dpt_fit waits for the caller's program */
    dpti_processes *processes;         /* NULL: there is one process */
    size_t n_devices;                  /* of all processes */
    size_t first_device;               /* the number, among these, of this process's first device */
    size_t n_workers;                  /* devices of this process */
    dpti_worker *workers;              /* (n_workers) */
    dpti_recorded_choices *algorithms; /* (n_devices) that devices took (algorithms.c); NULL with
                                          one process */
    /* The concerns' parts. */
    dpti_trainer_progress progress;
    dpti_members membership;
    dpti_peers peers;
    dpti_rounds rounds;
    dpti_trainer_plan plan;
    dpti_feeding feeding;
    dpti_trainer_exchange exchange;
    dpti_standby standby;
    dpti_trainer_replicas replicas;
    dpti_trainer_programs programs;
    dpti_trainer_recovery recovery;
    dpti_trainer_evaluation evaluation;
    dpti_trainer_pipeline pipeline;
};

/* Samples of a step; the last step of an epoch may have fewer. */
static inline size_t dpti_step_samples(const dpt_trainer *trainer)
{
    return trainer->batch_size * trainer->accumulate;
}

/* The processes whose devices share each step, and how many devices do: those of all processes, or
   with local steps this process's own.  NULL: one process. */
static inline dpti_processes *dpti_step_processes(const dpt_trainer *trainer)
{
    return trainer->local_steps > 0 ? NULL : trainer->processes;
}

static inline size_t dpti_step_devices(const dpt_trainer *trainer)
{
    return trainer->local_steps > 0 ? trainer->n_workers : trainer->n_devices;
}

/* Whether a worker's shards can have more samples than it computes at once. */
static inline bool dpti_has_micro_batches(const dpti_worker *worker)
{
    return worker->replica.capacity < worker->capacity;
}

#endif
