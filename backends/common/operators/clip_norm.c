/* Scaling a gradient whose norm is too large: launches of backends/kernels/clip_norm.cl.  The
   workspace holds the entries of the sum of squares, and behind them the factor. */
#include "clip_norm.h"
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

/* gradient, changed in place */
static dpt_status run_clip_norm(const dpt_call *call)
{
    const clip_norm_state *s = call->op->plan.state;
    const dpt_location factor = dpt_at(call->args->workspace, s->entries_bytes);
    const columns grid = grid_of(call->op, DPT_GRID_MAP);
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY(enqueue_factor(call, factor));
    dpt_launch scale = dpt_launch_begin(call->stream, s->scale);
    dpt_launch_tensor(&scale, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&scale, factor, DPT_F32);
    dpt_launch_value(&scale, &grid, sizeof grid);
    return dpt_grid_launch(&scale, &grid);
}

dpt_status dpt_prepare_clip_norm(dpt_op *op)
{
    static const char file[] = "clip_norm.cl";
    clip_norm_state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_chunks", &s->chunks));
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_factor", &s->factor));
    DPT_TRY(dpt_kernel_of(op->device, file, "dpt_clip_norm_scale", &s->scale));
    const dpt_grid_matrix matrix = matrix_of(op, DPT_GRID_TOTAL);
    s->entries_bytes = dpt_size_align(dpt_grid_bytes(op->device, &matrix, 2));
    op->plan.workspace_bytes = dpt_size_add(s->entries_bytes, DPT_ALIGNMENT_BYTES);
    op->plan.run = run_clip_norm;
    op->plan.algorithm = "chunks";
    return DPT_OK;
}
