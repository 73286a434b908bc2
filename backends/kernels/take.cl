/* Rows of a table by their indices, and the gradient of the table.  In the backward pass a group
   looks for the indices that name its row, so that a sum has the order of the indices. */
#include "span.h"
#include "take.h"

/* table (rows,width), index (n,count) -> y (n,count,width).  The launch's dimensions are the
   elements of a sample, and the samples. */
KERNEL void dpt_take_forward(OUT(act, y), IN(float, table), IN(i32, index), const take_params p)
{
    TENSOR_IN(float, table);
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    const u32 width = p.width.value;
    GLOBAL const i32 *const index = index_base + index_place + (u64)GROUP_ID(1) * p.count;
    GLOBAL act *const y = y_base + y_place + (u64)GROUP_ID(1) * p.count * width;
    FOR_ELEMENTS (i, (u64)p.count * width) {
        const u32 at = quotient((u32)i, p.width), row = (u32)index[at];
        float value = AS_FLOAT(0x7fc00000u); /* NaN */
        if (row < p.rows) value = table[(u64)row * width + rest((u32)i, at, p.width)];
        PUT(y, i, value);
    }
}

/* dy (n,count,width), index (n,count) -> dtable (rows,width).  A group for each row.  An item adds
   to the elements LOCAL_ID, LOCAL_ID + GROUP, ... */
KERNEL void dpt_take_backward(OUT(float, dtable), IN(act, dy), IN(i32, index), const take_params p)
{
    SHARED u32 named[GROUP]; /* whether index `first` + i names the row */
    SHARED u32 some;         /* the last block, from 1, in which an index names the row */
    TENSOR_IN(act, dy);
    TENSOR_IN(i32, index);
    const u32 width = p.width.value;
    GLOBAL float *const sums = dtable_base + dtable_place + (u64)GROUP_ID(0) * width;
    for (u32 c = LOCAL_ID; c < width && !p.accumulate; c += GROUP)
        sums[c] = 0.0f;
    if (LOCAL_ID == 0) some = 0;
    BARRIER();
    u32 block = 1;
    for (u64 first = 0; first < p.n_indices; first += GROUP, block++) {
        const u64 own = first + LOCAL_ID;
        named[LOCAL_ID] = own < p.n_indices && (u32)index[own] == GROUP_ID(0);
        if (named[LOCAL_ID]) some = block; /* all who write, write the same */
        BARRIER();
        if (some == block) {
            for (u32 i = 0; i < GROUP; i++) {
                if (!named[i]) continue;
                for (u32 c = LOCAL_ID; c < width; c += GROUP)
                    sums[c] += GET(dy, (first + i) * width + c);
            }
        }
        BARRIER();
    }
}
