/* Layer-norm: each row of channels is normalised with its own mean and deviation.  A row is read
   from memory once, for the mean, and then from the cache, for the squared deviations. */
#include "activation.h"
#include "kinds.h"
#include "norm.h"

#include <math.h>
#include <string.h>

static dpt_cpu_range own_rows(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t n_rows = call->n_samples * call->op->desc.u.layer_norm.rows;
    return dpt_cpu_split(n_rows, 1, thread, n_threads);
}

/* A row is summed up in lanes, of which each takes every PARTS-th element, so that compilers make
   vectors of them.  Their number is the same for all instruction sets, and so are the bits. */
enum { PARTS = 16 };

/* The sum of the lanes, in their order. */
static double sum_of(const float part[PARTS])
{
    double sum = 0.0;
    for (size_t k = 0; k < PARTS; k++)
        sum += (double)part[k];
    return sum;
}

/* ---- Forward --------------------------------------------------------------------------------- */

static double mean_of(const float *x, size_t n)
{
    float part[PARTS] = {0};
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (size_t k = 0; k < PARTS; k++)
            part[k] += x[i + k];
    for (size_t k = 0; i + k < n; k++)
        part[k] += x[i + k];
    return sum_of(part) / (double)n;
}

/* The mean of (x - center)^2.  *off: the mean of x - center. */
static double mean_square(const float *x, float center, size_t n, double *off)
{
    float part[PARTS] = {0}, squares[PARTS] = {0};
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS) {
        for (size_t k = 0; k < PARTS; k++) {
            const float deviation = x[i + k] - center;
            part[k] += deviation;
            squares[k] += deviation * deviation;
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        const float deviation = x[i + k] - center;
        part[k] += deviation;
        squares[k] += deviation * deviation;
    }
    *off = sum_of(part) / (double)n;
    return sum_of(squares) / (double)n;
}

static void normalise(const float *restrict x, const float *restrict w, const float *restrict b,
                      float mean, float inverse, float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * inverse * w[i] + b[i];
}

/* x (n,rows,c), w (c), b (c) -> y as x, moments (n,rows,2) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_layer_norm_desc *d = &call->op->desc.u.layer_norm;
    const dpt_cpu_range own = own_rows(call, thread, n_threads);
    for (size_t row = own.begin; row < own.end; row++) {
        const float *x = (const float *)call->in[0] + row * d->channels;
        float *moments = (float *)call->out[1] + 2 * row;
        const float center = (float)mean_of(x, d->channels);
        double off;
        const double square = mean_square(x, center, d->channels, &off);
        const double variance = square - off * off; /* off: the rounding error of the mean */
        moments[0] = (float)((double)center + off);
        moments[1] = (float)(1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + (double)d->epsilon));
        normalise(x, call->in[1], call->in[2], moments[0], moments[1],
                  (float *)call->out[0] + row * d->channels, d->channels);
    }
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const dpt_layer_norm_desc *d = &op->desc.u.layer_norm;
    op->plan.kernel = kernel;
    op->plan.work = (double)d->rows * ((double)d->channels * 0.4 + 20.0);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_layer_norm_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, forward);
}

/* ---- Backward to the data -------------------------------------------------------------------- */

/* The inputs of backward for one row. */
typedef struct row_in {
    const float *dy, *x, *w;
    float mean, inverse;
} row_in;

/* The means of g = dy * w and of g * (x - mean). */
static void mean_products(const row_in *r, size_t n, double *offset, double *slope)
{
    const float *dy = r->dy, *x = r->x, *w = r->w, mean = r->mean;
    float part[PARTS] = {0}, products[PARTS] = {0};
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS) {
        for (size_t k = 0; k < PARTS; k++) {
            const float g = dy[i + k] * w[i + k];
            part[k] += g;
            products[k] += g * (x[i + k] - mean);
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        const float g = dy[i + k] * w[i + k];
        part[k] += g;
        products[k] += g * (x[i + k] - mean);
    }
    *offset = sum_of(part) / (double)n;
    *slope = sum_of(products) / (double)n;
}

static void differentiate(const row_in *r, float offset, float slope, bool accumulate,
                          float *restrict dx, size_t n)
{
    const float *restrict dy = r->dy, *restrict x = r->x, *restrict w = r->w;
    const float mean = r->mean, inverse = r->inverse;
    if (!accumulate) {
        for (size_t i = 0; i < n; i++)
            dx[i] = (dy[i] * w[i] - offset - (x[i] - mean) * slope) * inverse;
        return;
    }
    for (size_t i = 0; i < n; i++)
        dx[i] += (dy[i] * w[i] - offset - (x[i] - mean) * slope) * inverse;
}

/* dy, x (n,rows,c), moments (n,rows,2), w (c) -> dx as x */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_layer_norm_desc *d = &call->op->desc.u.layer_norm;
    const dpt_cpu_range own = own_rows(call, thread, n_threads);
    for (size_t row = own.begin; row < own.end; row++) {
        const size_t at = row * d->channels;
        const float *moments = (const float *)call->in[2] + 2 * row;
        const row_in r = {.dy = (const float *)call->in[0] + at,
                          .x = (const float *)call->in[1] + at,
                          .w = call->in[3],
                          .mean = moments[0],
                          .inverse = moments[1]};
        float *dx = (float *)call->out[0] + at;
        double offset, slope;
        mean_products(&r, d->channels, &offset, &slope);
        slope *= (double)r.inverse * (double)r.inverse; /* of x - mean, not of xhat */
        differentiate(&r, (float)offset, (float)slope, call->accumulate, dx, d->channels);
        KERNEL(differentiate)(call->op, d->input_activation, dx, r.x, dx, d->channels);
    }
}

dpt_status KERNEL(prepare_layer_norm_backward_data)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward_data);
}

/* ---- Backward to the weights ----------------------------------------------------------------- */

/* Adds a row to the sums of dy and of dy * xhat. */
static void add_row(const norm_scratch *s, const float *restrict dy, const float *restrict x,
                    const float *moments)
{
    float *restrict sum = s->block, *restrict product = s->block + s->period;
    const float mean = moments[0], inverse = moments[1];
    for (size_t c = 0; c < s->channels; c++) {
        sum[c] += dy[c];
        product[c] += dy[c] * ((x[c] - mean) * inverse);
    }
}

static void write_weights(const dpt_cpu_call *call, dpt_cpu_range channels, unsigned n_threads)
{
    const dpt_layer_norm_desc *d = &call->op->desc.u.layer_norm;
    const size_t distance = KERNEL(norm_scratch_size)(d->channels, 0) / 2;
    const double *totals = (const void *)call->workspace;
    float *dw = call->out[0], *db = call->out[1];
    for (size_t c = channels.begin; c < channels.end; c++) {
        const float sum = (float)norm_total(totals, distance, n_threads, c);
        const float product = (float)norm_total(totals, distance, n_threads, d->channels + c);
        dw[c] = call->accumulate ? dw[c] + product : product;
        db[c] = call->accumulate ? db[c] + sum : sum;
    }
}

/* dy, x (n,rows,c), moments (n,rows,2) -> dw (c), db (c) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    enum { BLOCK_ROWS = 32 }; /* so few that float sums are precise enough */
    const dpt_layer_norm_desc *d = &call->op->desc.u.layer_norm;
    const float *dy = call->in[0], *x = call->in[1], *moments = call->in[2];
    const dpt_cpu_range own = own_rows(call, thread, n_threads);
    norm_scratch s = KERNEL(norm_scratch_at)(call, d->channels, 0, thread);
    for (size_t first = own.begin; first < own.end; first += BLOCK_ROWS) {
        const size_t end = first + norm_least(BLOCK_ROWS, own.end - first);
        for (size_t row = first; row < end; row++)
            add_row(&s, dy + row * d->channels, x + row * d->channels, moments + 2 * row);
        KERNEL(norm_flush)(&s);
    }
    dpt_cpu_barrier(call->team, thread, n_threads);
    write_weights(call, dpt_cpu_split(d->channels, 16, thread, n_threads), n_threads);
}

dpt_status KERNEL(prepare_layer_norm_backward_weights)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_layer_norm_desc *d = &op->desc.u.layer_norm;
    KERNEL(norm_plan)(op, backward_weights, d->rows, d->channels, 0);
    op->plan.exact = true;
    return DPT_OK;
}
