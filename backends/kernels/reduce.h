/* Reductions over a work group, in an order that only GROUP decides. */
#ifndef DPT_KERNELS_REDUCE_H
#define DPT_KERNELS_REDUCE_H

#include "dialect.h"

/* The sum of every work item's value, to all of them.  `values` has GROUP elements and is free
   again when the last work item returns.  All work items of the group call it. */
DEVICE float group_sum(LOCAL float *values, float value)
{
    values[LOCAL_ID] = value;
    BARRIER();
    for (u32 half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        if (LOCAL_ID < half_size) values[LOCAL_ID] += values[LOCAL_ID + half_size];
        BARRIER();
    }
    const float sum = values[0];
    BARRIER();
    return sum;
}

/* As group_sum, the greatest; a NaN need not be noticed. */
DEVICE float group_max(LOCAL float *values, float value)
{
    values[LOCAL_ID] = value;
    BARRIER();
    for (u32 half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        if (LOCAL_ID < half_size)
            values[LOCAL_ID] = FMAX(values[LOCAL_ID], values[LOCAL_ID + half_size]);
        BARRIER();
    }
    const float greatest = values[0];
    BARRIER();
    return greatest;
}

#endif
