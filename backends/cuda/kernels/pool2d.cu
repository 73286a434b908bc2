/* pool2d.cl as CUDA. */
#ifdef POOL_KERNEL
#define OPTIONS OPTION(POOL_KERNEL) OPTION(POOL_STRIDE) OPTION(POOL_PAD)
#endif
#include "pool2d.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("pool2d.cl", dpt_average_pool2d_forward),
    KERNEL_ROW("pool2d.cl", dpt_max_pool2d_forward),
    KERNEL_ROW("pool2d.cl", dpt_average_pool2d_backward),
    KERNEL_ROW("pool2d.cl", dpt_average_pool2d_backward_quads),
    KERNEL_ROW("pool2d.cl", dpt_max_pool2d_backward),
    KERNEL_ROW("pool2d.cl", dpt_max_pool2d_backward_quads),
    END_OF_TABLE,
};
