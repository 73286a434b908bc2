/* Packing for our own matrix product. */
#include "product.h"

#include "tile.h"

/* ---- B --------------------------------------------------------------------------------------- */

static void pack_rows(const float *from, size_t ldb, const product_panel *p, size_t n, float *to)
{
    const size_t width = p->units * LANES, last = p->lanes - (p->units - 1) * LANES;
    for (size_t k = 0; k < n; k++, from += ldb, to += width) {
        if (p->units == 2) vec_store(to, vec_load(from));
        vec_store(to + width - LANES, vec_load_n(from + width - LANES, last));
    }
}

/* LANES columns of B, which are rows in memory (lanes of them there), as (term, lane) with terms
   `width` apart. */
static void pack_columns(const float *from, size_t ldb, size_t lanes, size_t n, size_t width,
                         float *to)
{
    for (size_t k = 0; k < n; k += LANES) {
        const size_t terms = n - k < LANES ? n - k : LANES;
        vec square[LANES];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++)
            square[i] = i >= lanes      ? vec_set(0.0f)
                        : terms < LANES ? vec_load_n(from + i * ldb + k, terms)
                                        : vec_load(from + i * ldb + k);
        vec_transpose(square);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++)
            if (i < terms) vec_store(to + (k + i) * width, square[i]);
    }
}

void KERNEL(product_pack_b)(const gemm *g, const product_panel *p, size_t first, size_t n,
                            float *to)
{
    if (!g->b_transposed) {
        pack_rows(g->b + first * g->ldb + p->start, g->ldb, p, n, to);
        return;
    }
    const size_t width = p->units * LANES;
    for (size_t u = 0; u < p->units; u++) {
        const size_t left = p->lanes - u * LANES;
        pack_columns(g->b + (p->start + u * LANES) * g->ldb + first, g->ldb,
                     left < LANES ? left : LANES, n, width, to + u * LANES);
    }
}

/* ---- A --------------------------------------------------------------------------------------- */

void KERNEL(product_pack_a)(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to)
{
    if (!g->a_transposed) {
        for (size_t i = rows.begin; i < rows.end; i++, to += PRODUCT_STEP)
            memcpy(to, g->a + i * g->lda + first, n * sizeof *to);
        return;
    }
    for (size_t row = rows.begin; row < rows.end;) {
        const size_t n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
        const float *from = g->a + first * g->lda + row;
        for (size_t k = 0; k < n; k++, from += g->lda, to += n_rows)
            memcpy(to, from, n_rows * sizeof *to);
        row += n_rows;
    }
}
