/* The fields of the plan: how a batch is divided among the devices, and into micro-batches.

   Only files of core/train/plan touch these fields.  Other concerns call the functions that
   shards.h and micro_batches.h declare. */
#ifndef DPTI_PLAN_STATE_H
#define DPTI_PLAN_STATE_H

#include "balance/account.h"
#include "balance/balance.h"
#include "balance/split.h"

/* The trainer's part.  The caller's thread alone reads and writes it. */
typedef struct dpti_trainer_plan {
    char *split_text;      /* as the caller gave it */
    dpti_split split;      /* of steps with fixed shards, and of evaluation */
    dpti_balance *balance; /* with measured shards, else NULL */
    dpti_account account;  /* sums of what devices have done */
} dpti_trainer_plan;

/* ---- A worker's part ------------------------------------------------------------------------- */

/* Why a worker computes a limited number of samples at once. */
typedef enum dpti_limit_reason {
    DPTI_LIMIT_NONE = 0, /* whatever its memory holds */
    DPTI_LIMIT_GIVEN,    /* by an option, or by the log that is replayed */
    DPTI_LIMIT_CACHES,   /* its caches hold no more */
} dpti_limit_reason;

typedef struct dpti_micro_batch_limit {
    size_t most; /* samples at once; SIZE_MAX: no limit */
    dpti_limit_reason reason;
} dpti_micro_batch_limit;

typedef struct dpti_worker_plan {
    dpti_micro_batch_limit micro_batch_limit;
} dpti_worker_plan;

#endif
