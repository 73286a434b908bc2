/* Linear layers, as matrix products.  Threads divide the result into blocks, so no sums are added
   between threads.

   Deterministic layers take our own product with unbroken sums.  Where a long sum is added to what
   is there, the sum is finished in the workspace first. */
#include "activation.h"
#include "gemm_algorithms.h"
#include "kinds.h"
#include "product.h"

#include <stdlib.h>

/* op->plan.state of all three */
typedef struct linear {
    const gemm_algorithm *algorithm;
    size_t apart; /* the place of a product of its own in the workspace, in floats; 0: none */
} linear;

/* C += product and the mask, for a part of the elements; the rows lie one behind the other. */
static void add_product(const gemm *g, const float *product, dpt_cpu_range part)
{
    for (size_t i = part.begin; i < part.end; i++) {
        const float sum = g->c[i] + product[i];
        g->c[i] = !g->mask || g->mask[i] > 0.0f ? sum : 0.0f;
    }
}

static void multiply(const dpt_cpu_call *call, unsigned thread, unsigned n_threads, const gemm *all)
{
    const linear *v = call->op->plan.state;
    const gemm_crew crew = {
        .team = call->team, .thread = thread, .n_threads = n_threads, .scratch = call->workspace};
    gemm g = *all;
    g.unbroken = call->op->deterministic;
    const bool is_apart = g.unbroken && g.accumulate && g.k > PRODUCT_TERMS && g.grain == 0;
    if (is_apart) {
        g.c = call->workspace + v->apart;
        g.accumulate = false;
        g.mask = NULL;
    }
    KERNEL(gemm_run)(v->algorithm, call->op, &g, &crew);
    if (!is_apart) return;
    dpt_cpu_barrier(call->team, thread, n_threads);
    add_product(all, g.c, dpt_cpu_split(g.m * g.n, 16, thread, n_threads));
}

/* Waits until all threads have written n floats.  Returns this thread's part of them. */
static dpt_cpu_range finished_part(const dpt_cpu_call *call, size_t n, unsigned thread,
                                   unsigned n_threads)
{
    dpt_cpu_barrier(call->team, thread, n_threads);
    return dpt_cpu_split(n, 16, thread, n_threads);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* x (n,in), w (out,in), bias (out) -> y (n,out) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    float *y = call->out[0];
    const gemm g = {.m = call->n_samples,
                    .n = d->out,
                    .k = d->in,
                    .a = call->in[0],
                    .lda = d->in,
                    .b = call->in[1],
                    .ldb = d->in,
                    .b_transposed = true,
                    .c = y,
                    .ldc = d->out,
                    .bias = d->has_bias ? call->in[2] : NULL,
                    .relu = d->activation == DPT_ACT_RELU};
    multiply(call, thread, n_threads, &g);
    if (d->activation == DPT_ACT_NONE || g.relu) return;
    const dpt_cpu_range own = finished_part(call, g.m * g.n, thread, n_threads);
    KERNEL(activate)(call->op, d->activation, y + own.begin, y + own.begin, own.end - own.begin);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* dy (n,out), w (out,in) -> dx (n,in) = dy w */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const dpt_activation mask = d->input_activation;
    const float *x = call->in[2];
    float *dx = call->out[0];
    const gemm g = {.m = call->n_samples,
                    .n = d->in,
                    .k = d->out,
                    .a = call->in[0],
                    .lda = d->out,
                    .b = call->in[1],
                    .ldb = d->in,
                    .c = dx,
                    .ldc = d->in,
                    .accumulate = call->accumulate,
                    .mask = mask == DPT_ACT_RELU ? x : NULL};
    multiply(call, thread, n_threads, &g);
    if (mask == DPT_ACT_NONE || g.mask) return;
    const dpt_cpu_range own = finished_part(call, g.m * g.n, thread, n_threads);
    KERNEL(differentiate)
    (call->op, mask, dx + own.begin, x + own.begin, dx + own.begin, own.end - own.begin);
}

/* The samples of a grain; 0: no tree. */
static size_t grain_of(const dpt_cpu_call *call)
{
    if (!call->op->deterministic) return 0;
    return call->grain > 0 ? call->grain : call->n_samples;
}

/* dbias = sums over the rows of dy, for a range of the slice's outputs */
static void add_bias(const dpt_cpu_call *call, dpt_cpu_range rows)
{
    enum { WIDTH = 64 };
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    float *dbias = call->out[1];
    const tree_columns columns = {.x = (const float *)call->in[0] + d->first,
                                  .ld = d->out,
                                  .n_rows = call->n_samples,
                                  .grain = grain_of(call),
                                  .to = dbias,
                                  .accumulate = call->accumulate};
    if (columns.grain > 0) {
        KERNEL(tree_sum_columns)(&columns, rows);
        return;
    }
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
    const size_t rows = dpt_linear_rows(d);
    const gemm g = {.m = rows,
                    .n = d->in,
                    .k = call->n_samples,
                    .a = (const float *)call->in[0] + d->first,
                    .lda = d->out,
                    .a_transposed = true,
                    .b = call->in[1],
                    .ldb = d->in,
                    .c = call->out[0],
                    .ldc = d->in,
                    .accumulate = call->accumulate,
                    .grain = grain_of(call)};
    if (d->has_bias) add_bias(call, dpt_cpu_split(rows, 16, thread, n_threads));
    multiply(call, thread, n_threads, &g);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The elements of a result that may be accumulated and has more terms than a block; 0: no such. */
static size_t long_sums(const dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (op->desc.kind != DPT_OP_LINEAR_BACKWARD_DATA || d->out <= PRODUCT_TERMS) return 0;
    return dpt_cpu_mul(op->max_samples, d->in);
}

/* The sizes of the product for max_samples. */
static gemm largest_product(const dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    switch (op->desc.kind) {
    case DPT_OP_LINEAR_FORWARD: return (gemm){.m = op->max_samples, .n = d->out, .k = d->in};
    case DPT_OP_LINEAR_BACKWARD_DATA: return (gemm){.m = op->max_samples, .n = d->in, .k = d->out};
    default:
        return (gemm){.m = dpt_linear_rows(d),
                      .n = d->in,
                      .k = op->max_samples,
                      .grain = op->deterministic ? 1 : 0};
    }
}

/* The workspace, in floats. */
static size_t workspace(const dpt_op *op, linear *v)
{
    const gemm largest = largest_product(op);
    const size_t scratch = v->algorithm->scratch(&largest, op->n_threads);
    const size_t sums = op->deterministic ? long_sums(op) : 0;
    if (sums == 0) return scratch;
    v->apart = dpt_cpu_round(scratch);
    return dpt_cpu_add(v->apart, sums);
}

static dpt_status prepare(dpt_op *op, const gemm_algorithm *algorithm, dpt_error *error)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (!algorithm->suits(op))
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "this product cannot go to the BLAS");
    linear *v = malloc(sizeof *v);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a linear layer's plan");
    *v = (linear){.algorithm = algorithm};
    op->plan.state = v;
    op->plan.workspace_bytes = dpt_cpu_mul(workspace(op, v), sizeof(float));
    op->plan.flops = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = true;
    op->plan.algorithm = algorithm->name;
    switch (op->desc.kind) {
    case DPT_OP_LINEAR_FORWARD:
        op->plan.kernel = forward;
        op->plan.exact = KERNEL(activation_exact)(d->activation);
        break;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        op->plan.kernel = backward_data;
        op->plan.exact = KERNEL(activation_exact)(d->input_activation);
        break;
    default: op->plan.kernel = backward_weights; op->plan.has_grains = op->deterministic;
    }
    return DPT_OK;
}

/* The three kinds are prepared alike: `prepare` looks at the kind. */
#define PREPARE_BLAS(name)                                                                         \
    dpt_status KERNEL(name)(dpt_op * op, dpt_error * error)                                        \
    {                                                                                              \
        return prepare(op, &KERNEL(gemm_blas), error);                                             \
    }
PREPARE_BLAS(prepare_linear_forward)
PREPARE_BLAS(prepare_linear_backward_data)
PREPARE_BLAS(prepare_linear_backward_weights)
#undef PREPARE_BLAS

dpt_status KERNEL(prepare_linear_packed)(dpt_op *op, dpt_error *error)
{
    return prepare(op, &KERNEL(gemm_packed), error);
}
