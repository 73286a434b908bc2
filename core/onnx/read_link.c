/* Makes the model's values and nodes from names. */
#include "onnx/read_state.h"

#include <string.h>

typedef struct linking {
    dpti_onnx_reading *reading;
    dpti_onnx_names values;       /* of the model */
    dpti_onnx_names initialisers; /* of the file */
} linking;

/* ---- Definitions ----------------------------------------------------------------------------- */

static dpt_status list_initialisers(linking *l, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const Dpti__Onnx__Graph *graph = r->proto->graph;
    if (graph->n_sparse_initializer)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: the graph has sparse initialisers; make them dense first",
                              r->model->path);
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const char *name = dpti_onnx_text(graph->initializer[i]->name);
        if (!name[0])
            return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: initialiser %zu has no name",
                                  r->model->path, i);
        if (dpti_onnx_names_find(&l->initialisers, name))
            return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: initialiser \"%.80s\" is defined twice",
                                  r->model->path, name);
        const dpti_onnx_meaning meaning = {i, graph->initializer[i]};
        if (!dpti_onnx_names_add(&l->initialisers, r->arena, name, meaning))
            return dpti_onnx_no_memory(error);
    }
    return DPT_OK;
}

/* Adds a value of a new name. */
static dpt_status define(linking *l, const char *name, size_t producer, dpt_error *error)
{
    dpti_onnx_model *model = l->reading->model;
    const char *by = producer == DPTI_ONNX_NONE ? "an input" : model->nodes[producer].label;
    if (dpti_onnx_names_find(&l->values, name) ||
        (producer != DPTI_ONNX_NONE && dpti_onnx_names_find(&l->initialisers, name)))
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: \"%.80s\" is defined twice, the second time by %s%s; export the "
                              "model again",
                              model->path, name, producer == DPTI_ONNX_NONE ? "" : "node ", by);
    if (!dpti_onnx_names_add(&l->values, l->reading->arena, name,
                             (dpti_onnx_meaning){model->n_values, NULL}))
        return dpti_onnx_no_memory(error);
    model->values[model->n_values++] = (dpti_onnx_value){.name = name, .producer = producer};
    return DPT_OK;
}

/* Makes room for every value that there can be. */
static dpt_status make_room(linking *l, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const Dpti__Onnx__Graph *graph = r->proto->graph;
    size_t n = graph->n_input + graph->n_initializer;
    for (size_t i = 0; i < r->n_flat; i++)
        n += r->flat[i].n_outputs;
    dpti_onnx_model *model = r->model;
    model->values = dpti_onnx_take(r->arena, n, sizeof *model->values);
    model->nodes = dpti_onnx_take(r->arena, r->n_flat, sizeof *model->nodes);
    model->inputs = dpti_onnx_take(r->arena, graph->n_input, sizeof *model->inputs);
    model->outputs = dpti_onnx_take(r->arena, graph->n_output, sizeof *model->outputs);
    return model->values && model->nodes && model->inputs && model->outputs
               ? DPT_OK
               : dpti_onnx_no_memory(error);
}

/* ---- Uses ------------------------------------------------------------------------------------ */

/* Where the bytes of an initialiser are in the model's own file, if they were not decoded. */
static void find_part(const dpti_onnx_reading *r, size_t initialiser, dpti_onnx_tensor *tensor)
{
    const size_t at = r->raw[initialiser].at;
    if (r->raw[initialiser].field == SIZE_MAX || r->model->n_files == 0 ||
        tensor->data != r->bytes->bytes + at)
        return;
    tensor->part =
        (dpti_file_part){.file = r->model->files[0], .offset = at, .n_bytes = tensor->n_bytes};
}

/* The value of a name that something uses; an initialiser becomes a value with its first use. */
static dpt_status use(linking *l, const char *name, size_t *out, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const dpti_onnx_meaning *value = dpti_onnx_names_find(&l->values, name);
    *out = value ? value->index : DPTI_ONNX_NONE;
    if (value) return DPT_OK;
    const dpti_onnx_meaning *found = dpti_onnx_names_find(&l->initialisers, name);
    if (!found) return DPT_OK;
    dpti_onnx_tensor *tensor = dpti_onnx_take(r->arena, 1, sizeof *tensor);
    if (!tensor) return dpti_onnx_no_memory(error);
    tensor->name = name;
    DPT_TRY(dpti_onnx_read_tensor(r, found->pointer, tensor, error));
    find_part(r, found->index, tensor);
    *out = r->model->n_values;
    DPT_TRY(define(l, name, DPTI_ONNX_NONE, error));
    r->model->values[*out].tensor = tensor;
    return DPT_OK;
}

static dpt_status link_outputs_of(linking *l, size_t i, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const dpti_onnx_flat_node *flat = &r->flat[i];
    dpti_onnx_node *node = &r->model->nodes[i];
    size_t *outputs = dpti_onnx_take(r->arena, flat->n_outputs, sizeof *outputs);
    if (!outputs) return dpti_onnx_no_memory(error);
    *node = (dpti_onnx_node){.op = flat->op,
                             .label = flat->label,
                             .outputs = outputs,
                             .origin = flat->origin,
                             .in_branch = flat->in_branch};
    node->n_outputs = flat->n_outputs;
    for (size_t k = 0; k < flat->n_outputs; k++) {
        outputs[k] = flat->outputs[k][0] ? r->model->n_values : DPTI_ONNX_NONE;
        if (flat->outputs[k][0]) DPT_TRY(define(l, flat->outputs[k], i, error));
    }
    return DPT_OK;
}

static dpt_status link_inputs_of(linking *l, size_t i, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const dpti_onnx_flat_node *flat = &r->flat[i];
    dpti_onnx_node *node = &r->model->nodes[i];
    size_t *inputs = dpti_onnx_take(r->arena, flat->n_inputs, sizeof *inputs);
    if (!inputs) return dpti_onnx_no_memory(error);
    node->inputs = inputs;
    node->n_inputs = flat->n_inputs;
    for (size_t k = 0; k < flat->n_inputs; k++) {
        inputs[k] = DPTI_ONNX_NONE;
        if (!flat->inputs[k][0]) continue;
        DPT_TRY(use(l, flat->inputs[k], &inputs[k], error));
        if (inputs[k] == DPTI_ONNX_NONE)
            return dpti_onnx_fail(error, DPT_E_FORMAT,
                                  "%s: node %s takes \"%.80s\", which nothing defines; export the "
                                  "model again",
                                  r->model->path, flat->label, flat->inputs[k]);
    }
    return dpti_onnx_read_attributes(r, flat, node, error);
}

/* ---- Inputs and outputs of the graph --------------------------------------------------------- */

static dpt_status read_extents(const dpti_onnx_model *model, const Dpti__Onnx__ValueInfo *from,
                               dpti_onnx_port *out, dpt_error *error)
{
    const Dpti__Onnx__Shape *shape = from->type->tensor_type->shape;
    if (!shape) return DPT_OK;
    if (shape->n_dim > DPTI_ONNX_MAX_RANK)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: \"%.80s\" has %zu dimensions; at most %d are taken", model->path,
                              from->name, shape->n_dim, DPTI_ONNX_MAX_RANK);
    out->has_shape = true;
    out->rank = shape->n_dim;
    for (size_t d = 0; d < out->rank; d++) {
        const Dpti__Onnx__Dimension *dim = shape->dim[d];
        const bool fixed = dim->has_dim_value && dim->dim_value > 0;
        out->extents[d] = (dpti_onnx_extent){.size = fixed ? dim->dim_value : -1};
        if (!fixed && dim->dim_param && dim->dim_param[0]) out->extents[d].name = dim->dim_param;
    }
    return DPT_OK;
}

static dpt_status read_port(const dpti_onnx_model *model, const Dpti__Onnx__ValueInfo *from,
                            dpti_onnx_port *out, dpt_error *error)
{
    const Dpti__Onnx__Type *type = from->type;
    if (type && !type->tensor_type)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: \"%.80s\" is no dense tensor; sequences, maps, optional and "
                              "sparse values are not taken",
                              model->path, dpti_onnx_text(from->name));
    if (!type) return DPT_OK;
    const int elem_type = (int)type->tensor_type->elem_type;
    if (elem_type != 0 && dpti_onnx_type_bytes(elem_type) == 0)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: \"%.80s\" has element type %d, which is not taken", model->path,
                              dpti_onnx_text(from->name), elem_type);
    out->type = (dpti_onnx_type)elem_type;
    return read_extents(model, from, out, error);
}

static dpt_status link_graph_inputs(linking *l, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const Dpti__Onnx__Graph *graph = r->proto->graph;
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = dpti_onnx_text(graph->input[i]->name);
        if (dpti_onnx_names_find(&l->initialisers, name)) continue; /* it has a value */
        dpti_onnx_port *port = &r->model->inputs[r->model->n_inputs++];
        port->value = r->model->n_values;
        DPT_TRY(define(l, name, DPTI_ONNX_NONE, error));
        DPT_TRY(read_port(r->model, graph->input[i], port, error));
        if (port->type == DPTI_ONNX_UNKNOWN || !port->has_shape)
            return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                                  "%s: input \"%.80s\" has no element type or no shape; export the "
                                  "model with example inputs",
                                  r->model->path, name);
    }
    return DPT_OK;
}

static dpt_status link_graph_outputs(linking *l, dpt_error *error)
{
    dpti_onnx_reading *r = l->reading;
    const Dpti__Onnx__Graph *graph = r->proto->graph;
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = dpti_onnx_text(graph->output[i]->name);
        dpti_onnx_port *port = &r->model->outputs[r->model->n_outputs++];
        DPT_TRY(use(l, name, &port->value, error));
        if (port->value == DPTI_ONNX_NONE)
            return dpti_onnx_fail(
                error, DPT_E_FORMAT,
                "%s: nothing defines the output \"%.80s\"; export the model again", r->model->path,
                name);
        DPT_TRY(read_port(r->model, graph->output[i], port, error));
    }
    if (r->model->n_outputs == 0)
        return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: the graph has no output", r->model->path);
    return DPT_OK;
}

dpt_status dpti_onnx_link(dpti_onnx_reading *reading, dpt_error *error)
{
    linking l = {.reading = reading};
    DPT_TRY(list_initialisers(&l, error));
    DPT_TRY(make_room(&l, error));
    DPT_TRY(link_graph_inputs(&l, error));
    for (size_t i = 0; i < reading->n_flat; i++)
        DPT_TRY(link_outputs_of(&l, i, error));
    for (size_t i = 0; i < reading->n_flat; i++)
        DPT_TRY(link_inputs_of(&l, i, error));
    reading->model->n_nodes = reading->n_flat;
    return link_graph_outputs(&l, error);
}
