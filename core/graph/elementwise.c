/* The element-wise layer: formulas over values, with broadcasting. */
#include "graph/elementwise.h"

#include "graph/tensor.h"

#include <string.h>

/* ---- The space ------------------------------------------------------------------------------- */

/* The operand of a value in the space of `out`: an axis on which the value has one element is
   broadcast. */
static dpt_map_operand operand_of(const dpti_extent *value, const dpti_extent *out)
{
    return (dpt_map_operand){
        .sampled = true,
        .size = value->h * value->w * value->c,
        .stride = {value->h == out->h && out->h > 1 ? (int32_t)(value->w * value->c) : 0,
                   value->w == out->w && out->w > 1 ? (int32_t)value->c : 0,
                   value->c == out->c && out->c > 1 ? 1 : 0}};
}

/* A description of this program without operands. */
static dpt_map_desc describe(const dpti_map_code *code, const dpti_extent *out)
{
    dpt_map_desc d = {.rank = 3,
                      .extent = {out->h, out->w, out->c},
                      .n_in = code->n_in,
                      .n_out = 1,
                      .n_code = code->n_code,
                      .value = {code->value}};
    memcpy(d.code, code->code, sizeof d.code);
    return d;
}

/* ---- The layer ------------------------------------------------------------------------------- */

/* One extent of all inputs: their largest.  false if one of them is neither that nor 1. */
static bool broadcast(size_t extent, size_t *out)
{
    if (*out == 1) *out = extent;
    return extent == *out || extent == 1;
}

static dpt_status refuse(dpt_model *model, const char *formula, const char *reason)
{
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer elementwise-%zu, \"%.80s\": %s",
                          model->n_nodes, formula, reason);
    return DPT_E_INVALID;
}

/* Flat values have the order in memory of what was flattened; those that are combined must agree.
 */
static bool orders_agree(const dpti_node *a, const dpti_node *b)
{
    const dpti_extent p = a->before_flatten, q = b->before_flatten;
    return p.h == q.h && p.w == q.w && p.c == q.c;
}

/* The extent of the output. */
static dpt_status find_extent(dpt_model *model, const char *formula, dpti_node *node)
{
    dpti_extent out = {.h = 1, .w = 1, .c = 1, .flat = true};
    const dpti_node *first = NULL;
    for (size_t i = 0; i < node->n_inputs; i++) {
        const dpti_node *input = &model->nodes[node->inputs[i]];
        const dpti_extent e = input->extent;
        if (!broadcast(e.h, &out.h) || !broadcast(e.w, &out.w) || !broadcast(e.c, &out.c))
            return refuse(model, formula,
                          "the shapes of its inputs do not agree: on every axis "
                          "they must have the same extent, or 1");
        out.flat = out.flat && e.flat;
        if (e.flat && e.c > 1 && !first) first = input;
        if (e.flat && e.c > 1 && !orders_agree(first, input))
            return refuse(model, formula, "its inputs were flattened from different shapes");
    }
    if (!out.flat && first && first->before_flatten.h * first->before_flatten.w > 1)
        return refuse(model, formula, "a flattened image is combined with an image");
    node->extent = out;
    if (out.flat) node->before_flatten = first ? first->before_flatten : out;
    return DPT_OK;
}

/* The program of a formula, in which LOAD i reads input i. */
static dpt_status find_program(dpt_model *model, const char *formula, size_t n, dpti_map_code *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_map_code derivative;
    if (dpti_map_parse(formula, n, out, &error) != DPT_OK)
        return refuse(model, formula, error.message);
    if (out->n_in < n) return refuse(model, formula, "it does not read all of its inputs");
    for (uint8_t i = 0; i < n; i++)
        if (!dpti_map_differentiate(out, i, (uint8_t)n, &derivative))
            return refuse(model, formula,
                          "its derivative is too long; divide it into several layers");
    for (uint8_t i = 0; i < out->n_code; i++)
        if (out->code[i].code == DPT_MAP_LOAD) out->code[i].index = out->in[out->code[i].index];
    for (uint8_t i = 0; i < DPT_MAX_INPUTS; i++)
        out->in[i] = i;
    return DPT_OK;
}

static bool are_usable(dpt_model *model, const dpt_value *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!dpti_usable(model, inputs[i], "elementwise")) return false;
    return true;
}

/* Whether one of the values has axes of its own, which are not those of an image or a vector. */
static bool has_axes(const dpt_model *model, const dpt_value *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (model->nodes[inputs[i].id - 1].has_shape) return true;
    return false;
}

dpt_value dpt_elementwise(dpt_model *model, const char *formula, const dpt_value *inputs,
                          size_t n_inputs)
{
    dpti_map_code code;
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (!formula || !inputs || n_inputs < 1 || n_inputs > DPTI_FORMULA_INPUTS)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer elementwise-%zu needs a formula and 1 to %d inputs",
                               model->n_nodes, DPTI_FORMULA_INPUTS);
    if (!are_usable(model, inputs, n_inputs)) return (dpt_value){0};
    if (has_axes(model, inputs, n_inputs)) return dpti_formula(model, formula, inputs, n_inputs);
    dpti_node node = dpti_node_over(DPTI_NODE_ELEMENTWISE, NULL, inputs[0]);
    node.n_inputs = n_inputs;
    for (size_t i = 0; i < n_inputs; i++)
        node.inputs[i] = inputs[i].id - 1;
    if (find_extent(model, formula, &node) != DPT_OK ||
        find_program(model, formula, n_inputs, &code) != DPT_OK)
        return (dpt_value){0};
    node.forward = (dpt_op_desc){.kind = DPT_OP_MAP, .u.map = describe(&code, &node.extent)};
    for (size_t i = 0; i < n_inputs; i++) {
        const dpti_node *input = &model->nodes[node.inputs[i]];
        node.forward.u.map.in[i] = operand_of(&input->extent, &node.extent);
        if (input->integer) node.forward.u.map.in[i].type = DPT_I32;
    }
    node.forward.u.map.out[0] = operand_of(&node.extent, &node.extent);
    return dpti_add_unnamed(model, "elementwise", node);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static bool has_samples(const dpt_map_desc *d)
{
    bool sampled = false;
    for (size_t i = 0; i < d->n_in; i++)
        sampled = sampled || d->in[i].sampled;
    return sampled;
}

dpt_op_kind dpti_sum_kind(const dpt_map_desc *d)
{
    for (size_t i = 0; i < d->rank; i++)
        if (d->extent[i] > 1 && d->out[0].stride[i] == 0) return DPT_OP_MAP_REDUCE;
    return !d->out[0].sampled && has_samples(d) ? DPT_OP_MAP_REDUCE : DPT_OP_MAP;
}

/* The space of a program, without operands and instructions. */
static dpt_map_desc same_space(const dpt_map_desc *of)
{
    dpt_map_desc d = {.rank = of->rank, .n_out = 1};
    memcpy(d.extent, of->extent, sizeof d.extent);
    return d;
}

dpt_op_desc dpti_elementwise_gradient(const dpti_node *node, size_t input,
                                      uint8_t tensors[DPT_MAX_INPUTS])
{
    const dpt_map_desc *forward = &node->forward.u.map;
    dpti_map_code value = {.n_code = forward->n_code, .value = forward->value[0]}, derivative;
    value.n_in = forward->n_in;
    for (uint8_t i = 0; i < DPT_MAX_INPUTS; i++)
        value.in[i] = i;
    memcpy(value.code, forward->code, sizeof value.code);
    (void)!dpti_map_differentiate(&value, (uint8_t)input, value.n_in, &derivative);
    dpt_op_desc desc = {.u.map = same_space(forward)};
    dpt_map_desc *d = &desc.u.map;
    d->n_in = derivative.n_in;
    d->n_code = derivative.n_code;
    d->value[0] = derivative.value;
    memcpy(d->code, derivative.code, sizeof d->code);
    for (uint8_t i = 0; i < derivative.n_in; i++) {
        tensors[i] = derivative.in[i];
        d->in[i] = derivative.in[i] < value.n_in ? forward->in[derivative.in[i]] : forward->out[0];
    }
    d->out[0] = forward->in[input];
    desc.kind = dpti_sum_kind(d);
    return desc;
}

dpt_op_desc dpti_count_ties(const dpti_node *node)
{
    const dpt_map_desc *forward = &node->forward.u.map;
    dpt_op_desc desc = {.kind = DPT_OP_MAP_REDUCE, .u.map = same_space(forward)};
    dpt_map_desc *d = &desc.u.map;
    d->n_in = 2;
    d->in[0] = forward->in[0];
    d->in[1] = d->out[0] = forward->out[0];
    d->n_code = 3;
    d->value[0] = 2;
    d->code[1].index = 1;
    d->code[2] = (dpt_map_instruction){.code = DPT_MAP_EQUAL, .a = 0, .b = 1};
    return desc;
}

dpt_op_desc dpti_share_gradient(const dpti_node *node)
{
    const dpt_map_desc *forward = &node->forward.u.map;
    dpt_op_desc desc = {.u.map = same_space(forward)};
    dpt_map_desc *d = &desc.u.map;
    d->n_in = 4;
    for (uint8_t i = 0; i < 4; i++) {
        d->in[i] = i == 0 ? forward->in[0] : forward->out[0];
        d->code[i].index = i;
    }
    d->n_code = 8;
    d->value[0] = 7;
    d->code[4] = (dpt_map_instruction){.code = DPT_MAP_EQUAL, .a = 0, .b = 1};
    d->code[5] = (dpt_map_instruction){.code = DPT_MAP_DIVIDE, .a = 2, .b = 3};
    d->code[6] = (dpt_map_instruction){.code = DPT_MAP_CONSTANT};
    d->code[7] = (dpt_map_instruction){.code = DPT_MAP_SELECT, .a = 4, .b = 5, .c = 6};
    d->out[0] = forward->in[0];
    desc.kind = dpti_sum_kind(d);
    return desc;
}
