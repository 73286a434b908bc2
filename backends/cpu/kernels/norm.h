/* What batch-norm and layer-norm share.  Their tensors are rows of channels, and what they compute
   with is one factor a channel.  A period is as many whole rows as make a loop worth its start;
   factors and sums are kept for every element of a period, so that loops run over periods, at full
   width for one channel as for a thousand. */
#ifndef DPT_CPU_NORM_H
#define DPT_CPU_NORM_H

#include "../operators.h"
#include "namespace.h"

/* A thread's scratch, in the workspace of the call. */
typedef struct norm_scratch {
    size_t channels, period;
    double *totals; /* (2,channels): over all rows of the thread; others read it at the end */
    double *sums;   /* (2,channels): over a block of rows */
    float *block;   /* (2,period): the same, before rows of a period are added up */
    float *factors; /* (n_factors,period) */
} norm_scratch;

/* Elements of a period. */
size_t KERNEL(norm_period)(size_t channels);
/* Elements of a block of rows: a whole number of periods that the nearest caches hold, and so few
   that float sums over it are exact enough. */
size_t KERNEL(norm_block)(size_t period);
/* Floats of one thread's scratch. */
size_t KERNEL(norm_scratch_size)(size_t channels, size_t n_factors);
/* A thread's scratch, with totals and block zero. */
norm_scratch KERNEL(norm_scratch_at)(const dpt_cpu_call *call, size_t channels, size_t n_factors,
                                     unsigned thread);
/* Adds up the block to sums, and makes the block zero. */
void KERNEL(norm_fold)(norm_scratch *s);
/* The same, and adds sums to totals. */
void KERNEL(norm_flush)(norm_scratch *s);
/* Repeats the factors of the first row over the period. */
void KERNEL(norm_repeat)(const norm_scratch *s, size_t n_factors);
/* Workspace and other properties of an operator whose scratch this is. */
void KERNEL(norm_plan)(dpt_op *op, dpt_cpu_kernel *kernel, size_t rows, size_t channels,
                       size_t n_factors);

static inline size_t norm_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Element `at` of all threads' totals, `distance` doubles apart, added in thread order: the same
   bits every time. */
static inline double norm_total(const double *totals, size_t distance, unsigned n_threads,
                                size_t at)
{
    double sum = totals[at];
    for (unsigned i = 1; i < n_threads; i++)
        sum += totals[i * distance + at];
    return sum;
}

#endif
