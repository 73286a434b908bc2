/* Parameters of clip_norm.cl.  The gradient is a matrix of one channel. */
#ifndef DPT_KERNELS_CLIP_NORM_H
#define DPT_KERNELS_CLIP_NORM_H

#include "columns.h"

typedef struct clip_norm_params {
    columns_merge merge;
    float max_norm;
    u32 reserved;
} clip_norm_params;

#endif
