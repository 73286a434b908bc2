/* squared_error.cl as CUDA. */
#include "squared_error.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(squared_error)[] = {
    KERNEL_ROW("squared_error.cl", STORING, dpt_squared_error),
    END_OF_TABLE,
};
