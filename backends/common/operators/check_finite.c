/* Setting the halt word if a number is not finite. */
#include "check_finite.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
} state;

/* x -> halt */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const check_finite_params p = {.count = call->n_samples * call->op->desc.u.check_finite.count};
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_runs(&l, p.count);
}

dpt_status dpt_prepare_check_finite(dpt_op *op)
{
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.run = run;
    op->plan.exact = true;
    op->plan.algorithm = "an item some elements";
    /* It compares bits, so a deterministic operator needs no program of its own. */
    return dpt_kernel_of(op->device, "check_finite.cl", "dpt_check_finite", &s->kernel);
}
