/* Operators that compare the elements along an axis: the places of the largest and of the smallest,
   and the largest in their order.  Places are integers, which have no gradient. */
#include "import/state.h"

#include <stdio.h>
#include <string.h>

enum { FORMULA_BYTES = 160 };

/* ---- The largest ----------------------------------------------------------------------------- */

/* The place of the largest or smallest element along an axis, which keeps the extent 1: the first
   of those that are equally large, or the last. */
static dpt_value find_extreme(dpti_importer *im, dpt_value x, size_t axis, bool last)
{
    char formula[FORMULA_BYTES];
    const dpti_extents e = dpti_extents_of(im->model, x);
    const size_t n = e.extent[axis];
    const bool most = strcmp(im->node->op, "ArgMin") != 0;
    const dpt_value extreme =
        dpti_import_reduce(im, x, 1u << axis, most ? DPT_REDUCE_MAXIMUM : DPT_REDUCE_MINIMUM);
    snprintf(formula, sizeof formula, "select(equal(a, b), c, %zu)", last ? 0 : n - 1);
    const dpt_value in[] = {x, extreme, dpti_import_count(im, e.rank, axis, n)};
    const dpt_value places = dpti_import_as_integers(im, dpti_formula(im->model, formula, in, 3));
    return dpti_import_as_integers(
        im,
        dpti_import_reduce(im, places, 1u << axis, last ? DPT_REDUCE_MAXIMUM : DPT_REDUCE_MINIMUM));
}

/* An axis of one element has its place at 0. */
static dpt_value find_place(dpti_importer *im, dpt_value x, size_t axis, bool last)
{
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.extent[axis] == 1)
        return dpti_import_as_integers(im, dpti_formula(im->model, "a * 0", &x, 1));
    return find_extreme(im, x, axis, last);
}

static dpt_status import_place(dpti_importer *im)
{
    dpt_value x;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank,
                 axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", 0), rank);
    const bool last = dpti_onnx_int(im->node, "select_last_index", 0) != 0;
    const dpt_value y = find_place(im, x, axis, last);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* 1 at the place of the largest element along an axis, else 0. */
static dpt_status import_hardmax(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), e.rank);
    const dpt_value in[] = {find_place(im, x, axis, false),
                            dpti_import_count(im, e.rank, axis, e.extent[axis])};
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_formula(im->model, "equal(a, b)", in, 2));
    return DPT_OK;
}

/* ---- TopK ------------------------------------------------------------------------------------ */

/* How many elements along the axis come before each: those that are larger (or smaller), and those
   that are as large and stand in front.  The result has an axis of extent 1 behind `axis`. */
static dpt_value rank_of(dpti_importer *im, dpt_value x, size_t axis)
{
    const dpti_extents e = dpti_extents_of(im->model, x);
    const bool most = dpti_onnx_int(im->node, "largest", 1) != 0;
    const dpti_sum sum = {.formula = most ? "or(less(b, a), and(equal(a, b), less(c, d)))"
                                          : "or(less(a, b), and(equal(a, b), less(c, d)))",
                          .n = 4,
                          .axis = axis + 1,
                          .keeps_axis = true,
                          .integer = true,
                          .inputs = {dpti_import_insert_axis(im, x, axis),
                                     dpti_import_insert_axis(im, x, axis + 1),
                                     dpti_import_count(im, e.rank + 1, axis + 1, e.extent[axis]),
                                     dpti_import_count(im, e.rank + 1, axis, e.extent[axis])}};
    return dpti_import_sum(im, &sum);
}

static dpt_status import_top_k(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), e.rank),
                 k = to.extent[axis];
    if (e.rank >= DPT_MAX_RANK || k < 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "%s",
                                  k < 1 ? "k must be at least 1" : "data of 8 axes");
    const dpt_value rank = rank_of(im, x, axis);
    dpti_sum sum = {.formula = "select(equal(a, b), c, 0)",
                    .n = 3,
                    .axis = axis,
                    .inputs = {rank, dpti_import_count(im, e.rank + 1, axis + 1, k)}};
    if (dpti_import_wants(im, 0)) {
        sum.inputs[2] = dpti_import_insert_axis(im, x, axis + 1);
        dpti_import_give(im, 0, dpti_import_sum(im, &sum));
    }
    if (dpti_import_wants(im, 1)) {
        sum.inputs[2] = dpti_import_count(im, e.rank + 1, axis, e.extent[axis]);
        sum.integer = true;
        dpti_import_give(im, 1, dpti_import_sum(im, &sum));
    }
    return dpti_import_check(im);
}

const dpti_import_operator dpti_import_orders[] = {
    {"ArgMax", import_place},
    {"ArgMin", import_place},
    {"Hardmax", import_hardmax},
    {"TopK", import_top_k},
    {NULL, NULL},
};
