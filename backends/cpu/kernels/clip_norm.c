/* Scaling a gradient whose norm is too large.  Each thread sums the squares of its part.  After a
   barrier each thread computes the same norm from all sums, in thread order. */
#include "kinds.h"

#include <math.h>

enum {
    SUMS = 16,                  /* independent sums, so that additions do not wait for each other */
    LINE = 64 / sizeof(double), /* each thread's sum has its own cache line */
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

/* gradient (count), changed in place */
static void clip_norm(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_clip_norm_desc *d = &call->op->desc.u.clip_norm;
    double *sums = (double *)(void *)call->workspace, total = 0.0;
    float *gradient = call->out[0];
    if (call->n_samples == 0) return;
    const dpt_cpu_range own = dpt_cpu_split(d->count, 16, thread, n_threads);
    sums[thread * LINE] = sum_of_squares(gradient + own.begin, own.end - own.begin);
    dpt_cpu_barrier(call->team, thread, n_threads);
    for (unsigned i = 0; i < n_threads; i++)
        total += sums[i * LINE];
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
    op->plan.algorithm = "loop";
    return DPT_OK;
}
