/* squared_error.cl as CUDA. */
#include "squared_error.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_squared_error[] = {
    KERNEL_ROW("squared_error.cl", "", dpt_squared_error),
    END_OF_TABLE,
};
