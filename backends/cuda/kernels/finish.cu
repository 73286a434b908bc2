/* finish.cl as CUDA. */
#include "finish.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("finish.cl", dpt_finish),
    KERNEL_ROW("finish.cl", dpt_finish_stored),
    END_OF_TABLE,
};
