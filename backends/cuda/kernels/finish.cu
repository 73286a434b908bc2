/* finish.cl as CUDA. */
#include "finish.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_finish[] = {
    KERNEL_ROW("finish.cl", "", dpt_finish),
    END_OF_TABLE,
};
