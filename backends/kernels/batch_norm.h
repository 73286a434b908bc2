/* Parameters of batch_norm.cl. */
#ifndef DPT_KERNELS_BATCH_NORM_H
#define DPT_KERNELS_BATCH_NORM_H

#include "columns.h"

/* Of FORWARD, BACKWARD_DATA, and the chunks of BACKWARD_PARTIAL. */
typedef struct batch_norm_params {
    columns grid;
    u32 activation; /* dpt_activation: the fused activation, or the mask */
    u32 has_residual;
    u32 n_parts;
    u32 accumulate;
    u32 masks; /* of backward: dy must still be multiplied by the slope of a ReLU that follows */
    u32 unused;
} batch_norm_params;

/* Of MERGE and FREEZE. */
typedef struct batch_norm_merge_params {
    u64 n_samples;
    u64 grain; /* samples of a grain.  Only norm_fixed.cl honours it */
    u32 channels;
    u32 n_parts;
    float epsilon;
    u32 accumulate;
} batch_norm_merge_params;

#endif
