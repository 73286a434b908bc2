/* How an element of a product ends: bias, activation, mask. */
#ifndef DPT_KERNELS_GEMM_FINISH_H
#define DPT_KERNELS_GEMM_FINISH_H

#include "activation.h"
#include "gemm_params.h"

/* `at` of the element in C and in the mask, in column `column`. */
DEVICE float gemm_finish(const gemm_params *p, float x, GLOBAL const float *bias,
                         GLOBAL const float *mask, u64 at, u32 column)
{
    if (p->has_bias) x += bias[column];
    x = activate(p->activation, x);
    if (p->mask_activation == ACTIVATION_NONE) return x;
    return x * activation_slope(p->mask_activation, mask[at]);
}

#endif
