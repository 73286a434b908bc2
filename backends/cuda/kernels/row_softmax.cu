/* row_softmax.cl as CUDA. */
#include "row_softmax.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("row_softmax.cl", dpt_row_softmax_few),
    KERNEL_ROW("row_softmax.cl", dpt_row_softmax_many),
    KERNEL_ROW("row_softmax.cl", dpt_row_softmax_backward_few),
    KERNEL_ROW("row_softmax.cl", dpt_row_softmax_backward_many),
    END_OF_TABLE,
};
