/* Deterministic linear layers: the convolution of images of one pixel with filters of one tap is
   the same product. */
#include "conv2d.h"
#include "linear.h"

#include <stdlib.h>

/* op->plan.state */
typedef struct chains {
    dpt_op conv2d;
} chains;

static void destroy(void *state)
{
    chains *s = state;
    dpt_op_plan_clear(&s->conv2d.plan);
    free(s);
}

static dpt_status run(const dpt_call *call)
{
    const chains *s = call->op->plan.state;
    dpt_call inner = *call;
    inner.op = &s->conv2d;
    return s->conv2d.plan.run(&inner);
}

dpt_status dpt_linear_chains_prepare(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const dpt_conv2d_linear layer = {.dy_first = d->first, .dy_row = d->out};
    if (dpt_size_mul(d->in, d->out) > INT32_MAX || op->max_samples > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: weights and samples must "
                        "count less than 2^31",
                        d->in, d->out, op->max_samples);
    chains *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.destroy = destroy;
    s->conv2d = (dpt_op){.device = op->device,
                         .desc = dpt_linear_as_conv2d(&op->desc),
                         .max_samples = op->max_samples,
                         .deterministic = true};
    DPT_TRY(dpt_conv2d_chains(&s->conv2d, &layer));
    const dpt_op_plan *plan = &s->conv2d.plan;
    op->plan.run = run;
    op->plan.workspace_bytes = plan->workspace_bytes;
    op->plan.flops = plan->flops;
    op->plan.exact = dpt_linear_is_exact(&op->desc);
    op->plan.has_grains = plan->has_grains;
    op->plan.algorithm = plan->algorithm;
    return DPT_OK;
}
