/* dropout.cl as CUDA. */
#include "dropout.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("dropout.cl", dpt_dropout),
    END_OF_TABLE,
};
