/* The squared error, alone and with its gradient. */
#include "squared_error.h"
#include "operators.h"

enum { LANES = 16 }; /* of a deterministic sum: that of squared_error_fixed.cl */

typedef struct state {
    dpt_kernel *kernel;
    squared_error_params params; /* complete except for n_samples */
} state;

/* y, target -> result, dy */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    squared_error_params p = s->params;
    p.n_samples = call->n_samples;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->out[1], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], DPT_F32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    if (call->op->deterministic) return dpt_launch_rows(&l, p.n_samples, LANES);
    return dpt_launch_items(&l, call->n_samples * group);
}

dpt_status dpt_prepare_squared_error(dpt_op *op)
{
    const size_t count = op->desc.u.squared_error.count;
    DPT_TRY(dpt_check_sample(op, count));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = (squared_error_params){
        .count = (u32)count,
        .gradient = op->desc.kind == DPT_OP_SQUARED_ERROR_GRADIENT,
        .inverse = (float)(1.0 / (double)count),
    };
    op->plan.run = run;
    if (op->deterministic) {
        op->plan.algorithm = "lanes";
        return dpt_kernel_deterministic(op->device, "squared_error_fixed.cl",
                                        "dpt_squared_error_fixed", &s->kernel);
    }
    op->plan.algorithm = "a group a sample";
    return dpt_kernel_storing(
        op->device, &(dpt_stored_kernel){"squared_error.cl", op->desc.type, "dpt_squared_error"},
        &s->kernel);
}
