/* Direct convolution, forward.  A tile is output pixels times output channels.  Bias and ReLU are
   applied while the tile is in registers. */
#include "activation.h"
#include "conv2d.h"
#include "depthwise.h"
#include "kinds.h"

#include <stdlib.h>

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Consecutive segments whose products a tile adds before it is stored. */
typedef struct block {
    size_t first, n_segments;
    size_t tap, n_taps;
} block;

/* The block that begins at a segment: as many segments as fit into REDUCTION_MAX, and at least one.
 */
static block block_at(const conv *v, size_t first, size_t tap)
{
    block b = {.first = first, .tap = tap};
    while (first + b.n_segments < v->n_segments) {
        const size_t length = v->segments[first + b.n_segments].length;
        if (b.n_segments > 0 && b.n_taps + length > REDUCTION_MAX) break;
        b.n_taps += length;
        b.n_segments++;
    }
    return b;
}

/* ---- Filters --------------------------------------------------------------------------------- */

/* Packed filters are ordered by group, block, panel, tap, lane. */
static float *packed_panel(const conv *v, float *packed, size_t group, const block *b,
                           const panel *p)
{
    return packed + (group * v->taps + b->tap) * v->out_width + p->start * b->n_taps;
}

/* Packs the taps begin .. end-1 of a panel.  w: the first filter of the panel. */
static void pack_taps(const conv *v, const panel *p, const float *w, size_t begin, size_t end,
                      float *to)
{
    for (size_t lane = 0; lane < p->width; lane++) {
        const float *filter = w + lane * v->taps;
        for (size_t tap = begin; tap < end; tap++)
            to[(tap - begin) * p->width + lane] = lane < p->lanes ? filter[tap] : 0.0f;
    }
}

static void pack_filters(const conv *v, const float *w, float *packed, unsigned thread,
                         unsigned n_threads)
{
    enum { GRAIN = 16 };
    const dpt_cpu_range mine = dpt_cpu_split(v->taps, GRAIN, thread, n_threads);
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    for (size_t group = 0; group < v->desc.groups; group++) {
        block b = block_at(v, 0, 0);
        for (; b.n_segments > 0; b = block_at(v, b.first + b.n_segments, b.tap + b.n_taps)) {
            const size_t low = b.tap > mine.begin ? b.tap : mine.begin;
            const size_t block_end = b.tap + b.n_taps;
            const size_t high = block_end < mine.end ? block_end : mine.end;
            for (size_t i = 0; i < n_panels; i++) {
                const panel p = KERNEL(panel_at)(v->group_out, i);
                const float *filters = w + (group * v->group_out + p.start) * v->taps;
                float *to = packed_panel(v, packed, group, &b, &p);
                for (size_t tap = low; tap < high; tap += GRAIN) {
                    const size_t end = tap + GRAIN < high ? tap + GRAIN : high;
                    pack_taps(v, &p, filters, tap, end, to + (tap - b.tap) * p.width);
                }
            }
        }
    }
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* Runs through the output pixels of consecutive samples.  `at`: the first input of the pixel. */
typedef struct cursor {
    const float *sample, *row, *at;
    size_t column, rows_left;
} cursor;

static inline const float *cursor_next(cursor *c, const conv *v)
{
    const float *at = c->at;
    if (++c->column < v->desc.out_w) {
        c->at += v->column_step;
    } else if (--c->rows_left > 0) {
        c->column = 0;
        c->row += v->row_step;
        c->at = c->row;
    } else {
        c->column = 0;
        c->rows_left = v->desc.out_h;
        c->sample += v->padded_size;
        c->row = c->at = c->sample;
    }
    return at;
}

typedef struct chunk {
    const float *x; /* with padding */
    float *y;
    size_t n_samples;
    float *packed;
    const float *bias; /* NULL: none */
    bool relu;
} chunk;

static void chunk_panel(const conv *v, const chunk *k, size_t group, const block *b, const panel *p)
{
    const size_t channel = group * v->group_out + p->start;
    const bool last = b->first + b->n_segments == v->n_segments;
    tile t = {
        .a_step = 1,
        .segments = v->segments + b->first,
        .n_segments = b->n_segments,
        .b = packed_panel(v, k->packed, group, b, p),
        .accumulate = b->first > 0,
        .bias = last && k->bias ? k->bias + channel : NULL,
        .relu = last && k->relu,
    };
    const float *first = k->x + group * v->group_in;
    cursor c = {.sample = first, .row = first, .at = first, .rows_left = v->desc.out_h};
    const size_t most = KERNEL(panel_rows)(p);
    const size_t n_pixels = k->n_samples * v->pixels;
    for (size_t pixel = 0; pixel < n_pixels; pixel += t.n_rows) {
        t.n_rows = tile_rows(n_pixels - pixel, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = cursor_next(&c, v);
            t.c[i] = k->y + (pixel + i) * v->desc.out_channels + channel;
        }
        KERNEL(tile_run)(p, &t);
    }
}

static void do_chunk(const conv *v, const chunk *k)
{
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    for (size_t group = 0; group < v->desc.groups; group++) {
        block b = block_at(v, 0, 0);
        for (; b.n_segments > 0; b = block_at(v, b.first + b.n_segments, b.tap + b.n_taps)) {
            for (size_t i = 0; i < n_panels; i++) {
                const panel p = KERNEL(panel_at)(v->group_out, i);
                chunk_panel(v, k, group, &b, &p);
            }
        }
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

/* Workspace: packed filters, then a frame for each thread. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_mul(dpt_cpu_mul(v->desc.groups, v->taps), v->out_width));
}

static size_t frame_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(dpt_cpu_mul(v->chunk, v->padded_size)) : 0;
}

/* x (n,in_h,in_w,C) * w (O,kernel_h,kernel_w,C/groups) + bias (O) -> y (n,out_h,out_w,O) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const float *x = call->in[0];
    float *y = call->out[0];
    const dpt_activation activation = v->desc.activation;
    float *packed = call->workspace;
    float *frame = packed + packed_size(v) + thread * frame_size(v);

    pack_filters(v, call->in[1], packed, thread, n_threads);
    dpt_cpu_barrier(call->team, thread, n_threads);

    const size_t n_pieces = KERNEL(conv_pieces)(call->n_samples, v->chunk, n_threads);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n_pieces, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        const dpt_cpu_range samples = dpt_cpu_split(call->n_samples, 1, piece, n_pieces);
        const size_t n = samples.end - samples.begin;
        const chunk k = {
            .x = KERNEL(conv_frame)(v, x + samples.begin * v->in_size, n, frame),
            .y = y + samples.begin * v->out_size,
            .n_samples = n,
            .packed = packed,
            .bias = v->desc.has_bias ? call->in[2] : NULL,
            .relu = activation == DPT_ACT_RELU,
        };
        do_chunk(v, &k);
        if (activation != DPT_ACT_RELU)
            KERNEL(activate)(call->op, activation, k.y, k.y, n * v->out_size);
    }
}

dpt_status KERNEL(prepare_conv2d_forward)(dpt_op *op, dpt_error *error)
{
    if (!op->asked_for && KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_forward)(op, error);
    conv *v = KERNEL(conv_create)(&op->desc.u.conv2d);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    KERNEL(conv_describe)(op, v);
    op->plan.kernel = forward;
    op->plan.exact = KERNEL(activation_exact)(v->desc.activation);
    op->plan.workspace_bytes = dpt_cpu_mul(
        dpt_cpu_add(packed_size(v), dpt_cpu_mul(op->n_threads, frame_size(v))), sizeof(float));
    return DPT_OK;
}
