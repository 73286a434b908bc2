/* Sums of all elements up to each, and products of all elements. */
#include "import/state.h"

#include <math.h>
#include <string.h>

/* ---- CumSum ---------------------------------------------------------------------------------- */

static size_t extent_of(const dpti_importer *im, dpt_value x, size_t axis)
{
    return x.id ? dpti_extents_of(im->model, x).extent[axis] : 1;
}

/* x moved by `distance` towards the end of an axis; zeros take the place of the first elements. */
static dpt_value move(dpti_importer *im, dpt_value x, size_t axis, size_t distance)
{
    const size_t n = extent_of(im, x, axis);
    dpti_padding padding = {.fill = 0};
    padding.before[axis] = distance;
    return dpti_slice(im->model, dpti_pad(im->model, x, &padding),
                      (dpti_cut){.axis = axis, .count = n, .step = 1});
}

static dpt_value reverse(dpti_importer *im, dpt_value x, size_t axis)
{
    const size_t n = extent_of(im, x, axis);
    return dpti_slice(im->model, x,
                      (dpti_cut){.axis = axis, .begin = n - 1, .count = n, .step = -1});
}

/* Sums of 1, 2, 4, ... elements, so that n elements take log2(n) additions. */
static dpt_status import_cumulative_sum(dpti_importer *im)
{
    dpt_value x;
    double given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_number(im, 1, 0, &given));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    /* Any number of the file, also one that is no int64_t. */
    const size_t axis = fabs(given) <= (double)rank ? dpti_import_axis((int64_t)given, rank) : rank;
    if (axis >= rank)
        return dpti_import_refuse(im, DPT_E_INVALID,
                                  "axis %g is none of its %zu axes; correct input 1", given, rank);
    const size_t n = extent_of(im, x, axis);
    const bool reversed = dpti_onnx_int(im->node, "reverse", 0) != 0;
    if (reversed) x = reverse(im, x, axis);
    if (dpti_onnx_int(im->node, "exclusive", 0) != 0) x = move(im, x, axis, 1);
    for (size_t distance = 1; distance < n; distance *= 2)
        x = dpti_formula(im->model, "a + b", (dpt_value[]){x, move(im, x, axis, distance)}, 2);
    if (reversed) x = reverse(im, x, axis);
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* x with the reduced axes behind the others, as one axis. */
static dpt_value put_last(dpti_importer *im, dpt_value x, uint32_t axes)
{
    const dpti_extents from = dpti_extents_of(im->model, x);
    size_t order[DPT_MAX_RANK] = {0}, n = 0;
    dpti_extents to = {.rank = 0};
    for (size_t i = 0; i < from.rank; i++)
        if (!(axes >> i & 1)) {
            to.extent[to.rank++] = from.extent[i];
            order[n++] = i;
        }
    to.extent[to.rank] = 1;
    for (size_t i = 0; i < from.rank; i++)
        if (axes >> i & 1) {
            to.extent[to.rank] *= from.extent[i];
            order[n++] = i;
        }
    to.rank++;
    return dpti_reshape(im->model, dpti_transpose(im->model, x, order), &to);
}

/* The product of the elements along the last axis.  The first half is multiplied by the second, and
   so on: the gradient of a factor is then a product of the others, also if the factor is 0. */
static dpt_value multiply_all(dpti_importer *im, dpt_value x)
{
    if (!x.id) return x;
    const size_t last = dpti_extents_of(im->model, x).rank - 1;
    size_t n = extent_of(im, x, last);
    while (n > 1 && x.id) {
        const size_t half = (n + 1) / 2;
        if (n % 2) {
            dpti_padding one = {.fill = 1};
            one.after[last] = 1;
            x = dpti_pad(im->model, x, &one);
        }
        dpti_cut cut = {.axis = last, .count = half, .step = 1};
        const dpt_value a = dpti_slice(im->model, x, cut);
        cut.begin = half;
        const dpt_value b = dpti_slice(im->model, x, cut);
        x = dpti_formula(im->model, "a * b", (dpt_value[]){a, b}, 2);
        n = half;
    }
    return x;
}

dpt_value dpti_import_multiply_along(dpti_importer *im, dpt_value x, size_t axis)
{
    if (!x.id) return x;
    const dpt_value y = multiply_all(im, put_last(im, x, 1u << axis));
    return y.id ? dpti_import_drop_axis(im, y, dpti_extents_of(im->model, y).rank - 1) : y;
}

static dpt_status import_product_over_axes(dpti_importer *im)
{
    dpt_value x;
    uint32_t axes;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_reduced_axes(im, dpti_extents_of(im->model, x).rank, &axes));
    if (axes) x = multiply_all(im, put_last(im, x, axes));
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_cumulations[] = {
    {"CumSum", import_cumulative_sum},
    {"ReduceProd", import_product_over_axes},
    {NULL, NULL},
};
