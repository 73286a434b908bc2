/* Adam with decoupled weight decay over the flat parameters. */
#include "adamw.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
    adamw_params params;
    bool by_quads;
} state;

/* gradient -> w, m, v */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    adamw_params params = s->params;
    params.halts = call->args->halt.buffer != NULL;
    if (call->n_samples == 0) return DPT_OK;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    for (size_t i = 0; i < 3; i++)
        dpt_launch_tensor(&l, call->args->out[i], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_tensor(&l, call->args->halt, DPT_F32);
    dpt_launch_value(&l, &params, sizeof params);
    return s->by_quads ? dpt_launch_quads(&l, s->params.count / 4, 1)
                       : dpt_launch_elements(&l, s->params.count, 1);
}

dpt_status dpt_prepare_adamw(dpt_op *op)
{
    const dpt_adamw_desc *d = &op->desc.u.adamw;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = (adamw_params){
        .count = d->count,
        .decay_count = d->decay_count,
        .beta1 = d->beta1,
        .beta2 = d->beta2,
        .epsilon = d->epsilon,
        .weight_decay = d->weight_decay,
    };
    op->plan.run = run;
    s->by_quads = dpt_takes_quads(op->device, d->count);
    op->plan.algorithm = s->by_quads ? "an item two quads" : "an item an element";
    return dpt_kernel_of(op->device, "adamw.cl", s->by_quads ? "dpt_adamw_quads" : "dpt_adamw",
                         &s->kernel);
}
