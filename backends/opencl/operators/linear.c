/* Fully connected layers: one matrix product each, in the tile that is fastest here, and a sum over
   samples for the bias. */
#include "alternatives.h"
#include "clblast.h"
#include "column_sums.h"
#include "gemm.h"

enum { MAX_ALTERNATIVES = 32 };

typedef struct linear {
    dpt_cl_gemm gemm;        /* our tile, or */
    cl_kernel finish;        /* CLBlast's product, and its end where there is one */
    dpt_cl_column_sums sums; /* backward weights with a bias */
    size_t gemm_bytes;       /* of the workspace; the sums' part is behind it */
} linear;

/* ---- As matrix products ---------------------------------------------------------------------- */

static dpt_cl_gemm_form form_of(const dpt_op_desc *desc)
{
    const dpt_linear_desc *d = &desc->u.linear;
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD:
        return (dpt_cl_gemm_form){.b_transposed = true,
                                  .finished = d->has_bias || d->activation != DPT_ACT_NONE};
    case DPT_OP_LINEAR_BACKWARD_DATA:
        return (dpt_cl_gemm_form){.finished = d->input_activation != DPT_ACT_NONE};
    default: return (dpt_cl_gemm_form){.a_transposed = true};
    }
}

/* x (n,in), w (out,in), bias (out) -> y (n,out) */
static dpt_cl_gemm_args forward_args(const dpt_linear_desc *d, size_t n, const dpt_op_args *args)
{
    return (dpt_cl_gemm_args){
        .m = n,
        .n = d->out,
        .k = d->in,
        .a = args->in[0],
        .lda = d->in,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->out,
        .bias = args->in[2],
        .activation = d->activation,
    };
}

/* dy (n,out), w (out,in) -> dx (n,in), masked by x (n,in) */
static dpt_cl_gemm_args data_args(const dpt_linear_desc *d, size_t n, const dpt_op_args *args)
{
    return (dpt_cl_gemm_args){
        .m = n,
        .n = d->in,
        .k = d->out,
        .a = args->in[0],
        .lda = d->out,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->in,
        .mask = args->in[2],
        .mask_activation = d->input_activation,
    };
}

/* dy (n,out), x (n,in) -> dw (out,in) = dy^T x */
static dpt_cl_gemm_args weights_args(const dpt_linear_desc *d, size_t n, const dpt_op_args *args)
{
    return (dpt_cl_gemm_args){
        .m = d->out,
        .n = d->in,
        .k = n,
        .a = args->in[0],
        .lda = d->out,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->in,
    };
}

/* Without batch or workspace. */
static dpt_cl_gemm_args args_of(const dpt_op_desc *desc, size_t n, const dpt_op_args *args)
{
    const dpt_linear_desc *d = &desc->u.linear;
    dpt_cl_gemm_args out = desc->kind == DPT_OP_LINEAR_FORWARD         ? forward_args(d, n, args)
                           : desc->kind == DPT_OP_LINEAR_BACKWARD_DATA ? data_args(d, n, args)
                                                                       : weights_args(d, n, args);
    out.n_batches = 1;
    return out;
}

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run_bias(const dpt_cl_call *call, const linear *state)
{
    const dpt_cl_column_sums_args sums = {
        .rows = call->n_samples,
        .columns = call->op->desc.u.linear.out,
        .x = call->args->in[0],
        .y = call->args->out[1],
        .accumulate = call->accumulate,
        .workspace = dpt_cl_at(call->args->workspace, state->gemm_bytes),
    };
    return dpt_cl_column_sums_run(&state->sums, call->stream, &sums);
}

static dpt_status run(const dpt_cl_call *call)
{
    const linear *state = call->op->plan.state;
    dpt_cl_gemm_args gemm = args_of(&call->op->desc, call->n_samples, call->args);
    gemm.accumulate = call->accumulate;
    gemm.workspace = call->args->workspace;
    gemm.workspace_bytes = state->gemm_bytes;
    DPT_TRY(dpt_cl_gemm_run(&state->gemm, call->stream, &gemm));
    return state->sums.kernel ? run_bias(call, state) : DPT_OK;
}

/* CLBlast's product.  One without terms is zero, which CLBlast refuses. */
static dpt_status run_clblast(const dpt_cl_call *call)
{
    const linear *state = call->op->plan.state;
    const dpt_cl_gemm_form form = form_of(&call->op->desc);
    dpt_cl_gemm_args gemm = args_of(&call->op->desc, call->n_samples, call->args);
    gemm.accumulate = call->accumulate;
    if (gemm.m > 0 && gemm.k > 0)
        DPT_TRY(dpt_cl_clblast_run(call->stream, form, &gemm));
    else if (gemm.m > 0 && !call->accumulate)
        DPT_TRY(dpt_cl_memory_ops.fill(call->stream, gemm.c, 0, gemm.m * gemm.n * sizeof(float)));
    if (state->finish) DPT_TRY(dpt_cl_gemm_finish(state->finish, call->stream, &gemm));
    return state->sums.kernel ? run_bias(call, state) : DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare_bias(dpt_op *op, linear *state)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (op->desc.kind != DPT_OP_LINEAR_BACKWARD_WEIGHTS || !d->has_bias) return DPT_OK;
    DPT_TRY(dpt_cl_column_sums_prepare(op->device, &state->sums));
    op->plan.workspace_bytes =
        dpt_cl_add(op->plan.workspace_bytes,
                   dpt_cl_column_sums_workspace(op->device, op->max_samples, d->out));
    return DPT_OK;
}

static dpt_activation fused_activation(const dpt_op_desc *desc)
{
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD: return desc->u.linear.activation;
    case DPT_OP_LINEAR_BACKWARD_DATA: return desc->u.linear.input_activation;
    default: return DPT_ACT_NONE;
    }
}

/* What does not depend on who multiplies. */
static linear *prepare_state(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const dpt_activation fused = fused_activation(&op->desc);
    op->plan.flops = 2.0 * (double)d->in * (double)d->out;
    op->plan.exact = fused == DPT_ACT_NONE || fused == DPT_ACT_RELU;
    return dpt_cl_state(op, sizeof(linear));
}

static dpt_status prepare_tile(dpt_op *op, const void *tile)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_cl_gemm_args shape = args_of(&op->desc, op->max_samples, &none);
    linear *state = prepare_state(op);
    if (!state) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_cl_gemm_prepare(op->device, form_of(&op->desc), tile, &state->gemm));
    DPT_TRY(dpt_cl_gemm_divide(op->device, &state->gemm, &shape, &state->gemm_bytes));
    state->gemm_bytes = dpt_cl_round(state->gemm_bytes);
    op->plan.run = run;
    op->plan.workspace_bytes = state->gemm_bytes;
    return prepare_bias(op, state);
}

static dpt_status prepare_clblast(dpt_op *op, const void *nothing)
{
    (void)nothing;
    linear *state = prepare_state(op);
    if (!state) return DPT_E_NO_MEMORY;
    op->plan.run = run_clblast;
    if (form_of(&op->desc).finished)
        DPT_TRY(dpt_cl_gemm_finish_prepare(op->device, &state->finish));
    return prepare_bias(op, state);
}

static size_t list_alternatives(dpt_cl_alternative *out, bool with_clblast)
{
    /* A win within the noise is not worth a library that compiles at every start. */
    static const double clblast_handicap = 0.1;
    size_t n = 0;
    for (; dpt_cl_gemm_tiles[n] && n < MAX_ALTERNATIVES - 1; n++)
        out[n] = (dpt_cl_alternative){.name = dpt_cl_gemm_tile_name(dpt_cl_gemm_tiles[n]),
                                      .parameters = dpt_cl_gemm_tiles[n],
                                      .prepare = prepare_tile};
    if (with_clblast)
        out[n++] = (dpt_cl_alternative){
            .name = "clblast", .handicap = clblast_handicap, .prepare = prepare_clblast};
    return n;
}

static void describe_tensors(const dpt_op_desc *desc, dpt_cl_alternatives *out)
{
    const dpt_linear_desc *d = &desc->u.linear;
    const size_t in = d->in * sizeof(float), all = dpt_cl_mul(in, d->out);
    const size_t of_out = d->out * sizeof(float);
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD:
        out->in[0].sample_bytes = in;
        out->in[1].fixed_bytes = all;
        out->in[2].fixed_bytes = d->has_bias ? of_out : 0;
        out->out[0].sample_bytes = of_out;
        return;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        out->in[0].sample_bytes = of_out;
        out->in[1].fixed_bytes = all;
        out->in[2].sample_bytes = d->input_activation != DPT_ACT_NONE ? in : 0;
        out->out[0].sample_bytes = in;
        return;
    default:
        out->in[0].sample_bytes = of_out;
        out->in[1].sample_bytes = in;
        out->out[0].fixed_bytes = all;
        out->out[1].fixed_bytes = d->has_bias ? of_out : 0;
    }
}

dpt_status dpt_cl_prepare_linear(dpt_op *op)
{
    static const char *const names[] = {"forward", "backward-data", "backward-weights"};
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (d->in > INT32_MAX || d->out > INT32_MAX || op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: none may exceed 2^31", d->in,
                        d->out, op->max_samples);
    dpt_cl_alternative items[MAX_ALTERNATIVES];
    char key[128];
    bool with_clblast = false;
    DPT_TRY(dpt_cl_clblast_offered(op->device, &with_clblast));
    snprintf(key, sizeof key, "linear %s %zu to %zu%s",
             names[op->desc.kind - DPT_OP_LINEAR_FORWARD], d->in, d->out,
             form_of(&op->desc).finished ? " finished" : "");
    dpt_cl_alternatives choice = {.items = items,
                                  .n_items = list_alternatives(items, with_clblast),
                                  .key = key,
                                  .work = 2.0 * (double)d->in * (double)d->out};
    describe_tensors(&op->desc, &choice);
    return dpt_cl_prepare_best(op, &choice);
}
