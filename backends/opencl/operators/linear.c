/* Linear layers.  Each pass is one matrix product, with the tile that is fastest on the device, and
   for the gradient of the bias a sum over samples.

   Products are float32.  Activations that are stored as bfloat16 are first widened into the
   workspace. A result that is stored as bfloat16 is computed in the workspace and then rounded. */
#include "linear.h"
#include "alternatives.h"
#include "clblast.h"
#include "convert.h"
#include "gemm.h"
#include "tables.h"

enum { MAX_ALTERNATIVES = 32 };

typedef struct linear {
    dpt_cl_gemm gemm;       /* our tile; unused with CLBlast */
    dpt_kernel *finish;     /* applies what the product's kernel does not; NULL: nothing */
    dpt_bias_gradient bias; /* of backward-weights with a bias */
    size_t gemm_bytes;      /* the product's part of the workspace, which comes first */
    size_t a, b, c;         /* offsets in bytes of the float32 copies of bfloat16 matrices */
    dpt_convert convert;
} linear;

/* ---- Matrix products ------------------------------------------------------------------------- */

static dpt_cl_gemm_form form_of(const dpt_op_desc *desc)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_product product = dpt_linear_product(desc, 0, &none);
    return (dpt_cl_gemm_form){.a_transposed = product.a_transposed,
                              .b_transposed = product.b_transposed,
                              .finished = desc->type == DPT_F32 && dpt_linear_is_finished(desc)};
}

/* The arguments of a product, without a workspace. */
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

/* ---- bfloat16 -------------------------------------------------------------------------------- */

/* Elements from the first of A to the last one.  A slice ends with its last row. */
static size_t size_of_a(const dpt_op_desc *desc, const dpt_product *p)
{
    const size_t rows = p->a_transposed ? p->k : p->m;
    return rows > 0 ? dpt_size_mul(rows, p->lda) - desc->u.linear.first : 0;
}

static size_t size_of_b(const dpt_product *p)
{
    return dpt_size_mul(p->b_transposed ? p->n : p->k, p->ldb);
}

/* Reserves memory for the float32 copy of a matrix of `count` elements, if it is bfloat16, behind
   the workspace of op->plan.  Returns its offset. */
static size_t place_matrix(dpt_op *op, dpt_dtype type, size_t count)
{
    const size_t at = dpt_size_align(op->plan.workspace_bytes);
    if (type != DPT_BF16) return 0;
    op->plan.workspace_bytes = dpt_size_add(at, dpt_size_mul(count, sizeof(float)));
    return at;
}

static dpt_status prepare_matrices(dpt_op *op, linear *state)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_product p = dpt_linear_product(&op->desc, op->max_samples, &none);
    if (op->desc.type != DPT_BF16) return DPT_OK;
    state->a = place_matrix(op, p.a_type, size_of_a(&op->desc, &p));
    state->b = place_matrix(op, p.b_type, size_of_b(&p));
    state->c = place_matrix(op, p.c_type, dpt_size_mul(p.m, p.n));
    if (p.c_type == DPT_BF16)
        DPT_TRY(dpt_finish_prepare(op->device, DPT_BF16, DPT_F32, &state->finish));
    return dpt_convert_prepare(op->device, &state->convert);
}

/* *out: the product in float32.  Its bfloat16 inputs are widened here.  A bfloat16 result is
   computed in the workspace, and bias, activation and mask are left to complete(). */
static dpt_status widen(const dpt_call *call, const dpt_product *p, dpt_product *out)
{
    const linear *state = call->op->plan.state;
    const dpt_location workspace = call->args->workspace;
    *out = *p;
    if (p->a_type == DPT_BF16) {
        out->a = dpt_at(workspace, state->a);
        DPT_TRY(dpt_widen_run(&state->convert, call->stream,
                              &(dpt_converted){p->a, out->a, size_of_a(&call->op->desc, p)}));
    }
    if (p->b_type == DPT_BF16) {
        out->b = dpt_at(workspace, state->b);
        DPT_TRY(dpt_widen_run(&state->convert, call->stream,
                              &(dpt_converted){p->b, out->b, size_of_b(p)}));
    }
    if (p->c_type == DPT_BF16) {
        out->c = dpt_at(workspace, state->c);
        out->accumulate = false;
        out->bias = out->mask = (dpt_location){NULL, 0};
        out->activation = out->mask_activation = DPT_ACT_NONE;
    }
    return DPT_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Applies what the kernel of the product, whose result is `computed`, has not done, and computes
   the gradient of the bias. */
static dpt_status complete(const dpt_call *call, const dpt_product *p, dpt_location computed)
{
    const linear *state = call->op->plan.state;
    if (state->finish) DPT_TRY(dpt_product_finish(state->finish, call->stream, p, computed));
    return dpt_bias_gradient_run(call, &state->bias);
}

static dpt_status run(const dpt_call *call)
{
    const linear *state = call->op->plan.state;
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    dpt_product wide;
    DPT_TRY(widen(call, &p, &wide));
    dpt_cl_gemm_args gemm = args_of(&wide);
    gemm.workspace = call->args->workspace;
    gemm.workspace_bytes = state->gemm_bytes;
    DPT_TRY(dpt_cl_gemm_run(&state->gemm, call->stream, &gemm));
    return complete(call, &p, wide.c);
}

/* A product by CLBlast.  CLBlast refuses a product without terms, which is zero. */
static dpt_status run_clblast(const dpt_call *call)
{
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    dpt_product wide;
    DPT_TRY(widen(call, &p, &wide));
    const dpt_cl_gemm_args gemm = args_of(&wide);
    if (p.m > 0 && p.k > 0)
        DPT_TRY(dpt_cl_clblast_run(call->stream, form_of(&call->op->desc), &gemm));
    else if (p.m > 0 && !wide.accumulate)
        DPT_TRY(dpt_cl_memory_ops.fill(call->stream, wide.c, 0, p.m * p.n * sizeof(float)));
    return complete(call, &p, wide.c);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Prepares the parts that do not depend on the product's kernel. */
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
    DPT_TRY(prepare_matrices(op, state));
    return dpt_linear_bias_prepare(op, &state->bias);
}

static dpt_status prepare_clblast(dpt_op *op, const void *nothing)
{
    (void)nothing;
    linear *state = prepare_state(op);
    if (!state) return DPT_E_NO_MEMORY;
    op->plan.run = run_clblast;
    if (form_of(&op->desc).finished)
        DPT_TRY(dpt_finish_prepare(op->device, DPT_F32, DPT_F32, &state->finish));
    DPT_TRY(prepare_matrices(op, state));
    return dpt_linear_bias_prepare(op, &state->bias);
}

static size_t list_alternatives(dpt_alternative *out, bool with_clblast)
{
    /* CLBlast compiles at every start of the program, so a small gain is not worth it. */
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

dpt_status dpt_prepare_linear(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (d->in > INT32_MAX || d->out > INT32_MAX || op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: none may exceed 2^31", d->in,
                        d->out, op->max_samples);
    dpt_alternative items[MAX_ALTERNATIVES];
    char key[DPT_LINEAR_KEY_BYTES];
    bool with_clblast = false;
    if (op->deterministic) return dpt_linear_chains_prepare(op);
    DPT_TRY(dpt_cl_clblast_offered(op->device, op->wanted, &with_clblast));
    dpt_alternatives choice = {.items = items, .n_items = list_alternatives(items, with_clblast)};
    dpt_linear_describe(&op->desc, key, &choice);
    return dpt_prepare_best(op, &choice);
}
