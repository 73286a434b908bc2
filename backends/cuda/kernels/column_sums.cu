/* column_sums.cl as CUDA. */
#define LANES   1
#define OPTIONS OPTION(LANES)
#include "column_sums.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("column_sums.cl", column_sums),
    END_OF_TABLE,
};
