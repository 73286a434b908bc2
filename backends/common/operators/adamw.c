/* Adam with decoupled weight decay over the flat parameters. */
#include "adamw.h"
#include "optimizer.h"

typedef struct state {
    dpt_optimizer optimizer;
    adamw_params params;
} state;

/* gradient (count) -> w, m, v (count each) */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    adamw_params params = s->params;
    params.halts = call->args->halt.buffer != NULL;
    return dpt_optimizer_run(&s->optimizer, call, &params, sizeof params);
}

dpt_status dpt_prepare_adamw(dpt_op *op)
{
    static const dpt_optimizer_kernels kernels = {"adamw.cl", "dpt_adamw", "dpt_adamw_quads"};
    const dpt_adamw_desc *d = &op->desc.u.adamw;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->optimizer = (dpt_optimizer){.count = d->count, .n_outputs = 3};
    s->params = (adamw_params){
        .count = d->count,
        .decay_count = d->decay_count,
        .beta1 = d->beta1,
        .beta2 = d->beta2,
        .epsilon = d->epsilon,
        .weight_decay = d->weight_decay,
    };
    op->plan.run = run;
    return dpt_optimizer_prepare(op, &kernels, &s->optimizer);
}
