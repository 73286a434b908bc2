/* Matrix products on CPUs: one work item a group, which keeps a tile of C of ROWS rows and UNITS
   vectors of LANES columns in registers and runs over the terms of a panel of B.

   The panel (TERMS x WIDTH) is copied to local memory first, where it lies in a row, whatever the
   orientation of B; it serves all rows of the group's block.  A is read in place, an element a
   term and row, unless it is transposed: then its block is copied too, because rows that lie a
   power of two apart would meet in a few lines of the cache.

   Options: ROWS, UNITS, LANES, TERMS (a multiple of LANES), A_TRANSPOSED, B_TRANSPOSED, BLOCK_ROWS
   (the most rows of a group's block), FINISH (whether there may be a bias, an activation or a
   mask). */
#include "gemm_params.h"
#if FINISH
#include "gemm_finish.h"
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(float, LANES)
#define LOAD(p) JOIN(vload, LANES)(0, (p))
#define STORE(x, p) JOIN(vstore, LANES)((x), 0, (p))
#define UNROLL _Pragma("unroll")

#define WIDTH (UNITS * LANES)
#define ALIGN __attribute__((aligned(64)))

/* ---- Panels of B ----------------------------------------------------------------------------- */

/* The start and the size of a panel or of a tile of C. */
typedef struct extent {
    u32 first, n;
} extent;

#if B_TRANSPOSED

/* Transposes v, which is LANES rows of LANES elements, with a perfect shuffle for each bit of an index.
 */
#define TRANSPOSE(v)                                                                               \
    UNROLL for (u32 stage = 1; stage < LANES; stage *= 2)                                          \
    {                                                                                              \
        VEC w[LANES];                                                                              \
        UNROLL for (u32 i = 0; i < LANES / 2; i++)                                                 \
        {                                                                                          \
            w[2 * i].even = v[i].lo;                                                               \
            w[2 * i].odd = v[i + LANES / 2].lo;                                                    \
            w[2 * i + 1].even = v[i].hi;                                                           \
            w[2 * i + 1].odd = v[i + LANES / 2].hi;                                                \
        }                                                                                          \
        UNROLL for (u32 i = 0; i < LANES; i++) v[i] = w[i];                                        \
    }

/* b (n,k) from the panel's first term on -> to (terms, WIDTH).  Columns behind the end repeat the last
   one. */
DEVICE void pack_unit(LOCAL float *to, GLOBAL const float *b, u64 ldb, extent columns, u32 terms)
{
    u32 term = 0;
    for (; term + LANES <= terms; term += LANES) {
        VEC v[LANES];
        UNROLL for (u32 i = 0; i < LANES; i++)
            v[i] = LOAD(b + min(columns.first + i, columns.n - 1) * ldb + term);
        TRANSPOSE(v)
        UNROLL for (u32 i = 0; i < LANES; i++) STORE(v[i], to + (term + i) * WIDTH);
    }
    for (; term < terms; term++)
        for (u32 i = 0; i < LANES; i++)
            to[term * WIDTH + i] = b[min(columns.first + i, columns.n - 1) * ldb + term];
}

DEVICE void pack_panel(LOCAL float *to, GLOBAL const float *b, u64 ldb, extent columns, u32 terms)
{
    for (u32 u = 0; u < UNITS; u++) {
        const extent unit = {columns.first + u * LANES, columns.n};
        pack_unit(to + u * LANES, b, ldb, unit, terms);
    }
}

#define B_AT(p, b, term) ((b) + (term))

#else

/* b (k,n) from the panel's first term on -> to (terms, WIDTH), with zeros behind the last column. */
DEVICE void pack_panel(LOCAL float *to, GLOBAL const float *b, u64 ldb, extent columns, u32 terms)
{
    const u32 n = min(columns.n - columns.first, (u32)WIDTH);
    b += columns.first;
    if (n == WIDTH) {
        for (u32 term = 0; term < terms; term++, b += ldb, to += WIDTH)
            UNROLL for (u32 u = 0; u < UNITS; u++) STORE(LOAD(b + u * LANES), to + u * LANES);
        return;
    }
    for (u32 term = 0; term < terms; term++, b += ldb, to += WIDTH) {
        for (u32 i = 0; i < n; i++)
            to[i] = b[i];
        for (u32 i = n; i < WIDTH; i++)
            to[i] = 0.0f;
    }
}

#define B_AT(p, b, term) ((b) + (u64)(term) * (p).ldb)

#endif

/* ---- Blocks of A ----------------------------------------------------------------------------- */

#if A_TRANSPOSED

#define BLOCK_STRIDE (BLOCK_ROWS + 16) /* puts terms into different sets of the cache */

/* a (k,m) from the block's first term and row on -> to (terms, BLOCK_STRIDE), with zeros up to whole
   tiles. */
DEVICE void pack_block(LOCAL float *to, GLOBAL const float *a, u64 lda, u32 rows, u32 terms)
{
    const u32 whole = rows / LANES * LANES, padded = (rows + ROWS - 1) / ROWS * ROWS;
    for (u32 term = 0; term < terms; term++, a += lda, to += BLOCK_STRIDE) {
        for (u32 i = 0; i < whole; i += LANES)
            STORE(LOAD(a + i), to + i);
        for (u32 i = whole; i < rows; i++)
            to[i] = a[i];
        for (u32 i = rows; i < padded; i++)
            to[i] = 0.0f;
    }
}

#endif

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* The properties of one tile. */
typedef struct tile {
    u32 rows, columns; /* those of C that are left from the tile on, fewer or more than the tile's */
    u32 terms;
    bool accumulate;
} tile;

#define PRODUCT_TERM(x_of_row)                                                                     \
    {                                                                                              \
        VEC row_of_b[UNITS];                                                                       \
        UNROLL for (u32 u = 0; u < UNITS; u++) row_of_b[u] = LOAD(panel + u * LANES);              \
        UNROLL for (u32 i = 0; i < ROWS; i++)                                                      \
        {                                                                                          \
            const VEC x = (VEC)(x_of_row);                                                         \
            UNROLL for (u32 u = 0; u < UNITS; u++) sum[i][u] = fma(x, row_of_b[u], sum[i][u]);     \
        }                                                                                          \
        panel += WIDTH;                                                                            \
    }

DEVICE void store_tile(GLOBAL float *c, u64 ldc, VEC sum[ROWS][UNITS], tile t)
{
    if (t.rows >= ROWS && t.columns >= WIDTH) {
        if (t.accumulate)
            UNROLL for (u32 i = 0; i < ROWS; i++)
                UNROLL for (u32 u = 0; u < UNITS; u++) sum[i][u] += LOAD(c + i * ldc + u * LANES);
        UNROLL for (u32 i = 0; i < ROWS; i++)
            UNROLL for (u32 u = 0; u < UNITS; u++) STORE(sum[i][u], c + i * ldc + u * LANES);
        return;
    }
    float out[ROWS * WIDTH] ALIGN;
    UNROLL for (u32 i = 0; i < ROWS; i++)
        UNROLL for (u32 u = 0; u < UNITS; u++) STORE(sum[i][u], out + i * WIDTH + u * LANES);
    for (u32 i = 0; i < min(t.rows, (u32)ROWS); i++)
        for (u32 j = 0; j < min(t.columns, (u32)WIDTH); j++)
            c[i * ldc + j] =
                t.accumulate ? c[i * ldc + j] + out[i * WIDTH + j] : out[i * WIDTH + j];
}

#if A_TRANSPOSED

/* a: the tile's rows in a packed block. */
DEVICE void run_tile(GLOBAL float *c, u64 ldc, LOCAL const float *a, LOCAL const float *panel,
                     tile t)
{
    VEC sum[ROWS][UNITS];
    UNROLL for (u32 i = 0; i < ROWS; i++)
        UNROLL for (u32 u = 0; u < UNITS; u++) sum[i][u] = (VEC)(0.0f);
    for (u32 term = 0; term < t.terms; term++, a += BLOCK_STRIDE)
        PRODUCT_TERM(a[i])
    store_tile(c, ldc, sum, t);
}

#else

/* a: the tile's first row in place.  Rows behind the end repeat the last one. */
DEVICE void run_tile(GLOBAL float *c, u64 ldc, GLOBAL const float *a, u64 lda,
                     LOCAL const float *panel, tile t)
{
    GLOBAL const float *row[ROWS];
    VEC sum[ROWS][UNITS];
    UNROLL for (u32 i = 0; i < ROWS; i++) row[i] = a + min(i, t.rows - 1) * lda;
    UNROLL for (u32 i = 0; i < ROWS; i++)
        UNROLL for (u32 u = 0; u < UNITS; u++) sum[i][u] = (VEC)(0.0f);
    for (u32 term = 0; term < t.terms; term++)
        PRODUCT_TERM(row[i][term])
    store_tile(c, ldc, sum, t);
}

#endif

#if FINISH

/* Applies bias, activation and mask to a tile that has just been stored.  c and mask: at its first
   element. */
DEVICE void finish_tile(GLOBAL float *c, GLOBAL const float *bias, GLOBAL const float *mask,
                        const gemm_params *p, tile t)
{
    const u32 n = min(t.columns, (u32)WIDTH);
    if (!p->has_bias && p->activation == ACTIVATION_NONE &&
        p->mask_activation == ACTIVATION_NONE)
        return;
    for (u32 i = 0; i < min(t.rows, (u32)ROWS); i++)
        for (u32 j = 0; j < n; j++) {
            const u64 at = (u64)i * p->ldc + j;
            c[at] = gemm_finish(p, c[at], bias, mask, at, j);
        }
}

#endif

/* ---- The kernel ------------------------------------------------------------------------------ */

KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
gemm_registers(OUT(float, c), IN(float, a), IN(float, b), IN(float, bias), IN(float, mask),
               const gemm_params p)
{
    SHARED float panel[TERMS * WIDTH] ALIGN;
#if A_TRANSPOSED
    SHARED float block[TERMS * BLOCK_STRIDE] ALIGN;
#endif
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
#if FINISH
    TENSOR_IN(float, bias);
    TENSOR_IN(float, mask);
#endif
    const u32 batch = GROUP_ID(1) / p.n_splits, split = GROUP_ID(1) % p.n_splits;
    const u32 first_row = GROUP_ID(0) / p.n_column_tiles * p.tile_rows;
    const u32 first_column = GROUP_ID(0) % p.n_column_tiles * p.tile_columns;
    const u32 end_row = min(first_row + p.tile_rows, p.m);
    const u32 end_column = min(first_column + p.tile_columns, p.n);
    const u32 first_term = split * p.split_terms;
    const u32 end_term = min(first_term + p.split_terms, p.k);
    GLOBAL const float *a_of = a + batch * p.a_stride;
    GLOBAL const float *b_of = b + batch * p.b_stride;
    const u64 c_of = batch * p.c_stride + split * p.split_stride;

    u32 term = first_term;
    do { /* once even without terms, so that C becomes zero */
        tile t = {.terms = min(end_term - term, (u32)TERMS),
                  .accumulate = p.accumulate || term > first_term};
#if A_TRANSPOSED
        pack_block(block, a_of + (u64)term * p.lda + first_row, p.lda, end_row - first_row,
                   t.terms);
#endif
        for (u32 column = first_column; column < end_column; column += WIDTH) {
            const extent columns = {column, end_column};
            pack_panel(panel, B_AT(p, b_of, term), p.ldb, columns, t.terms);
            t.columns = end_column - column;
            for (u32 row = first_row; row < end_row; row += ROWS) {
                const u64 at = c_of + (u64)row * p.ldc + column;
                t.rows = end_row - row;
#if A_TRANSPOSED
                run_tile(c + at, p.ldc, block + (row - first_row), panel, t);
#else
                run_tile(c + at, p.ldc, a_of + (u64)row * p.lda + term, p.lda, panel, t);
#endif
#if FINISH
                if (end_term - term <= TERMS)
                    finish_tile(c + at, bias + column, mask + at, &p, t);
#endif
            }
        }
        term += TERMS;
    } while (term < end_term);
}
