/* batch_norm.cl as CUDA. */
#include "batch_norm.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(batch_norm)[] = {
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_chunks),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_part),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_merge),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_freeze),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_forward),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_backward_chunks),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_backward_part),
    KERNEL_ROW("batch_norm.cl", STORING, dpt_batch_norm_backward_data),
    END_OF_TABLE,
};
