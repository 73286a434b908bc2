/* Walks over the nodes of a model and makes the operators of each. */
#include "export/export.h"

#include "export/state.h"
#include "graph/tensor.h"

#include <stdlib.h>
#include <string.h>

/* What is written for each kind of node.  NULL: nothing, because the value is a view of its input's
   memory. */
static dpti_export_rule *const rules[] = {
    [DPTI_NODE_INPUT] = dpti_export_input,
    [DPTI_NODE_CONV2D] = dpti_export_conv2d,
    [DPTI_NODE_LINEAR] = dpti_export_linear,
    [DPTI_NODE_POOL2D] = dpti_export_pool2d,
    [DPTI_NODE_ACTIVATE] = dpti_export_activate,
    [DPTI_NODE_ADD] = dpti_export_add,
    [DPTI_NODE_BATCH_NORM] = dpti_export_batch_norm,
    [DPTI_NODE_LAYER_NORM] = dpti_export_layer_norm,
    [DPTI_NODE_ELEMENTWISE] = dpti_export_elementwise,
    [DPTI_NODE_JOIN] = dpti_export_join,
    [DPTI_NODE_PARAMETER] = dpti_export_leaf,
    [DPTI_NODE_CONSTANT] = dpti_export_leaf,
    [DPTI_NODE_EMBEDDING] = dpti_export_embedding,
    [DPTI_NODE_PRODUCT] = dpti_export_product,
    [DPTI_NODE_SOFTMAX] = dpti_export_softmax,
    [DPTI_NODE_CONV2D_TRANSPOSE] = dpti_export_conv2d_transpose,
    [DPTI_NODE_PROJECTION] = dpti_export_projection,
    [DPTI_NODE_RECURRENT] = dpti_export_recurrent,
    [DPTI_NODE_ATTENTION] = dpti_export_attention,
};

/* Whether a node has the memory of its input, element by element. */
static bool is_view(const dpti_node *node)
{
    return node->kind == DPTI_NODE_VIEW || node->kind == DPTI_NODE_FLATTEN ||
           node->kind == DPTI_NODE_DROPOUT;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The type of input i. */
static dpti_onnx_type input_type(const dpt_model *m, size_t i)
{
    if (m->n_inputs > 1) return m->inputs[i].ids ? DPTI_ONNX_INT64 : DPTI_ONNX_FLOAT;
    if (!m->nodes[m->input].integer) return DPTI_ONNX_FLOAT;
    return m->file_input.narrow ? DPTI_ONNX_INT32 : DPTI_ONNX_INT64;
}

/* The names of the file come first, so that no other value takes one. */
static void reserve_names(dpti_exporter *e)
{
    const dpt_model *m = e->model;
    dpti_draft *d = e->draft;
    const char *output = m->file_output.name;
    _Static_assert((int)DPTI_DRAFT_INPUTS >= (int)DPTI_MODEL_INPUTS, "a draft has all inputs");
    for (size_t i = 0; i < m->n_parameters; i++)
        (void)dpti_draft_name(d, m->parameters[i].name, DPTI_ONNX_FLOAT);
    for (; d->n_inputs < m->n_inputs; d->n_inputs++)
        d->inputs[d->n_inputs].value =
            dpti_draft_name(d, m->inputs[d->n_inputs].name, input_type(m, d->n_inputs));
    d->output.value = dpti_draft_name(d, output ? output : "output", DPTI_ONNX_FLOAT);
}

/* ---- The output ------------------------------------------------------------------------------ */

/* The output without the axis of the batch, as the file has it. */
static dpti_shape output_shape(const dpti_exporter *e)
{
    const dpt_model *m = e->model;
    const dpti_node *node = &m->nodes[m->output];
    const dpti_port *port = &m->file_output;
    if (!port->name || !node->has_shape || port->batch_axis >= node->shape.rank ||
        node->shape.extent[port->batch_axis] != 1)
        return dpti_export_shape(e, m->output);
    return dpti_export_drop(&node->shape, port->batch_axis);
}

/* Moves the batch from the first axis to this one. */
static dpti_draft_value *move_batch(dpti_exporter *e, dpti_draft_value *x, size_t rank, size_t to)
{
    dpti_draft_integers order = {.n = 0};
    for (size_t i = 1; i < rank; i++) {
        if (order.n == to) order.items[order.n++] = 0;
        order.items[order.n++] = (int64_t)i;
    }
    if (order.n < rank) order.items[order.n++] = 0;
    return dpti_export_permute(e, x, &order);
}

/* Gives the value the name of the output. */
static void name_output(dpti_exporter *e, dpti_draft_value *x)
{
    dpti_draft *d = e->draft;
    for (size_t i = d->nodes.n; i-- > 0;) {
        if (dpti_draft_node_at(d, i)->output != x) continue;
        x->name = d->output.value->name;
        d->output.value = x;
        return;
    }
    dpti_draft_node *same = dpti_draft_call(d, "Identity", &x, 1);
    same->output->name = d->output.value->name;
    d->output.value = same->output;
}

static void add_output(dpti_exporter *e)
{
    const dpt_model *m = e->model;
    dpti_draft_port *port = &e->draft->output;
    const dpti_shape shape = output_shape(e);
    const bool flat = m->nodes[m->output].order_differs;
    const size_t batch_axis = m->file_output.name && !flat ? m->file_output.batch_axis : 0;
    dpti_draft_value *x =
        dpti_export_take(e, m->output, (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
    dpti_extents extents = dpti_shape_extents(&shape);
    e->draft->layer = "";
    if (flat) {
        extents = (dpti_extents){.rank = 1, .extent = {m->nodes[m->output].elements}};
        x = dpti_export_reshape(e, x, true, &extents);
    }
    port->rank = extents.rank + 1;
    if (batch_axis > 0 && batch_axis < port->rank) x = move_batch(e, x, port->rank, batch_axis);
    for (size_t i = 0, k = 0; i < port->rank; i++)
        port->extents[i] = i == batch_axis ? -1 : (int64_t)extents.extent[k++];
    name_output(e, x);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* dpti_export_is_common of a node whose inputs are done. */
static bool is_common(const dpti_exporter *e, const dpti_node *node)
{
    if (node->unsampled) return true;
    if (node->kind != DPTI_NODE_ELEMENTWISE && !is_view(node)) return false;
    for (size_t i = 0; i < node->n_inputs; i++)
        if (!e->common[node->inputs[i]]) return false;
    return true;
}

static dpt_status add_nodes(dpti_exporter *e)
{
    const dpt_model *m = e->model;
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        e->draft->layer = node->name;
        e->root[i] = i;
        e->common[i] = is_common(e, node);
        if (is_view(node))
            e->root[i] = e->root[node->inputs[0]];
        else if (node->kind == DPTI_NODE_CALL)
            return dpti_export_refuse(e, i,
                                      "it is an operator of the program's own (dpt_operator), "
                                      "which ONNX has no name for; build it of other layers");
        else if ((size_t)node->kind < sizeof rules / sizeof *rules && rules[node->kind])
            DPT_TRY(rules[node->kind](e, i));
        else
            return dpti_export_refuse(e, i, "a layer of this kind cannot be written as ONNX yet");
    }
    add_output(e);
    return DPT_OK;
}

static dpt_status no_memory(const dpt_model *model, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to export model %s", model->name);
}

dpt_status dpti_export_graph(const dpt_model *model, const void *const *weights, dpti_draft *draft,
                             dpt_error *error)
{
    const dpt_model *m = model;
    if (m->gives_loss)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "model %s: its output is its loss, which is no network for inference; "
                        "export the network without the loss from PyTorch, and load the trained "
                        "weights by their names (model.safetensors)",
                        m->name);
    dpti_exporter e = {.model = m, .weights = weights, .draft = draft, .error = error};
    e.root = dpti_onnx_take(&draft->arena, m->n_nodes, sizeof *e.root);
    e.held = dpti_onnx_take(&draft->arena, m->n_nodes, sizeof(dpti_exported *));
    e.common = dpti_onnx_take(&draft->arena, m->n_nodes, sizeof *e.common);
    e.parameters = dpti_onnx_take(&draft->arena, m->n_parameters, sizeof(dpti_draft_value *));
    if (!e.root || !e.held || !e.common || !e.parameters) return no_memory(m, error);
    reserve_names(&e);
    DPT_TRY(add_nodes(&e));
    dpti_draft_prune(draft);
    if (draft->status == DPT_E_UNSUPPORTED)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "model %s: a view of one of several inputs cannot be written yet", m->name);
    return draft->status == DPT_OK ? DPT_OK : no_memory(m, error);
}
