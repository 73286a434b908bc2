/* Direct convolution, backward-data.  The product of dy and the filters is added to the inputs of
   each output pixel.  A tile is a few pixels, and adds the taps of one filter row to a row of dx.
   Its rows overlap in dx and are added one after the other.

   With few output channels the sums of one filter row are short, and reading and writing dx costs
   as much as the sums.  A tile then adds all filter rows that contribute to a row of dx. */
#include "activation.h"
#include "conv2d.h"
#include "depthwise.h"
#include "kinds.h"

#include <stdlib.h>

/* ---- Packed filters -------------------------------------------------------------------------- */

/* Ordered by group, segment of a filter row, block of output channels, panel, filter row, channel,
   lane. */

/* The segments of one filter row.  All filter rows have the same segments, at the distance of a row
   of the image. */
static size_t row_segments(const conv *v)
{
    return v->n_segments / v->desc.kernel_h;
}

static size_t segment_width(const conv *v, size_t s)
{
    return KERNEL(packed_width)(v->segments[s].length);
}

/* Floats of the packed filters of a group. */
static size_t group_size(const conv *v)
{
    size_t width = 0;
    for (size_t s = 0; s < row_segments(v); s++)
        width += segment_width(v, s);
    return dpt_cpu_mul(dpt_cpu_mul(v->group_out, v->desc.kernel_h), width);
}

/* The output channels of the block that begins at `block`, a multiple of REDUCTION_MAX. */
static size_t block_channels(const conv *v, size_t block)
{
    const size_t left = v->group_out - block;
    return left < REDUCTION_MAX ? left : REDUCTION_MAX;
}

/* The offset of a block's panel in its segment. */
static size_t packed_panel(const conv *v, size_t s, size_t block, const panel *p)
{
    const size_t n_channels = block_channels(v, block);
    return v->desc.kernel_h * (block * segment_width(v, s) + p->start * n_channels);
}

/* Packs one row of the filter of an output channel. */
static void pack_row(const conv *v, const float *w, size_t row, size_t channel, float *packed)
{
    const size_t block = channel / REDUCTION_MAX * REDUCTION_MAX;
    const size_t place = row * block_channels(v, block) + channel - block;
    for (size_t s = 0; s < row_segments(v); s++) {
        const size_t length = v->segments[s].length;
        const size_t n_panels = KERNEL(panel_count)(length);
        for (size_t i = 0; i < n_panels; i++) {
            const panel p = KERNEL(panel_at)(length, i);
            float *to = packed + packed_panel(v, s, block, &p) + place * p.width;
            memcpy(to, w + p.start, p.lanes * sizeof *to);
            memset(to + p.lanes, 0, (p.width - p.lanes) * sizeof *to);
        }
        w += length;
        packed += v->desc.kernel_h * v->group_out * segment_width(v, s);
    }
}

/* Packs the filters of a range of output channels of all groups. */
static void pack_filters(const conv *v, const float *w, float *packed, dpt_cpu_range channels)
{
    const size_t row_taps = v->taps / v->desc.kernel_h;
    for (size_t o = channels.begin; o < channels.end; o++)
        for (size_t row = 0; row < v->desc.kernel_h; row++)
            pack_row(v, w + o * v->taps + row * row_taps, row, o % v->group_out,
                     packed + o / v->group_out * group_size(v));
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Samples that are treated together. */
typedef struct chunk {
    size_t n_samples;
    const float *dy;
    float *dx; /* with padding */
} chunk;

/* Whether a tile adds several filter rows. */
static bool adds_rows(const conv *v)
{
    const dpt_conv2d_desc *d = &v->desc;
    return d->stride_h == 1 && d->kernel_h > 1 && d->kernel_h <= REDUCTION_MAX / v->group_out;
}

static size_t chunk_samples(const conv *v)
{
    enum {
        ROW_PIXELS = 32,        /* with fewer pixels, finding the next row takes too much time */
        CHUNK_FLOATS = 1 << 18, /* the most of dx */
    };
    const bool overlaps = v->column_step < PANEL_LANES;
    const size_t few = dpt_cpu_ceil_div(ROW_PIXELS, v->desc.out_w);
    const size_t wanted = overlaps && few < TILE_ROWS ? TILE_ROWS : few;
    const size_t room = CHUNK_FLOATS / v->padded_size;
    if (!adds_rows(v) || room == 0) return 1;
    return wanted < room ? wanted : room;
}

/* The products that a panel adds to dx. */
typedef struct product {
    panel p;
    const float *filters;       /* of the first filter row */
    size_t channel, n_channels; /* of dy */
    size_t to;                  /* offset in dx from a pixel's first input */
} product;

/* Adds the products of one filter row, for all pixels of a sample. */
static void add_filter_row(const conv *v, const chunk *k, const product *f, size_t row)
{
    const size_t out_h = v->desc.out_h, most = KERNEL(panel_rows)(&f->p);
    const segment channels = {f->channel, f->n_channels};
    tile t = {.a_step = 1,
              .segments = &channels,
              .n_segments = 1,
              .b = f->filters + row * f->n_channels * f->p.width,
              .accumulate = true};
    float *dx = k->dx + row * v->desc.dilation_h * v->padded_w * v->desc.in_channels + f->to;
    /* Go down the columns.  Neighbours in a row overlap in dx, and a load waits for an unfinished
       store that it overlaps. */
    size_t line = 0, column = 0;
    for (size_t pixel = 0; pixel < v->pixels; pixel += t.n_rows) {
        t.n_rows = tile_rows(v->pixels - pixel, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = k->dy + (line * v->desc.out_w + column) * v->desc.out_channels;
            t.c[i] = dx + line * v->row_step + column * v->column_step;
            if (++line == out_h) {
                line = 0;
                column++;
            }
        }
        KERNEL(tile_run)(&f->p, &t);
    }
}

/* Adds the products of all filter rows to one row of dx, in all samples of the chunk.  Pixels of
   the same column follow each other, because neighbours in a sample overlap. */
static void add_dx_row(const conv *v, const chunk *k, const product *f, size_t dx_row)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t dy_row = d->out_w * d->out_channels, most = KERNEL(panel_rows)(&f->p);
    const size_t below = dx_row < d->out_h ? 0 : dx_row - d->out_h + 1;
    const size_t first = dpt_cpu_ceil_div(below, d->dilation_h);
    segment segments[REDUCTION_MAX];
    tile t = {.a_step = 1,
              .segments = segments,
              .b = f->filters + first * f->n_channels * f->p.width,
              .accumulate = true};
    for (size_t row = first; row < d->kernel_h && row * d->dilation_h <= dx_row; row++)
        segments[t.n_segments++] =
            (segment){(dx_row - row * d->dilation_h) * dy_row + f->channel, f->n_channels};
    if (t.n_segments == 0) return;
    float *dx = k->dx + dx_row * v->padded_w * d->in_channels + f->to;
    const size_t n_pixels = k->n_samples * d->out_w;
    size_t sample = 0, column = 0;
    for (size_t pixel = 0; pixel < n_pixels; pixel += t.n_rows) {
        t.n_rows = tile_rows(n_pixels - pixel, most);
        for (size_t i = 0; i < t.n_rows; i++) {
            t.a[i] = k->dy + sample * v->out_size + column * d->out_channels;
            t.c[i] = dx + sample * v->padded_size + column * v->column_step;
            if (++sample == k->n_samples) {
                sample = 0;
                column++;
            }
        }
        KERNEL(tile_run)(&f->p, &t);
    }
}

static void add_panel(const conv *v, const chunk *k, const product *f)
{
    if (adds_rows(v)) {
        for (size_t row = 0; row < v->padded_h; row++)
            add_dx_row(v, k, f, row);
    } else {
        for (size_t row = 0; row < v->desc.kernel_h; row++)
            add_filter_row(v, k, f, row);
    }
}

static void do_chunk(const conv *v, const float *packed, const chunk *k)
{
    for (size_t group = 0; group < v->desc.groups; group++) {
        for (size_t s = 0; s < row_segments(v); s++) {
            const size_t length = v->segments[s].length;
            const size_t n_panels = KERNEL(panel_count)(length);
            for (size_t block = 0; block < v->group_out; block += REDUCTION_MAX) {
                product f = {.channel = group * v->group_out + block,
                             .n_channels = block_channels(v, block)};
                for (size_t i = 0; i < n_panels; i++) {
                    f.p = KERNEL(panel_at)(length, i);
                    f.filters = packed + packed_panel(v, s, block, &f.p);
                    f.to = group * v->group_in + v->segments[s].offset + f.p.start;
                    add_panel(v, k, &f);
                }
            }
            packed += v->desc.kernel_h * v->group_out * segment_width(v, s);
        }
    }
}

/* dx = the frame without its padding, or dx += */
static void unframe(const conv *v, const float *frame, bool accumulate, float *dx)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t inner = d->in_w * d->in_channels;
    for (size_t h = 0; h < d->in_h; h++) {
        const float *from = frame + ((h + d->pad_h) * v->padded_w + d->pad_w) * d->in_channels;
        float *to = dx + h * inner;
        if (accumulate) {
            for (size_t i = 0; i < inner; i++)
                to[i] += from[i];
        } else {
            memcpy(to, from, inner * sizeof *to);
        }
    }
}

/* Workspace: packed filters, then frames for each thread. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_mul(v->desc.groups, group_size(v)));
}

static size_t frame_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(dpt_cpu_mul(chunk_samples(v), v->padded_size)) : 0;
}

static void finish_sample(const dpt_cpu_call *call, size_t sample, const float *frame)
{
    const conv *v = call->op->plan.state;
    const dpt_activation mask = v->desc.input_activation;
    float *dx = (float *)call->out[0] + sample * v->in_size;
    if (v->padded) unframe(v, frame, call->accumulate, dx);
    if (mask == DPT_ACT_NONE) return;
    const float *x = call->in[2];
    KERNEL(differentiate)(call->op, mask, dx, x + sample * v->in_size, dx, v->in_size);
}

/* dy (n,out_h,out_w,O), w (O,kernel_h,kernel_w,C/groups) -> dx (n,in_h,in_w,C) */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const float *dy = call->in[0];
    float *dx = call->out[0];
    float *packed = call->workspace;
    float *frame = packed + packed_size(v) + thread * frame_size(v);

    pack_filters(v, call->in[1], packed, dpt_cpu_split(v->desc.out_channels, 1, thread, n_threads));
    dpt_cpu_barrier(call->team, thread, n_threads);

    const size_t n_pieces = KERNEL(conv_pieces)(call->n_samples, chunk_samples(v), n_threads);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n_pieces, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        const dpt_cpu_range samples = dpt_cpu_split(call->n_samples, 1, piece, n_pieces);
        const size_t n = samples.end - samples.begin;
        const chunk k = {.n_samples = n,
                         .dy = dy + samples.begin * v->out_size,
                         .dx = v->padded ? frame : dx + samples.begin * v->in_size};
        if (v->padded || !call->accumulate) memset(k.dx, 0, n * v->padded_size * sizeof *k.dx);
        do_chunk(v, packed, &k);
        for (size_t i = 0; i < n; i++)
            finish_sample(call, samples.begin + i, k.dx + i * v->padded_size);
    }
}

dpt_status KERNEL(prepare_conv2d_backward_data)(dpt_op *op, dpt_error *error)
{
    if (!op->asked_for && KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_backward_data)(op, error);
    conv *v = KERNEL(conv_create)(&op->desc.u.conv2d);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    KERNEL(conv_describe)(op, v);
    op->plan.kernel = backward_data;
    op->plan.exact = KERNEL(activation_exact)(v->desc.input_activation);
    op->plan.workspace_bytes = dpt_cpu_mul(
        dpt_cpu_add(packed_size(v), dpt_cpu_mul(op->n_threads, frame_size(v))), sizeof(float));
    return DPT_OK;
}
