/* The public functions over values with any number of axes (dptrain/tensor.h). */
#include "dptrain/tensor.h"

#include "graph/product.h"
#include "graph/recurrent.h"
#include "graph/softmax.h"

#include <stdio.h>
#include <string.h>

_Static_assert((size_t)DPT_MAX_AXES == (size_t)DPT_MAX_RANK, "the API tells the limit");

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Reads the extents that a program gives.  Returns false after a failure. */
static bool take_extents(dpt_model *model, const char *what, const dpti_extents *given,
                         const size_t *extents)
{
    if (!model || model->status != DPT_OK) return false;
    if (!extents)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s-%zu needs the extents or the order "
                              "of its axes, which are NULL",
                              what, model->n_nodes);
    else if (given->rank < 1 || given->rank > DPT_MAX_RANK)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s-%zu: %zu axes are not 1 to %d", what,
                              model->n_nodes, given->rank, DPT_MAX_RANK);
    return model->status == DPT_OK;
}

static dpti_extents extents_of(const size_t *extents, size_t n_axes)
{
    dpti_extents e = {.rank = n_axes};
    if (extents && n_axes <= DPT_MAX_RANK) memcpy(e.extent, extents, n_axes * sizeof *extents);
    return e;
}

/* Whether x is usable and has this axis. */
static bool has_axis(dpt_model *model, dpt_value x, const char *what, size_t axis)
{
    if (!dpti_usable(model, x, what)) return false;
    const size_t rank = dpti_extents_of(model, x).rank;
    if (axis < rank) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer %s-%zu: its input has no axis %zu; it has %zu axes", what,
                          model->n_nodes, axis, rank);
    return false;
}

size_t dpt_value_axes(const dpt_model *model, dpt_value x, size_t extents[DPT_MAX_AXES])
{
    if (!model || model->status != DPT_OK || x.id == 0 || x.id > model->n_nodes || !extents)
        return 0;
    const dpti_extents e = dpti_extents_of(model, x);
    memcpy(extents, e.extent, e.rank * sizeof *extents);
    return e.rank;
}

/* ---- Values that are no results -------------------------------------------------------------- */

dpt_value dpt_parameter(dpt_model *model, const char *name, const size_t *extents, size_t n_axes,
                        const float *initial)
{
    const dpti_extents e = extents_of(extents, n_axes);
    if (!take_extents(model, "parameter", &e, extents) || !dpti_name_is_new(model, name))
        return (dpt_value){0};
    dpti_parameter p = {
        .rank = e.rank, .role = DPTI_ROLE_TENSOR, .fan_in = e.extent[e.rank - 1], .fan_out = 1};
    p.initial = (float *)(uintptr_t)initial; /* dpti_build_named copies them */
    for (size_t i = 0; i < e.rank; i++) {
        if (e.extent[i] < 1)
            return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "parameter %s: axis %zu is empty", name,
                                   i);
        p.shape[i] = e.extent[i];
        if (i + 1 < e.rank) p.fan_out *= e.extent[i];
    }
    return dpti_read_parameter(model, dpti_build_named(model, name, p));
}

dpt_value dpt_constant(dpt_model *model, const size_t *extents, size_t n_axes, const float *numbers)
{
    const dpti_extents e = extents_of(extents, n_axes);
    if (!take_extents(model, "constant", &e, extents)) return (dpt_value){0};
    if (!numbers)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer constant-%zu needs numbers",
                               model->n_nodes);
    return dpti_add_constant(model, &e, numbers);
}

/* ---- Other shapes ---------------------------------------------------------------------------- */

dpt_value dpt_reshape(dpt_model *model, dpt_value x, const size_t *extents, size_t n_axes)
{
    const dpti_extents e = extents_of(extents, n_axes);
    return take_extents(model, "reshape", &e, extents) ? dpti_reshape(model, x, &e)
                                                       : (dpt_value){0};
}

dpt_value dpt_transpose(dpt_model *model, dpt_value x, const size_t *order, size_t n_axes)
{
    const dpti_extents e = extents_of(order, n_axes);
    if (!take_extents(model, "transpose", &e, order) || !dpti_usable(model, x, "transpose"))
        return (dpt_value){0};
    uint32_t seen = 0;
    for (size_t i = 0; i < n_axes; i++)
        if (order[i] < n_axes) seen |= 1u << order[i];
    if (n_axes != dpti_extents_of(model, x).rank || seen != (1u << n_axes) - 1)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer transpose-%zu: the order has not each of the %zu axes of its "
                               "input once",
                               model->n_nodes, dpti_extents_of(model, x).rank);
    return dpti_transpose(model, x, e.extent);
}

dpt_value dpt_expand(dpt_model *model, dpt_value x, const size_t *extents, size_t n_axes)
{
    const dpti_extents e = extents_of(extents, n_axes);
    return take_extents(model, "expand", &e, extents) ? dpti_expand(model, x, &e) : (dpt_value){0};
}

dpt_value dpt_slice(dpt_model *model, dpt_value x, const dpt_slice_options *options)
{
    dpt_slice_options o;
    if (!dpti_usable(model, x, "slice") || !dpti_has_options(model, "slice", options) ||
        !dpti_take_options(model, "slice", &(dpti_sized){"dpt_slice_options", options, sizeof o},
                           &o) ||
        !has_axis(model, x, "slice", o.axis))
        return (dpt_value){0};
    const size_t extent = dpti_extents_of(model, x).extent[o.axis];
    dpti_cut cut = {.axis = o.axis, .begin = o.begin, .count = o.count, .step = o.step};
    if (cut.step == 0) cut.step = 1;
    if (cut.count == 0 && cut.begin < extent) {
        const size_t left = cut.step > 0 ? extent - 1 - cut.begin : cut.begin;
        const size_t stride = cut.step > 0 ? (size_t)cut.step : (size_t) - (int64_t)cut.step;
        cut.count = left / stride + 1;
    }
    return dpti_slice(model, x, cut);
}

void dpt_split_axis(dpt_model *model, dpt_value x, size_t axis, const size_t *parts, size_t n,
                    dpt_value *values)
{
    size_t begin = 0;
    if (!values) return;
    for (size_t i = 0; i < n; i++)
        values[i] = (dpt_value){0};
    if (!has_axis(model, x, "split", axis)) return;
    const size_t extent = dpti_extents_of(model, x).extent[axis];
    for (size_t i = 0; parts && i < n && begin <= extent; i++)
        begin += parts[i] > 0 && parts[i] <= extent ? parts[i] : extent + 1;
    if (begin != extent) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer split-%zu: the parts have not the %zu elements of axis %zu",
                              model->n_nodes, extent, axis);
        return;
    }
    begin = 0;
    for (size_t i = 0; i < n; begin += parts[i++])
        values[i] = dpti_slice(
            model, x, (dpti_cut){.axis = axis, .begin = begin, .count = parts[i], .step = 1});
}

dpt_value dpt_concatenate(dpt_model *model, const dpt_value *values, size_t n, size_t axis)
{
    if (!model || model->status != DPT_OK) return (dpt_value){0};
    if (!values)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer concatenate-%zu has no inputs",
                               model->n_nodes);
    return dpti_concatenate(model, values, n, axis);
}

dpt_value dpt_as_image(dpt_model *model, dpt_value x)
{
    return dpti_as_image(model, x);
}

/* ---- Computations ---------------------------------------------------------------------------- */

dpt_value dpt_matmul(dpt_model *model, dpt_value a, dpt_value b)
{
    static const size_t turned[DPT_MAX_RANK] = {1, 0};
    if (!dpti_usable(model, a, "matmul") || !dpti_usable(model, b, "matmul")) return (dpt_value){0};
    const size_t left = dpti_extents_of(model, a).rank, right = dpti_extents_of(model, b).rank;
    if (left < 2 || right < 2 || left > DPT_MATMUL_AXES + 2 || right > DPT_MATMUL_AXES + 2)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer matmul-%zu: its inputs have %zu and %zu axes, not 2 to %d",
                               model->n_nodes, left, right, DPT_MATMUL_AXES + 2);
    if (right == 2 && dpti_node_at(model, b)->unsampled && !dpti_node_at(model, a)->unsampled)
        return dpti_projection(model, a,
                               &(dpti_linear_values){.w = dpti_transpose(model, b, turned)});
    a = dpti_for_each_sample(model, a);
    return dpti_product(model, a, dpti_for_each_sample(model, b));
}

static dpt_value softmax(dpt_model *model, dpt_value x, const dpti_softmax_options *options)
{
    return has_axis(model, x, "softmax", options->axis) ? dpti_softmax(model, x, options)
                                                        : (dpt_value){0};
}

dpt_value dpt_softmax(dpt_model *model, dpt_value x, size_t axis)
{
    return softmax(model, x, &(dpti_softmax_options){.axis = axis});
}

dpt_value dpt_log_softmax(dpt_model *model, dpt_value x, size_t axis)
{
    return softmax(model, x, &(dpti_softmax_options){.axis = axis, .log = true});
}

/* The axes that are reduced, and the number of their elements. */
typedef struct reduced {
    uint32_t axes; /* as bits */
    double count;
} reduced;

/* Returns false after a failure. */
static bool find_reduced(dpt_model *model, dpt_value x, const dpt_reduce_options *o, reduced *out)
{
    const dpti_extents e = dpti_extents_of(model, x);
    *out = (reduced){.axes = o->n_axes ? 0 : (1u << e.rank) - 1, .count = 1};
    for (size_t i = 0; i < o->n_axes; i++) {
        if (i >= DPT_MAX_RANK || !has_axis(model, x, "reduce", o->axes[i])) break;
        out->axes |= 1u << o->axes[i];
    }
    if (model->status == DPT_OK && o->n_axes > DPT_MAX_RANK)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer reduce-%zu: %zu axes are more than %d",
                              model->n_nodes, o->n_axes, DPT_MAX_RANK);
    for (size_t i = 0; i < e.rank; i++)
        if (out->axes >> i & 1) out->count *= (double)e.extent[i];
    return model->status == DPT_OK;
}

/* Leaves out the axes that are reduced. */
static dpt_value drop_axes(dpt_model *model, dpt_value x, uint32_t axes)
{
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    dpti_extents left = {.rank = 0};
    for (size_t i = 0; i < e.rank; i++)
        if (!(axes >> i & 1)) left.extent[left.rank++] = e.extent[i];
    if (left.rank == 0) left.extent[left.rank++] = 1;
    return dpti_reshape(model, x, &left);
}

dpt_value dpt_reduce_axes(dpt_model *model, dpt_value x, const dpt_reduce_options *options)
{
    static const dpt_map_reduction kinds[] = {DPT_REDUCE_SUM, DPT_REDUCE_SUM, DPT_REDUCE_MAXIMUM,
                                              DPT_REDUCE_MINIMUM};
    const dpti_map_code load = {.n_code = 1, .n_in = 1};
    dpt_reduce_options o;
    reduced of;
    char scale[64];
    if (!dpti_usable(model, x, "reduce") ||
        !dpti_take_options(model, "reduce", &(dpti_sized){"dpt_reduce_options", options, sizeof o},
                           &o) ||
        !find_reduced(model, x, &o, &of))
        return (dpt_value){0};
    if ((size_t)o.kind >= sizeof kinds / sizeof *kinds)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer reduce-%zu: no kind has the number %d",
                               model->n_nodes, (int)o.kind);
    snprintf(scale, sizeof scale, "a * %.9g", 1 / of.count);
    if (o.kind == DPT_REDUCTION_MEAN) x = dpti_formula(model, scale, &x, 1);
    x = dpti_map(model, &(dpti_mapping){.what = "reduce",
                                        .code = &load,
                                        .inputs = &x,
                                        .n = 1,
                                        .reduced = of.axes,
                                        .reduction = kinds[o.kind]});
    return o.keep ? x : drop_axes(model, x, of.axes);
}
