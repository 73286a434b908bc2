/* clip_norm_fixed.cl as CUDA. */
#include "clip_norm_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("clip_norm_fixed.cl", dpt_clip_norm_blocks),
    KERNEL_ROW("clip_norm_fixed.cl", dpt_clip_norm_fixed_factor),
    END_OF_TABLE,
};
