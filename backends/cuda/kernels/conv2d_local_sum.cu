/* conv2d_local_sum.cl as CUDA. */
#include "conv2d_local_sum.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_conv2d_local_sum[] = {
    KERNEL_ROW("conv2d_local_sum.cl", "", dpt_conv2d_local_sum),
    END_OF_TABLE,
};
