/* Convolutions by cuDNN where activations are bfloat16.  Its engines take and give one type, so a
   call goes one of two ways, and either sums in float32:

   "narrow": x, w and y are bfloat16.  Weights and bias are rounded into the workspace, and what
   comes of it all is rounded once, as cuDNN stores it.

   "wide": x and y are float32 in the workspace, widened there or yet to be rounded.  TF32 holds a
   bfloat16 exactly, so that of the inputs only weights lose anything.  So go gradients of filters,
   which are float32, and what more is to be done to than cuDNN does: another activation than ReLU,
   or the addition to a gradient that is there already. */
#include "conv2d_dnn.h"
#include "convert.h"
#include "dnn_plans.h"
#include "finish.h"
#include "linear.h"
#include "nested.h"

#include <stdlib.h>

typedef struct state {
    dpt_cuda_plans narrow, wide; /* no recipe: calls do not go that way */
    dpt_op own;                  /* shares the beginning of the workspace with plans */
    dpt_op mask;                 /* narrow backward-data, behind a ReLU */
    dpt_convert convert;
    dpt_kernel *finish;
    dpt_bias_gradient bias;           /* backward-weights */
    size_t x_at, w_at, y_at, bias_at; /* in the workspace */
    size_t x_count, w_count, y_count; /* elements; x and y: of a sample */
} state;

static void destroy(void *pointer)
{
    state *s = pointer;
    dpt_cuda_plans_close(&s->narrow);
    dpt_cuda_plans_close(&s->wide);
    dpt_op_plan_clear(&s->own.plan);
    dpt_op_plan_clear(&s->mask.plan);
    free(s);
}

/* What follows the convolution of this pass. */
static dpt_activation activation_of(const dpt_op_desc *desc)
{
    switch (desc->kind) {
    case DPT_OP_CONV2D_FORWARD: return desc->u.conv2d.activation;
    case DPT_OP_CONV2D_BACKWARD_DATA: return desc->u.conv2d.input_activation;
    default: return DPT_ACT_NONE;
    }
}

/* ---- Running, narrow ------------------------------------------------------------------------- */

/* w as bfloat16, in the workspace */
static dpt_status narrow_weights(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    return dpt_narrow_run(&s->convert, call->stream, call->args->in[1],
                          dpt_at(call->args->workspace, s->w_at), s->w_count);
}

/* And the bias; cuDNN has no ReLU without one. */
static dpt_status narrow_bias(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_location to = dpt_at(call->args->workspace, s->bias_at);
    if (d->has_bias)
        return dpt_narrow_run(&s->convert, call->stream, call->args->in[2], to, d->out_channels);
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

/* dx = conv * slope; a ReLU's slope is 0 or 1, and so costs no second rounding. */
static dpt_status narrow_backward_data(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(args->out[0]),
        .w = dpt_cuda_pointer(dpt_at(args->workspace, s->w_at)),
        .y = dpt_cuda_pointer(args->in[0]),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_op_args in_place = {.in = {args->out[0], args->in[2]}, .out = {args->out[0]}};
    const dpt_call mask = {
        .stream = call->stream, .op = &s->mask, .n_samples = call->n_samples, .args = &in_place};
    DPT_TRY(narrow_weights(call));
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return s->mask.plan.run ? s->mask.plan.run(&mask) : DPT_OK;
}

/* ---- Running, wide --------------------------------------------------------------------------- */

static dpt_status widen(const dpt_call *call, dpt_location from, size_t at, size_t count)
{
    const state *s = call->op->plan.state;
    return dpt_widen_run(&s->convert, call->stream, from, dpt_at(call->args->workspace, at),
                         call->n_samples * count);
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

/* dw = [dw +] conv, dbias */
static dpt_status wide_backward_weights(const dpt_call *call, const dpt_cuda_plan *plan)
{
    const state *s = call->op->plan.state;
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_op_args *args = call->args;
    const dpt_location result = call->accumulate ? dpt_at(args->workspace, s->w_at) : args->out[0];
    const dpt_cuda_plan_tensors tensors = {
        .x = dpt_cuda_pointer(dpt_at(args->workspace, s->x_at)),
        .w = dpt_cuda_pointer(result),
        .y = dpt_cuda_pointer(dpt_at(args->workspace, s->y_at)),
        .workspace = dpt_cuda_pointer(args->workspace),
    };
    const dpt_finish_args finish = {.rows = d->out_channels,
                                    .columns = s->w_count / d->out_channels,
                                    .type = DPT_F32,
                                    .product = result,
                                    .y = args->out[0],
                                    .accumulate = call->accumulate};
    DPT_TRY(widen(call, args->in[1], s->x_at, s->x_count));
    DPT_TRY(widen(call, args->in[0], s->y_at, s->y_count));
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    DPT_TRY(dpt_finish_run(s->finish, call->stream, &finish));
    return dpt_bias_gradient_run(call, &s->bias);
}

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run(const dpt_call *call)
{
    state *s = call->op->plan.state;
    const bool is_narrow = s->narrow.recipe && !call->accumulate;
    dpt_cuda_plans *plans = is_narrow ? &s->narrow : &s->wide;
    const dpt_cuda_plan *plan = NULL;
    if (plans->recipe && call->n_samples > 0)
        DPT_TRY(dpt_cuda_plans_find(plans, call->stream, call->n_samples, &plan));
    if (!plan) return dpt_cuda_nested_run(&s->own, call);
    switch (call->op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        return is_narrow ? narrow_forward(call, plan) : wide_forward(call, plan);
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return is_narrow ? narrow_backward_data(call, plan) : wide_backward_data(call, plan);
    default: return wide_backward_weights(call, plan);
    }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* `rank` is that of the way of a call that does not accumulate, which is what is timed.  To
   accumulate, backward-data takes the best guess of the wide ones, or our own. */
static dpt_status open_plans(const dpt_op *op, size_t rank, state *s)
{
    const dpt_activation activation = activation_of(&op->desc);
    const bool is_forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    const bool has_relu = activation == DPT_ACT_RELU;
    const bool can_narrow =
        op->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS && (has_relu || activation == DPT_ACT_NONE);
    const dpt_cuda_convolution wide = {.desc = &op->desc, .type = DPT_F32};
    const dpt_cuda_convolution narrow = {
        .desc = &op->desc,
        .type = DPT_BF16,
        .has_bias = is_forward && (op->desc.u.conv2d.has_bias || has_relu),
        .has_relu = is_forward && has_relu,
    };
    if (!can_narrow) return dpt_cuda_plans_open(op->device, &wide, rank, op->max_samples, &s->wide);
    DPT_TRY(dpt_cuda_plans_open(op->device, &narrow, rank, op->max_samples, &s->narrow));
    if (is_forward) return DPT_OK;
    const dpt_status status = dpt_cuda_plans_open(op->device, &wide, 0, op->max_samples, &s->wide);
    if (status == DPT_E_UNSUPPORTED) dpt_cuda_plans_close(&s->wide);
    return status == DPT_E_UNSUPPORTED ? DPT_OK : status;
}

static dpt_status prepare_mask(const dpt_op *op, state *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (op->desc.kind != DPT_OP_CONV2D_BACKWARD_DATA || !s->narrow.recipe ||
        d->input_activation == DPT_ACT_NONE)
        return DPT_OK;
    s->mask = (dpt_op){
        .device = op->device,
        .desc = {.kind = DPT_OP_ACTIVATION_BACKWARD,
                 .type = DPT_BF16,
                 .u.activation = {.kind = d->input_activation, .count = s->x_count}},
        .max_samples = op->max_samples,
    };
    return dpt_prepare_activation(&s->mask);
}

/* Moves the end of the workspace. */
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
    const size_t n = s->wide.recipe ? op->max_samples : 0;
    /* Rounded weights, or a gradient that is then added. */
    const size_t w_bytes =
        dpt_dtype_bytes(op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ? DPT_F32 : DPT_BF16);
    size_t end = larger(s->narrow.workspace_bytes, s->wide.workspace_bytes);
    end = dpt_size_align(larger(end, s->own.plan.workspace_bytes));
    s->x_count = d->in_h * d->in_w * d->in_channels;
    s->y_count = d->out_h * d->out_w * d->out_channels;
    s->w_count = d->kernel_h * d->kernel_w * (d->in_channels / d->groups) * d->out_channels;
    s->x_at = reserve(&end, dpt_size_mul(dpt_size_mul(n, s->x_count), sizeof(float)));
    s->y_at = reserve(&end, dpt_size_mul(dpt_size_mul(n, s->y_count), sizeof(float)));
    s->w_at = reserve(&end, dpt_size_mul(s->w_count, w_bytes));
    s->bias_at = reserve(&end, dpt_size_mul(d->out_channels, dpt_dtype_bytes(DPT_BF16)));
    op->plan.workspace_bytes = end;
}

dpt_status dpt_cuda_conv2d_bf16_prepare(dpt_op *op, size_t rank)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool is_weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.destroy = destroy;
    DPT_TRY(open_plans(op, rank, s));
    DPT_TRY(dpt_cuda_nested_prepare(op, &op->desc, &s->own));
    DPT_TRY(dpt_convert_prepare(op->device, &s->convert));
    DPT_TRY(dpt_finish_prepare(op->device, is_weights ? DPT_F32 : DPT_BF16, &s->finish));
    lay_out(op, s);
    DPT_TRY(prepare_mask(op, s));
    if (is_weights && d->has_bias)
        DPT_TRY(dpt_bias_gradient_prepare(op, d->out_h * d->out_w, d->out_channels, &s->bias));
    op->plan.run = run;
    op->plan.flops = s->own.plan.flops;
    op->plan.input_rounding = is_weights ? 0.0 : DPT_CUDA_BF16_ROUNDING;
    op->plan.exact = is_weights && s->own.plan.exact;
    return DPT_OK;
}
