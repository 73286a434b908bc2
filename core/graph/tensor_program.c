/* Programs over values of any rank, and values that are put side by side. */
#include "graph/tensor.h"

#include "base/print.h"

#include <string.h>

enum { FORMULA_BYTES = 96 };

/* ---- Programs -------------------------------------------------------------------------------- */

/* The extents of the space.  false after a failure. */
static bool find_space(dpt_model *model, const dpti_mapping *m, const dpt_value *inputs,
                       dpti_extents *space)
{
    *space = (dpti_extents){.rank = 0};
    for (size_t i = 0; i < m->n; i++) {
        const dpti_extents e = dpti_extents_of(model, inputs[i]);
        if (dpti_broadcast_extents(&e, space)) continue;
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s-%zu: the shapes of its inputs do not agree: from the last "
                              "axis on, they must have the same extent, or 1",
                              m->what, model->n_nodes);
        return false;
    }
    return true;
}

/* The shape of the result: the order of its axes in memory is that of the largest input. */
static dpti_shape find_result(const dpt_model *model, const dpti_mapping *m,
                              const dpt_value *inputs, const dpti_extents *space)
{
    const dpti_node *largest = dpti_node_at(model, inputs[0]);
    for (size_t i = 1; i < m->n; i++)
        if (dpti_node_at(model, inputs[i])->elements > largest->elements)
            largest = dpti_node_at(model, inputs[i]);
    dpti_extents extents = *space;
    for (size_t i = 0; i < space->rank && i < DPT_MAX_RANK; i++)
        if (m->reduced >> i & 1) extents.extent[i] = 1;
    const dpti_shape order = dpti_shape_broadcast(&largest->shape, space);
    return dpti_shape_like(&extents, &order);
}

/* Whether the derivative with respect to each input that may need one fits into a program. */
static bool has_derivatives(dpt_model *model, const dpti_mapping *m, const dpt_value *inputs,
                            const dpt_map_desc *d)
{
    dpti_map_code code = {.n_code = d->n_code, .value = d->value[0], .n_in = d->n_in}, derivative;
    memcpy(code.code, d->code, sizeof code.code);
    for (uint8_t i = 0; i < DPT_MAX_INPUTS; i++)
        code.in[i] = i;
    for (uint8_t i = 0; i < d->n_in; i++) {
        const dpti_node *input = dpti_node_at(model, inputs[i]);
        if (input->kind == DPTI_NODE_CONSTANT || input->integer) continue;
        if (dpti_map_differentiate(&code, i, d->n_in, &derivative)) continue;
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s-%zu: its derivative is too long; divide it into several "
                              "layers",
                              m->what, model->n_nodes);
        return false;
    }
    return true;
}

/* Whether a reduction has a gradient: a sum of any program, a maximum or a minimum of an input. */
static bool reduces_well(dpt_model *model, const dpti_mapping *m)
{
    const bool extreme = m->reduction == DPT_REDUCE_MAXIMUM || m->reduction == DPT_REDUCE_MINIMUM;
    if (!m->reduced || m->reduction == DPT_REDUCE_SUM) return true;
    if (extreme && m->n == 1 && m->code->n_code == 1) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_UNSUPPORTED,
                          "layer %s-%zu: only a sum, and a maximum or minimum of one value, can be "
                          "trained",
                          m->what, model->n_nodes);
    return false;
}

/* Fills in the description of a program over the node's inputs, whose shapes are known. */
static void describe(const dpt_model *model, const dpti_mapping *m, const dpti_extents *space,
                     dpti_node *node)
{
    dpt_map_desc *d = &node->forward.u.map;
    node->forward.kind = m->reduced ? DPT_OP_MAP_REDUCE : DPT_OP_MAP;
    *d = (dpt_map_desc){.rank = space->rank,
                        .n_in = (uint8_t)m->n,
                        .n_out = 1,
                        .n_code = m->code->n_code,
                        .reduction = m->reduced ? (uint8_t)m->reduction : 0,
                        .value = {m->code->value}};
    memcpy(d->extent, space->extent, sizeof d->extent);
    memcpy(d->code, m->code->code, sizeof d->code);
    for (uint8_t i = 0; i < d->n_code; i++)
        if (d->code[i].code == DPT_MAP_LOAD) d->code[i].index = m->code->in[d->code[i].index];
    for (size_t i = 0; i < m->n; i++) {
        const dpti_node *input = &model->nodes[node->inputs[i]];
        const dpti_shape shape = dpti_shape_broadcast(&input->shape, space);
        d->in[i] = dpti_operand(input, &shape);
    }
    d->out[0] = dpti_operand(node, &node->shape);
}

dpt_value dpti_map(dpt_model *model, const dpti_mapping *mapping)
{
    dpt_value inputs[DPTI_MAP_INPUTS];
    dpti_extents space;
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (mapping->n < 1 || mapping->n > DPTI_MAP_INPUTS)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s-%zu has %zu inputs, not 1 to %d",
                               mapping->what, model->n_nodes, mapping->n, DPTI_MAP_INPUTS);
    memcpy(inputs, mapping->inputs, mapping->n * sizeof *inputs);
    for (size_t i = 0; i < mapping->n; i++)
        if (!dpti_make_plain(model, &inputs[i], mapping->what)) return (dpt_value){0};
    if (!find_space(model, mapping, inputs, &space)) return (dpt_value){0};
    dpti_node node = dpti_node_over(DPTI_NODE_ELEMENTWISE, NULL, inputs[0]);
    const dpti_shape result = find_result(model, mapping, inputs, &space);
    dpti_set_shape(&node, &result);
    node.unsampled = true;
    node.n_inputs = mapping->n;
    for (size_t i = 0; i < mapping->n; i++) {
        node.inputs[i] = inputs[i].id - 1;
        node.unsampled = node.unsampled && dpti_node_at(model, inputs[i])->unsampled;
    }
    describe(model, mapping, &space, &node);
    if (!reduces_well(model, mapping) ||
        !has_derivatives(model, mapping, inputs, &node.forward.u.map))
        return (dpt_value){0};
    return dpti_add_unnamed(model, mapping->what, node);
}

dpt_value dpti_formula(dpt_model *model, const char *formula, const dpt_value *inputs, size_t n)
{
    dpti_map_code code;
    dpt_error error = {.status = DPT_OK};
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (dpti_map_parse(formula, n, &code, &error) != DPT_OK)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer formula-%zu, \"%.80s\": %.300s",
                               model->n_nodes, formula, error.message);
    return dpti_map(model,
                    &(dpti_mapping){.what = "formula", .code = &code, .inputs = inputs, .n = n});
}

dpt_value dpti_mean(dpt_model *model, const char *formula, dpt_value x, uint32_t axes)
{
    char text[FORMULA_BYTES];
    dpti_map_code code;
    dpt_error error = {.status = DPT_OK};
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    const dpti_extents e = dpti_extents_of(model, x);
    double n = 1;
    for (size_t i = 0; i < e.rank; i++)
        if (axes >> i & 1) n *= (double)e.extent[i];
    dpti_print(text, sizeof text, "%s * %.9g", formula, 1 / n);
    if (dpti_map_parse(text, 1, &code, &error) != DPT_OK)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "%s", error.message);
    return dpti_map(model, &(dpti_mapping){.what = "mean",
                                           .code = &code,
                                           .inputs = &x,
                                           .n = 1,
                                           .reduced = axes,
                                           .reduction = DPT_REDUCE_SUM});
}

/* ---- Joining --------------------------------------------------------------------------------- */

static bool fits_beside(const dpti_extents *a, const dpti_extents *b, size_t axis)
{
    if (a->rank != b->rank || axis >= a->rank) return false;
    for (size_t i = 0; i < a->rank; i++)
        if (i != axis && a->extent[i] != b->extent[i]) return false;
    return true;
}

/* Joins are of real numbers: *x, or a copy of it as real numbers. */
static bool make_real(dpt_model *model, dpt_value *x, const char *what)
{
    if (!dpti_make_plain(model, x, what)) return false;
    if (dpti_node_at(model, *x)->integer) *x = dpti_formula(model, "a", x, 1);
    return x->id != 0;
}

static dpt_value add_join(dpt_model *model, const char *what, dpti_node node)
{
    node.kind = DPTI_NODE_JOIN;
    return dpti_add_unnamed(model, what, node);
}

dpt_value dpti_concatenate(dpt_model *model, const dpt_value *values, size_t n, size_t axis)
{
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (n < 1 || n > DPTI_NODE_INPUTS)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer concatenate-%zu has %zu inputs, not 1 to %d", model->n_nodes,
                               n, DPTI_NODE_INPUTS);
    dpti_node node = {.weight = SIZE_MAX, .bias = SIZE_MAX, .mean = SIZE_MAX, .variance = SIZE_MAX};
    dpti_extents extents = {.rank = 0};
    node.n_inputs = n;
    node.unsampled = true;
    for (size_t i = 0; i < n; i++) {
        dpt_value x = values[i];
        if (!make_real(model, &x, "concatenate")) return (dpt_value){0};
        const dpti_extents e = dpti_extents_of(model, x);
        if (i == 0) extents = e;
        if (!fits_beside(&e, &extents, axis))
            return DPTI_MODEL_FAIL(
                model, DPT_E_INVALID,
                "layer concatenate-%zu: its inputs differ on another axis than %zu", model->n_nodes,
                axis);
        if (i > 0) extents.extent[axis] += e.extent[axis];
        node.inputs[i] = x.id - 1;
        node.unsampled = node.unsampled && dpti_node_at(model, x)->unsampled;
    }
    const dpti_shape shape = dpti_shape_like(&extents, &model->nodes[node.inputs[0]].shape);
    dpti_set_shape(&node, &shape);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        node.join.offset[i] = at * (size_t)shape.stride[axis];
        at += model->nodes[node.inputs[i]].shape.extent[axis];
    }
    memcpy(node.join.step, shape.stride, sizeof node.join.step);
    return add_join(model, "concatenate", node);
}

dpt_value dpti_pad(dpt_model *model, dpt_value x, const dpti_padding *padding)
{
    if (!model || model->status != DPT_OK || !make_real(model, &x, "pad")) return (dpt_value){0};
    const dpti_shape from = dpti_node_at(model, x)->shape;
    dpti_extents extents = {.rank = from.rank};
    dpti_node node = dpti_node_over(DPTI_NODE_JOIN, NULL, x);
    for (size_t i = 0; i < from.rank; i++) {
        const size_t gap = padding->gap[i] ? padding->gap[i] : 1;
        extents.extent[i] = padding->before[i] + padding->after[i] + (from.extent[i] - 1) * gap + 1;
        node.join.fills = node.join.fills || extents.extent[i] != from.extent[i];
    }
    if (!node.join.fills) return x;
    const dpti_shape shape = dpti_shape_like(&extents, &from);
    dpti_set_shape(&node, &shape);
    node.unsampled = dpti_node_at(model, x)->unsampled;
    node.join.fill = padding->fill;
    for (size_t i = 0; i < from.rank; i++) {
        const size_t gap = padding->gap[i] ? padding->gap[i] : 1;
        node.join.offset[0] += padding->before[i] * (size_t)shape.stride[i];
        node.join.step[i] = shape.stride[i] * (int32_t)gap;
    }
    return add_join(model, "pad", node);
}
