/* Deterministic convolution, backward-weights.  Every gradient of a tap is a sum over the samples
   of each grain in their order, and in a sample over the pixels of dy, row by row.

   A tile is a few taps times the output channels.  Its rows are inputs at a distance of one pixel,
   which are read in place.  All threads together copy some samples into frames and pack dy.  The
   threads divide the taps and panels of channels, never the samples.  Sums have the layout (tap,
   channel) and go on from block to block.  At the end of a grain they are added to those that wait
   (tree.h), and behind the last grain they are transposed. */
#include "common/winograd_rule.h"
#include "conv2d.h"
#include "conv2d_fixed_columns.h"
#include "depthwise.h"
#include "kinds.h"
#include "tree.h"
#include "winograd.h"

#include <stdlib.h>

enum {
    BLOCK_PIXELS = 128, /* pixels whose products a tile adds before it is stored */
    BLOCK_ROWS = BLOCK_PIXELS,
    CHUNK_FLOATS = 1 << 18, /* the most of the frames and packed dy, if it is not one sample */
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Floats of packed dy of a sample: by group, panel, pixel, lane. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_mul(dpt_cpu_mul(v->desc.groups, v->out_width), v->pixels);
}

static size_t frames_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(dpt_cpu_mul(v->chunk, v->padded_size)) : 0;
}

/* The sums are ordered by group, panel, tap, lane.  The sums of the bias stand behind them. */
static size_t bias_at(const conv *v)
{
    return dpt_cpu_mul(dpt_cpu_mul(v->desc.groups, v->taps), v->out_width);
}

static size_t sums_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_add(bias_at(v), v->desc.groups * v->out_width));
}

static void choose_chunk(conv *v)
{
    const size_t each = dpt_cpu_add(packed_size(v), v->padded ? v->padded_size : 0);
    v->chunk = each < CHUNK_FLOATS ? CHUNK_FLOATS / each : 1;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Some samples of a call. */
typedef struct chunk {
    size_t first, n_samples;
    const float *x; /* with padding */
    const float *packed;
} chunk;

static size_t panel_at_pixel(const conv *v, size_t n_samples, size_t group, const panel *p)
{
    return (group * v->out_width + p->start) * n_samples * v->pixels;
}

/* Packs dy of sample i of the chunk. */
static void pack_sample(const conv *v, const float *dy, size_t i, size_t n_samples, float *packed)
{
    for (size_t group = 0; group < v->desc.groups; group++) {
        for (size_t k = 0; k < KERNEL(panel_count)(v->group_out); k++) {
            const panel p = KERNEL(panel_at)(v->group_out, k);
            const float *from = dy + i * v->out_size + group * v->group_out + p.start;
            float *to = packed + panel_at_pixel(v, n_samples, group, &p) + i * v->pixels * p.width;
            for (size_t lane = 0; lane < p.width; lane += LANES) {
                const size_t room = p.width - lane < LANES ? p.width - lane : LANES;
                const size_t left = p.lanes - lane, n = left < room ? left : room;
                for (size_t pixel = 0; pixel < v->pixels; pixel++) {
                    const float *x = from + pixel * v->desc.out_channels + lane;
                    float *const at = to + pixel * p.width + lane;
                    if (n == LANES)
                        vec_store(at, vec_load(x));
                    else
                        vec_store_n(at, vec_load_n(x, n), room);
                }
            }
        }
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* One thread's part of a call. */
typedef struct part {
    dpt_cpu_range units; /* triples (group, panel, tap), numbered in this order */
    float *sums;
} part;

/* The taps of a group's panel that belong to a part. */
static dpt_cpu_range part_taps(const conv *v, const part *own, size_t group_panel)
{
    const size_t first = group_panel * v->taps;
    const size_t begin = own->units.begin > first ? own->units.begin - first : 0;
    const size_t end = own->units.end > first ? own->units.end - first : 0;
    return (dpt_cpu_range){begin < v->taps ? begin : v->taps, end < v->taps ? end : v->taps};
}

static float *panel_sums(const conv *v, const part *own, size_t group, const panel *p)
{
    return own->sums + (group * v->out_width + p->start) * v->taps;
}

static float *panel_bias(const conv *v, const part *own, size_t group, const panel *p)
{
    return own->sums + bias_at(v) + group * v->out_width + p->start;
}

/* Some rows of dy, over the samples of the chunk. */
typedef struct block {
    size_t first, n_rows;
    segment rows[BLOCK_ROWS];
} block;

static void find_rows(const conv *v, block *b)
{
    size_t sample = b->first / v->desc.out_h, row = b->first % v->desc.out_h;
    for (size_t i = 0; i < b->n_rows; i++) {
        b->rows[i] = (segment){sample * v->padded_size + row * v->row_step, v->desc.out_w};
        if (++row == v->desc.out_h) {
            row = 0;
            sample++;
        }
    }
}

/* Adds the dy of a block to the sums of the bias. */
static void add_bias(const float *dy, size_t n_pixels, const panel *p, float *bias)
{
    for (size_t lane = 0; lane < p->width; lane += LANES) {
        const size_t room = p->width - lane < LANES ? p->width - lane : LANES;
        vec sum = vec_load_n(bias + lane, room);
        for (size_t i = 0; i < n_pixels; i++)
            sum = vec_add(sum, vec_load_n(dy + i * p->width + lane, room));
        vec_store_n(bias + lane, sum, room);
    }
}

/* Adds the products of a block to the sums of some taps of a panel. */
static void add_taps(const conv *v, const block *b, const panel *p, const float *x,
                     dpt_cpu_range taps, const float *packed, float *sums)
{
    tile t = {.a_step = v->column_step, .segments = b->rows, .n_segments = b->n_rows, .b = packed};
    const size_t most = KERNEL(panel_rows)(p);
    size_t offset = KERNEL(conv_tap_offset)(v, taps.begin), channel = taps.begin % v->group_in;
    for (size_t tap = taps.begin; tap < taps.end; tap += t.n_rows) {
        t.n_rows = tile_rows(taps.end - tap, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = x + offset++;
            if (++channel < v->group_in) continue;
            offset = KERNEL(conv_tap_offset)(v, tap + i + 1);
            channel = 0;
        }
        t.from = t.to = sums + tap * p->width;
        KERNEL(tile_run)(p, &t);
    }
}

static void add_block(const conv *v, const part *own, const chunk *k, const block *b)
{
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    const size_t pixel = b->first * v->desc.out_w, n_pixels = b->n_rows * v->desc.out_w;
    for (size_t group = 0; group < v->desc.groups; group++) {
        for (size_t i = 0; i < n_panels; i++) {
            const dpt_cpu_range taps = part_taps(v, own, group * n_panels + i);
            if (taps.begin == taps.end) continue;
            const panel p = KERNEL(panel_at)(v->group_out, i);
            const float *packed =
                k->packed + panel_at_pixel(v, k->n_samples, group, &p) + pixel * p.width;
            /* The part that has a panel's first tap adds up the bias. */
            if (taps.begin == 0 && v->desc.has_bias)
                add_bias(packed, n_pixels, &p, panel_bias(v, own, group, &p));
            add_taps(v, b, &p, k->x + group * v->group_in, taps, packed,
                     panel_sums(v, own, group, &p));
        }
    }
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* Calls a function for each panel of which a part has taps. */
typedef void panel_function(const dpt_cpu_call *call, const part *own, size_t group, const panel *p,
                            dpt_cpu_range taps);

static void for_panels(const dpt_cpu_call *call, const part *own, panel_function *of)
{
    const conv *v = call->op->plan.state;
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    for (size_t i = 0; i < v->desc.groups * n_panels; i++) {
        const dpt_cpu_range taps = part_taps(v, own, i);
        const panel p = KERNEL(panel_at)(v->group_out, i % n_panels);
        if (taps.begin < taps.end) of(call, own, i / n_panels, &p, taps);
    }
}

static void clear_panel(const dpt_cpu_call *call, const part *own, size_t group, const panel *p,
                        dpt_cpu_range taps)
{
    const conv *v = call->op->plan.state;
    float *sums = panel_sums(v, own, group, p);
    memset(sums + taps.begin * p->width, 0, (taps.end - taps.begin) * p->width * sizeof *sums);
    if (taps.begin == 0) memset(panel_bias(v, own, group, p), 0, p->width * sizeof *sums);
}

/* to = sums, or to += */
static void put(float *to, vec sums, bool accumulate, size_t n)
{
    vec_store_n(to, accumulate ? vec_add(vec_load_n(to, n), sums) : sums, n);
}

/* Writes dw and dbias of a panel. */
static void write_panel(const dpt_cpu_call *call, const part *own, size_t group, const panel *p,
                        dpt_cpu_range taps)
{
    const conv *v = call->op->plan.state;
    const size_t channel = group * v->group_out + p->start;
    const float *sums = panel_sums(v, own, group, p), *bias = panel_bias(v, own, group, p);
    for (size_t lane = 0; lane < p->lanes; lane += LANES) {
        const size_t room = p->width - lane < LANES ? p->width - lane : LANES;
        const size_t n_lanes = p->lanes - lane < room ? p->lanes - lane : room;
        for (size_t tap = taps.begin; tap < taps.end; tap += LANES) {
            const size_t n = taps.end - tap < LANES ? taps.end - tap : LANES;
            float *dw = (float *)call->out[0] + (channel + lane) * v->taps + tap;
            vec square[LANES];
            DPT_CPU_UNROLL
            for (size_t i = 0; i < LANES; i++)
                square[i] =
                    i < n ? vec_load_n(sums + (tap + i) * p->width + lane, room) : vec_set(0.0f);
            vec_transpose(square);
            DPT_CPU_UNROLL
            for (size_t i = 0; i < LANES; i++)
                if (i < n_lanes) put(dw + i * v->taps, square[i], call->accumulate, n);
        }
        if (taps.begin == 0 && v->desc.has_bias)
            put((float *)call->out[1] + channel + lane, vec_load_n(bias + lane, n_lanes),
                call->accumulate, n_lanes);
    }
}

/* ---- Grains ---------------------------------------------------------------------------------- */

/* The samples of a grain. */
static size_t grain_of(const dpt_cpu_call *call)
{
    return call->grain > 0 ? call->grain : call->n_samples;
}

/* Adds a part's sums of the grain that ends with `end` samples to those that wait. */
static void end_grain(const dpt_cpu_call *call, const part *own, size_t end)
{
    const conv *v = call->op->plan.state;
    const size_t n_panels = KERNEL(panel_count)(v->group_out), distance = sums_size(v);
    const size_t grain = (end - 1) / grain_of(call);
    const bool last = end == call->n_samples;
    for (size_t i = 0; i < v->desc.groups * n_panels; i++) {
        const dpt_cpu_range taps = part_taps(v, own, i);
        const panel p = KERNEL(panel_at)(v->group_out, i % n_panels);
        float *const sums = panel_sums(v, own, i / n_panels, &p) + taps.begin * p.width;
        float *const bias = panel_bias(v, own, i / n_panels, &p);
        const tree_sums all = {sums, sums + distance, distance, (taps.end - taps.begin) * p.width};
        const tree_sums of_bias = {bias, bias + distance, distance, p.width};
        if (taps.begin == taps.end) continue;
        KERNEL(tree_add)(&all, grain, last);
        if (taps.begin == 0 && v->desc.has_bias) KERNEL(tree_add)(&of_bias, grain, last);
    }
}

/* No block has samples of two grains. */
static void add_chunk(const dpt_cpu_call *call, const part *own, const chunk *k)
{
    const conv *v = call->op->plan.state;
    const size_t most = dpt_cpu_ceil_div(BLOCK_PIXELS, v->desc.out_w), grain = grain_of(call);
    block b = {.first = 0};
    for (size_t at = 0, n; at < k->n_samples; at += n) {
        const size_t left = k->n_samples - at, of_grain = grain - (k->first + at) % grain;
        n = left < of_grain ? left : of_grain;
        for (const size_t end = (at + n) * v->desc.out_h; b.first < end; b.first += b.n_rows) {
            b.n_rows = tile_rows(end - b.first, most);
            find_rows(v, &b);
            add_block(v, own, k, &b);
        }
        const size_t behind = k->first + at + n;
        if (n == of_grain || behind == call->n_samples) end_grain(call, own, behind);
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

/* Copies samples into frames and packs dy. */
static chunk make_chunk(const dpt_cpu_call *call, dpt_cpu_range samples, unsigned thread,
                        unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const float *dy = (const float *)call->in[0] + samples.begin * v->out_size;
    const float *x = (const float *)call->in[1] + samples.begin * v->in_size;
    float *frames = call->workspace + (1 + TREE_LEVELS) * sums_size(v);
    float *packed = frames + frames_size(v);
    const chunk k = {samples.begin, samples.end - samples.begin, v->padded ? frames : x, packed};
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, k.n_samples, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        (void)KERNEL(conv_frame)(v, x + i * v->in_size, 1, frames + i * v->padded_size);
        pack_sample(v, dy, i, k.n_samples, packed);
    }
    return k;
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), dbias (O)
   Workspace: sums, those that wait, frames, packed dy. */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const size_t n_units = v->desc.groups * KERNEL(panel_count)(v->group_out) * v->taps;
    const part own = {dpt_cpu_split(n_units, TILE_ROWS, thread, n_threads), call->workspace};
    for_panels(call, &own, clear_panel);
    for (size_t first = 0; first < call->n_samples; first += v->chunk) {
        const size_t left = call->n_samples - first, n = left < v->chunk ? left : v->chunk;
        if (first > 0) dpt_cpu_barrier(call->team, thread, n_threads);
        const chunk k = make_chunk(call, (dpt_cpu_range){first, first + n}, thread, n_threads);
        dpt_cpu_barrier(call->team, thread, n_threads);
        add_chunk(call, &own, &k);
    }
    for_panels(call, &own, write_panel);
}

dpt_status KERNEL(prepare_fixed_backward_weights)(dpt_op *op, dpt_error *error)
{
    if (KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_backward_weights)(op, error);
    const size_t edge = dpt_winograd_edge(op->desc.kind, &op->desc.u.conv2d);
    if (edge > 0) return KERNEL(winograd_prepare_fixed_weights)(op, edge, error);
    conv *v = KERNEL(conv_create)(&op->desc.u.conv2d);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    if (KERNEL(fixed_columns_suit)(v)) {
        KERNEL(fixed_columns_prepare)(op, v);
        return DPT_OK;
    }
    choose_chunk(v);
    if (v->chunk > op->max_samples) v->chunk = op->max_samples > 0 ? op->max_samples : 1;
    KERNEL(conv_describe)(op, v);
    op->plan.kernel = backward_weights;
    op->plan.has_grains = true;
    const size_t scratch = dpt_cpu_add(frames_size(v), dpt_cpu_mul(v->chunk, packed_size(v)));
    const size_t sums = dpt_cpu_mul(1 + TREE_LEVELS, sums_size(v));
    op->plan.workspace_bytes = dpt_cpu_mul(dpt_cpu_add(sums, scratch), sizeof(float));
    return DPT_OK;
}
