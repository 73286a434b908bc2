/* batch_norm.cl as CUDA. */
#ifdef WIDTH
#define OPTIONS OPTION(WIDTH)
#endif
#include "batch_norm.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_chunks),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_part),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_merge),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_freeze),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_forward),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_backward_chunks),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_backward_part),
    KERNEL_ROW("batch_norm.cl", dpt_batch_norm_backward_data),
    END_OF_TABLE,
};
