/* Convolution, backward-weights, as a matrix product: dw (O, taps) += dy^T (O, pixels) * inputs
   (pixels, taps), with the tiles of our own product (product.h).

   A lane is a tap, and there are nearly always many taps.  In the direct algorithm a lane is an
   output channel; 50 output channels leave a quarter of four registers unused.  Inputs are gathered
   panel by panel, for some hundred pixels at a time, so the matrix of all inputs never exists.

   Threads divide the samples, and the sums of the threads are added in thread order. */
#include "conv2d.h"
#include "kinds.h"
#include "product.h"

#include <stdlib.h>

enum {
    COPIES_BYTES = 32 << 20,         /* the most memory of the threads' copies of the sums */
    MOST_PIXELS = 704,               /* the most whose products a tile adds before it is stored */
    MOST_FLOATS = 256 * MOST_PIXELS, /* the most of packed dy */
};

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* The output rows whose products a tile adds before it is stored; 0: a row is too long. */
static size_t block_rows(const conv *v)
{
    const size_t room = MOST_FLOATS / v->desc.out_channels;
    return (room < MOST_PIXELS ? room : MOST_PIXELS) / v->desc.out_w;
}

/* The offset of dbias behind dw, in one thread's copy. */
static size_t bias_at(const conv *v)
{
    return dpt_cpu_mul(v->desc.out_channels, v->taps);
}

static size_t sums_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_add(bias_at(v), v->desc.out_channels));
}

/* The scratch of one thread is packed dy, a panel of inputs and a frame. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_round(block_rows(v) * v->desc.out_w * v->desc.out_channels);
}

static size_t frame_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(dpt_cpu_mul(v->chunk, v->padded_size)) : 0;
}

enum { PANEL_FLOATS = MOST_PIXELS * PRODUCT_LANES };

static size_t scratch_size(const conv *v)
{
    return dpt_cpu_add(packed_size(v) + PANEL_FLOATS, frame_size(v));
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* Taps of a panel whose inputs are consecutive floats in a sample: at most a vector. */
typedef struct piece {
    size_t offset, lane, length;
} piece;

typedef struct panel_map {
    size_t start, lanes, units;
    size_t n_pieces;
    piece pieces[PRODUCT_LANES];
} panel_map;

static panel_map map_panel(const conv *v, size_t start)
{
    const size_t left = v->taps - start;
    panel_map m = {.start = start, .lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES};
    m.units = (m.lanes + LANES - 1) / LANES;
    for (size_t lane = 0; lane < m.lanes; lane++) {
        const size_t offset = KERNEL(conv_tap_offset)(v, start + lane);
        piece *last = m.n_pieces > 0 ? &m.pieces[m.n_pieces - 1] : NULL;
        if (last && last->offset + last->length == offset && last->length < LANES)
            last->length++;
        else
            m.pieces[m.n_pieces++] = (piece){offset, lane, 1};
    }
    return m;
}

/* Some output rows of consecutive samples. */
typedef struct block {
    size_t first, n_rows; /* rows are counted over the samples of the chunk */
    const float *x;       /* of the chunk, with padding */
    const float *dy;      /* of the chunk */
} block;

/* Packs the inputs of a panel's taps for one pixel. */
DPT_CPU_INLINE void pack_taps(const panel_map *m, const float *from, float *to)
{
    for (size_t i = 0; i < m->n_pieces; i++) {
        const piece p = m->pieces[i];
        if (p.length == LANES)
            vec_store(to + p.lane, vec_load(from + p.offset));
        else
            vec_store_n(to + p.lane, vec_load_n(from + p.offset, p.length), p.length);
    }
}

static void pack_inputs(const conv *v, const block *b, const panel_map *m, float *to)
{
    const size_t width = m->units * LANES;
    const bool whole = m->lanes == width;
    size_t sample = b->first / v->desc.out_h, row = b->first % v->desc.out_h;
    for (size_t i = 0; i < b->n_rows; i++) {
        const float *from = b->x + sample * v->padded_size + row * v->row_step;
        for (size_t column = 0; column < v->desc.out_w; column++) {
            if (!whole) vec_store(to + width - LANES, vec_set(0.0f)); /* behind the last lane */
            pack_taps(m, from, to);
            from += v->column_step;
            to += width;
        }
        if (++row == v->desc.out_h) {
            row = 0;
            sample++;
        }
    }
}

/* ---- dy -------------------------------------------------------------------------------------- */

/* Packs dy as (pixel, channel) for tiles, and adds its sums over the pixels to the bias. */
static void pack_dy(const conv *v, const block *b, float *to, float *bias)
{
    const size_t n_channels = v->desc.out_channels, n_pixels = b->n_rows * v->desc.out_w;
    const float *dy = b->dy + b->first * v->desc.out_w * n_channels;
    const gemm dy_transposed = {.m = n_channels, .a = dy, .lda = n_channels, .a_transposed = true};
    KERNEL(product_pack_a)(&dy_transposed, (dpt_cpu_range){0, n_channels}, 0, n_pixels, to);
    if (!v->desc.has_bias) return;
    for (size_t channel = 0; channel < n_channels; channel += LANES) {
        const size_t n = n_channels - channel < LANES ? n_channels - channel : LANES;
        vec sum = vec_load_n(bias + channel, n);
        for (size_t i = 0; i < n_pixels; i++)
            sum = vec_add(sum, vec_load_n(dy + i * n_channels + channel, n));
        vec_store_n(bias + channel, sum, n);
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* One thread's part of a call. */
typedef struct part {
    dpt_cpu_range samples;
    float *sums, *packed, *panel, *frame;
} part;

static void multiply(const conv *v, const part *own, const panel_map *m, size_t n_pixels)
{
    product_tile t = {.b = own->panel,
                      .n_terms = n_pixels,
                      .lanes = m->lanes,
                      .units = m->units,
                      .ldc = v->taps,
                      .accumulate = true};
    const size_t n_channels = v->desc.out_channels;
    for (size_t channel = 0; channel < n_channels; channel += t.n_rows) {
        t.n_rows = tile_rows(n_channels - channel, PRODUCT_ROWS);
        t.a = own->packed + channel * n_pixels;
        t.c = own->sums + channel * v->taps + m->start;
        KERNEL(product_tile_run)(&t);
    }
}

static void do_block(const conv *v, const part *own, const block *b)
{
    pack_dy(v, b, own->packed, own->sums + bias_at(v));
    for (size_t start = 0; start < v->taps; start += PRODUCT_LANES) {
        const panel_map m = map_panel(v, start);
        pack_inputs(v, b, &m, own->panel);
        multiply(v, own, &m, b->n_rows * v->desc.out_w);
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
            do_block(v, own, &b);
        }
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

/* Adds the sums of all threads, in thread order, so that the bits are the same every time. */
static void add_up(const conv *v, const float *sums, unsigned n_copies, bool accumulate,
                   dpt_cpu_range range, float *to)
{
    for (size_t i = range.begin; i < range.end; i++) {
        float sum = sums[i];
        for (unsigned copy = 1; copy < n_copies; copy++)
            sum += sums[copy * sums_size(v) + i];
        to[i] = accumulate ? to[i] + sum : sum;
    }
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    float *sums = call->workspace;
    float *scratch = sums + n_threads * sums_size(v) + thread * scratch_size(v);
    const part own = {.samples = dpt_cpu_split(call->n_samples, 1, thread, n_threads),
                      .sums = sums + thread * sums_size(v),
                      .packed = scratch,
                      .panel = scratch + packed_size(v),
                      .frame = scratch + packed_size(v) + PANEL_FLOATS};
    memset(own.sums, 0, sums_size(v) * sizeof *own.sums);
    do_samples(v, &own, call->in[1], call->in[0]);
    dpt_cpu_barrier(call->team, thread, n_threads);
    add_up(v, sums, n_threads, call->accumulate, dpt_cpu_split(bias_at(v), 16, thread, n_threads),
           call->out[0]);
    if (thread == 0 && v->desc.has_bias)
        add_up(v, sums + bias_at(v), n_threads, call->accumulate,
               (dpt_cpu_range){0, v->desc.out_channels}, call->out[1]);
}

dpt_status KERNEL(prepare_columns_backward_weights)(dpt_op *op, dpt_error *error)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (d->groups != 1) return DPT_FAIL(error, DPT_E_UNSUPPORTED, "groups are not done by columns");
    conv *v = KERNEL(conv_create)(d);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    const size_t copies = dpt_cpu_mul(op->n_threads, sums_size(v));
    if (block_rows(v) == 0 || dpt_cpu_mul(copies, sizeof(float)) > COPIES_BYTES)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "too large to be done by columns");
    if (!op->asked_for && v->taps < PRODUCT_LANES)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "too few taps to be done by columns");
    KERNEL(conv_describe)(op, v);
    op->plan.algorithm = "columns";
    op->plan.kernel = backward_weights;
    op->plan.workspace_bytes = dpt_cpu_mul(
        dpt_cpu_add(copies, dpt_cpu_mul(op->n_threads, scratch_size(v))), sizeof(float));
    return DPT_OK;
}
