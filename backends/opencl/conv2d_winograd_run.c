/* Enqueueing Winograd convolutions, one block of samples after the other. */
#include "conv2d_winograd.h"
#include "tables.h"

/* The data of a work item of the products, which stay in a second-level cache. */
static const size_t item_bytes = (size_t)256 << 10;
/* Work items of a group on devices without vectors. */
enum { GROUP_ITEMS = 64 };

static dpt_location space(const dpt_call *call, size_t offset_bytes)
{
    return dpt_at(call->args->workspace, offset_bytes);
}

/* The location of a block's first image. */
static dpt_location images_at(dpt_location images, const winograd_images *p, size_t first)
{
    if (!images.buffer) return images;
    return dpt_at(images, first * (size_t)p->image_stride * sizeof(float));
}

/* If channels are vectors, a row of chunks is one work item.  Otherwise neighbouring items are
   neighbouring channels. */
static dpt_status launch_rows(const dpt_cl_winograd *s, dpt_launch *launch, size_t n_chunks,
                              size_t n_rows)
{
    if (s->width > 1)
        return dpt_launch_groups(launch, (const size_t[3]){1, n_rows, 1},
                                 (const size_t[3]){1, 1, 1});
    size_t across = 1;
    while (across < GROUP_ITEMS && across < n_chunks)
        across *= 2;
    const size_t group[3] = {across, GROUP_ITEMS / across, 1};
    return dpt_launch_groups(
        launch,
        (const size_t[3]){dpt_ceil_div(n_chunks, group[0]), dpt_ceil_div(n_rows, group[1]), 1},
        group);
}

/* Completes the parameters for a block of samples, with rows in blocks of block_rows. */
static void fit(const dpt_cl_winograd *s, size_t n_samples, size_t block_rows,
                winograd_images *images)
{
    const size_t n_tiles = s->tiles_h * s->tiles_w * n_samples;
    const size_t n_rows = dpt_ceil_div(n_tiles, block_rows) * block_rows;
    images->n_tiles = (u32)n_tiles;
    images->n_rows = (u32)n_rows;
    images->layout.block_rows = (u32)block_rows;
    images->layout.point_stride = dpt_cl_winograd_stride(n_rows * images->layout.chunks * s->width);
}

/* ---- Forward and backward data --------------------------------------------------------------- */

static dpt_status transform_filters(const dpt_call *call, const dpt_cl_winograd *s)
{
    dpt_launch l = dpt_launch_begin(call->stream, s->transform_filters);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, call->args->in[1], DPT_F32);
    dpt_launch_value(&l, &s->filters, sizeof s->filters);
    const size_t n_chunks = s->filters.n_lanes / s->width;
    const size_t n_rows = s->filters.padded_depth / s->width;
    if (s->width == 1) return launch_rows(s, &l, n_chunks, n_rows);
    return dpt_launch_groups(&l, (const size_t[3]){n_chunks, n_rows, 1},
                             (const size_t[3]){1, 1, 1});
}

/* An image tensor, and the place of its transformed tiles. */
typedef struct transformed {
    dpt_location to, images;
} transformed;

/* Enqueues the kernel that transforms the tiles of an image tensor. */
static dpt_status transform_images(const dpt_call *call, dpt_kernel *kernel, transformed tensors,
                                   const winograd_images *p)
{
    const dpt_cl_winograd *s = call->op->plan.state;
    dpt_launch l = dpt_launch_begin(call->stream, kernel);
    dpt_launch_tensor(&l, tensors.to, DPT_F32);
    dpt_launch_tensor(&l, tensors.images, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    return launch_rows(s, &l, p->layout.chunks, p->n_rows);
}

dpt_cl_gemm_args dpt_cl_winograd_shape(const dpt_op *op, const dpt_cl_winograd *s, size_t n_samples)
{
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const size_t n_tiles = s->tiles_h * s->tiles_w * n_samples;
    const size_t source_stride = dpt_cl_winograd_stride(n_tiles * s->source_c);
    const size_t result_stride = dpt_cl_winograd_stride(n_tiles * s->result_c);
    return (dpt_cl_gemm_args){
        .m = weights ? s->result_c : n_tiles,
        .n = weights ? s->source_c : s->result_c,
        .k = weights ? n_tiles : s->source_c,
        .n_batches = s->points,
        .lda = weights ? s->result_c : s->source_c,
        .ldb = weights ? s->source_c : s->result_c,
        .ldc = weights ? s->source_c : s->result_c,
        .a_stride = weights ? result_stride : source_stride,
        .b_stride = weights ? source_stride : s->matrix_stride,
        .c_stride = weights ? s->matrix_stride : result_stride,
    };
}

static dpt_status run_gemm(const dpt_call *call, const dpt_cl_winograd *s, size_t n_samples,
                           bool accumulate)
{
    const bool weights = call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const dpt_location matrices = call->args->workspace;
    dpt_cl_gemm_args args = dpt_cl_winograd_shape(call->op, s, n_samples);
    args.a = space(call, weights ? s->results_at : s->source_at);
    args.b = weights ? space(call, s->source_at) : matrices;
    args.c = weights ? matrices : space(call, s->results_at);
    args.accumulate = accumulate;
    args.workspace = space(call, s->scratch_at);
    args.workspace_bytes = s->scratch_bytes;
    return dpt_cl_gemm_run(&s->gemm, call->stream, &args);
}

static dpt_status multiply(const dpt_call *call, const dpt_cl_winograd *s,
                           const winograd_images *source, const winograd_images *results)
{
    const size_t block_bytes = s->rows * s->source_c * sizeof(float);
    const size_t n_blocks = source->n_rows / s->rows;
    const size_t item_blocks = item_bytes / block_bytes > 0 ? item_bytes / block_bytes : 1;
    const winograd_product p = {
        .a_stride = source->layout.point_stride,
        .b_stride = s->matrix_stride,
        .c_stride = results->layout.point_stride,
        .blocks = (u32)n_blocks,
        .item_blocks = (u32)item_blocks,
        .depth_chunks = source->layout.chunks,
        .panels = (u32)(results->layout.chunks / s->panel),
    };
    dpt_launch l = dpt_launch_begin(call->stream, s->multiply);
    dpt_launch_tensor(&l, space(call, s->results_at), DPT_F32);
    dpt_launch_tensor(&l, space(call, s->source_at), DPT_F32);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l,
                             (const size_t[3]){dpt_ceil_div(n_blocks, item_blocks), s->points, 1},
                             (const size_t[3]){1, 1, 1});
}

static dpt_status transform_back(const dpt_call *call, const dpt_cl_winograd *s, size_t first,
                                 const winograd_images *p)
{
    const dpt_location none = {NULL, 0}, third = call->args->in[2];
    dpt_launch l = dpt_launch_begin(call->stream, s->transform_results);
    dpt_launch_tensor(&l, images_at(call->args->out[0], p, first), DPT_F32);
    dpt_launch_tensor(&l, space(call, s->results_at), DPT_F32);
    dpt_launch_tensor(&l, p->has_bias ? third : none, DPT_F32);
    dpt_launch_tensor(&l, p->mask ? images_at(third, p, first) : none, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    return launch_rows(s, &l, p->layout.chunks, p->n_tiles);
}

dpt_status dpt_cl_winograd_run(const dpt_call *call)
{
    const dpt_cl_winograd *s = call->op->plan.state;
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY(transform_filters(call, s));
    const size_t n_blocks = dpt_ceil_div(call->n_samples, s->block_samples);
    const size_t block = dpt_ceil_div(call->n_samples, n_blocks);
    for (size_t first = 0; first < call->n_samples; first += block) {
        const size_t left = call->n_samples - first, n = left < block ? left : block;
        winograd_images source = s->source, results = s->results;
        fit(s, n, s->rows, &source);
        fit(s, n, s->rows, &results);
        results.accumulate = call->accumulate;
        DPT_TRY(transform_images(
            call, s->transform_source,
            (transformed){space(call, s->source_at), images_at(call->args->in[0], &source, first)},
            &source));
        DPT_TRY(s->multiply ? multiply(call, s, &source, &results) : run_gemm(call, s, n, false));
        DPT_TRY(transform_back(call, s, first, &results));
    }
    return DPT_OK;
}

/* run_block as one kernel, whose transformed tensors exist in the scratch of its groups only. */
static dpt_status run_block_fused(const dpt_call *call, const dpt_cl_winograd *s, size_t first,
                                  size_t n_samples)
{
    const dpt_location none = {NULL, 0}, third = call->args->in[2];
    winograd_fusion p = s->fusion;
    p.source.n_tiles = p.results.n_tiles = (u32)(s->tiles_h * s->tiles_w * n_samples);
    p.results.accumulate = call->accumulate;
    const size_t n_turns = dpt_ceil_div(p.source.n_tiles, p.product.blocks * s->rows);
    const size_t n_groups = n_turns < s->most_groups ? n_turns : s->most_groups;
    dpt_launch l = dpt_launch_begin(call->stream, s->multiply);
    dpt_launch_tensor(&l, images_at(call->args->out[0], &p.results, first), DPT_F32);
    dpt_launch_tensor(&l, space(call, s->scratch_at), DPT_F32);
    dpt_launch_tensor(&l, images_at(call->args->in[0], &p.source, first), DPT_F32);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, p.results.has_bias ? third : none, DPT_F32);
    dpt_launch_tensor(&l, p.results.mask ? images_at(third, &p.results, first) : none, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){1, 1, 1});
}

dpt_status dpt_cl_winograd_run_fused(const dpt_call *call)
{
    const dpt_cl_winograd *s = call->op->plan.state;
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY(transform_filters(call, s));
    for (size_t first = 0; first < call->n_samples; first += s->block_samples) {
        const size_t left = call->n_samples - first;
        DPT_TRY(run_block_fused(call, s, first, left < s->block_samples ? left : s->block_samples));
    }
    return DPT_OK;
}

/* ---- Backward weights ------------------------------------------------------------------------ */

static dpt_status zero(const dpt_call *call, dpt_location to, size_t elements)
{
    return dpt_cl_memory_ops.fill(call->stream, to, 0, elements * sizeof(float));
}

static dpt_status add_products(const dpt_call *call, const winograd_images *source,
                               const winograd_images *results, bool accumulate)
{
    const dpt_cl_winograd *s = call->op->plan.state;
    const winograd_sum p = {
        .a_stride = results->layout.point_stride,
        .b_stride = source->layout.point_stride,
        .c_stride = s->matrix_stride,
        .n_rows = source->n_rows,
        .a_chunks = results->layout.chunks,
        .b_chunks = source->layout.chunks,
        .accumulate = accumulate,
    };
    dpt_launch l = dpt_launch_begin(call->stream, s->multiply);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, space(call, s->results_at), DPT_F32);
    dpt_launch_tensor(&l, space(call, s->source_at), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){p.a_chunks, s->points, 1},
                             (const size_t[3]){1, 1, 1});
}

static dpt_status transform_weights_back(const dpt_call *call, const dpt_cl_winograd *s)
{
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const winograd_weights p = {
        .point_stride = s->matrix_stride,
        .row_stride = (u32)s->source_c,
        .in_channels = (u32)d->in_channels,
        .out_channels = (u32)d->out_channels,
        .accumulate = call->accumulate,
    };
    dpt_launch l = dpt_launch_begin(call->stream, s->weights_back);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return launch_rows(s, &l, dpt_ceil_div(p.in_channels, s->width), p.out_channels);
}

static dpt_status sum_bias(const dpt_call *call, const dpt_cl_winograd *s)
{
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_column_sums_args args = {
        .rows = call->n_samples * d->out_h * d->out_w,
        .columns = d->out_channels,
        .x = call->args->in[0],
        .row = d->out_channels,
        .y = call->args->out[1],
        .accumulate = call->accumulate,
        .workspace = space(call, s->scratch_at),
    };
    return dpt_column_sums_run(&s->sums, call->stream, &args);
}

static dpt_status run_no_samples(const dpt_call *call)
{
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    if (call->accumulate) return DPT_OK;
    DPT_TRY(zero(call, call->args->out[0], 9 * d->out_channels * d->in_channels));
    return d->has_bias ? zero(call, call->args->out[1], d->out_channels) : DPT_OK;
}

dpt_status dpt_cl_winograd_run_weights(const dpt_call *call)
{
    const dpt_cl_winograd *s = call->op->plan.state;
    if (call->n_samples == 0) return run_no_samples(call);
    const size_t n_blocks = dpt_ceil_div(call->n_samples, s->block_samples);
    const size_t block = dpt_ceil_div(call->n_samples, n_blocks);
    for (size_t first = 0; first < call->n_samples; first += block) {
        const size_t left = call->n_samples - first, n = left < block ? left : block;
        const size_t n_tiles = s->tiles_h * s->tiles_w * n;
        winograd_images source = s->source, results = s->results;
        /* All rows are one block, because the product sums over them. */
        fit(s, n, s->multiply ? n_tiles : 1, &source);
        fit(s, n, s->multiply ? n_tiles : 1, &results);
        DPT_TRY(transform_images(
            call, s->transform_source,
            (transformed){space(call, s->source_at), images_at(call->args->in[1], &source, first)},
            &source));
        DPT_TRY(transform_images(call, s->transform_results,
                                 (transformed){space(call, s->results_at),
                                               images_at(call->args->in[0], &results, first)},
                                 &results));
        DPT_TRY(s->multiply ? add_products(call, &source, &results, first > 0)
                            : run_gemm(call, s, n, first > 0));
    }
    DPT_TRY(transform_weights_back(call, s));
    return call->op->desc.u.conv2d.has_bias ? sum_bias(call, s) : DPT_OK;
}
