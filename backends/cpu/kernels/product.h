/* Our own matrix product.  Both matrices are packed block by block.  A small tile of results stays
   in registers while a whole block of terms is added to it.

   All threads together pack a block of the matrix with the shorter side, once for all rows or
   columns of the other one.  The results are then divided into pieces: a chunk of rows of A times a
   group of panels of B, each PRODUCT_LANES columns wide.  The thread that takes a piece packs the
   chunk, or the group, of the matrix with the longer side, unless it has just packed it for the
   piece before.  A tile of A stays in the first-level cache while all panels of a group are
   multiplied with it.

   An element of the result is the sum of its terms in order, whatever m and n are.  The thread that
   computes an element makes no difference to its bits. */
#ifndef DPT_CPU_PRODUCT_H
#define DPT_CPU_PRODUCT_H

#include "gemm.h"
#include "tree.h"

/* The number of registers decides the largest tile. */
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
    PRODUCT_GROUP = 128 / PRODUCT_LANES, /* the most panels of a piece */
    /* The most rows of a piece, a chunk of A. */
    PRODUCT_CHUNK = (256 + PRODUCT_ROWS - 1) / PRODUCT_ROWS * PRODUCT_ROWS,
    PRODUCT_A_FLOATS = 64 * 1024, /* of a chunk, unless a tile has more; a second-level cache */
    /* The most terms of a block.  Sums are stored and loaded again for every block. */
    PRODUCT_TERMS = 1024,
    PRODUCT_SHARED_FLOATS = 1024 * 1024, /* of a block that all threads read: a shared cache */
};

/* Floats of scratch, for all threads together, of a product that has at most the m, n and k of *g,
   and a tree if g->grain is not 0. */
size_t KERNEL(product_scratch)(const gemm *g, unsigned n_threads);

/* Computes one thread's part of *g.  All threads of the crew must call it.  There is no barrier at
   its end. */
void KERNEL(product_run)(const gemm *g, const gemm_crew *crew);

/* ---- For product*.c, conv2d_columns.c and attention_tile.c ------------------------------------
 */

/* How a tile adds up grains. */
typedef struct product_tree {
    tree_block block;
    /* What the tile stores between blocks (n_rows, units * LANES): the sums of a grain that goes
       on, and `distance` floats behind them, level by level, those that wait. */
    float *stored;
    size_t distance;
    float zero; /* added to the sum of a grain: 0 or -0 */
} product_tree;

/* A tile: rows of packed A times a panel of packed B. */
typedef struct product_tile {
    const float *a; /* (n_terms, n_rows) */
    const float *b; /* (n_terms, units * LANES) */
    size_t n_terms, n_rows, lanes, units;
    float *c;
    size_t ldc;
    bool continues; /* the sums begin with c in place of 0 */
    bool accumulate;
    const float *factor; /* of the sums, or NULL */
    const float *bias;   /* (lanes), or NULL */
    const float *mask;   /* rows ldc apart, or NULL: results become 0 where it is not positive */
    bool relu;
    const product_tree *tree; /* NULL: the terms are one sum */
} product_tile;

void KERNEL(product_tile_run)(const product_tile *t);

/* Packs the terms first .. first+n-1 of some columns of B, panel by panel, as (term, lane).  The
   columns begin at a multiple of a vector.  Zeros fill the last panel up to whole vectors. */
void KERNEL(product_pack_b)(const gemm *g, dpt_cpu_range columns, size_t first, size_t n,
                            float *to);
/* Transposes n terms of up to LANES rows, `ld` floats apart, to (term, lane), with `width` floats
   between terms.  Lanes behind the rows are 0. */
void KERNEL(product_turn_rows)(const float *from, size_t ld, size_t n_rows, size_t n, size_t width,
                               float *to);
/* Packs the terms first .. first+n-1 of some rows of A, tile by tile, as (term, row).  Writes up to
   LANES floats behind them.  Reads g->m, a, lda and a_transposed. */
void KERNEL(product_pack_a)(const gemm *g, dpt_cpu_range rows, size_t first, size_t n, float *to);

#endif
