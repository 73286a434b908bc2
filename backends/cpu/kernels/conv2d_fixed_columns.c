/* Deterministic convolution, backward-weights, as a matrix product: dw (O, taps) = dy^T (O, pixels)
   * inputs (pixels, taps) of each group, where the pixels are those of all samples in order.

   This serves filters with many channels, whose gradients are large: sums of a whole node of the
   tree stay in registers.  Inputs are gathered panel by panel, so the matrix of all inputs never
   exists.  A panel is one or a few pieces: channels of a filter tap, or of a row of the filter. */
#include "conv2d_fixed_columns.h"
#include "conv2d.h"
#include "gemm_algorithms.h"
#include "product.h"

/* The inputs of a group, as the matrix B of a product. */
typedef struct inputs {
    const conv *v;
    const float *x; /* of the group's first channel */
} inputs;

/* ---- Gathering ------------------------------------------------------------------------------- */

/* Consecutive inputs: where they are packed, and for which rows and columns of the output they lie
   within the image. */
typedef struct piece {
    int64_t offset;       /* of the input that the first output meets; it may lie in the padding */
    size_t lane, n_lanes; /* of the panel */
    size_t room;          /* lanes that are written: behind the panel's last channel zeros follow */
    size_t width;         /* of the panel */
    dpt_cpu_range rows, columns;
} piece;

/* The outputs for which a tap lies within the image, along one axis.  shift: of the tap. */
typedef struct axis {
    size_t n_in, n_out, stride, pad, shift;
} axis;

static dpt_cpu_range inside(const axis *a)
{
    const size_t begin = a->shift < a->pad ? dpt_cpu_ceil_div(a->pad - a->shift, a->stride) : 0;
    const size_t behind = a->n_in + a->pad; /* the end of the image, counted from the padding on */
    const size_t end = behind > a->shift ? (behind - a->shift - 1) / a->stride + 1 : 0;
    const size_t most = end < a->n_out ? end : a->n_out;
    return (dpt_cpu_range){begin < most ? begin : most, most};
}

static void put_lanes(const piece *p, const float *from, float *to)
{
    for (size_t lane = 0; lane < p->room; lane += LANES) {
        const size_t n = lane < p->n_lanes ? p->n_lanes - lane : 0, room = p->room - lane;
        const vec x = n >= LANES ? vec_load(from + lane) : vec_load_n(from + lane, n);
        if (room >= LANES)
            vec_store(to + lane, x);
        else
            vec_store_n(to + lane, x, room);
    }
}

static void put_zeros(const piece *p, size_t n_pixels, float *to)
{
    for (size_t i = 0; i < n_pixels; i++)
        memset(to + i * p->width, 0, p->room * sizeof *to);
}

/* Packs the pixels of a row. */
static void put_row(const piece *p, const float *from, size_t step, size_t n_pixels, float *to)
{
    if (p->room == PRODUCT_LANES && p->n_lanes == PRODUCT_LANES) {
        for (size_t i = 0; i < n_pixels; i++, from += step, to += PRODUCT_LANES) {
            DPT_CPU_UNROLL
            for (size_t u = 0; u < PRODUCT_UNITS; u++)
                vec_store(to + u * LANES, vec_load(from + u * LANES));
        }
        return;
    }
    for (size_t i = 0; i < n_pixels; i++, from += step, to += p->width)
        put_lanes(p, from, to);
}

static void pack_piece(const inputs *of, const piece *p, dpt_cpu_range pixels, float *to)
{
    const conv *v = of->v;
    const dpt_conv2d_desc *d = &v->desc;
    size_t sample = pixels.begin / v->pixels, row = pixels.begin % v->pixels / d->out_w;
    size_t first = pixels.begin % d->out_w;
    const size_t step = d->stride_w * d->in_channels, down = d->stride_h * d->in_w * d->in_channels;
    to += p->lane;
    for (size_t at = pixels.begin, n; at < pixels.end; at += n, to += n * p->width) {
        const size_t left = d->out_w - first;
        n = left < pixels.end - at ? left : pixels.end - at;
        const size_t last = first + n; /* the pixels first .. last - 1 of the row */
        size_t begin = p->columns.begin > first ? p->columns.begin : first;
        size_t end = p->columns.end < last ? p->columns.end : last;
        if (row < p->rows.begin || row >= p->rows.end || begin >= end) begin = end = last;
        put_zeros(p, begin - first, to);
        const size_t input = sample * v->in_size + row * down + begin * step;
        if (begin < end)
            put_row(p, of->x + (int64_t)input + p->offset, step, end - begin,
                    to + (begin - first) * p->width);
        put_zeros(p, last - end, to + (end - first) * p->width);
        first = 0;
        if (last < d->out_w || ++row < d->out_h) continue;
        row = 0;
        sample++;
    }
}

/* The inputs of so many taps in a row of a filter are consecutive and lie within the image
   together. */
static size_t run_length(const conv *v)
{
    const dpt_conv2d_desc *d = &v->desc;
    const bool whole_row = d->groups == 1 && d->dilation_w == 1 && d->pad_w == 0;
    return whole_row ? d->kernel_w * v->group_in : v->group_in;
}

/* The piece of a panel that begins at a tap: tap counts the panel's channels of all taps. */
static piece piece_at(const inputs *from, size_t tap, size_t start, size_t lanes)
{
    const conv *v = from->v;
    const dpt_conv2d_desc *d = &v->desc;
    const size_t run = run_length(v), channel = tap % run, lane = tap - start;
    const size_t right = tap / run * run / v->group_in % d->kernel_w * d->dilation_w;
    const size_t down = tap / v->group_in / d->kernel_w * d->dilation_h;
    const size_t n_channels = run - channel, left = lanes - lane;
    const axis rows = {d->in_h, d->out_h, d->stride_h, d->pad_h, down};
    const axis columns = {d->in_w, d->out_w, d->stride_w, d->pad_w, right};
    piece p = {.lane = lane,
               .n_lanes = n_channels < left ? n_channels : left,
               .width = dpt_cpu_ceil_div(lanes, LANES) * LANES,
               .rows = inside(&rows),
               .columns = inside(&columns)};
    const int64_t row = (int64_t)down - (int64_t)d->pad_h;
    const int64_t column = (int64_t)right - (int64_t)d->pad_w;
    p.offset = (row * (int64_t)d->in_w + column) * (int64_t)d->in_channels + (int64_t)channel;
    p.room = p.n_lanes == left ? p.width - lane : p.n_lanes;
    return p;
}

static void pack_inputs(const gemm *g, dpt_cpu_range taps, dpt_cpu_range pixels, float *to)
{
    const inputs *from = g->source;
    const size_t n_pixels = pixels.end - pixels.begin;
    for (size_t start = taps.begin; start < taps.end; start += PRODUCT_LANES) {
        const size_t left = taps.end - start, lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES;
        for (size_t tap = start; tap < start + lanes;) {
            const piece p = piece_at(from, tap, start, lanes);
            pack_piece(from, &p, pixels, to + (start - taps.begin) * n_pixels);
            tap += p.n_lanes;
        }
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

static gemm product_of(const conv *v, size_t n_samples)
{
    return (gemm){.m = v->group_out,
                  .n = v->taps,
                  .k = dpt_cpu_mul(n_samples, v->pixels),
                  .grain = v->pixels};
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const size_t n_channels = v->desc.out_channels;
    const size_t grain = (call->grain > 0 ? call->grain : call->n_samples) * v->pixels;
    const gemm_crew crew = {
        .team = call->team, .thread = thread, .n_threads = n_threads, .scratch = call->workspace};
    gemm g = product_of(v, call->n_samples);
    g.lda = n_channels;
    g.a_transposed = true;
    g.pack = pack_inputs;
    g.ldc = v->taps;
    g.accumulate = call->accumulate;
    g.unbroken = true;
    g.grain = grain;
    g.no_negative_zero = true;
    for (size_t group = 0; group < v->desc.groups; group++) {
        const inputs from = {v, (const float *)call->in[1] + group * v->group_in};
        g.a = (const float *)call->in[0] + group * v->group_out;
        g.source = &from;
        g.c = (float *)call->out[0] + group * v->group_out * v->taps;
        if (group > 0) dpt_cpu_barrier(call->team, thread, n_threads);
        KERNEL(gemm_run)(&KERNEL(gemm_packed), call->op, &g, &crew);
    }
    const tree_columns bias = {.x = call->in[0],
                               .ld = n_channels,
                               .n_rows = g.k,
                               .grain = grain,
                               .to = call->out[1],
                               .accumulate = call->accumulate};
    if (v->desc.has_bias)
        KERNEL(tree_sum_columns)(&bias, dpt_cpu_split(n_channels, 32, thread, n_threads));
}

bool KERNEL(fixed_columns_suit)(const conv *v)
{
    return run_length(v) >= 16 && v->group_out >= 8;
}

void KERNEL(fixed_columns_prepare)(dpt_op *op, const conv *v)
{
    const gemm g = product_of(v, op->max_samples);
    KERNEL(conv_describe)(op, v);
    op->plan.kernel = backward_weights;
    op->plan.has_grains = true;
    op->plan.workspace_bytes =
        dpt_cpu_mul(KERNEL(product_scratch)(&g, op->n_threads), sizeof(float));
}
