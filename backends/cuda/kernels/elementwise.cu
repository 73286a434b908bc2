/* elementwise.cl as CUDA. */
#include "elementwise.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(elementwise)[] = {
    KERNEL_ROW("elementwise.cl", STORING, dpt_multiply),
    KERNEL_ROW("elementwise.cl", STORING, dpt_add),
    KERNEL_ROW("elementwise.cl", STORING, dpt_affine),
    END_OF_TABLE,
};
