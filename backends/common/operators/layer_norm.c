/* Layer-norm: launches of backends/kernels/layer_norm.cl. */
#include "layer_norm.h"
#include "grid.h"
#include "norm_fixed.h"
#include "operators.h"

typedef struct layer_norm_state {
    dpt_kernel *first, *second; /* second: of the gradients of the weights, else NULL */
    dpt_norm_fixed fixed;       /* of deterministic gradients of the weights */
} layer_norm_state;

static const dpt_layer_norm_desc *desc_of(const dpt_call *call)
{
    return &call->op->desc.u.layer_norm;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

enum { LANES = 16 }; /* of a deterministic sum: that of layer_norm_fixed.cl */

enum {
    CPU_ROWS_ELEMENTS = 4096, /* the fewest elements that are worth a group */
    CPU_GROUPS_PER_UNIT = 8,
    GPU_ITEM_ELEMENTS = 8, /* elements of a row that one work item takes */
};

/* How rows are divided among teams of work items. */
static layer_norm_params params_of(const dpt_call *call)
{
    const dpt_layer_norm_desc *d = desc_of(call);
    const dpt_traits *traits = dpt_traits_of(call->op->device);
    layer_norm_params p = {.n_rows = call->n_samples * d->rows,
                           .channels = (u32)d->channels,
                           .team = 1,
                           .teams = 1,
                           .rows_each = 1,
                           .epsilon = d->epsilon,
                           .activation = d->input_activation,
                           .accumulate = call->accumulate};
    if (traits->is_cpu) {
        const size_t groups = (size_t)traits->n_units * CPU_GROUPS_PER_UNIT;
        const size_t even = p.n_rows / groups + 1, enough = CPU_ROWS_ELEMENTS / d->channels + 1;
        p.rows_each = (u32)(even < enough ? even : enough);
        return p;
    }
    while (p.team < traits->group_size && p.team * GPU_ITEM_ELEMENTS < p.channels)
        p.team *= 2;
    p.teams = traits->group_size / p.team;
    return p;
}

static dpt_status launch_rows(dpt_launch *launch, const dpt_call *call,
                              const layer_norm_params *params)
{
    const size_t rows = (size_t)params->teams * params->rows_each;
    dpt_launch_value(launch, params, sizeof *params);
    if (call->op->deterministic) return dpt_launch_rows(launch, params->n_rows, LANES);
    return dpt_launch_groups(launch, (const size_t[3]){dpt_ceil_div(params->n_rows, rows), 1, 1},
                             (const size_t[3]){(size_t)params->team * params->teams, 1, 1});
}

/* x, w, b -> y, moments */
static dpt_status run_forward(const dpt_call *call)
{
    const layer_norm_state *s = call->op->plan.state;
    const layer_norm_params params = params_of(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->first);
    for (size_t i = 0; i < 2; i++)
        dpt_launch_tensor(&l, call->args->out[i], i < 1 ? call->op->desc.type : DPT_F32);
    for (size_t i = 0; i < 3; i++)
        dpt_launch_tensor(&l, call->args->in[i], i < 1 ? call->op->desc.type : DPT_F32);
    return launch_rows(&l, call, &params);
}

/* dy, x, moments, w -> dx */
static dpt_status run_backward_data(const dpt_call *call)
{
    const layer_norm_state *s = call->op->plan.state;
    const layer_norm_params params = params_of(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    for (size_t i = 0; i < 4; i++)
        dpt_launch_tensor(&l, call->args->in[i], i < 2 ? call->op->desc.type : DPT_F32);
    return launch_rows(&l, call, &params);
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* The most rows of a period.  On a CPU it is one, because a tile of several places must lie within
   a row. */
static size_t most_rows(const dpt_device *device)
{
    return dpt_traits_of(device)->is_cpu ? 1 : SIZE_MAX;
}

/* The rows that the gradients of the weights are summed over. */
static dpt_grid_matrix matrix_of(const dpt_op *op, size_t n_samples)
{
    const dpt_layer_norm_desc *d = &op->desc.u.layer_norm;
    return (dpt_grid_matrix){.use = DPT_GRID_REDUCE,
                             .n_rows = dpt_size_mul(n_samples, d->rows),
                             .channels = d->channels,
                             .most_rows = most_rows(op->device)};
}

/* dy, x, moments -> dw, db */
static dpt_status run_backward_weights(const dpt_call *call)
{
    const dpt_device *device = call->op->device;
    const layer_norm_state *s = call->op->plan.state;
    const dpt_grid_matrix matrix = matrix_of(call->op, call->n_samples);
    const columns grid = dpt_grid(device, &matrix);
    dpt_launch chunks = dpt_launch_begin(call->stream, s->first);
    dpt_launch_tensor(&chunks, call->args->workspace, DPT_F32);
    for (size_t i = 0; i < 3; i++)
        dpt_launch_tensor(&chunks, call->args->in[i], i < 2 ? call->op->desc.type : DPT_F32);
    dpt_launch_value(&chunks, &grid, sizeof grid);
    DPT_TRY(dpt_grid_launch(&chunks, &grid));

    const columns_merge merge = dpt_grid_merge(device, &grid, call->accumulate);
    dpt_launch weights = dpt_launch_begin(call->stream, s->second);
    for (size_t i = 0; i < 2; i++)
        dpt_launch_tensor(&weights, call->args->out[i], DPT_F32);
    dpt_launch_tensor(&weights, call->args->workspace, DPT_F32);
    dpt_launch_value(&weights, &merge, sizeof merge);
    return dpt_grid_launch_merge(&weights, &merge);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare_rows(dpt_op *op, layer_norm_state *s, dpt_op_run *run, const char *kernel)
{
    const bool masks = op->desc.kind == DPT_OP_LAYER_NORM_BACKWARD_DATA;
    const dpt_activation mask = op->desc.u.layer_norm.input_activation;
    dpt_program_key key = {.file = op->deterministic ? "layer_norm_fixed.cl" : "layer_norm.cl"};
    snprintf(key.constants, sizeof key.constants, "-DACTIVATION=%du",
             masks ? (int)mask : (int)DPT_ACT_NONE);
    dpt_op_key(op, &key);
    DPT_TRY(dpt_kernel_get(op->device, &key, kernel, &s->first));
    op->plan.run = run;
    op->plan.algorithm = "rows";
    return DPT_OK;
}

static dpt_status run_fixed_weights(const dpt_call *call)
{
    const layer_norm_state *s = call->op->plan.state;
    return dpt_norm_fixed_run(&s->fixed, call);
}

static dpt_status prepare_fixed_weights(dpt_op *op, layer_norm_state *s)
{
    static const dpt_norm_fixed_kind kind = {
        "dpt_norm_fixed_weights", "dpt_norm_fixed_layer_part", 3, 2, false, true};
    const dpt_layer_norm_desc *d = &op->desc.u.layer_norm;
    s->fixed.kind = &kind;
    s->fixed.params = (norm_fixed_params){.rows = (u32)d->rows, .channels = (u32)d->channels};
    op->plan.run = run_fixed_weights;
    op->plan.exact = true;
    return dpt_norm_fixed_prepare(op, &s->fixed);
}

static dpt_status prepare_weights(dpt_op *op, layer_norm_state *s)
{
    const dpt_grid_matrix matrix = matrix_of(op, op->max_samples);
    dpt_program_key key = {.file = "layer_norm.cl", .constants = "-DACTIVATION=0u"};
    dpt_program_key_store(&key, op->desc.type);
    DPT_TRY(dpt_kernel_get(op->device, &key, "dpt_layer_norm_chunks", &s->first));
    DPT_TRY(dpt_kernel_get(op->device, &key, "dpt_layer_norm_weights", &s->second));
    op->plan.workspace_bytes = dpt_grid_bytes(op->device, &matrix, 2);
    op->plan.run = run_backward_weights;
    op->plan.exact = true;
    op->plan.algorithm = "chunks";
    return DPT_OK;
}

dpt_status dpt_prepare_layer_norm(dpt_op *op)
{
    const dpt_layer_norm_desc *d = &op->desc.u.layer_norm;
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->rows, d->channels)));
    layer_norm_state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    switch (op->desc.kind) {
    case DPT_OP_LAYER_NORM_FORWARD:
        return prepare_rows(op, s, run_forward, "dpt_layer_norm_forward");
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
        return prepare_rows(op, s, run_backward_data, "dpt_layer_norm_backward_data");
    default: return op->deterministic ? prepare_fixed_weights(op, s) : prepare_weights(op, s);
    }
}
