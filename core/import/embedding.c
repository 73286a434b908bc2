/* Inputs of integers, and tables that they index. */
#include "base/size.h"
#include "import/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dpt_status dpti_import_ids(dpti_importer *im, size_t value, const dpti_extents *extents)
{
    const dpti_onnx_model *m = im->graph->model;
    size_t count = 1;
    for (size_t i = 0; i < extents->rank; i++)
        if (!dpti_multiply(count, extents->extent[i], &count)) count = SIZE_MAX;
    const dpti_shape dense = dpti_shape_dense(extents);
    const dpt_value ids = dpt_input_ids(im->model, count);
    im->values[value].value = dpti_view(im->model, ids, &dense);
    if (im->model->status == DPT_OK) return DPT_OK;
    return DPT_FAIL(im->error, im->model->status, "%s: %s", m->path, im->model->error.message);
}

/* Whether constant indices are first, first + 1, ..., which a slice gives. */
static bool is_run(const dpti_onnx_fact *indices)
{
    for (size_t i = 0; i < indices->n_cells; i++)
        if (indices->cells[i].fixed != indices->cells[0].fixed + (int64_t)i) return false;
    return true;
}

/* Rows of a parameter by a run of constant indices. */
static dpt_status take_run(dpti_importer *im)
{
    const dpti_onnx_fact *indices = dpti_import_fact(im, 1);
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rows = dpti_extents_of(im->model, x).extent[0];
    x = dpti_slice(im->model, x,
                   (dpti_cut){.begin = dpti_import_axis(indices->cells[0].fixed, rows),
                              .count = indices->n_cells,
                              .step = 1});
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

/* Whether the first input is a parameter, whose first axis is gathered.  Numbers of the code are
   none (state.c). */
static bool takes_rows(const dpti_importer *im)
{
    const dpti_onnx_tensor *tensor = im->graph->model->values[im->node->inputs[0]].tensor;
    return tensor && tensor->rank >= 2 && tensor->rank <= 4 && tensor->n > 0 &&
           dpti_onnx_type_is_real(tensor->type) && strncmp(tensor->name, "val_", 4) != 0 &&
           dpti_onnx_int(im->node, "axis", 0) == 0;
}

/* Any constant indices. */
static dpt_status add_indices(dpti_importer *im, size_t rows, dpt_value *out)
{
    const dpti_onnx_fact *indices = dpti_import_fact(im, 1);
    const dpti_extents extents = dpti_import_extents(indices);
    int32_t *ids = malloc((indices->n_cells + 1) * sizeof *ids);
    if (!ids) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < indices->n_cells; i++) {
        const int64_t fixed = indices->cells[i].fixed, n = (int64_t)rows;
        if (fixed < -n || fixed >= n) {
            free(ids);
            return dpti_import_refuse(im, DPT_E_INVALID, "index %lld is outside the %zu rows",
                                      (long long)fixed, rows);
        }
        ids[i] = (int32_t)(fixed < 0 ? fixed + n : fixed);
    }
    *out = dpti_add_constant_ids(im->model, &extents, ids);
    free(ids);
    return dpti_import_check(im);
}

/* ---- Constants that no cells tell ------------------------------------------------------------ */

/* The first number of a tensor; false for a type that is not taken. */
static bool read_number(const dpti_onnx_tensor *tensor, float *out)
{
    double wide;
    int64_t integer;
    int32_t narrow;
    const char *data = tensor->data;
    switch (tensor->type) {
    case DPTI_ONNX_FLOAT: memcpy(out, data, sizeof *out); return true;
    case DPTI_ONNX_DOUBLE:
        memcpy(&wide, data, sizeof wide);
        *out = (float)wide;
        return true;
    case DPTI_ONNX_INT64:
        memcpy(&integer, data, sizeof integer);
        *out = (float)integer;
        return true;
    case DPTI_ONNX_INT32:
        memcpy(&narrow, data, sizeof narrow);
        *out = (float)narrow;
        return true;
    case DPTI_ONNX_BOOL: *out = data[0] ? 1.0f : 0.0f; return true;
    default: return false;
    }
}

/* A shape that contains the batch's extent, so that the reader does not fold it. */
static dpt_status import_constant_of_shape(dpti_importer *im)
{
    const dpti_onnx_attribute *value = dpti_onnx_find(im->node, "value");
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    float number = 0;
    if (value && (!value->tensor || value->tensor->n != 1 || !read_number(value->tensor, &number)))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its value must be one number of float32, int32, int64 or bool");
    const dpt_value x = dpti_add_constant(im->model, &(dpti_extents){.rank = 0}, &number);
    dpti_import_give(im, 0, dpti_expand(im->model, x, &to));
    return DPT_OK;
}

/* Numbers that are counted from single ones of the file. */
static dpt_status import_range(dpti_importer *im)
{
    const dpti_onnx_fact *fact = dpti_import_result(im, 0);
    if (!fact->cells || fact->n_cells == 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its numbers must be known before training, and at least one");
    float *numbers = malloc(fact->n_cells * sizeof *numbers);
    if (!numbers) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    const bool real = dpti_onnx_type_is_real(fact->type);
    for (size_t i = 0; i < fact->n_cells; i++)
        numbers[i] = real ? (float)fact->cells[i].real : (float)fact->cells[i].fixed;
    const dpti_extents e = dpti_import_extents(fact);
    dpti_import_give(im, 0, dpti_add_constant(im->model, &e, numbers));
    free(numbers);
    return DPT_OK;
}

/* The element of a view at a row-major index. */
static size_t element_of(const dpti_shape *shape, size_t index)
{
    int64_t at = (int64_t)shape->offset;
    for (size_t i = shape->rank; i-- > 0;) {
        at += (int64_t)(index % shape->extent[i]) * shape->stride[i];
        index /= shape->extent[i];
    }
    return (size_t)at;
}

/* Computed numbers as ids below `rows`. */
static dpt_value compute_ids(dpti_importer *im, size_t rows, dpt_value x)
{
    char formula[64];
    snprintf(formula, sizeof formula, "select(less(a, 0), a + %zu, a)", rows);
    return dpti_import_as_integers(im, dpti_formula(im->model, formula, &x, 1));
}

/* Makes *x ids below `rows`: a constant, a view of one, or computed numbers.  Ids stay. */
static dpt_status make_ids(dpti_importer *im, size_t rows, dpt_value *x)
{
    const dpti_node *node = dpti_node_at(im->model, *x), *root = node;
    while (root->kind == DPTI_NODE_VIEW)
        root = &im->model->nodes[root->inputs[0]];
    if (root->integer) return DPT_OK;
    if (root->kind != DPTI_NODE_CONSTANT) {
        *x = compute_ids(im, rows, *x);
        return dpti_import_check(im);
    }
    const dpti_extents extents = dpti_shape_extents(&node->shape);
    int32_t *ids = malloc(node->elements * sizeof *ids);
    if (!ids) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < node->elements; i++) {
        float number = im->model->constants[root->constant + element_of(&node->shape, i)];
        if (number < 0) number += (float)rows;
        if (!(number >= 0 && number < (float)rows)) {
            free(ids);
            return dpti_import_refuse(im, DPT_E_INVALID, "index %g is outside the %zu rows",
                                      (double)number, rows);
        }
        ids[i] = (int32_t)number;
    }
    *x = dpti_add_constant_ids(im->model, &extents, ids);
    free(ids);
    return dpti_import_check(im);
}

dpt_status dpti_import_embedding(dpti_importer *im, bool *done)
{
    const dpti_onnx_fact *indices = dpti_import_fact(im, 1);
    const bool is_table = takes_rows(im);
    size_t table;
    dpt_value ids;
    *done = false;
    if (!is_table || (indices->cells && indices->n_cells < 2)) return DPT_OK;
    *done = true;
    if (indices->cells && is_run(indices)) return take_run(im);
    const dpti_extents e = dpti_import_extents(dpti_import_fact(im, 0));
    const size_t width = im->graph->model->values[im->node->inputs[0]].tensor->n / e.extent[0];
    DPT_TRY(dpti_import_parameter(
        im, 0,
        (dpti_parameter){.fan_in = width,
                         .fan_out = width,
                         .start = DPTI_START_NORMAL,
                         .deviation = 1,
                         .role = indices->cells ? DPTI_ROLE_TENSOR : DPTI_ROLE_WEIGHT},
        &table));
    if (indices->cells)
        DPT_TRY(add_indices(im, e.extent[0], &ids));
    else
        DPT_TRY(dpti_import_input(im, 1, &ids));
    DPT_TRY(make_ids(im, e.extent[0], &ids));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const dpt_value y = dpti_given_embedding(im->model, ids, table);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_constants[] = {
    {"ConstantOfShape", import_constant_of_shape},
    {"Range", import_range},
    {NULL, NULL},
};
