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

dpt_location dpt_winograd_gradients(const dpt_call *call)
{
    return dpt_at(call->args->workspace, plan_of(call)->grains.weights_at);
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

/* The block of n_samples samples of a call from `first` on.  Vectors of backward-weights are one
   block of rows, because the product sums over the rows. */
static dpt_winograd_block block_of(const dpt_call *call, size_t first, size_t n_samples)
{
    const dpt_winograd *w = plan_of(call);
    const bool weights = call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    dpt_winograd_block b = {.call = call,
                            .first = first,
                            .n_samples = n_samples,
                            .source = w->source,
                            .results = w->results};
    const size_t n_tiles = w->tiles_h * w->tiles_w * n_samples;
    const size_t rows = weights && w->form.width > 1 ? n_tiles : w->form.rows;
    fit(w, n_samples, rows, &b.source);
    fit(w, n_samples, rows, &b.results);
    b.results.accumulate = call->accumulate;
    return b;
}

/* The block of a call that begins with a sample: all blocks have about the same size. */
static dpt_winograd_block block_at(const dpt_call *call, size_t first)
{
    const size_t n_blocks = dpt_ceil_div(call->n_samples, plan_of(call)->block_samples);
    const size_t most = dpt_ceil_div(call->n_samples, n_blocks), left = call->n_samples - first;
    return block_of(call, first, left < most ? left : most);
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

/* Grains of a call whose sums are complete. */
typedef struct ended_grains {
    size_t first, n;
    bool is_last; /* the call ends with them */
} ended_grains;

/* Whether the gradients of grains stand apart, until they are added up. */
static bool are_apart(const dpt_call *call)
{
    return dpt_grains_of(call) > 1 && !plan_of(call)->grains.is_tree;
}

static winograd_weights weights_of(const dpt_call *call, const ended_grains *ended)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_winograd_sums *g = &w->grains;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    return (winograd_weights){
        .point_stride = w->matrix_stride,
        .grain_stride = g->grain_stride,
        .part = g->n_weights,
        .row_stride = (u32)w->source_c,
        .in_channels = (u32)d->in_channels,
        .out_channels = (u32)d->out_channels,
        .n_grains = (u32)ended->n,
        .first = (u32)ended->first,
        .is_tree = dpt_grains_of(call) > 1 && g->is_tree,
        .is_last = ended->is_last,
        .accumulate = call->accumulate && !are_apart(call),
        .is_empty = call->n_samples == 0,
    };
}

static dpt_status transform_weights_back(const dpt_call *call, const ended_grains *ended)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_location none = {NULL, 0}, gradients = dpt_winograd_gradients(call);
    const winograd_weights p = weights_of(call, ended);
    dpt_launch l = dpt_launch_begin(call->stream, w->weights_back);
    dpt_launch_tensor(&l, are_apart(call) ? gradients : call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, p.is_tree ? gradients : none, DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_matrices(call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return launch_rows(w, &l, (size_t)p.out_channels * (p.is_tree ? 1 : p.n_grains),
                       dpt_ceil_div(p.in_channels, w->form.width));
}

/* Adds up gradients of all grains of a call. */
static dpt_status add_grains(const dpt_call *call, size_t at, size_t n, dpt_location to)
{
    const dpt_tree_parts parts = {
        .n = dpt_grains_of(call),
        .size = n,
        .count = n,
        .parts = dpt_at(call->args->workspace, at),
        .to = to,
        .accumulate = call->accumulate,
    };
    return dpt_tree_add(plan_of(call)->grains.tree, call->stream, &parts);
}

static dpt_status sum_bias_chains(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const size_t n_grains = dpt_grains_of(call), n_pixels = d->out_h * d->out_w;
    const bool is_one = n_grains == 1;
    const winograd_bias_params p = {
        .n_pixels = (u64)call->n_samples * n_pixels,
        .grain = (u64)dpt_grain_of(call) * n_pixels,
        .part = is_one ? 0 : w->grains.n_biases,
        .n_grains = (u32)n_grains,
        .channels = (u32)d->out_channels,
        .accumulate = is_one && call->accumulate,
    };
    const dpt_location parts = dpt_at(call->args->workspace, w->grains.biases_at);
    const bool vectors = w->form.width > 1;
    const size_t channels = vectors ? w->form.width : WINOGRAD_BIAS_CHANNELS;
    const size_t n_groups = n_grains * dpt_ceil_div(p.channels, channels);
    const size_t n_items = vectors ? 1 : dpt_traits_of(call->op->device)->group_size;
    dpt_launch l = dpt_launch_begin(call->stream, w->bias);
    dpt_launch_tensor(&l, is_one ? call->args->out[1] : parts, DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    DPT_TRY(
        dpt_launch_groups(&l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){n_items, 1, 1}));
    if (is_one) return DPT_OK;
    return add_grains(call, w->grains.biases_at, p.channels, call->args->out[1]);
}

static dpt_status sum_bias(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    if (call->op->deterministic) return sum_bias_chains(call);
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

/* All samples are one grain. */
static dpt_status sum_weights(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    for (size_t first = 0; first < call->n_samples;) {
        const dpt_winograd_block b = block_at(call, first);
        DPT_TRY(transform_source(&b, call->args->in[1]));
        DPT_TRY(transform_gradient(&b));
        DPT_TRY(w->form.multiply(&b));
        first += b.n_samples;
    }
    return transform_weights_back(call, &(const ended_grains){.n = 1, .is_last = true});
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Transforms a block of backward-weights. */
static dpt_status transform_block(const dpt_winograd_block *b)
{
    DPT_TRY(transform_source(b, b->call->args->in[1]));
    return transform_gradient(b);
}

/* Sums up a grain that is larger than a block. */
static dpt_status sum_large_grain(const dpt_call *call, size_t grain)
{
    const dpt_winograd *w = plan_of(call);
    const size_t size = dpt_grain_of(call), begin = grain * size;
    const size_t end = smaller(begin + size, call->n_samples);
    for (size_t first = begin; first < end;) {
        const dpt_winograd_block b = block_of(call, first, smaller(w->block_samples, end - first));
        const dpt_winograd_grains all = {
            .n = 1, .last = b.source.n_tiles, .resumes = first > begin};
        DPT_TRY(transform_block(&b));
        DPT_TRY(w->form.multiply_grains(&b, &all));
        first += b.n_samples;
    }
    const ended_grains ended = {.first = grain, .n = 1, .is_last = end == call->n_samples};
    return transform_weights_back(call, &ended);
}

/* Whether the form sums up the grains of a block at once. */
static bool sums_at_once(const dpt_winograd_block *b)
{
    const dpt_winograd *w = plan_of(b->call);
    const size_t tiles = dpt_grain_of(b->call) * w->tiles_h * w->tiles_w;
    const bool is_small = b->n_samples == b->call->n_samples && tiles <= w->form.few_tiles;
    return w->form.sum_grains && (w->form.few_tiles == 0 || is_small);
}

/* Sums up the grains of a block, which begins with grain `first`, some at a time. */
static dpt_status sum_grains(const dpt_winograd_block *b, size_t first)
{
    const dpt_call *call = b->call;
    const dpt_winograd *w = plan_of(call);
    const size_t size = dpt_grain_of(call), tiles = w->tiles_h * w->tiles_w;
    const size_t n_grains = dpt_ceil_div(b->n_samples, size);
    const bool at_once = sums_at_once(b);
    for (size_t i = 0; i < n_grains;) {
        const size_t n = at_once ? n_grains : smaller(w->grains.most, n_grains - i);
        const size_t behind = (n_grains - i - n) * size; /* samples that are behind these grains */
        const size_t last = i + n < n_grains ? size : b->n_samples - (i + n - 1) * size;
        const dpt_winograd_grains some = {
            .first = i * size * tiles, .n = n, .each = size * tiles, .last = last * tiles};
        const ended_grains ended = {.first = first + i,
                                    .n = n,
                                    .is_last =
                                        behind == 0 && b->first + b->n_samples == call->n_samples};
        i += n;
        if (at_once) {
            const winograd_weights p = weights_of(call, &ended);
            DPT_TRY(w->form.sum_grains(b, &some, &p));
            continue;
        }
        DPT_TRY(w->form.multiply_grains(b, &some));
        DPT_TRY(transform_weights_back(call, &ended));
    }
    return DPT_OK;
}

static dpt_status sum_all_grains(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    const size_t size = dpt_grain_of(call), n_grains = dpt_grains_of(call);
    const size_t in_block = w->block_samples / size; /* whole grains of a block */
    for (size_t grain = 0; grain < n_grains;) {
        if (in_block == 0) {
            DPT_TRY(sum_large_grain(call, grain));
            grain++;
            continue;
        }
        const size_t first = grain * size;
        const size_t n_samples = smaller(in_block * size, call->n_samples - first);
        const dpt_winograd_block b = block_of(call, first, n_samples);
        DPT_TRY(transform_block(&b));
        DPT_TRY(sum_grains(&b, grain));
        grain += in_block;
    }
    if (n_grains == 1 || w->grains.is_tree) return DPT_OK;
    return add_grains(call, w->grains.weights_at, w->grains.n_weights, call->args->out[0]);
}

/* Operators that are not deterministic have grains, too. */
static dpt_status sum_by_grains(const dpt_call *call)
{
    const dpt_winograd *w = plan_of(call);
    dpt_call cut = *call;
    if (!call->op->deterministic) cut.grain = dpt_ceil_div(call->n_samples, w->grains.cuts);
    return sum_all_grains(&cut);
}

dpt_status dpt_winograd_run_weights(const dpt_call *call)
{
    const bool grains = plan_of(call)->form.multiply_grains && call->n_samples > 0;
    DPT_TRY(grains ? sum_by_grains(call) : sum_weights(call));
    return call->op->desc.u.conv2d.has_bias ? sum_bias(call) : DPT_OK;
}
