/* Scaling a gradient whose norm is too large: launches of backends/kernels/clip_norm.cl.  The
   workspace holds the entries of the sum of squares, and behind them the factor. */
#include "clip_norm.h"
#include "clip_norm_fixed.h"
#include "grid.h"
#include "operators.h"

typedef struct clip_norm_state {
    dpt_kernel *chunks, *factor, *scale;
    size_t entries_bytes;
} clip_norm_state;

/* The gradient, as a matrix of one channel. */
static dpt_grid_matrix matrix_of(const dpt_op *op, dpt_grid_use use)
{
    return (dpt_grid_matrix){
        .use = use, .n_rows = op->desc.u.clip_norm.count, .channels = 1, .most_rows = SIZE_MAX};
}

static columns grid_of(const dpt_op *op, dpt_grid_use use)
{
    const dpt_grid_matrix matrix = matrix_of(op, use);
    return dpt_grid(op->device, &matrix);
}

static dpt_status enqueue_factor(const dpt_call *call, dpt_location factor)
{
    const clip_norm_state *s = call->op->plan.state;
    const columns grid = grid_of(call->op, DPT_GRID_TOTAL);
    dpt_launch chunks = dpt_launch_begin(call->stream, s->chunks);
    dpt_launch_tensor(&chunks, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&chunks, call->args->out[0], DPT_F32);
    dpt_launch_value(&chunks, &grid, sizeof grid);
    DPT_TRY(dpt_grid_launch(&chunks, &grid));

    const clip_norm_params params = {.merge = dpt_grid_merge(call->op->device, &grid, false),
                                     .max_norm = call->op->desc.u.clip_norm.max_norm};
    dpt_launch merge = dpt_launch_begin(call->stream, s->factor);
    dpt_launch_tensor(&merge, factor, DPT_F32);
    dpt_launch_tensor(&merge, call->args->workspace, DPT_F32);
    dpt_launch_value(&merge, &params, sizeof params);
    return dpt_grid_launch_merge(&merge, &params.merge);
}

enum { LANES = 16 }; /* of a deterministic sum: that of clip_norm_fixed.cl */

/* The same for a deterministic operator. */
static dpt_status enqueue_fixed_factor(const dpt_call *call, dpt_location factor)
{
    const clip_norm_state *s = call->op->plan.state;
    const dpt_clip_norm_desc *d = &call->op->desc.u.clip_norm;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    const clip_norm_fixed_params params = {.count = d->count, .max_norm = d->max_norm};
    dpt_launch blocks = dpt_launch_begin(call->stream, s->chunks);
    dpt_launch_tensor(&blocks, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&blocks, call->args->out[0], DPT_F32);
    dpt_launch_value(&blocks, &params, sizeof params);
    DPT_TRY(dpt_launch_rows(&blocks, dpt_ceil_div(d->count, CLIP_NORM_BLOCK), LANES));

    dpt_launch all = dpt_launch_begin(call->stream, s->factor);
    dpt_launch_tensor(&all, factor, DPT_F32);
    dpt_launch_tensor(&all, call->args->workspace, DPT_F32);
    dpt_launch_value(&all, &params, sizeof params);
    return dpt_launch_items(&all, group);
}

/* gradient, changed in place */
static dpt_status run_clip_norm(const dpt_call *call)
{
    const clip_norm_state *s = call->op->plan.state;
    const dpt_location factor = dpt_at(call->args->workspace, s->entries_bytes);
    const columns grid = grid_of(call->op, DPT_GRID_MAP);
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY((call->op->deterministic ? enqueue_fixed_factor : enqueue_factor)(call, factor));
    dpt_launch scale = dpt_launch_begin(call->stream, s->scale);
    dpt_launch_tensor(&scale, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&scale, factor, DPT_F32);
    dpt_launch_value(&scale, &grid, sizeof grid);
    return dpt_grid_launch(&scale, &grid);
}

/* Of a deterministic operator: only the sum of the squares differs. */
static dpt_status prepare_fixed(dpt_op *op, clip_norm_state *s)
{
    static const char file[] = "clip_norm_fixed.cl";
    const size_t n_blocks = dpt_ceil_div(op->desc.u.clip_norm.count, CLIP_NORM_BLOCK);
    s->entries_bytes = dpt_size_align(dpt_size_mul(n_blocks, sizeof(double)));
    op->plan.workspace_bytes = dpt_size_add(s->entries_bytes, DPT_ALIGNMENT_BYTES);
    op->plan.algorithm = "lanes";
    DPT_TRY(dpt_op_kernel(op, file, "dpt_clip_norm_blocks", &s->chunks));
    return dpt_op_kernel(op, file, "dpt_clip_norm_fixed_factor", &s->factor);
}

dpt_status dpt_prepare_clip_norm(dpt_op *op)
{
    static const char file[] = "clip_norm.cl";
    clip_norm_state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.run = run_clip_norm;
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_scale", &s->scale));
    if (op->deterministic) return prepare_fixed(op, s);
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_chunks", &s->chunks));
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_factor", &s->factor));
    const dpt_grid_matrix matrix = matrix_of(op, DPT_GRID_TOTAL);
    s->entries_bytes = dpt_size_align(dpt_grid_bytes(op->device, &matrix, 2));
    op->plan.workspace_bytes = dpt_size_add(s->entries_bytes, DPT_ALIGNMENT_BYTES);
    op->plan.algorithm = "chunks";
    return DPT_OK;
}
