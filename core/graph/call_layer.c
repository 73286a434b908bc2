/* Operators of the program's own: the layer, and the instructions that call its functions. */
#include "graph/call.h"

#include "graph/compile.h"
#include "graph/tensor.h"

#include <string.h>

_Static_assert((int)DPT_OPERATOR_INPUTS == (int)DPTI_INSTRUCTION_OUTPUTS,
               "each input of an operator has a gradient");
_Static_assert((int)DPT_OPERATOR_INPUTS < (int)DPT_MAX_INPUTS,
               "the backward function also reads the gradient of the output");

bool dpti_model_calls(const dpt_model *model)
{
    for (size_t i = 0; i < model->n_nodes; i++)
        if (model->nodes[i].kind == DPTI_NODE_CALL) return true;
    return false;
}

dpt_status dpti_check_calls_declared(const dpt_model *model, dpt_error *error)
{
    for (size_t i = 0; i < model->n_nodes; i++) {
        const dpti_node *node = &model->nodes[i];
        if (node->kind == DPTI_NODE_CALL && !node->declared_deterministic)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "layer %s is an operator of the program that does not say that its "
                            "bits are the same everywhere: set dpt_operator_options.deterministic "
                            "if they are, or leave deterministic out",
                            node->name);
    }
    return DPT_OK;
}

/* ---- The layer ------------------------------------------------------------------------------- */

/* The extent of the output.  Returns false after a failure. */
static bool find_extent(dpt_model *model, const char *name, const dpt_operator_options *o,
                        dpti_node *node)
{
    const bool image = o->height > 0 && o->width > 0 && o->channels > 0 && o->elements == 0;
    const bool vector = o->height == 0 && o->width == 0 && o->channels == 0 && o->elements > 0;
    if (!image && !vector) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: give either height, width and channels of its output, or "
                              "its elements",
                              name);
        return false;
    }
    node->extent = image ? (dpti_extent){.h = o->height, .w = o->width, .c = o->channels}
                         : (dpti_extent){.h = 1, .w = 1, .c = o->elements, .flat = true};
    if (vector) node->before_flatten = node->extent;
    return true;
}

/* Puts the elements of x into the order that the functions see: an image is in it already. */
static bool put_in_order(dpt_model *model, dpt_value *x, const char *name)
{
    if (!dpti_usable(model, *x, name)) return false;
    if (dpti_node_at(model, *x)->extent.flat) *x = dpti_row_major(model, dpti_as_flat(model, *x));
    *x = dpti_for_each_sample(model, *x);
    return x->id != 0;
}

dpt_value dpt_operator(dpt_model *model, const char *name, const dpt_value *inputs, size_t n_inputs,
                       const dpt_operator_options *options)
{
    dpt_operator_options o;
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (!inputs || n_inputs < 1 || n_inputs > DPT_OPERATOR_INPUTS)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: an operator has 1 to %d inputs",
                               name ? name : "operator", DPT_OPERATOR_INPUTS);
    dpti_node node = dpti_node_over(DPTI_NODE_CALL, name, (dpt_value){1});
    for (size_t i = 0; i < n_inputs; i++) {
        dpt_value x = inputs[i];
        if (!put_in_order(model, &x, name ? name : "operator")) return (dpt_value){0};
        node.inputs[i] = x.id - 1;
    }
    node.n_inputs = n_inputs;
    if (!dpti_name_is_new(model, name) || !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_operator_options", options, sizeof o},
                           &o) ||
        !find_extent(model, name, &o, &node))
        return (dpt_value){0};
    if (!o.forward || !o.backward)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: an operator needs a forward and a backward function",
                               name);
    node.forward_function = o.forward;
    node.backward_function = o.backward;
    node.user = o.user;
    node.declared_deterministic = o.deterministic;
    return dpti_add_layer(model, node, DPT_ACT_NONE);
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Copies elements of each sample from a tensor into another one; one of them is float32, the other
   one an activation. */
typedef struct move {
    int from, to;
    bool widens; /* `from` is the activation */
    size_t count;
    uint32_t flags;
    const char *layer;
} move;

static dpt_status emit_move(const dpti_compiler *c, const move *m)
{
    dpt_map_operand each = {.type = DPT_F32, .sampled = true, .size = m->count, .stride = {1}};
    dpti_instruction copy = {.desc = {.kind = DPT_OP_MAP,
                                      .type = c->options->type,
                                      .u.map = {.rank = 1,
                                                .extent = {m->count},
                                                .n_in = 1,
                                                .n_out = 1,
                                                .n_code = 1,
                                                .in = {each},
                                                .out = {each}}},
                             .flags = m->flags,
                             .layer = m->layer};
    *(m->widens ? &copy.desc.u.map.in[0].type : &copy.desc.u.map.out[0].type) = c->options->type;
    return DPTI_EMIT(c, copy, ((int[]){m->from}), ((int[]){m->to}));
}

/* An activation as float32: the tensor itself, or a copy. */
static dpt_status widen(const dpti_compiler *c, const dpti_node *node, int tensor, int *out)
{
    *out = tensor;
    if (c->options->type == DPT_F32 || node->integer) return DPT_OK;
    DPT_TRY(dpti_add_sampled(c, node->elements, out));
    return emit_move(c, &(move){.from = tensor,
                                .to = *out,
                                .widens = true,
                                .count = node->elements,
                                .layer = node->name});
}

static dpti_instruction call_of(const dpti_compiler *c, const dpti_node *node, dpti_call_kind kind)
{
    return (dpti_instruction){.layer = node->name,
                              .call = {.kind = kind,
                                       .training = dpti_is_training(c),
                                       .n_inputs = node->n_inputs,
                                       .operate = kind == DPTI_CALL_FORWARD
                                                      ? node->forward_function
                                                      : node->backward_function,
                                       .user = node->user}};
}

/* The inputs of an operator as its functions read them. */
static dpt_status find_inputs(const dpti_compiler *c, const dpti_node *node, int *in)
{
    for (size_t k = 0; k < node->n_inputs; k++) {
        const size_t root = c->root[node->inputs[k]];
        DPT_TRY(widen(c, &c->model->nodes[root], c->value[root], &in[k]));
    }
    return DPT_OK;
}

dpt_status dpti_emit_call(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int in[DPT_MAX_INPUTS], out = c->value[i];
    DPT_TRY(find_inputs(c, node, in));
    if (c->options->type != DPT_F32) DPT_TRY(dpti_add_sampled(c, node->elements, &out));
    DPT_TRY(dpti_emit(c, call_of(c, node, DPTI_CALL_FORWARD), (dpti_tensor_ids){in, node->n_inputs},
                      (dpti_tensor_ids){&out, 1}));
    if (out == c->value[i]) return DPT_OK;
    return emit_move(
        c, &(move){.from = out, .to = c->value[i], .count = node->elements, .layer = node->name});
}

/* The function writes the gradient of an input where it belongs if that is float32 and nothing is
   there yet, and else into a tensor that is added. */
static dpt_status emit_gradients(dpti_compiler *c, const dpti_node *node, dpti_instruction *call,
                                 dpti_tensor_ids in)
{
    dpti_gradient to[DPT_OPERATOR_INPUTS];
    int out[DPT_OPERATOR_INPUTS];
    for (size_t k = 0; k < node->n_inputs; k++) {
        const size_t root = c->root[node->inputs[k]];
        out[k] = DPTI_NO_TENSOR;
        call->call.wanted[k] = c->needs[root];
        if (!c->needs[root]) continue;
        DPT_TRY(dpti_begin_gradient(c, root, &to[k]));
        out[k] = to[k].tensor;
        if (c->options->type != DPT_F32 || to[k].flags & DPT_RUN_ACCUMULATE)
            DPT_TRY(dpti_add_sampled(c, c->model->nodes[root].elements, &out[k]));
    }
    DPT_TRY(dpti_emit(c, *call, in, (dpti_tensor_ids){out, node->n_inputs}));
    for (size_t k = 0; k < node->n_inputs; k++) {
        const size_t root = c->root[node->inputs[k]];
        if (out[k] == DPTI_NO_TENSOR) continue;
        if (out[k] != to[k].tensor)
            DPT_TRY(emit_move(c, &(move){.from = out[k],
                                         .to = to[k].tensor,
                                         .count = c->model->nodes[root].elements,
                                         .flags = to[k].flags,
                                         .layer = node->name}));
        DPT_TRY(dpti_end_gradient(c, root, &to[k]));
    }
    return DPT_OK;
}

dpt_status dpti_emit_call_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    dpti_instruction call = call_of(c, node, DPTI_CALL_BACKWARD);
    int in[DPT_MAX_INPUTS];
    DPT_TRY(find_inputs(c, node, in));
    DPT_TRY(widen(c, node, c->gradient[i], &in[node->n_inputs]));
    return emit_gradients(c, node, &call, (dpti_tensor_ids){in, node->n_inputs + 1});
}

dpt_status dpti_emit_call_loss(dpti_compiler *c, int result, int gradient)
{
    const dpt_model *m = c->model;
    const dpti_node *logits = &m->nodes[c->root[m->logits]];
    const bool narrow = c->options->type != DPT_F32;
    int outputs, out = gradient;
    DPT_TRY(widen(c, logits, c->value[c->root[m->logits]], &outputs));
    if (narrow && gradient != DPTI_NO_TENSOR) DPT_TRY(dpti_add_sampled(c, logits->elements, &out));
    const dpti_instruction call = {.layer = "loss",
                                   .call = {.kind = DPTI_CALL_LOSS,
                                            .training = dpti_is_training(c),
                                            .targets = c->options->loss == DPT_LOSS_OWN_OF_TARGETS,
                                            .count = logits->elements,
                                            .n_labels = m->n_labels,
                                            .lose = c->options->own_loss,
                                            .user = c->options->own_loss_user}};
    DPT_TRY(DPTI_EMIT(c, call, ((int[]){outputs, c->label}), ((int[]){result, out})));
    if (out == gradient) return DPT_OK;
    return emit_move(
        c, &(move){.from = out, .to = gradient, .count = logits->elements, .layer = "loss"});
}
