/* Parameters of elementwise.cl. */
#ifndef DPT_KERNELS_ELEMENTWISE_H
#define DPT_KERNELS_ELEMENTWISE_H

#include "dialect.h"

typedef struct elementwise_params {
    u64 count; /* elements of all samples */
    float alpha, beta;
    u32 halts;      /* of an operator that honours a halt word: HALTED */
    u32 accumulate; /* of an operator whose output is a sum: add to it */
} elementwise_params;

#endif
