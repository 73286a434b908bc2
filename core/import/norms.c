/* Norms over axes of one sample, made of reductions and formulas. */
#include "import/window.h"

#include <stdio.h>
#include <stdlib.h>

enum { FORMULA_BYTES = 96 };

/* x with the axes of `to`. */
static dpt_value shaped(dpti_importer *im, dpt_value x, const dpti_extents *to)
{
    return dpti_reshape(im->model, x, to);
}

/* x divided by the root of the mean of its squares along the axes. */
static dpt_value scale_to_one(dpti_importer *im, dpt_value x, uint32_t axes)
{
    char text[FORMULA_BYTES];
    const dpt_value squares = dpti_mean(im->model, "a * a", x, axes);
    snprintf(text, sizeof text, "a / sqrt(b + %.9g)",
             (double)dpti_onnx_float(im->node, "epsilon", 1e-5f));
    return dpti_formula(im->model, text, (dpt_value[]){x, squares}, 2);
}

/* A norm of the groups of channels, each over its channels and all axes behind them.  Scale and
   bias are those of channels, or of groups. */
static dpt_status norm_groups(dpti_importer *im, size_t groups)
{
    dpt_value x, scale, bias;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_input(im, 1, &scale));
    DPT_TRY(dpti_import_input(im, 2, &bias));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank < 3 || groups < 1 || e.extent[1] % groups != 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a norm of %zu groups needs the axes batch, channels and one "
                                  "more, and channels that are a multiple of the groups",
                                  groups);
    const size_t n = dpti_extents_of(im->model, scale).extent[0], channels = e.extent[1] / groups;
    dpti_extents grouped = {.rank = 4, .extent = {e.extent[0], groups, channels, 1}};
    for (size_t i = 2; i < e.rank; i++)
        grouped.extent[3] *= e.extent[i];
    const dpti_extents wide = {.rank = 3, .extent = {groups, n == groups ? 1 : channels, 1}};
    x = shaped(im, x, &grouped);
    const uint32_t axes = 4u | 8u;
    const dpt_value mean = dpti_mean(im->model, "a", x, axes);
    x = scale_to_one(im, dpti_formula(im->model, "a - b", (dpt_value[]){x, mean}, 2), axes);
    const dpt_value all[] = {x, shaped(im, scale, &wide), shaped(im, bias, &wide)};
    x = dpti_formula(im->model, "a * b + c", all, 3);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, shaped(im, x, &e));
    return DPT_OK;
}

static dpt_status import_instance_norm(dpti_importer *im)
{
    return norm_groups(im, dpti_import_extents(dpti_import_fact(im, 0)).extent[1]);
}

static dpt_status import_group_norm(dpti_importer *im)
{
    const int64_t groups = dpti_onnx_int(im->node, "num_groups", 0);
    return norm_groups(im, groups > 0 ? (size_t)groups : 0);
}

/* 1 / the root of the mean of squares along the axes. */
static dpt_value inverse_deviation(dpti_importer *im, dpt_value x, uint32_t axes)
{
    char text[FORMULA_BYTES];
    const dpt_value squares = dpti_mean(im->model, "a * a", x, axes);
    snprintf(text, sizeof text, "1 / sqrt(a + %.9g)",
             (double)dpti_onnx_float(im->node, "epsilon", 1e-5f));
    return dpti_formula(im->model, text, &squares, 1);
}

/* The axes over which the node normalizes x: its attribute names the first of them. */
static uint32_t normalized_axes(const dpti_importer *im, dpt_value x)
{
    const size_t rank = dpti_extents_of(im->model, x).rank;
    uint32_t axes = 0;
    for (size_t i = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), rank); i < rank; i++)
        axes |= 1u << i;
    return axes;
}

dpt_status dpti_import_norm_apart(dpti_importer *im)
{
    dpt_value x, scale, bias;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_input(im, 1, &scale));
    const uint32_t axes = normalized_axes(im, x);
    const dpt_value mean = dpti_mean(im->model, "a", x, axes);
    x = dpti_formula(im->model, "a - b", (dpt_value[]){x, mean}, 2);
    dpti_import_give(im, 1, mean);
    const dpt_value inverse = inverse_deviation(im, x, axes);
    dpti_import_give(im, 2, inverse);
    x = dpti_formula(im->model, "a * b * c", (dpt_value[]){x, inverse, scale}, 3);
    if (dpti_import_has(im, 2)) {
        DPT_TRY(dpti_import_input(im, 2, &bias));
        x = dpti_formula(im->model, "a + b", (dpt_value[]){x, bias}, 2);
    }
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

static dpt_status import_rms_norm(dpti_importer *im)
{
    dpt_value x, scale;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_input(im, 1, &scale));
    x = scale_to_one(im, x, normalized_axes(im, x));
    dpti_import_give(im, 0, dpti_formula(im->model, "a * b", (dpt_value[]){x, scale}, 2));
    return DPT_OK;
}

/* x divided by the root of its absolute values or its squares along one axis; zeros stay zeros. */
static dpt_status import_lp_norm(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    const uint32_t axis = 1u << dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), rank);
    const bool squares = dpti_onnx_int(im->node, "p", 2) == 2;
    if (!squares && dpti_onnx_int(im->node, "p", 2) != 1)
        return dpti_import_refuse(im, DPT_E_INVALID, "p must be 1 or 2");
    const dpt_value powers = dpti_formula(im->model, squares ? "a * a" : "abs(a)", &x, 1);
    const dpt_value in[] = {x, dpti_import_reduce(im, powers, axis, DPT_REDUCE_SUM)};
    dpti_import_give(im, 0,
                     dpti_formula(im->model,
                                  squares ? "a / sqrt(select(equal(b, 0), 1, b))"
                                          : "a / select(equal(b, 0), 1, b)",
                                  in, 2));
    return DPT_OK;
}

/* weights (n, n) = `each` for the `size` channels around a channel; of an even size one more
   behind it. */
static void weigh_neighbours(size_t n, size_t size, float each, float *weights)
{
    for (size_t c = 0; c < n; c++) {
        const size_t before = (size - 1) / 2, behind = size / 2;
        const size_t last = behind < n - c ? c + behind : n - 1;
        for (size_t i = c > before ? c - before : 0; i <= last; i++)
            weights[c * n + i] = each;
    }
}

/* Each element divided by a power of the squares of the same place in the channels around. */
static dpt_status import_local_response(dpti_importer *im)
{
    enum { MOST_CHANNELS = 4096 };
    char text[FORMULA_BYTES];
    dpt_value x, sum;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t n = dpti_extents_of(im->model, x).extent[1];
    const int64_t size = dpti_onnx_int(im->node, "size", 0);
    if (size < 1 || n > MOST_CHANNELS)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its size must be at least 1, and its channels at most %d",
                                  MOST_CHANNELS);
    const double alpha = (double)dpti_onnx_float(im->node, "alpha", 1e-4f);
    float *weights = calloc(n * n, sizeof *weights);
    if (!weights) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    weigh_neighbours(n, (size_t)size, (float)(alpha / (double)size), weights);
    sum = dpti_formula(im->model, "a * a", &x, 1);
    const dpt_status status = dpti_import_combine(
        im, &(dpti_combination){.axis = 1, .n_out = n, .weights = weights}, &sum);
    free(weights);
    DPT_TRY(status);
    snprintf(text, sizeof text, "a * pow(b + %.9g, %.9g)",
             (double)dpti_onnx_float(im->node, "bias", 1),
             -(double)dpti_onnx_float(im->node, "beta", 0.75f));
    dpti_import_give(im, 0, dpti_formula(im->model, text, (dpt_value[]){x, sum}, 2));
    return DPT_OK;
}

dpt_status dpti_import_norm_by_values(dpti_importer *im, dpt_value x)
{
    char text[FORMULA_BYTES];
    const dpti_extents e = dpti_extents_of(im->model, x);
    const bool of_batch = dpti_onnx_int(im->node, "training_mode", 0) != 0;
    dpti_extents wide = {.rank = e.rank - 1, .extent = {e.extent[1], 1, 1, 1}};
    dpt_value in[5] = {x};
    if (of_batch && !dpti_node_at(im->model, x)->unsampled)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "inputs 3 and 4 must be %zu numbers of the file", e.extent[1]);
    for (size_t i = 1; i < (of_batch ? 3 : 5); i++) {
        DPT_TRY(dpti_import_input(im, i, &in[i]));
        in[i] = dpti_reshape(im->model, in[i], &wide);
    }
    if (of_batch) {
        const uint32_t axes = ((1u << e.rank) - 1) & ~2u;
        in[3] = dpti_mean(im->model, "a", x, axes);
        const dpt_value apart = dpti_formula(im->model, "a - b", (dpt_value[]){x, in[3]}, 2);
        in[4] = dpti_mean(im->model, "a * a", apart, axes);
    }
    snprintf(text, sizeof text, "(a - b) / sqrt(c + %.9g)",
             (double)dpti_onnx_float(im->node, "epsilon", 1e-5f));
    const dpt_value y = dpti_formula(im->model, text, (dpt_value[]){x, in[3], in[4]}, 3);
    return dpti_import_give_elements(
        im, dpti_formula(im->model, "a * b + c", (dpt_value[]){y, in[1], in[2]}, 3));
}

const dpti_import_operator dpti_import_norms[] = {
    {"GroupNormalization", import_group_norm},
    {"InstanceNormalization", import_instance_norm},
    {"LRN", import_local_response},
    {"LpNormalization", import_lp_norm},
    {"RMSNormalization", import_rms_norm},
    {NULL, NULL},
};
