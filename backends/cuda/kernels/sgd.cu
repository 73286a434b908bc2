/* sgd.cl as CUDA. */
#include "sgd.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("sgd.cl", dpt_sgd),
    KERNEL_ROW("sgd.cl", dpt_sgd_quads),
    KERNEL_ROW("sgd.cl", dpt_sgd_momentum),
    KERNEL_ROW("sgd.cl", dpt_sgd_momentum_quads),
    END_OF_TABLE,
};
