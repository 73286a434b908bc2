/* finish.cl as CUDA. */
#include "finish.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(finish)[] = {
    KERNEL_ROW("finish.cl", STORING, dpt_finish),
    KERNEL_ROW("finish.cl", STORING, dpt_finish_stored),
    END_OF_TABLE,
};
