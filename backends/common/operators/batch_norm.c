/* Batch-norm: launches of backends/kernels/batch_norm.cl.  A reduction takes two kernels.  The
   first one leaves entries in the workspace, and the second one adds them up. */
#include "batch_norm.h"
#include "grid.h"
#include "norm_fixed.h"
#include "operators.h"
#include "tree.h"

typedef struct batch_norm_state {
    dpt_kernel *first, *second; /* second: of a reduction, else NULL */
    dpt_norm_fixed fixed;       /* of a deterministic reduction */
} batch_norm_state;

static const dpt_batch_norm_desc *desc_of(const dpt_call *call)
{
    return &call->op->desc.u.batch_norm;
}

static columns grid_of(const dpt_call *call, dpt_grid_use use)
{
    const dpt_batch_norm_desc *d = desc_of(call);
    const dpt_grid_matrix matrix = {.use = use,
                                    .n_rows = call->n_samples * d->area,
                                    .channels = d->channels,
                                    .most_rows = SIZE_MAX};
    return dpt_grid(call->op->device, &matrix);
}

/* The use of a reduction that reads this many tensors of activations. */
static dpt_grid_use join_of(const dpt_op *op, size_t n_tensors)
{
    const size_t n_bytes = n_tensors * dpt_dtype_bytes(op->desc.type);
    if (n_bytes > 4) return DPT_GRID_WIDE_JOIN_8;
    return n_bytes > 2 ? DPT_GRID_WIDE_JOIN_4 : DPT_GRID_WIDE_JOIN_2;
}

/* ---- Statistics ------------------------------------------------------------------------------ */

/* x -> part */
static dpt_status run_partial(const dpt_call *call)
{
    const batch_norm_state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const columns grid = grid_of(call, join_of(call->op, 1));
    dpt_launch chunks = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&chunks, args->workspace, DPT_F32);
    dpt_launch_tensor(&chunks, args->in[0], call->op->desc.type);
    dpt_launch_value(&chunks, &grid, sizeof grid);
    DPT_TRY(dpt_grid_launch(&chunks, &grid));

    const columns_merge merge = dpt_grid_merge(call->op->device, &grid, false);
    dpt_launch part = dpt_launch_begin(call->stream, s->second);
    dpt_launch_tensor(&part, args->out[0], DPT_F32);
    dpt_launch_tensor(&part, args->workspace, DPT_F32);
    dpt_launch_value(&part, &merge, sizeof merge);
    return dpt_grid_launch_merge(&part, &merge);
}

static batch_norm_merge_params merge_params(const dpt_call *call)
{
    const dpt_batch_norm_desc *d = desc_of(call);
    return (batch_norm_merge_params){.n_samples = call->n_samples,
                                     .grain = dpt_grain_of(call),
                                     .channels = (u32)d->channels,
                                     .n_parts = (u32)d->n_parts,
                                     .epsilon = d->epsilon,
                                     .accumulate = call->accumulate};
}

/* parts -> moments, mean, variance */
static dpt_status run_merge(const dpt_call *call)
{
    const batch_norm_state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const batch_norm_merge_params params = merge_params(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->first);
    for (size_t i = 0; i < 3; i++)
        dpt_launch_tensor(&l, args->out[i], DPT_F32);
    dpt_launch_tensor(&l, args->in[0], DPT_F32);
    dpt_launch_tensor(&l, args->step, DPT_U32);
    dpt_launch_value(&l, &params, sizeof params);
    return dpt_launch_items(&l, params.channels);
}

/* mean, variance -> moments */
static dpt_status run_freeze(const dpt_call *call)
{
    const batch_norm_state *s = call->op->plan.state;
    const batch_norm_merge_params params = merge_params(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[1], DPT_F32);
    dpt_launch_value(&l, &params, sizeof params);
    return dpt_launch_items(&l, params.channels);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static batch_norm_params params_of(const dpt_call *call, columns grid, dpt_activation activation)
{
    const dpt_batch_norm_desc *d = desc_of(call);
    return (batch_norm_params){.grid = grid,
                               .activation = activation,
                               .has_residual = d->has_residual,
                               .n_parts = (u32)d->n_parts,
                               .accumulate = call->accumulate,
                               .masks = d->output_activation != DPT_ACT_NONE};
}

/* Enqueues a kernel that writes a result for every element.  dtypes (n_in): of the inputs. */
static dpt_status run_map(const dpt_call *call, size_t n_in, const dpt_dtype *dtypes,
                          dpt_activation activation)
{
    const batch_norm_state *s = call->op->plan.state;
    const batch_norm_params params = params_of(call, grid_of(call, DPT_GRID_WIDE_MAP), activation);
    dpt_launch l = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    for (size_t i = 0; i < n_in; i++)
        dpt_launch_tensor(&l, call->args->in[i], dtypes[i]);
    dpt_launch_value(&l, &params, sizeof params);
    return dpt_grid_launch(&l, &params.grid);
}

/* x, moments, w, b, [residual] -> y */
static dpt_status run_forward(const dpt_call *call)
{
    const dpt_dtype t = call->op->desc.type;
    return run_map(call, 5, (const dpt_dtype[]){t, DPT_F32, DPT_F32, DPT_F32, t},
                   desc_of(call)->activation);
}

/* dy, x, moments, w, parts, [b] -> dx */
static dpt_status run_backward_data(const dpt_call *call)
{
    const dpt_dtype t = call->op->desc.type;
    return run_map(call, 6, (const dpt_dtype[]){t, t, DPT_F32, DPT_F32, DPT_F32, DPT_F32},
                   desc_of(call)->input_activation);
}

/* ---- A part of backward ---------------------------------------------------------------------- */

/* dy, x, moments, [w, b] -> part, dw, db */
static dpt_status run_backward_partial(const dpt_call *call)
{
    const batch_norm_state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const columns grid = grid_of(call, join_of(call->op, 2));
    const batch_norm_params params = params_of(call, grid, DPT_ACT_NONE);
    dpt_launch chunks = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&chunks, args->workspace, DPT_F32);
    for (size_t i = 0; i < 5; i++) /* dy, x, moments, w, b */
        dpt_launch_tensor(&chunks, args->in[i], i < 2 ? call->op->desc.type : DPT_F32);
    dpt_launch_value(&chunks, &params, sizeof params);
    DPT_TRY(dpt_grid_launch(&chunks, &grid));

    const columns_merge merge = dpt_grid_merge(call->op->device, &grid, call->accumulate);
    dpt_launch part = dpt_launch_begin(call->stream, s->second);
    for (size_t i = 0; i < 3; i++)
        dpt_launch_tensor(&part, args->out[i], DPT_F32);
    dpt_launch_tensor(&part, args->workspace, DPT_F32);
    dpt_launch_tensor(&part, args->in[2], DPT_F32);
    dpt_launch_value(&part, &merge, sizeof merge);
    return dpt_grid_launch_merge(&part, &merge);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

typedef struct batch_norm_kind {
    dpt_op_run *run;
    const char *first, *second; /* kernels; second may be NULL */
    /* Of a reduction: the tensors of activations that it reads, and the floats of an entry.  0 for
       kernels that write a result for every element. */
    size_t n_tensors, n_floats;
    bool exact;
} batch_norm_kind;

static batch_norm_kind kind_of(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_BATCH_NORM_PARTIAL:
        return (batch_norm_kind){run_partial, "dpt_batch_norm_chunks", "dpt_batch_norm_part", 1, 3,
                                 false};
    case DPT_OP_BATCH_NORM_MERGE:
        return (batch_norm_kind){run_merge, "dpt_batch_norm_merge", NULL, 0, 0, false};
    case DPT_OP_BATCH_NORM_FREEZE:
        return (batch_norm_kind){run_freeze, "dpt_batch_norm_freeze", NULL, 0, 0, false};
    case DPT_OP_BATCH_NORM_FORWARD:
        return (batch_norm_kind){run_forward, "dpt_batch_norm_forward", NULL, 0, 0, true};
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL:
        return (batch_norm_kind){run_backward_partial,
                                 "dpt_batch_norm_backward_chunks",
                                 "dpt_batch_norm_backward_part",
                                 2,
                                 2,
                                 true};
    default:
        return (batch_norm_kind){
            run_backward_data, "dpt_batch_norm_backward_data", NULL, 0, 0, true};
    }
}

/* ---- Deterministic operators ----------------------------------------------------------------- */

static dpt_status run_fixed(const dpt_call *call)
{
    const batch_norm_state *s = call->op->plan.state;
    return dpt_norm_fixed_run(&s->fixed, call);
}

/* Sums over samples. */
static dpt_status prepare_fixed(dpt_op *op, const dpt_norm_fixed_kind *kind)
{
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    batch_norm_state *s = op->plan.state;
    s->fixed.kind = kind;
    s->fixed.params = (norm_fixed_params){.rows = (u32)d->area,
                                          .channels = (u32)d->channels,
                                          .masks = d->output_activation != DPT_ACT_NONE};
    op->plan.run = run_fixed;
    op->plan.exact = op->desc.kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL;
    return dpt_norm_fixed_prepare(op, &s->fixed);
}

/* Whether a deterministic operator of this kind has kernels of its own. */
static bool has_own_kernels(dpt_op_kind kind)
{
    return kind != DPT_OP_BATCH_NORM_FORWARD && kind != DPT_OP_BATCH_NORM_BACKWARD_DATA;
}

static dpt_status prepare_deterministic(dpt_op *op)
{
    static const dpt_norm_fixed_kind partial = {
        "dpt_norm_fixed_moments", "dpt_norm_fixed_part", 1, 1, false, false};
    static const dpt_norm_fixed_kind backward = {
        "dpt_norm_fixed_products", "dpt_norm_fixed_backward_part", 5, 3, true, true};
    const bool merges = op->desc.kind == DPT_OP_BATCH_NORM_MERGE;
    batch_norm_state *s = op->plan.state;
    if (op->desc.kind == DPT_OP_BATCH_NORM_PARTIAL) return prepare_fixed(op, &partial);
    if (op->desc.kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL) return prepare_fixed(op, &backward);
    op->plan.run = merges ? run_merge : run_freeze;
    op->plan.algorithm = "loop";
    op->plan.has_grains = merges;
    return dpt_op_kernel(op, "norm_fixed.cl",
                         merges ? "dpt_norm_fixed_merge" : "dpt_norm_fixed_freeze", &s->first);
}

/* ---- Preparing an operator ------------------------------------------------------------------- */

/* The activation that the kernels of this kind apply. */
static dpt_activation activation_of(const dpt_op *op)
{
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    switch (op->desc.kind) {
    case DPT_OP_BATCH_NORM_FORWARD: return d->activation;
    case DPT_OP_BATCH_NORM_BACKWARD_DATA: return d->input_activation;
    default: return DPT_ACT_NONE;
    }
}

/* The workspace of a reduction. */
static size_t entries_bytes(const dpt_op *op, const batch_norm_kind *kind)
{
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    const dpt_grid_matrix matrix = {.use = join_of(op, kind->n_tensors),
                                    .n_rows = dpt_size_mul(op->max_samples, d->area),
                                    .channels = d->channels,
                                    .most_rows = SIZE_MAX};
    return dpt_grid_bytes(op->device, &matrix, kind->n_floats);
}

dpt_status dpt_prepare_batch_norm(dpt_op *op)
{
    const dpt_batch_norm_desc *d = &op->desc.u.batch_norm;
    const batch_norm_kind kind = kind_of(op->desc.kind);
    const dpt_activation activation = activation_of(op);
    dpt_program_key key = {.file = "batch_norm.cl"};
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->area, d->channels)));
    batch_norm_state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    if (op->deterministic && has_own_kernels(op->desc.kind)) return prepare_deterministic(op);
    snprintf(key.constants, sizeof key.constants, "-DACTIVATION=%du -DMASKS=%d", (int)activation,
             d->output_activation != DPT_ACT_NONE);
    dpt_grid_key(&key, op->device, d->channels);
    dpt_op_key(op, &key);
    DPT_TRY(dpt_kernel_get(op->device, &key, kind.first, &s->first));
    if (kind.second) DPT_TRY(dpt_kernel_get(op->device, &key, kind.second, &s->second));
    if (kind.n_floats > 0) op->plan.workspace_bytes = entries_bytes(op, &kind);
    op->plan.run = kind.run;
    op->plan.exact = kind.exact && (activation == DPT_ACT_NONE || activation == DPT_ACT_RELU);
    op->plan.algorithm = kind.n_floats > 0 ? "chunks" : "loop";
    return DPT_OK;
}
