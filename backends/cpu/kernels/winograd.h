/* Convolutions by Winograd's minimal filtering: the parts that the three passes share.

   A convolution of stride 1 with 3x3 or 5x5 taps is computed on tiles of edge x edge results.  A
   tile of the input is transformed to side x side values for each channel, where side = edge + taps
   - 1. The convolution then is one matrix product for each of these side * side points.  F(4x4,
   3x3) takes 36 multiplications instead of 144, F(2x2, 3x3) 16 instead of 36, and F(3x3, 5x5) 49
   instead of 225.  All passes use the tiles of forward.  The gradient of the input is the adjoint
   of forward: each transform is applied in the other direction, and the parts of the input that
   tiles share are added up.  Backward-data therefore takes as many multiplications as forward, also
   if the results are much smaller than the input.

   Tiles are counted over all samples of a call and treated in blocks.  A crew is the threads that
   work on a block.
   - A crew usually is one thread, in whose second-level cache the transformed values of a block
   stay.
   - If the transformed filters are much larger than that cache, all threads are one crew, so that
   the filters are read once.
   - If one block has all tiles of a call, such filters, or the sums of their gradient, never exist
   as a whole.  They are made and used in spans of some panels and rows, one after the other in the
     same memory, which stays in a cache. */
#ifndef DPT_CPU_WINOGRAD_H
#define DPT_CPU_WINOGRAD_H

#include "../operators.h"
#include "tile.h"
#include "winograd_points.h"

/* Images (n,h,w,c).  The first tile begins pad_h rows above and pad_w columns left of the image. */
typedef struct winograd_images {
    size_t h, w, c;
    ptrdiff_t pad_h, pad_w;
} winograd_images;

/* The layout of transformed tiles.  Rows: for each point a matrix (tile, channel).  Panels (row is
   0): for each panel of channels, and each point of the panel, a matrix that is packed as tile.h
   expects B.  All distances are in floats. */
typedef struct winograd_layout {
    size_t channels;
    size_t width; /* the channels with their padding */
    size_t row;   /* from one tile to the next; 0: panels */
    size_t point; /* from one point to the next; of panels, all but the last panel */
    size_t size;  /* of everything */
    /* Of panels: from one panel to the next; the first channel of the last panel; between the
       points of the last panel. */
    size_t panel, last, last_point;
} winograd_layout;

/* The first float of a panel's first point, and the distance between its points. */
typedef struct winograd_origin {
    size_t at, point;
} winograd_origin;

/* The origin of the panel whose first channel is `start`. */

static inline winograd_origin winograd_panel_origin(const winograd_layout *l, size_t start)
{
    return (winograd_origin){start / PANEL_LANES * l->panel,
                             start == l->last ? l->last_point : l->point};
}

/* The division into spans of the filters' matrices of all points, or of the sums of their
   gradient. */
typedef struct winograd_spans {
    size_t n_rows, n_lanes; /* of a matrix */
    size_t rows, panels;    /* the most of a span */
    size_t row;             /* floats between rows, if they are not packed */
    size_t point;           /* floats between the points of a span */
} winograd_spans;

typedef struct winograd {
    dpt_conv2d_desc desc;
    size_t edge, taps;   /* results and taps along an edge of a tile */
    size_t side, points; /* values along an edge of a transformed tile, and all of them */
    winograd_images source, results; /* x or dx, and y or dy */
    bool adjoint;                    /* backward-data */
    bool unbroken;                   /* deterministic: every sum of products is one chain */
    size_t tiles_h, tiles_w;         /* of a sample */
    bool together;                   /* all threads are one crew */
    size_t block;                    /* the most tiles of a block */
    winograd_layout data;            /* of the source's tiles */
    winograd_layout products;        /* of the results' tiles, or their gradient's */
    winograd_spans whole;            /* one span, for calls of several blocks */
    winograd_spans large, small;     /* for calls of one block, and of at most few_tiles tiles */
    size_t few_tiles;
    size_t filters_size; /* floats of the filters, or of the sums, that exist at once */
} winograd;

/* A span: some rows of some panels of lanes. */
typedef struct winograd_span {
    dpt_cpu_range rows, panels;
} winograd_span;

/* The product of a point is (tile, depth) * (depth, width): depth counts the input channels of the
   pass, width its output channels. */
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
    dpt_cpu_range tiles; /* the tiles of the crew */
    dpt_cpu_range rows;  /* of the adjoint: the rows of tiles, counted over all samples, whose part
                            of dx the crew writes */
    float *scratch;      /* of the crew */
    const float *zeros;  /* one for each channel; of the thread */
} winograd_crew;

/* Calls f(..., edge, taps) with the plan's edge and taps as constants. */
#define WINOGRAD_CALL(v, f, ...)                                                                   \
    do {                                                                                           \
        if ((v)->edge == 4)                                                                        \
            f(__VA_ARGS__, 4, 3);                                                                  \
        else if ((v)->edge == 3)                                                                   \
            f(__VA_ARGS__, 3, 5);                                                                  \
        else                                                                                       \
            f(__VA_ARGS__, 2, 3);                                                                  \
    } while (0)

/* *out: the state of a new plan, without block, together, data and products.  DPT_E_NO_MEMORY.
   DPT_E_UNSUPPORTED if the convolution does not have stride 1 and the taps of this edge (4 and 2:
   3x3; 3: 5x5), or has so few channels that only a test would ask for the algorithm. */
DPT_CHECK_RESULT dpt_status KERNEL(winograd_create)(const dpt_op *op, size_t edge, winograd **out,
                                                    dpt_error *error);
/* Sets v->whole: matrices (n_rows, n_lanes), either packed in panels or in rows. */
void KERNEL(winograd_set_filters)(winograd *v, size_t n_rows, size_t n_lanes, bool packed);
/* Sets v->together and v->block, after v->whole.  n_copies: the copies of the filters' points that
   exist if every thread is a crew. */
void KERNEL(winograd_choose_blocks)(const dpt_op *op, size_t n_copies, winograd *v);
/* Limits of spans.  A small span has as few panels as there is work for. */
typedef struct winograd_cuts {
    size_t large_panels; /* the most panels of a large span */
    size_t small_rows;   /* the most rows of a small span */
    size_t few_tiles;    /* the most tiles of a call with small spans */
} winograd_cuts;

/* Sets v->large, v->small, v->few_tiles and v->filters_size, after the blocks. */
void KERNEL(winograd_choose_spans)(const dpt_op *op, const winograd_cuts *cuts, winograd *v);
/* The spans of a call with n_tiles tiles.  Spans of the same panels follow each other. */
const winograd_spans *KERNEL(winograd_spans_of)(const winograd *v, size_t n_tiles);
size_t KERNEL(winograd_span_count)(const winograd_spans *s);
winograd_span KERNEL(winograd_span_at)(const winograd_spans *s, size_t index);
/* Of the adjoint: the tiles that add to a range of rows of tiles, counted over all samples.  These
   are the tiles of the rows, and tiles above them that overlap them. */
dpt_cpu_range KERNEL(winograd_tiles_of_rows)(const winograd *v, dpt_cpu_range rows);
/* Fills in the parts that the plans of the three operators share. */
void KERNEL(winograd_describe)(dpt_op *op, const winograd *v);

/* Fill in the plan of a deterministic operator, whose tiles have this edge (winograd_rule.h).  The
   first is forward or backward-data.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status KERNEL(winograd_prepare_fixed)(dpt_op *op, size_t edge,
                                                           dpt_error *error);
DPT_CHECK_RESULT dpt_status KERNEL(winograd_prepare_fixed_weights)(dpt_op *op, size_t edge,
                                                                   dpt_error *error);

/* A distance between rows or points of at least n_floats: an odd number of cache lines.  With
   powers of two, all rows would share a few sets of a cache. */
size_t KERNEL(winograd_stride)(size_t n_floats);
winograd_layout KERNEL(winograd_row_layout)(const winograd *v, size_t channels);
winograd_layout KERNEL(winograd_panel_layout)(const winograd *v, size_t channels);

/* Floats of the zeros of all threads. */
size_t KERNEL(winograd_zeros_size)(const winograd *v);
/* The crew of a thread, with its tiles: a part of them, or all.  `zeros` is the workspace's part of
   all threads, `scratch` that of all crews, scratch_size the floats of one crew. */
winograd_crew KERNEL(winograd_crew_of)(const winograd *v, const dpt_cpu_call *call, unsigned thread,
                                       unsigned n_threads, float *zeros, float *scratch,
                                       size_t scratch_size);

/* Transform a range of tiles to the rows of `to`, whose first row is that of tile `first`.
   winograd_data transforms tiles of the source x.  winograd_gradient transforms tiles of dy,
   without weights; if bias (out_channels) is not NULL, it also adds dy to bias. */
void KERNEL(winograd_data)(const winograd *v, const winograd_crew *crew, const float *x,
                           dpt_cpu_range tiles, size_t first, float *to);
void KERNEL(winograd_gradient)(const winograd *v, const winograd_crew *crew, const float *dy,
                               dpt_cpu_range tiles, size_t first, float *to, float *bias);

/* The operations on the results before they are stored. */
typedef struct winograd_ending {
    const float *bias; /* of y; NULL: none */
    bool relu;         /* of y */
    const float *mask; /* of dx, which becomes 0 where the mask is not positive; NULL: none */
    bool accumulate;   /* of dx */
} winograd_ending;

/* Transforms products to results y. */
void KERNEL(winograd_results)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, const winograd_ending *ending, float *y);

/* Of the adjoint: transforms products to dx, and writes only the part of dx that belongs to `rows`.
   The caller passes all tiles of winograd_tiles_of_rows in order, in one or several calls. */
void KERNEL(winograd_scatter)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, dpt_cpu_range rows, const winograd_ending *ending,
                              float *dx);

/* Transforms this thread's part of a span of the filters w (out_channels,taps,taps,in_channels).
   The result is matrices in packed panels: (in channel, out channel), and for the adjoint (out
   channel, in channel). */
void KERNEL(winograd_filters)(const winograd *v, const float *w, const winograd_spans *spans,
                              const winograd_span *span, unsigned thread, unsigned n_threads,
                              float *to);

#endif
