/* Adds the inputs of a network, and puts data sets in the order in which the network reads them.

   A sample is one record.  A network with several inputs reads the record as one tensor of real
   numbers, or of integers, or as both if some inputs are ids; every input is a view of it. */
#include "graph/inputs.h"
#include "context/sized.h"
#include "graph/tensor.h"

#include "base/size.h"
#include "base/text.h"
#include "context/context.h"
#include "data/first_label.h"

#include <stdlib.h>
#include <string.h>

/* ---- The record ------------------------------------------------------------------------------ */

static dpt_value add_record(dpt_model *model, const char *name, dpti_extent extent, bool ids)
{
    size_t elements = 0;
    if (!dpti_multiply(extent.h, extent.w, &elements) ||
        !dpti_multiply(elements, extent.c, &elements) || elements > DPTI_MAX_RECORD)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: an input of %zux%zux%zu is more than the %d values that "
                               "one may have; use smaller images",
                               name, extent.h, extent.w, extent.c, DPTI_MAX_RECORD);
    const dpt_value x = dpti_add_node(model, (dpti_node){
                                                 .kind = DPTI_NODE_INPUT,
                                                 .name = (char *)(uintptr_t)name,
                                                 .extent = extent,
                                                 .weight = SIZE_MAX,
                                                 .bias = SIZE_MAX,
                                                 .mean = SIZE_MAX,
                                                 .variance = SIZE_MAX,
                                             });
    if (!x.id) return x;
    model->nodes[x.id - 1].integer = ids;
    if (ids) model->vocabulary = DPT_MAX_VOCABULARY;
    if (model->input == SIZE_MAX)
        model->input = x.id - 1;
    else
        model->ids = x.id - 1;
    return x;
}

static bool may_add(dpt_model *model)
{
    if (!model || model->status != DPT_OK) return false;
    if (model->input == SIZE_MAX) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "model %s has a second input; give all inputs to one call of dpt_inputs",
                          model->name);
    return false;
}

void dpti_note_input(dpt_model *model, const dpti_input_spec *spec, dpt_value x)
{
    char *name = x.id ? dpti_strdup(spec->name) : NULL;
    if (!x.id) return;
    if (!name) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return;
    }
    model->inputs[model->n_inputs++] =
        (dpti_model_input){.name = name,
                           .ids = spec->ids,
                           .vocabulary = spec->ids ? DPT_MAX_VOCABULARY : 0,
                           .shape = spec->shape,
                           .node = x.id - 1};
}

void dpti_name_input(dpt_model *model, const char *name, const dpti_shape *shape)
{
    char *copy = dpti_strdup(name);
    if (model->n_inputs != 1 || !copy) {
        free(copy);
        return; /* the name stays */
    }
    free(model->inputs[0].name);
    model->inputs[0].name = copy;
    model->inputs[0].shape = *shape;
}

void dpti_note_table(dpt_model *model, dpt_value ids, size_t rows)
{
    size_t at = ids.id - 1;
    if (rows < model->vocabulary) model->vocabulary = rows;
    for (;;) {
        for (size_t i = 0; i < model->n_inputs; i++)
            if (model->inputs[i].node == at) {
                if (rows < model->inputs[i].vocabulary) model->inputs[i].vocabulary = rows;
                return;
            }
        if (model->nodes[at].n_inputs == 0) return;
        at = model->nodes[at].inputs[0];
    }
}

/* ---- One input ------------------------------------------------------------------------------- */

dpt_value dpt_input(dpt_model *model, size_t height, size_t width, size_t channels)
{
    if (!may_add(model)) return (dpt_value){0};
    const dpti_extent extent = {.h = height, .w = width, .c = channels};
    const dpti_extents extents = {.rank = 3, .extent = {height, width, channels}};
    const dpt_value x = add_record(model, "input", extent, false);
    if (!x.id) return x;
    const dpti_input_spec spec = {.name = "input", .shape = dpti_shape_dense(&extents)};
    dpti_note_input(model, &spec, x);
    return x;
}

dpt_value dpt_input_ids(dpt_model *model, size_t count)
{
    if (!may_add(model)) return (dpt_value){0};
    const dpti_extents extents = {.rank = 1, .extent = {count}};
    const dpt_value x = add_record(model, "input", (dpti_extent){.h = 1, .w = 1, .c = count}, true);
    if (!x.id) return x;
    const dpti_input_spec spec = {
        .name = "input", .ids = true, .shape = dpti_shape_dense(&extents)};
    dpti_note_input(model, &spec, x);
    return x;
}

/* ---- Several inputs -------------------------------------------------------------------------- */

static bool check_specs(dpt_model *model, const dpti_input_spec *specs, size_t n)
{
    if (!may_add(model)) return false;
    if (n < 1 || n > DPTI_MODEL_INPUTS)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s has %zu inputs; 1 to %d are possible",
                              model->name, n, DPTI_MODEL_INPUTS);
    for (size_t i = 0; i < n && model->status == DPT_OK; i++) {
        const char *name = specs[i].name;
        bool good = name && *name && name[dpti_plain_bytes(name)] == '\0';
        for (size_t k = 0; good && k < i; k++)
            good = strcmp(name, specs[k].name) != 0;
        if (!good)
            (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                  "model %s: input %zu needs a name that can be printed and that "
                                  "no other input has",
                                  model->name, i);
    }
    return model->status == DPT_OK;
}

void dpti_add_inputs(dpt_model *model, const dpti_input_spec *specs, size_t n, dpt_value *values)
{
    dpt_value roots[2] = {{0}, {0}}; /* real numbers, ids */
    bool wanted[2] = {false, false};
    size_t elements = 0;
    if (!check_specs(model, specs, n)) return;
    for (size_t i = 0; i < n; i++) {
        const size_t count = dpti_shape_count(&specs[i].shape);
        wanted[specs[i].ids] = true;
        elements = count <= DPTI_MAX_RECORD ? elements + count : SIZE_MAX / 2;
    }
    const dpti_extent extent = {.h = 1, .w = 1, .c = elements};
    if (wanted[0]) roots[0] = add_record(model, "input", extent, false);
    if (wanted[1]) roots[1] = add_record(model, wanted[0] ? "input ids" : "input", extent, true);
    size_t offset = 0;
    for (size_t i = 0; i < n && model->status == DPT_OK; i++) {
        dpti_input_spec placed = specs[i];
        placed.shape.offset = offset;
        offset += dpti_shape_count(&placed.shape);
        values[i] = dpti_view(model, roots[placed.ids], &placed.shape);
        dpti_note_input(model, &placed, values[i]);
    }
}

void dpt_inputs(dpt_model *model, const dpt_input_options *inputs, size_t n_inputs,
                dpt_value *values)
{
    dpti_input_spec specs[DPTI_MODEL_INPUTS] = {{.name = NULL}};
    memset(values, 0, n_inputs * sizeof *values);
    if (!may_add(model)) return;
    for (size_t i = 0; i < n_inputs && i < DPTI_MODEL_INPUTS; i++) {
        const dpt_input_options *o = &inputs[i];
        const dpti_shape image = {
            .rank = 3,
            .extent = {o->channels, o->height, o->width},
            .stride = {1, (int32_t)(o->width * o->channels), (int32_t)o->channels}};
        const dpti_extents ids = {.rank = 1, .extent = {o->ids}};
        specs[i] = (dpti_input_spec){
            .name = o->name, .ids = o->ids > 0, .shape = o->ids ? dpti_shape_dense(&ids) : image};
    }
    dpti_add_inputs(model, specs, n_inputs, values);
    for (size_t i = 0; i < n_inputs && model->status == DPT_OK; i++)
        if (!specs[i].ids) values[i] = dpti_as_image(model, values[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static dpti_wanted_input wanted_of(const dpti_model_input *in)
{
    dpti_wanted_input w = {.name = in->name,
                           .ids = in->ids,
                           .most_ids = in->vocabulary < DPT_MAX_VOCABULARY ? in->vocabulary : 0,
                           .rank = in->shape.rank,
                           .offset = in->shape.offset};
    for (size_t i = 0; i < in->shape.rank; i++) {
        w.extent[i] = in->shape.extent[i];
        w.stride[i] = (size_t)in->shape.stride[i];
    }
    return w;
}

/* Whether the records have these inputs in this order. */
static bool are_arranged(const dpt_model *m, const dpt_dataset *data)
{
    bool same = data->arranged && data->n_inputs == m->n_inputs;
    for (size_t i = 0; same && i < m->n_inputs; i++)
        same = strcmp(data->inputs[i].name, m->inputs[i].name) == 0 &&
               data->inputs[i].offset == m->inputs[i].shape.offset &&
               data->inputs[i].n == dpti_shape_count(&m->inputs[i].shape) &&
               (data->inputs[i].dtype == DPT_I32) == m->inputs[i].ids;
    return same;
}

dpt_status dpti_check_records(const dpt_model *model, const dpt_dataset *data, dpt_error *error)
{
    const dpt_model *m = model;
    if (!are_arranged(m, data))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "model %s has %zu inputs, and the records of %s are not in their order: "
                        "use data of arrays (npz) or of declared inputs, and dpt_dataset_arrange",
                        m->name, m->n_inputs, data->name);
    for (size_t i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].ids && m->inputs[i].vocabulary < DPT_MAX_VOCABULARY &&
            data->inputs[i].vocabulary > m->inputs[i].vocabulary)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the ids of %s in %s are up to %zu, but the smallest table of model %s "
                            "that takes them has %zu rows",
                            m->inputs[i].name, data->name, data->inputs[i].vocabulary - 1, m->name,
                            m->inputs[i].vocabulary);
    return DPT_OK;
}

dpt_status dpt_dataset_arrange(dpt_context *context, dpt_dataset *dataset, const dpt_model *model)
{
    dpt_error error = {.status = DPT_OK};
    dpti_wanted_input inputs[DPTI_MODEL_INPUTS];
    if (!dataset || !model || !model->finished)
        return dpt_fail(context, DPT_E_INVALID,
                        "dpt_dataset_arrange needs a data set and a finished model");
    const dpti_extent e = model->nodes[model->input].extent;
    for (size_t i = 0; i < model->n_inputs; i++)
        inputs[i] = wanted_of(&model->inputs[i]);
    const dpti_wanted_record wanted = {.model = model->name,
                                       .inputs = inputs,
                                       .n_inputs = model->n_inputs,
                                       .height = e.h,
                                       .width = e.w,
                                       .channels = e.c,
                                       .outputs = dpt_model_outputs(model)};
    if (dpti_dataset_arrange(dataset, &wanted, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    if (dataset->n_inputs > 0) dpti_first_label_tell(dataset, context);
    return DPT_OK;
}

size_t dpt_model_input_count(const dpt_model *model)
{
    return model->n_inputs;
}

void dpt_model_input(const dpt_model *model, size_t i, dpt_input_info *out)
{
    dpt_input_info info = {.size = sizeof info};
    if (i < model->n_inputs) {
        const dpti_model_input *in = &model->inputs[i];
        info.name = in->name;
        info.elements = dpti_shape_count(&in->shape);
        info.vocabulary = in->vocabulary;
    }
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}
