/* Layers that are one operator of ONNX, or a few. */
#include "export/state.h"

#include "base/size.h"
#include "graph/tensor.h"

#include <math.h>
#include <string.h>

enum { OPSET_LAYER_NORM = 17, OPSET_AXES = 18, OPSET_GELU = 20 };

/* ---- Parts ----------------------------------------------------------------------------------- */

dpt_status dpti_export_refuse(const dpti_exporter *e, size_t node, const char *reason)
{
    return DPT_FAIL(e->error, DPT_E_UNSUPPORTED, "model %s: layer %s: %s", e->model->name,
                    e->model->nodes[node].name, reason);
}

dpti_draft_value *dpti_export_parameter(dpti_exporter *e, size_t parameter)
{
    if (parameter == SIZE_MAX) return NULL;
    const dpti_parameter *p = &e->model->parameters[parameter];
    if (e->parameters[parameter]) return e->parameters[parameter];
    /* The name was made before all others (graph.c), so that no number is behind it. */
    dpti_draft_value *value = dpti_onnx_take(&e->draft->arena, 1, sizeof *value);
    if (!value) {
        e->draft->status = DPT_E_NO_MEMORY;
        return &e->draft->spare_value;
    }
    *value = (dpti_draft_value){.name = p->name, .type = DPTI_ONNX_FLOAT};
    dpti_draft_tensor *tensor =
        dpti_draft_initialiser(e->draft, value, e->weights[parameter], p->size * sizeof(float));
    tensor->rank = p->rank;
    for (size_t i = 0; i < p->rank; i++)
        tensor->extents[i] = (int64_t)p->shape[i];
    e->parameters[parameter] = value;
    return value;
}

dpti_draft_value *dpti_export_reduce(dpti_exporter *e, const char *op, dpti_draft_value *x,
                                     const dpti_draft_integers *axes)
{
    const bool as_input = e->draft->opset >= OPSET_AXES || strcmp(op, "ReduceSum") == 0;
    dpti_draft_value *const inputs[] = {x, as_input ? dpti_draft_axes(e->draft, axes) : NULL};
    dpti_draft_node *node = dpti_draft_call(e->draft, op, inputs, as_input ? 2 : 1);
    if (!as_input) dpti_draft_ints(e->draft, node, "axes", axes);
    dpti_draft_int(node, "keepdims", 1);
    return node->output;
}

static dpti_draft_value *gelu(dpti_exporter *e, dpti_draft_value *x)
{
    dpti_draft *d = e->draft;
    if (d->opset >= OPSET_GELU) return dpti_draft_unary(d, "Gelu", x);
    dpti_draft_value *y = dpti_draft_binary(d, "Div", x, dpti_draft_number(d, sqrtf(2)));
    y = dpti_draft_binary(d, "Add", dpti_draft_unary(d, "Erf", y), dpti_draft_number(d, 1));
    return dpti_draft_binary(d, "Mul", dpti_draft_binary(d, "Mul", x, y),
                             dpti_draft_number(d, 0.5f));
}

dpti_draft_value *dpti_export_activation(dpti_exporter *e, dpt_activation kind, dpti_draft_value *x)
{
    switch (kind) {
    case DPT_ACT_NONE: break;
    case DPT_ACT_RELU: return dpti_draft_unary(e->draft, "Relu", x);
    case DPT_ACT_TANH: return dpti_draft_unary(e->draft, "Tanh", x);
    case DPT_ACT_SIGMOID: return dpti_draft_unary(e->draft, "Sigmoid", x);
    case DPT_ACT_GELU: return gelu(e, x);
    }
    return x;
}

static bool is_flattened(const dpti_exporter *e, size_t node)
{
    return e->model->nodes[node].order_differs;
}

/* What a layer over vectors reads.  A flattened image becomes a vector in the order (channels,
   height, width). */
static dpti_draft_value *vector_of(dpti_exporter *e, size_t node)
{
    const size_t input = e->model->nodes[node].inputs[0];
    dpti_draft_value *x = dpti_export_operand(e, node, 0);
    if (!is_flattened(e, input)) return x;
    dpti_draft_node *flatten = dpti_draft_call(e->draft, "Flatten", &x, 1);
    dpti_draft_int(flatten, "axis", 1);
    return flatten->output;
}

/* Holds the result of a layer that keeps the shape of its input, which vector_of gave. */
static void hold_vector(dpti_exporter *e, size_t node, dpti_draft_value *y)
{
    const dpti_shape shape = dpti_export_shape(e, node);
    const dpti_extents extents = dpti_shape_extents(&shape);
    if (is_flattened(e, node)) y = dpti_export_reshape(e, y, true, &extents);
    dpti_export_hold(e, node, y, &shape);
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Gives a port its axes, and holds the port's value as a part of the node's memory. */
static void hold_port(dpti_exporter *e, size_t node, dpti_draft_port *port, const dpti_shape *shape)
{
    const dpti_port *file = &e->model->file_input;
    const size_t batch_axis = file->name ? file->batch_axis : 0;
    port->rank = shape->rank + 1;
    for (size_t i = 0, k = 0; i < port->rank; i++)
        port->extents[i] = i == batch_axis ? -1 : (int64_t)shape->extent[k++];
    dpti_export_hold(e, node, port->value, shape);
}

dpt_status dpti_export_input(dpti_exporter *e, size_t node)
{
    const dpt_model *m = e->model;
    if (m->n_inputs <= 1) {
        const dpti_shape shape = dpti_export_shape(e, node);
        hold_port(e, node, &e->draft->inputs[0], &shape);
        return DPT_OK;
    }
    /* The node is the record of a sample, and each input is a part of one of the records. */
    for (size_t i = 0; i < m->n_inputs; i++) {
        if (m->nodes[m->inputs[i].node].inputs[0] != node) continue;
        const dpti_shape *part = &m->inputs[i].shape;
        const dpti_shape shape = m->file_output.name ? dpti_export_drop(part, 0) : *part;
        hold_port(e, node, &e->draft->inputs[i], &shape);
    }
    return DPT_OK;
}

/* A constant: numbers, or ids. */
static dpti_draft_value *constant_of(dpti_exporter *e, const dpti_node *node)
{
    dpti_draft *d = e->draft;
    const float *data = e->model->constants + node->constant;
    if (node->elements == 1 && node->shape.rank == 0 && !node->integer)
        return dpti_draft_number(d, *data);
    dpti_draft_value *value =
        dpti_draft_name(d, "val_constant", node->integer ? DPTI_ONNX_INT64 : DPTI_ONNX_FLOAT);
    int64_t *wide = node->integer ? dpti_onnx_take(&d->arena, node->elements, sizeof *wide) : NULL;
    if (node->integer && !wide) d->status = DPT_E_NO_MEMORY;
    for (size_t i = 0; wide && i < node->elements; i++) {
        int32_t id;
        memcpy(&id, data + i, sizeof id);
        wide[i] = id;
    }
    dpti_draft_tensor *tensor =
        dpti_draft_initialiser(d, value, wide ? (const void *)wide : data,
                               node->elements * (wide ? sizeof *wide : sizeof *data));
    tensor->rank = node->shape.rank;
    for (size_t i = 0; i < tensor->rank; i++)
        tensor->extents[i] = (int64_t)node->shape.extent[i];
    return value;
}

/* A parameter whose elements lie in another order than in the file: (rows, h, w, c), where the file
   has (rows, c, h, w). */
static void hold_reordered(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_parameter *p = &e->model->parameters[n->weight];
    const size_t *memory = n->shape.extent;
    const dpti_extents file = {.rank = 4, .extent = {memory[0], memory[3], memory[1], memory[2]}};
    const int32_t c = (int32_t)memory[3];
    dpti_shape shape = dpti_shape_dense(&file);
    shape.stride[1] = 1;
    shape.stride[2] = (int32_t)memory[2] * c;
    shape.stride[3] = c;
    dpti_draft_value *value = dpti_export_parameter(e, n->weight);
    if (p->rank != 4) value = dpti_export_reshape(e, value, false, &file);
    dpti_export_hold(e, node, value, &shape);
}

dpt_status dpti_export_leaf(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    if (n->kind == DPTI_NODE_PARAMETER && n->shape.rank == 4) {
        const dpti_parameter *p = &e->model->parameters[n->weight];
        if (p->layout != DPTI_LAYOUT_PLAIN && p->h * p->w > 1) {
            hold_reordered(e, node);
            return DPT_OK;
        }
    }
    dpti_export_hold(e, node,
                     n->kind == DPTI_NODE_PARAMETER ? dpti_export_parameter(e, n->weight)
                                                    : constant_of(e, n),
                     &n->shape);
    return DPT_OK;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* Attributes of a window; filters with three axes move over one axis. */
static void add_window(dpti_exporter *e, dpti_draft_node *node, const dpt_conv2d_desc *d,
                       size_t n_axes)
{
    const int64_t all[][2] = {{(int64_t)d->kernel_h, (int64_t)d->kernel_w},
                              {(int64_t)d->stride_h, (int64_t)d->stride_w},
                              {(int64_t)d->dilation_h, (int64_t)d->dilation_w}};
    static const char *const names[] = {"kernel_shape", "strides", "dilations"};
    const int64_t pads[] = {(int64_t)d->pad_h, (int64_t)d->pad_w};
    dpti_draft_integers list = {.n = 2 * n_axes};
    for (size_t i = 0; i < 2 * n_axes; i++)
        list.items[i] = pads[2 - n_axes + i % n_axes];
    dpti_draft_ints(e->draft, node, "pads", &list);
    list.n = n_axes;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        for (size_t i = 0; i < n_axes; i++)
            list.items[i] = all[k][2 - n_axes + i];
        if (k < 2 || d->dilation_h * d->dilation_w != 1)
            dpti_draft_ints(e->draft, node, names[k], &list);
    }
    if (d->groups > 1) dpti_draft_int(node, "group", (int64_t)d->groups);
}

/* An image for windows over n_axes axes.  `images`, if there are several, lie below one another and
   are the first axis. */
static dpti_shape plane(const dpti_extent *extent, size_t n_axes, size_t images)
{
    const dpti_extent each = {.h = extent->h / images, .w = extent->w, .c = extent->c};
    dpti_shape image = dpti_export_image(&each);
    if (n_axes == 1) image = dpti_export_drop(&image, 1);
    if (images == 1) return image;
    for (size_t i = image.rank++; i > 0; i--) {
        image.extent[i] = image.extent[i - 1];
        image.stride[i] = image.stride[i - 1];
    }
    image.extent[0] = images;
    image.stride[0] = (int32_t)(each.h * each.w * each.c);
    return image;
}

/* The images of a sample that the operator of a node takes as samples. */
static size_t images_of(const dpti_node *node)
{
    return node->repeat > 1 ? node->repeat : 1;
}

static size_t axes_of(const dpti_exporter *e, const dpti_node *node)
{
    if (node->weight == SIZE_MAX) return 2;
    const size_t n = e->model->parameters[node->weight].rank - 2;
    return n < 2 ? n : 2;
}

/* Filters that are a value, which has the order (out, height, width, in). */
static dpti_draft_value *computed_filters(dpti_exporter *e, const dpti_node *node)
{
    const dpt_conv2d_desc *d = &node->forward.u.conv2d;
    const size_t in = d->in_channels / d->groups, row = d->kernel_w * in;
    const dpti_shape shape = {
        .rank = 4,
        .extent = {d->out_channels, in, d->kernel_h, d->kernel_w},
        .stride = {(int32_t)(d->kernel_h * row), 1, (int32_t)row, (int32_t)in}};
    return dpti_export_shared(e, node->inputs[1], &shape);
}

/* The bias of a convolution; NULL if it has none. */
static dpti_draft_value *shift_of(dpti_exporter *e, const dpti_node *node)
{
    if (node->n_inputs < 3) return dpti_export_parameter(e, node->bias);
    const dpti_extents row = {.rank = 1, .extent = {node->forward.u.conv2d.out_channels}};
    const dpti_shape shape = dpti_shape_dense(&row);
    return dpti_export_shared(e, node->inputs[2], &shape);
}

/* The filters.  Those over three axes have the elements along the depth as channels. */
static dpti_draft_value *filters_of(dpti_exporter *e, const dpti_node *node)
{
    if (node->weight == SIZE_MAX) return computed_filters(e, node);
    const dpti_parameter *p = &e->model->parameters[node->weight];
    dpti_draft_value *w = dpti_export_parameter(e, node->weight);
    if (p->rank < 5) return w;
    const dpti_extents to = {
        .rank = 4, .extent = {p->shape[0], p->shape[1] * p->shape[2], p->shape[3], p->shape[4]}};
    return dpti_export_reshape(e, w, false, &to);
}

static dpti_draft_value *image_of(dpti_exporter *e, size_t node, size_t n_axes)
{
    const size_t input = e->model->nodes[node].inputs[0],
                 images = images_of(&e->model->nodes[node]);
    const dpti_shape shape = plane(&e->model->nodes[input].extent, n_axes, images);
    dpti_draft_value *x = dpti_export_take(e, input, (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
    const dpti_shape each = dpti_export_drop(&shape, 0);
    const dpti_extents extents = dpti_shape_extents(&each);
    return images > 1 ? dpti_export_fold(e, x, &extents) : x;
}

static void hold_image(dpti_exporter *e, size_t node, size_t n_axes, dpti_draft_value *y)
{
    const size_t images = images_of(&e->model->nodes[node]);
    const dpti_shape shape = plane(&e->model->nodes[node].extent, n_axes, images);
    const dpti_extents extents = dpti_shape_extents(&shape);
    if (images > 1) y = dpti_export_fold(e, y, &extents);
    dpti_export_hold(e, node, y, &shape);
}

dpt_status dpti_export_conv2d(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_conv2d_desc *d = &n->forward.u.conv2d;
    const size_t n_axes = axes_of(e, n);
    dpti_draft_value *const inputs[] = {image_of(e, node, n_axes), filters_of(e, n),
                                        shift_of(e, n)};
    dpti_draft_node *conv = dpti_draft_call(e->draft, "Conv", inputs, inputs[2] ? 3 : 2);
    add_window(e, conv, d, n_axes);
    hold_image(e, node, n_axes, dpti_export_activation(e, d->activation, conv->output));
    return DPT_OK;
}

/* How many rows or columns the output has beyond those that the windows reach from the padding on;
   negative: how many are cut off. */
static int64_t excess(size_t out, size_t in, const size_t window[4])
{
    const size_t stride = window[0], pad = window[1], dilation = window[2], kernel = window[3];
    return (int64_t)out -
           ((int64_t)((in - 1) * stride + dilation * (kernel - 1) + 1) - 2 * (int64_t)pad);
}

dpt_status dpti_export_conv2d_transpose(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_conv2d_desc *d = &n->forward.u.conv2d; /* in_h is the extent of the result */
    const size_t n_axes = axes_of(e, n);
    const int64_t more[] = {
        excess(d->in_h, d->out_h, (size_t[]){d->stride_h, d->pad_h, d->dilation_h, d->kernel_h}),
        excess(d->in_w, d->out_w, (size_t[]){d->stride_w, d->pad_w, d->dilation_w, d->kernel_w})};
    if (more[0] < 0 || more[1] < 0)
        return dpti_export_refuse(e, node,
                                  "a transposed convolution whose result is cut off at one side "
                                  "cannot be written yet");
    dpti_draft_value *const inputs[] = {image_of(e, node, n_axes), filters_of(e, n)};
    dpti_draft_node *conv = dpti_draft_call(e->draft, "ConvTranspose", inputs, 2);
    add_window(e, conv, d, n_axes);
    dpti_draft_integers padding = {.n = n_axes};
    for (size_t i = 0; i < n_axes; i++)
        padding.items[i] = more[2 - n_axes + i];
    if (more[0] + more[1] > 0) dpti_draft_ints(e->draft, conv, "output_padding", &padding);
    hold_image(e, node, n_axes, conv->output);
    return DPT_OK;
}

dpt_status dpti_export_pool2d(dpti_exporter *e, size_t node)
{
    const dpt_pool2d_desc *d = &e->model->nodes[node].forward.u.pool2d;
    const bool most = d->kind == DPT_POOL_MAX;
    const bool whole = d->kernel_h == d->in_h && d->kernel_w == d->in_w && d->pad_h + d->pad_w == 0;
    static const char *const names[2][2] = {{"AveragePool", "GlobalAveragePool"},
                                            {"MaxPool", "GlobalMaxPool"}};
    dpti_draft_value *x = image_of(e, node, 2);
    dpti_draft_node *pool = dpti_draft_call(e->draft, names[most][whole], &x, 1);
    const dpt_conv2d_desc window = {.kernel_h = d->kernel_h,
                                    .kernel_w = d->kernel_w,
                                    .stride_h = d->stride_h,
                                    .stride_w = d->stride_w,
                                    .pad_h = d->pad_h,
                                    .pad_w = d->pad_w,
                                    .dilation_h = 1,
                                    .dilation_w = 1,
                                    .groups = 1};
    if (!whole) add_window(e, pool, &window, 2);
    if (!whole && !most) dpti_draft_int(pool, "count_include_pad", 1);
    hold_image(e, node, 2, pool->output);
    return DPT_OK;
}

/* ---- Linear layers, sums, activations -------------------------------------------------------- */

/* Whether the file has the weight as (in, out). */
static bool is_transposed(const dpti_parameter *p, const dpt_linear_desc *d)
{
    if (p->shape[0] != d->out) return true;
    return d->out > 1 && p->layout == DPTI_LAYOUT_LINEAR && p->h * p->w * p->c == d->in * d->out;
}

dpt_status dpti_export_linear(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_linear_desc *d = &n->forward.u.linear;
    const bool transposed = is_transposed(&e->model->parameters[n->weight], d);
    const bool flat = is_flattened(e, n->inputs[0]);
    const dpti_shape input = dpti_export_shape(e, n->inputs[0]);
    dpti_draft_value *x = vector_of(e, node), *w = dpti_export_parameter(e, n->weight),
                     *bias = dpti_export_parameter(e, n->bias), *y;
    if (flat || input.rank == 1) {
        dpti_draft_value *const inputs[] = {x, w, bias};
        dpti_draft_node *gemm = dpti_draft_call(e->draft, "Gemm", inputs, bias ? 3 : 2);
        if (!transposed) dpti_draft_int(gemm, "transB", 1);
        y = gemm->output;
    } else {
        if (!transposed)
            w = dpti_export_permute(e, w, &(dpti_draft_integers){.n = 2, .items = {1, 0}});
        y = dpti_draft_binary(e->draft, "MatMul", x, w);
        if (bias) y = dpti_draft_binary(e->draft, "Add", y, bias);
    }
    y = dpti_export_activation(e, d->activation, y);
    dpti_extents extents = flat ? (dpti_extents){.rank = 1} : dpti_shape_extents(&input);
    extents.extent[extents.rank - 1] = d->out;
    const dpti_shape shape = dpti_shape_dense(&extents);
    dpti_export_hold(e, node, y, &shape);
    return DPT_OK;
}

dpt_status dpti_export_activate(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_shape shape = dpti_export_shape(e, node);
    dpti_draft_value *x = dpti_export_operand(e, node, 0);
    dpti_export_hold(e, node, dpti_export_activation(e, n->forward.u.activation.kind, x), &shape);
    return DPT_OK;
}

dpt_status dpti_export_add(dpti_exporter *e, size_t node)
{
    const dpti_shape shape = dpti_export_shape(e, node);
    dpti_draft_value *a = dpti_export_operand(e, node, 0), *b = dpti_export_operand(e, node, 1);
    dpti_export_hold(e, node, dpti_draft_binary(e->draft, "Add", a, b), &shape);
    return DPT_OK;
}

/* ---- Norms ----------------------------------------------------------------------------------- */

/* A vector of the model's constants. */
static dpti_draft_value *vector_at(dpti_exporter *e, size_t place, size_t n)
{
    dpti_draft_value *value = dpti_draft_name(e->draft, "val_constant", DPTI_ONNX_FLOAT);
    dpti_draft_tensor *tensor = dpti_draft_initialiser(e->draft, value, e->model->constants + place,
                                                       n * sizeof *e->model->constants);
    tensor->rank = 1;
    tensor->extents[0] = (int64_t)n;
    return value;
}

dpt_status dpti_export_batch_norm(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const bool image = !n->extent.flat;
    const size_t channels = n->forward.u.batch_norm.channels,
                 behind = dpti_round_up(channels, DPTI_PARAMETER_ALIGNMENT);
    const bool plain = n->weight == SIZE_MAX;
    dpti_draft_value *const inputs[] = {
        image ? image_of(e, node, 2) : vector_of(e, node),
        plain ? vector_at(e, n->constant, channels) : dpti_export_parameter(e, n->weight),
        plain ? vector_at(e, n->constant + behind, channels) : dpti_export_parameter(e, n->bias),
        dpti_export_parameter(e, n->mean), dpti_export_parameter(e, n->variance)};
    dpti_draft_node *norm = dpti_draft_call(e->draft, "BatchNormalization", inputs, 5);
    dpti_draft_float(norm, "epsilon", n->forward.u.batch_norm.epsilon);
    dpti_draft_float(norm, "momentum", 1.0f - e->model->parameters[n->mean].momentum);
    dpti_draft_value *y =
        dpti_export_activation(e, n->forward.u.batch_norm.activation, norm->output);
    if (image)
        hold_image(e, node, 2, y);
    else
        hold_vector(e, node, y);
    return DPT_OK;
}

/* A layer-norm over the last n_axes axes of x, which has `rank` axes with the batch. */
typedef struct row_norm {
    dpti_draft_value *x, *weight, *bias;
    size_t rank, n_axes;
    float epsilon;
} row_norm;

static dpti_draft_value *normalise(dpti_exporter *e, const row_norm *norm)
{
    dpti_draft *d = e->draft;
    if (d->opset >= OPSET_LAYER_NORM) {
        dpti_draft_value *const inputs[] = {norm->x, norm->weight, norm->bias};
        dpti_draft_node *node = dpti_draft_call(d, "LayerNormalization", inputs, 3);
        dpti_draft_int(node, "axis", -(int64_t)norm->n_axes);
        dpti_draft_float(node, "epsilon", norm->epsilon);
        return node->output;
    }
    dpti_draft_integers axes = {.n = norm->n_axes};
    for (size_t i = 0; i < axes.n; i++)
        axes.items[i] = (int64_t)(norm->rank - axes.n + i);
    dpti_draft_value *x =
        dpti_draft_binary(d, "Sub", norm->x, dpti_export_reduce(e, "ReduceMean", norm->x, &axes));
    dpti_draft_value *v =
        dpti_export_reduce(e, "ReduceMean", dpti_draft_binary(d, "Mul", x, x), &axes);
    v = dpti_draft_binary(d, "Add", v, dpti_draft_number(d, norm->epsilon));
    x = dpti_draft_binary(d, "Div", x, dpti_draft_unary(d, "Sqrt", v));
    return dpti_draft_binary(d, "Add", dpti_draft_binary(d, "Mul", x, norm->weight), norm->bias);
}

/* How many of the last axes have so many elements; 0 if none have. */
static size_t count_axes(const dpti_shape *s, size_t channels)
{
    size_t n = 1;
    for (size_t i = s->rank; i-- > 0;) {
        n *= s->extent[i];
        if (n == channels) return s->rank - i;
    }
    return 0;
}

dpt_status dpti_export_layer_norm(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_layer_norm_desc *d = &n->forward.u.layer_norm;
    row_norm norm = {.weight = dpti_export_parameter(e, n->weight),
                     .bias = dpti_export_parameter(e, n->bias),
                     .n_axes = 1,
                     .epsilon = d->epsilon};
    dpti_shape shape = dpti_export_shape(e, node);
    if (is_flattened(e, node)) {
        norm.rank = 2;
        norm.x = vector_of(e, node);
        hold_vector(e, node, normalise(e, &norm));
        return DPT_OK;
    }
    if (!n->extent.flat) { /* of an image: the channels come last */
        const dpti_shape image = shape;
        for (size_t i = 0; i < 3; i++) {
            shape.extent[i] = image.extent[(i + 1) % 3];
            shape.stride[i] = image.stride[(i + 1) % 3];
        }
    }
    norm.rank = shape.rank + 1;
    norm.n_axes = e->model->parameters[n->weight].rank;
    if (n->extent.flat && count_axes(&shape, d->channels) != norm.n_axes) {
        norm.n_axes = count_axes(&shape, d->channels);
        if (norm.n_axes == 0 || e->model->parameters[n->weight].rank > norm.n_axes)
            return dpti_export_refuse(e, node, "its axes cannot be written yet");
    }
    norm.x = dpti_export_take(e, n->inputs[0], (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
    dpti_export_hold(e, node, normalise(e, &norm), &shape);
    return DPT_OK;
}

/* ---- Softmax, products, embeddings ----------------------------------------------------------- */

dpt_status dpti_export_softmax(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_shape shape = dpti_export_shape(e, node);
    dpti_draft_value *x =
        dpti_export_take(e, n->inputs[0], (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
    dpti_draft_node *softmax =
        dpti_draft_call(e->draft, n->forward.u.row_softmax.log ? "LogSoftmax" : "Softmax", &x, 1);
    dpti_draft_int(softmax, "axis", -1);
    dpti_export_hold(e, node, softmax->output, &shape);
    return DPT_OK;
}

/* Matrices as a view: the axes of the batch that have more than one of them, then rows and
   columns.  An axis that is repeated has the extent 1. */
static dpti_shape matrices(const dpt_matmul_desc *d, const dpt_matmul_operand *o,
                           const size_t extents[2])
{
    dpti_shape s = {.offset = o->offset};
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++) {
        if (d->batch[i] == 1) continue;
        s.extent[s.rank] = o->batch_stride[i] > 0 ? d->batch[i] : 1;
        s.stride[s.rank++] = (int32_t)o->batch_stride[i];
    }
    s.extent[s.rank] = extents[0];
    s.stride[s.rank++] = (int32_t)o->row_stride;
    s.extent[s.rank] = extents[1];
    s.stride[s.rank++] = (int32_t)o->column_stride;
    return s;
}

dpt_status dpti_export_product(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_matmul_desc *d = &n->forward.u.matmul;
    const dpti_shape a = matrices(d, &d->a, (size_t[]){d->rows, d->inner}),
                     b = matrices(d, &d->b, (size_t[]){d->inner, d->columns}),
                     y = matrices(d, &d->y, (size_t[]){d->rows, d->columns});
    dpti_draft_value *x =
        dpti_export_take(e, n->inputs[0], (dpti_export_want){&a, DPTI_ONNX_FLOAT});
    dpti_draft_value *z =
        dpti_export_take(e, n->inputs[1], (dpti_export_want){&b, DPTI_ONNX_FLOAT});
    z = dpti_draft_binary(e->draft, "MatMul", x, z);
    if (d->alpha != 1.0f)
        z = dpti_draft_binary(e->draft, "Mul", z, dpti_draft_number(e->draft, d->alpha));
    dpti_export_hold(e, node, z, &y);
    return DPT_OK;
}

dpt_status dpti_export_embedding(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_parameter *table = &e->model->parameters[n->weight];
    const dpti_shape ids = dpti_export_shape(e, n->inputs[0]);
    const dpti_exported *found = dpti_export_reach(e, n->inputs[0], &ids);
    if (!found || ids.rank + table->rank - 1 > DPT_MAX_RANK)
        return dpti_export_refuse(e, node, "its ids have too many axes");
    /* Ids that the network computes are numbers; Gather wants integers. */
    dpti_draft_value *at = found->value;
    if (at->type != DPTI_ONNX_INT32) at = dpti_export_cast(e, at, DPTI_ONNX_INT64);
    dpti_draft_value *const inputs[] = {dpti_export_parameter(e, n->weight), at};
    dpti_extents extents = dpti_shape_extents(&ids);
    for (size_t i = 1; i < table->rank; i++)
        extents.extent[extents.rank++] = table->shape[i];
    const dpti_shape shape = dpti_shape_dense(&extents);
    dpti_export_hold(e, node, dpti_draft_call(e->draft, "Gather", inputs, 2)->output, &shape);
    return DPT_OK;
}
