/* Direct convolution, backward-weights: sums over pixels.  A tile is a few taps times the output
   channels.  Its rows are inputs at a distance of one pixel, which are read in place.  dy is
   packed.

   The sums have the layout (tap, channel) and are transposed at the end.  Threads divide the
   samples, and the sums of the threads are added in thread order.  If a copy of the sums for each
   thread would take too much memory, the threads divide the taps instead. */
#include "conv2d.h"
#include "depthwise.h"
#include "kinds.h"

#include <stdlib.h>

enum {
    BLOCK_PIXELS = 128, /* pixels whose products a tile adds before it is stored */
    BLOCK_ROWS = BLOCK_PIXELS,
    COPIES_BYTES = 32 << 20, /* the most memory of the threads' copies of the sums */
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* Output rows of a block. */
static size_t block_rows(const conv *v)
{
    return dpt_cpu_ceil_div(BLOCK_PIXELS, v->desc.out_w);
}

/* The sums of one thread are ordered by group, panel, tap, lane.  The sums of the bias stand behind
   them, at this offset in floats. */
static size_t bias_at(const conv *v)
{
    return dpt_cpu_mul(dpt_cpu_mul(v->desc.groups, v->taps), v->out_width);
}

static size_t sums_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_add(bias_at(v), dpt_cpu_mul(v->desc.groups, v->out_width)));
}

/* The scratch of one thread is dy of a block, packed, and a frame. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_mul(block_rows(v) * v->desc.out_w, v->out_width));
}

static size_t frame_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(dpt_cpu_mul(v->chunk, v->padded_size)) : 0;
}

static bool divides_samples(const dpt_op *op, const conv *v)
{
    return dpt_cpu_mul(dpt_cpu_mul(sums_size(v), sizeof(float)), op->n_threads) <= COPIES_BYTES;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Some output rows of consecutive samples. */
typedef struct block {
    size_t first, n_rows; /* rows are counted over the samples of the chunk */
    const float *x;       /* of the chunk, with padding */
    const float *dy;      /* of the chunk */
    segment rows[BLOCK_ROWS];
} block;

static void find_rows(const conv *v, block *b)
{
    size_t sample = b->first / v->desc.out_h;
    size_t row = b->first % v->desc.out_h;
    for (size_t i = 0; i < b->n_rows; i++) {
        b->rows[i] = (segment){sample * v->padded_size + row * v->row_step, v->desc.out_w};
        if (++row == v->desc.out_h) {
            row = 0;
            sample++;
        }
    }
}

/* Packs a panel of dy.  If bias is not NULL, adds the sums over the block's pixels to it. */
static void pack_dy(const conv *v, const block *b, const panel *p, size_t channel, float *to,
                    float *bias)
{
    const size_t n_pixels = b->n_rows * v->desc.out_w;
    const float *from = b->dy + b->first * v->desc.out_w * v->desc.out_channels + channel;
    for (size_t lane = 0; lane < p->width; lane += LANES) {
        const size_t room = p->width - lane < LANES ? p->width - lane : LANES;
        const size_t left = p->lanes - lane;
        const size_t n = left < room ? left : room;
        vec sum = vec_set(0.0f);
        for (size_t i = 0; i < n_pixels; i++) {
            const vec x = vec_load_n(from + i * v->desc.out_channels + lane, n);
            if (room == LANES)
                vec_store(to + i * p->width + lane, x);
            else
                vec_store_n(to + i * p->width + lane, x, room);
            sum = vec_add(sum, x);
        }
        if (bias) vec_store_n(bias + lane, vec_add(vec_load_n(bias + lane, room), sum), room);
    }
}

/* Adds a block's products to the sums of taps begin .. end-1 of a panel. */
static void add_taps(const conv *v, const block *b, const panel *p, const float *x,
                     dpt_cpu_range taps, const float *packed, float *sums)
{
    tile t = {.a_step = v->column_step,
              .segments = b->rows,
              .n_segments = b->n_rows,
              .b = packed,
              .accumulate = true};
    const size_t most = KERNEL(panel_rows)(p);
    const panel whole = {
        .lanes = p->width, .width = p->width, .units = p->units, .has_half = p->has_half};
    for (size_t tap = taps.begin; tap < taps.end; tap += t.n_rows) {
        t.n_rows = tile_rows(taps.end - tap, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = x + KERNEL(conv_tap_offset)(v, tap + i);
            t.c[i] = sums + (tap + i) * p->width;
        }
        KERNEL(tile_run)(&whole, &t);
    }
}

/* One thread's part of a call. */
typedef struct part {
    dpt_cpu_range samples;
    dpt_cpu_range units; /* triples (group, panel, tap), numbered in this order */
    float *sums, *packed, *frame;
} part;

/* The taps of a group's panel that belong to a part. */
static dpt_cpu_range part_taps(const conv *v, const part *own, size_t group_panel)
{
    const size_t first = group_panel * v->taps;
    const size_t begin = own->units.begin > first ? own->units.begin - first : 0;
    const size_t end = own->units.end > first ? own->units.end - first : 0;
    return (dpt_cpu_range){begin < v->taps ? begin : v->taps, end < v->taps ? end : v->taps};
}

static float *panel_sums(const conv *v, float *sums, size_t group, const panel *p)
{
    return sums + (group * v->out_width + p->start) * v->taps;
}

static void do_block(const conv *v, const part *own, const block *b)
{
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    for (size_t group = 0; group < v->desc.groups; group++) {
        const float *x = b->x + group * v->group_in;
        for (size_t i = 0; i < n_panels; i++) {
            const dpt_cpu_range taps = part_taps(v, own, group * n_panels + i);
            if (taps.begin == taps.end) continue;
            const panel p = KERNEL(panel_at)(v->group_out, i);
            /* The part that has a panel's first tap adds up the bias. */
            float *bias = own->sums + bias_at(v) + group * v->out_width + p.start;
            pack_dy(v, b, &p, group * v->group_out + p.start, own->packed,
                    taps.begin == 0 ? bias : NULL);
            add_taps(v, b, &p, x, taps, own->packed, panel_sums(v, own->sums, group, &p));
        }
    }
}

static void clear_sums(const conv *v, const part *own)
{
    const size_t n_panels = KERNEL(panel_count)(v->group_out);
    for (size_t group = 0; group < v->desc.groups; group++) {
        for (size_t i = 0; i < n_panels; i++) {
            const dpt_cpu_range taps = part_taps(v, own, group * n_panels + i);
            if (taps.begin == taps.end) continue;
            const panel p = KERNEL(panel_at)(v->group_out, i);
            memset(panel_sums(v, own->sums, group, &p) + taps.begin * p.width, 0,
                   (taps.end - taps.begin) * p.width * sizeof(float));
            if (taps.begin == 0)
                memset(own->sums + bias_at(v) + group * v->out_width + p.start, 0,
                       p.width * sizeof(float));
        }
    }
}

static void do_samples(const conv *v, const part *own, const float *x, const float *dy)
{
    const size_t n_samples = own->samples.end - own->samples.begin;
    const size_t n_chunk = v->padded ? v->chunk : n_samples;
    for (size_t s = 0; s < n_samples; s += n_chunk) {
        const size_t n = s + n_chunk < n_samples ? n_chunk : n_samples - s;
        const size_t sample = own->samples.begin + s;
        block b = {.x = KERNEL(conv_frame)(v, x + sample * v->in_size, n, own->frame),
                   .dy = dy + sample * v->out_size};
        const size_t n_rows = n * v->desc.out_h;
        for (; b.first < n_rows; b.first += b.n_rows) {
            b.n_rows = tile_rows(n_rows - b.first, block_rows(v));
            find_rows(v, &b);
            do_block(v, own, &b);
        }
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

/* The sum over the threads' copies, in thread order, so that its bits are the same every time. */
static float total(const float *sums, size_t at, size_t n_copies, size_t distance)
{
    float sum = sums[at];
    for (size_t i = 1; i < n_copies; i++)
        sum += sums[i * distance + at];
    return sum;
}

/* Writes dw of a range of taps, for all filters. */
static void write_taps(const conv *v, const float *sums, size_t n_copies, bool accumulate,
                       dpt_cpu_range taps, float *dw)
{
    for (size_t o = 0; o < v->desc.out_channels; o++) {
        const size_t group = o / v->group_out;
        const size_t channel = o % v->group_out;
        const panel p =
            KERNEL(panel_at)(v->group_out, panel_start(v->group_out, channel) / PANEL_LANES);
        const size_t first = (group * v->out_width + p.start) * v->taps + channel - p.start;
        float *to = dw + o * v->taps;
        for (size_t tap = taps.begin; tap < taps.end; tap++) {
            const float sum = total(sums, first + tap * p.width, n_copies, sums_size(v));
            to[tap] = accumulate ? to[tap] + sum : sum;
        }
    }
}

static void write_bias(const conv *v, const float *sums, size_t n_copies, bool accumulate,
                       float *dbias)
{
    for (size_t o = 0; o < v->desc.out_channels; o++) {
        const size_t at = bias_at(v) + o / v->group_out * v->out_width + o % v->group_out;
        const float sum = total(sums, at, n_copies, sums_size(v));
        dbias[o] = accumulate ? dbias[o] + sum : sum;
    }
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const bool by_samples = divides_samples(call->op, v);
    const size_t n_copies = by_samples ? n_threads : 1;
    const size_t n_units = v->desc.groups * KERNEL(panel_count)(v->group_out) * v->taps;
    float *sums = call->workspace;
    float *scratch = sums + n_copies * sums_size(v) + thread * (packed_size(v) + frame_size(v));
    const dpt_cpu_range samples = {0, call->n_samples}, units = {0, n_units};
    const part own = {
        .samples = by_samples ? dpt_cpu_split(call->n_samples, 1, thread, n_threads) : samples,
        .units = by_samples ? units : dpt_cpu_split(n_units, TILE_ROWS, thread, n_threads),
        .sums = by_samples ? sums + thread * sums_size(v) : sums,
        .packed = scratch,
        .frame = scratch + packed_size(v),
    };
    clear_sums(v, &own);
    do_samples(v, &own, call->in[1], call->in[0]);
    dpt_cpu_barrier(call->team, thread, n_threads);

    /* Blocks of taps are small enough that the sums stay in the cache while they are transposed. */
    const dpt_cpu_range mine = dpt_cpu_split(v->taps, 16, thread, n_threads);
    for (size_t tap = mine.begin; tap < mine.end; tap += 16) {
        const dpt_cpu_range taps = {tap, tap + 16 < mine.end ? tap + 16 : mine.end};
        write_taps(v, sums, n_copies, call->accumulate, taps, call->out[0]);
    }
    if (thread == 0 && v->desc.has_bias)
        write_bias(v, sums, n_copies, call->accumulate, call->out[1]);
}

dpt_status KERNEL(prepare_conv2d_backward_weights)(dpt_op *op, dpt_error *error)
{
    if (!op->asked_for && KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_backward_weights)(op, error);
    conv *v = KERNEL(conv_create)(&op->desc.u.conv2d);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    KERNEL(conv_describe)(op, v);
    op->plan.kernel = backward_weights;
    const size_t n_copies = divides_samples(op, v) ? op->n_threads : 1;
    const size_t sums = dpt_cpu_mul(n_copies, sums_size(v));
    const size_t scratch = dpt_cpu_mul(op->n_threads, dpt_cpu_add(packed_size(v), frame_size(v)));
    op->plan.workspace_bytes = dpt_cpu_mul(dpt_cpu_add(sums, scratch), sizeof(float));
    return DPT_OK;
}
