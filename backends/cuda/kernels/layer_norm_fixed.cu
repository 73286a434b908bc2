/* layer_norm_fixed.cl as CUDA. */
#include "layer_norm_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("layer_norm_fixed.cl", dpt_layer_norm_forward),
    KERNEL_ROW("layer_norm_fixed.cl", dpt_layer_norm_backward_data),
    END_OF_TABLE,
};
