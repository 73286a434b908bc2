/* Fully connected layers: matrix products, divided among the threads by blocks of the result, so
   that nothing has to be added up between threads. */
#include "activation.h"
#include "gemm.h"
#include "kinds.h"

#include <string.h>

/* A block of a matrix of results. */
typedef struct block {
    dpt_cpu_range rows, columns;
} block;

/* The block of a thread: rows where there are enough for all, else columns. */
static block divide(size_t n_rows, size_t n_columns, unsigned thread, unsigned n_threads)
{
    enum { ROW_GRAIN = 8, COLUMN_GRAIN = 16 };
    const dpt_cpu_range all_rows = {0, n_rows}, all_columns = {0, n_columns};
    const bool by_rows =
        n_rows / ROW_GRAIN >= n_threads || n_rows / ROW_GRAIN >= n_columns / COLUMN_GRAIN;
    if (by_rows) return (block){dpt_cpu_split(n_rows, ROW_GRAIN, thread, n_threads), all_columns};
    return (block){all_rows, dpt_cpu_split(n_columns, COLUMN_GRAIN, thread, n_threads)};
}

static size_t extent(dpt_cpu_range range)
{
    return range.end - range.begin;
}

static float *scratch_of(const dpt_cpu_call *call, unsigned thread)
{
    const size_t n_floats = KERNEL(gemm_scratch)(call->op);
    return n_floats > 0 ? call->workspace + thread * n_floats : NULL;
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    op->plan.kernel = kernel;
    op->plan.workspace_bytes = op->n_threads * KERNEL(gemm_scratch)(op) * sizeof(float);
    op->plan.flops = 2.0 * (double)d->in * (double)d->out;
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = true;
    op->plan.algorithm = KERNEL(gemm_uses_blas)(op) ? "BLAS product" : "own product";
    return DPT_OK;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* x (n,in), w (out,in), bias (out) -> y (n,out) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const float *x = call->in[0], *w = call->in[1], *bias = call->in[2];
    const block own = divide(call->n_samples, d->out, thread, n_threads);
    const size_t first = own.columns.begin;
    if (extent(own.rows) == 0 || extent(own.columns) == 0) return;
    float *y = (float *)call->out[0] + own.rows.begin * d->out + first;
    const gemm g = {.m = extent(own.rows),
                    .n = extent(own.columns),
                    .k = d->in,
                    .a = x + own.rows.begin * d->in,
                    .lda = d->in,
                    .b = w + first * d->in,
                    .ldb = d->in,
                    .b_transposed = true,
                    .c = y,
                    .ldc = d->out};
    KERNEL(gemm_run)(call->op, &g, scratch_of(call, thread));
    for (size_t row = 0; row < g.m; row++, y += d->out) {
        for (size_t i = 0; d->has_bias && i < g.n; i++)
            y[i] += bias[first + i];
        KERNEL(activate)(d->activation, y, y, g.n);
    }
}

dpt_status KERNEL(prepare_linear_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    DPT_TRY(prepare(op, forward));
    op->plan.exact = KERNEL(activation_exact)(op->desc.u.linear.activation);
    return DPT_OK;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* dy (n,out), w (out,in) -> dx (n,in), masked by x (n,in) */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const float *dy = call->in[0], *w = call->in[1], *x = call->in[2];
    const block own = divide(call->n_samples, d->in, thread, n_threads);
    const size_t first = own.columns.begin;
    if (extent(own.rows) == 0 || extent(own.columns) == 0) return;
    float *dx = (float *)call->out[0] + own.rows.begin * d->in + first;
    const gemm g = {.m = extent(own.rows),
                    .n = extent(own.columns),
                    .k = d->out,
                    .a = dy + own.rows.begin * d->out,
                    .lda = d->out,
                    .b = w + first,
                    .ldb = d->in,
                    .c = dx,
                    .ldc = d->in,
                    .accumulate = call->accumulate};
    KERNEL(gemm_run)(call->op, &g, scratch_of(call, thread));
    if (d->input_activation == DPT_ACT_NONE) return;
    x += own.rows.begin * d->in + first;
    for (size_t row = 0; row < g.m; row++, dx += d->in, x += d->in)
        KERNEL(differentiate)(d->input_activation, dx, x, dx, g.n);
}

dpt_status KERNEL(prepare_linear_backward_data)(dpt_op *op, dpt_error *error)
{
    (void)error;
    DPT_TRY(prepare(op, backward_data));
    op->plan.exact = KERNEL(activation_exact)(op->desc.u.linear.input_activation);
    return DPT_OK;
}

/* dbias = column sums of dy, for the columns of a range */
static void add_bias(const dpt_cpu_call *call, dpt_cpu_range columns)
{
    enum { WIDTH = 64 };
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    float *dbias = call->out[1];
    for (size_t at = columns.begin; at < columns.end; at += WIDTH) {
        const size_t n = columns.end - at < WIDTH ? columns.end - at : WIDTH;
        float sum[WIDTH] = {0};
        const float *dy = (const float *)call->in[0] + at;
        for (size_t s = 0; s < call->n_samples; s++) {
            for (size_t i = 0; i < n; i++)
                sum[i] += dy[s * d->out + i];
        }
        for (size_t i = 0; i < n; i++)
            dbias[at + i] = call->accumulate ? dbias[at + i] + sum[i] : sum[i];
    }
}

/* dy (n,out), x (n,in) -> dw (out,in) = dy^T x, dbias (out) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const float *dy = call->in[0], *x = call->in[1];
    const block own = divide(d->out, d->in, thread, n_threads);
    if (d->has_bias) add_bias(call, dpt_cpu_split(d->out, 16, thread, n_threads));
    if (extent(own.rows) == 0 || extent(own.columns) == 0) return;
    const gemm g = {.m = extent(own.rows),
                    .n = extent(own.columns),
                    .k = call->n_samples,
                    .a = dy + own.rows.begin,
                    .lda = d->out,
                    .a_transposed = true,
                    .b = x + own.columns.begin,
                    .ldb = d->in,
                    .c = (float *)call->out[0] + own.rows.begin * d->in + own.columns.begin,
                    .ldc = d->in,
                    .accumulate = call->accumulate};
    KERNEL(gemm_run)(call->op, &g, scratch_of(call, thread));
}

dpt_status KERNEL(prepare_linear_backward_weights)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward_weights);
}
