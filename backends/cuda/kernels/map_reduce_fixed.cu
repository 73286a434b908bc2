/* map_reduce_fixed.cl as CUDA. */
#include "map_reduce_fixed.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("map_reduce_fixed.cl", dpt_map_reduce_fixed_kept),
    KERNEL_ROW("map_reduce_fixed.cl", dpt_map_reduce_fixed_lanes),
    END_OF_TABLE,
};
