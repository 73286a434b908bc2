/* Parameters of pool2d.cl. */
#ifndef DPT_KERNELS_POOL2D_H
#define DPT_KERNELS_POOL2D_H

#include "divide.h"

/* One sample's tensors have fewer than 2^31 elements. */
typedef struct pool2d_params {
    u32 in_h, in_w, out_h, out_w;
    divisor channels, out_columns, in_columns; /* by channels, out_w, in_w */
    u32 in_size, out_size;                     /* elements of a sample */
    /* Ignored if POOL_KERNEL, POOL_STRIDE and POOL_PAD are macros. */
    u32 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    float inverse; /* 1 / (kernel_h * kernel_w) */
    u32 mask;      /* of backward: dpt_activation */
    u32 accumulate;
    u32 n_samples;
} pool2d_params;

#endif
