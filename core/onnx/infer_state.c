/* Inputs, outputs and failures of the node that is looked at. */
#include "onnx/infer_state.h"

#include <string.h>

dpt_status dpti_onnx_refuse(const dpti_onnx_inference *in, dpt_status status, dpt_error *error,
                            const char *format, ...)
{
    char text[DPTI_ONNX_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return dpti_onnx_fail(error, status, "%s: node %s: %s", in->graph->model->path, in->node->label,
                          text);
}

const dpti_onnx_fact *dpti_onnx_input(const dpti_onnx_inference *in, size_t i)
{
    if (i >= in->node->n_inputs || in->node->inputs[i] == DPTI_ONNX_NONE) return NULL;
    return &in->graph->facts[in->node->inputs[i]];
}

dpt_status dpti_onnx_need(const dpti_onnx_inference *in, size_t n, dpt_error *error)
{
    for (size_t i = 0; i < n; i++)
        if (!dpti_onnx_input(in, i))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "input %zu is missing", i);
    return DPT_OK;
}

dpt_status dpti_onnx_give(dpti_onnx_inference *in, size_t i, const dpti_onnx_fact *fact,
                          dpt_error *error)
{
    if (i >= in->node->n_outputs || in->node->outputs[i] == DPTI_ONNX_NONE) return DPT_OK;
    dpti_onnx_product n;
    char text[128];
    bool negative = false;
    for (size_t d = 0; d < fact->shape.rank; d++)
        negative = negative || fact->shape.dims[d].size < 0;
    dpti_onnx_print_shape(&fact->shape, text, sizeof text);
    if (negative || !dpti_onnx_elements(&fact->shape, &n))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "its result would have the impossible shape %s", text);
    if (n.power > 1)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its result %s has the batch twice: it combines samples with one "
                                "another, which data parallelism does not allow",
                                text);
    in->graph->facts[in->node->outputs[i]] = *fact;
    return DPT_OK;
}

size_t dpti_onnx_axis(int64_t axis, size_t rank)
{
    if (axis < 0) axis += (int64_t)rank;
    return axis >= 0 && axis < (int64_t)rank ? (size_t)axis : rank;
}

dpt_status dpti_onnx_read_list(const dpti_onnx_inference *in, size_t i, dpti_onnx_list *out,
                               dpt_error *error)
{
    const dpti_onnx_fact *fact = dpti_onnx_input(in, i);
    const size_t most = sizeof out->cells / sizeof *out->cells;
    *out = (dpti_onnx_list){.given = fact != NULL};
    if (!fact) return DPT_OK;
    if (!fact->cells)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its input %zu is not known before training; only what follows "
                                "from constants and from the batch's extent is taken there",
                                i);
    if (fact->n_cells > most)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its input %zu has %zu elements", i,
                                fact->n_cells);
    out->n = fact->n_cells;
    memcpy(out->cells, fact->cells, out->n * sizeof *out->cells);
    for (size_t k = 0; k < out->n && dpti_onnx_type_is_real(fact->type); k++) {
        const double real = fact->cells[k].real; /* as the depth of OneHot may be */
        if (!(real > -1e9 && real < 1e9))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its input %zu is out of range", i);
        out->cells[k] = (dpti_onnx_cell){.fixed = (int64_t)real};
    }
    return DPT_OK;
}

dpt_status dpti_onnx_read_axes(const dpti_onnx_inference *in, size_t i, dpti_onnx_axes *axes,
                               dpt_error *error)
{
    dpti_onnx_list list;
    size_t n = 0;
    DPT_TRY(dpti_onnx_read_list(in, i, &list, error));
    const int64_t *ints = dpti_onnx_ints(in->node, "axes", &n);
    const bool from_attribute = !list.given && ints;
    if (!from_attribute) n = list.n;
    axes->given = list.given || from_attribute;
    for (size_t k = 0; k < n; k++) {
        const int64_t axis = from_attribute ? ints[k] : list.cells[k].fixed;
        const size_t d = dpti_onnx_axis(axis, axes->rank);
        if (d == axes->rank || axes->used[d] || (!from_attribute && list.cells[k].times))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                    "axis %lld is out of range or there twice", (long long)axis);
        axes->used[d] = true;
    }
    return DPT_OK;
}
