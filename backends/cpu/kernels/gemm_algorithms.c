/* The algorithms for a matrix product, and the parts that they share. */
#include "gemm_algorithms.h"
#include "product.h"

#include <limits.h>

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* *own: the product of the block of C that a thread computes.  The longer side of C is divided: a
   thread reads the whole operand of the other side, so the shorter that side is, the less it reads.
   If the longer side is too short to give every thread a block, the other side is divided where
   that one is long enough.  False: the thread has nothing to compute. */
static bool own_block(const gemm *g, const gemm_crew *crew, gemm *own)
{
    enum { ROW_GRAIN = 8, COLUMN_GRAIN = 16 };
    const bool enough_rows = g->m / ROW_GRAIN >= crew->n_threads;
    const bool enough_columns = g->n / COLUMN_GRAIN >= crew->n_threads;
    const bool by_rows = enough_rows == enough_columns ? g->m >= g->n : enough_rows;
    dpt_cpu_range rows = {0, g->m}, columns = {0, g->n};
    if (by_rows)
        rows = dpt_cpu_split(g->m, ROW_GRAIN, crew->thread, crew->n_threads);
    else
        columns = dpt_cpu_split(g->n, COLUMN_GRAIN, crew->thread, crew->n_threads);
    const size_t at = rows.begin * g->ldc + columns.begin;
    *own = *g;
    own->m = rows.end - rows.begin;
    own->n = columns.end - columns.begin;
    own->a += rows.begin * (g->a_transposed ? 1 : g->lda);
    own->b += columns.begin * (g->b_transposed ? g->ldb : 1);
    own->c += at;
    if (g->bias) own->bias += columns.begin;
    if (g->mask) own->mask += at;
    return own->m > 0 && own->n > 0;
}

/* Applies bias, ReLU and mask to C. */
static void finish(const gemm *g)
{
    for (size_t row = 0; row < g->m; row++) {
        float *c = g->c + row * g->ldc;
        const float *mask = g->mask ? g->mask + row * g->ldc : NULL;
        for (size_t i = 0; i < g->n; i += LANES) {
            const size_t n = g->n - i < LANES ? g->n - i : LANES;
            vec x = vec_load_n(c + i, n);
            if (g->bias) x = vec_add(x, vec_load_n(g->bias + i, n));
            if (g->relu) x = vec_relu(x);
            if (mask) x = vec_where_positive(vec_load_n(mask + i, n), x);
            vec_store_n(c + i, x, n);
        }
    }
}

/* ---- Through the BLAS ------------------------------------------------------------------------ */

/* OpenBLAS has memory for a fixed number of threads that call it at once, often 64.  Several teams
   may call it at once. */
enum { BLAS_THREADS = 32 };

bool KERNEL(gemm_has_blas)(const dpt_op *op)
{
    return op->blas->sgemm && op->n_threads <= BLAS_THREADS;
}

static bool blas_suits(const dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const bool fits = d->in <= INT_MAX && d->out <= INT_MAX && op->max_samples <= INT_MAX;
    return fits && KERNEL(gemm_has_blas)(op);
}

static size_t no_scratch(const gemm *largest, unsigned n_threads)
{
    (void)largest, (void)n_threads;
    return 0;
}

static void blas_run(const dpt_op *op, const gemm *all, const gemm_crew *crew)
{
    gemm g;
    if (!own_block(all, crew, &g)) return;
    op->blas->sgemm(DPT_CPU_ROW_MAJOR, g.a_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS,
                    g.b_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS, (int)g.m, (int)g.n, (int)g.k,
                    1.0f, g.a, (int)g.lda, g.b, (int)g.ldb, g.accumulate ? 1.0f : 0.0f, g.c,
                    (int)g.ldc);
    if (g.bias || g.relu || g.mask) finish(&g);
}

const gemm_algorithm KERNEL(gemm_blas) = {
    .name = "blas",
    .suits = blas_suits,
    .scratch = no_scratch,
    .run = blas_run,
};

/* ---- Our own --------------------------------------------------------------------------------- */

static bool packed_suits(const dpt_op *op)
{
    (void)op;
    return true;
}

static void packed_run(const dpt_op *op, const gemm *g, const gemm_crew *crew)
{
    (void)op;
    KERNEL(product_run)(g, crew);
}

const gemm_algorithm KERNEL(gemm_packed) = {
    .name = "packed",
    .suits = packed_suits,
    .scratch = KERNEL(product_scratch),
    .run = packed_run,
};

/* ---- Either ---------------------------------------------------------------------------------- */

void KERNEL(gemm_run)(const gemm_algorithm *algorithm, const dpt_op *op, const gemm *g,
                      const gemm_crew *crew)
{
    if (g->m == 0 || g->n == 0) return;
    if (g->k > 0) {
        algorithm->run(op, g, crew);
        return;
    }
    gemm own; /* k is 0: C is 0 before bias, ReLU and mask */
    if (!own_block(g, crew, &own)) return;
    for (size_t row = 0; row < own.m && !own.accumulate; row++)
        memset(own.c + row * own.ldc, 0, own.n * sizeof *own.c);
    finish(&own);
}
