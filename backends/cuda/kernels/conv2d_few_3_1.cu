/* conv2d_few.cl as CUDA, for filters of 3x3 and images of 1 channel. */
#define KERNEL_SIZE 3
#define CHANNELS    1
#include "conv2d_few_variant.h"

#include "conv2d_few.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(conv2d_few_3_1)[] = {
    KERNEL_ROW("conv2d_few.cl", OPTIONS AND_STORING, dpt_conv2d_few_forward),
    KERNEL_ROW("conv2d_few.cl", OPTIONS AND_STORING, dpt_conv2d_few_weights),
    END_OF_TABLE,
};
