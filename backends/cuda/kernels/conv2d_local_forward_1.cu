/* conv2d_local_forward.cl as CUDA, with accesses of 1. */
#define WIDTH 1
#include "conv2d_local_variant.h"

#define dpt_conv2d_local_forward JOIN(dpt_conv2d_local_forward_, WIDTH)
#include "conv2d_local_forward.cl"
#include "table.h"

const struct dpt_kernel JOIN(dpt_cuda_table_conv2d_local_forward_, WIDTH)[] = {
    {"conv2d_local_forward.cl", OPTIONS, "dpt_conv2d_local_forward",
     (const void *)dpt_conv2d_local_forward},
    END_OF_TABLE,
};
