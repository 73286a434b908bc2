/* Our own matrix product: packing both matrices. */
#include "product.h"

#include "tile.h"

static size_t whole_vectors(size_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

void KERNEL(product_turn_rows)(const float *from, size_t ld, size_t n_rows, size_t n, size_t width,
                               float *to)
{
    for (size_t k = 0; k < n; k += LANES, to += LANES * width) {
        const size_t terms = n - k < LANES ? n - k : LANES;
        vec square[LANES];
        /* The next rows are turned next. */
        for (size_t i = 0; i < n_rows; i++)
            __builtin_prefetch(from + (n_rows + i) * ld + k, 0, 2);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++)
            square[i] = i >= n_rows     ? vec_set(0.0f)
                        : terms < LANES ? vec_load_n(from + i * ld + k, terms)
                                        : vec_load(from + i * ld + k);
        vec_transpose(square);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++)
            if (i < terms) vec_store(to + i * width, square[i]);
    }
}

/* ---- B --------------------------------------------------------------------------------------- */

/* Packs whole panels. */
static void pack_rows(const float *from, size_t ldb, size_t n_panels, size_t n, float *to)
{
    enum { AHEAD = 8 /* rows */ };
    for (size_t k = 0; k < n; k++, from += ldb, to += PRODUCT_LANES) {
        for (size_t p = 0; p < n_panels; p++) {
            const float *x = from + p * PRODUCT_LANES;
            __builtin_prefetch(x + AHEAD * ldb);
            DPT_CPU_UNROLL
            for (size_t u = 0; u < PRODUCT_UNITS; u++)
                vec_store(to + p * n * PRODUCT_LANES + u * LANES, vec_load(x + u * LANES));
        }
    }
}

/* Packs the last panel, which has fewer lanes. */
static void pack_narrow_rows(const float *from, size_t ldb, size_t lanes, size_t n, float *to)
{
    const size_t width = whole_vectors(lanes), last = lanes - (width - LANES);
    for (size_t k = 0; k < n; k++, from += ldb, to += width) {
        for (size_t u = 0; u + LANES < width; u += LANES)
            vec_store(to + u, vec_load(from + u));
        vec_store(to + width - LANES, vec_load_n(from + width - LANES, last));
    }
}

void KERNEL(product_pack_b)(const gemm *g, dpt_cpu_range columns, size_t first, size_t n, float *to)
{
    const size_t n_columns = columns.end - columns.begin;
    const size_t n_panels = n_columns / PRODUCT_LANES, left = n_columns % PRODUCT_LANES;
    if (!g->b_transposed) {
        const float *from = g->b + first * g->ldb + columns.begin;
        pack_rows(from, g->ldb, n_panels, n, to);
        const size_t at = n_panels * PRODUCT_LANES;
        if (left > 0) pack_narrow_rows(from + at, g->ldb, left, n, to + at * n);
        return;
    }
    for (size_t at = 0; at < n_columns; at += LANES) {
        const size_t start = at / PRODUCT_LANES * PRODUCT_LANES; /* the first column of the panel */
        const size_t width = start < n_panels * PRODUCT_LANES ? PRODUCT_LANES : whole_vectors(left);
        const size_t lanes = n_columns - at < LANES ? n_columns - at : LANES;
        KERNEL(product_turn_rows)
        (g->b + (columns.begin + at) * g->ldb + first, g->ldb, lanes, n, width,
         to + start * n + (at - start));
    }
}

/* ---- A --------------------------------------------------------------------------------------- */

/* Copies n terms of a tile's rows, which are side by side in memory.  The first n_vectors terms are
   copied as whole vectors, which read and write behind the rows of a term. */
static void copy_terms(const float *from, size_t lda, size_t n_rows, size_t n, size_t n_vectors,
                       float *to)
{
    size_t k = 0;
    for (; k < n_vectors; k++, from += lda, to += n_rows)
        for (size_t i = 0; i < n_rows; i += LANES)
            vec_store(to + i, vec_load(from + i));
    for (; k < n; k++, from += lda, to += n_rows)
        memcpy(to, from, n_rows * sizeof *to);
}

static void fetch_terms(const float *from, size_t lda, size_t n_rows, size_t n)
{
    for (size_t k = 0; k < n; k++, from += lda)
        for (size_t i = 0; i < n_rows; i += 16)
            __builtin_prefetch(from + i, 0, 2);
}

/* Packs rows of a transposed A.  The rows of a term are consecutive, and terms are far apart in
   memory.  So all tiles get a few terms before the next terms are read: tile by tile, every cache
   line would be read anew for each of the tiles that have a part of it.  Behind a term is the place
   of the next term of its tile, which is copied later.  Behind the last term of a tile is the next
   tile, which is there already, so the last term is copied exactly. */
static void pack_transposed(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to)
{
    enum { AT_ONCE = 16 /* terms */ };
    for (size_t k = 0; k < n; k += AT_ONCE) {
        const size_t terms = n - k < AT_ONCE ? n - k : AT_ONCE;
        float *next = to;
        fetch_terms(g->a + (first + k + AT_ONCE) * g->lda + rows.begin, g->lda,
                    rows.end - rows.begin, AT_ONCE);
        for (size_t row = rows.begin, n_rows; row < rows.end; row += n_rows, next += n_rows * n) {
            n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
            const bool reads_behind = row + whole_vectors(n_rows) <= g->m;
            copy_terms(g->a + (first + k) * g->lda + row, g->lda, n_rows, terms,
                       reads_behind ? terms - (k + terms == n) : 0, next + k * n_rows);
        }
    }
}

/* Transposes a tile's rows, the last vector of rows first: vectors may write behind it, and the
   other rows overwrite that. */
static void turn_tile(const float *from, size_t lda, size_t n_rows, size_t n, float *to)
{
    for (size_t end = whole_vectors(n_rows); end > 0; end -= LANES) {
        const size_t first = end - LANES;
        const size_t left = n_rows - first < LANES ? n_rows - first : LANES;
        KERNEL(product_turn_rows)(from + first * lda, lda, left, n, n_rows, to + first);
    }
}

void KERNEL(product_pack_a)(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to)
{
    if (g->a_transposed) {
        pack_transposed(g, rows, first, n, to);
        return;
    }
    for (size_t row = rows.begin, n_rows; row < rows.end; row += n_rows, to += n_rows * n) {
        n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
        turn_tile(g->a + row * g->lda + first, g->lda, n_rows, n, to);
    }
}
