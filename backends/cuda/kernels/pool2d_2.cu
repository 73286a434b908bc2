/* pool2d.cl as CUDA, for windows of 2x2 that do not overlap. */
#define WINDOW 2u
#include "pool2d_variant.h"

#include "pool2d.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(pool2d_2)[] = {
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_average_pool2d_forward),
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_max_pool2d_forward),
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_average_pool2d_backward),
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_average_pool2d_backward_quads),
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_max_pool2d_backward),
    KERNEL_ROW("pool2d.cl", OPTIONS AND_STORING, dpt_max_pool2d_backward_quads),
    END_OF_TABLE,
};
