/* winograd_grains.cl as CUDA. */
#define OPTIONS OPTION(TILE) OPTION(TAPS)
#include "table.h"
#include "winograd_grains.cl"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("winograd_grains.cl", winograd_grains_of),
    END_OF_TABLE,
};
