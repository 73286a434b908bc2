/* softmax.cl as CUDA. */
#include "softmax.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(softmax)[] = {
    KERNEL_ROW("softmax.cl", STORING, dpt_softmax_few),
    KERNEL_ROW("softmax.cl", STORING, dpt_softmax_many),
    END_OF_TABLE,
};
