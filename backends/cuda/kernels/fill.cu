/* Filling memory with a word, and copying words. */
#include "dialect.h"
#include "table.h"

KERNEL void dpt_fill(OUT(u32, to), const u64 count, const u32 pattern)
{
    TENSOR_OUT(u32, to);
    if (GLOBAL_ID < count) to[GLOBAL_ID] = pattern;
}

KERNEL void dpt_move(OUT(u32, to), IN(u32, from), const u64 count)
{
    TENSOR_OUT(u32, to);
    TENSOR_IN(u32, from);
    if (GLOBAL_ID < count) to[GLOBAL_ID] = from[GLOBAL_ID];
}

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("fill.cu", dpt_fill),
    KERNEL_ROW("fill.cu", dpt_move),
    END_OF_TABLE,
};
