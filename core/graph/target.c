/* Gradients of inputs that an operator writes as a whole, although others may contribute to them.
 */
#include "graph/compile.h"

dpt_status dpti_open_target(dpti_compiler *c, size_t root, dpti_target *out)
{
    *out = (dpti_target){.root = root, .is_wanted = c->needs[root]};
    if (out->is_wanted) DPT_TRY(dpti_begin_gradient(c, out->root, &out->gradient));
    out->tensor = out->gradient.tensor;
    const bool adds = (out->gradient.flags & DPT_RUN_ACCUMULATE) != 0;
    if (!out->is_wanted || adds) DPT_TRY(dpti_add_value(c, out->root, &out->tensor));
    return DPT_OK;
}

dpt_status dpti_close_target(dpti_compiler *c, const dpti_node *node, const dpti_target *of)
{
    if (!of->is_wanted) return DPT_OK;
    if (of->tensor != of->gradient.tensor) {
        const dpti_instruction add = {
            .desc = {.kind = DPT_OP_ADD,
                     .type = c->options->type,
                     .u.elementwise = {.count = c->model->nodes[of->root].elements,
                                       .alpha = 1.0f,
                                       .beta = 1.0f}},
            .layer = node->name};
        DPT_TRY(DPTI_EMIT(c, add, ((int[]){of->gradient.tensor, of->tensor}),
                          ((int[]){of->gradient.tensor})));
    }
    return dpti_end_gradient(c, of->root, &of->gradient);
}
