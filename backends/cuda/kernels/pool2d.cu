/* pool2d.cl as CUDA. */
#include "pool2d.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_pool2d[] = {
    KERNEL_ROW("pool2d.cl", "", dpt_average_pool2d_forward),
    KERNEL_ROW("pool2d.cl", "", dpt_max_pool2d_forward),
    KERNEL_ROW("pool2d.cl", "", dpt_average_pool2d_backward),
    KERNEL_ROW("pool2d.cl", "", dpt_max_pool2d_backward),
    END_OF_TABLE,
};
