/* Our own matrix product: both matrices are packed, block by block, and a small tile of results is
   held in registers while it meets a whole block of terms.

   B is packed in panels, PRODUCT_LANES columns wide, and a group of them at a time: rows of B lie
   far apart in memory, and reading one cache line of each takes several times as long as reading
   some. Each panel then runs past all rows of the block of A, which follow one another as they
   are multiplied, so that every element of B is packed once for each block of A.

   An element of the result is the sum over its terms in order, whatever the other extents are:
   how threads divide a product makes no difference to its bits. */
#ifndef DPT_CPU_PRODUCT_H
#define DPT_CPU_PRODUCT_H

#include "gemm.h"
#include "simd.h"

/* How many registers there are decides the largest tile. */
#if defined(__AVX512F__)
enum { PRODUCT_ROWS = 14, PRODUCT_UNITS = 2 };
#elif defined(__AVX2__)
enum { PRODUCT_ROWS = 6, PRODUCT_UNITS = 2 };
#elif defined(__aarch64__)
enum { PRODUCT_ROWS = 12, PRODUCT_UNITS = 2 };
#else
enum { PRODUCT_ROWS = 4, PRODUCT_UNITS = 2 };
#endif
enum {
    PRODUCT_LANES = PRODUCT_UNITS * LANES,
    PRODUCT_GROUP = 64 / PRODUCT_LANES, /* panels */
    PRODUCT_TERMS = 1024, /* the most of a block: sums are written and read again for every one */
    /* The most of a block of A.  Where its terms are few, it has more rows. */
    PRODUCT_BLOCK_FLOATS = 256 * PRODUCT_TERMS,
};

/* Floats of scratch for one thread. */
size_t KERNEL(product_scratch)(void);

/* Does *g; scratch begins at a cache line. */
void KERNEL(product_run)(const gemm *g, float *scratch);

/* ---- Between its files ----------------------------------------------------------------------- */

/* One tile: rows of packed A times a panel of packed B. */
typedef struct product_tile {
    const float *a; /* (n_terms, n_rows) */
    const float *b; /* (n_terms, units * LANES) */
    size_t n_terms, n_rows, lanes, units;
    float *c;
    size_t ldc;
    bool accumulate;
    const float *bias; /* lanes of them, or NULL */
    const float *mask; /* rows ldc apart, or NULL: results are 0 where it is not positive */
    bool relu;
} product_tile;

void KERNEL(product_tile_run)(const product_tile *t);

/* The panels of some columns of B, from a whole vector on, one after the other: terms first ..
   first+n-1 as (term, lane), zeros behind the last panel's lanes. */
void KERNEL(product_pack_b)(const gemm *g, dpt_cpu_range columns, size_t first, size_t n,
                            float *to);
/* Rows of A and n of their terms: tiles of (term, row).  Writes up to LANES floats behind them.
   g: m, a, lda, a_transposed. */
void KERNEL(product_pack_a)(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to);

#endif
