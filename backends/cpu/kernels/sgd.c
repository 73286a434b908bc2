/* Stochastic gradient descent over the flat parameters, as PyTorch defines it. */
#include "kinds.h"

/* Updates a range of parameters that have the same weight decay.  The gradient is not changed. */
static void update(const dpt_sgd_desc *d, float lr, float decay, dpt_cpu_range range,
                   const float *restrict gradient, float *restrict w, float *restrict velocity)
{
    const float momentum = d->momentum;
    if (!velocity) {
        for (size_t i = range.begin; i < range.end; i++)
            w[i] -= lr * (gradient[i] + decay * w[i]);
        return;
    }
    for (size_t i = range.begin; i < range.end; i++) {
        const float g = gradient[i] + decay * w[i];
        velocity[i] = momentum * velocity[i] + g;
        w[i] -= lr * (d->nesterov ? g + momentum * velocity[i] : velocity[i]);
    }
}

/* gradient (count) -> w (count), velocity (count), changed in place */
static void sgd(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_sgd_desc *d = &call->op->desc.u.sgd;
    if (call->n_samples == 0) return;
    const float lr = call->step->lr;
    float *velocity = d->momentum != 0.0f ? call->out[1] : NULL;
    const dpt_cpu_range own = dpt_cpu_split(d->count, 16, thread, n_threads);
    const dpt_cpu_cut cut = dpt_cpu_cut_at(own, d->decay_count);
    update(d, lr, d->weight_decay, cut.before, call->in[0], call->out[0], velocity);
    update(d, lr, 0.0f, cut.after, call->in[0], call->out[0], velocity);
}

dpt_status KERNEL(prepare_sgd)(dpt_op *op, dpt_error *error)
{
    (void)error;
    op->plan.kernel = sgd;
    op->plan.work = (double)op->desc.u.sgd.count * 0.3;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
