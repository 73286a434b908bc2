/* Layers over parameters that exist already. */
#include "graph/given.h"

static dpti_node node_with(dpti_node_kind kind, dpt_value x, const dpti_given *given)
{
    dpti_node node = dpti_node_over(kind, NULL, x);
    node.weight = given->weight;
    node.bias = given->bias;
    return node;
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* Adds a value that is the same for all samples, with these extents, to the inputs of a
   convolution.  Returns false after a failure. */
static bool add_value(dpt_model *model, dpti_node *node, dpt_value x, const dpti_extents *wanted)
{
    if (!dpti_make_plain(model, &x, "filters")) return false;
    const dpti_extents e = dpti_extents_of(model, x);
    bool fits = e.rank == wanted->rank;
    for (size_t i = 0; fits && i < e.rank; i++)
        fits = e.extent[i] == wanted->extent[i];
    if (!dpti_node_at(model, x)->unsampled)
        (void)DPTI_MODEL_FAIL(model, DPT_E_UNSUPPORTED,
                              "layer conv2d-%zu: its filters or its bias differ between samples; "
                              "they must be the same for all samples",
                              model->n_nodes);
    else if (!fits)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer conv2d-%zu: its filters or its bias have another shape than "
                              "its kernel and channels ask for",
                              model->n_nodes);
    if (model->status != DPT_OK) return false;
    if (e.rank == 4) /* to the order in which a convolution reads filters */
        x = dpti_transpose(model, x, (const size_t[DPT_MAX_RANK]){0, 2, 3, 1});
    x = dpti_row_major(model, x);
    if (x.id) node->inputs[node->n_inputs++] = x.id - 1;
    return x.id != 0;
}

/* Adds the filters and the bias to the inputs of a convolution, if they are values.  Returns false
   after a failure. */
static bool add_values(dpt_model *model, dpti_node *node, const dpti_given *given)
{
    const dpt_conv2d_desc d = node->forward.u.conv2d;
    if (!given->filters.id) return true;
    if (!dpti_describes(model, "conv2d", &node->forward)) return false;
    const dpti_extents filters = {
        .rank = 4, .extent = {d.out_channels, d.in_channels / d.groups, d.kernel_h, d.kernel_w}};
    const dpti_extents shift = {.rank = 1, .extent = {d.out_channels}};
    return add_value(model, node, given->filters, &filters) &&
           (!given->shift.id || add_value(model, node, given->shift, &shift));
}

dpt_value dpti_given_conv2d(dpt_model *model, dpt_value x, const dpti_convolution *of)
{
    if (!dpti_usable(model, x, "conv2d")) return (dpt_value){0};
    dpti_node node = node_with(DPTI_NODE_CONV2D, x, of->given);
    const dpti_extent in = dpti_each_image(dpti_node_at(model, x)->extent, of->images);
    node.forward = (dpt_op_desc){.kind = DPT_OP_CONV2D_FORWARD,
                                 .u.conv2d = dpti_describe_conv2d(in, of->options)};
    const dpt_conv2d_desc *d = &node.forward.u.conv2d;
    if (d->out_h == 0 || d->out_w == 0)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer conv2d-%zu: its %zux%zu kernel does not fit the %zux%zu input", model->n_nodes,
            d->kernel_h, d->kernel_w, d->in_h, d->in_w);
    dpti_set_images(&node, (dpti_extent){.h = d->out_h, .w = d->out_w, .c = d->out_channels},
                    of->images);
    if (!add_values(model, &node, of->given)) return (dpt_value){0};
    return dpti_add_unnamed(model, "conv2d", node);
}

dpt_value dpti_given_conv2d_transpose(dpt_model *model, dpt_value x, const dpti_given *given,
                                      const dpti_transposed *options)
{
    if (!dpti_usable(model, x, "conv2d_transpose")) return (dpt_value){0};
    const dpti_extent in = dpti_each_image(dpti_node_at(model, x)->extent, options->images),
                      out = options->out;
    dpti_node node = node_with(DPTI_NODE_CONV2D_TRANSPOSE, x, given);
    dpt_conv2d_options convolution = options->convolution;
    convolution.out_channels = in.c;
    convolution.no_bias = true;
    node.forward = (dpt_op_desc){.kind = DPT_OP_CONV2D_BACKWARD_DATA,
                                 .u.conv2d = dpti_describe_conv2d(out, &convolution)};
    const dpt_conv2d_desc *d = &node.forward.u.conv2d;
    if (in.flat || d->out_h != in.h || d->out_w != in.w)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer conv2d_transpose-%zu: a convolution of the %zux%zu output "
                               "does not give the %zux%zu input",
                               model->n_nodes, out.h, out.w, in.h, in.w);
    dpti_set_images(&node, out, options->images);
    if (!add_values(model, &node, given)) return (dpt_value){0};
    return dpti_add_unnamed(model, "conv2d_transpose", node);
}

/* ---- Linear layers and norms ----------------------------------------------------------------- */

/* The count of all axes of x but the last `n_axes`. */
static size_t count_rows(const dpti_extents *e, size_t n_axes)
{
    size_t rows = 1;
    for (size_t i = 0; i + n_axes < e->rank; i++)
        rows *= e->extent[i];
    return rows;
}

dpt_value dpti_given_linear(dpt_model *model, dpt_value x, const dpti_given *given, size_t out)
{
    if (!dpti_usable(model, x, "linear")) return (dpt_value){0};
    x = dpti_for_each_sample(model, x);
    if (!x.id) return x;
    const dpti_extents before = dpti_extents_of(model, x);
    if (!dpti_node_at(model, x)->order_differs) x = dpti_row_major(model, x);
    if (!x.id) return x;
    const size_t rows = count_rows(&before, 1);
    dpti_extents extents = before;
    extents.extent[before.rank - 1] = out;
    dpti_node node = node_with(DPTI_NODE_LINEAR, x, given);
    const dpti_shape shape = dpti_shape_dense(&extents);
    dpti_set_shape(&node, &shape);
    node.repeat = rows > 1 ? rows : 0;
    node.forward = (dpt_op_desc){.kind = DPT_OP_LINEAR_FORWARD,
                                 .u.linear = {.in = before.extent[before.rank - 1],
                                              .out = out,
                                              .has_bias = given->bias != SIZE_MAX}};
    if (!given->name) return dpti_add_unnamed(model, "linear", node);
    node.name = (char *)(uintptr_t)given->name; /* dpti_add_node copies it */
    return dpti_describes(model, given->name, &node.forward) ? dpti_add_node(model, node)
                                                             : (dpt_value){0};
}

/* The scale and the shift of a batch-norm without parameters. */
static bool add_scale(dpt_model *model, dpti_node *norm)
{
    const size_t n = norm->extent.c;
    size_t zeros;
    float *ones = dpti_add_numbers(model, n, &norm->constant);
    for (size_t i = 0; ones && i < n; i++)
        ones[i] = 1.0f;
    return ones && dpti_add_numbers(model, n, &zeros);
}

dpt_value dpti_given_batch_norm(dpt_model *model, dpt_value x, const dpti_given *given,
                                float epsilon)
{
    if (!dpti_usable(model, x, "batch_norm")) return (dpt_value){0};
    if (dpti_node_at(model, x)->has_shape) x = dpti_row_major(model, x);
    if (!x.id) return x;
    dpti_node node = node_with(DPTI_NODE_BATCH_NORM, x, given);
    node.mean = given->mean;
    node.variance = given->variance;
    dpti_keep_shape(&node, dpti_node_at(model, x));
    if (given->weight == SIZE_MAX && !add_scale(model, &node)) return (dpt_value){0};
    node.forward = (dpt_op_desc){.kind = DPT_OP_BATCH_NORM_FORWARD,
                                 .u.batch_norm = {.area = node.extent.h * node.extent.w,
                                                  .channels = node.extent.c,
                                                  .n_parts = 1,
                                                  .epsilon = epsilon}};
    return dpti_add_unnamed(model, "batch_norm", node);
}

dpt_value dpti_given_layer_norm(dpt_model *model, dpt_value x, const dpti_given *given,
                                dpti_row_norm norm)
{
    x = dpti_row_major(model, dpti_for_each_sample(model, x));
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    dpti_node node = node_with(DPTI_NODE_LAYER_NORM, x, given);
    dpti_keep_shape(&node, dpti_node_at(model, x));
    const size_t rows = count_rows(&e, norm.n_axes);
    node.forward =
        (dpt_op_desc){.kind = DPT_OP_LAYER_NORM_FORWARD,
                      .u.layer_norm = {.rows = rows,
                                       .channels = dpti_node_at(model, x)->elements / rows,
                                       .epsilon = norm.epsilon}};
    return dpti_add_unnamed(model, "layer_norm", node);
}
