/* The ways to multiply matrices. */
#include "gemm.h"
#include "product.h"

#include <limits.h>

/* What products do not do themselves. */
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

/* OpenBLAS is built for a number of threads that use it at the same time, often 64, and several
   teams may. */
enum { BLAS_THREADS = 32 };

static bool blas_suits(const dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const bool fits = d->in <= INT_MAX && d->out <= INT_MAX && op->max_samples <= INT_MAX;
    return op->blas->sgemm && op->n_threads <= BLAS_THREADS && fits;
}

static size_t no_scratch(void)
{
    return 0;
}

static void blas_run(const dpt_op *op, const gemm *g, float *scratch)
{
    (void)scratch;
    op->blas->sgemm(DPT_CPU_ROW_MAJOR, g->a_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS,
                    g->b_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS, (int)g->m, (int)g->n,
                    (int)g->k, 1.0f, g->a, (int)g->lda, g->b, (int)g->ldb,
                    g->accumulate ? 1.0f : 0.0f, g->c, (int)g->ldc);
    if (g->bias || g->relu || g->mask) finish(g);
}

const gemm_way KERNEL(gemm_blas) = {
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

static void packed_run(const dpt_op *op, const gemm *g, float *scratch)
{
    (void)op;
    KERNEL(product_run)(g, scratch);
}

const gemm_way KERNEL(gemm_packed) = {
    .name = "packed",
    .suits = packed_suits,
    .scratch = KERNEL(product_scratch),
    .run = packed_run,
};

/* ---- Either ---------------------------------------------------------------------------------- */

void KERNEL(gemm_run)(const gemm_way *way, const dpt_op *op, const gemm *g, float *scratch)
{
    if (g->m == 0 || g->n == 0) return;
    if (g->k > 0) {
        way->run(op, g, scratch);
        return;
    }
    for (size_t row = 0; row < g->m && !g->accumulate; row++) /* no terms */
        memset(g->c + row * g->ldc, 0, g->n * sizeof *g->c);
    finish(g);
}
