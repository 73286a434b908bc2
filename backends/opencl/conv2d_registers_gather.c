/* Convolutions on CPUs: forward and backward-data.  Both are sums over taps of inputs times
   filters. In backward-data, the pixels of dx are divided into phases of the stride.  The pixels of
   a phase meet the same taps, and consecutive pixels meet consecutive pixels of dy.  Each phase is
   therefore a convolution of dy with stride 1 and some of the taps, whose results are `stride`
   pixels apart. */
#include "registers.h"

#include <string.h>

enum {
    ITEM_PIXELS = 104,         /* pixels of a work item, about */
    BLOCK_BYTES = 160 << 10,   /* packed filters of a block, which stay in the second-level cache */
    FILTERS_BYTES = 640 << 10, /* all packed filters of a grid that stay in that cache */
    FEW_CHANNELS = 32, /* with fewer channels, checking each tap for the image takes too long */
};

/* ---- Grids ----------------------------------------------------------------------------------- */

/* A grid of results, in one of its two directions. */
typedef struct axis {
    size_t n;              /* results */
    size_t first, step;    /* their places in the output */
    long source;           /* the source of the first result's first tap; < 0: before the sample */
    size_t source_step;    /* from the source of a result to that of the next one */
    size_t taps, tap_step; /* taps, and the distance from the source of a tap to that of the next */
    long kernel_first, kernel_step; /* the indices of these taps in the filter */
} axis;

/* The part of a description that concerns one direction. */
typedef struct extent {
    size_t in, out, kernel, stride, pad, dilation;
} extent;

static axis forward_axis(const extent *e)
{
    return (axis){.n = e->out,
                  .step = 1,
                  .source = -(long)e->pad,
                  .source_step = e->stride,
                  .taps = e->kernel,
                  .tap_step = e->dilation,
                  .kernel_step = 1};
}

static size_t greatest_divisor(size_t a, size_t b)
{
    while (b > 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The grid of the inputs phase, phase + stride, ...  Input i meets output o by tap k if i + pad =
   o * stride + k * dilation.  The taps of a phase are a fixed number of taps apart, and the outputs
   ascend from the last of them to the first. */
static axis backward_axis(const extent *e, size_t phase)
{
    const size_t every = e->stride / greatest_divisor(e->dilation, e->stride);
    axis a = {.n = (e->in - phase + e->stride - 1) / e->stride,
              .first = phase,
              .step = e->stride,
              .source_step = 1,
              .tap_step = every * e->dilation / e->stride,
              .kernel_step = -(long)every};
    size_t k = 0;
    while (k < every && k < e->kernel &&
           (phase + e->pad) % e->stride != k * e->dilation % e->stride)
        k++;
    if (k >= every || k >= e->kernel) return a;
    a.taps = (e->kernel - 1 - k) / every + 1;
    a.kernel_first = (long)(k + (a.taps - 1) * every);
    a.source = ((long)(phase + e->pad) - a.kernel_first * (long)e->dilation) / (long)e->stride;
    return a;
}

/* How far the taps of an axis reach before the first source. */
static size_t reach_below(const axis *a)
{
    return a->taps > 0 && a->source < 0 ? (size_t)-a->source : 0;
}

static size_t reach_above(const axis *a, size_t n)
{
    if (a->taps == 0 || a->n == 0) return 0;
    const long last = a->source + (long)((a->n - 1) * a->source_step + (a->taps - 1) * a->tap_step);
    return last >= (long)n ? (size_t)(last - (long)n) + 1 : 0;
}

/* ---- The plan -------------------------------------------------------------------------------- */

typedef struct grid {
    conv_pack_params pack;
    conv_gather_params gather; /* complete except for n_pixels and accumulate */
    size_t packed_at;          /* bytes in the workspace */
} grid;

typedef struct state {
    dpt_kernel *pack, *gather, *copy;
    dpt_cl_conv_frame frame; /* around the source samples */
    bool framed;
    size_t chunk; /* samples that are treated at once */
    size_t packed_bytes, bias_bytes;
    size_t rows, n_panels; /* of a tile; of all groups */
    size_t n_grids;
    grid grids[];
} state;

/* The description of the sum: from the channels of the source to those of the results. */
typedef struct view {
    const dpt_conv2d_desc *d;
    bool forward;
    extent h, w;
    size_t in_channels, out_channels; /* of all groups; in backward-data the source is dy */
    size_t source_h, source_w, result_h, result_w;
} view;

static view view_of(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    return (view){
        .d = d,
        .forward = forward,
        .h = {d->in_h, d->out_h, d->kernel_h, d->stride_h, d->pad_h, d->dilation_h},
        .w = {d->in_w, d->out_w, d->kernel_w, d->stride_w, d->pad_w, d->dilation_w},
        .in_channels = forward ? d->in_channels : d->out_channels,
        .out_channels = forward ? d->out_channels : d->in_channels,
        .source_h = forward ? d->in_h : d->out_h,
        .source_w = forward ? d->in_w : d->out_w,
        .result_h = forward ? d->out_h : d->in_h,
        .result_w = forward ? d->out_w : d->in_w,
    };
}

static size_t n_phases(const view *v, const extent *e)
{
    return v->forward ? 1 : dpt_cl_min(e->stride, e->in);
}

static axis axis_at(const view *v, const extent *e, size_t phase)
{
    return v->forward ? forward_axis(e) : backward_axis(e, phase);
}

/* The frame of zeros that all grids need. */
static dpt_cl_conv_frame frame_of(const view *v)
{
    dpt_cl_conv_frame f = {.h = v->source_h, .w = v->source_w, .channels = v->in_channels};
    for (size_t phase = 0; phase < n_phases(v, &v->h); phase++) {
        const axis a = axis_at(v, &v->h, phase);
        f.above = dpt_cl_max(f.above, reach_below(&a));
        f.below = dpt_cl_max(f.below, reach_above(&a, v->source_h));
    }
    for (size_t phase = 0; phase < n_phases(v, &v->w); phase++) {
        const axis a = axis_at(v, &v->w, phase);
        f.left = dpt_cl_max(f.left, reach_below(&a));
        f.right = dpt_cl_max(f.right, reach_above(&a, v->source_w));
    }
    return f;
}

/* The packing of OHWI filters for a grid. */
static conv_pack_params pack_of(const view *v, const axis *h, const axis *w, size_t lanes)
{
    const dpt_conv2d_desc *d = v->d;
    const size_t group_in = d->in_channels / d->groups, group_out = d->out_channels / d->groups;
    const size_t column = group_in, row = d->kernel_w * column, filter = d->kernel_h * row;
    const size_t result = v->out_channels / d->groups;
    return (conv_pack_params){
        .group_step = group_out * filter,
        .lane_step = v->forward ? filter : 1,
        .channel_step = v->forward ? 1 : filter,
        .row_first = (i32)(h->kernel_first * (long)row),
        .row_step = (i32)(h->kernel_step * (long)row),
        .column_first = (i32)(w->kernel_first * (long)column),
        .column_step = (i32)(w->kernel_step * (long)column),
        .taps_h = (u32)h->taps,
        .taps_w = (u32)w->taps,
        .channels = (u32)(v->in_channels / d->groups),
        .group_lanes = (u32)result,
        .n_panels = (u32)dpt_ceil_div(result, lanes),
        .lanes = (u32)lanes,
        .n_zeros = (u32)(v->in_channels / d->groups),
        .has_bias = v->forward && d->has_bias,
    };
}

/* `axes`: down and across. */
static conv_gather_params gather_of(const view *v, const state *s, const axis axes[2], size_t lanes)
{
    const axis *h = &axes[0], *w = &axes[1];
    const dpt_conv2d_desc *d = v->d;
    const dpt_cl_conv_frame none = {.h = v->source_h, .w = v->source_w, .channels = v->in_channels};
    const dpt_cl_conv_frame f = s->framed ? s->frame : none;
    const size_t frame_w = f.left + f.w + f.right, channels = v->in_channels / d->groups;
    const size_t result_row = v->result_w * v->out_channels;
    /* Neighbouring taps are one segment if no tap has to be checked for the image. */
    const size_t reach = s->frame.above + s->frame.below + s->frame.left + s->frame.right;
    const bool merged = (s->framed || reach == 0) && d->groups == 1 && w->tap_step == 1;
    const size_t run = (merged ? w->taps : 1) * channels;
    const size_t block = BLOCK_BYTES / sizeof(float) / lanes / dpt_cl_max(run, 1);
    return (conv_gather_params){
        .in_sample = dpt_cl_conv_frame_size(&f),
        .out_sample = v->result_h * result_row,
        .grid_h = (u32)h->n,
        .grid_w = (u32)w->n,
        .out_first = (u32)(h->first * result_row + w->first * v->out_channels),
        .out_row = (u32)(h->step * result_row),
        .out_pixel = (u32)(w->step * v->out_channels),
        .first_h = (i32)(h->source + (long)f.above),
        .first_w = (i32)(w->source + (long)f.left),
        .step_h = (u32)h->source_step,
        .step_w = (u32)w->source_step,
        .in_h = (u32)(f.above + f.h + f.below),
        .in_w = (u32)frame_w,
        .in_row = (u32)(frame_w * v->in_channels),
        .in_pixel = (u32)v->in_channels,
        .inside_first = (i32)f.above,
        .inside_end = (i32)(f.above + f.h),
        .taps_h = (u32)(w->taps > 0 ? h->taps : 0),
        .taps_w = (u32)(merged ? w->taps > 0 : w->taps),
        .tap_h = (u32)h->tap_step,
        .tap_w = (u32)w->tap_step,
        .run = (u32)run,
        .block = (u32)dpt_cl_max(block, 1),
        .n_panels = (u32)dpt_ceil_div(v->out_channels / d->groups, lanes),
        .group_channels = (u32)(v->out_channels / d->groups),
        .group_in = (u32)channels,
        .has_bias = v->forward && d->has_bias,
        .activation = v->forward ? d->activation : DPT_ACT_NONE,
        .mask = v->forward ? DPT_ACT_NONE : d->input_activation,
    };
}

static void fill_grids(const view *v, state *s, size_t lanes, float end)
{
    const size_t n_w = n_phases(v, &v->w);
    for (size_t i = 0; i < s->n_grids; i++) {
        const axis axes[2] = {axis_at(v, &v->h, i / n_w), axis_at(v, &v->w, i % n_w)};
        const axis *h = &axes[0], *w = &axes[1];
        grid *g = &s->grids[i];
        g->pack = pack_of(v, h, w, lanes);
        g->gather = gather_of(v, s, axes, lanes);
        g->gather.zeros = s->n_panels * h->taps * w->taps * g->pack.channels * lanes;
        const size_t packed = (g->gather.zeros + g->pack.n_zeros) * sizeof(float);
        g->gather.end = end;
        g->packed_at = s->packed_bytes;
        g->gather.panels_first = packed <= FILTERS_BYTES;
        s->packed_bytes += dpt_size_align(packed);
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

static dpt_status run_pack(const dpt_call *call, const state *s, const grid *g)
{
    const dpt_location workspace = call->args->workspace, none = {NULL, 0};
    const size_t n_columns = (size_t)g->pack.taps_w * g->pack.channels;
    dpt_launch l = dpt_launch_begin(call->stream, s->pack);
    dpt_launch_tensor(&l, dpt_at(workspace, g->packed_at), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(workspace, s->packed_bytes), DPT_F32);
    dpt_launch_tensor(&l, call->args->in[1], DPT_F32);
    dpt_launch_tensor(&l, g->pack.has_bias ? call->args->in[2] : none, DPT_F32);
    dpt_launch_value(&l, &g->pack, sizeof g->pack);
    return dpt_cl_conv_launch(&l, dpt_ceil_div(n_columns, CONV_PACK_COLUMNS), g->pack.taps_h,
                              s->n_panels);
}

/* Samples first .. first+n-1 of a call, and the place where their sources begin. */
typedef struct sample_run {
    dpt_location x;
    size_t first, n;
} sample_run;

/* Enqueues a grid for some samples. */
static dpt_status run_grid(const dpt_call *call, const state *s, const grid *g,
                           const sample_run *samples)
{
    const dpt_location workspace = call->args->workspace, none = {NULL, 0};
    const size_t units = dpt_cl_device_of(call->stream->device)->found->compute_units;
    const size_t results = samples->first * g->gather.out_sample * sizeof(float);
    conv_gather_params p = g->gather;
    p.n_pixels = (u64)samples->n * p.grid_h * p.grid_w;
    p.accumulate = call->accumulate;
    /* A deterministic sum is not stored where the old value is. */
    if (call->op->deterministic && p.accumulate) p.block = UINT32_MAX;
    /* Enough items for all cores.  With little work there are no more items than that. */
    const size_t share = dpt_ceil_div(p.n_pixels * s->n_panels, 4 * units);
    const size_t pixels = dpt_cl_min(dpt_cl_max(share, 1), ITEM_PIXELS);
    p.item_pixels = (u32)(dpt_ceil_div(pixels, s->rows) * s->rows);
    dpt_launch l = dpt_launch_begin(call->stream, s->gather);
    dpt_launch_tensor(&l, dpt_at(call->args->out[0], results), DPT_F32);
    dpt_launch_tensor(&l, samples->x, DPT_F32);
    dpt_launch_tensor(&l, dpt_at(workspace, g->packed_at), DPT_F32);
    dpt_launch_tensor(&l, p.has_bias ? dpt_at(workspace, s->packed_bytes) : none, DPT_F32);
    dpt_launch_tensor(&l, p.mask ? dpt_at(call->args->in[2], results) : none, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    const size_t n_items = dpt_ceil_div(p.n_pixels, p.item_pixels);
    return p.panels_first ? dpt_cl_conv_launch(&l, s->n_panels, n_items, 1)
                          : dpt_cl_conv_launch(&l, n_items, s->n_panels, 1);
}

/* Forward  x (n,in_h,in_w,C), w (O,kernel_h,kernel_w,C/groups), bias (O) -> y (n,out_h,out_w,O)
   Backward dy (n,out_h,out_w,O), w, x -> dx (n,in_h,in_w,C) */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_location x = call->args->in[0];
    const dpt_location frame = dpt_at(call->args->workspace, s->packed_bytes + s->bias_bytes);
    const size_t sample_bytes = s->frame.h * s->frame.w * s->frame.channels * sizeof(float);
    if (call->n_samples == 0) return DPT_OK;
    for (size_t i = 0; i < s->n_grids; i++)
        DPT_TRY(run_pack(call, s, &s->grids[i]));
    for (size_t first = 0; first < call->n_samples; first += s->chunk) {
        const size_t n = dpt_cl_min(s->chunk, call->n_samples - first);
        const dpt_location from = dpt_at(x, first * sample_bytes);
        if (s->framed)
            DPT_TRY(dpt_cl_conv_frame_run(call->stream, s->copy,
                                          &(const dpt_cl_conv_copy){&s->frame, from, frame, n}));
        const sample_run samples = {s->framed ? frame : from, first, n};
        for (size_t i = 0; i < s->n_grids; i++)
            DPT_TRY(run_grid(call, s, &s->grids[i], &samples));
    }
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status get_kernels(dpt_op *op, const dpt_cl_conv_tile *tile, state *s)
{
    const char *pack = "conv2d_registers_pack.cl";
    const size_t reach = s->frame.above + s->frame.below + s->frame.left + s->frame.right;
    const dpt_cl_conv_kernel gather = {
        .file = "conv2d_registers_gather.cl",
        .name = "dpt_conv2d_gather",
        .option = reach > 0 && !s->framed ? "-DCHECKED=1" : "-DCHECKED=0",
    };
    DPT_TRY(dpt_kernel_of(op->device, pack, "dpt_conv2d_pack", &s->pack));
    DPT_TRY(dpt_kernel_of(op->device, pack, "dpt_conv2d_frame", &s->copy));
    return dpt_cl_conv_kernel_get(op, tile, &gather, &s->gather);
}

/* The samples that are treated at once: all; or, if they are read several times, so many that they
   stay in a cache. */
static size_t chunk_samples(const dpt_op *op, const view *v, bool several)
{
    const size_t source = v->source_h * v->source_w * v->in_channels;
    const size_t result = v->result_h * v->result_w * v->out_channels;
    return several ? dpt_cl_conv_chunk(op, dpt_size_add(source, result))
                   : dpt_cl_max(op->max_samples, 1);
}

dpt_status dpt_cl_conv_prepare_gather(dpt_op *op, const dpt_cl_conv_tile *tile,
                                      const dpt_conv2d_linear *layer)
{
    const view v = view_of(op);
    const size_t lanes = dpt_cl_conv_lanes(tile);
    const size_t n_grids = dpt_size_mul(n_phases(&v, &v.h), n_phases(&v, &v.w));
    const dpt_cl_conv_frame frame = frame_of(&v);
    if (dpt_cl_conv_frame_size(&frame) >= (size_t)1 << 31)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a sample with its padding has 2^31 elements or more");
    state *s = dpt_op_state(op, dpt_size_add(sizeof *s, dpt_size_mul(n_grids, sizeof(grid))));
    if (!s) return DPT_E_NO_MEMORY;
    const size_t reach = frame.above + frame.below + frame.left + frame.right;
    s->frame = frame;
    s->framed = reach > 0 && v.in_channels / v.d->groups < FEW_CHANNELS;
    s->chunk = chunk_samples(op, &v, s->framed || n_grids > 1);
    s->rows = tile->rows;
    s->n_panels = v.d->groups * dpt_ceil_div(v.out_channels / v.d->groups, lanes);
    s->n_grids = n_grids;
    fill_grids(&v, s, lanes, dpt_cl_conv_end(layer));
    s->bias_bytes =
        v.forward && v.d->has_bias ? dpt_size_align(s->n_panels * lanes * sizeof(float)) : 0;
    const size_t frames_bytes =
        s->framed ? dpt_size_mul(dpt_cl_conv_frame_size(&frame) * sizeof(float), s->chunk) : 0;
    op->plan.run = run;
    op->plan.workspace_bytes =
        dpt_size_add(s->packed_bytes, dpt_size_add(s->bias_bytes, frames_bytes));
    return get_kernels(op, tile, s);
}
