/* Fully connected layers: matrix products, divided among the threads by blocks of the result, so
   that nothing has to be added up between threads. */
#include "activation.h"
#include "gemm.h"
#include "kinds.h"

#include <stdlib.h>

/* ---- Division -------------------------------------------------------------------------------- */

/* A block of a matrix of results. */
typedef struct block {
    dpt_cpu_range rows, columns;
} block;

/* The block of a thread.  The longer side is divided: a thread reads all of what belongs to the
   other side, and the less of it the better.  Where that gives not everybody something, the rows
   are, or else the columns. */
static block divide(size_t n_rows, size_t n_columns, unsigned thread, unsigned n_threads)
{
    enum { ROW_GRAIN = 8, COLUMN_GRAIN = 16 };
    const dpt_cpu_range all_rows = {0, n_rows}, all_columns = {0, n_columns};
    const bool enough_rows = n_rows / ROW_GRAIN >= n_threads;
    const bool enough_columns = n_columns / COLUMN_GRAIN >= n_threads;
    const bool by_rows = enough_rows == enough_columns ? n_rows >= n_columns : enough_rows;
    if (by_rows) return (block){dpt_cpu_split(n_rows, ROW_GRAIN, thread, n_threads), all_columns};
    return (block){all_rows, dpt_cpu_split(n_columns, COLUMN_GRAIN, thread, n_threads)};
}

static size_t extent(dpt_cpu_range range)
{
    return range.end - range.begin;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* op->plan.state of all three */
typedef struct linear {
    const gemm_way *way;
    size_t scratch; /* of a thread, in floats */
} linear;

static void multiply(const dpt_cpu_call *call, unsigned thread, const gemm *g)
{
    const linear *v = call->op->plan.state;
    float *scratch = v->scratch > 0 ? call->workspace + thread * v->scratch : NULL;
    KERNEL(gemm_run)(v->way, call->op, g, scratch);
}

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
                    .ldc = d->out,
                    .bias = d->has_bias ? bias + first : NULL,
                    .relu = d->activation == DPT_ACT_RELU};
    multiply(call, thread, &g);
    if (d->activation == DPT_ACT_NONE || g.relu) return;
    for (size_t row = 0; row < g.m; row++, y += d->out)
        KERNEL(activate)(d->activation, y, y, g.n);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* dy (n,out), w (out,in) -> dx (n,in) = dy w */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const dpt_activation mask = d->input_activation;
    const float *dy = call->in[0], *w = call->in[1], *x = call->in[2];
    const block own = divide(call->n_samples, d->in, thread, n_threads);
    const size_t first = own.columns.begin;
    if (extent(own.rows) == 0 || extent(own.columns) == 0) return;
    float *dx = (float *)call->out[0] + own.rows.begin * d->in + first;
    if (mask != DPT_ACT_NONE) x += own.rows.begin * d->in + first;
    const gemm g = {.m = extent(own.rows),
                    .n = extent(own.columns),
                    .k = d->out,
                    .a = dy + own.rows.begin * d->out,
                    .lda = d->out,
                    .b = w + first,
                    .ldb = d->in,
                    .c = dx,
                    .ldc = d->in,
                    .accumulate = call->accumulate,
                    .mask = mask == DPT_ACT_RELU ? x : NULL};
    multiply(call, thread, &g);
    if (mask == DPT_ACT_NONE || g.mask) return;
    for (size_t row = 0; row < g.m; row++, dx += d->in, x += d->in)
        KERNEL(differentiate)(mask, dx, x, dx, g.n);
}

/* dbias = column sums of dy, for some rows of the slice */
static void add_bias(const dpt_cpu_call *call, dpt_cpu_range rows)
{
    enum { WIDTH = 64 };
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    float *dbias = call->out[1];
    for (size_t at = rows.begin; at < rows.end; at += WIDTH) {
        const size_t n = rows.end - at < WIDTH ? rows.end - at : WIDTH;
        float sum[WIDTH] = {0};
        const float *dy = (const float *)call->in[0] + d->first + at;
        for (size_t s = 0; s < call->n_samples; s++) {
            for (size_t i = 0; i < n; i++)
                sum[i] += dy[s * d->out + i];
        }
        for (size_t i = 0; i < n; i++)
            dbias[at + i] = call->accumulate ? dbias[at + i] + sum[i] : sum[i];
    }
}

/* dy (n,out), x (n,in) -> dw (rows,in) = dy^T x of columns first .. of dy, dbias (rows) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const float *dy = (const float *)call->in[0] + d->first, *x = call->in[1];
    const size_t rows = dpt_linear_rows(d);
    const block own = divide(rows, d->in, thread, n_threads);
    if (d->has_bias) add_bias(call, dpt_cpu_split(rows, 16, thread, n_threads));
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
    multiply(call, thread, &g);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare(dpt_op *op, const gemm_way *way, dpt_error *error)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (!way->suits(op))
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "this product cannot go to the BLAS");
    linear *v = malloc(sizeof *v);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a linear layer's plan");
    *v = (linear){.way = way, .scratch = way->scratch()};
    op->plan.state = v;
    op->plan.workspace_bytes = op->n_threads * v->scratch * sizeof(float);
    op->plan.flops = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = true;
    op->plan.algorithm = way->name;
    switch (op->desc.kind) {
    case DPT_OP_LINEAR_FORWARD:
        op->plan.kernel = forward;
        op->plan.exact = KERNEL(activation_exact)(d->activation);
        break;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        op->plan.kernel = backward_data;
        op->plan.exact = KERNEL(activation_exact)(d->input_activation);
        break;
    default: op->plan.kernel = backward_weights;
    }
    return DPT_OK;
}

dpt_status KERNEL(prepare_linear_blas)(dpt_op *op, dpt_error *error)
{
    return prepare(op, &KERNEL(gemm_blas), error);
}

dpt_status KERNEL(prepare_linear_packed)(dpt_op *op, dpt_error *error)
{
    return prepare(op, &KERNEL(gemm_packed), error);
}
