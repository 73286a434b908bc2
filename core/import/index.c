/* Elements by indices that are computed or come from the input: each element is compared with every
   index, so that an element costs as many comparisons as there are indices.  An index that is
   outside names nothing: it gives 0, and changes nothing. */
#include "import/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMULA_BYTES = 160 };

/* Checks the indices of an input that are known. */
static dpt_status check_indices(const dpti_importer *im, size_t input, size_t extent)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, input);
    const int64_t n = (int64_t)extent;
    for (size_t i = 0; fact->cells && i < fact->n_cells; i++)
        if (fact->cells[i].fixed < -n || fact->cells[i].fixed >= n)
            return dpti_import_refuse(im, DPT_E_INVALID, "index %lld is outside the %zu elements",
                                      (long long)fact->cells[i].fixed, extent);
    return DPT_OK;
}

/* x without the elements that lie behind those of `to` on any axis but one. */
static dpt_status cut_to(dpti_importer *im, dpt_value *x, const dpti_extents *to, size_t but)
{
    const dpti_extents from = dpti_extents_of(im->model, *x);
    for (size_t d = 0; d < from.rank; d++) {
        if (d == but || from.extent[d] == to->extent[d]) continue;
        if (from.extent[d] < to->extent[d])
            return dpti_import_refuse(im, DPT_E_INVALID,
                                      "axis %zu has more indices than its data have elements", d);
        *x = dpti_slice(im->model, *x, (dpti_cut){.axis = d, .count = to->extent[d], .step = 1});
    }
    return dpti_import_check(im);
}

/* ---- Reading --------------------------------------------------------------------------------- */

dpt_value dpti_import_read_along(dpti_importer *im, dpt_value x, dpt_value at, size_t axis)
{
    char formula[FORMULA_BYTES];
    if (!x.id || !at.id) return (dpt_value){0};
    const dpti_extents e = dpti_extents_of(im->model, x);
    snprintf(formula, sizeof formula, "select(or(equal(a, b), equal(a + %zu, b)), c, 0)",
             e.extent[axis]);
    const dpti_sum sum = {.formula = formula,
                          .n = 3,
                          .axis = axis + 1,
                          .inputs = {dpti_import_insert_axis(im, at, axis + 1),
                                     dpti_import_count(im, e.rank + 1, axis + 1, e.extent[axis]),
                                     dpti_import_insert_axis(im, x, axis)}};
    return dpti_import_sum(im, &sum);
}

/* The axis of the attribute, for values that get one more. */
static dpt_status read_axis(const dpti_importer *im, size_t rank, size_t *axis)
{
    const int64_t given = dpti_onnx_int(im->node, "axis", 0);
    *axis = dpti_import_axis(given, rank);
    if (*axis >= rank)
        return dpti_import_refuse(im, DPT_E_INVALID, "axis %lld is none of its %zu axes",
                                  (long long)given, rank);
    if (rank >= DPT_MAX_RANK)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "data of more than %d axes",
                                  DPT_MAX_RANK - 1);
    return DPT_OK;
}

static dpt_status import_gather_elements(dpti_importer *im)
{
    dpt_value x, at;
    size_t axis;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_input(im, 1, &at));
    const dpti_extents from = dpti_extents_of(im->model, x), e = dpti_extents_of(im->model, at),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(read_axis(im, from.rank, &axis));
    DPT_TRY(check_indices(im, 1, from.extent[axis]));
    DPT_TRY(cut_to(im, &x, &e, axis));
    const dpt_value y = dpti_import_read_along(im, x, at, axis);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* The product of extents first ... end - 1. */
static size_t product(const dpti_extents *e, size_t first, size_t end)
{
    size_t n = 1;
    for (size_t i = first; i < end; i++)
        n *= e->extent[i];
    return n;
}

dpt_status dpti_import_gather_computed(dpti_importer *im, size_t axis)
{
    dpt_value x, at;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_input(im, 1, &at));
    const dpti_extents from = dpti_extents_of(im->model, x), e = dpti_extents_of(im->model, at),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    const dpti_extents data = {.rank = 3,
                               .extent = {product(&from, 0, axis), from.extent[axis],
                                          product(&from, axis + 1, from.rank)}},
                       indices = {.rank = 3, .extent = {1, product(&e, 0, e.rank), 1}};
    const dpt_value y = dpti_import_read_along(im, dpti_reshape(im->model, x, &data),
                                               dpti_reshape(im->model, at, &indices), 1);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* ---- Rows of indices ------------------------------------------------------------------------- */

/* Checks the rows of n indices of input 1 that are known, into the axes of data from `first` on. */
static dpt_status check_rows(const dpti_importer *im, const dpti_extents *data, size_t first,
                             size_t n)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, 1);
    for (size_t i = 0; fact->cells && i < fact->n_cells; i++) {
        const int64_t extent = (int64_t)data->extent[first + i % n], at = fact->cells[i].fixed;
        if (at < -extent || at >= extent)
            return dpti_import_refuse(im, DPT_E_INVALID,
                                      "index %lld is outside the %lld elements of axis %zu",
                                      (long long)at, (long long)extent, first + i % n);
    }
    return DPT_OK;
}

/* The places of rows of n indices, which are the last axis of `at`, in the axes of data from
   `first` on as one axis.  The result has the shape (before, rows, 1). */
static dpt_status find_places(dpti_importer *im, const dpti_extents *data, size_t first,
                              dpt_value *out)
{
    enum { MOST = DPT_MAX_RANK };
    dpt_value at;
    float extents[MOST], steps[MOST];
    DPT_TRY(dpti_import_input(im, 1, &at));
    const dpti_extents e = dpti_extents_of(im->model, at);
    const size_t n = e.extent[e.rank - 1], before = product(&e, 0, first);
    size_t step = 1;
    DPT_TRY(check_rows(im, data, first, n));
    for (size_t d = n; d-- > 0;) {
        extents[d] = (float)data->extent[first + d];
        steps[d] = (float)step;
        step *= data->extent[first + d];
    }
    const dpti_extents last = {.rank = 3, .extent = {1, 1, n}},
                       rows = {.rank = 3, .extent = {before, product(&e, first, e.rank - 1), n}};
    const dpti_sum sum = {.formula = "select(less(a, 0), a + b, a) * c",
                          .n = 3,
                          .axis = 2,
                          .keeps_axis = true,
                          .inputs = {dpti_reshape(im->model, at, &rows),
                                     dpti_add_constant(im->model, &last, extents),
                                     dpti_add_constant(im->model, &last, steps)}};
    *out = dpti_import_sum(im, &sum);
    return dpti_import_check(im);
}

dpt_status dpti_import_gather_rows(dpti_importer *im, size_t batch_dims)
{
    dpt_value x, places;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x),
                       at = dpti_import_extents(dpti_import_fact(im, 1)),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    const size_t end = batch_dims + at.extent[at.rank - 1];
    const dpti_extents data = {.rank = 3,
                               .extent = {product(&from, 0, batch_dims),
                                          product(&from, batch_dims, end),
                                          product(&from, end, from.rank)}};
    DPT_TRY(find_places(im, &from, batch_dims, &places));
    const dpt_value y = dpti_import_read_along(im, dpti_reshape(im->model, x, &data), places, 1);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* What is written: along an axis, element k of `from` to the element of x that index k of `at`
   names.  All three have one rank; `from` and `at` have the same extents or 1, and on the other
   axes those of `places`. */
typedef struct writing {
    dpt_value x, at, from;
    size_t axis;
    const char *reduction;
} writing;

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* The indices and numbers of a writing, with an axis for the elements of x in front of the axis. */
static dpti_sum compare_all(dpti_importer *im, const writing *w, const char *formula)
{
    const dpti_extents e = dpti_extents_of(im->model, w->x);
    return (dpti_sum){.formula = formula,
                      .n = 3,
                      .axis = w->axis + 1,
                      .inputs = {dpti_import_insert_axis(im, w->at, w->axis),
                                 dpti_import_count(im, e.rank + 1, w->axis, e.extent[w->axis]),
                                 dpti_import_insert_axis(im, w->from, w->axis)}};
}

/* x, with `fill` behind its elements on every axis on which `to` is longer. */
static dpt_value fill_to(dpti_importer *im, dpt_value x, const dpti_extents *to, float fill)
{
    dpti_padding padding = {.fill = fill};
    if (!x.id) return x;
    const dpti_extents from = dpti_extents_of(im->model, x);
    for (size_t d = 0; d < from.rank; d++)
        padding.after[d] = to->extent[d] - from.extent[d];
    return dpti_pad(im->model, x, &padding);
}

/* Reductions that look at each pair of an element and an index: `neutral` stands where the index
   does not name the element. */
typedef struct pairing {
    const char *reduction, *neutral, *join;
    float fill;
} pairing;

static const pairing pairings[] = {
    {"max", "-3e38", "max(a, b)", -3e38f},
    {"min", "3e38", "min(a, b)", 3e38f},
    {"mul", "1", "a * b", 1},
};

static dpt_value write_pairs(dpti_importer *im, const writing *w, const pairing *p)
{
    char formula[FORMULA_BYTES];
    const dpti_extents to = dpti_extents_of(im->model, w->x);
    snprintf(formula, sizeof formula, "select(or(equal(a, b), equal(a + %zu, b)), c, %s)",
             to.extent[w->axis], p->neutral);
    const dpti_sum all = compare_all(im, w, formula);
    dpt_value y = dpti_formula(im->model, formula, all.inputs, all.n);
    if (is(p->reduction, "mul"))
        y = dpti_import_multiply_along(im, y, all.axis);
    else
        y = dpti_import_drop_axis(
            im,
            dpti_import_reduce(im, y, 1u << all.axis,
                               is(p->reduction, "max") ? DPT_REDUCE_MAXIMUM : DPT_REDUCE_MINIMUM),
            all.axis);
    y = fill_to(im, y, &to, p->fill);
    return dpti_formula(im->model, p->join, (dpt_value[]){w->x, y}, 2);
}

/* The sum of what is written takes the place of an element, or is added to it. */
static dpt_value write_sums(dpti_importer *im, const writing *w)
{
    char formula[FORMULA_BYTES];
    const dpti_extents to = dpti_extents_of(im->model, w->x);
    const size_t n = to.extent[w->axis];
    snprintf(formula, sizeof formula, "select(or(equal(a, b), equal(a + %zu, b)), c, 0)", n);
    dpti_sum all = compare_all(im, w, formula);
    const dpt_value written = fill_to(im, dpti_import_sum(im, &all), &to, 0);
    if (is(w->reduction, "add"))
        return dpti_formula(im->model, "a + b", (dpt_value[]){w->x, written}, 2);
    snprintf(formula, sizeof formula, "or(equal(a, b), equal(a + %zu, b))", n);
    all.n = 2;
    /* Along axes on which the indices do not differ, neither does how often they name elements. */
    const dpti_extents at = dpti_extents_of(im->model, w->at),
                       from = dpti_extents_of(im->model, w->from);
    dpti_extents apart = to;
    for (size_t d = 0; d < to.rank; d++)
        if (at.extent[d] != from.extent[d]) apart.extent[d] = 1;
    const dpt_value times = fill_to(im, dpti_import_sum(im, &all), &apart, 0);
    return dpti_formula(im->model, "select(a, b, c)", (dpt_value[]){times, written, w->x}, 3);
}

static dpt_status write_along(dpti_importer *im, const writing *w, dpt_value *y)
{
    DPT_TRY(dpti_import_check(im));
    if (is(w->reduction, "none") || is(w->reduction, "add")) {
        *y = write_sums(im, w);
        return dpti_import_check(im);
    }
    for (size_t i = 0; i < sizeof pairings / sizeof *pairings; i++)
        if (is(w->reduction, pairings[i].reduction)) {
            *y = write_pairs(im, w, &pairings[i]);
            return dpti_import_check(im);
        }
    return dpti_import_refuse(im, DPT_E_INVALID, "there is no reduction \"%.20s\"", w->reduction);
}

static dpt_status import_scatter_elements(dpti_importer *im)
{
    dpt_value y;
    writing w = {.reduction = dpti_onnx_string(im->node, "reduction", "none")};
    DPT_TRY(dpti_import_input(im, 0, &w.x));
    DPT_TRY(dpti_import_input(im, 1, &w.at));
    DPT_TRY(dpti_import_input(im, 2, &w.from));
    const dpti_extents to = dpti_extents_of(im->model, w.x), e = dpti_extents_of(im->model, w.at),
                       from = dpti_extents_of(im->model, w.from);
    DPT_TRY(read_axis(im, to.rank, &w.axis));
    DPT_TRY(check_indices(im, 1, to.extent[w.axis]));
    if (e.rank != to.rank || memcmp(&e, &from, sizeof e) != 0)
        return dpti_import_refuse(im, DPT_E_INVALID,
                                  "its indices and updates must have one shape, with as many axes "
                                  "as its data");
    for (size_t d = 0; d < e.rank; d++)
        if (d != w.axis && e.extent[d] > to.extent[d])
            return dpti_import_refuse(im, DPT_E_INVALID,
                                      "axis %zu has more indices than its data have elements", d);
    DPT_TRY(write_along(im, &w, &y));
    dpti_import_give(im, 0, y);
    return DPT_OK;
}

/* Makes the indices that count samples those of one sample. */
static dpt_status make_counted(dpti_importer *im)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, 1);
    const dpti_extents e = dpti_import_extents(fact);
    const size_t n = product(&e, 0, e.rank);
    float *numbers = malloc((n + 1) * sizeof *numbers);
    if (!numbers) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)dpti_onnx_counted_index(fact, i);
    im->values[im->node->inputs[1]].value = dpti_add_constant(im->model, &e, numbers);
    free(numbers);
    return dpti_import_check(im);
}

static dpt_status import_scatter_nd(dpti_importer *im)
{
    dpt_value y;
    if (dpti_onnx_counts_samples(im->graph, im->node)) DPT_TRY(make_counted(im));
    writing w = {.axis = 1, .reduction = dpti_onnx_string(im->node, "reduction", "none")};
    DPT_TRY(dpti_import_input(im, 0, &w.x));
    DPT_TRY(dpti_import_input(im, 2, &w.from));
    const dpti_extents to = dpti_extents_of(im->model, w.x),
                       at = dpti_import_extents(dpti_import_fact(im, 1));
    const size_t n = at.extent[at.rank - 1], part = product(&to, n, to.rank);
    const dpti_extents data = {.rank = 3, .extent = {1, product(&to, 0, n), part}},
                       rows = {.rank = 3, .extent = {1, product(&at, 0, at.rank - 1), part}};
    DPT_TRY(find_places(im, &to, 0, &w.at));
    w.x = dpti_reshape(im->model, w.x, &data);
    w.from = dpti_reshape(im->model, w.from, &rows);
    DPT_TRY(write_along(im, &w, &y));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

/* ---- OneHot ---------------------------------------------------------------------------------- */

static dpt_status import_one_hot(dpti_importer *im)
{
    dpt_value at;
    char formula[FORMULA_BYTES];
    const dpti_onnx_fact *values = dpti_import_fact(im, 2);
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", -1), to.rank),
                 depth = to.extent[axis];
    if (!values->cells || values->n_cells != 2)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "its values must be two constant numbers");
    double pair[2];
    for (size_t i = 0; i < 2; i++)
        pair[i] = dpti_onnx_type_is_real(values->type) ? values->cells[i].real
                                                       : (double)values->cells[i].fixed;
    DPT_TRY(dpti_import_input(im, 0, &at));
    snprintf(formula, sizeof formula, "select(or(equal(a, b), equal(a + %zu, b)), %.9g, %.9g)",
             depth, pair[1], pair[0]);
    const dpt_value in[] = {dpti_import_insert_axis(im, at, axis),
                            dpti_import_count(im, to.rank, axis, depth)};
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_formula(im->model, formula, in, 2));
    return DPT_OK;
}

const dpti_import_operator dpti_import_indices[] = {
    {"GatherElements", import_gather_elements},
    {"OneHot", import_one_hot},
    {"ScatterElements", import_scatter_elements},
    {"ScatterND", import_scatter_nd},
    {NULL, NULL},
};
