/* Winograd's transforms as CUDA. */
#define OPTIONS OPTION(TILE) OPTION(TAPS)
#include "table.h"
#include "winograd_transform.cl"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("winograd_transform.cl", winograd_data),
    KERNEL_ROW("winograd_transform.cl", winograd_gradient),
    KERNEL_ROW("winograd_transform.cl", winograd_taps),
    KERNEL_ROW("winograd_transform.cl", winograd_results),
    KERNEL_ROW("winograd_transform.cl", winograd_regions),
    KERNEL_ROW("winograd_transform.cl", winograd_weights_back),
    KERNEL_ROW("winograd_transform.cl", winograd_bias),
    END_OF_TABLE,
};
