/* conv2d_local_weights.cl as CUDA, with accesses of 1. */
#define WIDTH 1
#include "conv2d_local_variant.h"

#define dpt_conv2d_local_weights JOIN(dpt_conv2d_local_weights_, WIDTH)
#include "conv2d_local_weights.cl"
#include "table.h"

const struct dpt_kernel JOIN(dpt_cuda_table_conv2d_local_weights_, WIDTH)[] = {
    {"conv2d_local_weights.cl", OPTIONS, "dpt_conv2d_local_weights",
     (const void *)dpt_conv2d_local_weights},
    END_OF_TABLE,
};
