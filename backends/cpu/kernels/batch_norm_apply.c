/* Batch-norm forward and backward, with given statistics.  Each pass reads the tensors once.  The
   mean is subtracted before a multiplication: if it were part of the shift, two large values would
   cancel where the mean is large against the deviation. */
#include "activation.h"
#include "kinds.h"
#include "norm.h"

#include <math.h>
#include <string.h>

/* The elements of a thread, which are whole rows. */
static dpt_cpu_range own_elements(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const dpt_cpu_range rows = dpt_cpu_split(call->n_samples * d->area, 1, thread, n_threads);
    return (dpt_cpu_range){rows.begin * d->channels, rows.end * d->channels};
}

/* ---- Forward --------------------------------------------------------------------------------- */

enum { FORWARD_FACTORS = 3 }; /* mean, scale, shift */

static void forward_factors(const dpt_cpu_call *call, const norm_scratch *s)
{
    const float *moments = call->in[1], *w = call->in[2], *b = call->in[3];
    float *mean = s->factors, *scale = mean + s->period, *shift = scale + s->period;
    for (size_t c = 0; c < s->channels; c++) {
        mean[c] = moments[c];
        scale[c] = moments[s->channels + c] * w[c];
        shift[c] = b[c];
    }
    KERNEL(norm_repeat)(s, FORWARD_FACTORS);
}

/* Normalises n elements, at most a period.  residual may be NULL. */
static void normalise(const norm_scratch *s, const float *restrict x,
                      const float *restrict residual, float *restrict y, size_t n)
{
    const float *restrict mean = s->factors, *restrict scale = mean + s->period,
                          *restrict shift = scale + s->period;
    if (!residual) {
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean[i]) * scale[i] + shift[i] + residual[i];
}

/* x (n,area,c), moments (3,c), w (c), b (c), residual as x -> y as x */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const dpt_cpu_range own = own_elements(call, thread, n_threads);
    const float *x = call->in[0], *residual = d->has_residual ? call->in[4] : NULL;
    float *y = call->out[0];
    if (own.begin == own.end) return;
    const norm_scratch s = KERNEL(norm_scratch_at)(call, d->channels, FORWARD_FACTORS, thread);
    forward_factors(call, &s);
    for (size_t at = own.begin; at < own.end; at += s.period) {
        const size_t n = norm_least(s.period, own.end - at);
        normalise(&s, x + at, residual ? residual + at : NULL, y + at, n);
        KERNEL(activate)(call->op, d->activation, y + at, y + at, n);
    }
}

dpt_status KERNEL(prepare_batch_norm_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    KERNEL(norm_plan)(op, forward, d->area, d->channels, FORWARD_FACTORS);
    op->plan.exact = KERNEL(activation_exact)(d->activation);
    return DPT_OK;
}

/* ---- Backward through a ReLU that follows ---------------------------------------------------- */

/* out = the gradient before the ReLU, for n elements, at most a period.  A CPU device never asks
   for this: on it, the operator that reads the batch-norm's output applies the mask without extra
   cost.
 */
static void before_relu(const float *restrict dy, const float *restrict x,
                        const float *restrict mean, const float *restrict scale,
                        const float *restrict shift, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = dy[i] * (fmaf(x[i] - mean[i], scale[i], shift[i]) > 0.0f ? 1.0f : 0.0f);
}

/* ---- A device's part of backward ------------------------------------------------------------- */

/* The factors: mean.  With a ReLU also scale, shift, and room for a period of the gradient before
   the ReLU. */
static size_t partial_factors(const dpt_batch_norm_desc *d)
{
    return d->output_activation == DPT_ACT_NONE ? 1 : 4;
}

static void mask_factors(const dpt_cpu_call *call, const norm_scratch *s)
{
    const float *moments = call->in[2], *w = call->in[3], *b = call->in[4];
    float *scale = s->factors + s->period, *shift = scale + s->period;
    for (size_t c = 0; c < s->channels; c++) {
        scale[c] = moments[s->channels + c] * w[c];
        shift[c] = b[c];
    }
}

/* Adds dy and dy * (x - mean) of n elements, at most a period, to the block. */
static void add_products(const norm_scratch *s, const float *restrict dy, const float *restrict x,
                         size_t n)
{
    const float *restrict mean = s->factors;
    float *restrict sum = s->block, *restrict product = s->block + s->period;
    for (size_t i = 0; i < n; i++) {
        sum[i] += dy[i];
        product[i] += dy[i] * (x[i] - mean[i]);
    }
}

static void write_part(const dpt_cpu_call *call, dpt_cpu_range channels, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const float *inverse = (const float *)call->in[2] + d->channels;
    const size_t distance = KERNEL(norm_scratch_size)(d->channels, partial_factors(d)) / 2;
    const double *totals = (const void *)call->workspace;
    float *part = call->out[0], *dw = call->out[1], *db = call->out[2];
    for (size_t c = channels.begin; c < channels.end; c++) {
        const double sum = norm_total(totals, distance, n_threads, c);
        const double product = norm_total(totals, distance, n_threads, d->channels + c);
        part[c] = (float)sum;
        part[d->channels + c] = (float)(product * (double)inverse[c]);
        db[c] = call->accumulate ? db[c] + part[c] : part[c];
        dw[c] = call->accumulate ? dw[c] + part[d->channels + c] : part[d->channels + c];
    }
}

/* add_products of the gradient before the ReLU. */
static void add_masked(const norm_scratch *s, const float *dy, const float *x, size_t n)
{
    const float *mean = s->factors, *scale = mean + s->period, *shift = scale + s->period;
    float *masked = s->factors + 3 * s->period;
    before_relu(dy, x, mean, scale, shift, masked, n);
    add_products(s, masked, x, n);
}

/* dy, x (n,area,c), moments (3,c), [w (c), b (c)] -> part (2,c), dw (c), db (c) */
static void backward_partial(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const float *dy = call->in[0], *x = call->in[1], *moments = call->in[2];
    const dpt_cpu_range own = own_elements(call, thread, n_threads);
    const bool masks = d->output_activation != DPT_ACT_NONE;
    norm_scratch s = KERNEL(norm_scratch_at)(call, d->channels, partial_factors(d), thread);
    const size_t block = KERNEL(norm_block)(s.period);
    memcpy(s.factors, moments, d->channels * sizeof *moments);
    if (masks) mask_factors(call, &s);
    KERNEL(norm_repeat)(&s, masks ? 3 : 1);
    for (size_t first = own.begin; first < own.end; first += block) {
        const size_t end = first + norm_least(block, own.end - first);
        for (size_t at = first; at < end; at += s.period)
            (masks ? add_masked : add_products)(&s, dy + at, x + at,
                                                norm_least(s.period, end - at));
        KERNEL(norm_flush)(&s);
    }
    dpt_cpu_barrier(call->team, thread, n_threads);
    write_part(call, dpt_cpu_split(d->channels, 16, thread, n_threads), n_threads);
}

dpt_status KERNEL(prepare_batch_norm_backward_partial)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    KERNEL(norm_plan)(op, backward_partial, d->area, d->channels, partial_factors(d));
    op->plan.exact = true;
    return DPT_OK;
}

/* ---- Backward to the data -------------------------------------------------------------------- */

/* The factors: mean, scale, and offset and slope, which are subtracted from dy.  With a ReLU also
   shift, and room for a period of the gradient before the ReLU. */
enum { BACKWARD_FACTORS = 4, MASKED_FACTORS = 6 };

static size_t data_factors(const dpt_batch_norm_desc *d)
{
    return d->output_activation == DPT_ACT_NONE ? BACKWARD_FACTORS : MASKED_FACTORS;
}

static void backward_factors(const dpt_cpu_call *call, const norm_scratch *s)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const float *moments = call->in[2], *w = call->in[3], *parts = call->in[4];
    float *mean = s->factors, *scale = mean + s->period;
    float *offset = scale + s->period, *slope = offset + s->period;
    for (size_t c = 0; c < d->channels; c++) {
        const double inverse = (double)moments[d->channels + c];
        const double inverse_count = (double)moments[2 * d->channels + c];
        double sum = 0.0, product = 0.0;
        for (size_t i = 0; i < d->n_parts; i++) {
            sum += (double)parts[2 * i * d->channels + c];
            product += (double)parts[(2 * i + 1) * d->channels + c];
        }
        mean[c] = moments[c];
        scale[c] = (float)((double)w[c] * inverse);
        offset[c] = (float)(sum * inverse_count);
        slope[c] = (float)(product * inverse_count * inverse);
    }
    if (d->output_activation != DPT_ACT_NONE)
        memcpy(slope + s->period, call->in[5], d->channels * sizeof *slope);
    KERNEL(norm_repeat)(s, d->output_activation == DPT_ACT_NONE ? BACKWARD_FACTORS : 5);
}

/* Computes dx of n elements, at most a period. */
static void differentiate(const norm_scratch *s, const float *restrict dy, const float *restrict x,
                          bool accumulate, float *restrict dx, size_t n)
{
    const float *restrict mean = s->factors, *restrict scale = mean + s->period,
                          *restrict offset = scale + s->period,
                          *restrict slope = offset + s->period;
    if (!accumulate) {
        for (size_t i = 0; i < n; i++)
            dx[i] = (dy[i] - offset[i] - (x[i] - mean[i]) * slope[i]) * scale[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        dx[i] += (dy[i] - offset[i] - (x[i] - mean[i]) * slope[i]) * scale[i];
}

/* dy, x (n,area,c), moments (3,c), w (c), parts (n_parts,2,c), [b (c)] -> dx as x */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_batch_norm_desc *d = &call->op->desc.u.batch_norm;
    const dpt_cpu_range own = own_elements(call, thread, n_threads);
    const float *dy = call->in[0], *x = call->in[1];
    float *dx = call->out[0];
    if (own.begin == own.end) return;
    const norm_scratch s = KERNEL(norm_scratch_at)(call, d->channels, data_factors(d), thread);
    const float *mean = s.factors;
    float *masked = s.factors + 5 * s.period;
    backward_factors(call, &s);
    for (size_t at = own.begin; at < own.end; at += s.period) {
        const size_t n = norm_least(s.period, own.end - at);
        const float *gradient = dy + at;
        if (d->output_activation != DPT_ACT_NONE) {
            before_relu(gradient, x + at, mean, mean + s.period, mean + 4 * s.period, masked, n);
            gradient = masked;
        }
        differentiate(&s, gradient, x + at, call->accumulate, dx + at, n);
        KERNEL(differentiate)(call->op, d->input_activation, dx + at, x + at, dx + at, n);
    }
}

dpt_status KERNEL(prepare_batch_norm_backward_data)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    KERNEL(norm_plan)(op, backward_data, d->area, d->channels, data_factors(d));
    op->plan.exact = KERNEL(activation_exact)(d->input_activation);
    return DPT_OK;
}
