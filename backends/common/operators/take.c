/* Rows of a table by their indices: launches of backends/kernels/take.cl. */
#include "take.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
} state;

static take_params params_of(const dpt_call *call)
{
    const dpt_take_desc *d = &call->op->desc.u.take;
    return (take_params){.n_samples = call->n_samples,
                         .n_indices = call->n_samples * d->count,
                         .count = (u32)d->count,
                         .rows = (u32)d->rows,
                         .width = divisor_of((u32)d->width),
                         .accumulate = call->accumulate};
}

/* table, index -> y */
static dpt_status run_forward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const take_params p = params_of(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[1], DPT_I32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, (size_t)p.count * p.width.value, call->n_samples);
}

/* dy, index -> dtable */
static dpt_status run_backward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const take_params p = params_of(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], DPT_I32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_items(&l, (size_t)p.rows * dpt_traits_of(call->op->device)->group_size);
}

dpt_status dpt_prepare_take(dpt_op *op)
{
    const dpt_take_desc *d = &op->desc.u.take;
    const bool is_forward = op->desc.kind == DPT_OP_TAKE_FORWARD;
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->count, d->width)));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.run = is_forward ? run_forward : run_backward;
    op->plan.exact = true;
    op->plan.algorithm = is_forward ? "an item an element" : "a group a row";
    return dpt_op_kernel(op, "take.cl", is_forward ? "dpt_take_forward" : "dpt_take_backward",
                         &s->kernel);
}
