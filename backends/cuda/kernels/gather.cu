/* gather.cl as CUDA. */
#include "gather.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("gather.cl", dpt_gather_draw),
    KERNEL_ROW("gather.cl", dpt_gather_u8),
    KERNEL_ROW("gather.cl", dpt_gather_f32),
    KERNEL_ROW("gather.cl", dpt_gather_augmented_u8),
    KERNEL_ROW("gather.cl", dpt_gather_augmented_f32),
    KERNEL_ROW("gather.cl", dpt_gather_contrast),
    KERNEL_ROW("gather.cl", dpt_gather_coloured),
    KERNEL_ROW("gather.cl", dpt_gather_images),
    KERNEL_ROW("gather.cl", dpt_gather_tables),
    KERNEL_ROW("gather.cl", dpt_gather_operate),
    KERNEL_ROW("gather.cl", dpt_gather_labels_u8),
    KERNEL_ROW("gather.cl", dpt_gather_labels_i32),
    END_OF_TABLE,
};
