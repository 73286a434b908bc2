/* Convolutions for GPUs: matrix products over tiles in local memory, which read their operands
   directly from images and filters (kernels/conv2d_local_tile.h).  This file lists the tiles, and
   makes launches from calls. */
#include "conv2d_local.h"
#include "conv2d.h"
#include "conv2d_parts.h"
#include "tree.h"

#include <stdio.h>

enum {
    /* The most of one launch: the kernels count pixels and groups of work items in 32 bits. */
    MAX_PIXELS = 1 << 30,
    MAX_GROUPS = 1 << 30,
    MAX_EXTENT = 1 << 28, /* of an image with its padding */
    /* Of backward-weights. */
    GROUPS_PER_UNIT = 8,         /* groups that keep a compute unit busy */
    MIN_CHUNK = 512,             /* the fewest pixels that are worth a chunk */
    MIN_TENSOR_CHUNK = 256,      /* the same on tensor cores, which are faster */
    MAX_PARTS_BYTES = 128 << 20, /* the most memory of the sums of all chunks */
    MAX_GRAINS_BYTES = 16 << 20, /* the same of deterministic operators */
    /* Of deterministic operators: fewer groups of a unit leave it waiting for memory. */
    MIN_CHAIN_GROUPS = 4,
    LONG_CHAIN = 512, /* terms */
};

/* A tile, as the options of kernels/conv2d_local_tile.h describe it. */
typedef struct tile {
    size_t m, n, k, reg_m, reg_n;
    bool is_tensor; /* computed on tensor cores, which round inputs to TF32 */
} tile;

typedef struct state {
    dpt_kernel *kernel;
    dpt_conv2d_parts parts; /* backward-weights */
    conv2d_local_params params;
    tile tile;
    size_t x_bytes, y_bytes; /* of a sample */
    size_t dy_at;            /* of backward-weights: where dy begins, in bytes */
    size_t samples_per_launch;
    size_t n_phases;  /* of backward-data */
    size_t n_parts;   /* of backward-weights: the most parts */
    dpt_kernel *tree; /* of deterministic backward-weights in several parts */
} state;

/* ---- Sizes ----------------------------------------------------------------------------------- */

static size_t items_of(const tile *t)
{
    return t->m / t->reg_m * (t->n / t->reg_n);
}

/* A tile has two buffers, each with a slice of A and a slice of B. */
static size_t local_bytes_of(const tile *t)
{
    const size_t pad = t->is_tensor ? 8 : 4;
    if (t->reg_m < 4) return 2 * (t->k + pad) * (t->m + t->n) * sizeof(float);
    return 2 * t->k * (t->m + pad + t->n + pad) * sizeof(float);
}

static size_t common_divisor(size_t a, size_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool fits(const dpt_traits *traits, const tile *t)
{
    return items_of(t) <= traits->most_group_size && local_bytes_of(t) <= traits->most_shared_bytes;
}

static dpt_status check_fits(const dpt_op *op, const tile *t)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const dpt_traits *traits = dpt_traits_of(op->device);
    if (!fits(traits, t))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a tile of %zux%zux%zu needs groups of %zu with %zu bytes of local memory; "
                        "%s has %zu and %zu",
                        t->m, t->n, t->k, items_of(t), local_bytes_of(t), traits->name,
                        traits->most_group_size, traits->most_shared_bytes);
    if (t->is_tensor && traits->input_rounding == 0.0)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "%s computes products in true float32, which tensor cores do not",
                        traits->name);
    if (dpt_size_add(d->in_h, dpt_size_mul(2, d->pad_h)) > MAX_EXTENT ||
        dpt_size_add(d->in_w, dpt_size_mul(2, d->pad_w)) > MAX_EXTENT || d->stride_h > MAX_EXTENT ||
        d->stride_w > MAX_EXTENT || d->dilation_h > MAX_EXTENT || d->dilation_w > MAX_EXTENT)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "an image with its padding, a stride or a dilation exceeds 2^28");
    return DPT_OK;
}

static conv2d_local_params params_of(const dpt_conv2d_desc *d)
{
    return (conv2d_local_params){
        .groups = (u32)d->groups,
        .in_h = (u32)d->in_h,
        .in_w = (u32)d->in_w,
        .in_channels = (u32)d->in_channels,
        .out_h = (u32)d->out_h,
        .out_w = (u32)d->out_w,
        .out_channels = (u32)d->out_channels,
        .kernel_h = (u32)d->kernel_h,
        .kernel_w = (u32)d->kernel_w,
        .stride_h = (u32)d->stride_h,
        .stride_w = (u32)d->stride_w,
        .pad_h = (u32)d->pad_h,
        .pad_w = (u32)d->pad_w,
        .dilation_h = (u32)d->dilation_h,
        .dilation_w = (u32)d->dilation_w,
        .phases_w = (u32)smaller(d->stride_w, d->in_w),
        .every_h = (u32)(d->stride_h / common_divisor(d->stride_h, d->dilation_h)),
        .every_w = (u32)(d->stride_w / common_divisor(d->stride_w, d->dilation_w)),
        .has_bias = d->has_bias,
        .dy_row = (u32)d->out_channels,
    };
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* Channels of an access to global memory. */
static unsigned width_of(size_t channels)
{
    return channels % 4 == 0 ? 4 : 1;
}

/* The kernel of a pass, and what its options depend on. */
typedef struct pass {
    const char *file, *kernel;
    unsigned a_width, b_width, c_width;
    dpt_activation activation;
} pass;

static pass pass_of(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const unsigned in = width_of(d->in_channels / d->groups);
    const unsigned out = width_of(d->out_channels / d->groups);
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        return (pass){
            "conv2d_local_forward.cl", "dpt_conv2d_local_forward", in, in, out, d->activation};
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return (pass){"conv2d_local_data.cl", "dpt_conv2d_local_data", out, in, in,
                      d->input_activation};
    default:
        return (pass){
            "conv2d_local_weights.cl", "dpt_conv2d_local_weights", out, in, in, DPT_ACT_NONE};
    }
}

static dpt_status get_variant(const dpt_op *op, const tile *t, const pass *p, dpt_kernel **out)
{
    dpt_program_key key = {.file = p->file};
    snprintf(key.options, sizeof key.options,
             "-DTILE_M=%zu -DTILE_N=%zu -DTILE_K=%zu -DREG_M=%zu -DREG_N=%zu -DA_WIDTH=%u "
             "-DB_WIDTH=%u -DC_WIDTH=%u%s",
             t->m, t->n, t->k, t->reg_m, t->reg_n, p->a_width, p->b_width, p->c_width,
             t->is_tensor ? " -DTENSOR=1" : "");
    dpt_program_key_store(&key, op->desc.type);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    snprintf(key.constants, sizeof key.constants, "-DACTIVATION=%uu",
             dpt_traits_of(op->device)->is_cpu ? 0u : (unsigned)p->activation);
    return dpt_kernel_get(op->device, &key, p->kernel, out);
}

/* Whether a slice of dy, or a row behind its first, begins between two multiples of four elements.
 */
static bool is_slice_aside(const dpt_op *op, const state *s)
{
    return op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS &&
           (s->dy_at % (4 * sizeof(float)) != 0 || s->params.dy_row % 4 != 0);
}

/* Kernels that are compiled beforehand do not exist for every combination of widths.  If one is
   missing, the kernel of width 1 is taken. */
static dpt_status get_kernel(const dpt_op *op, const state *s, dpt_kernel **out)
{
    const tile *t = &s->tile;
    pass p = pass_of(op);
    if (is_slice_aside(op, s)) p.a_width = 1;
    const dpt_status status = get_variant(op, t, &p, out);
    if (status != DPT_E_UNSUPPORTED || !dpt_traits_of(op->device)->is_compiled) return status;
    p.a_width = p.b_width = p.c_width = 1;
    return get_variant(op, t, &p, out);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The samples of a call that one launch treats. */
typedef struct share {
    size_t first, n;
    bool accumulate;
} share;

static dpt_status launch_tiles(const state *s, dpt_launch *launch,
                               const conv2d_local_params *params, size_t n_parts)
{
    const size_t n_groups = (size_t)params->tiles_m * params->tiles_n * params->groups * n_parts;
    dpt_launch_value(launch, params, sizeof *params);
    return dpt_launch_groups(launch, (const size_t[3]){n_groups, 1, 1},
                             (const size_t[3]){items_of(&s->tile), 1, 1});
}

static dpt_status run_forward(const dpt_call *call, const share *part)
{
    const state *s = call->op->plan.state;
    const dpt_dtype type = call->op->desc.type;
    const dpt_op_args *args = call->args;
    conv2d_local_params params = s->params;
    params.n_samples = (u32)part->n;
    params.tiles_m = (u32)dpt_ceil_div(part->n * params.out_h * params.out_w, s->tile.m);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, dpt_at(args->out[0], part->first * s->y_bytes), type);
    dpt_launch_tensor(&l, dpt_at(args->in[0], part->first * s->x_bytes), type);
    dpt_launch_tensor(&l, args->in[1], DPT_F32);
    dpt_launch_tensor(&l, args->in[2], DPT_F32);
    return launch_tiles(s, &l, &params, 1);
}

static dpt_status run_data(const dpt_call *call, const share *part)
{
    const state *s = call->op->plan.state;
    const dpt_dtype type = call->op->desc.type;
    const dpt_op_args *args = call->args;
    conv2d_local_params params = s->params;
    const size_t rows = dpt_ceil_div(params.in_h, params.stride_h);
    const size_t columns = dpt_ceil_div(params.in_w, params.stride_w);
    const size_t x_offset = args->in[2].buffer ? part->first * s->x_bytes : 0;
    params.n_samples = (u32)part->n;
    params.tiles_m = (u32)dpt_ceil_div(part->n * rows * columns, s->tile.m);
    params.accumulate = part->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, dpt_at(args->out[0], part->first * s->x_bytes), type);
    dpt_launch_tensor(&l, dpt_at(args->in[0], part->first * s->y_bytes), type);
    dpt_launch_tensor(&l, args->in[1], DPT_F32);
    dpt_launch_tensor(&l, dpt_at(args->in[2], x_offset), type);
    return launch_tiles(s, &l, &params, s->n_phases);
}

/* The sums of parts of a deterministic operator. */
static dpt_status add_grains(const dpt_call *call, size_t n_parts)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    dpt_tree_parts parts = {
        .n = n_parts,
        .size = s->parts.size,
        .count = s->parts.n_weights,
        .parts = args->workspace,
        .to = args->out[0],
        .accumulate = call->accumulate,
    };
    DPT_TRY(dpt_tree_add(s->tree, call->stream, &parts));
    if (s->parts.n_biases == 0) return DPT_OK;
    parts.count = s->parts.n_biases;
    parts.parts = dpt_at(args->workspace, s->parts.n_weights * sizeof(float));
    parts.to = args->out[1];
    return dpt_tree_add(s->tree, call->stream, &parts);
}

/* Deterministic backward-weights: a chunk is a grain, and a part is a run of grains. */
static dpt_status run_grains(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const dpt_dtype type = call->op->desc.type;
    const dpt_location workspace = args->workspace;
    conv2d_local_params params = s->params;
    params.n_samples = (u32)call->n_samples;
    params.chunk = (u32)(dpt_grain_of(call) * params.out_h * params.out_w);
    params.n_chunks = (u32)dpt_grains_of(call);
    params.run = (u32)(DPT_MOST_GRAINS / s->n_parts);
    const size_t n_parts = dpt_ceil_div(params.n_chunks, params.run);
    const bool direct = n_parts == 1;
    params.accumulate = direct && call->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, direct ? args->out[0] : workspace, DPT_F32);
    dpt_launch_tensor(
        &l, direct ? args->out[1] : dpt_at(workspace, s->parts.n_weights * sizeof(float)), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(args->in[0], s->dy_at), type);
    dpt_launch_tensor(&l, args->in[1], type);
    DPT_TRY(launch_tiles(s, &l, &params, n_parts));
    return direct ? DPT_OK : add_grains(call, n_parts);
}

static dpt_status run_weights(const dpt_call *call, const share *part)
{
    const state *s = call->op->plan.state;
    const dpt_dtype type = call->op->desc.type;
    const dpt_op_args *args = call->args;
    conv2d_local_params params = s->params;
    const size_t n_pixels = part->n * params.out_h * params.out_w;
    const size_t chunk = dpt_ceil_div(dpt_ceil_div(n_pixels, s->n_parts), s->tile.k);
    params.n_samples = (u32)part->n;
    params.chunk = (u32)(chunk * s->tile.k);
    /* Without samples there is one chunk of no pixels, which writes zeros. */
    const size_t n_parts = n_pixels > 0 ? dpt_ceil_div(n_pixels, params.chunk) : 1;
    const bool direct = n_parts == 1;
    const dpt_location workspace = args->workspace;
    params.accumulate = direct && part->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, direct ? args->out[0] : workspace, DPT_F32);
    dpt_launch_tensor(
        &l, direct ? args->out[1] : dpt_at(workspace, s->parts.n_weights * sizeof(float)), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(args->in[0], s->dy_at + part->first * s->y_bytes), type);
    dpt_launch_tensor(&l, dpt_at(args->in[1], part->first * s->x_bytes), type);
    DPT_TRY(launch_tiles(s, &l, &params, n_parts));
    return direct ? DPT_OK : dpt_conv2d_parts_add(&s->parts, call, n_parts, part->accumulate);
}

static dpt_status run_shares(const dpt_call *call,
                             dpt_status (*run)(const dpt_call *, const share *))
{
    const state *s = call->op->plan.state;
    share part = {.accumulate = call->accumulate};
    do {
        part.n = smaller(call->n_samples - part.first, s->samples_per_launch);
        DPT_TRY(run(call, &part));
        part.first += part.n;
        /* The filter gradients of the next launch are added to these. */
        if (call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS) part.accumulate = true;
    } while (part.first < call->n_samples);
    return DPT_OK;
}

static dpt_status forward(const dpt_call *call)
{
    return run_shares(call, run_forward);
}

static dpt_status backward_data(const dpt_call *call)
{
    return run_shares(call, run_data);
}

static dpt_status backward_weights(const dpt_call *call)
{
    return run_shares(call, run_weights);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* *rows: the rows that a sample has in the matrix of the pass.  Sets s->n_phases and the counts of
   tiles. */
static void set_matrix(const dpt_op *op, state *s, size_t *rows)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t channels = d->in_channels / d->groups, filters = d->out_channels / d->groups;
    size_t columns;
    s->n_phases = 1;
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        *rows = d->out_h * d->out_w;
        columns = filters;
        break;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        *rows = dpt_ceil_div(d->in_h, d->stride_h) * dpt_ceil_div(d->in_w, d->stride_w);
        columns = channels;
        s->n_phases = smaller(d->stride_h, d->in_h) * s->params.phases_w;
        break;
    default:
        *rows = 0; /* a sample makes K longer and adds no row */
        columns = d->kernel_h * d->kernel_w * channels;
        s->params.tiles_m = (u32)dpt_ceil_div(filters, s->tile.m);
    }
    s->params.tiles_n = (u32)dpt_ceil_div(columns, s->tile.n);
}

static dpt_status limit_launches(dpt_op *op, state *s, size_t rows)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t pixels = larger(d->in_h * d->in_w, d->out_h * d->out_w);
    const size_t groups = dpt_size_mul(dpt_size_mul(dpt_ceil_div(rows, s->tile.m), s->n_phases),
                                       dpt_size_mul(s->params.tiles_n, d->groups));
    if (groups > MAX_GROUPS)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a sample of the convolution takes more than 2^30 tiles");
    s->samples_per_launch = MAX_PIXELS / (pixels > MAX_PIXELS ? MAX_PIXELS : pixels);
    if (groups > 0) s->samples_per_launch = smaller(s->samples_per_launch, MAX_GROUPS / groups);
    return DPT_OK;
}

/* Divides the grains of deterministic backward-weights into parts: as many as keep the device busy,
   and as fit. */
static dpt_status plan_grains(dpt_op *op, state *s)
{
    const size_t n_tiles = (size_t)s->params.tiles_m * s->params.tiles_n * op->desc.u.conv2d.groups;
    const size_t wanted = (size_t)dpt_traits_of(op->device)->n_units * GROUPS_PER_UNIT;
    if (op->max_samples > s->samples_per_launch)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "deterministic gradients of filters over more than 2^30 pixels: take "
                        "smaller batches");
    s->parts = dpt_conv2d_parts_of(&op->desc.u.conv2d);
    s->params.part_size = s->parts.size;
    const size_t part_bytes = s->parts.size * sizeof(float);
    s->n_parts = 1;
    while (s->n_parts < DPT_MOST_GRAINS && n_tiles * s->n_parts < wanted &&
           2 * s->n_parts * part_bytes <= MAX_GRAINS_BYTES)
        s->n_parts *= 2;
    op->plan.has_grains = true;
    if (s->n_parts == 1) return DPT_OK;
    op->plan.workspace_bytes = s->n_parts * part_bytes;
    return dpt_tree_prepare(op->device, &s->tree);
}

/* Divides the pixels of backward-weights into chunks. */
static dpt_status plan_parts(dpt_op *op, state *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const dpt_traits *traits = dpt_traits_of(op->device);
    s->parts = dpt_conv2d_parts_of(d);
    s->params.part_size = s->parts.size;
    const size_t part_bytes = s->parts.size * sizeof(float);
    const size_t n_tiles = (size_t)s->params.tiles_m * s->params.tiles_n * d->groups;
    const size_t n_pixels =
        dpt_size_mul(smaller(op->max_samples, s->samples_per_launch), d->out_h * d->out_w);
    size_t n = dpt_ceil_div((size_t)traits->n_units * GROUPS_PER_UNIT, n_tiles);
    n = smaller(n, dpt_ceil_div(n_pixels, s->tile.is_tensor ? MIN_TENSOR_CHUNK : MIN_CHUNK));
    n = smaller(n, MAX_PARTS_BYTES / part_bytes);
    s->n_parts = n > 0 ? n : 1;
    if (s->n_parts == 1) return DPT_OK;
    return dpt_conv2d_parts_prepare(op, s->n_parts, &s->parts);
}

/* The part of the parameters that a linear layer decides. */
static void set_layer(const dpt_op *op, state *s, const dpt_conv2d_linear *layer)
{
    s->params.end = layer ? -0.0f : 0.0f;
    if (op->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS || !layer) return;
    s->params.dy_row = (u32)layer->dy_row;
    s->y_bytes = layer->dy_row * sizeof(float);
    s->dy_at = layer->dy_first * sizeof(float);
}

static dpt_status prepare_layer(dpt_op *op, const tile *t, const dpt_conv2d_linear *layer)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    DPT_TRY(check_fits(op, t));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->tile = *t;
    s->params = params_of(d);
    s->params.activation = (u32)pass_of(op).activation;
    const size_t y_size = d->out_h * d->out_w * d->out_channels;
    s->x_bytes = d->in_h * d->in_w * d->in_channels * dpt_dtype_bytes(op->desc.type);
    s->y_bytes = y_size * dpt_dtype_bytes(op->desc.type);
    set_layer(op, s, layer);
    size_t rows;
    set_matrix(op, s, &rows);
    DPT_TRY(limit_launches(op, s, rows));
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD: op->plan.run = forward; break;
    case DPT_OP_CONV2D_BACKWARD_DATA: op->plan.run = backward_data; break;
    default:
        op->plan.run = op->deterministic ? run_grains : backward_weights;
        DPT_TRY(op->deterministic ? plan_grains(op, s) : plan_parts(op, s));
    }
    op->plan.flops = 2.0 * (double)y_size * (double)d->kernel_h * (double)d->kernel_w *
                     (double)(d->in_channels / d->groups);
    op->plan.exact = !t->is_tensor;
    op->plan.input_rounding = t->is_tensor ? dpt_traits_of(op->device)->input_rounding : 0.0;
    return get_kernel(op, s, &s->kernel);
}

static dpt_status prepare(dpt_op *op, const void *parameters)
{
    return prepare_layer(op, parameters, NULL);
}

#define TENSOR_TILE(name_, m_, n_, k_, reg_m_, reg_n_)                                             \
    {                                                                                              \
        .name = "tensor-" name_,                                                                   \
        .parameters =                                                                              \
            &(const tile){                                                                         \
                .m = m_, .n = n_, .k = k_, .reg_m = reg_m_, .reg_n = reg_n_, .is_tensor = true},   \
        .prepare = prepare,                                                                        \
    }

#define TILE(name_, m_, n_, k_, reg_m_, reg_n_)                                                    \
    {                                                                                              \
        .name = "local-" name_,                                                                    \
        .parameters = &(const tile){.m = m_, .n = n_, .k = k_, .reg_m = reg_m_, .reg_n = reg_n_},  \
        .prepare = prepare,                                                                        \
    }

/* A larger tile reads less from local and global memory for each product.  A smaller tile makes
   more groups, and fits small matrices and small devices. */
const dpt_alternative dpt_conv2d_local[] = {
    TILE("64x64x16", 64, 64, 16, 8, 4),     TILE("128x64x16", 128, 64, 16, 8, 8),
    TILE("128x128x8", 128, 128, 8, 8, 8),   TILE("64x64x8", 64, 64, 8, 8, 8),
    TILE("128x128x16", 128, 128, 16, 8, 8), TILE("128x32x8", 128, 32, 8, 8, 4),
    TILE("64x32x16", 64, 32, 16, 8, 4),     TILE("32x64x16", 32, 64, 16, 4, 8),
    TILE("32x32x16", 32, 32, 16, 4, 4),     TILE("64x16x16", 64, 16, 16, 4, 4),
    TILE("16x16x16", 16, 16, 16, 4, 4),     {.name = NULL},
};

const dpt_alternative dpt_conv2d_tensor[] = {
    TENSOR_TILE("64x64x16", 64, 64, 16, 4, 8),
    TENSOR_TILE("64x32x16", 64, 32, 16, 4, 4),
    {.name = NULL},
};

/* ---- Deterministic operators ----------------------------------------------------------------- */

/* Rows and columns of one group's matrix. */
typedef struct matrix {
    size_t rows, columns;
} matrix;

static matrix matrix_of(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t channels = d->in_channels / d->groups, filters = d->out_channels / d->groups;
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        return (matrix){dpt_size_mul(op->max_samples, d->out_h * d->out_w), filters};
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return (matrix){dpt_size_mul(op->max_samples, d->in_h * d->in_w), channels};
    default: return (matrix){filters, d->kernel_h * d->kernel_w * channels};
    }
}

enum { WIDE, MEDIUM, NARROW, FOUR_SUMS, ONE_SUM, ONE_LONG_SUM };
static const tile chain_tiles[] = {
    /* For many pixels or filters, */
    [WIDE] = {.m = 64, .n = 64, .k = 16, .reg_m = 8, .reg_n = 4},
    [MEDIUM] = {.m = 32, .n = 32, .k = 16, .reg_m = 4, .reg_n = 4},
    [NARROW] = {.m = 64, .n = 16, .k = 16, .reg_m = 4, .reg_n = 4},
    /* for fewer: four sums of an item, or one, */
    [FOUR_SUMS] = {.m = 32, .n = 32, .k = 32, .reg_m = 2, .reg_n = 2},
    [ONE_SUM] = {.m = 16, .n = 16, .k = 32, .reg_m = 1, .reg_n = 1},
    /* and for few with long sums. */
    [ONE_LONG_SUM] = {.m = 16, .n = 16, .k = 128, .reg_m = 1, .reg_n = 1},
};

/* The groups that compute the matrices of an operator, for the most samples. */
static size_t groups_of(const dpt_op *op, const tile *t)
{
    const matrix m = matrix_of(op);
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const size_t n = dpt_size_mul(dpt_ceil_div(m.rows, t->m), dpt_ceil_div(m.columns, t->n));
    return dpt_size_mul(dpt_size_mul(n, op->desc.u.conv2d.groups), weights ? DPT_MOST_GRAINS : 1);
}

/* The terms of a sum. */
static size_t terms_of(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t taps = d->kernel_h * d->kernel_w;
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD: return dpt_size_mul(taps, d->in_channels / d->groups);
    case DPT_OP_CONV2D_BACKWARD_DATA: return dpt_size_mul(taps, d->out_channels / d->groups);
    default:
        return dpt_size_mul(dpt_ceil_div(op->max_samples, DPT_MOST_GRAINS), d->out_h * d->out_w);
    }
}

/* The largest tile that leaves no unit of the device idle, or the smallest one.  The bits do not
   depend on it. */
static const tile *choose_tile(const dpt_op *op)
{
    const tile *t = chain_tiles;
    const dpt_traits *traits = dpt_traits_of(op->device);
    const size_t columns = matrix_of(op).columns, n_units = traits->n_units;
    const bool is_narrow = columns <= t[NARROW].n, is_wide = columns > t[MEDIUM].n;
    const tile *other = is_narrow ? &t[NARROW] : &t[MEDIUM];
    if (is_wide && groups_of(op, &t[WIDE]) >= n_units && fits(traits, &t[WIDE])) return &t[WIDE];
    if (groups_of(op, other) >= n_units * MIN_CHAIN_GROUPS) return other;
    if (!is_narrow && groups_of(op, &t[FOUR_SUMS]) >= n_units && fits(traits, &t[FOUR_SUMS]))
        return &t[FOUR_SUMS];
    if (terms_of(op) >= LONG_CHAIN && fits(traits, &t[ONE_LONG_SUM])) return &t[ONE_LONG_SUM];
    return fits(traits, &t[ONE_SUM]) ? &t[ONE_SUM] : other;
}

dpt_status dpt_conv2d_local_chains(dpt_op *op, const dpt_conv2d_linear *layer)
{
    const dpt_status status = prepare_layer(op, choose_tile(op), layer);
    op->plan.algorithm = "local chains";
    return status;
}
