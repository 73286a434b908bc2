/* convert.cl as CUDA. */
#include "convert.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("convert.cl", dpt_narrow),
    KERNEL_ROW("convert.cl", dpt_widen),
    END_OF_TABLE,
};
