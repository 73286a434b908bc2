/* squared_error.cl as CUDA. */
#include "squared_error.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("squared_error.cl", dpt_squared_error),
    END_OF_TABLE,
};
