/* Convolutions of bfloat16 activations by cuDNN.  cuDNN's engines read and store one type, so an
   operator takes one of two forms.  Both sum in float32.

   "narrow": x, w and y are bfloat16.  Weights and bias are rounded into the workspace.  cuDNN
   rounds its result: y and dx once, dw once before it becomes float32.  A dx that is added to
   another is rounded once more with the sum.

   "wide": x and y are float32 in the workspace.  Inputs are widened into it, and results are
   rounded from it.  TF32 holds a bfloat16 exactly, so the weights are the only input that loses
   bits.  This form serves activations other than ReLU, because they must be applied before the
   rounding. */
#include "conv2d_dnn.h"
#include "convert.h"
#include "dnn_plans.h"
#include "finish.h"
#include "linear.h"
#include "nested.h"
#include "tables.h"

#include <stdlib.h>

typedef struct state {
    dpt_cuda_plans plans;
    bool is_wide;
    dpt_op own; /* our own convolution; shares the beginning of the workspace with the plans */
    dpt_convert convert;
    dpt_kernel *finish;               /* not used by a narrow forward pass */
    dpt_bias_gradient bias;           /* of backward-weights */
    size_t x_at, w_at, y_at, bias_at; /* bytes in the workspace */
    size_t sum_at;                    /* bytes in the workspace: a dw that is then added */
    size_t x_count, w_count, y_count; /* elements; of x and y, those of a sample */
} state;

static void destroy(void *pointer)
{
    state *s = pointer;
    dpt_cuda_plans_close(&s->plans);
    dpt_op_plan_clear(&s->own.plan);
    free(s);
}

/* The activation or mask that follows the convolution of this pass. */
static dpt_activation activation_of(const dpt_op_desc *desc)
{
    switch (desc->kind) {
    case DPT_OP_CONV2D_FORWARD: return desc->u.conv2d.activation;
    case DPT_OP_CONV2D_BACKWARD_DATA: return desc->u.conv2d.input_activation;
    default: return DPT_ACT_NONE;
    }
}

/* ---- Running, narrow ------------------------------------------------------------------------- */

/* Rounds w to bfloat16, into the workspace. */
static dpt_status narrow_weights(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    return dpt_narrow_run(
        &s->convert, call->stream,
        &(dpt_converted){call->args->in[1], dpt_at(call->args->workspace, s->w_at), s->w_count});
}

/* Rounds the bias to bfloat16, into the workspace.  Without a bias the workspace gets zeros,
   because cuDNN has no ReLU without a bias. */
static dpt_status narrow_bias(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_location to = dpt_at(call->args->workspace, s->bias_at);
    if (d->has_bias)
        return dpt_narrow_run(&s->convert, call->stream,
                              &(dpt_converted){call->args->in[2], to, d->out_channels});
    return dpt_cuda_memory_ops.fill(call->stream, to, 0,
                                    dpt_size_align(d->out_channels * dpt_dtype_bytes(DPT_BF16)));
}

/* y = activation(conv + bias) */
static dpt_status narrow_forward(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(args->in[0]),
        .w = dpt_cuda_pointer(dpt_at(args->workspace, s->w_at)),
        .y = dpt_cuda_pointer(args->out[0]),
        .bias = dpt_cuda_pointer(dpt_at(args->workspace, s->bias_at)),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    DPT_TRY(narrow_weights(call));
    if (plan->has_bias) DPT_TRY(narrow_bias(call));
    return dpt_cuda_plan_run(plan, call->stream, &tensors);
}

/* dx = ([dx +] conv) * slope; the slope of ReLU is 0 or 1, so the product needs no rounding. */
static dpt_status narrow_backward_data(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result = call->accumulate ? dpt_at(args->workspace, s->x_at) : args->out[0];
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(result),
        .w = dpt_cuda_pointer(dpt_at(args->workspace, s->w_at)),
        .y = dpt_cuda_pointer(args->in[0]),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_finish_args finish = {.rows = call->n_samples * d->in_h * d->in_w,
                                    .columns = d->in_channels,
                                    .type = DPT_BF16,
                                    .product_type = DPT_BF16,
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate,
                                    .mask = args->in[2],
                                    .mask_activation = d->input_activation};
    DPT_TRY(narrow_weights(call));
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return dpt_finish_run(s->finish, call->stream, &finish);
}

/* dw = [dw +] conv, dbias */
static dpt_status narrow_backward_weights(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location rounded = dpt_at(args->workspace, s->w_at);
    const dpt_location result =
        call->accumulate ? dpt_at(args->workspace, s->sum_at) : args->out[0];
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(args->in[1]),
        .w = dpt_cuda_pointer(rounded),
        .y = dpt_cuda_pointer(args->in[0]),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_finish_args finish = {.rows = d->out_channels,
                                    .columns = s->w_count / d->out_channels,
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate};
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    DPT_TRY(
        dpt_widen_run(&s->convert, call->stream, &(dpt_converted){rounded, result, s->w_count}));
    DPT_TRY(dpt_finish_run(s->finish, call->stream, &finish));
    return dpt_bias_gradient_run(call, &s->bias);
}

/* ---- Running, wide --------------------------------------------------------------------------- */

static dpt_status widen(const dpt_call *call, dpt_location from, size_t at, size_t count)
{
    const state *s = call->op->plan.state;
    return dpt_widen_run(
        &s->convert, call->stream,
        &(dpt_converted){from, dpt_at(call->args->workspace, at), call->n_samples * count});
}

/* y = activation(conv + bias) */
static dpt_status wide_forward(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result = dpt_at(args->workspace, s->y_at);
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(dpt_at(args->workspace, s->x_at)),
        .w = dpt_cuda_pointer(args->in[1]),
        .y = dpt_cuda_pointer(result),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_finish_args finish = {.rows = call->n_samples * d->out_h * d->out_w,
                                    .columns = d->out_channels,
                                    .type = DPT_BF16,
                                    .product = result,
                                    .y = args->out[0],
                                    .bias = args->in[2],
                                    .activation = d->activation};
    DPT_TRY(widen(call, args->in[0], s->x_at, s->x_count));
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return dpt_finish_run(s->finish, call->stream, &finish);
}

/* dx = ([dx +] conv) * slope */
static dpt_status wide_backward_data(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result = dpt_at(args->workspace, s->x_at);
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(result),
        .w = dpt_cuda_pointer(args->in[1]),
        .y = dpt_cuda_pointer(dpt_at(args->workspace, s->y_at)),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_finish_args finish = {.rows = call->n_samples * d->in_h * d->in_w,
                                    .columns = d->in_channels,
                                    .type = DPT_BF16,
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate,
                                    .mask = args->in[2],
                                    .mask_activation = d->input_activation};
    DPT_TRY(widen(call, args->in[0], s->y_at, s->y_count));
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return dpt_finish_run(s->finish, call->stream, &finish);
}

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run_plan(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    switch (call->op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        return s->is_wide ? wide_forward(call, plan) : narrow_forward(call, plan);
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return s->is_wide ? wide_backward_data(call, plan) : narrow_backward_data(call, plan);
    default: return narrow_backward_weights(call, plan);
    }
}

static dpt_status run(const dpt_call *call)
{
    state *s = call->op->plan.state;
    const dpt_cuda_plan *plan = NULL;
    if (call->n_samples > 0)
        DPT_TRY(dpt_cuda_plans_find(&s->plans, call->stream, call->n_samples, &plan));
    /* cuDNN may refuse a plan as late as when it runs; the plan has done nothing then.  The only
       other call that returns DPT_E_UNSUPPORTED is one of a capture, which fails as a whole. */
    const dpt_status status = plan ? run_plan(call, plan) : DPT_E_UNSUPPORTED;
    return status == DPT_E_UNSUPPORTED ? dpt_cuda_nested_run(&s->own, call) : status;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status open_plans(const dpt_op *op, dpt_cuda_algorithm algorithm, state *s)
{
    const dpt_activation activation = activation_of(&op->desc);
    const bool is_forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    const bool has_relu = activation == DPT_ACT_RELU;
    const dpt_cuda_convolution wide = {.desc = &op->desc, .type = DPT_F32};
    const dpt_cuda_convolution narrow = {
        .desc = &op->desc,
        .type = DPT_BF16,
        .has_bias = is_forward && (op->desc.u.conv2d.has_bias || has_relu),
        .has_relu = is_forward && has_relu,
    };
    s->is_wide = !has_relu && activation != DPT_ACT_NONE;
    algorithm.n_few = DPT_CUDA_N_ALGORITHMS;
    const dpt_cuda_plans_request request = {s->is_wide ? &wide : &narrow, algorithm,
                                            op->max_samples};
    return dpt_cuda_plans_open(op->device, &request, &s->plans);
}

/* Reserves n_bytes of the workspace: moves its end and returns the offset. */
static size_t reserve(size_t *end, size_t n_bytes)
{
    const size_t at = *end;
    *end = dpt_size_add(at, dpt_size_align(n_bytes));
    return at;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(dpt_op *op, state *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool is_data = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    const bool is_weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const size_t n_x = s->is_wide || is_data ? op->max_samples : 0;
    const size_t n_y = s->is_wide ? op->max_samples : 0;
    const size_t bytes = dpt_dtype_bytes(s->is_wide ? DPT_F32 : DPT_BF16);
    size_t end = dpt_size_align(larger(s->plans.workspace_bytes, s->own.plan.workspace_bytes));
    s->x_count = d->in_h * d->in_w * d->in_channels;
    s->y_count = d->out_h * d->out_w * d->out_channels;
    s->w_count = d->kernel_h * d->kernel_w * (d->in_channels / d->groups) * d->out_channels;
    s->x_at = reserve(&end, dpt_size_mul(dpt_size_mul(n_x, s->x_count), bytes));
    s->y_at = reserve(&end, dpt_size_mul(dpt_size_mul(n_y, s->y_count), bytes));
    s->w_at = reserve(&end, dpt_size_mul(s->w_count, dpt_dtype_bytes(DPT_BF16)));
    s->bias_at = reserve(&end, dpt_size_mul(d->out_channels, dpt_dtype_bytes(DPT_BF16)));
    s->sum_at = reserve(&end, is_weights ? dpt_size_mul(s->w_count, sizeof(float)) : 0);
    op->plan.workspace_bytes = end;
}

static dpt_status prepare_finish(const dpt_op *op, state *s)
{
    const bool is_weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const bool of_float32 = s->is_wide || is_weights;
    return dpt_finish_prepare(op->device, is_weights ? DPT_F32 : DPT_BF16,
                              of_float32 ? DPT_F32 : DPT_BF16, &s->finish);
}

dpt_status dpt_cuda_conv2d_bf16_prepare(dpt_op *op, dpt_cuda_algorithm algorithm)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.destroy = destroy;
    DPT_TRY(open_plans(op, algorithm, s));
    DPT_TRY(dpt_cuda_nested_prepare(op, &op->desc, &s->own));
    DPT_TRY(dpt_convert_prepare(op->device, &s->convert));
    DPT_TRY(prepare_finish(op, s));
    lay_out(op, s);
    if (op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS && d->has_bias)
        DPT_TRY(dpt_bias_gradient_prepare(op, d->out_h * d->out_w, d->out_channels, &s->bias));
    op->plan.run = run;
    op->plan.flops = s->own.plan.flops;
    /* In backward-weights dw is rounded and no input is, so the error is smaller than this. */
    op->plan.input_rounding = DPT_CUDA_BF16_ROUNDING;
    return DPT_OK;
}
