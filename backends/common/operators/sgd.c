/* Stochastic gradient descent over the flat parameters. */
#include "sgd.h"
#include "optimizer.h"

typedef struct state {
    dpt_optimizer optimizer;
    sgd_params params;
} state;

/* gradient (count) -> w (count), and with momentum velocity (count) */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    sgd_params params = s->params;
    params.halts = call->args->halt.buffer != NULL;
    return dpt_optimizer_run(&s->optimizer, call, &params, sizeof params);
}

dpt_status dpt_prepare_sgd(dpt_op *op)
{
    static const dpt_optimizer_kernels plain = {"sgd.cl", "dpt_sgd", "dpt_sgd_quads"};
    static const dpt_optimizer_kernels momentum = {"sgd.cl", "dpt_sgd_momentum",
                                                   "dpt_sgd_momentum_quads"};
    const dpt_sgd_desc *d = &op->desc.u.sgd;
    const bool has_velocity = d->momentum != 0.0f;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->optimizer = (dpt_optimizer){.count = d->count, .n_outputs = has_velocity ? 2 : 1};
    s->params = (sgd_params){
        .count = d->count,
        .decay_count = d->decay_count,
        .momentum = d->momentum,
        .weight_decay = d->weight_decay,
        .nesterov = d->nesterov,
    };
    op->plan.run = run;
    return dpt_optimizer_prepare(op, has_velocity ? &momentum : &plain, &s->optimizer);
}
