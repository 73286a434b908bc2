/* Operators that compute over axes: reductions, soft-max, top-k and normalisations. */
#include "onnx/infer_state.h"

#include <string.h>

/* The shape without the used axes; with extent 1 in their place if they are kept. */
static dpti_onnx_shape reduced(const dpti_onnx_shape *x, const dpti_onnx_axes *axes, bool keep)
{
    dpti_onnx_shape y = {0};
    for (size_t d = 0; d < x->rank; d++) {
        if (!axes->used[d])
            y.dims[y.rank++] = x->dims[d];
        else if (keep)
            y.dims[y.rank++] = (dpti_onnx_dim){1, false};
    }
    return y;
}

static dpt_status reduce(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_axes axes = {.rank = x->shape.rank};
    DPT_TRY(dpti_onnx_read_axes(in, 1, &axes, error));
    bool any = false;
    for (size_t d = 0; d < axes.rank; d++)
        any = any || axes.used[d];
    if (!any && dpti_onnx_int(in->node, "noop_with_empty_axes", 0) == 0)
        for (size_t d = 0; d < axes.rank; d++)
            axes.used[d] = true;
    const bool keep = dpti_onnx_int(in->node, "keepdims", 1) != 0;
    const dpti_onnx_fact y = {.type = x->type, .shape = reduced(&x->shape, &axes, keep)};
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status arg(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    dpti_onnx_axes axes = {.rank = x->rank};
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->rank);
    if (axis == x->rank) return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "axis out of range");
    axes.used[axis] = true;
    const bool keep = dpti_onnx_int(in->node, "keepdims", 1) != 0;
    const dpti_onnx_fact y = {.type = DPTI_ONNX_INT64, .shape = reduced(x, &axes, keep)};
    return dpti_onnx_give(in, 0, &y, error);
}

/* The same shape, over an axis. */
static dpt_status over_axis(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    if (dpti_onnx_axis(dpti_onnx_int(in->node, "axis", -1), x->shape.rank) == x->shape.rank)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "axis out of range");
    const dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status top_k(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list k;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &k, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", -1), x->shape.rank);
    if (axis == x->shape.rank || k.n != 1 || k.cells[0].times || k.cells[0].fixed < 0 ||
        (!x->shape.dims[axis].batch && k.cells[0].fixed > x->shape.dims[axis].size))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its axis or k does not fit its input");
    y.shape.dims[axis] = (dpti_onnx_dim){k.cells[0].fixed, false};
    DPT_TRY(dpti_onnx_give(in, 0, &y, error));
    y.type = DPTI_ONNX_INT64;
    return dpti_onnx_give(in, 1, &y, error);
}

/* The channels are axis 1; each of the inputs from the second on has one element a channel. */
static dpt_status over_channels(dpti_onnx_inference *in, size_t n, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, n, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    if (x->rank < 2)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its input has no axis of channels");
    for (size_t i = 1; i < n; i++) {
        const dpti_onnx_shape *p = &dpti_onnx_input(in, i)->shape;
        if (p->rank != 1 || !dpti_onnx_same_dim(p->dims[0], x->dims[1]))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                    "input %zu must have one element for each channel", i);
    }
    const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type, .shape = *x};
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status batch_norm(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(over_channels(in, 5, error));
    for (size_t i = 1; i < 3; i++) {
        const dpti_onnx_fact *statistic = dpti_onnx_input(in, 2 + i);
        const dpti_onnx_fact y = {.type = statistic->type, .shape = statistic->shape};
        DPT_TRY(dpti_onnx_give(in, i, &y, error));
    }
    return DPT_OK;
}

static dpt_status instance_norm(dpti_onnx_inference *in, dpt_error *error)
{
    return over_channels(in, 3, error);
}

static dpt_status group_norm(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const int64_t groups = dpti_onnx_int(in->node, "num_groups", 0);
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    if (groups < 1 || x->rank < 2 || x->dims[1].size % groups)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its groups do not divide its channels");
    return over_axis(in, error);
}

/* Over all axes from `axis` on; the outputs behind the first are statistics. */
static dpt_status layer_norm(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(over_axis(in, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    dpti_onnx_axes axes = {.rank = x->rank};
    for (size_t d = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", -1), x->rank); d < x->rank; d++)
        axes.used[d] = true;
    const dpti_onnx_fact y = {.type = DPTI_ONNX_FLOAT, .shape = reduced(x, &axes, true)};
    DPT_TRY(dpti_onnx_give(in, 1, &y, error));
    return dpti_onnx_give(in, 2, &y, error);
}

/* A normalisation over neighbouring channels keeps the shape. */
static dpt_status lrn(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type,
                              .shape = dpti_onnx_input(in, 0)->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* Scores (N, classes, ...) and labels (N, ...); the second output is the logarithms of the
   probabilities. */
static dpt_status class_loss(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0), *labels = dpti_onnx_input(in, 1);
    const dpti_onnx_fact *weights = dpti_onnx_input(in, 2);
    bool fits = x->shape.rank >= 2 && labels->shape.rank + 1 == x->shape.rank;
    for (size_t d = 0; fits && d < labels->shape.rank; d++)
        fits = dpti_onnx_same_dim(labels->shape.dims[d], x->shape.dims[d ? d + 1 : 0]);
    if (fits && weights)
        fits = weights->shape.rank == 1 &&
               dpti_onnx_same_dim(weights->shape.dims[0], x->shape.dims[1]);
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "its labels must have the shape of its scores without the classes");
    dpti_onnx_fact y = {.type = x->type};
    if (strcmp(dpti_onnx_string(in->node, "reduction", "mean"), "none") == 0)
        y.shape = labels->shape;
    DPT_TRY(dpti_onnx_give(in, 0, &y, error));
    y.shape = x->shape;
    return dpti_onnx_give(in, 1, &y, error);
}

const dpti_onnx_operator dpti_onnx_reductions[] = {
    {"ArgMax", arg, 1},
    {"ArgMin", arg, 1},
    {"BatchNormalization", batch_norm, 5},
    {"GroupNormalization", group_norm, 3},
    {"Hardmax", over_axis, 1},
    {"InstanceNormalization", instance_norm, 3},
    {"LRN", lrn, 1},
    {"LayerNormalization", layer_norm, 3},
    {"LogSoftmax", over_axis, 1},
    {"LpNormalization", over_axis, 1},
    {"NegativeLogLikelihoodLoss", class_loss, 3},
    {"RMSNormalization", layer_norm, 2},
    {"ReduceL1", reduce, 1},
    {"ReduceL2", reduce, 1},
    {"ReduceLogSum", reduce, 1},
    {"ReduceLogSumExp", reduce, 1},
    {"ReduceMax", reduce, 1},
    {"ReduceMean", reduce, 1},
    {"ReduceMin", reduce, 1},
    {"ReduceProd", reduce, 1},
    {"ReduceSum", reduce, 1},
    {"ReduceSumSquare", reduce, 1},
    {"Softmax", over_axis, 1},
    {"SoftmaxCrossEntropyLoss", class_loss, 3},
    {"TopK", top_k, 1},
    {NULL, NULL, 0},
};
