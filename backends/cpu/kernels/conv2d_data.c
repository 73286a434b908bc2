/* Convolution backward to its input: every pixel of dy times the filters is added to the inputs
   that the pixel saw.  A tile is a few pixels times the taps of one segment; its rows of results
   overlap in dx and are added one after the other. */
#include "activation.h"
#include "conv2d.h"
#include "kinds.h"

#include <stdlib.h>

/* Packed filters are ordered by group, segment, block of output channels, panel, channel, lane. */

static size_t segment_width(const conv *v, size_t s)
{
    return KERNEL(packed_width)(v->segments[s].length);
}

/* The packed width of all segments. */
static size_t filter_width(const conv *v)
{
    size_t width = 0;
    for (size_t s = 0; s < v->n_segments; s++)
        width += segment_width(v, s);
    return width;
}

/* Channels begin .. end-1 (of all groups) of all filters. */
static void pack_filters(const conv *v, const float *w, float *packed, dpt_cpu_range channels)
{
    const size_t width = filter_width(v);
    for (size_t o = channels.begin; o < channels.end; o++) {
        const size_t group = o / v->group_out;
        const size_t channel = o % v->group_out;
        const size_t block = channel / REDUCTION_MAX * REDUCTION_MAX;
        const size_t left = v->group_out - block;
        const size_t n_channels = left < REDUCTION_MAX ? left : REDUCTION_MAX;
        const float *from = w + o * v->taps;
        float *to = packed + group * v->group_out * width;
        for (size_t s = 0; s < v->n_segments; s++) {
            const size_t length = v->segments[s].length;
            const size_t n_panels = KERNEL(panel_count)(length);
            for (size_t i = 0; i < n_panels; i++) {
                const panel p = KERNEL(panel_at)(length, i);
                float *row = to + block * segment_width(v, s) + p.start * n_channels +
                             (channel - block) * p.width;
                memcpy(row, from + p.start, p.lanes * sizeof *row);
                memset(row + p.lanes, 0, (p.width - p.lanes) * sizeof *row);
            }
            from += length;
            to += segment_width(v, s) * v->group_out;
        }
    }
}

/* One panel of one segment, for all pixels of a sample. */
static void sample_panel(const conv *v, const panel *p, tile *t, const float *dy, float *dx)
{
    const size_t out_h = v->desc.out_h;
    const size_t most = KERNEL(panel_rows)(p);
    /* Down the columns: neighbours in a row overlap in dx, and a load that overlaps an unfinished
       store waits for it. */
    size_t row = 0, column = 0;
    for (size_t pixel = 0; pixel < v->pixels; pixel += t->n_rows) {
        t->n_rows = tile_rows(v->pixels - pixel, most);
        for (size_t i = 0; i < t->n_rows; i++) {
            t->a[i] = dy + (row * v->desc.out_w + column) * v->desc.out_channels;
            t->c[i] = dx + row * v->row_step + column * v->column_step;
            if (++row == out_h) {
                row = 0;
                column++;
            }
        }
        KERNEL(tile_run)(p, t);
    }
}

static void do_sample(const conv *v, const float *packed, const float *dy, float *dx)
{
    for (size_t group = 0; group < v->desc.groups; group++) {
        const float *dy_group = dy + group * v->group_out;
        for (size_t s = 0; s < v->n_segments; s++) {
            const size_t length = v->segments[s].length;
            const size_t n_panels = KERNEL(panel_count)(length);
            float *to = dx + group * v->group_in + v->segments[s].offset;
            for (size_t block = 0; block < v->group_out; block += REDUCTION_MAX) {
                const size_t left = v->group_out - block;
                const segment channels = {block, left < REDUCTION_MAX ? left : REDUCTION_MAX};
                for (size_t i = 0; i < n_panels; i++) {
                    const panel p = KERNEL(panel_at)(length, i);
                    tile t = {.a_step = 1,
                              .segments = &channels,
                              .n_segments = 1,
                              .b = packed + block * segment_width(v, s) + p.start * channels.length,
                              .accumulate = true};
                    sample_panel(v, &p, &t, dy_group, to + p.start);
                }
            }
            packed += segment_width(v, s) * v->group_out;
        }
    }
}

/* dx = inner part of a frame, or += */
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

/* Workspace: packed filters, then a frame for each thread. */
static size_t packed_size(const conv *v)
{
    return dpt_cpu_round(dpt_cpu_mul(v->desc.out_channels, filter_width(v)));
}

static size_t frame_size(const conv *v)
{
    return v->padded ? dpt_cpu_round(v->padded_size) : 0;
}

/* dy (n,out_h,out_w,O), w (O,kernel_h,kernel_w,C/groups) -> dx (n,in_h,in_w,C) */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const conv *v = call->op->plan.state;
    const dpt_activation mask = v->desc.input_activation;
    const float *dy = call->in[0];
    float *dx = call->out[0];
    float *packed = call->workspace;
    float *frame = packed + packed_size(v) + thread * frame_size(v);

    pack_filters(v, call->in[1], packed, dpt_cpu_split(v->desc.out_channels, 1, thread, n_threads));
    dpt_cpu_barrier(call->team, n_threads);

    const dpt_cpu_range mine = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = mine.begin; s < mine.end; s++) {
        float *dx_sample = dx + s * v->in_size;
        float *sum = v->padded ? frame : dx_sample;
        if (v->padded || !call->accumulate) memset(sum, 0, v->padded_size * sizeof *sum);
        do_sample(v, packed, dy + s * v->out_size, sum);
        if (v->padded) unframe(v, frame, call->accumulate, dx_sample);
        if (mask != DPT_ACT_NONE) {
            const float *x = call->in[2];
            KERNEL(differentiate)(mask, dx_sample, x + s * v->in_size, dx_sample, v->in_size);
        }
    }
}

dpt_status KERNEL(prepare_conv2d_backward_data)(dpt_op *op, dpt_error *error)
{
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
