/* Our own matrix product: both matrices are packed, block by block, and a small tile of results is
   held in registers while it meets a whole block of terms.

   A block of A is packed by all threads, in chunks of rows. Results are then divided into pieces, a
   chunk of rows times some panels of B, PRODUCT_LANES columns wide; whoever takes a piece packs its
   panels, if they are not those it had before. Rows of B lie far apart in memory, and reading one
   cache line of each takes several times as long as reading some: hence groups of panels.

   An element of the result is the sum over its terms in order, whatever the other extents are:
   who does which piece makes no difference to its bits. */
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
    PRODUCT_GROUP = 64 / PRODUCT_LANES, /* the most panels of a piece */
    PRODUCT_CHUNK = (128 + PRODUCT_ROWS - 1) / PRODUCT_ROWS * PRODUCT_ROWS, /* its most rows */
    PRODUCT_TERMS = 1024, /* the most of a block: sums are written and read again for every one */
    /* The most of a block of A.  Where its terms are few, it has more rows. */
    PRODUCT_BLOCK_FLOATS = 256 * 1024,
    PRODUCT_BLOCK_ROWS = 4096, /* but no more than these */
};

/* Floats of scratch for all threads together. */
size_t KERNEL(product_scratch)(unsigned n_threads);

/* Does a thread's part of *g.  All threads of the crew come; ends without a barrier. */
void KERNEL(product_run)(const gemm *g, const gemm_crew *crew);

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
