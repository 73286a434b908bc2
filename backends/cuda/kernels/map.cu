/* map.cl as CUDA. */
#include "map.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("map.cl", dpt_map),
    END_OF_TABLE,
};
