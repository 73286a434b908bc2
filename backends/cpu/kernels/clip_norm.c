/* Scaling a gradient whose norm is too large.  Each thread sums the squares of its part.  After a
   barrier each thread computes the same norm from all sums, in thread order.  In a deterministic
   operator the parts are blocks of one size, and their sums are added in the order of blocks. */
#include "kinds.h"

#include <math.h>

enum {
    SUMS = 16,                  /* independent sums, so that additions do not wait for each other */
    LINE = 64 / sizeof(double), /* each thread's sum has its own cache line */
    BLOCK = 4096,               /* elements of a part of a deterministic operator */
};

static double sum_of_squares(const float *values, size_t n)
{
    double sums[SUMS] = {0.0}, total = 0.0;
    size_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (size_t k = 0; k < SUMS; k++)
            sums[k] += (double)values[i + k] * (double)values[i + k];
    for (; i < n; i++)
        sums[i % SUMS] += (double)values[i] * (double)values[i];
    for (size_t k = 0; k < SUMS; k++)
        total += sums[k];
    return total;
}

/* The sum of the squares of all elements, the same in all threads. */
static double total_of_parts(const dpt_cpu_call *call, dpt_cpu_range own, unsigned thread,
                             unsigned n_threads)
{
    double *sums = (double *)(void *)call->workspace, total = 0.0;
    sums[thread * LINE] =
        sum_of_squares((const float *)call->out[0] + own.begin, own.end - own.begin);
    dpt_cpu_barrier(call->team, thread, n_threads);
    for (unsigned i = 0; i < n_threads; i++)
        total += sums[i * LINE];
    return total;
}

static double total_of_blocks(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t count = call->op->desc.u.clip_norm.count;
    const size_t n_blocks = dpt_cpu_ceil_div(count, BLOCK);
    const dpt_cpu_range blocks = dpt_cpu_split(n_blocks, LINE, thread, n_threads);
    double *sums = (double *)(void *)call->workspace, total = 0.0;
    for (size_t i = blocks.begin; i < blocks.end; i++) {
        const size_t at = i * BLOCK, left = count - at;
        sums[i] = sum_of_squares((const float *)call->out[0] + at, left < BLOCK ? left : BLOCK);
    }
    dpt_cpu_barrier(call->team, thread, n_threads);
    for (size_t i = 0; i < n_blocks; i++)
        total += sums[i];
    return total;
}

/* gradient (count), changed in place */
static void clip_norm(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_clip_norm_desc *d = &call->op->desc.u.clip_norm;
    float *gradient = call->out[0];
    if (call->n_samples == 0) return;
    const dpt_cpu_range own = dpt_cpu_split(d->count, 16, thread, n_threads);
    const double total = call->op->deterministic ? total_of_blocks(call, thread, n_threads)
                                                 : total_of_parts(call, own, thread, n_threads);
    const double factor = (double)d->max_norm / (sqrt(total) + 1e-6);
    if (factor >= 1.0) return; /* a NaN norm is not >= 1: the gradient becomes NaN, which shows */
    for (size_t i = own.begin; i < own.end; i++)
        gradient[i] *= (float)factor;
}

dpt_status KERNEL(prepare_clip_norm)(dpt_op *op, dpt_error *error)
{
    (void)error;
    op->plan.kernel = clip_norm;
    op->plan.work = (double)op->desc.u.clip_norm.count * 0.3;
    op->plan.workspace_bytes = dpt_cpu_mul(op->n_threads, LINE * sizeof(double));
    if (op->deterministic)
        op->plan.workspace_bytes =
            dpt_cpu_ceil_div(op->desc.u.clip_norm.count, BLOCK) * sizeof(double);
    op->plan.algorithm = "loop";
    return DPT_OK;
}
