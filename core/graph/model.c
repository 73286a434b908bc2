/* The graph builder: layers, shape inference, parameters.  The first failure sticks to the model.
 */
#include "graph/model.h"

#include "base/base.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_EXTENT = 1 << 24, MAX_NODES = 4096, MAX_LAYER_NAME = 120, PARAMETER_ALIGNMENT = 64 };

dpt_status dpt_model_create(dpt_context *context, const char *name, dpt_model **out)
{
    if (!name || !*name) return dpt_fail(context, DPT_E_INVALID, "a model needs a name");
    dpt_model *model = calloc(1, sizeof *model);
    if (model) model->name = dpti_strdup(name);
    if (!model || !model->name) {
        free(model);
        return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a model");
    }
    model->context = context;
    model->input = model->logits = SIZE_MAX;
    *out = model;
    return DPT_OK;
}

void dpt_model_destroy(dpt_model *model)
{
    if (!model) return;
    for (size_t i = 0; i < model->n_nodes; i++)
        free(model->nodes[i].name);
    for (size_t i = 0; i < model->n_parameters; i++)
        free(model->parameters[i].name);
    free(model->nodes);
    free(model->parameters);
    free(model->name);
    free(model);
}

/* ---- Building blocks ------------------------------------------------------------------------- */

#define FAIL(model, status_, ...)                                                                  \
    ((model)->status = DPT_FAIL(&(model)->error, (status_), __VA_ARGS__), (dpt_value){0})

static dpt_value value_of(size_t node)
{
    return (dpt_value){(uint32_t)node + 1};
}

/* Whether building may go on with this input; a NULL model is the caller's unchecked create. */
static bool usable(dpt_model *model, dpt_value x, const char *layer)
{
    if (!model || model->status != DPT_OK) return false;
    if (model->finished)
        (void)FAIL(model, DPT_E_STATE, "model %s: layer %s comes after dpt_model_finish",
                   model->name, layer);
    else if (x.id == 0 || x.id > model->n_nodes)
        (void)FAIL(model, DPT_E_INVALID, "model %s: layer %s has no input value", model->name,
                   layer);
    return model->status == DPT_OK;
}

/* Doubles an array when it is full. */
static bool grow(void **items, size_t *capacity, size_t n, size_t item_bytes)
{
    if (n < *capacity) return true;
    const size_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*items, wanted * item_bytes);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

/* Appends a node; extents are validated here, for every kind. */
static dpt_value add_node(dpt_model *model, dpti_node node)
{
    size_t elements = 0;
    const dpti_extent e = node.extent;
    if (e.h < 1 || e.w < 1 || e.c < 1 || e.h > MAX_EXTENT || e.w > MAX_EXTENT || e.c > MAX_EXTENT ||
        !dpti_multiply(e.h, e.w, &elements) || !dpti_multiply(elements, e.c, &elements) ||
        elements > MAX_EXTENT)
        return FAIL(model, DPT_E_INVALID, "layer %s: an output of %zux%zux%zu is out of range",
                    node.name, e.h, e.w, e.c);
    node.elements = elements;
    if (model->n_nodes == MAX_NODES)
        return FAIL(model, DPT_E_INVALID, "model %s has more than %d layers", model->name,
                    MAX_NODES);
    node.name = node.name ? dpti_strdup(node.name) : NULL;
    if (!node.name || !grow((void **)&model->nodes, &model->nodes_capacity, model->n_nodes,
                            sizeof *model->nodes)) {
        free(node.name);
        return FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    }
    model->nodes[model->n_nodes++] = node;
    return value_of(model->n_nodes - 1);
}

static dpti_node node_over(dpti_node_kind kind, const char *name, dpt_value x)
{
    return (dpti_node){
        .kind = kind,
        .name = (char *)(uintptr_t)name, /* add_node copies it */
        .inputs = {x.id - 1},
        .n_inputs = 1,
        .weight = SIZE_MAX,
        .bias = SIZE_MAX,
    };
}

static size_t add_parameter(dpt_model *model, const char *layer, const char *suffix,
                            dpti_parameter parameter)
{
    parameter.size = 1;
    for (size_t i = 0; i < parameter.rank; i++) {
        if (!dpti_multiply(parameter.size, parameter.shape[i], &parameter.size) ||
            parameter.size > (size_t)1 << 40) {
            (void)FAIL(model, DPT_E_INVALID, "layer %s: its %s has too many elements", layer,
                       suffix);
            return SIZE_MAX;
        }
    }
    parameter.name = dpti_format("%s.%s", layer, suffix);
    if (!parameter.name || !grow((void **)&model->parameters, &model->parameters_capacity,
                                 model->n_parameters, sizeof *model->parameters)) {
        free(parameter.name);
        (void)FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return SIZE_MAX;
    }
    model->parameters[model->n_parameters++] = parameter;
    return model->n_parameters - 1;
}

static bool name_is_new(dpt_model *model, const char *name)
{
    if (!name || !*name || strlen(name) > MAX_LAYER_NAME) {
        (void)FAIL(model, DPT_E_INVALID, "model %s: a layer needs a name of 1 to %d characters",
                   model->name, MAX_LAYER_NAME);
        return false;
    }
    for (size_t i = 0; i < model->n_nodes; i++) {
        if (strcmp(model->nodes[i].name, name) != 0) continue;
        (void)FAIL(model, DPT_E_INVALID, "model %s: two layers are called %s", model->name, name);
        return false;
    }
    return true;
}

/* Validates the layer's operator as dispatch will, so that a mistake names the layer. */
static bool describes(dpt_model *model, const char *layer, const dpt_op_desc *desc)
{
    dpti_signature signature;
    dpt_error error = {0};
    if (dpti_op_signature(desc, &signature, &error) == DPT_OK) return true;
    (void)FAIL(model, error.status, "layer %s: %s", layer, error.message);
    return false;
}

/* Output extent of a window over an input, 0 if the window does not fit. */
static size_t window_output(size_t in, size_t pad, size_t dilation, size_t kernel, size_t stride)
{
    size_t span, padded;
    if (kernel < 1 || stride < 1 || !dpti_multiply(dilation, kernel - 1, &span) ||
        !dpti_add(span, 1, &span) || !dpti_multiply(2, pad, &padded) ||
        !dpti_add(in, padded, &padded) || span > padded)
        return 0;
    return (padded - span) / stride + 1;
}

static size_t or_one(size_t value)
{
    return value ? value : 1;
}

static bool has_options(dpt_model *model, const char *layer, const void *options)
{
    if (!options) (void)FAIL(model, DPT_E_INVALID, "layer %s needs options", layer);
    return options != NULL;
}

static bool known_activation(dpt_model *model, const char *layer, dpt_activation kind)
{
    if (kind >= DPT_ACT_NONE && kind <= DPT_ACT_SIGMOID) return true;
    (void)FAIL(model, DPT_E_INVALID, "layer %s: unknown activation %d", layer, (int)kind);
    return false;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

dpt_value dpt_input(dpt_model *model, size_t height, size_t width, size_t channels)
{
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (model->input != SIZE_MAX)
        return FAIL(model, DPT_E_INVALID, "model %s has a second input", model->name);
    const dpt_value x = add_node(model, (dpti_node){
                                            .kind = DPTI_NODE_INPUT,
                                            .name = (char *)(uintptr_t) "input",
                                            .extent = {.h = height, .w = width, .c = channels},
                                            .weight = SIZE_MAX,
                                            .bias = SIZE_MAX,
                                        });
    if (x.id) model->input = x.id - 1;
    return x;
}

dpt_value dpt_conv2d(dpt_model *model, dpt_value x, const char *name,
                     const dpt_conv2d_options *options)
{
    if (!usable(model, x, name ? name : "conv2d") || !name_is_new(model, name) ||
        !has_options(model, name, options))
        return (dpt_value){0};
    if (!known_activation(model, name, options->activation)) return (dpt_value){0};
    const dpti_extent in = model->nodes[x.id - 1].extent;
    if (in.flat) return FAIL(model, DPT_E_INVALID, "layer %s: a convolution behind flatten", name);
    dpt_conv2d_desc d = {
        .in_h = in.h,
        .in_w = in.w,
        .in_channels = in.c,
        .out_channels = options->out_channels,
        .kernel_h = options->kernel[0],
        .kernel_w = options->kernel[1],
        .stride_h = or_one(options->stride[0]),
        .stride_w = or_one(options->stride[1]),
        .pad_h = options->padding[0],
        .pad_w = options->padding[1],
        .dilation_h = or_one(options->dilation[0]),
        .dilation_w = or_one(options->dilation[1]),
        .groups = or_one(options->groups),
        .has_bias = !options->no_bias,
        .activation = options->activation,
    };
    d.out_h = window_output(d.in_h, d.pad_h, d.dilation_h, d.kernel_h, d.stride_h);
    d.out_w = window_output(d.in_w, d.pad_w, d.dilation_w, d.kernel_w, d.stride_w);
    if (d.out_h == 0 || d.out_w == 0)
        return FAIL(model, DPT_E_INVALID,
                    "layer %s: its %zux%zu kernel does not fit the %zux%zu input; use larger "
                    "images or more padding",
                    name, d.kernel_h, d.kernel_w, d.in_h, d.in_w);
    const dpt_op_desc desc = {.kind = DPT_OP_CONV2D_FORWARD, .u.conv2d = d};
    if (!describes(model, name, &desc)) return (dpt_value){0};

    const size_t group_channels = d.in_channels / d.groups;
    const size_t window = d.kernel_h * d.kernel_w;
    dpti_node node = node_over(DPTI_NODE_CONV2D, name, x);
    node.extent = (dpti_extent){.h = d.out_h, .w = d.out_w, .c = d.out_channels};
    node.forward = desc;
    node.weight = add_parameter(
        model, name, "weight",
        (dpti_parameter){.shape = {d.out_channels, group_channels, d.kernel_h, d.kernel_w},
                         .rank = 4,
                         .fan_in = group_channels * window,
                         .fan_out = d.out_channels * window,
                         .layout = DPTI_LAYOUT_CONV,
                         .h = d.kernel_h,
                         .w = d.kernel_w,
                         .c = group_channels});
    if (d.has_bias && node.weight != SIZE_MAX)
        node.bias = add_parameter(model, name, "bias",
                                  (dpti_parameter){.shape = {d.out_channels},
                                                   .rank = 1,
                                                   .fan_in = group_channels * window,
                                                   .is_bias = true});
    return model->status == DPT_OK ? add_node(model, node) : (dpt_value){0};
}

dpt_value dpt_linear(dpt_model *model, dpt_value x, const char *name,
                     const dpt_linear_options *options)
{
    if (!usable(model, x, name ? name : "linear") || !name_is_new(model, name) ||
        !has_options(model, name, options))
        return (dpt_value){0};
    if (!known_activation(model, name, options->activation)) return (dpt_value){0};
    const dpti_node *input = &model->nodes[x.id - 1];
    if (!input->extent.flat)
        return FAIL(model, DPT_E_INVALID,
                    "layer %s: a linear layer takes a flat input; put dpt_flatten before it", name);
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD,
                              .u.linear = {.in = input->elements,
                                           .out = options->out,
                                           .has_bias = !options->no_bias,
                                           .activation = options->activation}};
    if (!describes(model, name, &desc)) return (dpt_value){0};
    const dpti_extent before = input->before_flatten;
    dpti_node node = node_over(DPTI_NODE_LINEAR, name, x);
    node.extent = (dpti_extent){.h = 1, .w = 1, .c = options->out, .flat = true};
    node.before_flatten = node.extent;
    node.forward = desc;
    const size_t in = desc.u.linear.in;
    node.weight = add_parameter(model, name, "weight",
                                (dpti_parameter){.shape = {options->out, in},
                                                 .rank = 2,
                                                 .fan_in = in,
                                                 .fan_out = options->out,
                                                 .layout = DPTI_LAYOUT_LINEAR,
                                                 .h = before.h,
                                                 .w = before.w,
                                                 .c = before.c});
    if (!options->no_bias && node.weight != SIZE_MAX)
        node.bias = add_parameter(
            model, name, "bias",
            (dpti_parameter){.shape = {options->out}, .rank = 1, .fan_in = in, .is_bias = true});
    return model->status == DPT_OK ? add_node(model, node) : (dpt_value){0};
}

/* Layers without parameters are called by their kind and place. */
static dpt_value add_unnamed(dpt_model *model, const char *kind, dpti_node node)
{
    char name[48];
    snprintf(name, sizeof name, "%s-%zu", kind, model->n_nodes);
    node.name = name;
    if (node.kind != DPTI_NODE_FLATTEN && !describes(model, name, &node.forward))
        return (dpt_value){0};
    return add_node(model, node);
}

dpt_value dpt_pool2d(dpt_model *model, dpt_value x, const dpt_pool2d_options *options)
{
    if (!usable(model, x, "pool2d") || !has_options(model, "pool2d", options))
        return (dpt_value){0};
    const dpti_extent in = model->nodes[x.id - 1].extent;
    dpt_pool2d_desc d = {
        .kind = options->kind,
        .in_h = in.h,
        .in_w = in.w,
        .channels = in.c,
        .kernel_h = options->kernel[0],
        .kernel_w = options->kernel[1],
        .stride_h = options->stride[0] ? options->stride[0] : options->kernel[0],
        .stride_w = options->stride[1] ? options->stride[1] : options->kernel[1],
        .pad_h = options->padding[0],
        .pad_w = options->padding[1],
    };
    d.out_h = window_output(d.in_h, d.pad_h, 1, d.kernel_h, d.stride_h);
    d.out_w = window_output(d.in_w, d.pad_w, 1, d.kernel_w, d.stride_w);
    if (in.flat || d.out_h == 0 || d.out_w == 0)
        return FAIL(model, DPT_E_INVALID,
                    "layer pool2d-%zu: its %zux%zu window does not fit the %zux%zu input; use "
                    "larger images",
                    model->n_nodes, d.kernel_h, d.kernel_w, d.in_h, d.in_w);
    dpti_node node = node_over(DPTI_NODE_POOL2D, NULL, x);
    node.extent = (dpti_extent){.h = d.out_h, .w = d.out_w, .c = in.c};
    node.forward = (dpt_op_desc){.kind = DPT_OP_POOL2D_FORWARD, .u.pool2d = d};
    return add_unnamed(model, "pool2d", node);
}

dpt_value dpt_activate(dpt_model *model, dpt_value x, dpt_activation kind)
{
    if (!usable(model, x, "activate") || !known_activation(model, "activate", kind))
        return (dpt_value){0};
    if (kind == DPT_ACT_NONE) return x;
    const dpti_node *input = &model->nodes[x.id - 1];
    dpti_node node = node_over(DPTI_NODE_ACTIVATE, NULL, x);
    node.extent = input->extent;
    node.before_flatten = input->before_flatten;
    node.forward = (dpt_op_desc){.kind = DPT_OP_ACTIVATION_FORWARD,
                                 .u.activation = {.kind = kind, .count = input->elements}};
    return add_unnamed(model, "activate", node);
}

dpt_value dpt_add(dpt_model *model, dpt_value a, dpt_value b)
{
    if (!usable(model, a, "add") || !usable(model, b, "add")) return (dpt_value){0};
    const dpti_node *left = &model->nodes[a.id - 1];
    const dpti_node *right = &model->nodes[b.id - 1];
    const dpti_extent e = left->extent, f = right->extent;
    const dpti_extent p = left->before_flatten, q = right->before_flatten;
    if (e.h != f.h || e.w != f.w || e.c != f.c || e.flat != f.flat)
        return FAIL(model, DPT_E_INVALID,
                    "layer add-%zu: its inputs are %zux%zux%zu and %zux%zux%zu; they must agree",
                    model->n_nodes, e.h, e.w, e.c, f.h, f.w, f.c);
    if (e.flat && (p.h != q.h || p.w != q.w || p.c != q.c))
        return FAIL(model, DPT_E_INVALID,
                    "layer add-%zu: its inputs were flattened from different shapes",
                    model->n_nodes);
    dpti_node node = node_over(DPTI_NODE_ADD, NULL, a);
    node.inputs[1] = b.id - 1;
    node.n_inputs = 2;
    node.extent = e;
    node.before_flatten = p;
    node.forward =
        (dpt_op_desc){.kind = DPT_OP_ADD,
                      .u.elementwise = {.count = left->elements, .alpha = 1.0f, .beta = 1.0f}};
    return add_unnamed(model, "add", node);
}

dpt_value dpt_flatten(dpt_model *model, dpt_value x)
{
    if (!usable(model, x, "flatten")) return (dpt_value){0};
    const dpti_node *input = &model->nodes[x.id - 1];
    if (input->extent.flat) return x;
    dpti_node node = node_over(DPTI_NODE_FLATTEN, NULL, x);
    node.extent = (dpti_extent){.h = 1, .w = 1, .c = input->elements, .flat = true};
    node.before_flatten = input->extent;
    return add_unnamed(model, "flatten", node);
}

/* ---- Finishing ------------------------------------------------------------------------------- */

static void place_parameters(dpt_model *model, bool biases)
{
    for (size_t i = 0; i < model->n_parameters; i++) {
        dpti_parameter *p = &model->parameters[i];
        if (p->is_bias != biases) continue;
        p->offset = model->flat_size;
        model->flat_size += dpti_round_up(p->size, PARAMETER_ALIGNMENT);
        model->scalars += p->size;
    }
}

/* A layer that does not lead to the logits would have a gradient nobody computes. */
static bool all_used(dpt_model *model)
{
    bool *used = calloc(model->n_nodes, sizeof *used);
    if (!used) {
        (void)FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return false;
    }
    used[model->logits] = true;
    for (size_t i = model->n_nodes; i-- > 0;)
        for (size_t j = 0; used[i] && j < model->nodes[i].n_inputs; j++)
            used[model->nodes[i].inputs[j]] = true;
    for (size_t i = 0; i < model->n_nodes && model->status == DPT_OK; i++)
        if (!used[i])
            (void)FAIL(model, DPT_E_INVALID, "layer %s does not lead to the output of model %s",
                       model->nodes[i].name, model->name);
    free(used);
    return model->status == DPT_OK;
}

dpt_status dpt_model_finish(dpt_model *model, dpt_value logits)
{
    if (!model) return DPT_E_INVALID;
    if (usable(model, logits, "dpt_model_finish")) {
        const dpti_node *node = &model->nodes[logits.id - 1];
        model->logits = logits.id - 1;
        const dpt_op_desc loss = {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT,
                                  .u.softmax = {.classes = node->elements}};
        if (!node->extent.flat)
            (void)FAIL(model, DPT_E_INVALID,
                       "model %s: its output is an image; put dpt_flatten before the last layer",
                       model->name);
        else if (describes(model, "loss", &loss) && all_used(model)) {
            if (model->n_parameters == 0)
                (void)FAIL(model, DPT_E_INVALID, "model %s has no parameters to train",
                           model->name);
        }
    }
    if (model->status != DPT_OK) return dpti_context_fail(model->context, NULL, &model->error);
    place_parameters(model, false);
    model->flat_decay = model->flat_size;
    place_parameters(model, true);
    model->finished = true;
    return DPT_OK;
}

/* ---- Looking at a model ---------------------------------------------------------------------- */

const char *dpt_model_name(const dpt_model *model)
{
    return model->name;
}

size_t dpt_model_parameter_count(const dpt_model *model)
{
    return model->scalars;
}

size_t dpt_model_classes(const dpt_model *model)
{
    return model->finished ? model->nodes[model->logits].elements : 0;
}

size_t dpt_model_tensor_count(const dpt_model *model)
{
    return model->n_parameters;
}

void dpt_model_tensor(const dpt_model *model, size_t i, dpt_parameter_info *out)
{
    *out = (dpt_parameter_info){0};
    if (i >= model->n_parameters) return;
    const dpti_parameter *p = &model->parameters[i];
    *out = (dpt_parameter_info){.name = p->name, .rank = p->rank, .size = p->size};
    memcpy(out->shape, p->shape, sizeof out->shape);
}

const dpti_parameter *dpti_model_parameter(const dpt_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (strcmp(model->parameters[i].name, name) == 0) return &model->parameters[i];
    return NULL;
}
