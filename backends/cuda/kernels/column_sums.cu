/* column_sums.cl as CUDA. */
#define LANES 1
#include "column_sums.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_column_sums[] = {
    KERNEL_ROW("column_sums.cl", "-DLANES=1", column_sums),
    END_OF_TABLE,
};
