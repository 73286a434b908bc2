/* Parameters of sgd.cl. */
#ifndef DPT_KERNELS_SGD_H
#define DPT_KERNELS_SGD_H

#include "dialect.h"

typedef struct sgd_params {
    u64 count, decay_count;
    float momentum, weight_decay;
    u32 nesterov;
    u32 halts; /* there is a halt word (HALTED) */
} sgd_params;

#endif
