/* Winograd convolutions: layouts, blocks, spans and crews. */
#include "winograd.h"

#include <stdlib.h>

size_t KERNEL(winograd_stride)(size_t n_floats)
{
    const size_t line = 16;
    const size_t lines = dpt_cpu_ceil_div(n_floats, line) | 1;
    return dpt_cpu_mul(lines, line);
}

/* Floats from one tile to the next.  With few channels rows follow each other directly, because
   padding would be a large part of them. */
static size_t row_of(size_t channels)
{
    const size_t few = 64;
    return channels <= few ? dpt_cpu_ceil_div(channels, LANES) * LANES
                           : KERNEL(winograd_stride)(channels);
}

winograd_layout KERNEL(winograd_row_layout)(const winograd *v, size_t channels)
{
    const size_t row = row_of(channels);
    const size_t point = KERNEL(winograd_stride)(dpt_cpu_mul(row, v->block));
    return (winograd_layout){.channels = channels,
                             .width = row,
                             .row = row,
                             .point = point,
                             .size = dpt_cpu_mul(v->points, point)};
}

/* All points of a panel stand together, because the product of a span reads them so. */
winograd_layout KERNEL(winograd_panel_layout)(const winograd *v, size_t channels)
{
    const size_t n_panels = KERNEL(panel_count)(channels);
    const panel last = KERNEL(panel_at)(channels, n_panels - 1);
    const size_t point = KERNEL(winograd_stride)(dpt_cpu_mul(PANEL_LANES, v->block));
    const size_t last_point = KERNEL(winograd_stride)(dpt_cpu_mul(last.width, v->block));
    const size_t size = dpt_cpu_mul(v->points, point);
    return (winograd_layout){
        .channels = channels,
        .width = last.start + last.width,
        .point = point,
        .panel = size,
        .last = last.start,
        .last_point = last_point,
        .size = dpt_cpu_add(dpt_cpu_mul(n_panels - 1, size), dpt_cpu_mul(v->points, last_point)),
    };
}

static size_t taps_of(size_t edge)
{
    return edge == 3 ? 5 : 3;
}

static bool is_meant(const dpt_conv2d_desc *d, size_t taps)
{
    return d->kernel_h == taps && d->kernel_w == taps && d->stride_h == 1 && d->stride_w == 1 &&
           d->dilation_h == 1 && d->dilation_w == 1 && d->groups == 1;
}

/* With fewer channels, vectors are partly empty and transforms cost more than products. */
static const size_t least_channels = 8;
/* No trained convolution has an image or padding of this extent, and sizes would overflow. */
static const size_t most_extent = (size_t)1 << 30;

dpt_status KERNEL(winograd_create)(const dpt_op *op, size_t edge, winograd **out, dpt_error *error)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (!is_meant(d, taps_of(edge)) || d->in_h > most_extent || d->in_w > most_extent ||
        d->pad_h > most_extent || d->pad_w > most_extent)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "no Winograd convolution: those are 3x3 or 5x5, stride 1, dilation 1, one "
                        "group");
    if (!op->asked_for && (d->in_channels < least_channels || d->out_channels < least_channels))
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "too few channels for a Winograd convolution");
    winograd *v = calloc(1, sizeof *v);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    const ptrdiff_t pad_h = (ptrdiff_t)d->pad_h, pad_w = (ptrdiff_t)d->pad_w;
    v->desc = *d;
    v->edge = edge;
    v->taps = taps_of(edge);
    v->side = edge + v->taps - 1;
    v->points = v->side * v->side;
    v->adjoint = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    v->unbroken = op->deterministic;
    v->source = (winograd_images){d->in_h, d->in_w, d->in_channels, pad_h, pad_w};
    v->results = (winograd_images){d->out_h, d->out_w, d->out_channels, 0, 0};
    v->tiles_h = dpt_cpu_ceil_div(v->results.h, edge);
    v->tiles_w = dpt_cpu_ceil_div(v->results.w, edge);
    *out = v;
    return DPT_OK;
}

/* Transformed filters up to this size stay in a cache and can be read often.  Larger filters should
   be read as seldom as possible. */
static const size_t together_bytes = (size_t)4 << 20;
static const size_t copies_bytes = (size_t)32 << 20;
/* Transformed tiles of a block: half of a second-level cache, or, if all threads are one crew, part
   of a third-level cache. */
static const size_t block_bytes = (size_t)512 << 10, together_block_bytes = (size_t)24 << 20;

void KERNEL(winograd_set_filters)(winograd *v, size_t n_rows, size_t n_lanes, bool packed)
{
    const size_t row = packed ? KERNEL(packed_width)(n_lanes) : KERNEL(winograd_stride)(n_lanes);
    v->whole = (winograd_spans){.n_rows = n_rows,
                                .n_lanes = n_lanes,
                                .rows = n_rows,
                                .panels = KERNEL(panel_count)(n_lanes),
                                .row = row,
                                .point = KERNEL(winograd_stride)(dpt_cpu_mul(row, n_rows))};
}

void KERNEL(winograd_choose_blocks)(const dpt_op *op, size_t n_copies, winograd *v)
{
    const size_t filters = dpt_cpu_mul(dpt_cpu_mul(v->points, v->whole.point), sizeof(float));
    v->together = filters > together_bytes || dpt_cpu_mul(filters, n_copies) > copies_bytes;
    const size_t channels = dpt_cpu_add(row_of(v->source.c), row_of(v->results.c));
    const size_t tile_bytes = dpt_cpu_mul(dpt_cpu_mul(v->points, channels), sizeof(float));
    const size_t rows = KERNEL(panel_rows)(&(panel){.units = PANEL_UNITS});
    const size_t room = (v->together ? together_block_bytes : block_bytes) / tile_bytes;
    const size_t of_sample = dpt_cpu_mul(v->tiles_h, v->tiles_w);
    const bool whole = v->adjoint && v->together && (room >= of_sample || rows >= of_sample);
    const size_t grain = whole ? of_sample : rows;
    const size_t block = room > grain ? room / grain * grain : grain;
    const size_t all = dpt_cpu_mul(op->max_samples, of_sample);
    const size_t most = v->together ? all : dpt_cpu_ceil_div(all, op->n_threads);
    v->block = block < most ? block : most > 0 ? most : 1;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

/* The fewest lanes of a small span.  With fewer lanes there are more spans, and each reads the
   tiles again. */
static const size_t small_lanes = 64;
/* The fewest products of a span for each thread.  Fewer cannot be divided evenly. */
static const size_t least_units = 4;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Cuts the filters into spans that are as equal as possible. */
static winograd_spans cut(const winograd *v, size_t most_rows, size_t most_panels)
{
    const winograd_spans *whole = &v->whole;
    const size_t each = dpt_cpu_ceil_div(whole->n_rows, dpt_cpu_ceil_div(whole->n_rows, most_rows));
    const size_t rows = smaller(dpt_cpu_ceil_div(each, LANES) * LANES, whole->n_rows);
    const size_t panels =
        dpt_cpu_ceil_div(whole->panels, dpt_cpu_ceil_div(whole->panels, most_panels));
    if (rows == whole->rows && panels == whole->panels) return *whole;
    const size_t row = dpt_cpu_mul(panels - 1, PANEL_LANES) + PANEL_MOST;
    return (winograd_spans){.n_rows = whole->n_rows,
                            .n_lanes = whole->n_lanes,
                            .rows = rows,
                            .panels = panels,
                            .row = row,
                            .point = KERNEL(winograd_stride)(dpt_cpu_mul(row, rows))};
}

void KERNEL(winograd_choose_spans)(const dpt_op *op, const winograd_cuts *cuts, winograd *v)
{
    const size_t needed = dpt_cpu_ceil_div(least_units * op->n_threads, v->points);
    const size_t small_panels = larger(larger(small_lanes / PANEL_LANES, 1), needed);
    v->large = cut(v, v->whole.n_rows, larger(cuts->large_panels, needed));
    v->small = cut(v, cuts->small_rows, small_panels);
    v->few_tiles = cuts->few_tiles;
    const size_t n_tiles = dpt_cpu_mul(op->max_samples, v->tiles_h * v->tiles_w);
    size_t point = KERNEL(winograd_spans_of)(v, n_tiles)->point;
    /* Calls of fewer samples may take other spans: the largest span decides. */
    if (v->together && n_tiles > v->block) point = larger(point, v->large.point);
    if (v->together && n_tiles > smaller(v->few_tiles, v->block))
        point = larger(point, v->small.point);
    v->filters_size = dpt_cpu_mul(v->points, point);
}

const winograd_spans *KERNEL(winograd_spans_of)(const winograd *v, size_t n_tiles)
{
    if (!v->together || n_tiles > v->block) return &v->whole;
    return n_tiles > v->few_tiles ? &v->large : &v->small;
}

static size_t spans_of_panels(const winograd_spans *s)
{
    return dpt_cpu_ceil_div(s->n_rows, s->rows);
}

size_t KERNEL(winograd_span_count)(const winograd_spans *s)
{
    const size_t n_panels = KERNEL(panel_count)(s->n_lanes);
    return dpt_cpu_ceil_div(n_panels, s->panels) * spans_of_panels(s);
}

static dpt_cpu_range part_at(size_t index, size_t size, size_t total)
{
    return (dpt_cpu_range){index * size, smaller((index + 1) * size, total)};
}

winograd_span KERNEL(winograd_span_at)(const winograd_spans *s, size_t index)
{
    const size_t n = spans_of_panels(s);
    return (winograd_span){.rows = part_at(index % n, s->rows, s->n_rows),
                           .panels =
                               part_at(index / n, s->panels, KERNEL(panel_count)(s->n_lanes))};
}

/* ---- Crews ----------------------------------------------------------------------------------- */

dpt_cpu_range KERNEL(winograd_tiles_of_rows)(const winograd *v, dpt_cpu_range rows)
{
    const size_t reach = (v->side - 1) / v->edge, row = rows.begin % v->tiles_h;
    const size_t first = rows.begin - (row < reach ? row : reach);
    if (rows.begin == rows.end) return (dpt_cpu_range){0, 0};
    return (dpt_cpu_range){first * v->tiles_w, rows.end * v->tiles_w};
}

void KERNEL(winograd_describe)(dpt_op *op, const winograd *v)
{
    const dpt_conv2d_desc *d = &v->desc;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) *
                     (double)(d->out_channels * v->taps * v->taps) * (double)d->in_channels;
    op->plan.work = op->plan.flops / 40.0;
    op->plan.mixes = v->points;
    if (op->deterministic)
        op->plan.algorithm = v->edge == 4   ? "fixed-winograd4"
                             : v->edge == 3 ? "fixed-winograd3"
                                            : "fixed-winograd2";
    else
        op->plan.algorithm = v->edge == 4 ? "winograd4" : v->edge == 3 ? "winograd3" : "winograd2";
}

static size_t most_channels(const winograd *v)
{
    return v->source.c > v->results.c ? v->source.c : v->results.c;
}

size_t KERNEL(winograd_zeros_size)(const winograd *v)
{
    return dpt_cpu_round(most_channels(v));
}

winograd_crew KERNEL(winograd_crew_of)(const winograd *v, const dpt_cpu_call *call, unsigned thread,
                                       unsigned n_threads, float *zeros, float *scratch,
                                       size_t scratch_size)
{
    const size_t n_rows = call->n_samples * v->tiles_h, n_tiles = n_rows * v->tiles_w;
    float *own_zeros = zeros + thread * KERNEL(winograd_zeros_size)(v);
    memset(own_zeros, 0, most_channels(v) * sizeof *own_zeros);
    if (v->together)
        return (winograd_crew){.team = call->team,
                               .thread = thread,
                               .n_threads = n_threads,
                               .tiles = {0, n_tiles},
                               .rows = {0, n_rows},
                               .scratch = scratch,
                               .zeros = own_zeros};
    return (winograd_crew){.team = call->team,
                           .n_threads = 1,
                           .tiles = dpt_cpu_split(n_tiles, TILE_ROWS, thread, n_threads),
                           .scratch = scratch + thread * scratch_size,
                           .zeros = own_zeros};
}
