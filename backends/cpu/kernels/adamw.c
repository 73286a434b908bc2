/* Adam with decoupled weight decay over the flat parameters, as PyTorch defines it. */
#include "kinds.h"

#include <math.h>

/* Updates a range of parameters that have the same weight decay.  The gradient is not changed. */
static void update(const dpt_adamw_desc *d, const dpt_step_block *step, float decay,
                   dpt_cpu_range range, const float *restrict gradient, float *restrict w,
                   float *restrict m, float *restrict v)
{
    const float beta1 = d->beta1, beta2 = d->beta2, epsilon = d->epsilon;
    const float keep = fmaf(-step->lr, decay, 1.0f);
    const float rate = step->lr * step->adam_scale_m, scale_v = step->adam_scale_v;
    for (size_t i = range.begin; i < range.end; i++) {
        const float g = gradient[i];
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        v[i] = beta2 * v[i] + (1.0f - beta2) * (g * g);
        w[i] = keep * w[i] - rate * m[i] / (sqrtf(v[i]) * scale_v + epsilon);
    }
}

/* gradient (count) -> w, m, v (count each), changed in place */
static void adamw(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_adamw_desc *d = &call->op->desc.u.adamw;
    if (call->n_samples == 0) return;
    const dpt_cpu_range own = dpt_cpu_split(d->count, 16, thread, n_threads);
    const dpt_cpu_cut cut = dpt_cpu_cut_at(own, d->decay_count);
    update(d, call->step, d->weight_decay, cut.before, call->in[0], call->out[0], call->out[1],
           call->out[2]);
    update(d, call->step, 0.0f, cut.after, call->in[0], call->out[0], call->out[1], call->out[2]);
}

dpt_status KERNEL(prepare_adamw)(dpt_op *op, dpt_error *error)
{
    (void)error;
    op->plan.kernel = adamw;
    op->plan.work = (double)op->desc.u.adamw.count * 0.6;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
