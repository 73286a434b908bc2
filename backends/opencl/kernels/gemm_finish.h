/* Applying bias, activation and mask to an element of a product. */
#ifndef DPT_KERNELS_GEMM_FINISH_H
#define DPT_KERNELS_GEMM_FINISH_H

#include "activation.h"
#include "gemm_params.h"

/* `at`: the index of the element in C and in the mask.  `column`: its column. */
DEVICE float gemm_finish(const gemm_params *p, float x, GLOBAL const float *bias,
                         GLOBAL const float *mask, u64 at, u32 column)
{
    if (p->has_bias) x += bias[column];
    x = activate(p->activation, x);
    if (p->mask_activation == ACTIVATION_NONE) return x;
    return x * activation_slope(p->mask_activation, mask[at]);
}

#endif
