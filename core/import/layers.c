/* Operators with weights, and pooling. */
#include "import/state.h"

#include <float.h>
#include <string.h>

/* ---- Windows --------------------------------------------------------------------------------- */

enum { PLANE = 2 };

/* A window over the two axes of an image; a value with one axis is an image of one row. */
typedef struct window {
    size_t kernel[PLANE], stride[PLANE], dilation[PLANE], before[PLANE], after[PLANE];
    size_t n_axes;
} window;

static void read_pair(const dpti_importer *im, const char *name, const window *w, size_t out[PLANE])
{
    size_t n;
    const int64_t *items = dpti_onnx_ints(im->node, name, &n);
    for (size_t i = 0; i < PLANE; i++)
        out[i] =
            items && i + n >= PLANE && i + w->n_axes >= PLANE ? (size_t)items[i + n - PLANE] : 1;
}

/* SAME pads so that the output has an element for every stride. */
static void pad_same(window *w, const dpti_extents *e, bool upper)
{
    for (size_t i = PLANE - w->n_axes; i < PLANE; i++) {
        const size_t in = e->extent[e->rank - PLANE + i],
                     out = (in + w->stride[i] - 1) / w->stride[i];
        const size_t span = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        const size_t all = span > in ? span - in : 0, half = all / 2;
        w->before[i] = upper ? half : all - half;
        w->after[i] = all - w->before[i];
    }
}

static dpt_status read_window(const dpti_importer *im, const dpti_extents *e, window *w)
{
    size_t n;
    w->n_axes = e->rank - 2;
    if (e->rank != 3 && e->rank != 4)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only windows over one or two axes can be trained yet");
    read_pair(im, "kernel_shape", w, w->kernel);
    read_pair(im, "strides", w, w->stride);
    read_pair(im, "dilations", w, w->dilation);
    const int64_t *pads = dpti_onnx_ints(im->node, "pads", &n);
    for (size_t i = 0; pads && i < n / 2 && i < PLANE; i++) {
        const size_t axis = PLANE - n / 2 + i;
        if (pads[i] < 0 || pads[n / 2 + i] < 0)
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a negative padding");
        w->before[axis] = (size_t)pads[i];
        w->after[axis] = (size_t)pads[n / 2 + i];
    }
    const char *automatic = dpti_onnx_string(im->node, "auto_pad", "NOTSET");
    if (strncmp(automatic, "SAME", 4) == 0) pad_same(w, e, strcmp(automatic, "SAME_UPPER") == 0);
    return DPT_OK;
}

/* x as an image of one sample.  Padding that differs between two sides is put around it here. */
static dpt_status make_image(dpti_importer *im, window *w, float fill, dpt_value *x)
{
    const dpti_extents e = dpti_extents_of(im->model, *x);
    if (e.extent[0] != 1)
        return dpti_import_refuse(
            im, DPT_E_UNSUPPORTED,
            "a sample has %zu images for this window; only one can be trained "
            "yet",
            e.extent[0]);
    const dpti_extents image = {
        .rank = 3, .extent = {e.extent[1], e.rank == 4 ? e.extent[2] : 1, e.extent[e.rank - 1]}};
    *x = dpti_reshape(im->model, *x, &image);
    if (w->before[0] != w->after[0] || w->before[1] != w->after[1]) {
        *x = dpti_pad(im->model, *x,
                      &(dpti_padding){.before = {0, w->before[0], w->before[1]},
                                      .after = {0, w->after[0], w->after[1]},
                                      .fill = fill});
        memset(w->before, 0, sizeof w->before);
        memset(w->after, 0, sizeof w->after);
    }
    *x = dpti_as_image(im->model, *x);
    return dpti_import_check(im);
}

/* An image as the node's output. */
static dpt_status give_image(dpti_importer *im, dpt_value y)
{
    DPT_TRY(dpti_import_check(im));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* Whether input i is left out, or is zeros that the exporter has computed. */
static bool is_nothing(const dpti_importer *im, size_t i)
{
    if (!dpti_import_has(im, i)) return true;
    const dpti_onnx_fact *fact = dpti_import_fact(im, i);
    bool zeros = fact->cells && !fact->parameter;
    for (size_t k = 0; zeros && k < fact->n_cells; k++)
        zeros = fact->cells[k].real == 0;
    return zeros;
}

static dpt_status import_bias(dpti_importer *im, size_t i, size_t fan_in, dpti_given *given)
{
    given->bias = SIZE_MAX;
    if (is_nothing(im, i)) return DPT_OK;
    return dpti_import_parameter(im, i, (dpti_parameter){.role = DPTI_ROLE_BIAS, .fan_in = fan_in},
                                 &given->bias);
}

static dpt_status import_conv(dpti_importer *im)
{
    window w = {.n_axes = 0};
    dpt_value x;
    dpti_given given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    DPT_TRY(read_window(im, &e, &w));
    const dpti_extents filter = dpti_import_extents(dpti_import_fact(im, 1));
    for (size_t i = 0; i < PLANE; i++)
        w.kernel[i] = i + w.n_axes >= PLANE ? filter.extent[filter.rank - PLANE + i] : 1;
    const size_t fan = filter.extent[1] * w.kernel[0] * w.kernel[1];
    DPT_TRY(make_image(im, &w, 0, &x));
    DPT_TRY(dpti_import_parameter(
        im, 1,
        (dpti_parameter){.layout = DPTI_LAYOUT_CONV,
                         .fan_in = fan,
                         .fan_out = filter.extent[0] * w.kernel[0] * w.kernel[1],
                         .h = w.kernel[0],
                         .w = w.kernel[1],
                         .c = filter.extent[1]},
        &given.weight));
    /* The filters and the bias of one operator are shared or not, both of them. */
    if (im->model->parameters[given.weight].role != DPTI_ROLE_WEIGHT && !is_nothing(im, 2))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "filters that several layers share cannot have a bias yet");
    DPT_TRY(import_bias(im, 2, fan, &given));
    const dpt_conv2d_options options = {
        .out_channels = filter.extent[0],
        .kernel = {w.kernel[0], w.kernel[1]},
        .stride = {w.stride[0], w.stride[1]},
        .padding = {w.before[0], w.before[1]},
        .dilation = {w.dilation[0], w.dilation[1]},
        .groups = (size_t)dpti_onnx_int(im->node, "group", 1),
        .no_bias = given.bias == SIZE_MAX,
    };
    return give_image(im, dpti_given_conv2d(im->model, x, &given, &options));
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Rows and columns that only a window of ceil mode reaches. */
static void pad_to_ceiling(const dpti_importer *im, const dpti_extents *e, window *w)
{
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    for (size_t i = PLANE - w->n_axes; i < PLANE; i++) {
        const size_t in = e->extent[e->rank - PLANE + i], out = to.extent[to.rank - PLANE + i];
        const size_t span = (out - 1) * w->stride[i] + w->kernel[i];
        const size_t padded = in + w->before[i] + w->after[i];
        if (span > padded) w->after[i] += span - padded;
    }
}

static dpt_status import_pool(dpti_importer *im)
{
    const bool most = strcmp(im->node->op, "MaxPool") == 0;
    window w = {.n_axes = 0};
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    DPT_TRY(read_window(im, &e, &w));
    const size_t padding = w.before[0] + w.before[1] + w.after[0] + w.after[1];
    pad_to_ceiling(im, &e, &w);
    const bool grows = w.before[0] + w.before[1] + w.after[0] + w.after[1] != padding;
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a dilated pooling cannot be trained yet");
    if (!most && (grows || (padding && !dpti_onnx_int(im->node, "count_include_pad", 0))))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "an average that leaves the padding out cannot be trained yet; "
                                  "use count_include_pad, or no padding");
    DPT_TRY(make_image(im, &w, -FLT_MAX, &x));
    const dpt_pool2d_options options = {.kind = most ? DPT_POOL_MAX : DPT_POOL_AVERAGE,
                                        .kernel = {w.kernel[0], w.kernel[1]},
                                        .stride = {w.stride[0], w.stride[1]},
                                        .padding = {w.before[0], w.before[1]}};
    return give_image(im, dpt_pool2d(im->model, x, &options));
}

static dpt_status import_global_pool(dpti_importer *im)
{
    window w = {.n_axes = 0};
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank != 3 && e.rank != 4)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "only one or two axes can be pooled yet");
    const size_t h = e.rank == 4 ? e.extent[2] : 1, width = e.extent[e.rank - 1];
    DPT_TRY(make_image(im, &w, 0, &x));
    const bool most = strcmp(im->node->op, "GlobalMaxPool") == 0;
    return give_image(
        im, dpt_pool2d(im->model, x,
                       &(dpt_pool2d_options){.kind = most ? DPT_POOL_MAX : DPT_POOL_AVERAGE,
                                             .kernel = {h, width}}));
}

/* ---- Linear layers --------------------------------------------------------------------------- */

/* The weight of a linear layer: (out, in) in the file, or (in, out).  Behind a flattened image only
   the first is taken as it is. */
static dpt_status import_weight(dpti_importer *im, bool transposed, const dpti_extent *image,
                                size_t *out)
{
    const dpti_extents e = dpti_import_extents(dpti_import_fact(im, 1));
    const size_t rows = e.extent[transposed ? 1 : 0], columns = e.extent[transposed ? 0 : 1];
    dpti_parameter like = {.layout = DPTI_LAYOUT_LINEAR,
                           .fan_in = columns,
                           .fan_out = rows,
                           .h = 1,
                           .w = 1,
                           .c = columns};
    if (image) {
        like.h = image->h;
        like.w = image->w;
        like.c = image->c;
    }
    if (transposed) {
        like.h = rows;
        like.c = columns;
    }
    return dpti_import_parameter(im, 1, like, out);
}

/* Whether input i is a vector of n numbers of the file. */
static bool is_vector(const dpti_importer *im, size_t i, size_t n)
{
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    return tensor && tensor->rank == 1 && tensor->n == n;
}

static dpt_status linear(dpti_importer *im, bool transposed, bool has_bias)
{
    dpt_value x;
    dpti_given given = {.bias = SIZE_MAX};
    dpti_imported *at = &im->values[im->node->inputs[0]];
    const bool image = at->flat.id && !at->value.id && !transposed;
    if (image)
        x = at->flat;
    else
        DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extent extent = dpti_node_at(im->model, x)->before_flatten;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(import_weight(im, transposed, image ? &extent : NULL, &given.weight));
    const dpti_parameter *weight = &im->model->parameters[given.weight];
    /* Another bias, and that of a weight that several layers share, is added by a layer of its own.
     */
    if (has_bias && weight->role == DPTI_ROLE_WEIGHT && is_vector(im, 2, weight->fan_out))
        DPT_TRY(import_bias(im, 2, weight->fan_in, &given));
    dpt_value y = dpti_given_linear(im->model, x, &given, to.extent[to.rank - 1]);
    DPT_TRY(dpti_import_check(im));
    if (dpti_extents_of(im->model, y).rank != to.rank) y = dpti_reshape(im->model, y, &to);
    if (has_bias && given.bias == SIZE_MAX) {
        dpt_value bias;
        DPT_TRY(dpti_import_input(im, 2, &bias));
        y = dpti_formula(im->model, "a + b", (dpt_value[]){y, bias}, 2);
    }
    dpti_import_give(im, 0, y);
    return DPT_OK;
}

static bool is_weight(const dpti_importer *im, size_t i)
{
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    return tensor && tensor->rank == 2 && dpti_onnx_type_is_real(tensor->type);
}

static dpt_status import_gemm(dpti_importer *im)
{
    const bool plain = dpti_onnx_float(im->node, "alpha", 1) == 1.0f &&
                       dpti_onnx_float(im->node, "beta", 1) == 1.0f &&
                       dpti_onnx_int(im->node, "transA", 0) == 0;
    if (!plain || !is_weight(im, 1))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only x * W + b with alpha = beta = 1 and W of the file can be "
                                  "trained yet");
    return linear(im, dpti_onnx_int(im->node, "transB", 0) == 0, !is_nothing(im, 2));
}

/* A product with the transpose of a weight of the file. */
static dpt_status multiply_by_transposed(dpti_importer *im, size_t weight)
{
    const dpti_onnx_node *node = im->node;
    const size_t inputs[] = {node->inputs[0], weight};
    dpti_onnx_node product = *node;
    product.inputs = inputs;
    im->node = &product;
    const dpt_status status = linear(im, false, false);
    im->node = node;
    return status;
}

static dpt_status import_matmul(dpti_importer *im)
{
    const size_t weight = dpti_import_transposed(im, 1);
    if (weight != DPTI_ONNX_NONE) return multiply_by_transposed(im, weight);
    return is_weight(im, 1) ? linear(im, true, false) : dpti_import_product(im);
}

/* ---- Norms ----------------------------------------------------------------------------------- */

/* Whether input i is n numbers of the file. */
static bool has_numbers(const dpti_importer *im, size_t i, size_t n)
{
    if (!dpti_import_has(im, i)) return false;
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    return tensor && tensor->n == n;
}

static dpt_status norm_parameter(dpti_importer *im, size_t i, dpti_role role, size_t *out)
{
    /* ONNX keeps this part of the old statistics, where PyTorch names the part of the new ones. */
    const float kept = dpti_onnx_float(im->node, "momentum", 0.9f);
    return dpti_import_parameter(
        im, i, (dpti_parameter){.role = role, .fan_in = 1, .momentum = 1.0f - kept}, out);
}

static dpt_status import_batch_norm(dpti_importer *im)
{
    dpt_value x;
    dpti_given given;
    window w = {.n_axes = 0};
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank < 2 || e.rank > 4)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a batch-norm over %zu axes", e.rank);
    for (size_t i = 1; i < 5; i++)
        if (!has_numbers(im, i, e.extent[1]))
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                      "input %zu must be %zu numbers of the file", i, e.extent[1]);
    DPT_TRY(norm_parameter(im, 1, DPTI_ROLE_NORM_WEIGHT, &given.weight));
    DPT_TRY(norm_parameter(im, 2, DPTI_ROLE_NORM_BIAS, &given.bias));
    DPT_TRY(norm_parameter(im, 3, DPTI_ROLE_RUNNING_MEAN, &given.mean));
    DPT_TRY(norm_parameter(im, 4, DPTI_ROLE_RUNNING_VARIANCE, &given.variance));
    if (e.rank > 2)
        DPT_TRY(make_image(im, &w, 0, &x));
    else
        x = dpti_as_flat(im->model, x);
    return give_image(im, dpti_given_batch_norm(im->model, x, &given,
                                                dpti_onnx_float(im->node, "epsilon", 1e-5f)));
}

static dpt_status import_layer_norm(dpti_importer *im)
{
    dpt_value x;
    dpti_given given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), e.rank);
    size_t channels = 1;
    for (size_t i = axis; i < e.rank; i++)
        channels *= e.extent[i];
    if (!has_numbers(im, 1, channels) || !has_numbers(im, 2, channels))
        return dpti_import_refuse(
            im, DPT_E_UNSUPPORTED,
            "only a layer-norm with a scale and a bias of %zu numbers each can "
            "be trained yet",
            channels);
    DPT_TRY(norm_parameter(im, 1, DPTI_ROLE_NORM_WEIGHT, &given.weight));
    DPT_TRY(norm_parameter(im, 2, DPTI_ROLE_NORM_BIAS, &given.bias));
    dpti_import_give(im, 0,
                     dpti_given_layer_norm(
                         im->model, x, &given,
                         (dpti_row_norm){.n_axes = e.rank - axis,
                                         .epsilon = dpti_onnx_float(im->node, "epsilon", 1e-5f)}));
    return DPT_OK;
}

const dpti_import_operator dpti_import_layers[] = {
    {"AveragePool", import_pool},
    {"BatchNormalization", import_batch_norm},
    {"Conv", import_conv},
    {"Gemm", import_gemm},
    {"GlobalAveragePool", import_global_pool},
    {"GlobalMaxPool", import_global_pool},
    {"LayerNormalization", import_layer_norm},
    {"MatMul", import_matmul},
    {"MaxPool", import_pool},
    {NULL, NULL},
};
