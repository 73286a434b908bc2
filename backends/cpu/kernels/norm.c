/* The scratch of batch-norm and layer-norm. */
#include "norm.h"

#include <string.h>

enum {
    PERIOD = 512, /* the fewest elements of a period */
    BLOCK = 1 << 14,
    BLOCK_PERIODS = 16, /* the fewest periods of a block */
};

size_t KERNEL(norm_period)(size_t channels)
{
    return channels * dpt_cpu_ceil_div(PERIOD, channels);
}

size_t KERNEL(norm_block)(size_t period)
{
    return period * (BLOCK / period > BLOCK_PERIODS ? BLOCK / period : BLOCK_PERIODS);
}

/* The floats that two doubles for each channel take. */
static size_t doubles_size(size_t channels)
{
    return dpt_cpu_round(dpt_cpu_mul(channels, 4));
}

size_t KERNEL(norm_scratch_size)(size_t channels, size_t n_factors)
{
    const size_t periods = dpt_cpu_mul(KERNEL(norm_period)(channels), n_factors + 2);
    return dpt_cpu_round(dpt_cpu_add(dpt_cpu_mul(doubles_size(channels), 2), periods));
}

norm_scratch KERNEL(norm_scratch_at)(const dpt_cpu_call *call, size_t channels, size_t n_factors,
                                     unsigned thread)
{
    float *own = call->workspace + thread * KERNEL(norm_scratch_size)(channels, n_factors);
    norm_scratch s = {.channels = channels, .period = KERNEL(norm_period)(channels)};
    s.totals = (void *)own;
    s.sums = (void *)(own + doubles_size(channels));
    s.block = own + 2 * doubles_size(channels);
    s.factors = s.block + 2 * s.period;
    memset(s.totals, 0, 2 * channels * sizeof *s.totals);
    memset(s.block, 0, 2 * s.period * sizeof *s.block);
    return s;
}

void KERNEL(norm_fold)(norm_scratch *s)
{
    for (size_t k = 0; k < 2; k++) {
        double *restrict sums = s->sums + k * s->channels;
        const float *block = s->block + k * s->period;
        for (size_t c = 0; c < s->channels; c++)
            sums[c] = (double)block[c];
        for (size_t at = s->channels; at < s->period; at += s->channels)
            for (size_t c = 0; c < s->channels; c++)
                sums[c] += (double)block[at + c];
    }
    memset(s->block, 0, 2 * s->period * sizeof *s->block);
}

void KERNEL(norm_flush)(norm_scratch *s)
{
    KERNEL(norm_fold)(s);
    for (size_t i = 0; i < 2 * s->channels; i++)
        s->totals[i] += s->sums[i];
}

void KERNEL(norm_repeat)(const norm_scratch *s, size_t n_factors)
{
    for (size_t k = 0; k < n_factors; k++) {
        float *factor = s->factors + k * s->period;
        for (size_t at = s->channels; at < s->period; at += s->channels)
            memcpy(factor + at, factor, s->channels * sizeof *factor);
    }
}

void KERNEL(norm_plan)(dpt_op *op, dpt_cpu_kernel *kernel, size_t rows, size_t channels,
                       size_t n_factors)
{
    const size_t n_floats =
        dpt_cpu_mul(op->n_threads, KERNEL(norm_scratch_size)(channels, n_factors));
    op->plan.kernel = kernel;
    op->plan.workspace_bytes = dpt_cpu_mul(n_floats, sizeof(float));
    op->plan.work = (double)rows * (double)channels * 0.3;
    op->plan.algorithm = "loop";
}
