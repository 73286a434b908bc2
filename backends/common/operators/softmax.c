/* Softmax with cross-entropy, alone and with its gradient. */
#include "softmax.h"
#include "operators.h"

/* Up to this number of classes, a work item computes a whole sample.  A group for each sample would
   mostly wait at barriers. */
enum { FEW_CLASSES = 32 };

typedef struct state {
    dpt_kernel *kernel;
    bool few;              /* an item computes a sample */
    softmax_params params; /* complete except for n_samples */
} state;

/* logits, label -> result, dlogits */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    softmax_params p = s->params;
    p.n_samples = call->n_samples;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, call->args->out[1], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], DPT_I32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    if (s->few) return dpt_launch_rows(&l, call->n_samples, 1);
    return dpt_launch_items(&l, call->n_samples * group);
}

dpt_status dpt_prepare_softmax(dpt_op *op)
{
    const dpt_softmax_desc *d = &op->desc.u.softmax;
    const bool few =
        d->classes <= FEW_CLASSES || (op->deterministic && dpt_traits_of(op->device)->is_cpu);
    const double each = (double)d->smoothing / (double)d->classes;
    DPT_TRY(dpt_check_sample(op, d->classes));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = (softmax_params){
        .classes = (u32)d->classes,
        .gradient = op->desc.kind == DPT_OP_SOFTMAX_XENT_GRADIENT,
        .smoothing = d->smoothing,
        .target_on = (float)(1.0 - (double)d->smoothing + each),
        .target_off = (float)each,
    };
    s->few = few;
    op->plan.run = run;
    op->plan.algorithm = few ? "an item a sample" : "a group a sample";
    if (op->deterministic)
        return dpt_kernel_deterministic(op->device, "softmax_fixed.cl",
                                        few ? "dpt_softmax_fixed_few" : "dpt_softmax_fixed_many",
                                        &s->kernel);
    return dpt_kernel_storing(op->device,
                              &(dpt_stored_kernel){"softmax.cl", op->desc.type,
                                                   few ? "dpt_softmax_few" : "dpt_softmax_many"},
                              &s->kernel);
}
