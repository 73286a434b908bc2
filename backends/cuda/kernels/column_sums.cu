/* column_sums.cl as CUDA. */
#define LANES 1
#include "column_sums.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(column_sums)[] = {
    KERNEL_ROW("column_sums.cl", "-DLANES=1" AND_STORING, column_sums),
    END_OF_TABLE,
};
