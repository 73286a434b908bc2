/* Dropout.  The random numbers are counter-based, so the mask of a sample does not depend on the
   device that computes the sample. */
#include "dropout.h"
#include "operators.h"

#include <math.h>

typedef struct state {
    dpt_kernel *kernel;
    dropout_params params; /* complete except for `accumulate` and n_samples */
} state;

/* x, sample -> y */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    dropout_params p = s->params;
    p.accumulate = call->accumulate;
    p.n_samples = (u32)call->n_samples;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], DPT_U32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, dpt_ceil_div(p.count, 4), call->n_samples);
}

/* Whether small integers stay exact: they do if 1 / (1 - p) is a small integer. */
static bool is_exact(float p, float scale)
{
    return scale < 65536.0f && (float)(int)scale == scale &&
           (double)scale * (1.0 - (double)p) == 1.0;
}

dpt_status dpt_prepare_dropout(dpt_op *op)
{
    const dpt_dropout_desc *d = &op->desc.u.dropout;
    DPT_TRY(dpt_check_sample(op, d->count));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = (dropout_params){
        .count = (u32)d->count,
        .stream = d->stream,
        .border = (u32)ceil((double)d->p * 0x1p24), /* of u >= p, u a multiple of 2^-24 */
        .scale = (float)(1.0 / (1.0 - (double)d->p)),
    };
    op->plan.run = run;
    op->plan.exact = is_exact(d->p, s->params.scale);
    op->plan.algorithm = "an item four elements";
    return dpt_op_kernel(op, "dropout.cl", "dpt_dropout", &s->kernel);
}
