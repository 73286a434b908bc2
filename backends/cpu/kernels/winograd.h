/* Convolutions by Winograd's minimal filtering: what the three passes share.

   A convolution of stride 1 with 3x3 or 5x5 taps is done on tiles of edge x edge results.  Tiles of
   the input are transformed to side x side values a channel, side = edge + taps - 1; what was a
   convolution is then one product of matrices for each of these side * side points.  F(4x4, 3x3)
   takes 36 multiplications where the direct way takes 144, F(2x2, 3x3) takes 16 for 36, and
   F(3x3, 5x5) takes 49 for 225.  Tiles are always those of forward: the gradient of the input is
   forward's adjoint, each transform the other way, in which what tiles share of the input is added
   up; so it has as many multiplications, however much smaller than the input the results are.

   Tiles are counted over all samples of a call.  They are worked off in blocks: by one thread
   each, in whose second-level cache its transformed values stay; or, where the transformed filters
   are much larger than that, by all threads together, so that the filters are read once.  A crew is
   who works on a block.  Where one block has all tiles of a call such filters, or the sums of
   their gradient, need not be there as a whole: they are made and used in spans of a few panels and
   rows, one after the other in the same place, which stays in a cache. */
#ifndef DPT_CPU_WINOGRAD_H
#define DPT_CPU_WINOGRAD_H

#include "../operators.h"
#include "tile.h"
#include "winograd_points.h"

/* Images (n,h,w,c), and where their first tile begins: pad rows above them. */
typedef struct winograd_images {
    size_t h, w, c;
    ptrdiff_t pad_h, pad_w;
} winograd_images;

/* Transformed tiles: for each point a matrix (tile, channel), of rows one behind the other; or,
   with row 0, for each panel of channels and each point of it a matrix, packed as tile.h wants its
   B. */
typedef struct winograd_layout {
    size_t channels;
    size_t width; /* to which channels are padded */
    size_t row;   /* floats from one tile to the next */
    size_t point; /* from one point to the next; in panels, of those before the last */
    size_t size;  /* of all */
    /* In panels: from one to the next, the last one's first channel, and between its points. */
    size_t panel, last, last_point;
} winograd_layout;

/* Where a panel begins that has its first channel at `start`, and how far its points are apart. */
typedef struct winograd_origin {
    size_t at, point;
} winograd_origin;

static inline winograd_origin winograd_panel_origin(const winograd_layout *l, size_t start)
{
    return (winograd_origin){start / PANEL_LANES * l->panel,
                             start == l->last ? l->last_point : l->point};
}

/* How the filters' matrices of all points, or their sums', are cut into spans: as a whole there is
   one of them. */
typedef struct winograd_spans {
    size_t n_rows, n_lanes; /* of a matrix */
    size_t rows, panels;    /* of a span, at the most */
    size_t row;             /* floats between rows that are not packed */
    size_t point;           /* floats between the points of a span */
} winograd_spans;

typedef struct winograd {
    dpt_conv2d_desc desc;
    size_t edge, taps;                  /* results of a tile along an edge, taps, */
    size_t side, points;                /* data, and all data */
    winograd_images source, results;    /* x or dx, and y or dy */
    bool adjoint;                       /* backward data */
    size_t tiles_h, tiles_w;            /* of a sample */
    bool together;                      /* all threads are one crew */
    size_t block;                       /* the most tiles of a block */
    winograd_layout data;               /* of the source */
    winograd_layout products;           /* of the results, or of their gradient */
    winograd_spans whole, large, small; /* for any calls, those of one block, those of few tiles */
    size_t few_tiles;                   /* the most that small ones are taken for */
    size_t filters_size; /* floats of the filters, or sums, that are there at a time */
} winograd;

/* A part of the filters' matrices: some rows of some panels of lanes. */
typedef struct winograd_span {
    dpt_cpu_range rows, panels;
} winograd_span;

/* Products of each point are (tile, depth) * (depth, width): channels that go in and come out. */
static inline size_t winograd_depth(const winograd *v)
{
    return v->adjoint ? v->results.c : v->source.c;
}

static inline size_t winograd_width(const winograd *v)
{
    return v->adjoint ? v->source.c : v->results.c;
}

typedef struct winograd_crew {
    dpt_cpu_team *team;
    unsigned thread, n_threads;
    dpt_cpu_range tiles; /* that the crew works off */
    dpt_cpu_range
        rows;       /* the adjoint: of tiles, counted over all samples, whose part of dx it makes */
    float *scratch; /* of the crew */
    const float *zeros; /* as many as there are channels, of the thread */
} winograd_crew;

/* f(..., edge, taps) of a plan, as constants. */
#define WINOGRAD_CALL(v, f, ...)                                                                   \
    do {                                                                                           \
        if ((v)->edge == 4)                                                                        \
            f(__VA_ARGS__, 4, 3);                                                                  \
        else if ((v)->edge == 3)                                                                   \
            f(__VA_ARGS__, 3, 5);                                                                  \
        else                                                                                       \
            f(__VA_ARGS__, 2, 3);                                                                  \
    } while (0)

/* A new plan's state, without block, together, data and products; *out NULL without memory.
   DPT_E_UNSUPPORTED for what is no convolution of stride 1 with the taps of this edge (4 and 2:
   3x3; 3: 5x5), or of so few channels that nobody but a test would want it. */
DPT_CHECK_RESULT dpt_status KERNEL(winograd_create)(const dpt_op *op, size_t edge, winograd **out,
                                                    dpt_error *error);
/* Sets whole: matrices (n_rows, n_lanes), packed in panels, or else of rows. */
void KERNEL(winograd_set_filters)(winograd *v, size_t n_rows, size_t n_lanes, bool packed);
/* Decides who works on blocks of how many tiles, when whole is set; n_copies is how many copies of
   the filters' points there are if every thread works on its own. */
void KERNEL(winograd_choose_blocks)(const dpt_op *op, size_t n_copies, winograd *v);
/* How filters are cut: large spans have so many panels at the most, small ones as few as there is
   work for, of so many rows at the most; and for how many tiles at the most these are taken. */
typedef struct winograd_cuts {
    size_t large_panels, small_rows, few_tiles;
} winograd_cuts;

/* Cuts filters, when blocks are chosen. */
void KERNEL(winograd_choose_spans)(const dpt_op *op, const winograd_cuts *cuts, winograd *v);
/* The spans of a call with so many tiles; those of the same panels follow each other. */
const winograd_spans *KERNEL(winograd_spans_of)(const winograd *v, size_t n_tiles);
size_t KERNEL(winograd_span_count)(const winograd_spans *s);
winograd_span KERNEL(winograd_span_at)(const winograd_spans *s, size_t index);
/* The adjoint: what a range of rows of tiles, counted over all samples, is made of: their own tiles
   and those above them that reach into them. */
dpt_cpu_range KERNEL(winograd_tiles_of_rows)(const winograd *v, dpt_cpu_range rows);
/* Fills in what the plans of the three operators have in common. */
void KERNEL(winograd_describe)(dpt_op *op, const winograd *v);

/* Distances between rows and points, in whole cache lines and an odd number of them: powers of two
   would fall on a few sets of a cache. */
size_t KERNEL(winograd_stride)(size_t n_floats);
winograd_layout KERNEL(winograd_row_layout)(const winograd *v, size_t channels);
winograd_layout KERNEL(winograd_panel_layout)(const winograd *v, size_t channels);

/* Floats of the zeros of all threads, which are written by clear (each thread its own). */
size_t KERNEL(winograd_zeros_size)(const winograd *v);
/* The crew of a thread, with its part of the tiles, or all; zeros and scratch are the workspace's
 * parts of all threads and crews. */
winograd_crew KERNEL(winograd_crew_of)(const winograd *v, const dpt_cpu_call *call, unsigned thread,
                                       unsigned n_threads, float *zeros, float *scratch,
                                       size_t scratch_size);

/* Transforms the tiles of a range of the source x, or of the results' gradient dy (which is not
   weighed), to the rows of `to`, of which the first is tile `first`'s.  Gradients are added to bias
   (out_channels) too if that is not NULL. */
void KERNEL(winograd_data)(const winograd *v, const winograd_crew *crew, const float *x,
                           dpt_cpu_range tiles, size_t first, float *to);
void KERNEL(winograd_gradient)(const winograd *v, const winograd_crew *crew, const float *dy,
                               dpt_cpu_range tiles, size_t first, float *to, float *bias);

/* How y ends, or dx. */
typedef struct winograd_ending {
    const float *bias; /* y: or NULL */
    bool relu;         /* y */
    const float *mask; /* dx is 0 where it is not above 0; or NULL */
    bool accumulate;   /* dx */
} winograd_ending;

/* From products back to results y. */
void KERNEL(winograd_results)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, const winograd_ending *ending, float *y);

/* The adjoint's: from products back to the gradient dx of the source, of which only the part is
   written that belongs to `rows`.  All tiles of winograd_tiles_of_rows come in order, in one call
   or several. */
void KERNEL(winograd_scatter)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, dpt_cpu_range rows, const winograd_ending *ending,
                              float *dx);

/* Transforms the filters (out_channels,taps,taps,in_channels), as matrices of packed panels:
   (in channel, out channel), the adjoint's (out channel, in channel), of which those of a span are
   made; this thread's part. */
void KERNEL(winograd_filters)(const winograd *v, const float *w, const winograd_spans *spans,
                              const winograd_span *span, unsigned thread, unsigned n_threads,
                              float *to);

#endif
