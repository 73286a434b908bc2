/* Reductions and softmax. */
#include "graph/softmax.h"
#include "graph/tensor.h"
#include "import/state.h"

#include <stdio.h>
#include <string.h>

dpt_value dpti_import_reduce(dpti_importer *im, dpt_value x, uint32_t axes,
                             dpt_map_reduction reduction)
{
    const dpti_map_code load = {.n_code = 1, .n_in = 1};
    if (axes == 0) return x;
    return dpti_map(im->model, &(dpti_mapping){.what = "reduce",
                                               .code = &load,
                                               .inputs = &x,
                                               .n = 1,
                                               .reduced = axes,
                                               .reduction = reduction});
}

static dpt_value formula(dpti_importer *im, const char *text, dpt_value x)
{
    return dpti_formula(im->model, text, &x, 1);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

dpt_status dpti_import_reduced_axes(dpti_importer *im, size_t rank, uint32_t *axes)
{
    dpti_import_list list;
    *axes = 0;
    DPT_TRY(dpti_import_integers(im, 1, "axes", &list));
    for (size_t i = 0; i < list.n; i++)
        *axes |= 1u << dpti_import_axis(list.items[i], rank);
    const bool nothing = dpti_onnx_int(im->node, "noop_with_empty_axes", 0) != 0;
    if (list.n == 0 && !nothing) *axes = (1u << rank) - 1;
    return DPT_OK;
}

static double count_reduced(const dpti_extents *e, uint32_t axes)
{
    double n = 1;
    for (size_t i = 0; i < e->rank; i++)
        if (axes >> i & 1) n *= (double)e->extent[i];
    return n;
}

/* log(sum(exp(x))), shifted by the largest. */
static dpt_value log_sum_exp(dpti_importer *im, dpt_value x, uint32_t axes)
{
    const dpt_value most = dpti_import_reduce(im, x, axes, DPT_REDUCE_MAXIMUM);
    const dpt_value e = dpti_formula(im->model, "exp(a - b)", (dpt_value[]){x, most}, 2);
    return dpti_formula(im->model, "log(a) + b",
                        (dpt_value[]){dpti_import_reduce(im, e, axes, DPT_REDUCE_SUM), most}, 2);
}

static dpt_status import_reduction(dpti_importer *im)
{
    static const struct {
        const char *name, *before, *after;
        dpt_map_reduction reduction;
    } kinds[] = {
        {"ReduceL1", "abs(a)", NULL, DPT_REDUCE_SUM},
        {"ReduceL2", "a * a", DPTI_IMPORT_ROOT, DPT_REDUCE_SUM},
        {"ReduceLogSum", NULL, "log(a)", DPT_REDUCE_SUM},
        {"ReduceMax", NULL, NULL, DPT_REDUCE_MAXIMUM},
        {"ReduceMean", "mean", NULL, DPT_REDUCE_SUM},
        {"ReduceMin", NULL, NULL, DPT_REDUCE_MINIMUM},
        {"ReduceSum", NULL, NULL, DPT_REDUCE_SUM},
        {"ReduceSumSquare", "a * a", NULL, DPT_REDUCE_SUM},
    };
    char scale[64];
    dpt_value x;
    uint32_t axes;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x);
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_reduced_axes(im, from.rank, &axes));
    snprintf(scale, sizeof scale, "a * %.9g", 1.0 / count_reduced(&from, axes));
    if (strcmp(im->node->op, "ReduceLogSumExp") == 0) x = log_sum_exp(im, x, axes);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, im->node->op) != 0) continue;
        const char *before = kinds[i].before;
        if (before && strcmp(before, "mean") == 0) before = scale;
        if (before) x = formula(im, before, x);
        x = dpti_import_reduce(im, x, axes, kinds[i].reduction);
        if (kinds[i].after) x = formula(im, kinds[i].after, x);
    }
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

static dpt_status import_softmax(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    const bool log = strcmp(im->node->op, "LogSoftmax") == 0;
    const size_t at = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), rank);
    const uint32_t axis = 1u << at;
    if (!dpti_node_at(im->model, x)->unsampled) {
        const dpti_softmax_options options = {.axis = at, .log = log};
        dpti_import_give(im, 0, dpti_softmax(im->model, x, &options));
        return DPT_OK;
    }
    if (log) {
        const dpt_value sum = log_sum_exp(im, x, axis);
        dpti_import_give(im, 0, dpti_formula(im->model, "a - b", (dpt_value[]){x, sum}, 2));
        return DPT_OK;
    }
    const dpt_value most = dpti_import_reduce(im, x, axis, DPT_REDUCE_MAXIMUM);
    const dpt_value e = dpti_formula(im->model, "exp(a - b)", (dpt_value[]){x, most}, 2);
    const dpt_value sum = dpti_import_reduce(im, e, axis, DPT_REDUCE_SUM);
    dpti_import_give(im, 0, dpti_formula(im->model, "a / b", (dpt_value[]){e, sum}, 2));
    return DPT_OK;
}

const dpti_import_operator dpti_import_reductions[] = {
    {"LogSoftmax", import_softmax},        {"ReduceL1", import_reduction},
    {"ReduceL2", import_reduction},        {"ReduceLogSum", import_reduction},
    {"ReduceLogSumExp", import_reduction}, {"ReduceMax", import_reduction},
    {"ReduceMean", import_reduction},      {"ReduceMin", import_reduction},
    {"ReduceSum", import_reduction},       {"ReduceSumSquare", import_reduction},
    {"Softmax", import_softmax},           {NULL, NULL},
};
