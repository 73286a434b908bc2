/* Operators that move elements. */
#include "import/state.h"

#include <string.h>

static dpt_status import_reshape(dpti_importer *im)
{
    dpt_value x;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    if (dpti_import_skips_filters(im)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_imported *at = &im->values[im->node->outputs[0]];
    const dpti_extents from = dpti_extents_of(im->model, x);
    /* A flattened image stays what it is until it is known who reads it. */
    const bool flattens = to.rank == 2 && to.extent[0] == 1 && from.rank == 4 &&
                          from.extent[0] == 1 && from.extent[1] > 1 &&
                          from.extent[2] * from.extent[3] > 1 &&
                          !dpti_node_at(im->model, x)->unsampled;
    if (!flattens) {
        at->value = dpti_reshape(im->model, x, &to);
        return DPT_OK;
    }
    const dpti_extents image = {.rank = 3,
                                .extent = {from.extent[1], from.extent[2], from.extent[3]}};
    at->flat = dpt_flatten(im->model, dpti_as_image(im->model, dpti_reshape(im->model, x, &image)));
    return DPT_OK;
}

static dpt_status import_transpose(dpti_importer *im)
{
    size_t order[DPT_MAX_RANK] = {0}, n;
    dpt_value x;
    if (dpti_import_skips_transpose(im)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    const int64_t *perm = dpti_onnx_ints(im->node, "perm", &n);
    for (size_t i = 0; i < rank; i++)
        order[i] = perm && i < n ? (size_t)perm[i] : rank - 1 - i;
    dpti_import_give(im, 0, dpti_transpose(im->model, x, order));
    return DPT_OK;
}

static dpt_status import_concat(dpti_importer *im)
{
    dpt_value values[DPTI_NODE_INPUTS], y = {0};
    const size_t rank = dpti_import_result(im, 0)->shape.rank;
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", 0), rank);
    size_t n = 0;
    for (size_t i = 0; i < im->node->n_inputs; i++) {
        DPT_TRY(dpti_import_input(im, i, &values[n++]));
        if (n < DPTI_NODE_INPUTS && i + 1 < im->node->n_inputs) continue;
        y = dpti_concatenate(im->model, values, n, axis);
        values[0] = y;
        n = 1;
    }
    dpti_import_give(im, 0, y);
    return DPT_OK;
}

/* The extent along an axis is cut to begin, begin + step, ... as in Python. */
static dpt_status slice_axis(dpti_importer *im, dpt_value *x, size_t axis, const int64_t of[3])
{
    const int64_t n = (int64_t)dpti_extents_of(im->model, *x).extent[axis], step = of[2];
    int64_t begin = of[0] < 0 ? of[0] + n : of[0], end = of[1] < 0 ? of[1] + n : of[1];
    if (step == 0) return dpti_import_refuse(im, DPT_E_INVALID, "a slice has the step 0");
    if (of[1] < -n) end = -1;
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    begin = begin < 0 ? 0 : begin > high ? high : begin;
    end = end < low ? low : end > high ? high : end;
    const int64_t count =
        step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
    if (count < 1) return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a slice is empty");
    if (count == n && step == 1) return DPT_OK;
    *x = dpti_slice(
        im->model, *x,
        (dpti_cut){
            .axis = axis, .begin = (size_t)begin, .count = (size_t)count, .step = (int32_t)step});
    return dpti_import_check(im);
}

static dpt_status import_slice(dpti_importer *im)
{
    dpti_import_list begins, ends, axes, steps;
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_integers(im, 1, NULL, &begins));
    DPT_TRY(dpti_import_integers(im, 2, NULL, &ends));
    DPT_TRY(dpti_import_integers(im, 3, NULL, &axes));
    DPT_TRY(dpti_import_integers(im, 4, NULL, &steps));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    for (size_t i = 0; i < begins.n; i++) {
        const size_t axis = axes.given ? dpti_import_axis(axes.items[i], rank) : i;
        const int64_t of[3] = {begins.items[i], ends.items[i], steps.given ? steps.items[i] : 1};
        DPT_TRY(slice_axis(im, &x, axis, of));
    }
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

static dpt_status import_split(dpti_importer *im)
{
    dpt_value x;
    size_t at = 0;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", 0), rank);
    for (size_t i = 0; i < im->node->n_outputs; i++) {
        if (im->node->outputs[i] == DPTI_ONNX_NONE)
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "an output has no name");
        const size_t count = dpti_import_extents(dpti_import_result(im, i)).extent[axis];
        dpti_import_give(
            im, i,
            dpti_slice(im->model, x,
                       (dpti_cut){.axis = axis, .begin = at, .count = count, .step = 1}));
        at += count;
    }
    return DPT_OK;
}

static dpt_status import_expand(dpti_importer *im)
{
    dpt_value x;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_import_give(im, 0, dpti_expand(im->model, x, &to));
    return DPT_OK;
}

/* Every axis that is repeated becomes two, of which the first is repeated. */
static dpt_value tile_at_once(dpti_importer *im, dpt_value x, const dpti_extents *from,
                              const dpti_extents *to)
{
    dpti_extents pairs = {.rank = 0}, repeated = {.rank = 0};
    for (size_t i = 0; i < from->rank; i++) {
        if (to->extent[i] > from->extent[i]) {
            pairs.extent[pairs.rank++] = 1;
            repeated.extent[repeated.rank++] = to->extent[i] / from->extent[i];
        }
        pairs.extent[pairs.rank++] = from->extent[i];
        repeated.extent[repeated.rank++] = from->extent[i];
    }
    return dpti_expand(im->model, dpti_reshape(im->model, x, &pairs), &repeated);
}

/* Repeats one axis after the other, between those in front and those behind as one axis each. */
static dpt_value tile_by_axis(dpti_importer *im, dpt_value x, const dpti_extents *from,
                              const dpti_extents *to)
{
    size_t outer = 1, inner = 1;
    for (size_t i = 0; i < from->rank; i++)
        outer *= from->extent[i];
    for (size_t i = from->rank; i-- > 0;) {
        outer /= from->extent[i];
        const dpti_extents three = {.rank = 3, .extent = {outer, 1, from->extent[i] * inner}};
        dpti_extents repeated = three;
        repeated.extent[1] = to->extent[i] / from->extent[i];
        inner *= to->extent[i];
        if (repeated.extent[1] > 1)
            x = dpti_expand(im->model, dpti_reshape(im->model, x, &three), &repeated);
    }
    return x;
}

static dpt_status import_tile(dpti_importer *im)
{
    dpt_value x;
    size_t n = 0;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    for (size_t i = 0; i < from.rank; i++)
        n += to.extent[i] > from.extent[i] ? 2 : 1;
    x = n <= DPT_MAX_RANK ? tile_at_once(im, x, &from, &to) : tile_by_axis(im, x, &from, &to);
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

static dpt_status import_gather(dpti_importer *im)
{
    dpt_value x;
    bool done;
    DPT_TRY(dpti_import_embedding(im, &done));
    if (done) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    const size_t axis = dpti_import_axis(dpti_onnx_int(im->node, "axis", 0), from.rank);
    if (!dpti_import_fact(im, 1)->cells) return dpti_import_gather_computed(im, axis);
    DPT_TRY(dpti_import_pick(im, &x, axis));
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_layouts[] = {
    {"Concat", import_concat},       {"Expand", import_expand},     {"Flatten", import_reshape},
    {"Gather", import_gather},       {"Reshape", import_reshape},   {"Slice", import_slice},
    {"Split", import_split},         {"Squeeze", import_reshape},   {"Tile", import_tile},
    {"Transpose", import_transpose}, {"Unsqueeze", import_reshape}, {NULL, NULL},
};
