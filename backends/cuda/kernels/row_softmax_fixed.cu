/* row_softmax_fixed.cl as CUDA. */
#include "row_softmax_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("row_softmax_fixed.cl", dpt_row_softmax_fixed),
    KERNEL_ROW("row_softmax_fixed.cl", dpt_row_softmax_backward_fixed),
    END_OF_TABLE,
};
