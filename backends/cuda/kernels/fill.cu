/* Memory filled with a word. */
#include "dialect.h"
#include "table.h"

KERNEL void dpt_fill(OUT(u32, to), const u64 count, const u32 pattern)
{
    TENSOR_OUT(u32, to);
    if (GLOBAL_ID < count) to[GLOBAL_ID] = pattern;
}

const struct dpt_kernel dpt_cuda_table_fill[] = {
    KERNEL_ROW("fill.cu", "", dpt_fill),
    END_OF_TABLE,
};
