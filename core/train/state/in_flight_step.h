/* The records of a step in flight: what the concerns of the trainer tell each other about a step.

   The pipeline owns the records.  The caller's thread fills in the first part of a shard before it
   posts the shard's job.  The driver thread of the shard's device fills in the second part while
   the job runs.  The caller's thread reads the second part when the job is over.  So neither part
   needs a lock. */
#ifndef DPTI_IN_FLIGHT_STEP_H
#define DPTI_IN_FLIGHT_STEP_H

#include "balance/balance.h"
#include "base/exact_sum.h"
#include "base/grains.h"
#include "base/times.h"
#include "dpt_types.h"
#include "dptrain.h"
#include "graph/replica.h"
#include "train/components/order.h"
#include "train/components/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most steps in flight: two, so that devices compute while the host looks at a step.  Slots: the
   steps in flight, and the two steps before them, whose metrics the caller may still hold. */
enum { DPTI_MAX_IN_FLIGHT = 2, DPTI_STEP_SLOTS = 4 };

struct dpti_worker;

/* The part of one step that one device computes: its shard, and what came of it. */
typedef struct dpti_shard {
    /* Written by the caller's thread before the job is posted. */
    struct dpti_worker *worker;
    size_t step; /* number of the step, from 1 */
    float lr;    /* learning rate */
    size_t n_samples;
    size_t *of_batch;            /* (accumulate) samples of each of the step's n_batches batches */
    size_t n_batches;            /* batches of the step */
    dpti_grains grains;          /* of the batch, in deterministic training; else zero */
    size_t first_grain;          /* with which the shard begins */
    const size_t *grain_borders; /* the in-flight step's field of this name */
    uint8_t *staging;            /* step block and indices, laid out as the step buffer */
    size_t staged;               /* for how many samples the staging memory has room */
    size_t slot;                 /* slot of the host feed that holds the step's samples */
    bool late;                   /* as in dpti_contribution */
    bool idle;                   /* with local steps: no device of the process has samples, so that
                                    the step changes nothing */
    const dpt_error *unread;     /* why the step has no images; NULL if it has them */
    const bool *contributing;    /* the in-flight step's field of this name */
    float *result;               /* (capacity + 1, 2) losses and hits, then the halt word */
    uint64_t ticket;             /* of the job */
    /* Written by the job. */
    bool under_way;    /* a single-launch step is enqueued, and its outcome is not known yet */
    dpt_status status; /* DPT_E_CANCELLED: another device's failure, or none */
    dpt_error error;   /* with a status that is neither DPT_OK nor DPT_E_CANCELLED */
    bool committed;    /* all votes agreed */
    uint64_t hash;     /* of the replica, in a step that compares replicas */
    bool spoilt;       /* in such a step: its part of the state differs from the mirror */
    bool diverged;     /* the replica differs from another one, and no device goes on */
    const char *flaw;  /* with DPT_E_NOT_FINITE: what is not finite, such as "loss"; or
                          DPTI_FLAW_UNREAD */
    double loss;       /* sum over the shard's samples */
    dpti_exact_sum exact_loss; /* the same, of deterministic training */
    size_t hits;               /* labels that are classified correctly */
    dpti_times times;          /* by kind */
    bool first_run;            /* the times are those of a first run, or are not complete */
    double finished;           /* when the shard was done, by the host's clock */
} dpti_shard;

/* One step in flight, over all devices. */
typedef struct dpti_in_flight_step {
    dpti_cursor cursor; /* where training stood before the step */
    size_t n_samples;   /* of the global batch */
    size_t n_labels;    /* of the global batch, without ignored ones; at least 1 */
    double weight; /* the sum of the class weights of these labels, by which the loss is divided;
                      n_labels without class weights; above 0 */
    bool last_of_epoch;  /* the step ends an epoch */
    float lr;            /* learning rate */
    double submitted;    /* when, by the host's clock */
    double data_seconds; /* waiting for images that are read */
    dpt_error unread;    /* why this process has no images, or status DPT_OK */
    dpti_shard *jobs;    /* (n_workers) */
    bool *contributing;  /* (processes) which processes have samples; NULL with one process */
    /* (processes + 1) in deterministic training over several processes: process p has the grains
       [grain_borders[p], grain_borders[p + 1]). */
    size_t *grain_borders;
    dpti_outcome *outcomes;     /* (n_devices) of all processes' devices, when the step is over */
    dpt_error failure;          /* with several processes: the first failure, or status DPT_OK */
    bool diverged;              /* the failure is that processes took different steps */
    uint64_t weights;           /* as in dpti_outcome */
    size_t *shards;             /* (n_devices) samples of each device */
    double *device_seconds;     /* (n_devices) busy time */
    double *exchange_seconds;   /* (n_devices) uploads and exchanges, which are part of busy time */
    double *waiting_seconds;    /* (n_devices) waiting for other devices */
    double *throughput;         /* (n_devices) samples a second, as measured; 0: not known yet */
    dpti_balance_reason reason; /* why the shards differ from those of the step before */
} dpti_in_flight_step;

/* Where the indices of a shard's samples stand in its staging memory. */
static inline uint32_t *dpti_shard_indices(const dpti_shard *shard)
{
    return (uint32_t *)(void *)(shard->staging + DPTI_STEP_INDEX_OFFSET);
}

/* Of a training that mixes samples: where the indices of their partners stand, and what is drawn
   for each sample. */
static inline uint32_t *dpti_shard_partners(const dpti_shard *shard)
{
    return (uint32_t *)(void *)(shard->staging + dpti_step_partners_offset(shard->staged));
}

static inline float *dpti_shard_mix(const dpti_shard *shard)
{
    return (float *)(void *)(shard->staging + dpti_step_mix_offset(shard->staged));
}

#endif
