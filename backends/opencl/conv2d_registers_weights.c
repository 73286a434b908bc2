/* Convolutions on CPUs: backward-weights, as sums over pixels.  The rows of output pixels are
   divided into parts, and the tiles of the filters among work items.  Each item writes its own
   sums.  The parts are added in their order at the end. */
#include "registers.h"
#include "tree.h"
#include "tree_params.h"

enum {
    PARTS_BYTES = 32 << 20, /* the most memory of the sums of all parts */
    BLOCK_PIXELS = 192,     /* pixels of a block, whose dy stays in the first-level cache */
    SHORT_PIXELS = 1024,    /* a deterministic call of so many is one block, of all grains */
    FEW_CHANNELS = 16,
    ITEMS = 4, /* work items for each core */
};

typedef struct state {
    dpt_kernel *weights, *reduce, *copy;
    conv_weights_params p; /* complete except for what depends on a launch */
    bool by_taps;
    bool framed;
    dpt_cl_conv_frame frame, tail; /* of x; of the last sample of dy */
    size_t frame_samples;          /* samples that are treated at once */
    size_t rows, lanes, n_panels;
    size_t max_parts, n_items; /* the most parts, and how many items are wanted */
    size_t parts_bytes, bias_bytes, tail_bytes;
    size_t waiting_at, bias_waiting_at; /* bytes in the workspace, of deterministic operators */
    size_t dy_at;                       /* where dy begins, in bytes */
    float end;                          /* as in conv_reduce_params */
} state;

/* ---- The plan -------------------------------------------------------------------------------- */

/* Whether tiles are cut by taps.  Such tiles need no frame, but have empty rows if the channels do
   not fill them. */
static bool cuts_by_taps(const dpt_conv2d_desc *d, size_t rows)
{
    const size_t channels = d->in_channels / d->groups;
    const size_t filled = dpt_ceil_div(channels, rows) * rows;
    return channels >= rows && channels >= FEW_CHANNELS && channels * 10 >= filled * 9;
}

/* The frame of x: the pixels that windows cover. */
static dpt_cl_conv_frame frame_of(const dpt_conv2d_desc *d)
{
    const size_t seen_h = (d->out_h - 1) * d->stride_h + (d->kernel_h - 1) * d->dilation_h + 1;
    const size_t seen_w = (d->out_w - 1) * d->stride_w + (d->kernel_w - 1) * d->dilation_w + 1;
    return (dpt_cl_conv_frame){
        .h = d->in_h,
        .w = d->in_w,
        .channels = d->in_channels,
        .above = d->pad_h,
        .below = seen_h > d->in_h + d->pad_h ? seen_h - d->in_h - d->pad_h : 0,
        .left = d->pad_w,
        .right = seen_w > d->in_w + d->pad_w ? seen_w - d->in_w - d->pad_w : 0,
    };
}

static conv_weights_params params_of(const dpt_conv2d_desc *d, const state *s)
{
    const dpt_cl_conv_frame *f = &s->frame;
    const size_t in_h = s->framed ? f->above + f->h + f->below : f->h;
    const size_t in_w = s->framed ? f->left + f->w + f->right : f->w;
    const size_t group_in = d->in_channels / d->groups, group_out = d->out_channels / d->groups;
    const size_t taps = d->kernel_h * d->kernel_w;
    const size_t tap_tiles = dpt_ceil_div(group_in, s->rows);
    const size_t filter_tiles =
        s->by_taps ? taps * tap_tiles : dpt_ceil_div(taps * group_in, s->rows);
    conv_weights_params p = {
        .in_sample = in_h * in_w * d->in_channels,
        .out_sample = d->out_h * d->out_w * d->out_channels,
        .n_tiles = (u32)(s->n_panels * filter_tiles),
        .filter_tiles = (u32)filter_tiles,
        .tap_tiles = (u32)tap_tiles,
        .n_panels = (u32)(s->n_panels / d->groups),
        .out_h = (u32)d->out_h,
        .out_w = (u32)d->out_w,
        .out_channels = (u32)d->out_channels,
        .in_h = (u32)in_h,
        .in_w = (u32)in_w,
        .in_row = (u32)(in_w * d->in_channels),
        .in_pixel = (u32)d->in_channels,
        .stride_h = (u32)d->stride_h,
        .stride_w = (u32)d->stride_w,
        .pad_h = s->framed ? 0 : (u32)d->pad_h,
        .pad_w = s->framed ? 0 : (u32)d->pad_w,
        .dilation_h = (u32)d->dilation_h,
        .dilation_w = (u32)d->dilation_w,
        .kernel_h = (u32)d->kernel_h,
        .kernel_w = (u32)d->kernel_w,
        .group_in = (u32)group_in,
        .group_out = (u32)group_out,
        .has_bias = d->has_bias,
        .has_tail = group_out % s->lanes != 0,
    };
    const bool pointwise =
        taps == 1 && d->stride_h == 1 && d->stride_w == 1 && d->pad_h == 0 && d->pad_w == 0;
    if (pointwise) { /* one long row */
        p.out_w = p.in_w = p.out_h * p.out_w;
        p.out_h = p.in_h = 1;
        p.in_row = p.in_w * p.in_pixel;
    }
    p.block_rows = (u32)dpt_ceil_div(BLOCK_PIXELS, p.out_w);
    return p;
}

/* ---- The run --------------------------------------------------------------------------------- */

static dpt_location parts_at(const dpt_call *call)
{
    return call->args->workspace;
}

static dpt_location bias_at(const dpt_call *call, const state *s)
{
    return dpt_at(parts_at(call), s->parts_bytes);
}

static dpt_location tail_at(const dpt_call *call, const state *s)
{
    return dpt_at(bias_at(call, s), s->bias_bytes);
}

static dpt_location frames_at(const dpt_call *call, const state *s)
{
    return dpt_at(tail_at(call, s), s->tail_bytes);
}

/* The rows of output pixels of a part, which are whole blocks. */
static size_t part_rows(const state *s, size_t n_rows)
{
    const size_t n_blocks = dpt_ceil_div(n_rows, s->p.block_rows);
    return dpt_ceil_div(n_blocks, s->max_parts) * s->p.block_rows;
}

/* The parts into which a call's pixels are divided, and their rows. */
typedef struct parts {
    size_t n, rows;
} parts;

/* Adds the samples first .. first+n-1 to the sums of all parts. */
static dpt_status run_samples(const dpt_call *call, size_t first, size_t n, parts all)
{
    const state *s = call->op->plan.state;
    const dpt_location none = {NULL, 0};
    const dpt_location x = dpt_at(call->args->in[1], first * s->frame.h * s->frame.w *
                                                         s->frame.channels * sizeof(float));
    const dpt_location dy =
        dpt_at(call->args->in[0], s->dy_at + first * s->p.out_sample * sizeof(float));
    conv_weights_params p = s->p;
    p.n_rows = (u64)n * p.out_h;
    p.part_rows = all.rows;
    p.before = (u64)first * p.out_h;
    p.grain_rows = (u64)dpt_grain_of(call) * p.out_h;
    p.ends = first + n == call->n_samples;
    const size_t pieces = dpt_cl_min(dpt_ceil_div(s->n_items, all.n), p.n_tiles);
    p.item_tiles = (u32)dpt_ceil_div(p.n_tiles, pieces);
    p.has_tail = p.has_tail && first + n == call->n_samples;
    const dpt_cl_conv_copy tail = {&s->tail, dpt_at(dy, (n - 1) * p.out_sample * sizeof(float)),
                                   tail_at(call, s), 1};
    const dpt_cl_conv_copy frames = {&s->frame, x, frames_at(call, s), n};
    if (p.has_tail) DPT_TRY(dpt_cl_conv_frame_run(call->stream, s->copy, &tail));
    if (s->framed) DPT_TRY(dpt_cl_conv_frame_run(call->stream, s->copy, &frames));
    dpt_launch l = dpt_launch_begin(call->stream, s->weights);
    dpt_launch_tensor(&l, parts_at(call), DPT_F32);
    dpt_launch_tensor(&l, bias_at(call, s), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(call->args->workspace, s->waiting_at), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(call->args->workspace, s->bias_waiting_at), DPT_F32);
    dpt_launch_tensor(&l, dy, DPT_F32);
    dpt_launch_tensor(&l, p.has_tail ? tail_at(call, s) : none, DPT_F32);
    dpt_launch_tensor(&l, s->framed ? frames_at(call, s) : x, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_cl_conv_launch(&l, all.n, dpt_ceil_div(p.n_tiles, p.item_tiles), 1);
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), db (O) */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_location none = {NULL, 0};
    const size_t step = s->framed ? s->frame_samples : dpt_cl_max(call->n_samples, 1);
    const size_t n_rows = dpt_cl_min(step, call->n_samples) * s->p.out_h;
    const size_t rows = dpt_cl_max(part_rows(s, n_rows), 1);
    const parts all = {.n = dpt_ceil_div(n_rows, rows), .rows = rows};
    for (size_t first = 0; first < call->n_samples; first += step)
        DPT_TRY(run_samples(call, first, dpt_cl_min(step, call->n_samples - first), all));
    const conv_reduce_params p = {
        .n_parts = all.n,
        .rows = (u32)s->rows,
        .lanes = (u32)s->lanes,
        .n_tiles = s->p.n_tiles,
        .filter_tiles = s->p.filter_tiles,
        .tap_tiles = s->p.tap_tiles,
        .n_panels = s->p.n_panels,
        .group_in = s->p.group_in,
        .group_out = s->p.group_out,
        .filter_size = s->p.kernel_h * s->p.kernel_w * s->p.group_in,
        .cut_by_taps = s->by_taps,
        .has_bias = s->p.has_bias,
        .accumulate = call->accumulate,
        .end = s->end,
    };
    dpt_launch l = dpt_launch_begin(call->stream, s->reduce);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, p.has_bias ? call->args->out[1] : none, DPT_F32);
    dpt_launch_tensor(&l, parts_at(call), DPT_F32);
    dpt_launch_tensor(&l, bias_at(call, s), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_cl_conv_launch(&l, p.n_tiles, 1, 1);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status get_kernels(dpt_op *op, const dpt_cl_conv_tile *tile, state *s)
{
    const char *pack = "conv2d_registers_pack.cl";
    const dpt_cl_conv_kernel weights = {.file = "conv2d_registers_weights.cl",
                                        .name = "dpt_conv2d_weights",
                                        .option = s->by_taps ? "-DBY_TAPS=1" : "-DBY_TAPS=0"};
    DPT_TRY(dpt_kernel_of(op->device, pack, "dpt_conv2d_reduce", &s->reduce));
    DPT_TRY(dpt_kernel_of(op->device, pack, "dpt_conv2d_frame", &s->copy));
    return dpt_cl_conv_kernel_get(op, tile, &weights, &s->weights);
}

/* Plans the memory of sums of grains that wait. */
static void set_grains(dpt_op *op, state *s)
{
    const size_t pixels = dpt_size_mul(op->max_samples, (size_t)s->p.out_h * s->p.out_w);
    const size_t each = TREE_LEVELS * s->lanes * sizeof(float);
    s->p.by_item = pixels <= SHORT_PIXELS && s->frame_samples >= op->max_samples;
    const size_t n_waiting = s->p.by_item ? dpt_cl_min(s->n_items, s->p.n_tiles) : s->p.n_tiles;
    s->waiting_at = dpt_size_align(op->plan.workspace_bytes);
    s->bias_waiting_at =
        dpt_size_add(s->waiting_at, dpt_size_mul(n_waiting, dpt_size_mul(each, s->rows)));
    op->plan.workspace_bytes =
        dpt_size_add(s->bias_waiting_at, s->p.has_bias ? dpt_size_mul(each, s->n_panels) : 0);
    op->plan.has_grains = true;
}

static void set_sizes(dpt_op *op, state *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t units = dpt_cl_device_of(op->device)->found->compute_units;
    const size_t tile_bytes = s->rows * s->lanes * sizeof(float);
    const size_t part_bytes = dpt_size_mul(s->p.n_tiles, tile_bytes);
    const size_t n_blocks =
        dpt_ceil_div(dpt_size_mul(s->frame_samples, s->p.out_h), s->p.block_rows);
    s->n_items = ITEMS * dpt_cl_max(units, 1);
    s->max_parts =
        dpt_cl_min(dpt_cl_min(PARTS_BYTES / dpt_cl_max(part_bytes, 1), s->n_items), n_blocks);
    s->max_parts = op->deterministic ? 1 : dpt_cl_max(s->max_parts, 1);
    s->parts_bytes = dpt_size_align(dpt_size_mul(part_bytes, s->max_parts));
    s->bias_bytes =
        s->p.has_bias
            ? dpt_size_align(dpt_size_mul(s->n_panels * s->lanes * sizeof(float), s->max_parts))
            : 0;
    s->tail = (dpt_cl_conv_frame){
        .h = 1, .w = d->out_h * d->out_w * d->out_channels, .channels = 1, .right = s->lanes};
    s->tail_bytes =
        s->p.has_tail ? dpt_size_align(dpt_cl_conv_frame_size(&s->tail) * sizeof(float)) : 0;
    const size_t frames_bytes =
        s->framed ? dpt_size_mul(s->p.in_sample * sizeof(float), s->frame_samples) : 0;
    op->plan.workspace_bytes = dpt_size_add(dpt_size_add(s->parts_bytes, s->bias_bytes),
                                            dpt_size_add(s->tail_bytes, frames_bytes));
    if (op->deterministic) set_grains(op, s);
}

/* The part of the plan that a linear layer decides: a row of dy may be longer than the outputs. */
static void set_layer(state *s, const dpt_conv2d_linear *layer)
{
    s->end = s->p.end = dpt_cl_conv_end(layer);
    if (!layer) return;
    s->dy_at = layer->dy_first * sizeof(float);
    s->p.out_sample = layer->dy_row;
    s->p.out_channels = (u32)layer->dy_row;
}

dpt_status dpt_cl_conv_prepare_weights(dpt_op *op, const dpt_cl_conv_tile *tile,
                                       const dpt_conv2d_linear *layer)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const dpt_cl_conv_frame frame = frame_of(d);
    if (dpt_cl_conv_frame_size(&frame) >= (size_t)1 << 31)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a sample with its padding has 2^31 elements or more");
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->frame = frame;
    s->rows = tile->rows;
    s->lanes = dpt_cl_conv_lanes(tile);
    s->by_taps = cuts_by_taps(d, s->rows);
    s->framed = !s->by_taps && frame.above + frame.below + frame.left + frame.right > 0;
    s->frame_samples =
        s->framed ? dpt_cl_conv_chunk(op, dpt_cl_conv_frame_size(&frame)) : op->max_samples;
    s->n_panels = d->groups * dpt_ceil_div(d->out_channels / d->groups, s->lanes);
    s->p = params_of(d, s);
    set_layer(s, layer);
    set_sizes(op, s);
    op->plan.run = run;
    return get_kernels(op, tile, s);
}
