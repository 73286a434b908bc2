/* Winograd convolutions: forward, and backward-data, which is the adjoint of forward. */
#include "activation.h"
#include "kinds.h"
#include "winograd.h"

#include <stdlib.h>

/* ---- Products -------------------------------------------------------------------------------- */

/* Transformed tiles, as rows of a layout. */
typedef struct matrices {
    const winograd_layout *layout;
    float *at;
} matrices;

/* The filters, and the transformed filters of a span, which may be all of them. */
typedef struct filters {
    const float *w;
    const winograd_spans *spans;
    float *packed;
} filters;

/* The products (tile, channel) of each point: some columns of `in` times the filters of a span. */
static void multiply_span(const winograd *v, const winograd_crew *crew, size_t n_tiles,
                          const matrices *in, const filters *f, const winograd_span *span,
                          const matrices *out)
{
    const size_t depth = span->rows.end - span->rows.begin, width = f->spans->n_lanes,
                 n_panels = span->panels.end - span->panels.begin;
    const size_t first = KERNEL(panel_at)(width, span->panels.begin).start;
    dpt_cpu_pieces units =
        dpt_cpu_pieces_of(crew->team, v->points * n_panels, crew->thread, crew->n_threads);
    for (size_t unit; dpt_cpu_take(&units, &unit);) {
        const size_t point = unit / n_panels;
        const panel p = KERNEL(panel_at)(width, span->panels.begin + unit % n_panels);
        const strip rows = {.n_rows = n_tiles,
                            .depth = depth,
                            .a = in->at + point * in->layout->point + span->rows.begin,
                            .a_row = in->layout->row,
                            .a_step = 1,
                            .b = f->packed + point * f->spans->point + (p.start - first) * depth,
                            .c = out->at + point * out->layout->point + p.start,
                            .c_row = out->layout->row,
                            .accumulate = span->rows.begin > 0,
                            .unbroken = v->unbroken};
        KERNEL(strip_run)(&p, &rows);
    }
}

/* Transforms this thread's part of a span's filters. */
static void make_filters(const winograd *v, const filters *f, const winograd_span *span,
                         unsigned thread, unsigned n_threads)
{
    KERNEL(winograd_filters)(v, f->w, f->spans, span, thread, n_threads, f->packed);
}

/* Computes all products of a block, between barriers of the crew.  If there are several spans,
   their filters are transformed here; a single span was transformed before. */
static void multiply(const winograd *v, const winograd_crew *crew, size_t n_tiles,
                     const matrices *in, const filters *f, const matrices *out)
{
    const size_t n_spans = KERNEL(winograd_span_count)(f->spans);
    for (size_t i = 0; i < n_spans; i++) {
        const winograd_span span = KERNEL(winograd_span_at)(f->spans, i);
        if (n_spans > 1) make_filters(v, f, &span, crew->thread, crew->n_threads);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
        multiply_span(v, crew, n_tiles, in, f, &span, out);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The part of a range that belongs to this thread of the crew. */
static dpt_cpu_range part_of(const winograd_crew *crew, dpt_cpu_range range)
{
    const dpt_cpu_range part =
        dpt_cpu_split(range.end - range.begin, 1, crew->thread, crew->n_threads);
    return (dpt_cpu_range){range.begin + part.begin, range.begin + part.end};
}

static size_t scratch_size(const winograd *v)
{
    return dpt_cpu_add(v->data.size, v->products.size);
}

/* The end of a block of the adjoint.  If a crew has several threads, a block is either whole
   samples, whose rows are divided among the threads, or less than a sample, which the first thread
   treats. */
static void scatter(const winograd *v, const winograd_crew *crew, dpt_cpu_range block,
                    const matrices *from, const winograd_ending *ending, float *dx)
{
    dpt_cpu_range rows = crew->rows, tiles = block;
    if (crew->n_threads > 1 && v->block % (v->tiles_h * v->tiles_w) == 0) {
        rows = part_of(crew, (dpt_cpu_range){block.begin / v->tiles_w, block.end / v->tiles_w});
        tiles = KERNEL(winograd_tiles_of_rows)(v, rows);
    } else if (crew->thread > 0) {
        return;
    }
    KERNEL(winograd_scatter)(v, from->at, tiles, block.begin, rows, ending, dx);
}

/* Computes y from x, or dx from dy, for the crew's tiles. */
static void do_tiles(const winograd *v, const winograd_crew *crew, const float *x, const filters *f,
                     const winograd_ending *ending, float *y)
{
    const matrices data = {&v->data, crew->scratch};
    const matrices products = {&v->products, crew->scratch + v->data.size};
    const matrices *in = v->adjoint ? &products : &data, *out = v->adjoint ? &data : &products;
    const size_t n_tiles = crew->tiles.end - crew->tiles.begin;
    const size_t n_blocks = dpt_cpu_ceil_div(n_tiles, v->block);
    const size_t size = crew->n_threads > 1 ? v->block
                        : n_blocks > 0      ? dpt_cpu_ceil_div(n_tiles, n_blocks)
                                            : 0;
    for (size_t first = crew->tiles.begin; first < crew->tiles.end; first += size) {
        const size_t end = first + size;
        const dpt_cpu_range block = {first, end < crew->tiles.end ? end : crew->tiles.end};
        const dpt_cpu_range part = part_of(crew, block);
        if (v->adjoint)
            KERNEL(winograd_gradient)(v, crew, x, part, first, in->at, NULL);
        else
            KERNEL(winograd_data)(v, crew, x, part, first, in->at);
        multiply(v, crew, block.end - block.begin, in, f, out);
        if (v->adjoint)
            scatter(v, crew, block, out, ending, y);
        else
            KERNEL(winograd_results)(v, out->at, part, first, ending, y);
    }
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* If every thread is a crew, a piece is a block of tiles.  A piece of the adjoint is rows of tiles
   of some samples.  A piece that begins within a sample computes the row of tiles above it once
   more. */
enum {
    ADJOINT_BLOCKS = 8 /* blocks of a piece; the last one, which is smaller, then costs little */
};

static size_t count_pieces(const winograd *v, size_t n_samples, unsigned n_threads)
{
    const size_t of_sample = v->tiles_h * v->tiles_w;
    const size_t n = v->adjoint ? n_samples / dpt_cpu_ceil_div(ADJOINT_BLOCKS * v->block, of_sample)
                                : dpt_cpu_ceil_div(n_samples * of_sample, v->block);
    return dpt_cpu_ceil_div(n > 0 ? n : 1, n_threads) * n_threads;
}

static void go_to(const winograd *v, size_t n_samples, size_t piece, size_t n_pieces,
                  winograd_crew *crew)
{
    const size_t n_rows = n_samples * v->tiles_h;
    if (!v->adjoint) {
        crew->tiles = dpt_cpu_split(n_rows * v->tiles_w, TILE_ROWS, piece, n_pieces);
        return;
    }
    const bool even = n_samples % n_pieces == 0 || n_samples / n_pieces >= 4;
    const size_t grain = even ? v->tiles_h : 1;
    crew->rows = dpt_cpu_split(n_rows, grain, piece, n_pieces);
    crew->tiles = KERNEL(winograd_tiles_of_rows)(v, crew->rows);
}

/* ---- The operators --------------------------------------------------------------------------- */

/* Workspace: filters, zeros, then the scratch of each crew. */
static void convolve(const dpt_cpu_call *call, unsigned thread, unsigned n_threads,
                     const winograd_ending *ending)
{
    const winograd *v = call->op->plan.state;
    const size_t n_tiles = call->n_samples * v->tiles_h * v->tiles_w;
    const filters f = {call->in[1], KERNEL(winograd_spans_of)(v, n_tiles), call->workspace};
    float *zeros = f.packed + v->filters_size;
    float *scratch = zeros + call->op->n_threads * KERNEL(winograd_zeros_size)(v);
    winograd_crew crew =
        KERNEL(winograd_crew_of)(v, call, thread, n_threads, zeros, scratch, scratch_size(v));
    if (KERNEL(winograd_span_count)(f.spans) == 1) {
        const winograd_span all = KERNEL(winograd_span_at)(f.spans, 0);
        make_filters(v, &f, &all, thread, n_threads);
        dpt_cpu_barrier(call->team, thread, n_threads);
    }
    if (v->together) {
        do_tiles(v, &crew, call->in[0], &f, ending, call->out[0]);
        return;
    }
    const size_t n_pieces = count_pieces(v, call->n_samples, n_threads);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n_pieces, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        go_to(v, call->n_samples, piece, n_pieces, &crew);
        do_tiles(v, &crew, call->in[0], &f, ending, call->out[0]);
    }
}

/* Waits until all results are written.  Returns this thread's part of them. */
static dpt_cpu_range finished_part(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    dpt_cpu_barrier(call->team, thread, n_threads);
    const winograd_images *images = v->adjoint ? &v->source : &v->results;
    return dpt_cpu_split(call->n_samples * images->h * images->w * images->c, 16, thread,
                         n_threads);
}

/* x (n,in_h,in_w,C) * w (O,taps,taps,C) + bias (O) -> y (n,out_h,out_w,O) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const dpt_activation activation = v->desc.activation;
    const winograd_ending ending = {.bias = v->desc.has_bias ? call->in[2] : NULL,
                                    .relu = activation == DPT_ACT_RELU};
    convolve(call, thread, n_threads, &ending);
    if (activation == DPT_ACT_NONE || activation == DPT_ACT_RELU) return;
    const dpt_cpu_range part = finished_part(call, thread, n_threads);
    float *y = call->out[0];
    KERNEL(activate)(call->op, activation, y + part.begin, y + part.begin, part.end - part.begin);
}

/* dy (n,out_h,out_w,O), w (O,taps,taps,C) -> dx (n,in_h,in_w,C) */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const dpt_activation mask = v->desc.input_activation;
    const winograd_ending ending = {.mask = mask == DPT_ACT_RELU ? call->in[2] : NULL,
                                    .accumulate = call->accumulate};
    convolve(call, thread, n_threads, &ending);
    if (mask == DPT_ACT_NONE || mask == DPT_ACT_RELU) return;
    const dpt_cpu_range part = finished_part(call, thread, n_threads);
    const float *x = call->in[2];
    float *dx = call->out[0];
    KERNEL(differentiate)
    (call->op, mask, dx + part.begin, x + part.begin, dx + part.begin, part.end - part.begin);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Points times rows of a small span.  With 64 lanes this is somewhat more than half of a
   second-level cache.  With fewer rows the products would be read and written more often. */
static const size_t small_values = 5000;
/* The size of a large span, which is used when there are too many tiles for small spans.  A larger
   span would not stay in a third-level cache. */
static const size_t large_bytes = (size_t)16 << 20;
/* The most tiles of a call with small spans.  Each span reads the tiles again; with more tiles that
   costs more than filters outside the second-level cache.  The limit is lower for several threads.
 */
static const size_t few_tiles_of_one = 160, few_tiles = 112;

static dpt_status prepare(dpt_op *op, size_t edge, dpt_cpu_kernel *kernel, dpt_activation kind,
                          dpt_error *error)
{
    winograd *v;
    DPT_TRY(KERNEL(winograd_create)(op, edge, &v, error));
    op->plan.state = v;
    KERNEL(winograd_set_filters)(v, winograd_depth(v), winograd_width(v), true);
    KERNEL(winograd_choose_blocks)(op, 1, v);
    const size_t whole_bytes = dpt_cpu_mul(dpt_cpu_mul(v->points, v->whole.point), sizeof(float));
    const size_t n_large = dpt_cpu_ceil_div(whole_bytes, large_bytes);
    const winograd_cuts cuts = {.large_panels = dpt_cpu_ceil_div(v->whole.panels, n_large),
                                .small_rows = small_values / v->points,
                                .few_tiles = op->n_threads == 1 ? few_tiles_of_one : few_tiles};
    KERNEL(winograd_choose_spans)(op, &cuts, v);
    v->data = KERNEL(winograd_row_layout)(v, v->source.c);
    v->products = KERNEL(winograd_row_layout)(v, v->results.c);
    KERNEL(winograd_describe)(op, v);
    op->plan.kernel = kernel;
    op->plan.exact = edge == 2 && KERNEL(activation_exact)(kind);
    const size_t n_crews = v->together ? 1 : op->n_threads;
    const size_t zeros = dpt_cpu_mul(op->n_threads, KERNEL(winograd_zeros_size)(v));
    const size_t size =
        dpt_cpu_add(dpt_cpu_add(v->filters_size, zeros), dpt_cpu_mul(n_crews, scratch_size(v)));
    op->plan.workspace_bytes = dpt_cpu_mul(size, sizeof(float));
    return DPT_OK;
}

dpt_status KERNEL(winograd_prepare_fixed)(dpt_op *op, size_t edge, dpt_error *error)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    return op->desc.kind == DPT_OP_CONV2D_FORWARD
               ? prepare(op, edge, forward, d->activation, error)
               : prepare(op, edge, backward_data, d->input_activation, error);
}

dpt_status KERNEL(prepare_winograd4_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 4, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd3_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 3, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd2_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 2, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd4_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 4, backward_data, op->desc.u.conv2d.input_activation, error);
}

dpt_status KERNEL(prepare_winograd3_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 3, backward_data, op->desc.u.conv2d.input_activation, error);
}

dpt_status KERNEL(prepare_winograd2_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 2, backward_data, op->desc.u.conv2d.input_activation, error);
}
