/* softmax.cl as CUDA. */
#include "softmax.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_softmax[] = {
    KERNEL_ROW("softmax.cl", "", dpt_softmax_few),
    KERNEL_ROW("softmax.cl", "", dpt_softmax_many),
    END_OF_TABLE,
};
