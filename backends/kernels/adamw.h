/* Parameters of adamw.cl. */
#ifndef DPT_KERNELS_ADAMW_H
#define DPT_KERNELS_ADAMW_H

#include "dialect.h"

typedef struct adamw_params {
    u64 count, decay_count;
    float beta1, beta2, epsilon, weight_decay;
    u32 halts; /* there is a halt word (HALTED) */
    u32 unused;
} adamw_params;

#endif
