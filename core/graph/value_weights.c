/* Gradients of weights that are a value, and no parameter of the layer.  The value has no samples,
   and neither has its gradient: each device sums the gradient over its samples.  What computes the
   value passes the gradient on, which is linear, down to parameters, whose gradients are summed
   over micro-batches and devices. */
#include "graph/compile.h"

/* One that is written over begins as zeros, so that the operator can add to both. */
static dpt_status begin_as_zeros(const dpti_compiler *c, const dpti_node *node, size_t root,
                                 dpti_gradient *gradient)
{
    dpti_instruction zero = {.desc = dpti_fill_with(c->model->nodes[root].elements, false, 0.0f),
                             .layer = node->name,
                             .per_step = true};
    if (gradient->flags & DPT_RUN_ACCUMULATE) return DPT_OK;
    gradient->flags = DPT_RUN_ACCUMULATE;
    dpti_store_operands(c, &zero.desc);
    return dpti_emit(c, zero, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){&gradient->tensor, 1});
}

static void set_bias(dpt_op_desc *desc, bool has_bias)
{
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS)
        desc->u.conv2d.has_bias = has_bias;
    else
        desc->u.linear.has_bias = has_bias;
}

dpt_status dpti_emit_weights_gradient(dpti_compiler *c, const dpti_node *node,
                                      const dpti_weights_gradient *of)
{
    const size_t w = c->root[node->inputs[of->w]],
                 bias = of->bias == SIZE_MAX ? SIZE_MAX : c->root[node->inputs[of->bias]];
    const bool wants_w = c->needs[w], has_bias = bias != SIZE_MAX && c->needs[bias];
    dpti_gradient dw = {.tensor = DPTI_NO_TENSOR}, db = {.tensor = DPTI_NO_TENSOR};
    DPT_TRY(dpti_emit_held(c));
    if (!wants_w && !has_bias) return DPT_OK;
    if (wants_w)
        DPT_TRY(dpti_begin_gradient(c, w, &dw));
    else /* the operator computes it all the same */
        DPT_TRY(dpti_add_value(c, w, &dw.tensor));
    dpti_instruction backward = {
        .desc = of->desc, .layer = node->name, .repeat = of->repeat > 1 ? of->repeat : 0};
    backward.desc.type = c->options->type;
    set_bias(&backward.desc, has_bias);
    if (has_bias) {
        DPT_TRY(dpti_begin_gradient(c, bias, &db));
        if (dw.flags != db.flags) {
            DPT_TRY(begin_as_zeros(c, node, w, &dw));
            DPT_TRY(begin_as_zeros(c, node, bias, &db));
        }
    }
    backward.flags = dw.flags;
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){of->dy, of->x}), ((int[]){dw.tensor, db.tensor})));
    if (wants_w) DPT_TRY(dpti_end_gradient(c, w, &dw));
    return has_bias ? dpti_end_gradient(c, bias, &db) : DPT_OK;
}
