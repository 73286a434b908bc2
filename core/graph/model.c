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
        .mean = SIZE_MAX,
        .variance = SIZE_MAX,
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

static bool known_activation(dpt_model *model, const char *layer, dpt_activation kind)
{
    if (kind >= DPT_ACT_NONE && kind <= DPT_ACT_GELU) return true;
    (void)FAIL(model, DPT_E_INVALID, "layer %s: unknown activation %d", layer, (int)kind);
    return false;
}

/* An activation that a layer's own operator can apply; GELU needs one of its own. */
static dpt_activation fusable(dpt_activation kind)
{
    return kind == DPT_ACT_GELU ? DPT_ACT_NONE : kind;
}

/* Appends a layer, and the activation that its operator cannot apply. */
static dpt_value add_layer(dpt_model *model, dpti_node node, dpt_activation activation)
{
    if (model->status != DPT_OK) return (dpt_value){0};
    const dpt_value y = add_node(model, node);
    return activation == DPT_ACT_GELU ? dpt_activate(model, y, activation) : y;
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
                                            .mean = SIZE_MAX,
                                            .variance = SIZE_MAX,
                                        });
    if (x.id) model->input = x.id - 1;
    return x;
}

dpt_value dpt_conv2d(dpt_model *model, dpt_value x, const char *name,
                     const dpt_conv2d_options *options)
{
    if (!usable(model, x, name ? name : "conv2d") || !name_is_new(model, name))
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
        .activation = fusable(options->activation),
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
                                                   .role = DPTI_ROLE_BIAS});
    return add_layer(model, node, options->activation);
}

dpt_value dpt_linear(dpt_model *model, dpt_value x, const char *name,
                     const dpt_linear_options *options)
{
    if (!usable(model, x, name ? name : "linear") || !name_is_new(model, name))
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
                                           .activation = fusable(options->activation)}};
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
            (dpti_parameter){
                .shape = {options->out}, .rank = 1, .fan_in = in, .role = DPTI_ROLE_BIAS});
    return add_layer(model, node, options->activation);
}

/* ---- Normalisation --------------------------------------------------------------------------- */

/* The channels that a norm works on: those of an image, or all elements of a flat value, which lie
   in memory as they did before flatten. */
static dpti_parameter channel_parameter(const dpti_node *input, dpti_role role)
{
    const dpti_extent before = input->before_flatten;
    dpti_parameter p = {.shape = {input->extent.c}, .rank = 1, .fan_in = 1, .role = role};
    if (input->extent.flat) {
        p.layout = DPTI_LAYOUT_LINEAR;
        p.h = before.h;
        p.w = before.w;
        p.c = before.c;
    }
    return p;
}

static const char *const role_names[] = {
    [DPTI_ROLE_NORM_WEIGHT] = "weight",
    [DPTI_ROLE_NORM_BIAS] = "bias",
    [DPTI_ROLE_RUNNING_MEAN] = "running_mean",
    [DPTI_ROLE_RUNNING_VARIANCE] = "running_var",
};

static size_t add_channels(dpt_model *model, const char *name, dpt_value x, dpti_role role,
                           float momentum)
{
    if (model->status != DPT_OK) return SIZE_MAX;
    dpti_parameter parameter = channel_parameter(&model->nodes[x.id - 1], role);
    parameter.momentum = momentum;
    return add_parameter(model, name, role_names[role], parameter);
}

static bool norm_begins(dpt_model *model, dpt_value x, const char *name,
                        const dpt_norm_options *options, dpti_node *node)
{
    if (!usable(model, x, name ? name : "norm") || !name_is_new(model, name)) return false;
    if (!known_activation(model, name, options->activation)) return false;
    if (!(options->momentum >= 0 && options->momentum <= 1)) {
        (void)FAIL(model, DPT_E_INVALID, "layer %s: a momentum of %g is not in [0, 1]", name,
                   (double)options->momentum);
        return false;
    }
    const dpti_node *input = &model->nodes[x.id - 1];
    *node = node_over(DPTI_NODE_BATCH_NORM, name, x);
    node->extent = input->extent;
    node->before_flatten = input->before_flatten;
    return true;
}

static float or_default(float value, float otherwise)
{
    return value != 0 ? value : otherwise;
}

dpt_value dpt_batch_norm(dpt_model *model, dpt_value x, const char *name,
                         const dpt_norm_options *options)
{
    static const dpt_norm_options defaults;
    dpti_node node;
    if (!options) options = &defaults;
    if (!norm_begins(model, x, name, options, &node)) return (dpt_value){0};
    const dpti_extent e = node.extent;
    node.forward = (dpt_op_desc){.kind = DPT_OP_BATCH_NORM_FORWARD,
                                 .u.batch_norm = {.area = e.h * e.w,
                                                  .channels = e.c,
                                                  .n_parts = 1,
                                                  .epsilon = or_default(options->epsilon, 1e-5f),
                                                  .activation = fusable(options->activation)}};
    if (!describes(model, name, &node.forward)) return (dpt_value){0};
    const float momentum = or_default(options->momentum, 0.1f);
    node.weight = add_channels(model, name, x, DPTI_ROLE_NORM_WEIGHT, 0);
    node.bias = add_channels(model, name, x, DPTI_ROLE_NORM_BIAS, 0);
    node.mean = add_channels(model, name, x, DPTI_ROLE_RUNNING_MEAN, momentum);
    node.variance = add_channels(model, name, x, DPTI_ROLE_RUNNING_VARIANCE, momentum);
    return add_layer(model, node, options->activation);
}

dpt_value dpt_layer_norm(dpt_model *model, dpt_value x, const char *name,
                         const dpt_norm_options *options)
{
    static const dpt_norm_options defaults;
    dpti_node node;
    if (!options) options = &defaults;
    if (!norm_begins(model, x, name, options, &node)) return (dpt_value){0};
    const dpti_extent e = node.extent;
    node.kind = DPTI_NODE_LAYER_NORM;
    node.forward = (dpt_op_desc){.kind = DPT_OP_LAYER_NORM_FORWARD,
                                 .u.layer_norm = {.rows = e.h * e.w,
                                                  .channels = e.c,
                                                  .epsilon = or_default(options->epsilon, 1e-5f)}};
    if (!describes(model, name, &node.forward)) return (dpt_value){0};
    node.weight = add_channels(model, name, x, DPTI_ROLE_NORM_WEIGHT, 0);
    node.bias = add_channels(model, name, x, DPTI_ROLE_NORM_BIAS, 0);
    const dpt_value y = add_layer(model, node, DPT_ACT_NONE);
    return options->activation == DPT_ACT_NONE ? y : dpt_activate(model, y, options->activation);
}

/* ---- Layers without parameters --------------------------------------------------------------- */

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
    if (!usable(model, x, "pool2d")) return (dpt_value){0};
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

dpt_value dpt_global_average_pool(dpt_model *model, dpt_value x)
{
    if (!usable(model, x, "global_average_pool")) return (dpt_value){0};
    const dpti_extent in = model->nodes[x.id - 1].extent;
    return dpt_pool2d(model, x,
                      &(dpt_pool2d_options){.kind = DPT_POOL_AVERAGE, .kernel = {in.h, in.w}});
}

dpt_value dpt_dropout(dpt_model *model, dpt_value x, float p)
{
    if (!usable(model, x, "dropout")) return (dpt_value){0};
    if (p == 0) return x;
    const dpti_node *input = &model->nodes[x.id - 1];
    dpti_node node = node_over(DPTI_NODE_DROPOUT, NULL, x);
    node.extent = input->extent;
    node.before_flatten = input->before_flatten;
    node.forward = (dpt_op_desc){
        .kind = DPT_OP_DROPOUT,
        .u.dropout = {.count = input->elements, .p = p, .stream = (uint32_t)++model->n_dropouts}};
    return add_unnamed(model, "dropout", node);
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

/* Places the parameters with roles first to last behind what has its place. */
static void place_parameters(dpt_model *model, dpti_role first, dpti_role last)
{
    for (size_t i = 0; i < model->n_parameters; i++) {
        dpti_parameter *p = &model->parameters[i];
        if (p->role < first || p->role > last) continue;
        p->offset = model->flat_size;
        model->flat_size += dpti_round_up(p->size, PARAMETER_ALIGNMENT);
        if (!dpti_is_statistic(p->role)) model->scalars += p->size;
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
    place_parameters(model, DPTI_ROLE_WEIGHT, DPTI_ROLE_WEIGHT);
    model->flat_weights = model->flat_size;
    place_parameters(model, DPTI_ROLE_BIAS, DPTI_ROLE_NORM_BIAS);
    model->flat_trained = model->flat_size;
    place_parameters(model, DPTI_ROLE_RUNNING_MEAN, DPTI_ROLE_RUNNING_VARIANCE);
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
    const dpti_parameter *p = &model->parameters[i];
    *out = (dpt_parameter_info){
        .name = p->name, .rank = p->rank, .size = p->size, .trained = !dpti_is_statistic(p->role)};
    memcpy(out->shape, p->shape, sizeof out->shape);
}

size_t dpt_model_layer_count(const dpt_model *model)
{
    return model->n_nodes;
}

static double multiply_adds(const dpti_node *node)
{
    if (node->kind == DPTI_NODE_LINEAR)
        return (double)node->forward.u.linear.in * (double)node->forward.u.linear.out;
    if (node->kind != DPTI_NODE_CONV2D) return 0;
    const dpt_conv2d_desc *d = &node->forward.u.conv2d;
    return (double)node->elements * (double)(d->kernel_h * d->kernel_w) *
           (double)(d->in_channels / d->groups);
}

void dpt_model_layer(const dpt_model *model, size_t i, dpt_layer_info *out)
{
    static const char *const kinds[] = {
        [DPTI_NODE_INPUT] = "input",           [DPTI_NODE_CONV2D] = "conv2d",
        [DPTI_NODE_LINEAR] = "linear",         [DPTI_NODE_POOL2D] = "pool2d",
        [DPTI_NODE_ACTIVATE] = "activation",   [DPTI_NODE_ADD] = "add",
        [DPTI_NODE_FLATTEN] = "flatten",       [DPTI_NODE_BATCH_NORM] = "batch_norm",
        [DPTI_NODE_LAYER_NORM] = "layer_norm", [DPTI_NODE_DROPOUT] = "dropout",
    };
    const dpti_node *node = &model->nodes[i];
    *out = (dpt_layer_info){.name = node->name,
                            .kind = kinds[node->kind],
                            .height = node->extent.h,
                            .width = node->extent.w,
                            .channels = node->extent.c,
                            .multiply_adds = multiply_adds(node)};
    if (node->weight != SIZE_MAX) out->parameters += model->parameters[node->weight].size;
    if (node->bias != SIZE_MAX) out->parameters += model->parameters[node->bias].size;
}

const dpti_parameter *dpti_model_parameter(const dpt_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (strcmp(model->parameters[i].name, name) == 0) return &model->parameters[i];
    return NULL;
}
