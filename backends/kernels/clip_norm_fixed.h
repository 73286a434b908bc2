/* Parameters of clip_norm_fixed.cl. */
#ifndef DPT_KERNELS_CLIP_NORM_FIXED_H
#define DPT_KERNELS_CLIP_NORM_FIXED_H

#include "dialect.h"

#define CLIP_NORM_BLOCK 4096u /* elements of a block */

typedef struct clip_norm_fixed_params {
    u64 count;
    float max_norm;
    u32 unused;
} clip_norm_fixed_params;

#endif
