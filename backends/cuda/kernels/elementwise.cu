/* elementwise.cl as CUDA. */
#include "elementwise.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("elementwise.cl", dpt_multiply),
    KERNEL_ROW("elementwise.cl", dpt_add),
    KERNEL_ROW("elementwise.cl", dpt_affine),
    END_OF_TABLE,
};
