/* attention.cl as CUDA. */
#include "attention.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("attention.cl", dpt_attention_forward),
    KERNEL_ROW("attention.cl", dpt_attention_mean),
    KERNEL_ROW("attention.cl", dpt_attention_queries),
    KERNEL_ROW("attention.cl", dpt_attention_keys),
    END_OF_TABLE,
};
