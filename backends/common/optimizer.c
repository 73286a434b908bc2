/* Choosing and launching an optimizer's kernel. */
#include "optimizer.h"

dpt_status dpt_optimizer_prepare(dpt_op *op, const dpt_optimizer_kernels *kernels,
                                 dpt_optimizer *out)
{
    out->by_quads = dpt_takes_quads(op->device, out->count);
    op->plan.algorithm = out->by_quads ? "an item two quads" : "an item an element";
    const char *const name = out->by_quads ? kernels->by_quads : kernels->by_elements;
    if (op->deterministic)
        return dpt_kernel_deterministic(op->device, kernels->file, name, &out->kernel);
    return dpt_kernel_of(op->device, kernels->file, name, &out->kernel);
}

dpt_status dpt_optimizer_run(const dpt_optimizer *optimizer, const dpt_call *call,
                             const void *params, size_t n_bytes)
{
    const dpt_op_args *args = call->args;
    if (call->n_samples == 0) return DPT_OK;
    dpt_launch l = dpt_launch_begin(call->stream, optimizer->kernel);
    for (size_t i = 0; i < optimizer->n_outputs; i++)
        dpt_launch_tensor(&l, args->out[i], DPT_F32);
    dpt_launch_tensor(&l, args->in[0], DPT_F32);
    dpt_launch_tensor(&l, args->step, DPT_U32);
    dpt_launch_tensor(&l, args->halt, DPT_F32);
    dpt_launch_value(&l, params, n_bytes);
    return optimizer->by_quads ? dpt_launch_quads(&l, optimizer->count / 4, 1)
                               : dpt_launch_elements(&l, optimizer->count, 1);
}
