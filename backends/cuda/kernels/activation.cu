/* activation.cl as CUDA. */
#include "activation.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(activation)[] = {
    KERNEL_ROW("activation.cl", STORING, dpt_activation_forward),
    KERNEL_ROW("activation.cl", STORING, dpt_activation_backward),
    END_OF_TABLE,
};
