/* What the rules of operators share: messages, inputs and outputs. */
#include "import/state.h"

#include <ctype.h>
#include <libdeflate.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Messages -------------------------------------------------------------------------------- */

dpt_status dpti_import_refuse(const dpti_importer *im, dpt_status status, const char *format, ...)
{
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return DPT_FAIL(im->error, status, "%s: node %.160s: %s", im->graph->model->path,
                    im->node->label, text);
}

dpt_status dpti_import_check(const dpti_importer *im)
{
    if (im->model->status == DPT_OK) return DPT_OK;
    return dpti_import_refuse(im, im->model->status, "%s", im->model->error.message);
}

/* ---- Inputs and outputs ---------------------------------------------------------------------- */

bool dpti_import_has(const dpti_importer *im, size_t i)
{
    return i < im->node->n_inputs && im->node->inputs[i] != DPTI_ONNX_NONE;
}

const dpti_onnx_fact *dpti_import_fact(const dpti_importer *im, size_t i)
{
    return &im->graph->facts[im->node->inputs[i]];
}

const dpti_onnx_fact *dpti_import_result(const dpti_importer *im, size_t i)
{
    return &im->graph->facts[im->node->outputs[i]];
}

dpti_extents dpti_import_extents(const dpti_onnx_fact *fact)
{
    dpti_extents e = {.rank = fact->shape.rank};
    for (size_t i = 0; i < e.rank; i++)
        e.extent[i] = (size_t)fact->shape.dims[i].size;
    return e;
}

static size_t count(const dpti_extents *e)
{
    size_t n = 1;
    for (size_t i = 0; i < e->rank; i++)
        n *= e->extent[i];
    return n;
}

/* The numbers of a tensor of the file, as float32; NULL for another type, or without memory. */
static float *numbers_of(const dpti_onnx_tensor *tensor)
{
    float *out = malloc((tensor->n + 1) * sizeof *out);
    const char *data = tensor->data;
    if (!out) return NULL;
    for (size_t i = 0; i < tensor->n; i++) {
        double d;
        int64_t wide;
        if (tensor->type == DPTI_ONNX_FLOAT) {
            memcpy(&out[i], data + 4 * i, 4);
        } else if (tensor->type == DPTI_ONNX_DOUBLE) {
            memcpy(&d, data + 8 * i, 8);
            out[i] = (float)d;
        } else if (tensor->type == DPTI_ONNX_INT64) {
            memcpy(&wide, data + 8 * i, 8);
            out[i] = (float)wide;
        } else if (tensor->type == DPTI_ONNX_BOOL) {
            out[i] = data[i] ? 1.0f : 0.0f;
        } else {
            free(out);
            return NULL;
        }
    }
    return out;
}

/* Whether a parameter's values are read from the file when a trainer or predictor is made.  Small
   ones are copied. */
static bool stays_in_file(const dpti_onnx_tensor *tensor)
{
    return tensor->part.file && tensor->type == DPTI_ONNX_FLOAT &&
           tensor->n_bytes >= DPTI_ONNX_LEAST_PART;
}

static dpt_status add_constant_tensor(dpti_importer *im, const dpti_onnx_tensor *tensor,
                                      const dpti_extents *extents, dpt_value *out)
{
    float *numbers = numbers_of(tensor);
    if (!numbers)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "numbers of type %s cannot be a part of a network; export it in "
                                  "float32",
                                  dpti_onnx_type_name(tensor->type));
    *out = dpti_add_constant(im->model, extents, numbers);
    free(numbers);
    return dpti_import_check(im);
}

static dpt_status add_constant_cells(dpti_importer *im, const dpti_onnx_fact *fact,
                                     const dpti_extents *extents, dpt_value *out)
{
    float *numbers = malloc((fact->n_cells + 1) * sizeof *numbers);
    if (!numbers) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    const bool real = dpti_onnx_type_is_real(fact->type);
    for (size_t i = 0; i < fact->n_cells; i++)
        numbers[i] = real ? (float)fact->cells[i].real
                          : (float)(fact->cells[i].fixed + fact->cells[i].times);
    *out = dpti_add_constant(im->model, extents, numbers);
    free(numbers);
    return dpti_import_check(im);
}

/* A progression in a batch of 1. */
static dpt_status add_progression(dpti_importer *im, const dpti_onnx_fact *fact,
                                  const dpti_extents *extents, dpt_value *out)
{
    const size_t n = count(extents);
    float *numbers = malloc((n + 1) * sizeof *numbers);
    if (!numbers) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)dpti_onnx_element(fact, i);
    *out = dpti_add_constant(im->model, extents, numbers);
    free(numbers);
    return dpti_import_check(im);
}

/* PyTorch's exporters give numbers that stand in the code, not parameters, such names.  A weight
   that the older exporter has transposed is "onnx::MatMul_12". */
static bool has_name_of_number(const char *name)
{
    static const char *const beginnings[] = {"/", "onnx::", "_tensor_constant", "lifted_tensor_",
                                             "clone"};
    if (strncmp(name, "onnx::MatMul_", 13) == 0) return false;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return isdigit((unsigned char)name[0]);
}

/* Whether a layer with weights computes a value. */
static bool is_product(const dpti_importer *im, size_t value)
{
    static const char *const ops[] = {"MatMul", "Gemm", "Conv", "ConvTranspose"};
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[value].producer;
    for (size_t i = 0; producer != DPTI_ONNX_NONE && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(m->nodes[producer].op, ops[i]) == 0) return true;
    return false;
}

/* Whether an operator takes its input i for a parameter, whatever the input's name is. */
static bool is_place_of_parameter(const dpti_importer *im, size_t i)
{
    static const char *const ops[] = {"MatMul", "Gemm", "Conv", "ConvTranspose", "PRelu",
                                      "LSTM",   "GRU",  "RNN",  "Gather"};
    const char *op = im->node->op;
    if (strcmp(op, "Add") == 0) return i < 2 && is_product(im, im->node->inputs[1 - i]);
    if (strstr(op, "Normalization")) return i > 0;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (strcmp(op, ops[k]) == 0) return true;
    return false;
}

/* Whether input i, an initialiser, is a number that stands in the code, and no parameter. */
static bool is_number_of_code(const dpti_importer *im, size_t i)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_tensor *tensor = m->values[im->node->inputs[i]].tensor;
    if (tensor->n == 1 && (tensor->is_noted || tensor->is_folded)) return false;
    if (tensor->is_number || strncmp(tensor->name, "val_", 4) == 0) return true;
    if (tensor->n != 1 || strncmp(m->producer, "dptrain", 7) == 0) return false;
    if (strncmp(m->producer, "pytorch", 7) == 0) return has_name_of_number(tensor->name);
    return tensor->rank == 0 || !is_place_of_parameter(im, i);
}

bool dpti_import_trains(const dpti_importer *im, size_t i)
{
    const size_t v = im->node->inputs[i];
    const dpti_onnx_fact *fact = &im->graph->facts[v];
    const dpti_onnx_tensor *tensor = im->graph->model->values[v].tensor;
    const bool is_computed = fact->n_cells > 0 && fact->cells && !fact->parameter;
    return tensor && !is_computed && dpti_onnx_type_is_real(tensor->type) &&
           !is_number_of_code(im, i);
}

/* A value that no node computes. */
static dpt_status make_leaf(dpti_importer *im, size_t i, dpt_value *out)
{
    const size_t v = im->node->inputs[i];
    const dpti_onnx_fact *fact = &im->graph->facts[v];
    const dpti_onnx_tensor *tensor = im->graph->model->values[v].tensor;
    const dpti_extents extents = dpti_import_extents(fact);
    if (fact->n_cells > 0 && fact->cells && !fact->parameter && count(&extents) == fact->n_cells)
        return add_constant_cells(im, fact, &extents, out);
    if (!tensor && fact->progression) return add_progression(im, fact, &extents, out);
    if (!tensor)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "input %zu is not known and is computed by no node that trains",
                                  i);
    if (!dpti_onnx_type_is_real(tensor->type) || is_number_of_code(im, i) || tensor->is_buffer)
        return add_constant_tensor(im, tensor, &extents, out);
    const dpti_parameter like = {
        .role = extents.rank < 2 ? DPTI_ROLE_BIAS : DPTI_ROLE_TENSOR, .fan_in = 1, .fan_out = 1};
    size_t parameter = im->values[v].parameter;
    if (!dpti_import_differs(im, i, &like)) DPT_TRY(dpti_import_parameter(im, i, like, &parameter));
    *out = dpti_read_parameter(im->model, parameter);
    if (extents.rank != im->model->parameters[parameter].rank)
        *out = dpti_reshape(im->model, *out, &extents);
    return dpti_import_check(im);
}

dpt_status dpti_import_input(dpti_importer *im, size_t i, dpt_value *out)
{
    dpti_imported *at = &im->values[im->node->inputs[i]];
    if (!at->value.id && at->flat.id) {
        const dpti_extents extents = dpti_import_extents(dpti_import_fact(im, i));
        at->value = dpti_reshape(im->model, at->flat, &extents);
        DPT_TRY(dpti_import_check(im));
    }
    if (!at->value.id) DPT_TRY(make_leaf(im, i, &at->value));
    *out = at->value;
    return DPT_OK;
}

/* Whether a parameter lies in the flat buffer as in the file. */
static bool is_plain(const dpti_parameter *p)
{
    return p->layout == DPTI_LAYOUT_PLAIN || p->h * p->w == 1;
}

static bool has_same_order(const dpti_parameter *a, const dpti_parameter *b)
{
    if (is_plain(a) || is_plain(b)) return is_plain(a) && is_plain(b);
    return a->layout == b->layout && a->h == b->h && a->w == b->w && a->c == b->c;
}

bool dpti_import_differs(const dpti_importer *im, size_t i, const dpti_parameter *like)
{
    const size_t parameter = im->values[im->node->inputs[i]].parameter;
    return parameter != SIZE_MAX && im->model->parameters[parameter].role == DPTI_ROLE_TENSOR &&
           !has_same_order(&im->model->parameters[parameter], like);
}

/* A parameter has at least one axis. */
static void shape_parameter(const dpti_onnx_tensor *tensor, dpti_parameter *out)
{
    out->rank = tensor->rank ? tensor->rank : 1;
    out->shape[0] = 1;
    for (size_t d = 0; d < tensor->rank; d++)
        out->shape[d] = (size_t)tensor->extents[d];
    /* The exporter has given a vector of the module more axes. */
    if (!tensor->is_folded) return;
    out->rank = 1;
    out->shape[0] = tensor->n;
}

dpt_status dpti_import_parameter(dpti_importer *im, size_t i, dpti_parameter like, size_t *out)
{
    const size_t v = im->node->inputs[i];
    dpti_imported *at = &im->values[v];
    const dpti_onnx_tensor *tensor = im->graph->model->values[v].tensor;
    if (at->parameter != SIZE_MAX) {
        *out = at->parameter;
        const dpti_parameter *have = &im->model->parameters[*out];
        if (dpti_is_statistic(like.role) && have->role == like.role &&
            have->momentum == like.momentum)
            return DPT_OK;
        /* The gradient of another role is written by one layer, over what is there. */
        if (have->role != DPTI_ROLE_TENSOR)
            return dpti_import_refuse(
                im, DPT_E_UNSUPPORTED,
                "\"%.80s\" belongs to another layer, too, and this operator cannot share it; give "
                "each layer its own",
                tensor ? tensor->name : "");
        if (has_same_order(&im->model->parameters[*out], &like)) return DPT_OK;
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "\"%.80s\" is shared with a layer that has it in another order",
                                  tensor ? tensor->name : "");
    }
    if (!tensor || tensor->n == 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "input %zu must be numbers of the file, not computed ones", i);
    float *numbers = NULL;
    if (stays_in_file(tensor)) {
        like.stored = tensor->part;
        like.stored.crc = libdeflate_crc32(0, tensor->data, tensor->n_bytes);
    } else if (!(numbers = numbers_of(tensor))) {
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "\"%.80s\" is of type %s; export the network in float32",
                                  tensor->name, dpti_onnx_type_name(tensor->type));
    }
    like.initial = numbers;
    shape_parameter(tensor, &like);
    if (at->n_uses > 1 && like.role == DPTI_ROLE_WEIGHT) like.role = DPTI_ROLE_TENSOR;
    like.frozen = tensor->is_buffer && !dpti_is_statistic(like.role);
    at->parameter = *out = dpti_build_named(im->model, tensor->name, like);
    free(numbers);
    return dpti_import_check(im);
}

bool dpti_import_is_shared(const dpti_importer *im, size_t i)
{
    return dpti_import_has(im, i) && im->values[im->node->inputs[i]].n_uses > 1;
}

dpt_status dpti_import_integers(dpti_importer *im, size_t i, const char *attribute,
                                dpti_import_list *out)
{
    *out = (dpti_import_list){.given = false};
    size_t n = 0;
    const int64_t *items = attribute ? dpti_onnx_ints(im->node, attribute, &n) : NULL;
    const dpti_onnx_fact *fact =
        i != SIZE_MAX && dpti_import_has(im, i) ? dpti_import_fact(im, i) : NULL;
    if (!items && !fact) return DPT_OK;
    if (!items && !fact->cells && fact->n_cells != 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "input %zu must be constant", i);
    out->given = true;
    out->n = items ? n : fact->n_cells;
    if (out->n > sizeof out->items / sizeof *out->items)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a list of %zu numbers is too long",
                                  out->n);
    for (size_t k = 0; k < out->n; k++)
        out->items[k] = items ? items[k] : fact->cells[k].fixed + fact->cells[k].times;
    return DPT_OK;
}

dpt_status dpti_import_number(dpti_importer *im, size_t i, double otherwise, double *out)
{
    *out = otherwise;
    if (!dpti_import_has(im, i)) return DPT_OK;
    const dpti_onnx_fact *fact = dpti_import_fact(im, i);
    if (!fact->cells || fact->n_cells != 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "input %zu must be one constant number",
                                  i);
    *out = dpti_onnx_type_is_real(fact->type) ? fact->cells[0].real : (double)fact->cells[0].fixed;
    return DPT_OK;
}

size_t dpti_import_axis(int64_t axis, size_t rank)
{
    return (size_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

bool dpti_import_wants(const dpti_importer *im, size_t i)
{
    if (i >= im->node->n_outputs || im->node->outputs[i] == DPTI_ONNX_NONE) return false;
    const size_t v = im->node->outputs[i];
    return im->values[v].n_uses > 0 || im->graph->model->outputs[im->output].value == v;
}

void dpti_import_give(dpti_importer *im, size_t i, dpt_value value)
{
    if (i < im->node->n_outputs && im->node->outputs[i] != DPTI_ONNX_NONE)
        im->values[im->node->outputs[i]].value = value;
}
