/* Preparing and running an operator inside another one. */
#include "nested.h"

dpt_status dpt_cuda_nested_prepare(const dpt_op *outer, const dpt_op_desc *conv2d, dpt_op *out)
{
    dpt_status status = DPT_E_UNSUPPORTED;
    *out = (dpt_op){.device = outer->device, .desc = *conv2d, .max_samples = outer->max_samples};
    /* One tile is compiled in; the others return DPT_E_UNSUPPORTED. */
    for (const dpt_alternative *item = dpt_conv2d_local; item->name; item++) {
        status = item->prepare(out, item->parameters);
        if (status == DPT_OK) {
            out->plan.algorithm = item->name;
            return DPT_OK;
        }
        dpt_op_plan_clear(&out->plan);
        if (status != DPT_E_UNSUPPORTED) return status;
    }
    return status;
}

dpt_status dpt_cuda_nested_run(const dpt_op *nested, const dpt_call *outer)
{
    dpt_call call = *outer;
    call.op = nested;
    return nested->plan.run(&call);
}
