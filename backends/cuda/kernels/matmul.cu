/* matmul.cl as CUDA. */
#define OPTIONS OPTION(TILE)
#include "matmul.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("matmul.cl", dpt_matmul),
    END_OF_TABLE,
};
