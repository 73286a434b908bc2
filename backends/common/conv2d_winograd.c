/* Convolutions by Winograd's minimal filtering: the shapes that it serves, layouts and memory.

   F(4x4, 3x3) takes 36 multiplications where the direct way takes 144, F(2x2, 3x3) takes 16 for 36,
   F(3x3, 5x5) 49 for 225.  What they save, transforms and traffic eat in part.  Forward transforms
   tiles of the input, multiplies by the transformed filters and transforms back.  Backward-data is
   the adjoint of forward, or a forward with rotated filters.  Backward-weights has a tile of dy as
   the filter and a sum over all tiles. */
#include "conv2d_winograd.h"
#include "tree_params.h"

#include <stdio.h>

/* A larger sample, or larger filters, are refused.  winograd_rule.h has half of it as its limit:
   padding to whole vectors and panels may double the size. */
static const size_t most_bytes = (size_t)1 << 30;

/* ---- Shapes ---------------------------------------------------------------------------------- */

static size_t taps_of(size_t tile)
{
    return tile == 3 ? 5 : 3;
}

static dpt_status check_shape(const dpt_op *op, size_t taps)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (d->kernel_h == taps && d->kernel_w == taps && d->stride_h == 1 && d->stride_w == 1 &&
        d->dilation_h == 1 && d->dilation_w == 1 && d->groups == 1)
        return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                    "these Winograd convolutions are %zux%zu, stride 1, dilation 1, one group",
                    taps, taps);
}

size_t dpt_winograd_stride(size_t n)
{
    const size_t line = 16;
    return (dpt_ceil_div(n, line) | 1) * line;
}

static size_t round_to(size_t n, size_t unit)
{
    return dpt_size_mul(dpt_ceil_div(n, unit), unit);
}

/* ---- Geometry -------------------------------------------------------------------------------- */

/* The shape and the padding of images. */
typedef struct image_shape {
    size_t h, w, c, pad_h, pad_w;
} image_shape;

static void set_images(winograd_images *images, image_shape shape)
{
    images->height = (u32)shape.h;
    images->width = (u32)shape.w;
    images->channels = (u32)shape.c;
    images->image_stride = (u64)shape.h * shape.w * shape.c;
    images->pad_h = (i32)shape.pad_h;
    images->pad_w = (i32)shape.pad_w;
}

/* The images of the source and the results.  If backward-data is a forward, x and dy change places,
   and the padding may be negative. */
static void set_shapes(const dpt_op *op, dpt_winograd *w)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const image_shape x = {d->in_h, d->in_w, d->in_channels, d->pad_h, d->pad_w};
    const image_shape y = {d->out_h, d->out_w, d->out_channels, 0, 0};
    const bool backward = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    image_shape source = backward ? y : x, results = backward ? x : y;
    if (backward && !w->form.adjoint) {
        results.pad_h = results.pad_w = 0;
        source.pad_h = w->taps - 1 - d->pad_h;
        source.pad_w = w->taps - 1 - d->pad_w;
    }
    set_images(&w->source, source);
    set_images(&w->results, results);
    if (backward)
        w->results.mask = (u32)d->input_activation;
    else
        w->results.activation = (u32)d->activation;
    w->results.has_bias = !backward && d->has_bias;
}

static void set_geometry(const dpt_op *op, dpt_winograd *w)
{
    const dpt_winograd_form *f = &w->form;
    const winograd_images *tiled = f->adjoint ? &w->source : &w->results;
    const size_t tile = f->tile, panel = f->panel * f->width;
    w->tiles_h = dpt_ceil_div(tiled->height, tile);
    w->tiles_w = dpt_ceil_div(tiled->width, tile);
    w->source.tiles_h = w->results.tiles_h = (u32)w->tiles_h;
    w->source.tiles_w = w->results.tiles_w = (u32)w->tiles_w;
    w->results.regions_h = (u32)dpt_ceil_div(w->results.height + (size_t)w->results.pad_h, tile);
    w->results.regions_w = (u32)dpt_ceil_div(w->results.width + (size_t)w->results.pad_w, tile);
    w->source_c = round_to(w->source.channels, f->width);
    w->result_c = round_to(w->results.channels, f->width);
    if (op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS)
        w->source_c = round_to(w->source_c, panel);
    else
        w->result_c = round_to(w->result_c, panel);
    w->source.layout.chunks = (u32)(w->source_c / f->width);
    w->results.layout.chunks = (u32)(w->result_c / f->width);
}

/* Filters (out_channels, taps, taps, in_channels) as matrices (source, results). */
static void set_filters(const dpt_op *op, dpt_winograd *w)
{
    const dpt_winograd_form *f = &w->form;
    const u64 in_channels = op->desc.u.conv2d.in_channels, filter = w->taps * w->taps * in_channels;
    const bool backward = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    w->filters = (winograd_filters){
        .point_stride = w->matrix_stride,
        .lane_stride = backward ? 1 : filter,
        .depth_stride = backward ? filter : 1,
        .tap_stride = in_channels,
        .lanes = w->results.channels,
        .depth = w->source.channels,
        .n_lanes = (u32)w->result_c,
        .padded_depth = (u32)w->source_c,
        .panel_width = (u32)(f->width > 1 ? f->panel * f->width : w->result_c),
        .rotated = backward && !f->adjoint,
    };
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Bytes of a transformed tensor of n_samples. */
static size_t tensor_bytes(const dpt_winograd *w, size_t n_samples, size_t channels)
{
    const size_t tiles = dpt_size_mul(dpt_size_mul(w->tiles_h, w->tiles_w), n_samples);
    const size_t elements = dpt_size_mul(round_to(tiles, w->form.rows), channels);
    const size_t most = SIZE_MAX / 2;
    if (elements > most) return SIZE_MAX;
    return dpt_size_align(
        dpt_size_mul(dpt_size_mul(dpt_winograd_stride(elements), w->points), sizeof(float)));
}

static dpt_status set_blocks(const dpt_op *op, dpt_winograd *w)
{
    const size_t sample = tensor_bytes(w, 1, w->source_c + w->result_c);
    const size_t elements = dpt_size_mul(w->source_c, w->result_c);
    const size_t matrices = dpt_size_mul(dpt_size_mul(elements, w->points), sizeof(float));
    if (sample > most_bytes || matrices > most_bytes)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "Winograd's tiles or filters would take more than %zu MiB",
                        most_bytes >> 20);
    w->matrix_stride = dpt_winograd_stride(elements);
    /* Each block reads the matrices once. */
    const size_t room = matrices > w->form.block_bytes ? matrices : w->form.block_bytes;
    w->block_samples = room / sample > 0 ? room / sample : 1;
    if (w->block_samples > op->max_samples) w->block_samples = op->max_samples;
    return DPT_OK;
}

/* ---- Grains ---------------------------------------------------------------------------------- */

enum {
    MOST_SUMS = 64 << 20,      /* the most bytes of the sums of grains, but for those of one */
    MOST_GRADIENTS = 16 << 20, /* the most bytes of gradients that stand apart */
    GROUPS_PER_UNIT = 8,       /* groups that keep a compute unit busy, */
    GROUP_SIDE = 64,           /* of so many rows and columns of a product */
};

/* The sums of several grains keep a device busy where those of one would not. */
static size_t cuts_of(const dpt_op *op, const dpt_winograd *w)
{
    const size_t groups =
        w->points * dpt_ceil_div(w->source_c, GROUP_SIDE) * dpt_ceil_div(w->result_c, GROUP_SIDE);
    const size_t wanted = (size_t)dpt_traits_of(op->device)->n_units * GROUPS_PER_UNIT;
    const size_t n = dpt_ceil_div(wanted, groups);
    return n < DPT_MOST_GRAINS ? n : DPT_MOST_GRAINS;
}

static bool has_grains(const dpt_op *op, const dpt_winograd *w)
{
    return w->form.multiply_grains && op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
}

/* Plans the memory of the sums and gradients of grains.  *n_bytes: all of it. */
static dpt_status plan_grains(dpt_op *op, dpt_winograd *w, size_t *n_bytes)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    dpt_winograd_sums *g = &w->grains;
    g->n_weights = d->out_channels * w->taps * w->taps * d->in_channels;
    g->n_biases = d->has_bias ? d->out_channels : 0;
    g->grain_stride = w->matrix_stride * w->points;
    const bool always = w->form.sum_grains && w->form.few_tiles == 0;
    g->most = always ? 1 : DPT_MOST_GRAINS;
    while (g->most > 1 && g->most * g->grain_stride * sizeof(float) > MOST_SUMS)
        g->most /= 2;
    g->cuts = cuts_of(op, w);
    const size_t apart = DPT_MOST_GRAINS * g->n_weights * sizeof(float);
    g->is_tree = always || apart > MOST_GRADIENTS;
    g->weights_at = dpt_size_align(g->most * g->grain_stride * sizeof(float));
    g->biases_at = g->weights_at + (g->is_tree ? apart / DPT_MOST_GRAINS * TREE_LEVELS : apart);
    *n_bytes = dpt_size_add(g->biases_at, DPT_MOST_GRAINS * g->n_biases * sizeof(float));
    op->plan.has_grains = op->deterministic;
    return dpt_tree_prepare(op->device, &g->tree);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct wanted_kernel {
    const char *name;
    dpt_kernel **out;
} wanted_kernel;

static dpt_status get_kernels(const dpt_op *op, const dpt_winograd *w, const wanted_kernel *wanted)
{
    dpt_program_key key = {.file = "winograd_transform.cl"};
    int n =
        snprintf(key.options, sizeof key.options, "-DTILE=%zu -DTAPS=%zu", w->form.tile, w->taps);
    if (w->form.width > 1)
        snprintf(key.options + n, sizeof key.options - (size_t)n, " -DWIDTH=%zu", w->form.width);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    for (; wanted->name; wanted++)
        DPT_TRY(dpt_kernel_get(op->device, &key, wanted->name, wanted->out));
    return DPT_OK;
}

static dpt_status get_transforms(const dpt_op *op, dpt_winograd *w)
{
    const bool adjoint = w->form.adjoint && op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    const wanted_kernel of_results[] = {
        {adjoint ? "winograd_gradient" : "winograd_data", &w->transform_source},
        {"winograd_taps", &w->transform_filters},
        {adjoint ? "winograd_regions" : "winograd_results", &w->transform_results},
        {NULL, NULL}};
    const wanted_kernel of_weights[] = {{"winograd_data", &w->transform_source},
                                        {"winograd_gradient", &w->transform_results},
                                        {"winograd_weights_back", &w->weights_back},
                                        {op->deterministic ? "winograd_bias" : NULL, &w->bias},
                                        {NULL, NULL}};
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    return get_kernels(op, w, weights ? of_weights : of_results);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* F(2x2) multiplies by powers of two only, which is exact. */
static bool is_exact(const dpt_op *op, const dpt_winograd *w)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    return w->form.tile == 2 && (op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ||
                                 (forward ? d->activation : d->input_activation) <= DPT_ACT_RELU);
}

dpt_status dpt_winograd_prepare(dpt_op *op, const dpt_winograd_form *form, dpt_winograd *w)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    w->form = *form;
    w->form.adjoint = form->adjoint && op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    w->taps = taps_of(form->tile);
    w->points = (form->tile + w->taps - 1) * (form->tile + w->taps - 1);
    DPT_TRY(check_shape(op, w->taps));
    set_shapes(op, w);
    set_geometry(op, w);
    DPT_TRY(set_blocks(op, w));
    set_filters(op, w);
    op->plan.run = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ? dpt_winograd_run_weights
                                                                   : dpt_winograd_run;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) *
                     (double)(d->out_channels * w->taps * w->taps) * (double)d->in_channels;
    op->plan.exact = is_exact(op, w);
    op->plan.mixes = w->points;
    return DPT_OK;
}

/* Prepares the gradient of the bias.  *n_bytes: scratch, which the products use before. */
static dpt_status get_sums(const dpt_op *op, dpt_winograd *w, size_t *n_bytes)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (op->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS || !d->has_bias || op->deterministic)
        return DPT_OK;
    DPT_TRY(dpt_column_sums_prepare(op->device, DPT_F32, &w->sums));
    const size_t of_sums = dpt_column_sums_workspace(
        op->device, op->max_samples * d->out_h * d->out_w, d->out_channels);
    if (of_sums > *n_bytes) *n_bytes = of_sums;
    return DPT_OK;
}

dpt_status dpt_winograd_complete(dpt_op *op, dpt_winograd *w, size_t scratch_bytes, bool is_fused)
{
    DPT_TRY(get_sums(op, w, &scratch_bytes));
    size_t of_sums = w->matrix_stride * w->points * sizeof(float);
    if (has_grains(op, w)) DPT_TRY(plan_grains(op, w, &of_sums));
    w->source_at = dpt_size_align(of_sums);
    w->results_at = w->scratch_at = w->source_at;
    if (!is_fused) {
        w->results_at = w->source_at + tensor_bytes(w, w->block_samples, w->source_c);
        w->scratch_at = w->results_at + tensor_bytes(w, w->block_samples, w->result_c);
    }
    op->plan.workspace_bytes = w->scratch_at + scratch_bytes;
    return get_transforms(op, w);
}
