/* Our own matrix product, and the way to the BLAS.  Ours packs a block of B and runs all rows of A
   past it, tile by tile. */
#include "gemm.h"
#include "tile.h"

#include <limits.h>

enum {
    BLOCK_TERMS = 512,
    /* OpenBLAS is built for a number of threads that use it at the same time, often 64, and several
       teams may. */
    BLAS_THREADS = 32,
    TRANSPOSE_TERMS = 16,
};

bool KERNEL(gemm_uses_blas)(const dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const bool fits = d->in <= INT_MAX && d->out <= INT_MAX && op->max_samples <= INT_MAX;
    return op->blas->sgemm && op->n_threads <= BLAS_THREADS && fits;
}

size_t KERNEL(gemm_scratch)(const dpt_op *op)
{
    return KERNEL(gemm_uses_blas)(op) ? 0 : BLOCK_TERMS * PANEL_LANES;
}

/* Terms first .. first+n-1 of a panel of B, (term, lane). */
static void pack_b(const gemm *g, const panel *p, size_t first, size_t n, float *to)
{
    if (!g->b_transposed) {
        for (size_t k = 0; k < n; k++) {
            const float *from = g->b + (first + k) * g->ldb + p->start;
            memcpy(to + k * p->width, from, p->lanes * sizeof *to);
            memset(to + k * p->width + p->lanes, 0, (p->width - p->lanes) * sizeof *to);
        }
        return;
    }
    for (size_t k = 0; k < n; k += TRANSPOSE_TERMS) {
        const size_t end = k + TRANSPOSE_TERMS < n ? k + TRANSPOSE_TERMS : n;
        for (size_t lane = 0; lane < p->width; lane++) {
            const bool meant = lane < p->lanes;
            const float *from = g->b + (p->start + (meant ? lane : 0)) * g->ldb + first;
            for (size_t i = k; i < end; i++)
                to[i * p->width + lane] = meant ? from[i] : 0.0f;
        }
    }
}

static void multiply_panel(const gemm *g, const panel *p, size_t first, size_t n_terms,
                           const float *packed)
{
    const segment terms = {0, n_terms};
    tile t = {
        .a_step = g->a_transposed ? g->lda : 1,
        .segments = &terms,
        .n_segments = 1,
        .b = packed,
        .accumulate = g->accumulate || first > 0,
    };
    const size_t row_step = g->a_transposed ? 1 : g->lda;
    const float *a = g->a + (g->a_transposed ? first * g->lda : first);
    const size_t most = KERNEL(panel_rows)(p);
    for (size_t row = 0; row < g->m; row += t.n_rows) {
        t.n_rows = tile_rows(g->m - row, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = a + (row + i) * row_step;
            t.c[i] = g->c + (row + i) * g->ldc + p->start;
        }
        KERNEL(tile_run)(p, &t);
    }
}

static void own_product(const gemm *g, float *scratch)
{
    const size_t n_panels = KERNEL(panel_count)(g->n);
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(g->n, i);
        for (size_t k = 0; k < g->k; k += BLOCK_TERMS) {
            const size_t n_terms = k + BLOCK_TERMS < g->k ? BLOCK_TERMS : g->k - k;
            pack_b(g, &p, k, n_terms, scratch);
            multiply_panel(g, &p, k, n_terms, scratch);
        }
    }
}

static void blas_product(dpt_cpu_sgemm *sgemm, const gemm *g)
{
    sgemm(DPT_CPU_ROW_MAJOR, g->a_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS,
          g->b_transposed ? DPT_CPU_TRANS : DPT_CPU_NO_TRANS, (int)g->m, (int)g->n, (int)g->k, 1.0f,
          g->a, (int)g->lda, g->b, (int)g->ldb, g->accumulate ? 1.0f : 0.0f, g->c, (int)g->ldc);
}

void KERNEL(gemm_run)(const dpt_op *op, const gemm *g, float *scratch)
{
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) { /* no terms */
        for (size_t row = 0; row < g->m && !g->accumulate; row++)
            memset(g->c + row * g->ldc, 0, g->n * sizeof *g->c);
        return;
    }
    if (KERNEL(gemm_uses_blas)(op))
        blas_product(op->blas->sgemm, g);
    else
        own_product(g, scratch);
}
