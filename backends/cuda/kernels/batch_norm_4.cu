/* batch_norm.cl as CUDA, for accesses of 4. */
#define WIDTH 4

#include "batch_norm.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(batch_norm_4)[] = {
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_chunks),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_part),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_merge),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_freeze),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_forward),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_backward_chunks),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_backward_part),
    KERNEL_ROW("batch_norm.cl", "-DWIDTH=4" AND_STORING, dpt_batch_norm_backward_data),
    END_OF_TABLE,
};
