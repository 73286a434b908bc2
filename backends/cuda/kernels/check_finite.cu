/* check_finite.cl as CUDA. */
#include "check_finite.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_check_finite[] = {
    KERNEL_ROW("check_finite.cl", "", dpt_check_finite),
    END_OF_TABLE,
};
