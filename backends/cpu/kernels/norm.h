/* The parts that batch-norm and layer-norm share.  Their tensors are rows of channels, and every
   channel has its factors and sums.  A period is some whole rows, enough for a long loop.  Factors
   and sums are stored for every element of a period.  Loops run over periods, so vectors are full
   for any number of channels. */
#ifndef DPT_CPU_NORM_H
#define DPT_CPU_NORM_H

#include "../operators.h"
#include "namespace.h"

/* A thread's scratch, in the workspace of the call. */
typedef struct norm_scratch {
    size_t channels, period;
    double
        *totals;  /* (2,channels): over all rows of the thread; other threads read it at the end */
    double *sums; /* (2,channels): over a block of rows */
    float *block; /* (2,period): over a block, before the rows of a period are added up */
    float *factors; /* (n_factors,period) */
} norm_scratch;

/* Elements of a period. */
size_t KERNEL(norm_period)(size_t channels);
/* Elements of a block of rows: whole periods, so few that the nearest caches hold them and that
   float sums over a block are precise enough. */
size_t KERNEL(norm_block)(size_t period);
/* Floats of one thread's scratch. */
size_t KERNEL(norm_scratch_size)(size_t channels, size_t n_factors);
/* A thread's scratch, with totals and block zero. */
norm_scratch KERNEL(norm_scratch_at)(const dpt_cpu_call *call, size_t channels, size_t n_factors,
                                     unsigned thread);
/* Writes the sums of the block to `sums`, and clears the block. */
void KERNEL(norm_fold)(norm_scratch *s);
/* Calls norm_fold, and adds `sums` to `totals`. */
void KERNEL(norm_flush)(norm_scratch *s);
/* Copies the factors of the first row to the other rows of the period. */
void KERNEL(norm_repeat)(const norm_scratch *s, size_t n_factors);
/* Fills in op->plan for an operator that uses this scratch. */
void KERNEL(norm_plan)(dpt_op *op, dpt_cpu_kernel *kernel, size_t rows, size_t channels,
                       size_t n_factors);

static inline size_t norm_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The sum of element `at` of all threads' totals, which are `distance` doubles apart.  It is added
   in thread order, so that its bits are the same every time. */
static inline double norm_total(const double *totals, size_t distance, unsigned n_threads,
                                size_t at)
{
    double sum = totals[at];
    for (unsigned i = 1; i < n_threads; i++)
        sum += totals[i * distance + at];
    return sum;
}

/* The factors of the corrections of mean and M2 when `added` values join `before` values. */
typedef struct norm_merging {
    double mean, m2;
} norm_merging;

static inline norm_merging norm_merging_of(double before, double added)
{
    const double total = before + added;
    return total > 0.0 ? (norm_merging){added / total, before * (added / total)}
                       : (norm_merging){0.0, 0.0};
}

/* Merges the statistics of other values into *mean and *m2. */
static inline void norm_merge(double *mean, double *m2, double other_mean, double other_m2,
                              norm_merging by)
{
    const double delta = other_mean - *mean;
    *mean += delta * by.mean;
    *m2 += other_m2 + delta * delta * by.m2;
}

#endif
