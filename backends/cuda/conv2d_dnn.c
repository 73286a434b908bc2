/* Convolutions of float32 activations by cuDNN, as operators.  There is a plan for each number of
   samples.  Our own kernels apply what cuDNN does not fuse, and our own convolution serves the
   numbers of samples that a recipe refuses. */
#include "conv2d_dnn.h"
#include "dnn_plans.h"
#include "finish.h"
#include "linear.h"
#include "nested.h"

#include <stdlib.h>

typedef struct state {
    dpt_cuda_plans plans;
    dpt_op own; /* our own convolution; shares the beginning of the workspace with the plans */
    dpt_kernel *finish;
    bool is_whole;          /* of forward: cuDNN adds the bias and applies the activation */
    dpt_bias_gradient bias; /* of backward-weights */
    size_t sum_offset;      /* bytes in the workspace: a result that is then added to another */
} state;

static void destroy(void *pointer)
{
    state *s = pointer;
    dpt_cuda_plans_close(&s->plans);
    dpt_op_plan_clear(&s->own.plan);
    free(s);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* y = activation(conv + bias) */
static dpt_status run_forward(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_cuda_plan_tensors tensors = {.x = dpt_cuda_pointer(args->in[0]),
                                           .w = dpt_cuda_pointer(args->in[1]),
                                           .y = dpt_cuda_pointer(args->out[0]),
                                           .bias = dpt_cuda_pointer(args->in[2]),
                                           .workspace = dpt_cuda_pointer(args->workspace)};
    const dpt_finish_args finish = {.rows = call->n_samples * d->out_h * d->out_w,
                                    .columns = d->out_channels,
                                    .product = args->out[0],
                                    .y = args->out[0],
                                    .bias = args->in[2],
                                    .activation = d->activation};
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return s->is_whole ? DPT_OK : dpt_finish_run(s->finish, call->stream, &finish);
}

/* dx = ([dx +] conv) * slope */
static dpt_status run_backward_data(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result =
        call->accumulate ? dpt_at(args->workspace, s->sum_offset) : args->out[0];
    const dpt_cuda_plan_tensors tensors = {.x = dpt_cuda_pointer(result),
                                           .w = dpt_cuda_pointer(args->in[1]),
                                           .y = dpt_cuda_pointer(args->in[0]),
                                           .workspace = dpt_cuda_pointer(args->workspace)};
    const dpt_finish_args finish = {.rows = call->n_samples * d->in_h * d->in_w,
                                    .columns = d->in_channels,
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate,
                                    .mask = args->in[2],
                                    .mask_activation = d->input_activation};
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return dpt_finish_run(s->finish, call->stream, &finish);
}

/* dw = [dw +] conv, dbias */
static dpt_status run_backward_weights(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result =
        call->accumulate ? dpt_at(args->workspace, s->sum_offset) : args->out[0];
    const dpt_cuda_plan_tensors tensors = {.x = dpt_cuda_pointer(args->in[1]),
                                           .w = dpt_cuda_pointer(result),
                                           .y = dpt_cuda_pointer(args->in[0]),
                                           .workspace = dpt_cuda_pointer(args->workspace)};
    const dpt_finish_args finish = {.rows = d->out_channels,
                                    .columns =
                                        d->kernel_h * d->kernel_w * (d->in_channels / d->groups),
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate};
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    DPT_TRY(dpt_finish_run(s->finish, call->stream, &finish));
    return dpt_bias_gradient_run(call, &s->bias);
}

static dpt_status run_plan(const dpt_call *call, const dpt_cuda_plan *plan)
{
    switch (call->op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD: return run_forward(call, plan);
    case DPT_OP_CONV2D_BACKWARD_DATA: return run_backward_data(call, plan);
    default: return run_backward_weights(call, plan);
    }
}

static dpt_status run(const dpt_call *call)
{
    state *s = call->op->plan.state;
    const dpt_cuda_plan *plan;
    /* A call of 0 samples writes zeros at most; there is no plan for it. */
    if (call->n_samples == 0) return dpt_cuda_nested_run(&s->own, call);
    DPT_TRY(dpt_cuda_plans_find(&s->plans, call->stream, call->n_samples, &plan));
    /* cuDNN may refuse a plan as late as when it runs; the plan has done nothing then.  The only
       other call that returns DPT_E_UNSUPPORTED is one of a capture, which fails as a whole. */
    const dpt_status status = plan ? run_plan(call, plan) : DPT_E_UNSUPPORTED;
    return status == DPT_E_UNSUPPORTED ? dpt_cuda_nested_run(&s->own, call) : status;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Bytes of the result that may have to be added to another: dx or dw. */
static size_t sum_bytes(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t x = dpt_size_mul(dpt_size_mul(d->in_h, d->in_w), d->in_channels);
    const size_t w = dpt_size_mul(dpt_size_mul(d->kernel_h, d->kernel_w),
                                  dpt_size_mul(d->out_channels, d->in_channels / d->groups));
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD: return 0;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return dpt_size_mul(dpt_size_mul(x, op->max_samples), sizeof(float));
    default: return dpt_size_mul(w, sizeof(float));
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Whether cuDNN can fuse everything that follows the convolution. */
static bool is_whole(const dpt_op_desc *desc)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    return desc->kind == DPT_OP_CONV2D_FORWARD && d->has_bias &&
           (d->activation == DPT_ACT_NONE || d->activation == DPT_ACT_RELU);
}

/* *out: how many recipes of ranks 0 to end.rank there are. */
static dpt_status count_recipes(const dpt_op *op, const dpt_cuda_convolution *convolution,
                                dpt_cuda_algorithm end, size_t *out)
{
    for (*out = 0; *out <= end.rank; ++*out) {
        dpt_cuda_recipe *recipe = NULL;
        const dpt_cuda_algorithm algorithm = {.example = end.example, .rank = *out};
        const dpt_status status =
            dpt_cuda_recipe_create(op->device, convolution, algorithm, &recipe);
        if (status == DPT_E_UNSUPPORTED) return DPT_OK;
        DPT_TRY(status);
        dpt_cuda_recipe_destroy(recipe);
    }
    return DPT_OK;
}

/* Opens the plans of a rank.  The first ranks are the recipes that fuse everything; the ranks
   behind them are the recipes of the bare convolution. */
static dpt_status open_plans(const dpt_op *op, dpt_cuda_algorithm algorithm, state *s)
{
    const dpt_activation activation = op->desc.u.conv2d.activation;
    const dpt_cuda_convolution product = {.desc = &op->desc, .type = DPT_F32};
    dpt_cuda_convolution all = product;
    const dpt_cuda_algorithm all_few = {.example = DPT_CUDA_FEW, .rank = DPT_CUDA_N_ALGORITHMS - 1};
    size_t n_whole = 0, n_whole_few = 0;
    all.has_bias = s->is_whole = is_whole(&op->desc);
    all.has_relu = s->is_whole && activation == DPT_ACT_RELU;
    if (s->is_whole) {
        DPT_TRY(count_recipes(op, &all, algorithm, &n_whole));
        DPT_TRY(count_recipes(op, &all, all_few, &n_whole_few));
    }
    s->is_whole = n_whole > algorithm.rank;
    if (!s->is_whole) algorithm.rank -= n_whole;
    algorithm.n_few = s->is_whole ? DPT_CUDA_N_ALGORITHMS : DPT_CUDA_N_ALGORITHMS - n_whole_few;
    const dpt_cuda_plans_request request = {s->is_whole ? &all : &product, algorithm,
                                            op->max_samples};
    return dpt_cuda_plans_open(op->device, &request, &s->plans);
}

/* DPT_E_UNSUPPORTED for gradients of filters over many pixels in true float32.  cuDNN adds up all
   pixels of all samples one after the other, so its errors grow with the root of their number.  Our
   own kernels sum pieces and add these up.  On an H200 (cuDNN 9.19, engines 0, 1 and 67), cuDNN's
   errors were those of our kernels up to 400 terms, and twice as large with 1568 terms.  With 2349
   terms, which are LeNet's of 29 samples, they were six times those of one CPU; four times are
   allowed. */
static dpt_status check_terms(const dpt_op *op)
{
    enum { MOST_TERMS = 1024 };
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t terms = dpt_size_mul(op->max_samples, dpt_size_mul(d->out_h, d->out_w));
    if (op->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS || terms <= MOST_TERMS ||
        dpt_cuda_device_of(op->device)->precision != DPT_PRECISION_FP32)
        return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                    "cuDNN would add up %zu terms one after the other", terms);
}

static dpt_status prepare_float32(dpt_op *op, dpt_cuda_algorithm algorithm)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool has_bias = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS && d->has_bias;
    DPT_TRY(check_terms(op));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.destroy = destroy;
    DPT_TRY(open_plans(op, algorithm, s));
    DPT_TRY(dpt_cuda_nested_prepare(op, &op->desc, &s->own));
    DPT_TRY(dpt_finish_prepare(op->device, DPT_F32, DPT_F32, &s->finish));
    s->sum_offset = dpt_size_align(larger(s->plans.workspace_bytes, s->own.plan.workspace_bytes));
    op->plan.workspace_bytes = dpt_size_add(s->sum_offset, dpt_size_align(sum_bytes(op)));
    if (has_bias)
        DPT_TRY(dpt_bias_gradient_prepare(op, d->out_h * d->out_w, d->out_channels, &s->bias));
    op->plan.run = run;
    op->plan.flops = s->own.plan.flops;
    op->plan.input_rounding = dpt_cuda_input_rounding(op->device);
    op->plan.exact = s->own.plan.exact && op->plan.input_rounding == 0.0;
    return DPT_OK;
}

static dpt_status prepare(dpt_op *op, const void *parameters)
{
    const dpt_cuda_algorithm algorithm = *(const dpt_cuda_algorithm *)parameters;
    if (op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "too many samples for cuDNN");
    return op->desc.type == DPT_BF16 ? dpt_cuda_conv2d_bf16_prepare(op, algorithm)
                                     : prepare_float32(op, algorithm);
}

#define OFFER(prefix, samples, n)                                                                  \
    {                                                                                              \
        .name = prefix #n,                                                                         \
        .parameters = &(const dpt_cuda_algorithm){.example = samples, .rank = n},                  \
        .prepare = prepare                                                                         \
    }
#define OFFERS(prefix, samples)                                                                    \
    OFFER(prefix, samples, 0), OFFER(prefix, samples, 1), OFFER(prefix, samples, 2),               \
        OFFER(prefix, samples, 3), OFFER(prefix, samples, 4), OFFER(prefix, samples, 5),           \
        OFFER(prefix, samples, 6), OFFER(prefix, samples, 7)

const dpt_alternative dpt_cuda_conv2d_dnn[] = {
    OFFERS("cudnn-", DPT_CUDA_FEW), OFFERS("cudnn1024-", DPT_CUDA_MANY), {.name = NULL}};
_Static_assert(sizeof dpt_cuda_conv2d_dnn / sizeof *dpt_cuda_conv2d_dnn ==
                   2 * DPT_CUDA_N_ALGORITHMS + 1,
               "alternatives of two examples");
