/* The building blocks of layers: nodes, parameters, names, checks. */
#include "graph/builder.h"
#include "device/signature.h"

#include "base/grow.h"
#include "base/print.h"
#include "base/size.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static dpt_value value_of(size_t node)
{
    return (dpt_value){(uint32_t)node + 1};
}

bool dpti_usable(dpt_model *model, dpt_value x, const char *layer)
{
    if (!model || model->status != DPT_OK) return false;
    if (model->finished)
        (void)DPTI_MODEL_FAIL(model, DPT_E_STATE, "model %s: layer %s comes after dpt_model_finish",
                              model->name, layer);
    else if (x.id == 0 || x.id > model->n_nodes)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s: layer %s has no input value",
                              model->name, layer);
    return model->status == DPT_OK;
}

/* The shape that follows from the extent: an image has the axes (c, h, w). */
static void derive_shape(dpti_node *node)
{
    const dpti_extent e = node->extent.flat ? node->before_flatten : node->extent;
    node->order_differs = node->extent.flat && e.h * e.w > 1 && e.c > 1;
    if (node->extent.flat && !node->order_differs)
        node->shape = (dpti_shape){.rank = 1, .extent = {node->extent.c}, .stride = {1}};
    else
        node->shape = (dpti_shape){.rank = 3,
                                   .extent = {e.c, e.h, e.w},
                                   .stride = {1, (int32_t)(e.w * e.c), (int32_t)e.c}};
}

/* Whether a node that reads ids may do so.  Views of ids are ids. */
static bool takes_ids(dpt_model *model, dpti_node *node)
{
    const bool is_view = node->kind == DPTI_NODE_VIEW || node->kind == DPTI_NODE_FLATTEN;
    const bool takes = is_view || node->kind == DPTI_NODE_ELEMENTWISE ||
                       node->kind == DPTI_NODE_EMBEDDING || node->kind == DPTI_NODE_CALL;
    for (size_t i = 0; i < node->n_inputs; i++) {
        if (!model->nodes[node->inputs[i]].integer) continue;
        if (!takes) {
            (void)DPTI_MODEL_FAIL(
                model, DPT_E_INVALID,
                "layer %s: its input is ids, which only embeddings, "
                "element-wise layers and dpt_operator take; put an embedding before it",
                node->name);
            return false;
        }
        node->integer = node->integer || is_view;
    }
    return true;
}

/* Whether the inputs that the operator reads for each sample have samples.  A value without samples
   must be copied before (dpti_for_each_sample): the operator would read behind it. */
static bool takes_samples(dpt_model *model, const dpti_node *node)
{
    size_t n = 1;
    switch (node->kind) {
    case DPTI_NODE_PRODUCT:
        n = model->steps ? 1 : node->n_inputs;
        break; /* what is kept: steps.h */
    case DPTI_NODE_ADD:
    case DPTI_NODE_ATTENTION:
    case DPTI_NODE_CALL: n = node->n_inputs; break;
    case DPTI_NODE_CONV2D:
    case DPTI_NODE_CONV2D_TRANSPOSE:
    case DPTI_NODE_LINEAR:
    case DPTI_NODE_POOL2D:
    case DPTI_NODE_ACTIVATE:
    case DPTI_NODE_FLATTEN:
    case DPTI_NODE_BATCH_NORM:
    case DPTI_NODE_LAYER_NORM:
    case DPTI_NODE_DROPOUT:
    case DPTI_NODE_SOFTMAX:
    case DPTI_NODE_PROJECTION:
    case DPTI_NODE_RECURRENT: break;
    default: return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (!model->nodes[node->inputs[i]].unsampled) continue;
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: its input is the same for all samples; compute it from an "
                              "input of the network",
                              node->name);
        return false;
    }
    return true;
}

dpt_value dpti_add_node(dpt_model *model, dpti_node node)
{
    size_t elements = 0;
    const dpti_extent e = node.extent;
    if (!takes_ids(model, &node) || !takes_samples(model, &node)) return (dpt_value){0};
    if (e.h < 1 || e.w < 1 || e.c < 1)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: an output of %zux%zux%zu is empty",
                               node.name, e.h, e.w, e.c);
    if (!dpti_multiply(e.h, e.w, &elements) || !dpti_multiply(elements, e.c, &elements) ||
        elements > DPTI_MAX_EXTENT)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: an output of %zux%zux%zu is more than the %d values that "
                               "one may have; use smaller images or a smaller layer",
                               node.name, e.h, e.w, e.c, DPTI_MAX_EXTENT);
    node.elements = elements;
    if (!node.has_shape) derive_shape(&node);
    if (node.size == 0) node.size = elements;
    if (model->n_nodes == DPTI_MAX_NODES)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s has more than %d layers",
                               model->name, DPTI_MAX_NODES);
    node.name = node.name ? dpti_strdup(node.name) : NULL;
    dpti_node *nodes =
        dpti_grow(model->nodes, model->n_nodes, &model->nodes_capacity, sizeof *nodes);
    if (nodes) model->nodes = nodes;
    if (!node.name || !nodes) {
        free(node.name);
        return DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    }
    model->nodes[model->n_nodes++] = node;
    return value_of(model->n_nodes - 1);
}

dpti_node dpti_node_over(dpti_node_kind kind, const char *name, dpt_value x)
{
    return (dpti_node){
        .kind = kind,
        .name = (char *)(uintptr_t)name, /* dpti_add_node copies it */
        .inputs = {x.id - 1},
        .n_inputs = 1,
        .weight = SIZE_MAX,
        .bias = SIZE_MAX,
        .mean = SIZE_MAX,
        .variance = SIZE_MAX,
    };
}

size_t dpti_build_parameter(dpt_model *model, const char *layer, const char *suffix,
                            dpti_parameter parameter)
{
    return dpti_append_parameter(model, dpti_format("%s.%s", layer, suffix), layer, parameter);
}

size_t dpti_append_parameter(dpt_model *model, char *name, const char *layer,
                             dpti_parameter parameter)
{
    parameter.size = 1;
    parameter.name = name;
    for (size_t i = 0; i < parameter.rank; i++) {
        if (!dpti_multiply(parameter.size, parameter.shape[i], &parameter.size) ||
            parameter.size > (size_t)1 << 40) {
            (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                  "layer %s: the parameter %s has too many elements", layer,
                                  name ? name : "");
            free(name);
            return SIZE_MAX;
        }
    }
    dpti_parameter *parameters = dpti_grow(model->parameters, model->n_parameters,
                                           &model->parameters_capacity, sizeof *parameters);
    if (parameters) model->parameters = parameters;
    if (!parameter.name || !parameters) {
        free(parameter.name);
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return SIZE_MAX;
    }
    model->parameters[model->n_parameters++] = parameter;
    return model->n_parameters - 1;
}

/* Returns whether a checkpoint uses this name for other tensors. */
static bool is_taken(const char *name)
{
    static const char *const prefixes[] = {DPTI_VELOCITY_PREFIX, DPTI_SQUARES_PREFIX,
                                           DPTI_RESIDUAL_PREFIX, DPTI_OUTER_PREFIX,
                                           DPTI_FACTOR_PREFIX};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* Returns whether a checkpoint can store the name. */
static bool can_be_saved(dpt_model *model, const char *name)
{
    const size_t n_plain = dpti_plain_bytes(name);
    if (name[n_plain])
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "model %s: byte %zu of the name of layer %zu is a control character "
                              "or not UTF-8; choose another name",
                              model->name, n_plain + 1, model->n_nodes);
    else if (is_taken(name))
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "model %s: no layer can be called %s: a checkpoint has tensors of "
                              "its own that begin so; choose another name",
                              model->name, name);
    return model->status == DPT_OK;
}

bool dpti_name_is_new(dpt_model *model, const char *name)
{
    if (!name || !*name || strlen(name) > DPTI_MAX_LAYER_NAME) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "model %s: a layer needs a name of 1 to %d characters", model->name,
                              DPTI_MAX_LAYER_NAME);
        return false;
    }
    if (!can_be_saved(model, name)) return false;
    for (size_t i = 0; i < model->n_nodes; i++) {
        if (strcmp(model->nodes[i].name, name) != 0) continue;
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s: two layers are called %s",
                              model->name, name);
        return false;
    }
    return true;
}

bool dpti_describes(dpt_model *model, const char *layer, const dpt_op_desc *desc)
{
    dpti_signature signature;
    dpt_error error = {0};
    if (dpti_op_signature(desc, &signature, &error) == DPT_OK) return true;
    (void)DPTI_MODEL_FAIL(model, error.status, "layer %s: %s", layer, error.message);
    return false;
}

bool dpti_has_options(dpt_model *model, const char *layer, const void *options)
{
    if (!options) (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s needs options", layer);
    return options != NULL;
}

bool dpti_take_options(dpt_model *model, const char *layer, const dpti_sized *what, void *out)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_read_sized(what, out, &error) == DPT_OK) return true;
    (void)DPTI_MODEL_FAIL(model, error.status, "layer %s: %s", layer, error.message);
    return false;
}

bool dpti_known_activation(dpt_model *model, const char *layer, dpt_activation kind)
{
    if (dpt_activation_name(kind)) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: unknown activation %d", layer,
                          (int)kind);
    return false;
}

dpt_activation dpti_fusable(dpt_activation kind)
{
    return dpt_activation_fuses(kind) ? kind : DPT_ACT_NONE;
}

dpt_value dpti_add_layer(dpt_model *model, dpti_node node, dpt_activation activation)
{
    if (model->status != DPT_OK) return (dpt_value){0};
    const dpt_value y = dpti_add_node(model, node);
    return dpt_activation_fuses(activation) ? y : dpt_activate(model, y, activation);
}

dpt_value dpti_add_unnamed(dpt_model *model, const char *kind, dpti_node node)
{
    char name[48];
    snprintf(name, sizeof name, "%s-%zu", kind, model->n_nodes);
    node.name = name;
    const bool computes = node.kind != DPTI_NODE_FLATTEN && node.kind != DPTI_NODE_VIEW &&
                          node.kind != DPTI_NODE_JOIN && node.kind != DPTI_NODE_PARAMETER &&
                          node.kind != DPTI_NODE_CONSTANT;
    if (computes && !dpti_describes(model, name, &node.forward)) return (dpt_value){0};
    return dpti_add_node(model, node);
}
