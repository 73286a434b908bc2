/* Activation functions as separate operators.  Each function has a program. */
#include "activation_params.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
} state;

/* x -> y, or dy, y -> dx */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_activation_desc *d = &call->op->desc.u.activation;
    const dpt_dtype type = call->op->desc.type;
    const size_t count = call->n_samples * d->count;
    const activation_params p = {
        .count = count, .kind = (u32)d->kind, .accumulate = call->accumulate};
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], type);
    dpt_launch_tensor(&l, call->args->in[0], type);
    if (call->op->desc.kind == DPT_OP_ACTIVATION_BACKWARD)
        dpt_launch_tensor(&l, call->args->in[1], type);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, count, 1);
}

dpt_status dpt_prepare_activation(dpt_op *op)
{
    const dpt_activation kind = op->desc.u.activation.kind;
    dpt_program_key key = {.file = "activation.cl"};
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.run = run;
    op->plan.exact = kind == DPT_ACT_NONE || kind == DPT_ACT_RELU;
    op->plan.algorithm = "an item an element";
    snprintf(key.constants, sizeof key.constants, "-DACTIVATION=%du", (int)kind);
    dpt_op_key(op, &key);
    return dpt_kernel_get(op->device, &key,
                          op->desc.kind == DPT_OP_ACTIVATION_FORWARD ? "dpt_activation_forward"
                                                                     : "dpt_activation_backward",
                          &s->kernel);
}
