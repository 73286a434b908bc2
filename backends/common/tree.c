/* Adding up parts along the tree of grains. */
#include "tree.h"
#include "tree_params.h"

_Static_assert((int)DPT_MOST_GRAINS == 1 << TREE_LEVELS, "a level for each bit of a grain");

dpt_status dpt_tree_prepare(dpt_device *device, dpt_kernel **out)
{
    return dpt_kernel_deterministic(device, "tree.cl", "dpt_tree", out);
}

dpt_status dpt_tree_add(dpt_kernel *kernel, dpt_stream *stream, const dpt_tree_parts *parts)
{
    const tree_params p = {.count = parts->count,
                           .part = parts->size,
                           .n_parts = (u32)parts->n,
                           .accumulate = parts->accumulate};
    dpt_launch l = dpt_launch_begin(stream, kernel);
    dpt_launch_tensor(&l, parts->to, DPT_F32);
    dpt_launch_tensor(&l, parts->parts, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_items(&l, parts->count);
}

size_t dpt_grain_of(const dpt_call *call)
{
    return call->grain > 0 ? call->grain : call->n_samples;
}

size_t dpt_grains_of(const dpt_call *call)
{
    return call->n_samples > 0 ? dpt_ceil_div(call->n_samples, dpt_grain_of(call)) : 1;
}
