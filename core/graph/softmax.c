/* The softmax of values of any rank: ROW_SOFTMAX. */
#include "graph/softmax.h"

#include "graph/tensor.h"

/* Exchanges an axis with the last one. */
static dpt_value exchange(dpt_model *model, dpt_value x, size_t axis)
{
    const size_t rank = dpti_extents_of(model, x).rank;
    size_t order[DPT_MAX_RANK] = {0};
    if (axis == rank - 1) return x;
    for (size_t i = 0; i < rank; i++)
        order[i] = i;
    order[axis] = rank - 1;
    order[rank - 1] = axis;
    return dpti_transpose(model, x, order);
}

dpt_value dpti_softmax(dpt_model *model, dpt_value x, const dpti_softmax_options *options)
{
    if (!dpti_make_plain(model, &x, "softmax")) return (dpt_value){0};
    x = dpti_for_each_sample(model, x);
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    if (options->axis >= e.rank)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer softmax-%zu: its input has no axis %zu; it has %zu axes",
                               model->n_nodes, options->axis, e.rank);
    x = exchange(model, x, options->axis);
    if (!x.id) return x;
    x = dpti_row_major(model, x);
    if (!x.id) return x;
    const dpti_node *in = dpti_node_at(model, x);
    const size_t columns = in->shape.extent[e.rank - 1];
    dpti_node node = dpti_node_over(DPTI_NODE_SOFTMAX, NULL, x);
    const dpti_shape shape = in->shape;
    dpti_set_shape(&node, &shape);
    node.forward = (dpt_op_desc){
        .kind = DPT_OP_ROW_SOFTMAX_FORWARD,
        .u.row_softmax = {.rows = in->elements / columns, .columns = columns, .log = options->log}};
    x = dpti_add_unnamed(model, "softmax", node);
    return x.id ? exchange(model, x, options->axis) : x;
}
