/* tree.cl as CUDA. */
#include "table.h"
#include "tree.cl"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("tree.cl", dpt_tree),
    END_OF_TABLE,
};
