/* norm_fixed.cl as CUDA. */
#include "norm_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_moments),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_products),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_weights),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_part),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_backward_part),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_layer_part),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_merge),
    KERNEL_ROW("norm_fixed.cl", dpt_norm_fixed_freeze),
    END_OF_TABLE,
};
