/* Convolutions by Winograd's minimal filtering: the shapes that it serves, layouts and memory.

   F(4x4, 3x3) takes 36 multiplications where the direct way takes 144, F(2x2, 3x3) takes 16 for 36;
   what they save, transforms and traffic eat in part.  Forward and backward-data transform tiles of
   the input, multiply by the transformed filters and transform back; backward-weights is F(3x3,
   4x4) or F(3x3, 2x2), with a tile of dy as the filter and a sum over all tiles. */
#include "conv2d_winograd.h"

#include <string.h>

/* Transformed tiles of a block: on a CPU part of a third-level cache, on a GPU enough work. */
static const size_t block_bytes_cpu = (size_t)12 << 20, block_bytes_gpu = (size_t)256 << 20;
/* Transformed tiles of a fused work item, in a second-level cache beside filters. */
static const size_t fused_bytes = (size_t)384 << 10;
/* A larger sample, or larger filters, are refused. */
static const size_t most_bytes = (size_t)512 << 20;
/* With fewer channels, vectors are partly empty and transforms cost more than products. */
static const size_t least_channels = 16;

/* ---- Shapes ---------------------------------------------------------------------------------- */

static bool is_3x3(const dpt_conv2d_desc *d)
{
    return d->kernel_h == 3 && d->kernel_w == 3 && d->stride_h == 1 && d->stride_w == 1 &&
           d->dilation_h == 1 && d->dilation_w == 1 && d->groups == 1;
}

/* Whether algorithm= of the device names Winograd.  Tests do so, with any shape. */
static bool is_asked_for(const dpt_op *op)
{
    const char *name = dpt_cl_device_of(op->device)->params.algorithm;
    return name && strncmp(name, "winograd", 8) == 0;
}

static dpt_status check_shape(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (!is_3x3(d))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "Winograd convolutions are 3x3, stride 1, dilation 1, one group");
    if ((d->in_channels < least_channels || d->out_channels < least_channels) && !is_asked_for(op))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "too few channels for a Winograd convolution");
    return DPT_OK;
}

size_t dpt_cl_winograd_stride(size_t n)
{
    const size_t line = 16;
    return (dpt_ceil_div(n, line) | 1) * line;
}

static size_t round_to(size_t n, size_t unit)
{
    return dpt_size_mul(dpt_ceil_div(n, unit), unit);
}

/* Whether the product is the one in registers.  Otherwise rows and channels are a row-major matrix.
 */
static bool in_registers(const dpt_cl_winograd *s)
{
    return s->width > 1;
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

/* In backward-data, x and y change places, and the padding may be negative. */
static void set_geometry(const dpt_op *op, dpt_cl_winograd *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA) {
        set_images(&s->source,
                   (image_shape){d->out_h, d->out_w, d->out_channels, 2 - d->pad_h, 2 - d->pad_w});
        set_images(&s->results, (image_shape){d->in_h, d->in_w, d->in_channels, 0, 0});
        s->results.mask = (u32)d->input_activation;
    } else {
        set_images(&s->source, (image_shape){d->in_h, d->in_w, d->in_channels, d->pad_h, d->pad_w});
        set_images(&s->results, (image_shape){d->out_h, d->out_w, d->out_channels, 0, 0});
        s->results.activation = (u32)d->activation;
        s->results.has_bias = d->has_bias;
    }
    s->tiles_h = dpt_ceil_div(s->results.height, s->tile);
    s->tiles_w = dpt_ceil_div(s->results.width, s->tile);
    s->source.tiles_h = s->results.tiles_h = (u32)s->tiles_h;
    s->source.tiles_w = s->results.tiles_w = (u32)s->tiles_w;
    s->source_c = round_to(s->source.channels, s->width);
    s->result_c = round_to(s->results.channels, s->width);
    if (op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS)
        s->source_c = round_to(s->source_c, s->panel * s->width);
    else
        s->result_c = round_to(s->result_c, s->panel * s->width);
    s->source.layout.chunks = (u32)(s->source_c / s->width);
    s->results.layout.chunks = (u32)(s->result_c / s->width);
}

/* Filters (out_channels, 3, 3, in_channels) as matrices (source, results). */
static void set_filters(const dpt_op *op, dpt_cl_winograd *s)
{
    const u64 in_channels = op->desc.u.conv2d.in_channels;
    const bool backward = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    s->filters = (winograd_filters){
        .point_stride = s->matrix_stride,
        .lane_stride = backward ? 1 : 9 * in_channels,
        .depth_stride = backward ? 9 * in_channels : 1,
        .tap_stride = in_channels,
        .lanes = s->results.channels,
        .depth = s->source.channels,
        .n_lanes = (u32)s->result_c,
        .padded_depth = (u32)s->source_c,
        .panel_width = (u32)(in_registers(s) ? s->panel * s->width : s->result_c),
        .rotated = backward,
    };
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Bytes of a transformed tensor of n_samples. */
static size_t tensor_bytes(const dpt_cl_winograd *s, size_t n_samples, size_t channels)
{
    const size_t tiles = dpt_size_mul(dpt_size_mul(s->tiles_h, s->tiles_w), n_samples);
    const size_t elements = dpt_size_mul(round_to(tiles, s->rows), channels);
    const size_t most = SIZE_MAX / 2;
    if (elements > most) return SIZE_MAX;
    return dpt_size_align(
        dpt_size_mul(dpt_size_mul(dpt_cl_winograd_stride(elements), s->points), sizeof(float)));
}

static dpt_status set_blocks(dpt_op *op, dpt_cl_winograd *s)
{
    const size_t sample = tensor_bytes(s, 1, s->source_c + s->result_c);
    const size_t elements = dpt_size_mul(s->source_c, s->result_c);
    const size_t matrices = dpt_size_mul(dpt_size_mul(elements, s->points), sizeof(float));
    if (sample > most_bytes || matrices > most_bytes)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "Winograd's tiles or filters would take more than %zu MiB",
                        most_bytes >> 20);
    s->matrix_stride = dpt_cl_winograd_stride(elements);
    /* Each block reads the matrices once. */
    size_t room = in_registers(s) ? block_bytes_cpu : block_bytes_gpu;
    if (matrices > room) room = matrices;
    s->block_samples = room / sample > 0 ? room / sample : 1;
    if (s->block_samples > op->max_samples) s->block_samples = op->max_samples;
    return DPT_OK;
}

/* Plans the scratch of fused work items.  An item computes everything for several blocks of rows at
   once: at least two, because each time it reads the filters again. */
static dpt_status set_fusion(dpt_op *op, dpt_cl_winograd *s)
{
    winograd_fusion *f = &s->fusion;
    const size_t panel_c = s->panel * s->width;
    const size_t block_bytes = s->rows * s->points * (s->source_c + panel_c) * sizeof(float);
    const size_t blocks = fused_bytes / block_bytes > 2 ? fused_bytes / block_bytes : 2;
    const size_t n_rows = blocks * s->rows;
    f->product = (winograd_product){
        .a_stride = dpt_cl_winograd_stride(n_rows * s->source_c),
        .b_stride = s->matrix_stride,
        .c_stride = dpt_cl_winograd_stride(n_rows * panel_c),
        .blocks = (u32)blocks,
        .depth_chunks = (u32)(s->source_c / s->width),
        .panels = (u32)(s->result_c / panel_c),
    };
    f->source = s->source;
    f->source.layout.block_rows = (u32)s->rows;
    f->source.layout.point_stride = f->product.a_stride;
    f->results = s->results;
    f->results.layout = (winograd_layout){
        .point_stride = f->product.c_stride, .block_rows = (u32)s->rows, .chunks = (u32)s->panel};
    f->group_stride = s->points * (f->product.a_stride + f->product.c_stride);
    /* More groups than cores, because cores are not equally fast. */
    s->most_groups = 4 * (size_t)dpt_cl_device_of(op->device)->found->compute_units;
    s->scratch_bytes = s->most_groups * (size_t)f->group_stride * sizeof(float);
    const size_t most_tiles = (size_t)1 << 30;
    s->block_samples = most_tiles / (s->tiles_h * s->tiles_w);
    if (s->block_samples == 0 || s->scratch_bytes > most_bytes)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "Winograd's tiles would take more than %zu MiB", most_bytes >> 20);
    return DPT_OK;
}

static void set_workspace(dpt_op *op, dpt_cl_winograd *s)
{
    s->source_at = dpt_size_align(s->matrix_stride * s->points * sizeof(float));
    s->results_at = s->scratch_at = s->source_at;
    if (s->most_groups == 0) {
        s->results_at = s->source_at + tensor_bytes(s, s->block_samples, s->source_c);
        s->scratch_at = s->results_at + tensor_bytes(s, s->block_samples, s->result_c);
    }
    op->plan.workspace_bytes = s->scratch_at + s->scratch_bytes;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct wanted_kernel {
    const char *name;
    dpt_kernel **out;
} wanted_kernel;

static dpt_status get_kernels(dpt_op *op, const dpt_program_key *key, const wanted_kernel *wanted,
                              size_t n)
{
    for (size_t i = 0; i < n; i++)
        DPT_TRY(dpt_kernel_get(op->device, key, wanted[i].name, wanted[i].out));
    return DPT_OK;
}

static dpt_status get_transforms(dpt_op *op, dpt_cl_winograd *s)
{
    dpt_program_key key = {.file = "winograd_transform.cl"};
    snprintf(key.options, sizeof key.options, "-DTILE=%zu -DWIDTH=%zu", s->tile, s->width);
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const wanted_kernel of_results[] = {{"winograd_data", &s->transform_source},
                                        {"winograd_taps", &s->transform_filters},
                                        {"winograd_results", &s->transform_results}};
    const wanted_kernel of_weights[] = {{"winograd_data", &s->transform_source},
                                        {"winograd_gradient", &s->transform_results},
                                        {"winograd_weights_back", &s->weights_back}};
    if (weights) return get_kernels(op, &key, of_weights, sizeof of_weights / sizeof *of_weights);
    return get_kernels(op, &key, of_results, sizeof of_results / sizeof *of_results);
}

/* Prepares the product in registers, or one of gemm.h for blocks of the most samples. */
static dpt_status get_product(dpt_op *op, dpt_cl_winograd *s, const char *tile)
{
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    if (!tile) {
        dpt_program_key key = {.file = "winograd_product.cl"};
        snprintf(key.options, sizeof key.options, "-DWIDTH=%zu -DROWS=%zu -DPANEL=%zu", s->width,
                 s->rows, s->panel);
        return dpt_kernel_get(op->device, &key, weights ? "winograd_add" : "winograd_multiply",
                              &s->multiply);
    }
    const dpt_cl_gemm_tile *const *item = dpt_cl_gemm_tiles;
    while (*item && strcmp(dpt_cl_gemm_tile_name(*item), tile) != 0)
        item++;
    if (!*item) return DPT_FAIL(&op->device->error, DPT_E_INTERNAL, "no product %s", tile);
    const dpt_cl_gemm_form form = {.a_transposed = weights};
    DPT_TRY(dpt_cl_gemm_prepare(op->device, form, *item, &s->gemm));
    const dpt_cl_gemm_args shape = dpt_cl_winograd_shape(op, s, s->block_samples);
    return dpt_cl_gemm_divide(op->device, &s->gemm, &shape, &s->scratch_bytes);
}

static dpt_status get_fused(dpt_op *op, dpt_cl_winograd *s)
{
    dpt_program_key key = {.file = "winograd_fused.cl"};
    snprintf(key.options, sizeof key.options, "-DTILE=%zu -DWIDTH=%zu -DROWS=%zu -DPANEL=%zu",
             s->tile, s->width, s->rows, s->panel);
    return dpt_kernel_get(op->device, &key, "winograd_fused", &s->multiply);
}

static dpt_status get_sums(dpt_op *op, dpt_cl_winograd *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (op->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS || !d->has_bias) return DPT_OK;
    DPT_TRY(dpt_column_sums_prepare(op->device, DPT_F32, &s->sums));
    const size_t n_bytes = dpt_column_sums_workspace(
        op->device, op->max_samples * d->out_h * d->out_w, d->out_channels);
    if (n_bytes > s->scratch_bytes) s->scratch_bytes = n_bytes;
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static void set_vectors(const dpt_op *op, dpt_cl_winograd *s, bool registers)
{
    const unsigned width = dpt_cl_device_of(op->device)->found->vector_width;
    s->width = !registers ? 1 : width >= 16 ? 16 : width >= 8 ? 8 : 4;
    /* As many rows as the registers hold beside a row of the panel: 32 registers with AVX-512, else
       16. */
    s->rows = !registers ? 1 : s->width == 16 ? 12 : 6;
    s->panel = registers ? 2 : 1;
}

/* F(2x2) multiplies by powers of two only, which is exact. */
static bool is_exact(const dpt_op *op, const dpt_cl_winograd *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    return s->tile == 2 && (op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ||
                            (forward ? d->activation : d->input_activation) <= DPT_ACT_RELU);
}

static dpt_status prepare(dpt_op *op, const void *parameters)
{
    const dpt_cl_winograd_method *method = parameters;
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    DPT_TRY(check_shape(op));
    if (method->fused && op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "backward-weights is not fused: its sums do not fit a core's cache");
    dpt_cl_winograd *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->tile = method->tile;
    s->points = (s->tile + 2) * (s->tile + 2);
    set_vectors(op, s, !method->product);
    set_geometry(op, s);
    DPT_TRY(set_blocks(op, s));
    set_filters(op, s);
    if (method->fused) DPT_TRY(set_fusion(op, s));
    DPT_TRY(get_transforms(op, s));
    DPT_TRY(method->fused ? get_fused(op, s) : get_product(op, s, method->product));
    DPT_TRY(get_sums(op, s));
    set_workspace(op, s);
    op->plan.run = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ? dpt_cl_winograd_run_weights
                   : method->fused                                 ? dpt_cl_winograd_run_fused
                                                                   : dpt_cl_winograd_run;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) * (double)(d->out_channels * 9) *
                     (double)d->in_channels;
    op->plan.exact = is_exact(op, s);
    op->plan.mixes = s->points;
    return DPT_OK;
}

#define FUSED(TILE)                                                                                \
    &(const dpt_cl_winograd_method)                                                                \
    {                                                                                              \
        .tile = (TILE), .fused = true                                                              \
    }
#define METHOD(TILE, PRODUCT)                                                                      \
    &(const dpt_cl_winograd_method)                                                                \
    {                                                                                              \
        .tile = (TILE), .product = (PRODUCT)                                                       \
    }
const dpt_alternative dpt_cl_conv2d_winograd[] = {
    {.name = "winograd4-fused-registers", .parameters = FUSED(4), .prepare = prepare},
    {.name = "winograd4-registers", .parameters = METHOD(4, NULL), .prepare = prepare},
    {.name = "winograd2-fused-registers", .parameters = FUSED(2), .prepare = prepare},
    {.name = "winograd2-registers", .parameters = METHOD(2, NULL), .prepare = prepare},
    {.name = "winograd4-local-64x64", .parameters = METHOD(4, "local-64x64"), .prepare = prepare},
    {.name = "winograd4-local-128x128",
     .parameters = METHOD(4, "local-128x128"),
     .prepare = prepare},
    {.name = "winograd2-local-64x64", .parameters = METHOD(2, "local-64x64"), .prepare = prepare},
    {.name = NULL},
};
