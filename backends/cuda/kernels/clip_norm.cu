/* clip_norm.cl as CUDA. */
#include "clip_norm.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("clip_norm.cl", dpt_clip_norm_chunks),
    KERNEL_ROW("clip_norm.cl", dpt_clip_norm_factor),
    KERNEL_ROW("clip_norm.cl", dpt_clip_norm_scale),
    END_OF_TABLE,
};
