/* map_reduce.cl as CUDA. */
#include "map_reduce.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("map_reduce.cl", dpt_map_reduce),
    KERNEL_ROW("map_reduce.cl", dpt_map_merge),
    END_OF_TABLE,
};
