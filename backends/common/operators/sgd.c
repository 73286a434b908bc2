/* Stochastic gradient descent over the flat parameters. */
#include "sgd.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
    sgd_params params;
    bool by_quads;
} state;

/* gradient -> w, velocity */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    sgd_params params = s->params;
    params.halts = call->args->halt.buffer != NULL;
    if (call->n_samples == 0) return DPT_OK;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    if (s->params.momentum != 0.0f) dpt_launch_tensor(&l, call->args->out[1], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_tensor(&l, call->args->halt, DPT_F32);
    dpt_launch_value(&l, &params, sizeof params);
    return s->by_quads ? dpt_launch_quads(&l, s->params.count / 4, 1)
                       : dpt_launch_elements(&l, s->params.count, 1);
}

dpt_status dpt_prepare_sgd(dpt_op *op)
{
    static const char *const names[2][2] = {{"dpt_sgd", "dpt_sgd_quads"},
                                            {"dpt_sgd_momentum", "dpt_sgd_momentum_quads"}};
    const dpt_sgd_desc *d = &op->desc.u.sgd;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = (sgd_params){
        .count = d->count,
        .decay_count = d->decay_count,
        .momentum = d->momentum,
        .weight_decay = d->weight_decay,
        .nesterov = d->nesterov,
    };
    op->plan.run = run;
    s->by_quads = dpt_takes_quads(op->device, d->count);
    op->plan.algorithm = s->by_quads ? "an item two quads" : "an item an element";
    return dpt_kernel_of(op->device, "sgd.cl", names[d->momentum != 0.0f][s->by_quads], &s->kernel);
}
