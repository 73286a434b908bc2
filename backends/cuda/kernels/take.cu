/* take.cl as CUDA. */
#include "take.cl"

#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("take.cl", dpt_take_forward),
    KERNEL_ROW("take.cl", dpt_take_backward),
    END_OF_TABLE,
};
