/* Our own matrix product: both matrices are packed, block by block, and a small tile of results is
   held in registers while it meets a whole block of terms.

   A block of A (some hundred rows times as many terms) stays in the second-level cache. The
   panels of B, PRODUCT_LANES columns wide, are packed one after the other and run past all of its
   rows, so that every element of B is packed once for each block of A, and its source is read
   ahead while the panel before it is multiplied.

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
    PRODUCT_TERMS = 704, /* the most of a block: sums are written and read again for every one */
    /* Between rows of packed A: no multiple of the distance at which first-level caches run out of
       places. */
    PRODUCT_STEP = PRODUCT_TERMS + 16,
    /* The most of a block of A.  Where its terms are few, it has more rows. */
    PRODUCT_BLOCK_FLOATS = 256 * PRODUCT_STEP,
};

/* Floats of scratch for one thread. */
size_t KERNEL(product_scratch)(void);

/* Does *g; scratch begins at a cache line. */
void KERNEL(product_run)(const gemm *g, float *scratch);

/* ---- Between its files ----------------------------------------------------------------------- */

/* Columns of B side by side in packed rows of `units` vectors. */
typedef struct product_panel {
    size_t start, lanes, units;
} product_panel;

/* One tile: rows of packed A times a panel of packed B. */
typedef struct product_tile {
    const float *a;
    size_t a_row, a_term; /* distances: PRODUCT_STEP and 1, or 1 and n_rows */
    const float *b;
    size_t n_terms, n_rows, lanes, units;
    float *c;
    size_t ldc;
    bool accumulate;
    const float *bias; /* lanes of them, or NULL */
    const float *mask; /* rows ldc apart, or NULL: results are 0 where it is not positive */
    bool relu;
} product_tile;

void KERNEL(product_tile_run)(const product_tile *t);

/* Terms first .. first+n-1 of a panel of B as (term, lane), zeros behind the panel's lanes. */
void KERNEL(product_pack_b)(const gemm *g, const product_panel *p, size_t first, size_t n,
                            float *to);
/* Rows of A and n of their terms: (row, term) with rows PRODUCT_STEP apart, or (term, row) of
   tiles where A is stored transposed. */
void KERNEL(product_pack_a)(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to);

#endif
