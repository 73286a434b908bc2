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
typedef enum dpti_pass_reason {
    DPTI_PASS_UNLIMITED = 0, /* whatever its memory holds */
    DPTI_PASS_TOLD,          /* by an option, or by the log that is replayed */
    DPTI_PASS_CACHES,        /* its caches hold no more */
} dpti_pass_reason;

typedef struct dpti_pass_limit {
    size_t most; /* samples at once; SIZE_MAX: no limit */
    dpti_pass_reason reason;
} dpti_pass_limit;

typedef struct dpti_worker_plan {
    dpti_pass_limit pass_limit;
} dpti_worker_plan;

#endif
