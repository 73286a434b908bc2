/* Parameters of batch_norm.cl. */
#ifndef DPT_KERNELS_BATCH_NORM_H
#define DPT_KERNELS_BATCH_NORM_H

#include "columns.h"

/* FORWARD, BACKWARD_DATA, and chunks of BACKWARD_PARTIAL */
typedef struct batch_norm_params {
    columns grid;
    u32 activation; /* fused, or the mask */
    u32 has_residual;
    u32 n_parts;
    u32 accumulate;
    u32 masks; /* backward: dy lacks the derivative of a ReLU behind */
    u32 unused;
} batch_norm_params;

/* MERGE and FREEZE */
typedef struct batch_norm_merge_params {
    u64 n_samples;
    u32 channels;
    u32 n_parts;
    float epsilon;
    u32 accumulate;
} batch_norm_merge_params;

#endif
