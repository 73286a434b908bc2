/* Batched matrix products of activations (MATMUL).  A piece of work is a block of rows of one
   product.  One thread computes the piece, by the BLAS or by our own product.  The blocks depend on
   the description alone, so a sample's bits do not depend on the other samples of a call.

   A matrix one of whose strides is 1 is read or written in place.  The elements of another matrix
   are gathered in scratch memory first, or scattered from there. */
#include "gemm_algorithms.h"
#include "kinds.h"
#include "product.h"

#include <limits.h>
#include <stdlib.h>

/* A matrix of every product.  Distances are in floats. */
typedef struct matrix {
    size_t offset, sample, batch[DPT_MATMUL_AXES]; /* sample: from one sample to the next, or 0 */
    size_t row, column;
    size_t ld;       /* leading dimension, if the matrix is read or written in place */
    bool transposed; /* as in gemm, also of the gathered matrix */
    bool gathered;
    float factor; /* of every gathered element */
} matrix;

/* op->plan.state.  a and b are exchanged where that makes the columns of y contiguous. */
typedef struct matmul {
    bool uses_blas;
    bool unbroken;       /* deterministic: an element is one sum, times alpha */
    float alpha;         /* for the BLAS, and for unbroken sums */
    unsigned a_in, b_in; /* the inputs of the call */
    matrix a, b, y;
    size_t batch[DPT_MATMUL_AXES], n_batch;
    size_t rows, columns, inner;
    size_t piece_rows, n_pieces; /* of one product */
    size_t block_columns, block_terms;
    size_t a_floats, b_floats, y_floats; /* of the gathered parts, in whole cache lines */
    size_t thread_floats;                /* of scratch memory for each thread */
} matmul;

/* ---- Gathering ------------------------------------------------------------------------------- */

/* One axis of a part of a matrix. */
typedef struct axis {
    size_t n, stride;
} axis;

static void gather(const float *from, axis slow, axis fast, float factor, float *to)
{
    for (size_t i = 0; i < slow.n; i++)
        for (size_t j = 0; j < fast.n; j++)
            *to++ = factor * from[i * slow.stride + j * fast.stride];
}

static void scatter(const float *from, axis slow, axis fast, bool accumulate, float *to)
{
    for (size_t i = 0; i < slow.n; i++) {
        for (size_t j = 0; j < fast.n; j++) {
            float *const at = to + i * slow.stride + j * fast.stride;
            *at = accumulate ? *at + *from : *from;
            from++;
        }
    }
}

/* A part of an input as a product reads it. */
typedef struct part {
    const float *data;
    size_t ld;
} part;

/* Gathers n_rows x n_columns elements in `scratch` if the matrix is gathered. */
static part part_of(const matrix *m, const float *from, size_t n_rows, size_t n_columns,
                    float *scratch)
{
    const axis rows = {n_rows, m->row}, columns = {n_columns, m->column};
    if (!m->gathered) return (part){from, m->ld};
    if (m->transposed)
        gather(from, columns, rows, m->factor, scratch);
    else
        gather(from, rows, columns, m->factor, scratch);
    return (part){scratch, m->transposed ? n_rows : n_columns};
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* One product, or one piece of it. */
typedef struct piece {
    const float *a, *b;
    float *y;
    dpt_cpu_range rows;
    float *scratch; /* of the thread */
    bool accumulate;
} piece;

static size_t place_of(const matmul *v, const matrix *m, size_t pair)
{
    size_t at = m->offset + pair / v->n_batch * m->sample, index = pair % v->n_batch;
    for (size_t i = DPT_MATMUL_AXES; i-- > 0; index /= v->batch[i])
        at += index % v->batch[i] * m->batch[i];
    return at;
}

static void multiply(const dpt_op *op, const gemm *g, const dpt_cpu_call *call, float *scratch)
{
    const matmul *v = op->plan.state;
    const gemm_crew crew = {.team = call->team, .n_threads = 1, .scratch = scratch};
    if (!v->uses_blas) {
        KERNEL(product_run)(g, &crew);
        return;
    }
    op->blas->sgemm(DPT_CPU_ROW_MAJOR, g->a_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS,
                    g->b_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS, (int)g->m, (int)g->n,
                    (int)g->k, v->alpha, g->a, (int)g->lda, g->b, (int)g->ldb,
                    g->accumulate ? 1.0f : 0.0f, g->c, (int)g->ldc);
}

/* Computes the columns of a piece that begin at `first`. */
static void run_columns(const dpt_cpu_call *call, const piece *p, dpt_cpu_range columns)
{
    const matmul *v = call->op->plan.state;
    const size_t n_rows = p->rows.end - p->rows.begin, n_columns = columns.end - columns.begin;
    float *const a_scratch = p->scratch, *const b_scratch = a_scratch + v->a_floats;
    float *const y_scratch = b_scratch + v->b_floats, *const rest = y_scratch + v->y_floats;
    float *const y = p->y + p->rows.begin * v->y.row + columns.begin * v->y.column;
    for (size_t term = 0; term < v->inner; term += v->block_terms) {
        const size_t left = v->inner - term,
                     n_terms = left < v->block_terms ? left : v->block_terms;
        const float *from_a = p->a + p->rows.begin * v->a.row + term * v->a.column;
        const float *from_b = p->b + term * v->b.row + columns.begin * v->b.column;
        const part a = part_of(&v->a, from_a, n_rows, n_terms, a_scratch);
        const part b = part_of(&v->b, from_b, n_terms, n_columns, b_scratch);
        const gemm g = {
            .m = n_rows,
            .n = n_columns,
            .k = n_terms,
            .a = a.data,
            .lda = a.ld,
            .a_transposed = v->a.transposed,
            .b = b.data,
            .ldb = b.ld,
            .b_transposed = v->b.transposed,
            .c = v->y.gathered ? y_scratch : y,
            .ldc = v->y.gathered ? n_columns : v->y.ld,
            .unbroken = v->unbroken,
            .continues = v->unbroken && term > 0,
            .accumulate = (term > 0 && !v->unbroken) || (p->accumulate && !v->y.gathered),
            .factor = v->unbroken && v->alpha != 1.0f && n_terms == left ? &v->alpha : NULL};
        multiply(call->op, &g, call, rest);
    }
    if (v->y.gathered)
        scatter(y_scratch, (axis){n_rows, v->y.row}, (axis){n_columns, v->y.column}, p->accumulate,
                y);
}

static void run(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const matmul *v = call->op->plan.state;
    const size_t n = call->n_samples * v->n_batch * v->n_pieces;
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        const size_t pair = i / v->n_pieces, row = i % v->n_pieces * v->piece_rows;
        const size_t left = v->rows - row;
        const piece p = {
            .a = (const float *)call->in[v->a_in] + place_of(v, &v->a, pair),
            .b = (const float *)call->in[v->b_in] + place_of(v, &v->b, pair),
            .y = (float *)call->out[0] + place_of(v, &v->y, pair),
            .rows = {row, row + (left < v->piece_rows ? left : v->piece_rows)},
            .scratch = call->workspace + thread * v->thread_floats,
            .accumulate = call->accumulate,
        };
        for (size_t column = 0; column < v->columns; column += v->block_columns) {
            const size_t end = column + v->block_columns;
            run_columns(call, &p, (dpt_cpu_range){column, end < v->columns ? end : v->columns});
        }
    }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static matrix matrix_of(const dpt_matmul_operand *o, bool exchanged)
{
    return (matrix){.offset = o->offset,
                    .sample = o->per_sample ? o->elements : 0,
                    .batch = {o->batch_stride[0], o->batch_stride[1], o->batch_stride[2]},
                    .row = exchanged ? o->column_stride : o->row_stride,
                    .column = exchanged ? o->row_stride : o->column_stride,
                    .factor = 1.0f};
}

/* Whether rows of n_columns elements lie one behind the other.  *ld: the distance of two rows. */
static bool is_dense(axis rows, axis columns, size_t *ld)
{
    *ld = rows.n == 1 ? columns.n : rows.stride;
    return (columns.n == 1 || columns.stride == 1) && *ld >= columns.n && *ld <= INT_MAX;
}

/* Decides how a matrix is read or written. */
static void settle(matrix *m, size_t n_rows, size_t n_columns)
{
    const axis rows = {n_rows, m->row}, columns = {n_columns, m->column};
    if (is_dense(rows, columns, &m->ld)) return;
    m->transposed = is_dense(columns, rows, &m->ld);
    m->gathered = !m->transposed;
    if (m->gathered) m->transposed = n_columns > 1 && m->row < m->column;
}

/* Whether y is better written transposed: its columns are not contiguous, and its rows are. */
static bool exchanges(const dpt_matmul_desc *d)
{
    size_t ld;
    const axis rows = {d->rows, d->y.row_stride}, columns = {d->columns, d->y.column_stride};
    return !is_dense(rows, columns, &ld) && is_dense(columns, rows, &ld);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum { GATHERED_COLUMNS = 512 /* the most columns, or terms, that are gathered at once */ };

/* Divides a product into blocks of rows: so large that reading all of b for each of them costs
   little. */
static void divide(matmul *v)
{
    enum { LEAST_ROWS = 128, GRAIN = 16, GATHERED_ROWS = 256 };
    static const double least_work = 8e6; /* multiply-adds of a block */
    const double row_work = (double)v->columns * (double)v->inner;
    const double wanted = least_work / row_work;
    size_t most = wanted < (double)v->rows ? (size_t)wanted + 1 : v->rows;
    if (most < LEAST_ROWS) most = LEAST_ROWS;
    if (v->a.gathered || v->y.gathered) most = least(most, GATHERED_ROWS);
    const size_t even = dpt_cpu_ceil_div(v->rows, dpt_cpu_ceil_div(v->rows, most));
    v->piece_rows = least(dpt_cpu_ceil_div(even, GRAIN) * GRAIN, v->rows);
    v->n_pieces = dpt_cpu_ceil_div(v->rows, v->piece_rows);
    v->block_columns =
        v->b.gathered || v->y.gathered ? least(v->columns, GATHERED_COLUMNS) : v->columns;
    v->block_terms = v->a.gathered || v->b.gathered ? least(v->inner, GATHERED_COLUMNS) : v->inner;
    if (v->unbroken) v->block_terms = least(v->block_terms, PRODUCT_TERMS);
    if (v->a.gathered) v->a_floats = dpt_cpu_round(v->piece_rows * v->block_terms);
    if (v->b.gathered) v->b_floats = dpt_cpu_round(v->block_terms * v->block_columns);
    if (v->y.gathered) v->y_floats = dpt_cpu_round(v->piece_rows * v->block_columns);
    v->thread_floats = v->a_floats + v->b_floats + v->y_floats;
    if (v->uses_blas) return;
    const gemm block = {.m = v->piece_rows, .n = v->block_columns, .k = v->block_terms};
    v->thread_floats += dpt_cpu_round(KERNEL(product_scratch)(&block, 1));
}

static matmul plan_of(const dpt_matmul_desc *d, bool uses_blas, bool unbroken)
{
    const bool exchanged = exchanges(d);
    matmul v = {.uses_blas = uses_blas,
                .unbroken = unbroken,
                .alpha = d->alpha,
                .a_in = exchanged ? 1 : 0,
                .b_in = exchanged ? 0 : 1,
                .a = matrix_of(exchanged ? &d->b : &d->a, exchanged),
                .b = matrix_of(exchanged ? &d->a : &d->b, exchanged),
                .y = matrix_of(&d->y, exchanged),
                .n_batch = d->batch[0] * d->batch[1] * d->batch[2],
                .rows = exchanged ? d->columns : d->rows,
                .columns = exchanged ? d->rows : d->columns,
                .inner = d->inner};
    memcpy(v.batch, d->batch, sizeof v.batch);
    settle(&v.a, v.rows, v.inner);
    settle(&v.b, v.inner, v.columns);
    settle(&v.y, v.rows, v.columns);
    /* A long sum is finished before it is added to what is there. */
    if (unbroken && v.inner > GATHERED_COLUMNS) v.y.gathered = true;
    if (!uses_blas && !unbroken && d->alpha != 1.0f) { /* our own product has no such factor */
        if (!v.a.gathered) v.a.transposed = v.inner > 1 && v.a.row < v.a.column;
        v.a.gathered = true;
        v.a.factor = d->alpha;
    }
    divide(&v);
    return v;
}

static dpt_status prepare(dpt_op *op, bool uses_blas, dpt_error *error)
{
    const dpt_matmul_desc *d = &op->desc.u.matmul;
    if (uses_blas && !KERNEL(gemm_has_blas)(op))
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "this product cannot go to the BLAS");
    matmul *v = malloc(sizeof *v);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the plan of a product");
    op->plan.state = v;
    *v = plan_of(d, uses_blas, op->deterministic);
    if (dpt_cpu_mul(op->max_samples, dpt_cpu_mul(v->n_batch, v->n_pieces)) > INT32_MAX)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "%zu samples have 2^31 products or more",
                        op->max_samples);
    op->plan.kernel = run;
    op->plan.workspace_bytes = dpt_cpu_mul(op->n_threads, v->thread_floats * sizeof(float));
    op->plan.flops =
        2.0 * (double)v->n_batch * (double)d->rows * (double)d->columns * (double)d->inner;
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = dpt_cpu_small_integer(d->alpha);
    op->plan.algorithm = uses_blas ? KERNEL(gemm_blas).name : KERNEL(gemm_packed).name;
    return DPT_OK;
}

dpt_status KERNEL(prepare_matmul)(dpt_op *op, dpt_error *error)
{
    return prepare(op, true, error);
}

dpt_status KERNEL(prepare_matmul_packed)(dpt_op *op, dpt_error *error)
{
    return prepare(op, false, error);
}
