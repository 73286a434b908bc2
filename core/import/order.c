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

/* Elements that are few against those of the axis are found one after the other, each by a few
   passes over the axis.  Others are found by comparing all pairs. */
enum { PASSES = 8, MOST_FOUND = 64 };

/* The search for the next element along an axis. */
typedef struct search {
    dpt_value x;     /* the largest is searched */
    dpt_value count; /* 0 ... n - 1 along the axis */
    dpt_value least; /* the smallest element */
    dpt_value taken; /* 1 where an element was found before, else 0; id 0: none was */
    size_t axis, n;
    size_t n_left; /* elements that are still to be found */
} search;

/* The place of the largest element that was not found before, the first of those that are equally
   large. */
static dpt_value find_next(dpti_importer *im, search *s)
{
    char formula[FORMULA_BYTES];
    const uint32_t axes = 1u << s->axis;
    /* An element that was found before does not become larger than one that is left. */
    const dpt_value left = s->taken.id ? dpti_formula(im->model, "select(a, b, c)",
                                                      (dpt_value[]){s->taken, s->least, s->x}, 3)
                                       : s->x;
    const dpt_value most = dpti_import_reduce(im, left, axes, DPT_REDUCE_MAXIMUM);
    snprintf(formula, sizeof formula,
             s->taken.id ? "select(and(equal(a, b), not(d)), c, %zu)"
                         : "select(equal(a, b), c, %zu)",
             s->n - 1);
    const dpt_value in[] = {s->x, most, s->count, s->taken};
    const dpt_value places =
        dpti_import_as_integers(im, dpti_formula(im->model, formula, in, s->taken.id ? 4 : 3));
    const dpt_value place =
        dpti_import_as_integers(im, dpti_import_reduce(im, places, axes, DPT_REDUCE_MINIMUM));
    if (--s->n_left == 0) return place;
    const dpt_value all[] = {s->count, place, s->taken};
    s->taken = dpti_formula(im->model, s->taken.id ? "max(equal(a, b), c)" : "equal(a, b)", all,
                            s->taken.id ? 3 : 2);
    return place;
}

/* The places of the k largest (or smallest) elements along an axis, in their order. */
static dpt_value find_places(dpti_importer *im, dpt_value x, size_t axis, size_t k)
{
    char formula[FORMULA_BYTES];
    const dpti_extents e = dpti_extents_of(im->model, x);
    const bool most = dpti_onnx_int(im->node, "largest", 1) != 0;
    search s = {.x = most ? x : dpti_formula(im->model, "-a", &x, 1),
                .count = dpti_import_count(im, e.rank, axis, e.extent[axis]),
                .axis = axis,
                .n = e.extent[axis],
                .n_left = k};
    if (k > 1) s.least = dpti_import_reduce(im, s.x, 1u << axis, DPT_REDUCE_MINIMUM);
    dpt_value all[] = {find_next(im, &s), {0}, dpti_import_count(im, e.rank, axis, k)};
    for (size_t i = 1; i < k; i++) {
        all[1] = find_next(im, &s);
        snprintf(formula, sizeof formula, "select(equal(c, %zu), b, a)", i);
        all[0] = dpti_import_as_integers(im, dpti_formula(im->model, formula, all, 3));
    }
    return all[0];
}

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
    if (k <= MOST_FOUND && PASSES * k <= e.extent[axis]) {
        const dpt_value places = find_places(im, x, axis, k);
        dpti_import_give(im, 1, places);
        if (dpti_import_wants(im, 0))
            dpti_import_give(im, 0, dpti_import_read_along(im, x, places, axis));
        return dpti_import_check(im);
    }
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
