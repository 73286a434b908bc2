/* The layers of the public API: shape inference and parameters. */
#include "graph/tensor.h"

#include "base/size.h"

#include <string.h>

/* One extent of a window that moves over an input, in elements. */
typedef struct window_extent {
    size_t in, pad, dilation, kernel, stride;
} window_extent;

/* Returns the output extent of a window; 0 if the window does not fit. */
static size_t window_output(window_extent w)
{
    size_t span, padded;
    if (w.kernel < 1 || w.stride < 1 || !dpti_multiply(w.dilation, w.kernel - 1, &span) ||
        !dpti_add(span, 1, &span) || !dpti_multiply(2, w.pad, &padded) ||
        !dpti_add(w.in, padded, &padded) || span > padded)
        return 0;
    return (padded - span) / w.stride + 1;
}

static size_t or_one(size_t value)
{
    return value ? value : 1;
}

/* Returns whether a value that has a shape of its own has one axis.  Makes its memory dense, and
   copies it for each sample if it has no samples.  Other values are as they are. */
static bool is_vector(dpt_model *model, dpt_value *x, const char *layer)
{
    *x = dpti_for_each_sample(model, *x);
    if (!x->id) return false;
    const dpti_node *input = &model->nodes[x->id - 1];
    if (!input->has_shape) return true;
    if (input->shape.rank != 1)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: its input has %zu axes, not one",
                              layer, input->shape.rank);
    else
        *x = dpti_row_major(model, *x);
    return model->status == DPT_OK;
}

/* ---- Layers with weights --------------------------------------------------------------------- */

dpt_conv2d_desc dpti_describe_conv2d(dpti_extent in, const dpt_conv2d_options *options)
{
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
        .activation = dpti_fusable(options->activation),
    };
    d.out_h = window_output((window_extent){d.in_h, d.pad_h, d.dilation_h, d.kernel_h, d.stride_h});
    d.out_w = window_output((window_extent){d.in_w, d.pad_w, d.dilation_w, d.kernel_w, d.stride_w});
    return d;
}

dpti_extent dpti_each_image(dpti_extent all, size_t images)
{
    all.h /= or_one(images);
    return all;
}

void dpti_set_images(dpti_node *node, dpti_extent each, size_t images)
{
    node->extent = each;
    node->extent.h = each.h * or_one(images);
    node->repeat = images > 1 ? images : 0;
}

dpt_value dpt_conv2d(dpt_model *model, dpt_value x, const char *name,
                     const dpt_conv2d_options *options)
{
    dpt_conv2d_options o;
    if (!dpti_usable(model, x, name ? name : "conv2d") || !dpti_name_is_new(model, name) ||
        !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_conv2d_options", options, sizeof o}, &o))
        return (dpt_value){0};
    options = &o;
    if (!dpti_known_activation(model, name, options->activation)) return (dpt_value){0};
    const dpti_extent in = model->nodes[x.id - 1].extent;
    if (in.flat)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: a convolution behind flatten",
                               name);
    const dpt_conv2d_desc d = dpti_describe_conv2d(in, options);
    if (d.out_h == 0 || d.out_w == 0)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer %s: its %zux%zu kernel does not fit the %zux%zu input; use larger "
            "images or more padding",
            name, d.kernel_h, d.kernel_w, d.in_h, d.in_w);
    const dpt_op_desc desc = {.kind = DPT_OP_CONV2D_FORWARD, .u.conv2d = d};
    if (!dpti_describes(model, name, &desc)) return (dpt_value){0};

    const size_t group_channels = d.in_channels / d.groups;
    const size_t window = d.kernel_h * d.kernel_w;
    dpti_node node = dpti_node_over(DPTI_NODE_CONV2D, name, x);
    node.extent = (dpti_extent){.h = d.out_h, .w = d.out_w, .c = d.out_channels};
    node.forward = desc;
    node.weight = dpti_build_parameter(
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
        node.bias = dpti_build_parameter(model, name, "bias",
                                         (dpti_parameter){.shape = {d.out_channels},
                                                          .rank = 1,
                                                          .fan_in = group_channels * window,
                                                          .role = DPTI_ROLE_BIAS});
    return dpti_add_layer(model, node, options->activation);
}

dpt_value dpt_linear(dpt_model *model, dpt_value x, const char *name,
                     const dpt_linear_options *options)
{
    dpt_linear_options o;
    if (!dpti_usable(model, x, name ? name : "linear") || !dpti_name_is_new(model, name) ||
        !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_linear_options", options, sizeof o}, &o))
        return (dpt_value){0};
    options = &o;
    if (!dpti_known_activation(model, name, options->activation)) return (dpt_value){0};
    if (!is_vector(model, &x, name)) return (dpt_value){0};
    const dpti_node *input = &model->nodes[x.id - 1];
    if (!input->extent.flat)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer %s: a linear layer takes a flat input; put dpt_flatten before it", name);
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD,
                              .u.linear = {.in = input->elements,
                                           .out = options->out,
                                           .has_bias = !options->no_bias,
                                           .activation = dpti_fusable(options->activation)}};
    if (!dpti_describes(model, name, &desc)) return (dpt_value){0};
    const dpti_extent before = input->before_flatten;
    dpti_node node = dpti_node_over(DPTI_NODE_LINEAR, name, x);
    node.extent = (dpti_extent){.h = 1, .w = 1, .c = options->out, .flat = true};
    node.before_flatten = node.extent;
    node.forward = desc;
    const size_t in = desc.u.linear.in;
    node.weight = dpti_build_parameter(model, name, "weight",
                                       (dpti_parameter){.shape = {options->out, in},
                                                        .rank = 2,
                                                        .fan_in = in,
                                                        .fan_out = options->out,
                                                        .layout = DPTI_LAYOUT_LINEAR,
                                                        .h = before.h,
                                                        .w = before.w,
                                                        .c = before.c});
    if (!options->no_bias && node.weight != SIZE_MAX)
        node.bias = dpti_build_parameter(
            model, name, "bias",
            (dpti_parameter){
                .shape = {options->out}, .rank = 1, .fan_in = in, .role = DPTI_ROLE_BIAS});
    return dpti_add_layer(model, node, options->activation);
}

/* ---- Normalisation --------------------------------------------------------------------------- */

/* The channels of a norm: the channels of an image, or all elements of a flat value, in the memory
   order that they had before flatten. */
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

/* Adds a parameter of a norm over the input of `norm`. */
static size_t add_channels(dpt_model *model, const dpti_node *norm, dpti_role role, float momentum)
{
    if (model->status != DPT_OK) return SIZE_MAX;
    dpti_parameter parameter = channel_parameter(&model->nodes[norm->inputs[0]], role);
    parameter.momentum = momentum;
    return dpti_build_parameter(model, norm->name, role_names[role], parameter);
}

/* Copies the options of a norm, checks it, and gives it the shape of its input.  Returns false if
   the model has failed. */
static bool norm_begins(dpt_model *model, dpti_node *node, const dpt_norm_options *given,
                        dpt_norm_options *options)
{
    const char *name = node->name;
    dpt_value x = {(uint32_t)(node->inputs[0] + 1)};
    if (!dpti_usable(model, x, name ? name : "norm") || !dpti_name_is_new(model, name) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_norm_options", given, sizeof *options},
                           options))
        return false;
    if (!dpti_known_activation(model, name, options->activation)) return false;
    if (!(options->momentum >= 0 && options->momentum <= 1)) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: a momentum of %g is not in [0, 1]",
                              name, (double)options->momentum);
        return false;
    }
    if (!is_vector(model, &x, name)) return false;
    node->inputs[0] = x.id - 1;
    dpti_keep_shape(node, &model->nodes[x.id - 1]);
    return true;
}

static float or_default(float value, float otherwise)
{
    return value != 0 ? value : otherwise;
}

dpt_value dpt_batch_norm(dpt_model *model, dpt_value x, const char *name,
                         const dpt_norm_options *options)
{
    dpt_norm_options o;
    dpti_node node = dpti_node_over(DPTI_NODE_BATCH_NORM, name, x);
    if (!norm_begins(model, &node, options, &o)) return (dpt_value){0};
    const dpti_extent e = node.extent;
    node.forward = (dpt_op_desc){.kind = DPT_OP_BATCH_NORM_FORWARD,
                                 .u.batch_norm = {.area = e.h * e.w,
                                                  .channels = e.c,
                                                  .n_parts = 1,
                                                  .epsilon = or_default(o.epsilon, 1e-5f),
                                                  .activation = dpti_fusable(o.activation)}};
    if (!dpti_describes(model, name, &node.forward)) return (dpt_value){0};
    const float momentum = or_default(o.momentum, 0.1f);
    node.weight = add_channels(model, &node, DPTI_ROLE_NORM_WEIGHT, 0);
    node.bias = add_channels(model, &node, DPTI_ROLE_NORM_BIAS, 0);
    node.mean = add_channels(model, &node, DPTI_ROLE_RUNNING_MEAN, momentum);
    node.variance = add_channels(model, &node, DPTI_ROLE_RUNNING_VARIANCE, momentum);
    return dpti_add_layer(model, node, o.activation);
}

dpt_value dpt_layer_norm(dpt_model *model, dpt_value x, const char *name,
                         const dpt_norm_options *options)
{
    dpt_norm_options o;
    dpti_node node = dpti_node_over(DPTI_NODE_LAYER_NORM, name, x);
    if (!norm_begins(model, &node, options, &o)) return (dpt_value){0};
    const dpti_extent e = node.extent;
    node.forward = (dpt_op_desc){.kind = DPT_OP_LAYER_NORM_FORWARD,
                                 .u.layer_norm = {.rows = e.h * e.w,
                                                  .channels = e.c,
                                                  .epsilon = or_default(o.epsilon, 1e-5f)}};
    if (!dpti_describes(model, name, &node.forward)) return (dpt_value){0};
    node.weight = add_channels(model, &node, DPTI_ROLE_NORM_WEIGHT, 0);
    node.bias = add_channels(model, &node, DPTI_ROLE_NORM_BIAS, 0);
    const dpt_value y = dpti_add_layer(model, node, DPT_ACT_NONE);
    return o.activation == DPT_ACT_NONE ? y : dpt_activate(model, y, o.activation);
}

/* ---- Layers without parameters --------------------------------------------------------------- */

dpt_value dpti_pool2d(dpt_model *model, dpt_value x, size_t images,
                      const dpt_pool2d_options *options)
{
    dpt_pool2d_options o;
    if (!dpti_usable(model, x, "pool2d") || !dpti_has_options(model, "pool2d", options) ||
        !dpti_take_options(model, "pool2d", &(dpti_sized){"dpt_pool2d_options", options, sizeof o},
                           &o))
        return (dpt_value){0};
    options = &o;
    const dpti_extent in = dpti_each_image(model->nodes[x.id - 1].extent, images);
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
    d.out_h = window_output((window_extent){d.in_h, d.pad_h, 1, d.kernel_h, d.stride_h});
    d.out_w = window_output((window_extent){d.in_w, d.pad_w, 1, d.kernel_w, d.stride_w});
    if (in.flat || d.out_h == 0 || d.out_w == 0)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer pool2d-%zu: its %zux%zu window does not fit the %zux%zu input; use "
            "larger images",
            model->n_nodes, d.kernel_h, d.kernel_w, d.in_h, d.in_w);
    dpti_node node = dpti_node_over(DPTI_NODE_POOL2D, NULL, x);
    dpti_set_images(&node, (dpti_extent){.h = d.out_h, .w = d.out_w, .c = in.c}, images);
    node.forward = (dpt_op_desc){.kind = DPT_OP_POOL2D_FORWARD, .u.pool2d = d};
    return dpti_add_unnamed(model, "pool2d", node);
}

dpt_value dpt_pool2d(dpt_model *model, dpt_value x, const dpt_pool2d_options *options)
{
    return dpti_pool2d(model, x, 1, options);
}

dpt_value dpt_global_average_pool(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "global_average_pool")) return (dpt_value){0};
    const dpti_extent in = model->nodes[x.id - 1].extent;
    return dpt_pool2d(model, x,
                      &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                            .kind = DPT_POOL_AVERAGE,
                                            .kernel = {in.h, in.w}});
}

dpt_value dpt_dropout(dpt_model *model, dpt_value x, float p)
{
    if (!dpti_usable(model, x, "dropout")) return (dpt_value){0};
    if (p == 0) return x;
    x = dpti_own_tensor(model, dpti_for_each_sample(model, x));
    if (!x.id) return x;
    const dpti_node *input = &model->nodes[x.id - 1];
    dpti_node node = dpti_node_over(DPTI_NODE_DROPOUT, NULL, x);
    dpti_keep_shape(&node, input);
    node.forward = (dpt_op_desc){
        .kind = DPT_OP_DROPOUT,
        .u.dropout = {.count = input->elements, .p = p, .stream = (uint32_t)++model->n_dropouts}};
    return dpti_add_unnamed(model, "dropout", node);
}

/* The operator of an activation computes every sample, so values without samples have a formula. */
static const char *const activation_formulas[] = {
#define FORMULA(name, value, derivative, formula) [value] = (formula),
    DPT_ACTIVATION_LIST(FORMULA)
#undef FORMULA
};

dpt_value dpt_activate(dpt_model *model, dpt_value x, dpt_activation kind)
{
    if (!dpti_usable(model, x, "activate") || !dpti_known_activation(model, "activate", kind))
        return (dpt_value){0};
    if (kind == DPT_ACT_NONE) return x;
    if (dpti_node_at(model, x)->unsampled)
        return dpti_formula(model, activation_formulas[kind], &x, 1);
    x = dpti_own_tensor(model, x);
    if (!x.id) return x;
    const dpti_node *input = &model->nodes[x.id - 1];
    dpti_node node = dpti_node_over(DPTI_NODE_ACTIVATE, NULL, x);
    dpti_keep_shape(&node, input);
    node.forward = (dpt_op_desc){.kind = DPT_OP_ACTIVATION_FORWARD,
                                 .u.activation = {.kind = kind, .count = input->elements}};
    return dpti_add_unnamed(model, "activate", node);
}

dpt_value dpt_add(dpt_model *model, dpt_value a, dpt_value b)
{
    if (!dpti_usable(model, a, "add") || !dpti_usable(model, b, "add")) return (dpt_value){0};
    const dpti_node *left = &model->nodes[a.id - 1];
    const dpti_node *right = &model->nodes[b.id - 1];
    const dpti_extent e = left->extent, f = right->extent;
    const dpti_extent p = left->before_flatten, q = right->before_flatten;
    if (e.h != f.h || e.w != f.w || e.c != f.c || e.flat != f.flat)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer add-%zu: its inputs are %zux%zux%zu and %zux%zux%zu; they must agree",
            model->n_nodes, e.h, e.w, e.c, f.h, f.w, f.c);
    if (e.flat && (p.h != q.h || p.w != q.w || p.c != q.c))
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer add-%zu: its inputs were flattened from different shapes",
                               model->n_nodes);
    if (left->has_shape || right->has_shape)
        return dpti_formula(model, "a + b", (dpt_value[]){a, b}, 2);
    dpti_node node = dpti_node_over(DPTI_NODE_ADD, NULL, a);
    node.inputs[1] = b.id - 1;
    node.n_inputs = 2;
    node.extent = e;
    node.before_flatten = p;
    node.forward =
        (dpt_op_desc){.kind = DPT_OP_ADD,
                      .u.elementwise = {.count = left->elements, .alpha = 1.0f, .beta = 1.0f}};
    return dpti_add_unnamed(model, "add", node);
}

dpt_value dpt_flatten(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "flatten")) return (dpt_value){0};
    const dpti_node *input = &model->nodes[x.id - 1];
    if (input->extent.flat) return input->has_shape ? dpti_as_flat(model, x) : x;
    dpti_node node = dpti_node_over(DPTI_NODE_FLATTEN, NULL, x);
    node.extent = (dpti_extent){.h = 1, .w = 1, .c = input->elements, .flat = true};
    node.before_flatten = input->extent;
    return dpti_add_unnamed(model, "flatten", node);
}
