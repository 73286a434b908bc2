/* Pooling.  A window is clipped to the image; a lane is a channel. */
#include "activation.h"
#include "kinds.h"
#include "simd.h"

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

/* Where a window's first value lies in a sample. */
static size_t window_offset(const dpt_pool2d_desc *d, const window *w)
{
    return (w->row * d->in_w + w->column) * d->channels;
}

static size_t lanes_left(const dpt_pool2d_desc *d, size_t channel)
{
    return d->channels - channel < LANES ? d->channels - channel : LANES;
}

/* A function of a window of one sample: x or dx at the window, y or dy at the output pixel. */

static void average_window(const dpt_pool2d_desc *d, const window *w, const float *x, float *y)
{
    const vec count = vec_set((float)(d->kernel_h * d->kernel_w));
    for (size_t c = 0; c < d->channels; c += LANES) {
        const size_t n = lanes_left(d, c);
        vec sum = vec_set(0.0f);
        for (size_t i = 0; i < w->n_rows; i++)
            for (size_t j = 0; j < w->n_columns; j++)
                sum = vec_add(sum, vec_load_n(x + (i * d->in_w + j) * d->channels + c, n));
        vec_store_n(y + c, vec_div(sum, count), n);
    }
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

static void average_window_back(const dpt_pool2d_desc *d, const window *w, const float *dy,
                                float *dx)
{
    const vec count = vec_set((float)(d->kernel_h * d->kernel_w));
    for (size_t c = 0; c < d->channels; c += LANES) {
        const size_t n = lanes_left(d, c);
        const vec each = vec_div(vec_load_n(dy + c, n), count);
        for (size_t i = 0; i < w->n_rows; i++) {
            for (size_t j = 0; j < w->n_columns; j++) {
                float *to = dx + (i * d->in_w + j) * d->channels + c;
                vec_store_n(to, vec_add(vec_load_n(to, n), each), n);
            }
        }
    }
}

/* To the first maximum, in row-major order. */
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

/* ---- Operators ------------------------------------------------------------------------------- */

/* x (n,in_h,in_w,channels) -> y (n,out_h,out_w,channels) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_pool2d_desc *d = &call->op->desc.u.pool2d;
    const size_t in_size = d->in_h * d->in_w * d->channels;
    const dpt_cpu_range rows = dpt_cpu_split(call->n_samples * d->out_h, 1, thread, n_threads);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *x = (const float *)call->in[0] + row / d->out_h * in_size;
        float *y = (float *)call->out[0] + row * d->out_w * d->channels;
        for (size_t ow = 0; ow < d->out_w; ow++, y += d->channels) {
            const window w = window_at(d, row % d->out_h, ow);
            const float *first = x + window_offset(d, &w);
            if (d->kind == DPT_POOL_MAX)
                max_window(d, &w, first, y);
            else
                average_window(d, &w, first, y);
        }
    }
}

/* dy (n,out_h,out_w,channels), x (n,in_h,in_w,channels) -> dx as x */
static void backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_pool2d_desc *d = &call->op->desc.u.pool2d;
    const size_t in_size = d->in_h * d->in_w * d->channels;
    const size_t out_size = d->out_h * d->out_w * d->channels;
    const bool needs_x = d->kind == DPT_POOL_MAX || d->input_activation != DPT_ACT_NONE;
    const dpt_cpu_range samples = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = samples.begin; s < samples.end; s++) {
        const float *dy = (const float *)call->in[0] + s * out_size;
        const float *x = needs_x ? (const float *)call->in[1] + s * in_size : NULL;
        float *dx = (float *)call->out[0] + s * in_size;
        if (!call->accumulate) memset(dx, 0, in_size * sizeof *dx);
        for (size_t pixel = 0; pixel < d->out_h * d->out_w; pixel++, dy += d->channels) {
            const window w = window_at(d, pixel / d->out_w, pixel % d->out_w);
            const size_t first = window_offset(d, &w);
            if (d->kind == DPT_POOL_MAX)
                max_window_back(d, &w, x + first, dy, dx + first);
            else
                average_window_back(d, &w, dy, dx + first);
        }
        if (d->input_activation != DPT_ACT_NONE)
            KERNEL(differentiate)(d->input_activation, dx, x, dx, in_size);
    }
}

static bool power_of_two(size_t n)
{
    return (n & (n - 1)) == 0;
}

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
    return prepare(op, forward, (double)(d->out_h * d->out_w * d->channels) * 1.0);
}

dpt_status KERNEL(prepare_pool2d_backward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    const dpt_pool2d_desc *d = &op->desc.u.pool2d;
    /* Sums of thirds are not exact. */
    op->plan.exact = KERNEL(activation_exact)(d->input_activation) &&
                     (d->kind == DPT_POOL_MAX || power_of_two(d->kernel_h * d->kernel_w));
    return prepare(op, backward, (double)(d->in_h * d->in_w * d->channels) * 1.0);
}
