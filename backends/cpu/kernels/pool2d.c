/* Pooling.  Windows are clipped to the image.  A lane is a channel. */
#include "activation.h"
#include "kinds.h"
#include "simd.h"

#include <stdlib.h>

/* The part of a window that lies in the image. */
typedef struct window {
    size_t row, n_rows, column, n_columns;
} window;

static size_t clip(size_t at, size_t stride, size_t kernel, size_t pad, size_t extent,
                   size_t *length)
{
    const size_t begin = at * stride > pad ? at * stride - pad : 0;
    const size_t end = at * stride + kernel - pad;
    *length = (end < extent ? end : extent) - begin;
    return begin;
}

static window window_at(const dpt_pool2d_desc *d, size_t oh, size_t ow)
{
    window w;
    w.row = clip(oh, d->stride_h, d->kernel_h, d->pad_h, d->in_h, &w.n_rows);
    w.column = clip(ow, d->stride_w, d->kernel_w, d->pad_w, d->in_w, &w.n_columns);
    return w;
}

/* The offset of a window's first value in a sample, in floats. */
static size_t window_offset(const dpt_pool2d_desc *d, const window *w)
{
    return (w->row * d->in_w + w->column) * d->channels;
}

static size_t lanes_left(const dpt_pool2d_desc *d, size_t channel)
{
    return d->channels - channel < LANES ? d->channels - channel : LANES;
}

static bool power_of_two(size_t n)
{
    return (n & (n - 1)) == 0;
}

/* Divides sums by the size of a window.  If the inverse is exact, this is a multiplication with the
   same bits. */
typedef struct divisor {
    vec value;
    bool is_inverse;
} divisor;

static divisor divisor_of(const dpt_pool2d_desc *d)
{
    const size_t count = d->kernel_h * d->kernel_w;
    const bool is_inverse = power_of_two(count);
    return (divisor){vec_set(is_inverse ? 1.0f / (float)count : (float)count), is_inverse};
}

static inline vec divide(divisor by, vec sum)
{
    return by.is_inverse ? vec_mul(sum, by.value) : vec_div(sum, by.value);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Computes y of one pixel.  x: the first input of its window. */
static void average_window(const dpt_pool2d_desc *d, divisor by, const window *w, const float *x,
                           float *y)
{
    for (size_t c = 0; c < d->channels; c += LANES) {
        const size_t n = lanes_left(d, c);
        vec sum = vec_set(0.0f);
        for (size_t i = 0; i < w->n_rows; i++)
            for (size_t j = 0; j < w->n_columns; j++)
                sum = vec_add(sum, vec_load_n(x + (i * d->in_w + j) * d->channels + c, n));
        vec_store_n(y + c, divide(by, sum), n);
    }
}

/* Computes a row of results whose windows all lie in the image.  x: the first input of the first
   window.  The extents of the window are constants in the calls for common windows. */
DPT_CPU_INLINE void average_row(const dpt_pool2d_desc *d, divisor by, const size_t kernel_h,
                                const size_t kernel_w, const float *x, float *y)
{
    const size_t channels = d->channels, row = d->in_w * channels;
    for (size_t ow = 0; ow < d->out_w; ow++, x += d->stride_w * channels, y += channels) {
        for (size_t c = 0; c < channels; c += LANES) {
            const size_t n = lanes_left(d, c);
            vec sum = vec_set(0.0f);
            for (size_t i = 0; i < kernel_h; i++)
                for (size_t j = 0; j < kernel_w; j++)
                    sum = vec_add(sum, vec_load_n(x + i * row + j * channels + c, n));
            vec_store_n(y + c, divide(by, sum), n);
        }
    }
}

/* Whether every window lies in the image. */
static bool clips_none(const dpt_pool2d_desc *d)
{
    return d->pad_h == 0 && d->pad_w == 0 &&
           (d->out_h - 1) * d->stride_h + d->kernel_h <= d->in_h &&
           (d->out_w - 1) * d->stride_w + d->kernel_w <= d->in_w;
}

static void max_window(const dpt_pool2d_desc *d, const window *w, const float *x, float *y)
{
    for (size_t c = 0; c < d->channels; c += LANES) {
        const size_t n = lanes_left(d, c);
        vec most = vec_load_n(x + c, n);
        for (size_t i = 0; i < w->n_rows; i++)
            for (size_t j = 0; j < w->n_columns; j++)
                most = vec_max(vec_load_n(x + (i * d->in_w + j) * d->channels + c, n), most);
        vec_store_n(y + c, most, n);
    }
}

/* x (n,in_h,in_w,channels) -> y (n,out_h,out_w,channels) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_pool2d_desc *d = &call->op->desc.u.pool2d;
    const divisor by = divisor_of(d);
    const size_t in_size = d->in_h * d->in_w * d->channels;
    const dpt_cpu_range rows = dpt_cpu_split(call->n_samples * d->out_h, 1, thread, n_threads);
    const bool whole_average = d->kind == DPT_POOL_AVERAGE && clips_none(d);
    const bool by_2x2 = d->kernel_h == 2 && d->kernel_w == 2;
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *x = (const float *)call->in[0] + row / d->out_h * in_size;
        float *y = (float *)call->out[0] + row * d->out_w * d->channels;
        if (whole_average) {
            x += row % d->out_h * d->stride_h * d->in_w * d->channels;
            if (by_2x2)
                average_row(d, by, 2, 2, x, y);
            else
                average_row(d, by, d->kernel_h, d->kernel_w, x, y);
            continue;
        }
        for (size_t ow = 0; ow < d->out_w; ow++, y += d->channels) {
            const window w = window_at(d, row % d->out_h, ow);
            const float *first = x + window_offset(d, &w);
            if (d->kind == DPT_POOL_MAX)
                max_window(d, &w, first, y);
            else
                average_window(d, by, &w, first, y);
        }
    }
}

/* ---- Backward of the average: every input sums over the windows that hold it ----------------- */

/* The windows along one axis that hold an input: the first one, and their number. */
typedef struct windows {
    size_t first, n;
} windows;

static windows windows_of(size_t at, size_t stride, size_t kernel, size_t pad, size_t extent)
{
    const size_t low = at + pad + 1 > kernel ? at + pad + 1 - kernel : 0;
    const size_t first = (low + stride - 1) / stride;
    const size_t last = (at + pad) / stride < extent ? (at + pad) / stride : extent - 1;
    return (windows){first, last + 1 > first ? last + 1 - first : 0};
}

/* The computation of dx for a row of inputs. */
typedef struct input_row {
    const float *dy; /* of the sample */
    const float *x;  /* the row; NULL: no mask */
    float *dx;       /* the row */
    windows rows;
    const windows *columns; /* of each input of the row */
    bool accumulate;
} input_row;

/* An input's gradient from the sum over its windows. */
DPT_CPU_INLINE void put_gradient(divisor by, vec sum, bool accumulate, const float *x, float *dx,
                                 size_t n)
{
    vec gradient = divide(by, sum);
    if (accumulate) gradient = vec_add(vec_load_n(dx, n), gradient);
    if (x) gradient = vec_where_positive(vec_load_n(x, n), gradient);
    vec_store_n(dx, gradient, n);
}

static void average_row_back(const dpt_pool2d_desc *d, divisor by, const input_row *r)
{
    const size_t channels = d->channels;
    const bool accumulate = r->accumulate;
    for (size_t at = 0; at < d->in_w; at++) {
        const windows columns = r->columns[at];
        const float *dy = r->dy + (r->rows.first * d->out_w + columns.first) * channels;
        const float *x = r->x ? r->x + at * channels : NULL;
        float *dx = r->dx + at * channels;
        if (r->rows.n == 1 && columns.n == 1) { /* one window holds the input */
            for (size_t c = 0; c < channels; c += LANES) {
                const size_t n = lanes_left(d, c);
                const vec sum = vec_add(vec_set(0.0f), vec_load_n(dy + c, n)); /* no -0 */
                put_gradient(by, sum, accumulate, x ? x + c : NULL, dx + c, n);
            }
            continue;
        }
        for (size_t c = 0; c < channels; c += LANES) {
            const size_t n = lanes_left(d, c);
            vec sum = vec_set(0.0f);
            for (size_t i = 0; i < r->rows.n; i++)
                for (size_t j = 0; j < columns.n; j++)
                    sum = vec_add(sum, vec_load_n(dy + (i * d->out_w + j) * channels + c, n));
            put_gradient(by, sum, accumulate, x ? x + c : NULL, dx + c, n);
        }
    }
}

/* dy (n,out_h,out_w,channels), x (n,in_h,in_w,channels) -> dx as x */
static void average_backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_pool2d_desc *d = &call->op->desc.u.pool2d;
    const dpt_activation mask = d->input_activation;
    const divisor by = divisor_of(d);
    const size_t out_size = d->out_h * d->out_w * d->channels;
    const size_t row_size = d->in_w * d->channels;
    const dpt_cpu_range rows = dpt_cpu_split(call->n_samples * d->in_h, 1, thread, n_threads);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *x = mask != DPT_ACT_NONE ? (const float *)call->in[1] + row * row_size : NULL;
        const input_row r = {
            .dy = (const float *)call->in[0] + row / d->in_h * out_size,
            .x = mask == DPT_ACT_RELU ? x : NULL,
            .dx = (float *)call->out[0] + row * row_size,
            .rows = windows_of(row % d->in_h, d->stride_h, d->kernel_h, d->pad_h, d->out_h),
            .columns = call->op->plan.state,
            .accumulate = call->accumulate,
        };
        average_row_back(d, by, &r);
        if (mask != DPT_ACT_RELU) KERNEL(differentiate)(call->op, mask, r.dx, x, r.dx, row_size);
    }
}

/* ---- Backward of the maximum ----------------------------------------------------------------- */

/* Adds dy to the dx of the window's first maximum, in row-major order. */
static void max_window_back(const dpt_pool2d_desc *d, const window *w, const float *x,
                            const float *dy, float *dx)
{
    for (size_t c = 0; c < d->channels; c++) {
        size_t where = 0;
        float most = x[c];
        for (size_t i = 0; i < w->n_rows; i++) {
            for (size_t j = 0; j < w->n_columns; j++) {
                const size_t at = (i * d->in_w + j) * d->channels;
                if (x[at + c] > most) {
                    most = x[at + c];
                    where = at;
                }
            }
        }
        dx[where + c] += dy[c];
    }
}

static void max_backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_pool2d_desc *d = &call->op->desc.u.pool2d;
    const size_t in_size = d->in_h * d->in_w * d->channels;
    const size_t out_size = d->out_h * d->out_w * d->channels;
    const dpt_cpu_range samples = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = samples.begin; s < samples.end; s++) {
        const float *dy = (const float *)call->in[0] + s * out_size;
        const float *x = (const float *)call->in[1] + s * in_size;
        float *dx = (float *)call->out[0] + s * in_size;
        if (!call->accumulate) memset(dx, 0, in_size * sizeof *dx);
        for (size_t pixel = 0; pixel < d->out_h * d->out_w; pixel++, dy += d->channels) {
            const window w = window_at(d, pixel / d->out_w, pixel % d->out_w);
            const size_t first = window_offset(d, &w);
            max_window_back(d, &w, x + first, dy, dx + first);
        }
        KERNEL(differentiate)(call->op, d->input_activation, dx, x, dx, in_size);
    }
}

/* ---- Preparation ----------------------------------------------------------------------------- */

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel, double work)
{
    op->plan.kernel = kernel;
    op->plan.work = work;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_pool2d_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_pool2d_desc *d = &op->desc.u.pool2d;
    op->plan.exact = true;
    return prepare(op, forward, (double)(d->out_h * d->out_w * d->channels) * 0.5);
}

/* The windows of each column, computed once so that rows need no divisions. */
static windows *column_windows(const dpt_pool2d_desc *d)
{
    windows *columns = malloc(dpt_cpu_mul(d->in_w, sizeof *columns));
    for (size_t at = 0; columns && at < d->in_w; at++)
        columns[at] = windows_of(at, d->stride_w, d->kernel_w, d->pad_w, d->out_w);
    return columns;
}

dpt_status KERNEL(prepare_pool2d_backward)(dpt_op *op, dpt_error *error)
{
    const dpt_pool2d_desc *d = &op->desc.u.pool2d;
    const bool is_max = d->kind == DPT_POOL_MAX;
    /* Only a division by a power of two is exact. */
    op->plan.exact = KERNEL(activation_exact)(d->input_activation) &&
                     (is_max || power_of_two(d->kernel_h * d->kernel_w));
    if (!is_max) {
        op->plan.state = column_windows(d);
        if (!op->plan.state)
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a pooling's plan");
    }
    return prepare(op, is_max ? max_backward : average_backward,
                   (double)(d->in_h * d->in_w * d->channels) * 0.5);
}
