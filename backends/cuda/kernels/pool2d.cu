/* pool2d.cl as CUDA. */
#include "pool2d.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(pool2d)[] = {
    KERNEL_ROW("pool2d.cl", STORING, dpt_average_pool2d_forward),
    KERNEL_ROW("pool2d.cl", STORING, dpt_max_pool2d_forward),
    KERNEL_ROW("pool2d.cl", STORING, dpt_average_pool2d_backward),
    KERNEL_ROW("pool2d.cl", STORING, dpt_average_pool2d_backward_quads),
    KERNEL_ROW("pool2d.cl", STORING, dpt_max_pool2d_backward),
    KERNEL_ROW("pool2d.cl", STORING, dpt_max_pool2d_backward_quads),
    END_OF_TABLE,
};
