/* Enqueueing Winograd convolutions, one block of samples after the other. */
#include "conv2d_winograd.h"

/* ---- Places ---------------------------------------------------------------------------------- */

static const dpt_winograd *plan_of(const dpt_call *call)
{
    return call->op->plan.state;
}

dpt_location dpt_winograd_matrices(const dpt_call *call)
{
    return call->args->workspace;
}

dpt_location dpt_winograd_source(const dpt_call *call)
{
    return dpt_at(call->args->workspace, plan_of(call)->source_at);
}

dpt_location dpt_winograd_results(const dpt_call *call)
{
    return dpt_at(call->args->workspace, plan_of(call)->results_at);
}

dpt_location dpt_winograd_images_at(dpt_location tensor, const winograd_images *images,
                                    size_t first)
{
    if (!tensor.buffer) return tensor;
    return dpt_at(tensor, first * (size_t)images->image_stride * sizeof(float));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* If channels are vectors, a row of chunks is one work item.  Otherwise neighbouring items are
   neighbouring channels. */
static dpt_status launch_rows(const dpt_winograd *w, dpt_launch *launch, size_t n_rows,
                              size_t n_chunks)
{
    if (w->form.width == 1) return dpt_launch_items(launch, n_rows * n_chunks);
    return dpt_launch_groups(launch, (const size_t[3]){n_rows, 1, 1}, (const size_t[3]){1, 1, 1});
}

/* Completes the parameters for a block of samples, with rows in blocks of block_rows. */
static void fit(const dpt_winograd *w, size_t n_samples, size_t block_rows, winograd_images *images)
{
    const size_t n_tiles = w->tiles_h * w->tiles_w * n_samples;
    const size_t n_rows = dpt_ceil_div(n_tiles, block_rows) * block_rows;
    images->n_tiles = (u32)n_tiles;
    images->n_rows = (u32)n_rows;
    images->layout.block_rows = (u32)block_rows;
    images->layout.point_stride =
        dpt_winograd_stride(n_rows * images->layout.chunks * w->form.width);
}

/* The block of a call that begins with a sample: all blocks have about the same size.  Vectors of
   backward-weights are one block of rows, because the product sums over the rows. */
static dpt_winograd_block block_at(const dpt_call *call, size_t first)
{
    const dpt_winograd *w = plan_of(call);
    const bool weights = call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const size_t n_blocks = dpt_ceil_div(call->n_samples, w->block_samples);
    const size_t most = dpt_ceil_div(call->n_samples, n_blocks), left = call->n_samples - first;
    dpt_winograd_block b = {.call = call,
                            .first = first,
                            .n_samples = left < most ? left : most,
                            .source = w->source,
                            .results = w->results};
    const size_t n_tiles = w->tiles_h * w->tiles_w * b.n_samples;
    const size_t rows = weights && w->form.width > 1 ? n_tiles : w->form.rows;
    fit(w, b.n_samples, rows, &b.source);
    fit(w, b.n_samples, rows, &b.results);
    b.results.accumulate = call->accumulate;
    return b;
}

/* ---- Transforms ------------------------------------------------------------------------------ */

dpt_status dpt_winograd_transform_filters(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const size_t n_lanes = w->filters.n_lanes / w->form.width;
    const size_t n_depths = w->filters.padded_depth / w->form.width;
    dpt_launch l = dpt_launch_begin(call->stream, w->transform_filters);
    dpt_launch_tensor(&l, dpt_winograd_matrices(call), DPT_F32);
    dpt_launch_tensor(&l, call->args->in[1], DPT_F32);
    dpt_launch_value(&l, &w->filters, sizeof w->filters);
    if (w->form.width == 1) return dpt_launch_items(&l, n_lanes * n_depths);
    return dpt_launch_groups(&l, (const size_t[3]){n_lanes, n_depths, 1},
                             (const size_t[3]){1, 1, 1});
}

static dpt_status transform_source(const dpt_winograd_block *b, dpt_location images)
{
    const dpt_winograd *w = plan_of(b->call);
    dpt_launch l = dpt_launch_begin(b->call->stream, w->transform_source);
    dpt_launch_tensor(&l, dpt_winograd_source(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_images_at(images, &b->source, b->first), DPT_F32);
    dpt_launch_value(&l, &b->source, sizeof b->source);
    return launch_rows(w, &l, b->source.n_rows, b->source.layout.chunks);
}

/* Transforms dy of backward-weights. */
static dpt_status transform_gradient(const dpt_winograd_block *b)
{
    const dpt_winograd *w = plan_of(b->call);
    dpt_launch l = dpt_launch_begin(b->call->stream, w->transform_results);
    dpt_launch_tensor(&l, dpt_winograd_results(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_images_at(b->call->args->in[0], &b->results, b->first),
                      DPT_F32);
    dpt_launch_value(&l, &b->results, sizeof b->results);
    return launch_rows(w, &l, b->results.n_rows, b->results.layout.chunks);
}

/* Transforms products back to y or dx. */
static dpt_status transform_back(const dpt_winograd_block *b)
{
    const dpt_winograd *w = plan_of(b->call);
    const winograd_images *p = &b->results;
    const dpt_location none = {NULL, 0}, third = b->call->args->in[2];
    const size_t n_chunks = dpt_ceil_div(p->channels, w->form.width);
    dpt_launch l = dpt_launch_begin(b->call->stream, w->transform_results);
    dpt_launch_tensor(&l, dpt_winograd_images_at(b->call->args->out[0], p, b->first), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_results(b->call), DPT_F32);
    if (!w->form.adjoint) dpt_launch_tensor(&l, p->has_bias ? third : none, DPT_F32);
    dpt_launch_tensor(&l, p->mask ? dpt_winograd_images_at(third, p, b->first) : none, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    return launch_rows(w, &l, w->form.adjoint ? b->n_samples * p->regions_h : p->n_tiles, n_chunks);
}

/* ---- Forward and backward data --------------------------------------------------------------- */

dpt_status dpt_winograd_run(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY(dpt_winograd_transform_filters(call));
    for (size_t first = 0; first < call->n_samples;) {
        const dpt_winograd_block b = block_at(call, first);
        DPT_TRY(transform_source(&b, call->args->in[0]));
        DPT_TRY(w->form.multiply(&b));
        DPT_TRY(transform_back(&b));
        first += b.n_samples;
    }
    return DPT_OK;
}

/* ---- Backward weights ------------------------------------------------------------------------ */

static dpt_status transform_weights_back(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const winograd_weights p = {
        .point_stride = w->matrix_stride,
        .row_stride = (u32)w->source_c,
        .in_channels = (u32)d->in_channels,
        .out_channels = (u32)d->out_channels,
        .accumulate = call->accumulate,
        .is_empty = call->n_samples == 0,
    };
    dpt_launch l = dpt_launch_begin(call->stream, w->weights_back);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_matrices(call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return launch_rows(w, &l, p.out_channels, dpt_ceil_div(p.in_channels, w->form.width));
}

static dpt_status sum_bias_chain(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const winograd_bias_params p = {
        .n_pixels = (u64)call->n_samples * d->out_h * d->out_w,
        .channels = (u32)d->out_channels,
        .accumulate = call->accumulate,
    };
    dpt_launch l = dpt_launch_begin(call->stream, w->bias);
    dpt_launch_tensor(&l, call->args->out[1], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return launch_rows(w, &l, dpt_ceil_div(p.channels, w->form.width), 1);
}

static dpt_status sum_bias(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    if (call->op->deterministic) return sum_bias_chain(call);
    const dpt_column_sums_args args = {
        .rows = call->n_samples * d->out_h * d->out_w,
        .columns = d->out_channels,
        .x = call->args->in[0],
        .row = d->out_channels,
        .y = call->args->out[1],
        .accumulate = call->accumulate,
        .workspace = dpt_at(call->args->workspace, w->scratch_at),
    };
    return dpt_column_sums_run(&w->sums, call->stream, &args);
}

dpt_status dpt_winograd_run_weights(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    for (size_t first = 0; first < call->n_samples;) {
        const dpt_winograd_block b = block_at(call, first);
        DPT_TRY(transform_source(&b, call->args->in[1]));
        DPT_TRY(transform_gradient(&b));
        DPT_TRY(w->form.multiply(&b));
        first += b.n_samples;
    }
    DPT_TRY(transform_weights_back(call));
    return call->op->desc.u.conv2d.has_bias ? sum_bias(call) : DPT_OK;
}
