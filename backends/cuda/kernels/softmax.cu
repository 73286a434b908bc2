/* softmax.cl as CUDA. */
#include "softmax.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("softmax.cl", dpt_softmax_few),
    KERNEL_ROW("softmax.cl", dpt_softmax_many),
    END_OF_TABLE,
};
