/* The loops around the tiles of our own matrix product. */
#include "product.h"

#include "tile.h"

/* Blocks as equal as possible. */
static size_t block_of(size_t left, size_t most)
{
    const size_t n_blocks = (left + most - 1) / most;
    return (left + n_blocks - 1) / n_blocks;
}

size_t KERNEL(product_scratch)(void)
{
    return dpt_cpu_round(PRODUCT_TERMS * PRODUCT_LANES + PRODUCT_BLOCK_FLOATS);
}

/* What a panel of B meets. */
typedef struct block {
    dpt_cpu_range rows, terms;
    float *a, *b; /* packed */
} block;

static product_panel panel_of(const gemm *g, size_t start)
{
    const size_t left = g->n - start;
    const size_t lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES;
    return (product_panel){start, lanes, (lanes + LANES - 1) / LANES};
}

/* Asks for a share of the next panel's source, the at-th of n. */
static void read_ahead(const gemm *g, const block *b, size_t start, size_t at, size_t n)
{
    if (start >= g->n) return;
    const size_t n_terms = b->terms.end - b->terms.begin;
    const product_panel p = panel_of(g, start);
    const size_t n_lines = g->b_transposed ? p.lanes : n_terms;
    const size_t length = g->b_transposed ? n_terms : p.lanes;
    const float *from = g->b_transposed ? g->b + start * g->ldb + b->terms.begin
                                        : g->b + b->terms.begin * g->ldb + start;
    for (size_t i = n_lines * at / n; i < n_lines * (at + 1) / n; i++)
        for (size_t k = 0; k < length; k += 16)
            __builtin_prefetch(from + i * g->ldb + k, 0, 2);
}

static void multiply_panel(const gemm *g, const block *b, const product_panel *p)
{
    const bool last = b->terms.end == g->k;
    const size_t n_terms = b->terms.end - b->terms.begin, n_rows = b->rows.end - b->rows.begin;
    product_tile t = {.a_row = g->a_transposed ? 1 : PRODUCT_STEP,
                      .b = b->b,
                      .n_terms = n_terms,
                      .lanes = p->lanes,
                      .units = p->units,
                      .ldc = g->ldc,
                      .accumulate = g->accumulate || b->terms.begin > 0,
                      .bias = last && g->bias ? g->bias + p->start : NULL,
                      .relu = last && g->relu};
    for (size_t row = 0; row < n_rows; row += t.n_rows) {
        t.n_rows = tile_rows(n_rows - row, PRODUCT_ROWS);
        t.a = b->a + row * (g->a_transposed ? n_terms : PRODUCT_STEP);
        t.c = g->c + (b->rows.begin + row) * g->ldc + p->start;
        t.mask = last && g->mask ? g->mask + (b->rows.begin + row) * g->ldc + p->start : NULL;
        read_ahead(g, b, p->start + PRODUCT_LANES, row, n_rows);
        KERNEL(product_tile_run)(&t);
    }
}

void KERNEL(product_run)(const gemm *g, float *scratch)
{
    block b = {.b = scratch, .a = scratch + PRODUCT_TERMS * PRODUCT_LANES};
    for (size_t k = 0; k < g->k; k = b.terms.end) {
        b.terms = (dpt_cpu_range){k, k + block_of(g->k - k, PRODUCT_TERMS)};
        const size_t n_terms = b.terms.end - k;
        const size_t most_rows = PRODUCT_BLOCK_FLOATS / (g->a_transposed ? n_terms : PRODUCT_STEP);
        for (size_t row = 0; row < g->m; row = b.rows.end) {
            b.rows = (dpt_cpu_range){row, row + block_of(g->m - row, most_rows)};
            KERNEL(product_pack_a)(g, b.rows, k, n_terms, b.a);
            for (size_t start = 0; start < g->n; start += PRODUCT_LANES) {
                const product_panel p = panel_of(g, start);
                KERNEL(product_pack_b)(g, &p, k, n_terms, b.b);
                multiply_panel(g, &b, &p);
            }
        }
    }
}
