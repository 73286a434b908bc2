/* conv2d_few.cl as CUDA. */
#define OPTIONS OPTION(KERNEL_SIZE) OPTION(CHANNELS)
#include "conv2d_few.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("conv2d_few.cl", dpt_conv2d_few_forward),
    KERNEL_ROW("conv2d_few.cl", dpt_conv2d_few_weights),
    END_OF_TABLE,
};
