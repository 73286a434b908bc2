/* The statistics of batch-norm: the part of one device, and the merged parts of all devices.

   A part reads x from memory once.  Each block of rows has its own mean and squared deviations,
   which are computed while the block is in the cache.  Blocks, threads and devices are merged in
   double precision by the formula of Chan, Golub and LeVeque (1979), in which no value is the
   difference of two large sums. */
#include "kinds.h"
#include "norm.h"
#include "tree.h"

#include <math.h>

/* ---- Part ------------------------------------------------------------------------------------ */

/* Adds n values of whole rows to the first half of the block. */
static void add_values(const norm_scratch *s, const float *x, size_t n)
{
    float *restrict sum = s->block;
    for (size_t at = 0; at < n; at += s->period)
        for (size_t i = 0, m = norm_least(s->period, n - at); i < m; i++)
            sum[i] += x[at + i];
}

/* Adds the deviations from the factor, and their squares, to the two halves of the block. */
static void add_deviations(const norm_scratch *s, const float *x, size_t n)
{
    const float *restrict mean = s->factors;
    float *restrict sum = s->block, *restrict square = s->block + s->period;
    for (size_t at = 0; at < n; at += s->period) {
        for (size_t i = 0, m = norm_least(s->period, n - at); i < m; i++) {
            const float deviation = x[at + i] - mean[i];
            sum[i] += deviation;
            square[i] += deviation * deviation;
        }
    }
}

/* Merges a block of rows into the totals (mean, M2) of `before` rows. */
static void add_block(norm_scratch *s, const float *x, size_t n_rows, double before)
{
    const double count = (double)n_rows, inverse = 1.0 / count;
    const norm_merging by = norm_merging_of(before, count);
    double *means = s->totals, *squares = s->totals + s->channels;
    add_values(s, x, n_rows * s->channels);
    KERNEL(norm_fold)(s);
    for (size_t c = 0; c < s->channels; c++)
        s->factors[c] = (float)(s->sums[c] * inverse);
    KERNEL(norm_repeat)(s, 1);
    add_deviations(s, x, n_rows * s->channels);
    KERNEL(norm_fold)(s);
    for (size_t c = 0; c < s->channels; c++) {
        /* The sum of the deviations is the rounding error of the mean. */
        const double off = s->sums[c] * inverse;
        const double m2 = s->sums[s->channels + c] - off * s->sums[c];
        norm_merge(means + c, squares + c, (double)s->factors[c] + off, m2 < 0.0 ? 0.0 : m2, by);
    }
}

/* Merges all threads' totals of some channels into this thread's sums, in thread order. */
static void merge_threads(const dpt_cpu_call *call, const norm_scratch *s, dpt_cpu_range channels,
                          unsigned n_threads)
{
    const size_t distance = KERNEL(norm_scratch_size)(s->channels, 1) / 2;
    const size_t n_rows = call->n_samples * call->op->desc.u.batch_norm.area;
    double *means = s->sums, *squares = s->sums + s->channels, before = 0.0;
    for (size_t c = channels.begin; c < channels.end; c++)
        means[c] = squares[c] = 0.0;
    for (unsigned i = 0; i < n_threads; i++) {
        const dpt_cpu_range rows = dpt_cpu_split(n_rows, 1, i, n_threads);
        const double count = (double)(rows.end - rows.begin);
        const double *totals = (const double *)(const void *)call->workspace + i * distance;
        const norm_merging by = norm_merging_of(before, count);
        for (size_t c = channels.begin; c < channels.end; c++)
            norm_merge(means + c, squares + c, totals[c], totals[s->channels + c], by);
        before += count;
    }
}

static void write_part(const norm_scratch *s, dpt_cpu_range channels, size_t n_rows, float *part)
{
    for (size_t c = channels.begin; c < channels.end; c++) {
        part[c] = (float)n_rows;
        part[s->channels + c] = (float)s->sums[c];
        part[2 * s->channels + c] = (float)s->sums[s->channels + c];
    }
}

/* x (n,area,c) -> part (3,c) */
static void partial(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const float *x = call->in[0];
    norm_scratch s = KERNEL(norm_scratch_at)(call, d->channels, 1, thread);
    const size_t block = KERNEL(norm_block)(s.period) / d->channels;
    const dpt_cpu_range own = dpt_cpu_split(call->n_samples * d->area, 1, thread, n_threads);
    for (size_t row = own.begin; row < own.end; row += block)
        add_block(&s, x + row * d->channels, norm_least(block, own.end - row),
                  (double)(row - own.begin));
    dpt_cpu_barrier(call->team, thread, n_threads);
    const dpt_cpu_range channels = dpt_cpu_split(d->channels, 16, thread, n_threads);
    merge_threads(call, &s, channels, n_threads);
    write_part(&s, channels, call->n_samples * d->area, call->out[0]);
}

dpt_status KERNEL(prepare_batch_norm_partial)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    KERNEL(norm_plan)(op, partial, d->area, d->channels, 1);
    return DPT_OK;
}

/* ---- Merge and freeze ------------------------------------------------------------------------ */

static float inverse_deviation(double variance, float epsilon)
{
    return (float)(1.0 / sqrt(variance + (double)epsilon));
}

/* `value`, weighted with the part that n samples are of the global batch. */
static float share_of(const dpt_cpu_call *call, size_t n, double value)
{
    const double share = (double)n * (double)call->step->inv_batch;
    return (float)(value * share);
}

/* Adds `value` to a running statistic, weighted with this device's part of the global batch, grain
   by grain. */
static void add_share(const dpt_cpu_call *call, float *to, double value)
{
    const size_t n = call->n_samples, grain = call->grain > 0 && call->grain < n ? call->grain : n;
    float waiting[TREE_LEVELS], added = 0.0f;
    for (size_t at = 0; at < n; at += grain)
        added = tree_add_one(waiting, share_of(call, norm_least(grain, n - at), value), at / grain,
                             n - at <= grain);
    *to = call->accumulate ? *to + added : added;
}

/* parts (n_parts,3,c) -> moments (3,c), mean (c), variance (c) */
static void merge_parts(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const dpt_cpu_range own = dpt_cpu_split(d->channels, 16, thread, n_threads);
    float *moments = call->out[0], *mean = call->out[1], *variance = call->out[2];
    for (size_t c = own.begin; c < own.end; c++) {
        const float *part = (const float *)call->in[0] + c;
        double count = 0.0, all_mean = 0.0, m2 = 0.0;
        for (size_t i = 0; i < d->n_parts; i++, part += 3 * d->channels) {
            norm_merge(&all_mean, &m2, (double)part[d->channels], (double)part[2 * d->channels],
                       norm_merging_of(count, (double)part[0]));
            count += (double)part[0];
        }
        const double inverse = count > 0.0 ? 1.0 / count : 0.0;
        moments[c] = (float)all_mean;
        moments[d->channels + c] = inverse_deviation(m2 * inverse, d->epsilon);
        moments[2 * d->channels + c] = (float)inverse;
        add_share(call, mean + c, all_mean);
        add_share(call, variance + c, count > 1.0 ? m2 / (count - 1.0) : 0.0);
    }
}

/* mean (c), variance (c) -> moments (3,c) */
static void freeze(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const float *mean = call->in[0], *variance = call->in[1];
    const dpt_cpu_range own = dpt_cpu_split(d->channels, 16, thread, n_threads);
    float *moments = call->out[0];
    for (size_t c = own.begin; c < own.end; c++) {
        moments[c] = mean[c];
        moments[d->channels + c] = inverse_deviation((double)variance[c], d->epsilon);
        moments[2 * d->channels + c] = 0.0f;
    }
}

/* Thread 0 runs the kernel alone: its cost does not grow with the samples and is some microseconds.
 */
static dpt_status prepare_alone(dpt_op *op, dpt_cpu_kernel *kernel)
{
    op->plan.kernel = kernel;
    op->plan.work = 0.0;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_batch_norm_merge)(dpt_op *op, dpt_error *error)
{
    (void)error;
    op->plan.has_grains = op->deterministic;
    return prepare_alone(op, merge_parts);
}

dpt_status KERNEL(prepare_batch_norm_freeze)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare_alone(op, freeze);
}
