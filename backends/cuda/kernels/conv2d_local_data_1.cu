/* conv2d_local_data.cl as CUDA, with accesses of 1. */
#define WIDTH 1
#include "conv2d_local_variant.h"

#include "conv2d_local_data.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(JOIN(conv2d_local_data_, WIDTH))[] = {
    KERNEL_ROW("conv2d_local_data.cl", OPTIONS AND_STORING, dpt_conv2d_local_data),
    END_OF_TABLE,
};
