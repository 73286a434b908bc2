/* layer_norm.cl as CUDA. */
#include "layer_norm.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("layer_norm.cl", dpt_layer_norm_forward),
    KERNEL_ROW("layer_norm.cl", dpt_layer_norm_backward_data),
    KERNEL_ROW("layer_norm.cl", dpt_layer_norm_chunks),
    KERNEL_ROW("layer_norm.cl", dpt_layer_norm_weights),
    END_OF_TABLE,
};
