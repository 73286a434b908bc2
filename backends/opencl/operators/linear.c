/* Fully connected layers: one matrix product each, in the tile that is fastest here, and a sum over
   samples for the bias. */
#include "linear.h"
#include "alternatives.h"
#include "clblast.h"
#include "gemm.h"

enum { MAX_ALTERNATIVES = 32 };

typedef struct linear {
    dpt_cl_gemm gemm;       /* our tile, or */
    dpt_kernel *finish;     /* CLBlast's product, and its end where there is one */
    dpt_bias_gradient bias; /* backward weights with a bias */
    size_t gemm_bytes;      /* of the workspace; the sums' part is behind it */
} linear;

/* ---- As matrix products ---------------------------------------------------------------------- */

static dpt_cl_gemm_form form_of(const dpt_op_desc *desc)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_product product = dpt_linear_product(desc, 0, &none);
    return (dpt_cl_gemm_form){.a_transposed = product.a_transposed,
                              .b_transposed = product.b_transposed,
                              .finished = dpt_linear_is_finished(desc)};
}

/* Without workspace. */
static dpt_cl_gemm_args args_of(const dpt_product *p)
{
    return (dpt_cl_gemm_args){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .n_batches = 1,
        .a = p->a,
        .b = p->b,
        .c = p->c,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
        .accumulate = p->accumulate,
        .bias = p->bias,
        .activation = p->activation,
        .mask = p->mask,
        .mask_activation = p->mask_activation,
    };
}

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run(const dpt_call *call)
{
    const linear *state = call->op->plan.state;
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    dpt_cl_gemm_args gemm = args_of(&p);
    gemm.workspace = call->args->workspace;
    gemm.workspace_bytes = state->gemm_bytes;
    DPT_TRY(dpt_cl_gemm_run(&state->gemm, call->stream, &gemm));
    return dpt_bias_gradient_run(call, &state->bias);
}

/* CLBlast's product.  One without terms is zero, which CLBlast refuses. */
static dpt_status run_clblast(const dpt_call *call)
{
    const linear *state = call->op->plan.state;
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    const dpt_cl_gemm_args gemm = args_of(&p);
    if (p.m > 0 && p.k > 0)
        DPT_TRY(dpt_cl_clblast_run(call->stream, form_of(&call->op->desc), &gemm));
    else if (p.m > 0 && !p.accumulate)
        DPT_TRY(dpt_cl_memory_ops.fill(call->stream, p.c, 0, p.m * p.n * sizeof(float)));
    if (state->finish) DPT_TRY(dpt_product_finish(state->finish, call->stream, &p));
    return dpt_bias_gradient_run(call, &state->bias);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* What does not depend on who multiplies. */
static linear *prepare_state(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    op->plan.flops = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    op->plan.exact = dpt_linear_is_exact(&op->desc);
    return dpt_op_state(op, sizeof(linear));
}

static dpt_status prepare_tile(dpt_op *op, const void *tile)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_product product = dpt_linear_product(&op->desc, op->max_samples, &none);
    const dpt_cl_gemm_args shape = args_of(&product);
    linear *state = prepare_state(op);
    if (!state) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_cl_gemm_prepare(op->device, form_of(&op->desc), tile, &state->gemm));
    DPT_TRY(dpt_cl_gemm_divide(op->device, &state->gemm, &shape, &state->gemm_bytes));
    state->gemm_bytes = dpt_size_align(state->gemm_bytes);
    op->plan.run = run;
    op->plan.workspace_bytes = state->gemm_bytes;
    return dpt_linear_bias_prepare(op, &state->bias);
}

static dpt_status prepare_clblast(dpt_op *op, const void *nothing)
{
    (void)nothing;
    linear *state = prepare_state(op);
    if (!state) return DPT_E_NO_MEMORY;
    op->plan.run = run_clblast;
    if (form_of(&op->desc).finished) DPT_TRY(dpt_finish_prepare(op->device, &state->finish));
    return dpt_linear_bias_prepare(op, &state->bias);
}

static size_t list_alternatives(dpt_alternative *out, bool with_clblast)
{
    /* A win within the noise is not worth a library that compiles at every start. */
    static const double clblast_handicap = 0.1;
    size_t n = 0;
    for (; dpt_cl_gemm_tiles[n] && n < MAX_ALTERNATIVES - 1; n++)
        out[n] = (dpt_alternative){.name = dpt_cl_gemm_tile_name(dpt_cl_gemm_tiles[n]),
                                   .parameters = dpt_cl_gemm_tiles[n],
                                   .prepare = prepare_tile};
    if (with_clblast)
        out[n++] = (dpt_alternative){
            .name = "clblast", .handicap = clblast_handicap, .prepare = prepare_clblast};
    return n;
}

static void describe_tensors(const dpt_op_desc *desc, dpt_alternatives *out)
{
    const dpt_linear_desc *d = &desc->u.linear;
    const size_t in = d->in * sizeof(float), all = dpt_size_mul(in, dpt_linear_rows(d));
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

dpt_status dpt_prepare_linear(dpt_op *op)
{
    static const char *const names[] = {"forward", "backward-data", "backward-weights"};
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (d->in > INT32_MAX || d->out > INT32_MAX || op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: none may exceed 2^31", d->in,
                        d->out, op->max_samples);
    dpt_alternative items[MAX_ALTERNATIVES];
    char key[128], slice[64] = "";
    bool with_clblast = false;
    DPT_TRY(dpt_cl_clblast_offered(op->device, op->wanted, &with_clblast));
    if (d->rows > 0) /* how it is aligned matters too */
        snprintf(slice, sizeof slice, ", %zu rows%s", d->rows, d->first % 4 == 0 ? "" : " aside");
    snprintf(key, sizeof key, "linear %s %zu to %zu%s%s",
             names[op->desc.kind - DPT_OP_LINEAR_FORWARD], d->in, d->out, slice,
             form_of(&op->desc).finished ? " finished" : "");
    dpt_alternatives choice = {.items = items,
                               .n_items = list_alternatives(items, with_clblast),
                               .key = key,
                               .work = 2.0 * (double)d->in * (double)dpt_linear_rows(d)};
    describe_tensors(&op->desc, &choice);
    return dpt_prepare_best(op, &choice);
}
