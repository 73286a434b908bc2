/* Walks over the nodes of an ONNX graph and adds their layers. */
#include "import/import.h"

#include "base/text.h"
#include "graph/inputs.h"
#include "import/state.h"

#include <stdlib.h>
#include <string.h>

/* ---- The whole graph ------------------------------------------------------------------------- */

static dpti_import_rule *find_rule(const char *name)
{
    const dpti_import_operator *const parts[] = {
        dpti_import_elementwise,    dpti_import_layouts,     dpti_import_layers,
        dpti_import_windows,        dpti_import_norms,       dpti_import_enlargements,
        dpti_import_reductions,     dpti_import_constants,   dpti_import_sequences,
        dpti_import_recurrent,      dpti_import_picks,       dpti_import_randoms,
        dpti_import_rearrangements, dpti_import_cumulations, dpti_import_einsums,
        dpti_import_resizes,        dpti_import_indices,     dpti_import_orders,
        dpti_import_losses,         dpti_import_pads,        dpti_import_slides,
        dpti_import_attentions,     dpti_import_folds};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (const dpti_import_operator *op = parts[p]; op->name; op++)
            if (strcmp(op->name, name) == 0) return op->rule;
    return NULL;
}

/* Keeps the name and the axes of an input or output for the export. */
static dpt_status keep_port(dpti_importer *im, const dpti_onnx_port *port, dpti_port *out)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_fact *fact = &im->graph->facts[port->value];
    out->name = dpti_strdup(m->values[port->value].name);
    out->extents = dpti_import_extents(fact);
    out->batch_axis = dpti_onnx_batch_axis(&fact->shape);
    out->narrow = fact->type == DPTI_ONNX_INT32;
    return out->name ? DPT_OK : DPT_FAIL(im->error, DPT_E_NO_MEMORY, "%s: no memory", m->path);
}

/* Reads the type and the extents of an input, whose first axis is the batch. */
static dpt_status check_input(const dpti_importer *im, const dpti_onnx_port *port, bool *ids,
                              dpti_extents *extents)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_fact *fact = &im->graph->facts[port->value];
    *ids = port->type == DPTI_ONNX_INT64 || port->type == DPTI_ONNX_INT32;
    if (port->type != DPTI_ONNX_FLOAT && port->type != DPTI_ONNX_BOOL && !*ids)
        return DPT_FAIL(im->error, DPT_E_UNSUPPORTED,
                        "%s: input \"%.80s\": an input must be of float32, int32, int64 or bool to "
                        "be trained here",
                        m->path, m->values[port->value].name);
    *extents = dpti_import_extents(fact);
    if (extents->rank >= 1 && extents->extent[0] == 1 && fact->shape.dims[0].batch) return DPT_OK;
    return DPT_FAIL(im->error, DPT_E_UNSUPPORTED,
                    "%s: the first axis of input \"%.80s\" must be the batch", m->path,
                    m->values[port->value].name);
}

/* The shape of an input in the record: an image, whose channels run fastest, if it has four axes;
   otherwise the elements are in row-major order. */
static dpti_shape shape_of(const dpti_extents *e, bool ids)
{
    enum { IMAGE_RANK = 4 };
    dpti_shape shape = dpti_shape_dense(e);
    if (e->rank != IMAGE_RANK || ids) return shape;
    const size_t channels = e->extent[1], width = e->extent[3];
    shape.stride[1] = 1;
    shape.stride[2] = (int32_t)(width * channels);
    shape.stride[3] = (int32_t)channels;
    return shape;
}

/* Makes the value of the only input. */
static dpt_status add_input(dpti_importer *im, const dpti_onnx_port *port)
{
    const dpti_onnx_model *m = im->graph->model;
    dpti_extents e;
    bool ids;
    DPT_TRY(check_input(im, port, &ids, &e));
    DPT_TRY(keep_port(im, port, &im->model->file_input));
    const bool image = e.rank == 4;
    const dpti_shape dense = dpti_shape_dense(&e), placed = shape_of(&e, ids);
    size_t rest = 1;
    for (size_t i = 3; i < e.rank; i++)
        rest *= e.extent[i];
    if (ids) {
        DPT_TRY(dpti_import_ids(im, port->value, &e));
    } else {
        const size_t a = e.rank > 1 ? e.extent[1] : 1, b = e.rank > 2 ? e.extent[2] : 1;
        const dpt_value x = image ? dpt_input(im->model, b, e.extent[3], a)
                                  : dpt_input(im->model, e.rank > 2 ? a : 1, e.rank > 2 ? b : 1,
                                              e.rank > 2 ? rest : a);
        im->values[port->value].value =
            image ? dpti_reshape(im->model, x, &e) : dpti_view(im->model, x, &dense);
    }
    dpti_name_input(im->model, m->values[port->value].name, &placed);
    if (im->model->status == DPT_OK) return DPT_OK;
    return DPT_FAIL(im->error, im->model->status, "%s: %s", m->path, im->model->error.message);
}

static dpt_status add_inputs(dpti_importer *im, const dpti_onnx_port *const *ports, size_t n)
{
    const dpti_onnx_model *m = im->graph->model;
    dpti_input_spec specs[DPTI_MODEL_INPUTS] = {{.name = NULL}};
    dpt_value values[DPTI_MODEL_INPUTS] = {{0}};
    for (size_t i = 0; i < n; i++) {
        dpti_extents e;
        DPT_TRY(check_input(im, ports[i], &specs[i].ids, &e));
        specs[i].name = m->values[ports[i]->value].name;
        specs[i].shape = shape_of(&e, specs[i].ids);
    }
    dpti_add_inputs(im->model, specs, n, values);
    for (size_t i = 0; i < n; i++)
        im->values[ports[i]->value].value = values[i];
    if (im->model->status == DPT_OK) return DPT_OK;
    return DPT_FAIL(im->error, im->model->status, "%s: %s", m->path, im->model->error.message);
}

/* Adds the inputs that nodes read.  A data set needs no array for the others. */
static dpt_status add_all_inputs(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_port *ports[DPTI_MODEL_INPUTS];
    size_t n = 0;
    for (size_t i = 0; i < m->n_inputs; i++) {
        if (im->values[m->inputs[i].value].n_uses == 0) continue;
        if (n == DPTI_MODEL_INPUTS)
            return DPT_FAIL(im->error, DPT_E_UNSUPPORTED,
                            "%s: a network has at most %d inputs to be trained here", m->path,
                            DPTI_MODEL_INPUTS);
        ports[n++] = &m->inputs[i];
    }
    if (n == 0)
        return DPT_FAIL(im->error, DPT_E_UNSUPPORTED, "%s: no node reads an input", m->path);
    return n == 1 ? add_input(im, ports[0]) : add_inputs(im, ports, n);
}

/* Whether the node computes numbers of samples, which are constants in a batch of 1. */
static bool gives_numbers(const dpti_importer *im)
{
    if (im->node->n_outputs == 0 || im->node->outputs[0] == DPTI_ONNX_NONE) return false;
    const dpti_onnx_fact *y = dpti_import_result(im, 0);
    return y->progression && dpti_onnx_is_counting(y);
}

static dpt_status import_nodes(dpti_importer *im)
{
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        if (!im->imports[n]) continue;
        const dpti_onnx_node node = dpti_import_rename(im, im->graph->nodes[n]);
        im->node = &node;
        if (gives_numbers(im)) continue;
        dpti_import_rule *rule = find_rule(im->node->op);
        if (!rule)
            return dpti_import_refuse(
                im, DPT_E_UNSUPPORTED,
                "the operator cannot be trained yet; docs/onnx.md lists those "
                "that can");
        DPT_TRY(rule(im));
        DPT_TRY(dpti_import_check(im));
    }
    return DPT_OK;
}

/* A label for each token of (N, tokens, classes), or for each pixel of (N, classes, h, w). */
static dpt_status finish_rows(dpti_importer *im, dpt_value y, const dpti_extents *e)
{
    enum { IMAGE_RANK = 4 };
    const size_t classes_axis = e->rank < IMAGE_RANK ? e->rank - 1 : 1;
    size_t order[DPT_MAX_RANK] = {0}, n_rows = 1, n = 0;
    for (size_t i = 0; i < e->rank; i++) {
        if (i == classes_axis) continue;
        order[n++] = i;
        n_rows *= e->extent[i];
    }
    order[n] = classes_axis;
    return dpti_model_finish_rows(im->model, dpti_transpose(im->model, y, order), n_rows);
}

static dpt_status finish(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_imported *at = &im->values[m->outputs[im->output].value];
    dpt_value y = at->value.id ? at->value : at->flat;
    if (!y.id)
        return DPT_FAIL(im->error, DPT_E_UNSUPPORTED,
                        "%s: output \"%.80s\" must be computed from the input", m->path,
                        m->values[m->outputs[im->output].value].name);
    if (!dpti_onnx_type_is_real(im->graph->facts[m->outputs[im->output].value].type)) {
        /* Integers have no gradient, whatever they are computed from; outputs are float32. */
        y = dpti_import_as_integers(im, dpti_formula(im->model, "a", &y, 1));
        if (y.id) y = dpti_formula(im->model, "a", &y, 1);
        if (!y.id)
            return DPT_FAIL(im->error, im->model->status, "%s: %s", m->path,
                            im->model->error.message);
    }
    DPT_TRY(keep_port(im, &m->outputs[im->output], &im->model->file_output));
    dpti_name_output(im->model, y);
    im->model->gives_loss = im->graph->gives_loss;
    const dpti_extents e = dpti_import_extents(&im->graph->facts[m->outputs[im->output].value]);
    size_t n_long = 0;
    for (size_t i = 0; i < e.rank; i++)
        n_long += e.extent[i] > 1;
    /* The classes are in the order of the file, also those of a flattened image. */
    const dpt_status status =
        n_long > 1
            ? finish_rows(im, y, &e)
            : dpt_model_finish(im->model, dpti_row_major(im->model, dpti_as_flat(im->model, y)));
    if (status == DPT_OK) return DPT_OK;
    return DPT_FAIL(im->error, im->model->status, "%s: %s", m->path, im->model->error.message);
}

dpt_status dpti_import(dpt_context *context, const dpti_onnx_graph *graph, dpt_model **out,
                       dpt_error *error)
{
    dpti_importer im = {.graph = graph, .error = error};
    const dpti_onnx_model *m = graph->model;
    if (m->n_inputs < 1 || m->n_outputs < 1)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "%s: no input or no output", m->path);
    im.values = calloc(m->n_values, sizeof *im.values);
    dpt_status status = dpt_model_create(context, m->path, &im.model);
    if (status != DPT_OK || !im.values)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "%s: no memory", m->path);
    if (status == DPT_OK) status = dpti_import_select(&im);
    if (status == DPT_OK) status = add_all_inputs(&im);
    if (status == DPT_OK) status = import_nodes(&im);
    if (status == DPT_OK) status = finish(&im);
    if (status == DPT_OK) status = dpti_import_remark(&im);
    free(im.values);
    free(im.imports);
    free(im.inputs);
    if (status == DPT_OK)
        *out = im.model;
    else
        dpt_model_destroy(im.model);
    return status;
}
