/* squared_error_fixed.cl as CUDA. */
#include "squared_error_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("squared_error_fixed.cl", dpt_squared_error_fixed),
    END_OF_TABLE,
};
