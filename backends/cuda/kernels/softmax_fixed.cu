/* softmax_fixed.cl as CUDA. */
#include "softmax_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("softmax_fixed.cl", dpt_softmax_fixed_few),
    KERNEL_ROW("softmax_fixed.cl", dpt_softmax_fixed_many),
    END_OF_TABLE,
};
