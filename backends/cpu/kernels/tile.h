/* The inner loop of convolutions and Winograd products.

   A tile is a few rows of results times a panel of lanes.  It stays in registers while the products
   of a whole reduction are added:

       c[i][lane] (+)= sum over segments s, sum over k < s.length:
                       a[i][s.offset + k * a_step] * b[k'][lane]

   A sum that is -0 becomes +0.  k' counts through all segments.  The rows of A are read in place: a
   convolution needs no copy of its patches, because the taps of one filter row are consecutive
   floats.  B is packed: the rows of a panel follow each other, padded with zeros to the panel's
   width. */
#ifndef DPT_CPU_TILE_H
#define DPT_CPU_TILE_H

#include "backend.h"
#include "simd.h"

/* The number of registers decides the largest tile.  A last panel of one vector would have too few
   products in flight.  Where panels are small, it becomes part of the panel before it. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define PANEL_UNITS      4
#define PANEL_MOST_UNITS 4
#else
#define PANEL_UNITS      2
#define PANEL_MOST_UNITS 3
#endif
enum {
    TILE_ROWS = 8,
    PANEL_LANES = PANEL_UNITS * LANES,     /* of all panels but the last */
    PANEL_MOST = PANEL_MOST_UNITS * LANES, /* the most of the last */
};

/* A part of the lanes 0 .. n-1 that a tile treats at once. */
typedef struct panel {
    size_t start;  /* the first lane */
    size_t lanes;  /* the number of lanes */
    size_t width;  /* lanes rounded up to vectors: the distance between rows of packed B */
    size_t units;  /* whole vectors of the width */
    bool has_half; /* there is a half vector behind them */
} panel;

size_t KERNEL(panel_count)(size_t n_lanes);
panel KERNEL(panel_at)(size_t n_lanes, size_t index);
/* The first lane of the panel that holds a lane. */
static inline size_t panel_start(size_t n_lanes, size_t lane)
{
    const size_t start = lane / PANEL_LANES * PANEL_LANES;
    const bool joined = start > 0 && n_lanes + PANEL_LANES - start <= PANEL_MOST;
    return joined ? start - PANEL_LANES : start;
}

/* The width of all panels together.  A panel of k rows begins at `start * k`, because all panels
   but the last are full. */
size_t KERNEL(packed_width)(size_t n_lanes);
/* The most rows that a tile of this panel can have. */
size_t KERNEL(panel_rows)(const panel *p);

/* Consecutive terms of a reduction. */
typedef struct segment {
    size_t offset; /* from the row's address, in floats */
    size_t length;
} segment;

typedef struct tile {
    size_t n_rows; /* 1 to panel_rows */
    const float *a[TILE_ROWS];
    size_t a_step;
    const segment *segments;
    size_t n_segments;
    const float *b;
    /* The sums begin with these (n_rows, width) in place of 0; or NULL. */
    const float *from;
    /* The sums are stored here (n_rows, width), and not in c; or NULL.  `from` and `to` may be the
       same.  With both, a sum goes on from tile to tile as if it were never stored. */
    float *to;
    float *c[TILE_ROWS]; /* rows of the result; they may overlap, and are added one by one */
    bool accumulate;
    const float *bias; /* (panel.lanes), or NULL */
    bool relu;
} tile;

void KERNEL(tile_run)(const panel *p, const tile *t);

/* Many rows of a panel at equal distances, in one call.  With short reductions, a call for every
   tile would cost too much.

       c[i * c_row + lane] (+)= sum over k < depth: a[i * a_row + k * a_step] * b[k][lane]

   Lanes up to the panel's width are written.  If sums are accumulated, they are added to c;
   unbroken sums begin with c in place of 0 instead, as if they had never been stored. */
typedef struct strip {
    size_t n_rows, depth;
    const float *a;
    size_t a_row, a_step;
    const float *b;
    float *c;
    size_t c_row;
    bool accumulate, unbroken;
} strip;

void KERNEL(strip_run)(const panel *p, const strip *s);

/* The rows of the next tile when `left` rows are left.  Tiles are as equal as possible, because in
   a very small tile products wait for each other. */
static inline size_t tile_rows(size_t left, size_t most)
{
    const size_t n_tiles = (left + most - 1) / most;
    return (left + n_tiles - 1) / n_tiles;
}

#endif
