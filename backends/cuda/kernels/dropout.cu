/* dropout.cl as CUDA. */
#include "dropout.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(dropout)[] = {
    KERNEL_ROW("dropout.cl", STORING, dpt_dropout),
    END_OF_TABLE,
};
