/* activation.cl as CUDA. */
#include "activation.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("activation.cl", dpt_activation_forward),
    KERNEL_ROW("activation.cl", dpt_activation_backward),
    END_OF_TABLE,
};
