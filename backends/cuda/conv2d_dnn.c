/* Convolutions by cuDNN as operators: a plan for each number of samples, what follows a convolution
   by our own kernels, and our own convolution for the numbers of samples that a way of cuDNN's
   refuses. */
#include "dnn.h"
#include "finish.h"
#include "linear.h"
#include "nested.h"

#include <stdlib.h>

enum {
    N_KEPT = 8,
    MOST_WORKSPACE_BYTES = 1 << 30,
    /* Fewer samples may take more: what few tiles there are is then cut along its sums. */
    LEAST_WORKSPACE_BYTES = 32 << 20,
};

typedef struct state {
    dpt_cuda_recipe *recipe;
    dpt_cuda_plan plans[N_KEPT]; /* the last ones used first; n_samples 0: none */
    dpt_cuda_plan *recorded;     /* others that recordings need */
    size_t n_recorded;
    dpt_op own; /* shares the beginning of the workspace */
    dpt_kernel *finish;
    dpt_bias_gradient bias; /* backward-weights */
    size_t plan_bytes;      /* of the workspace that a plan may use */
    size_t sum_offset;      /* where in it a result lies that is then added */
} state;

static void destroy(void *pointer)
{
    state *s = pointer;
    for (size_t i = 0; i < N_KEPT; i++)
        dpt_cuda_plan_destroy(&s->plans[i]);
    for (size_t i = 0; i < s->n_recorded; i++)
        dpt_cuda_plan_destroy(&s->recorded[i]);
    free(s->recorded);
    dpt_cuda_recipe_destroy(s->recipe);
    dpt_op_plan_clear(&s->own.plan);
    free(s);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void move_to_front(state *s, size_t place)
{
    const dpt_cuda_plan used = s->plans[place];
    for (size_t i = place; i > 0; i--)
        s->plans[i] = s->plans[i - 1];
    s->plans[0] = used;
}

/* A plan without a descriptor says that cuDNN does not do it. */
static dpt_status make_plan(const dpt_op *op, state *s, size_t n_samples, dpt_cuda_plan *out)
{
    dpt_cuda_plan plan = {.n_samples = n_samples};
    const dpt_status status =
        dpt_cuda_plan_create(op->device, &op->desc, s->recipe, n_samples, &plan);
    if (status != DPT_OK && status != DPT_E_UNSUPPORTED) return status;
    if (plan.descriptor && plan.workspace_bytes > s->plan_bytes) {
        dpt_cuda_plan_destroy(&plan);
        plan.n_samples = n_samples;
    }
    *out = plan;
    return DPT_OK;
}

/* The last one goes; whoever replays a recording does not ask for its plan, which must stay. */
static dpt_status make_room(const dpt_op *op, state *s)
{
    dpt_cuda_plan *last = &s->plans[N_KEPT - 1];
    if (!last->is_recorded) {
        dpt_cuda_plan_destroy(last);
        return DPT_OK;
    }
    dpt_cuda_plan *recorded = realloc(s->recorded, (s->n_recorded + 1) * sizeof *recorded);
    if (!recorded) return DPT_FAIL(&op->device->error, DPT_E_NO_MEMORY, "no memory for a plan");
    recorded[s->n_recorded++] = *last;
    s->recorded = recorded;
    *last = (dpt_cuda_plan){.n_samples = 0};
    return DPT_OK;
}

static dpt_status find_plan(const dpt_op *op, state *s, size_t n_samples, dpt_cuda_plan **out)
{
    size_t place = 0;
    for (size_t i = 0; i < s->n_recorded; i++) {
        *out = &s->recorded[i];
        if ((*out)->n_samples == n_samples) return DPT_OK;
    }
    while (place < N_KEPT && s->plans[place].n_samples != n_samples)
        place++;
    if (place == N_KEPT) {
        dpt_cuda_plan made;
        place--;
        DPT_TRY(make_plan(op, s, n_samples, &made));
        const dpt_status status = make_room(op, s);
        if (status != DPT_OK) {
            dpt_cuda_plan_destroy(&made);
            return status;
        }
        s->plans[place] = made;
    }
    move_to_front(s, place);
    *out = &s->plans[0];
    return DPT_OK;
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
                                           .workspace = dpt_cuda_pointer(args->workspace)};
    const dpt_finish_args finish = {.rows = call->n_samples * d->out_h * d->out_w,
                                    .columns = d->out_channels,
                                    .product = args->out[0],
                                    .y = args->out[0],
                                    .bias = args->in[2],
                                    .activation = d->activation};
    DPT_TRY(dpt_cuda_plan_run(plan, call->stream, &tensors));
    return dpt_finish_run(s->finish, call->stream, &finish);
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

static dpt_status run(const dpt_call *call)
{
    const dpt_op *op = call->op;
    state *s = op->plan.state;
    dpt_cuda_plan *plan;
    enum cudaStreamCaptureStatus capturing;
    /* Without samples there are zeros to be written at most, which is no plan. */
    if (call->n_samples == 0) return dpt_cuda_nested_run(&s->own, call);
    DPT_TRY(find_plan(op, s, call->n_samples, &plan));
    DPT_CUDA_TRY(op->device, cudaStreamIsCapturing(call->stream->queue, &capturing));
    if (capturing == cudaStreamCaptureStatusActive) plan->is_recorded = true;
    if (!plan->descriptor) return dpt_cuda_nested_run(&s->own, call);
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD: return run_forward(call, plan);
    case DPT_OP_CONV2D_BACKWARD_DATA: return run_backward_data(call, plan);
    default: return run_backward_weights(call, plan);
    }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Bytes of what may have to be added to something: dx or dw. */
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

/* The plan for all samples, which says whether this can be done at all, and takes the most memory.
 */
static dpt_status prepare_plan(const dpt_op *op, state *s, size_t rank)
{
    const size_t n = op->max_samples > 0 ? op->max_samples : 1;
    DPT_TRY(dpt_cuda_recipe_create(op->device, &op->desc, rank, &s->recipe));
    DPT_TRY(dpt_cuda_plan_create(op->device, &op->desc, s->recipe, n, &s->plans[0]));
    if (s->plans[0].workspace_bytes > MOST_WORKSPACE_BYTES)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "cuDNN wants %zu bytes of workspace for a convolution",
                        s->plans[0].workspace_bytes);
    DPT_TRY(dpt_cuda_nested_prepare(op, &op->desc, &s->own));
    s->plan_bytes = larger(s->plans[0].workspace_bytes, s->own.plan.workspace_bytes);
    s->plan_bytes = dpt_size_align(larger(s->plan_bytes, n > 1 ? LEAST_WORKSPACE_BYTES : 0));
    return DPT_OK;
}

static dpt_status prepare(dpt_op *op, const void *rank)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool has_bias = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS && d->has_bias;
    if (op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "too many samples for cuDNN");
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.destroy = destroy;
    DPT_TRY(prepare_plan(op, s, *(const size_t *)rank));
    DPT_TRY(dpt_finish_prepare(op->device, DPT_F32, &s->finish));
    s->sum_offset = s->plan_bytes;
    op->plan.workspace_bytes = dpt_size_add(s->plan_bytes, dpt_size_align(sum_bytes(op)));
    if (has_bias)
        DPT_TRY(dpt_bias_gradient_prepare(op, d->out_h * d->out_w, d->out_channels, &s->bias));
    op->plan.run = run;
    op->plan.flops = s->own.plan.flops;
    op->plan.input_rounding = dpt_cuda_input_rounding(op->device);
    op->plan.exact = s->own.plan.exact && op->plan.input_rounding == 0.0;
    return DPT_OK;
}

#define OFFER(n)                                                                                   \
    {                                                                                              \
        .name = "cudnn-" #n, .parameters = &(const size_t){n}, .prepare = prepare                  \
    }

const dpt_alternative dpt_cuda_conv2d_dnn[] = {
    OFFER(0), OFFER(1), OFFER(2), OFFER(3),  OFFER(4),  OFFER(5),       OFFER(6),
    OFFER(7), OFFER(8), OFFER(9), OFFER(10), OFFER(11), {.name = NULL},
};
