/* Reductions over a work group, in an order that depends on GROUP alone. */
#ifndef DPT_KERNELS_REDUCE_H
#define DPT_KERNELS_REDUCE_H

#include "dialect.h"

/* Returns the sum of the values of all work items to each of them.  All work items of the group
   call it.  `values` has GROUP elements, and may be written again after the return. */
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

/* Returns the greatest value, as group_sum returns the sum.  A NaN may be ignored. */
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
