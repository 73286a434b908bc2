/* The squared error: loss and, if asked for, the gradient of each sample, in one pass. */
#include "reduce.h"
#include "squared_error.h"

/* y, target (n,count) -> result (n,2), dy (n,count).  A group for each sample. */
KERNEL void dpt_squared_error(OUT(float, result), OUT(act, dy), IN(act, y), IN(float, target),
                              IN(u32, step), const squared_error_params p)
{
    SHARED float sums[GROUP];
    TENSOR_OUT(float, result);
    TENSOR_IN(u32, step);
    const u64 sample = GROUP_ID(0), first = sample * p.count;
    GLOBAL const act *const y = y_base + y_place + first;
    GLOBAL const float *const target = target_base + target_place + first;
    float own = 0.0f;
    for (u32 i = LOCAL_ID; i < p.count; i += GROUP) {
        const float difference = GET(y, i) - target[i];
        own += difference * difference;
    }
    const float sum = group_sum(sums, own);
    if (LOCAL_ID == 0) {
        result[2 * sample] = sum * p.inverse;
        result[2 * sample + 1] = 0.0f;
    }
    if (!p.gradient) return;
    GLOBAL act *const dy = dy_base + dy_place + first;
    const float slope = 2.0f * p.inverse * AS_FLOAT(step[STEP_INV_BATCH]);
    for (u32 i = LOCAL_ID; i < p.count; i += GROUP)
        PUT(dy, i, (GET(y, i) - target[i]) * slope);
}
