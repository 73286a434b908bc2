/* The geometry of direct convolutions. */
#include "conv2d.h"

#include <stdlib.h>

enum { CHUNK_PIXELS = 96 };

static size_t run_length(const dpt_conv2d_desc *d)
{
    const size_t group_in = d->in_channels / d->groups;
    return d->groups == 1 && d->dilation_w == 1 ? d->kernel_w * group_in : group_in;
}

static void cut_segments(conv *v)
{
    const size_t run = run_length(&v->desc);
    size_t n = 0;
    for (size_t tap = 0; tap < v->taps; tap += run) {
        const size_t offset = KERNEL(conv_tap_offset)(v, tap);
        for (size_t at = 0; at < run; at += REDUCTION_MAX) {
            const size_t left = run - at;
            v->segments[n++] = (segment){offset + at, left < REDUCTION_MAX ? left : REDUCTION_MAX};
        }
    }
    v->n_segments = n;
}

conv *KERNEL(conv_create)(const dpt_conv2d_desc *desc)
{
    const dpt_conv2d_desc *d = desc;
    const size_t group_in = d->in_channels / d->groups;
    const size_t taps = d->kernel_h * d->kernel_w * group_in;
    const size_t run = run_length(d);
    const size_t most = dpt_cpu_mul(taps / run, dpt_cpu_ceil_div(run, REDUCTION_MAX));
    conv *v = malloc(dpt_cpu_add(sizeof *v, dpt_cpu_mul(most, sizeof(segment))));
    if (!v) return NULL;
    const size_t padded_h = d->in_h + 2 * d->pad_h;
    const size_t padded_w = d->in_w + 2 * d->pad_w;
    *v = (conv){
        .desc = *d,
        .padded = d->pad_h > 0 || d->pad_w > 0,
        .padded_h = padded_h,
        .padded_w = padded_w,
        .in_size = d->in_h * d->in_w * d->in_channels,
        .padded_size = dpt_cpu_mul(dpt_cpu_mul(padded_h, padded_w), d->in_channels),
        .out_size = d->out_h * d->out_w * d->out_channels,
        .pixels = d->out_h * d->out_w,
        .column_step = d->stride_w * d->in_channels,
        .row_step = d->stride_h * padded_w * d->in_channels,
        .group_in = group_in,
        .group_out = d->out_channels / d->groups,
        .taps = taps,
        .out_width = KERNEL(packed_width)(d->out_channels / d->groups),
        .chunk = dpt_cpu_ceil_div(CHUNK_PIXELS, d->out_h * d->out_w),
    };
    cut_segments(v);
    return v;
}

size_t KERNEL(conv_tap_offset)(const conv *v, size_t tap)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t channel = tap % v->group_in;
    const size_t column = tap / v->group_in % d->kernel_w;
    const size_t row = tap / v->group_in / d->kernel_w;
    return (row * d->dilation_h * v->padded_w + column * d->dilation_w) * d->in_channels + channel;
}

static void frame_sample(const conv *v, const float *x, float *frame)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t row = v->padded_w * d->in_channels;
    const size_t side = d->pad_w * d->in_channels;
    const size_t inner = d->in_w * d->in_channels;
    memset(frame, 0, d->pad_h * row * sizeof *frame);
    float *to = frame + d->pad_h * row;
    for (size_t h = 0; h < d->in_h; h++) {
        memset(to, 0, side * sizeof *to);
        memcpy(to + side, x + h * inner, inner * sizeof *to);
        memset(to + side + inner, 0, side * sizeof *to);
        to += row;
    }
    memset(to, 0, d->pad_h * row * sizeof *to);
}

const float *KERNEL(conv_frame)(const conv *v, const float *x, size_t n_samples, float *frame)
{
    if (!v->padded) return x;
    for (size_t i = 0; i < n_samples; i++)
        frame_sample(v, x + i * v->in_size, frame + i * v->padded_size);
    return frame;
}

size_t KERNEL(conv_pieces)(size_t n_samples, size_t chunk, unsigned n_threads)
{
    const size_t n_chunks = dpt_cpu_ceil_div(n_samples, chunk);
    /* Every thread gets the same number of pieces. */
    const size_t n = dpt_cpu_ceil_div(n_chunks, n_threads) * n_threads;
    return n < n_samples ? n : n_samples;
}

void KERNEL(conv_describe)(dpt_op *op, const conv *v)
{
    const dpt_conv2d_desc *d = &v->desc;
    op->plan.flops = 2.0 * (double)v->pixels * (double)d->out_channels * (double)v->taps;
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = true;
    op->plan.algorithm = "direct";
}
