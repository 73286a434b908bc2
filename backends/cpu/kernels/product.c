/* The loops around the tiles of our own matrix product. */
#include "product.h"

#include "tile.h"

/* Blocks as equal as possible. */
static size_t block_of(size_t left, size_t most)
{
    const size_t n_blocks = (left + most - 1) / most;
    return (left + n_blocks - 1) / n_blocks;
}

enum {
    GROUP_COLUMNS = PRODUCT_GROUP * PRODUCT_LANES,
    GROUP_FLOATS = PRODUCT_TERMS * GROUP_COLUMNS,
};

size_t KERNEL(product_scratch)(void)
{
    return dpt_cpu_round(GROUP_FLOATS + PRODUCT_BLOCK_FLOATS + LANES);
}

/* What is multiplied between two packings. */
typedef struct block {
    dpt_cpu_range rows, columns, terms;
    float *a, *b; /* packed */
} block;

static void multiply_panel(const gemm *g, const block *b, size_t start)
{
    const bool last = b->terms.end == g->k;
    const size_t n_terms = b->terms.end - b->terms.begin, n_rows = b->rows.end - b->rows.begin;
    const size_t left = b->columns.end - start;
    const size_t lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES;
    product_tile t = {.b = b->b + (start - b->columns.begin) * n_terms,
                      .n_terms = n_terms,
                      .lanes = lanes,
                      .units = (lanes + LANES - 1) / LANES,
                      .ldc = g->ldc,
                      .accumulate = g->accumulate || b->terms.begin > 0,
                      .bias = last && g->bias ? g->bias + start : NULL,
                      .relu = last && g->relu};
    for (size_t row = 0; row < n_rows; row += t.n_rows) {
        t.n_rows = tile_rows(n_rows - row, PRODUCT_ROWS);
        t.a = b->a + row * n_terms;
        t.c = g->c + (b->rows.begin + row) * g->ldc + start;
        t.mask = last && g->mask ? g->mask + (b->rows.begin + row) * g->ldc + start : NULL;
        KERNEL(product_tile_run)(&t);
    }
}

/* All columns past the rows and terms of a block. */
static void multiply_rows(const gemm *g, block *b)
{
    const size_t first = b->terms.begin, n_terms = b->terms.end - first;
    KERNEL(product_pack_a)(g, b->rows, first, n_terms, b->a);
    for (size_t column = 0; column < g->n; column = b->columns.end) {
        const size_t left = g->n - column;
        b->columns =
            (dpt_cpu_range){column, column + (left < GROUP_COLUMNS ? left : GROUP_COLUMNS)};
        KERNEL(product_pack_b)(g, b->columns, first, n_terms, b->b);
        for (size_t start = column; start < b->columns.end; start += PRODUCT_LANES)
            multiply_panel(g, b, start);
    }
}

void KERNEL(product_run)(const gemm *g, float *scratch)
{
    block b = {.b = scratch, .a = scratch + GROUP_FLOATS};
    for (size_t k = 0; k < g->k; k = b.terms.end) {
        b.terms = (dpt_cpu_range){k, k + block_of(g->k - k, PRODUCT_TERMS)};
        const size_t most_rows = PRODUCT_BLOCK_FLOATS / (b.terms.end - k);
        for (size_t row = 0; row < g->m; row = b.rows.end) {
            b.rows = (dpt_cpu_range){row, row + block_of(g->m - row, most_rows)};
            multiply_rows(g, &b);
        }
    }
}
