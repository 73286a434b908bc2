/* Sums along the tree of grains (docs/reproducibility.md), for kernels and C code.

   The sum of grain i is added to the sums that wait, as a binary counter counts: as long as bit
   `level` of i is 1, the sum that waits at this level is added.  The result then waits at the first
   level whose bit is 0.  Behind the last grain the sums that wait at the levels of all bits that
   are 1 are added. */
#ifndef DPT_KERNELS_TREE_PARAMS_H
#define DPT_KERNELS_TREE_PARAMS_H

#include "dialect.h"

#define TREE_LEVELS 4 /* at which sums wait: the last of 16 grains waits for no other one */

typedef struct tree_params {
    u64 count;   /* elements of a part */
    u64 part;    /* elements between two parts */
    u32 n_parts; /* at least 1 and at most 2^TREE_LEVELS */
    u32 accumulate;
} tree_params;

#if defined(GLOBAL_ID)

/* Whether the sum that waits at a level is added to that of grain i.  If not, and i is not the last
   grain, then the sum of grain i waits at this level. */
DEVICE bool tree_adds(u32 i, u32 level)
{
    return (i >> level & 1u) != 0;
}

/* Adds the sum of grain i to those that wait (TREE_LEVELS).  Returns the result behind the last
   grain. */
DEVICE float tree_add(float *waiting, float sum, u32 i, bool is_last)
{
    bool waits = false;
    UNROLL
    for (u32 level = 0; level < TREE_LEVELS; level++) {
        if (waits) continue;
        if (tree_adds(i, level)) {
            sum = waiting[level] + sum;
        } else if (!is_last) {
            waiting[level] = sum;
            waits = true;
        }
    }
    return sum;
}

#endif

#endif
