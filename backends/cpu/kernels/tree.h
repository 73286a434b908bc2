/* Sums over the grains of a call (dpt_op_args.grain), and the tree that adds them up.

   The sum of grain i is added to the sums that wait, as a binary counter counts: as long as bit
   `level` of i is 1, the sum that waits at this level is added in front.  The result waits at the
   first level whose bit is 0.  Behind the last grain the waiting sums of all bits that are 1 are
   added. */
#ifndef DPT_CPU_TREE_H
#define DPT_CPU_TREE_H

#include "../operators.h"
#include "simd.h"

/* Levels at which sums wait: the last of 16 grains waits for no other one. */
enum { TREE_LEVELS = 4 };
_Static_assert((int)DPT_MOST_GRAINS == 1 << (int)TREE_LEVELS, "a level for each bit of a grain");

/* Some terms of sums: a part of a grain, or whole grains that are a node of the tree or end it. */
typedef struct tree_block {
    size_t first, n; /* terms */
    size_t grain;    /* number of the first term's grain */
    size_t n_first;  /* terms of the block that belong to it */
    size_t each;     /* terms of a grain */
    size_t level;    /* of the node: below this level the block's own grains wait */
    bool continues;  /* the first grain has begun before */
    bool ends;       /* the last grain ends */
    bool last;       /* so does the call */
} tree_block;

/* The block that begins at term `first` of `total`, with at most `most` terms. */
static inline tree_block tree_block_at(size_t first, size_t total, size_t each, size_t most)
{
    const size_t begun = first % each, left = total - first;
    const size_t grain_left = each - begun < left ? each - begun : left;
    tree_block b = {.first = first, .grain = first / each, .each = each, .continues = begun > 0};
    if (begun > 0 || grain_left > most) {
        const size_t n_blocks = dpt_cpu_ceil_div(grain_left, most);
        b.n = dpt_cpu_ceil_div(grain_left, n_blocks);
    } else {
        size_t n = each;
        while (n < left && 2 * n <= most && (b.grain & (((size_t)2 << b.level) - 1)) == 0) {
            n *= 2;
            b.level++;
        }
        b.n = n < left ? n : left;
    }
    b.n_first = b.n < grain_left ? b.n : grain_left;
    b.last = b.n == left;
    b.ends = b.last || (first + b.n) % each == 0;
    return b;
}

/* ---- One sum --------------------------------------------------------------------------------- */

/* Adds the sum of a grain to those that wait (TREE_LEVELS).  Returns the result behind the last
   grain. */
static inline float tree_add_one(float *waiting, float sum, size_t grain, bool last)
{
    size_t level = 0;
    for (; level < TREE_LEVELS && (last || (grain >> level & 1)); level++)
        if (grain >> level & 1) sum = waiting[level] + sum;
    if (!last) waiting[level] = sum;
    return sum;
}

/* ---- Sums in memory -------------------------------------------------------------------------- */

/* Sums of a grain that has ended.  Those that wait are `distance` floats apart, level by level. */
typedef struct tree_sums {
    float *sums, *waiting;
    size_t distance;
    size_t n; /* floats of `sums` */
} tree_sums;

/* Adds the sums of a grain to those that wait.  Behind the last grain the result is in `sums`;
   otherwise `sums` become 0.  No sum of a grain is -0. */
void KERNEL(tree_add)(const tree_sums *s, size_t grain, bool last);

/* Sums over the rows of a matrix, for some of its columns: to[c] = sum over i of x[i * ld + c], or
   to[c] +=. */
typedef struct tree_columns {
    const float *x;
    size_t ld, n_rows;
    size_t grain; /* rows of a grain */
    float *to;
    bool accumulate;
} tree_columns;

void KERNEL(tree_sum_columns)(const tree_columns *c, dpt_cpu_range columns);

#endif
