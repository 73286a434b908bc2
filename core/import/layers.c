/* Linear layers and norms. */
#include "graph/recurrent.h"
#include "import/window.h"

#include <stdio.h>
#include <string.h>

enum { FORMULA_BYTES = 96 };

/* Whether input i is left out, or is zeros that the exporter has computed. */
bool dpti_import_is_nothing(const dpti_importer *im, size_t i)
{
    if (!dpti_import_has(im, i)) return true;
    const dpti_onnx_fact *fact = dpti_import_fact(im, i);
    bool zeros = fact->cells && !fact->parameter;
    for (size_t k = 0; zeros && k < fact->n_cells; k++)
        zeros = fact->cells[k].real == 0;
    return zeros;
}

dpt_status dpti_import_bias(dpti_importer *im, size_t i, size_t fan_in, dpti_given *given)
{
    given->bias = SIZE_MAX;
    if (dpti_import_is_nothing(im, i) || dpti_import_is_shared(im, i) ||
        !im->graph->model->values[im->node->inputs[i]].tensor)
        return DPT_OK;
    return dpti_import_parameter(im, i, (dpti_parameter){.role = DPTI_ROLE_BIAS, .fan_in = fan_in},
                                 &given->bias);
}

/* ---- Linear layers --------------------------------------------------------------------------- */

/* Whether input i is a vector of n numbers of the file. */
static bool is_vector(const dpti_importer *im, size_t i, size_t n)
{
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    return tensor && tensor->rank == 1 && tensor->n == n;
}

/* The weight of a linear layer: (out, in) in the file, or (in, out).  Behind a flattened image only
   the first is taken as it is. */
static dpti_parameter weight_like(const dpti_importer *im, bool transposed,
                                  const dpti_extent *image)
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
    return like;
}

/* The product with a weight that another node has in another order: its value is a view. */
static dpt_status multiply_by_value(dpti_importer *im, dpt_value x, bool transposed, dpt_value *y)
{
    dpt_value w;
    DPT_TRY(dpti_import_input(im, 1, &w));
    if (transposed) w = dpti_transpose(im->model, w, (const size_t[DPT_MAX_RANK]){1, 0});
    *y = dpti_projection(im->model, x, &(dpti_linear_values){.w = w});
    return dpti_import_check(im);
}

/* Takes the bias of input 2 if that can be a part of the layer.  Another bias, and that of a weight
   that several layers share, is added by a layer of its own. */
static dpt_status take_bias(dpti_importer *im, bool has_bias, dpti_given *given)
{
    const dpti_parameter *weight = &im->model->parameters[given->weight];
    if (has_bias && weight->role == DPTI_ROLE_WEIGHT && is_vector(im, 2, weight->fan_out))
        DPT_TRY(dpti_import_bias(im, 2, weight->fan_in, given));
    return DPT_OK;
}

static dpt_status linear(dpti_importer *im, bool transposed, bool has_bias)
{
    dpt_value x, y;
    dpti_given given = {.bias = SIZE_MAX};
    dpti_imported *at = &im->values[im->node->inputs[0]];
    const bool image = at->flat.id && !at->value.id && !transposed;
    if (image)
        x = at->flat;
    else
        DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extent extent = dpti_node_at(im->model, x)->before_flatten;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const dpti_parameter like = weight_like(im, transposed, image ? &extent : NULL);
    if (dpti_import_differs(im, 1, &like)) {
        DPT_TRY(dpti_import_input(im, 0, &x));
        DPT_TRY(multiply_by_value(im, x, transposed, &y));
    } else {
        DPT_TRY(dpti_import_parameter(im, 1, like, &given.weight));
        DPT_TRY(take_bias(im, has_bias, &given));
        y = dpti_given_linear(im->model, x, &given, to.extent[to.rank - 1]);
        DPT_TRY(dpti_import_check(im));
    }
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
    return tensor && tensor->rank == 2 && dpti_onnx_type_is_real(tensor->type) &&
           !dpti_import_is_constant(tensor);
}

/* *x = x, or its transpose: the axes of one matrix. */
static void transpose_if(dpti_importer *im, const char *attribute, dpt_value *x)
{
    if (dpti_onnx_int(im->node, attribute, 0) == 0) return;
    *x = dpti_transpose(im->model, *x, (const size_t[DPT_MAX_RANK]){1, 0});
}

/* y = alpha * y + beta * input 2. */
static dpt_status add_scaled(dpti_importer *im, bool has_addend, dpt_value *y)
{
    const double alpha = (double)dpti_onnx_float(im->node, "alpha", 1),
                 beta = (double)dpti_onnx_float(im->node, "beta", 1);
    char text[FORMULA_BYTES];
    dpt_value values[2] = {*y};
    if (has_addend) {
        DPT_TRY(dpti_import_input(im, 2, &values[1]));
        snprintf(text, sizeof text, "%.9g * a + %.9g * b", alpha, beta);
    } else {
        snprintf(text, sizeof text, "%.9g * a", alpha);
    }
    if (has_addend || alpha != 1) *y = dpti_formula(im->model, text, values, has_addend ? 2 : 1);
    return dpti_import_check(im);
}

static dpt_status import_gemm(dpti_importer *im)
{
    const float alpha = dpti_onnx_float(im->node, "alpha", 1),
                beta = dpti_onnx_float(im->node, "beta", 1);
    const bool has_addend = beta != 0 && !dpti_import_is_nothing(im, 2);
    const bool turned = dpti_onnx_int(im->node, "transA", 0) != 0;
    const bool by_weight = is_weight(im, 1) && !turned;
    dpt_value y, b;
    if (by_weight && alpha == 1 && beta == 1)
        return linear(im, dpti_onnx_int(im->node, "transB", 0) == 0, has_addend);
    if (by_weight) {
        DPT_TRY(linear(im, dpti_onnx_int(im->node, "transB", 0) == 0, false));
        y = im->values[im->node->outputs[0]].value;
    } else {
        DPT_TRY(dpti_import_input(im, 0, &y));
        DPT_TRY(dpti_import_input(im, 1, &b));
        transpose_if(im, "transA", &y);
        transpose_if(im, "transB", &b);
        const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
        y = dpti_reshape(im->model, dpti_import_multiply(im, y, b), &to);
        DPT_TRY(dpti_import_check(im));
    }
    DPT_TRY(add_scaled(im, has_addend, &y));
    dpti_import_give(im, 0, y);
    return DPT_OK;
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

/* Batch-norm of a sample that is several rows, as of tokens: the rows are the pixels of an image.
 */
static dpt_status norm_rows(dpti_importer *im, dpt_value x, const dpti_given *given, float epsilon)
{
    static const size_t turned[DPT_MAX_RANK] = {1, 0};
    const dpti_extents e = dpti_extents_of(im->model, x);
    const dpti_extents image = {.rank = 3, .extent = {e.extent[1], e.extent[0], 1}};
    const dpti_extents rows = {.rank = 2, .extent = {e.extent[1], e.extent[0]}};
    x = dpti_reshape(im->model, dpti_transpose(im->model, x, turned), &image);
    x = dpti_given_batch_norm(im->model, dpti_as_image(im->model, x), given, epsilon);
    dpti_import_give(im, 0, dpti_transpose(im->model, dpti_reshape(im->model, x, &rows), turned));
    return dpti_import_check(im);
}

/* Whether input i is the scale or the shift of this batch-norm alone. */
static bool is_own(const dpti_importer *im, size_t i, size_t n)
{
    if (!has_numbers(im, i, n) || dpti_import_is_shared(im, i)) return false;
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    return tensor->is_buffer || tensor->is_folded || dpti_import_trains(im, i);
}

/* The parameters of a batch-norm.  A scale and a shift that are constant, computed, or those of
   several nodes are none: scale_apart applies them. */
static dpt_status norm_parameters(dpti_importer *im, size_t channels, dpti_given *out)
{
    *out = (dpti_given){.weight = SIZE_MAX, .bias = SIZE_MAX};
    for (size_t i = 3; i < 5; i++)
        if (!has_numbers(im, i, channels))
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                      "input %zu must be %zu numbers of the file", i, channels);
    if (is_own(im, 1, channels) && is_own(im, 2, channels)) {
        DPT_TRY(norm_parameter(im, 1, DPTI_ROLE_NORM_WEIGHT, &out->weight));
        DPT_TRY(norm_parameter(im, 2, DPTI_ROLE_NORM_BIAS, &out->bias));
    }
    DPT_TRY(norm_parameter(im, 3, DPTI_ROLE_RUNNING_MEAN, &out->mean));
    return norm_parameter(im, 4, DPTI_ROLE_RUNNING_VARIANCE, &out->variance);
}

/* Whether input i is constant, and this number everywhere. */
static bool is_filled(const dpti_importer *im, size_t i, float with)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, i);
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[i]].tensor;
    if (tensor && (dpti_import_trains(im, i) || tensor->type != DPTI_ONNX_FLOAT)) return false;
    if (!tensor && !fact->cells) return false;
    for (size_t k = 0; k < (tensor ? tensor->n : fact->n_cells); k++) {
        float number = fact->cells ? (float)fact->cells[k].real : 0;
        if (tensor) memcpy(&number, (const char *)tensor->data + k * sizeof number, sizeof number);
        if (number != with) return false;
    }
    return true;
}

/* Multiplies the result by the scale and adds the shift, if the batch-norm has no parameters. */
static dpt_status scale_apart(dpti_importer *im, const dpti_given *given, size_t channels)
{
    static const char *const formulas[] = {"a * b", "a + b"};
    if (given->weight != SIZE_MAX) return DPT_OK;
    dpt_value y = im->values[im->node->outputs[0]].value, by;
    dpti_extents e = {.rank = dpti_extents_of(im->model, y).rank};
    for (size_t i = 0; i < e.rank; i++)
        e.extent[i] = i == 1 ? channels : 1;
    for (size_t i = 0; i < 2; i++) {
        if (is_filled(im, i + 1, i == 0 ? 1.0f : 0.0f)) continue;
        DPT_TRY(dpti_import_input(im, i + 1, &by));
        y = dpti_formula(im->model, formulas[i], (dpt_value[]){y, dpti_reshape(im->model, by, &e)},
                         2);
        DPT_TRY(dpti_import_check(im));
    }
    dpti_import_give(im, 0, y);
    return DPT_OK;
}

static dpt_status import_batch_norm(dpti_importer *im)
{
    dpt_value x;
    dpti_given given;
    dpti_window w = {.n_axes = 0};
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank == 5) { /* the planes below one another */
        const dpti_extents image = {
            .rank = 4,
            .extent = {e.extent[0], e.extent[1], e.extent[2] * e.extent[3], e.extent[4]}};
        x = dpti_reshape(im->model, x, &image);
        DPT_TRY(dpti_import_check(im));
        e = image;
    }
    if (e.rank < 2 || e.rank > 4)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a batch-norm over %zu axes", e.rank);
    if (!has_numbers(im, 3, e.extent[1]) && !has_numbers(im, 4, e.extent[1]))
        return dpti_import_norm_by_values(im, x);
    DPT_TRY(norm_parameters(im, e.extent[1], &given));
    const float epsilon = dpti_onnx_float(im->node, "epsilon", 1e-5f);
    if (e.rank == 2 && e.extent[0] > 1) {
        DPT_TRY(norm_rows(im, x, &given, epsilon));
    } else if (e.rank > 2) {
        DPT_TRY(dpti_import_image(im, &w, 0, &x));
        x = dpti_given_batch_norm(im->model, x, &given, epsilon);
        DPT_TRY(dpti_import_give_image(im, x));
    } else {
        x = dpti_as_flat(im->model, dpti_for_each_sample(im->model, x));
        x = dpti_given_batch_norm(im->model, x, &given, epsilon);
        DPT_TRY(dpti_import_give_elements(im, x));
    }
    return scale_apart(im, &given, e.extent[1]);
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
    if (!has_numbers(im, 1, channels) || !has_numbers(im, 2, channels) ||
        dpti_import_is_shared(im, 1) || dpti_import_is_shared(im, 2) || im->node->n_outputs > 1)
        return dpti_import_norm_apart(im);
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
    {"BatchNormalization", import_batch_norm},
    {"Gemm", import_gemm},
    {"LayerNormalization", import_layer_norm},
    {"MatMul", import_matmul},
    {NULL, NULL},
};
