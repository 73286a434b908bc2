/* check_finite.cl as CUDA. */
#include "check_finite.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("check_finite.cl", dpt_check_finite),
    END_OF_TABLE,
};
