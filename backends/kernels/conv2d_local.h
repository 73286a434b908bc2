/* Parameters of the convolutions with tiles in local memory, for the kernels and for
   conv2d_local.c. */
#ifndef DPT_KERNELS_CONV2D_LOCAL_H
#define DPT_KERNELS_CONV2D_LOCAL_H

#include "dialect.h"

typedef struct conv2d_local_params {
    u64 part_size; /* of backward-weights: elements between the sums of two chunks */
    u32 n_samples;
    u32 groups;
    u32 in_h, in_w, in_channels;
    u32 out_h, out_w, out_channels;
    u32 kernel_h, kernel_w;
    u32 stride_h, stride_w;
    u32 pad_h, pad_w;
    u32 dilation_h, dilation_w;
    u32 tiles_m, tiles_n; /* of one group's matrix; of backward-data, of one phase of it */
    u32 phases_w;         /* of backward-data: phases of columns for each phase of rows */
    u32 every_h, every_w; /* of backward-data: stride / gcd(stride, dilation) */
    u32 chunk;            /* of backward-weights: pixels of a chunk */
    u32 n_chunks;         /* the same: at least 1 */
    u32 run;              /* of deterministic backward-weights: chunks of a part, a power of two */
    u32 has_bias;
    u32 activation; /* of forward, or the mask of backward-data; GPUs use ACTIVATION if defined */
    u32 accumulate;
    u32 dy_row; /* of backward-weights: elements between two pixels of dy */
    float end;  /* of deterministic operators: what is added to each sum behind its last term */
    u32 unused;
} conv2d_local_params;

#endif
