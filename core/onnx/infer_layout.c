/* Operators that move elements, and those that make values from shapes. */
#include "onnx/infer_state.h"

#include <string.h>

/* ---- New shapes of the same elements --------------------------------------------------------- */

static dpt_status fail_reshape(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                               dpt_error *error)
{
    char from_text[128], to_text[128];
    dpti_onnx_print_shape(&dpti_onnx_input(in, 0)->shape, from_text, sizeof from_text);
    dpti_onnx_print_shape(to, to_text, sizeof to_text);
    return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                            "%s cannot become %s for every batch; export with the batch extent "
                            "free",
                            from_text, to_text);
}

/* Gives the extent `open` what the others leave.  false if that is no extent. */
static bool fill_open(const dpti_onnx_shape *from, dpti_onnx_shape *to, size_t open)
{
    dpti_onnx_product all, others;
    if (!dpti_onnx_elements(from, &all)) return false;
    if (open < to->rank) {
        to->dims[open] = (dpti_onnx_dim){1, false};
        if (!dpti_onnx_elements(to, &others) || others.size == 0 || all.size % others.size ||
            all.power < others.power)
            return false;
        to->dims[open] = (dpti_onnx_dim){all.size / others.size, all.power > others.power};
    }
    return dpti_onnx_elements(to, &others) && others.size == all.size && others.power == all.power;
}

static dpt_status reshape(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const bool keeps_zero = dpti_onnx_int(in->node, "allowzero", 0) != 0;
    dpti_onnx_fact y = {.type = x->type, .shape = {.rank = list.n}};
    size_t open = SIZE_MAX;
    bool valid = list.n <= DPTI_ONNX_MAX_RANK;
    for (size_t d = 0; valid && d < list.n; d++) {
        const dpti_onnx_cell cell = list.cells[d];
        dpti_onnx_dim *dim = &y.shape.dims[d];
        if (cell.times == 0 && cell.fixed == -1) {
            valid = open == SIZE_MAX;
            open = d;
            *dim = (dpti_onnx_dim){1, false};
        } else if (cell.times == 0 && cell.fixed == 0 && !keeps_zero) {
            valid = d < x->shape.rank;
            if (valid) *dim = x->shape.dims[d];
        } else {
            valid = dpti_onnx_dim_of(cell, dim);
        }
    }
    if (!valid)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its new shape has extents that are neither fixed nor a multiple "
                                "of the batch's");
    if (!fill_open(&x->shape, &y.shape, open)) return fail_reshape(in, &y.shape, error);
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status flatten(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const int64_t given = dpti_onnx_int(in->node, "axis", 1);
    const size_t rank = x->shape.rank;
    const size_t axis = given == (int64_t)rank ? rank : dpti_onnx_axis(given, rank);
    dpti_onnx_fact y = {.type = x->type, .shape = {.rank = 2}};
    for (size_t side = 0; side < 2; side++) {
        dpti_onnx_shape part = {.rank = side ? rank - axis : axis};
        dpti_onnx_product n;
        memcpy(part.dims, x->shape.dims + (side ? axis : 0), part.rank * sizeof *part.dims);
        if (!dpti_onnx_elements(&part, &n))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its result is too large");
        y.shape.dims[side] = (dpti_onnx_dim){n.size, n.power > 0};
    }
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status squeeze(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_axes axes = {.rank = x->shape.rank};
    DPT_TRY(dpti_onnx_read_axes(in, 1, &axes, error));
    dpti_onnx_fact y = {.type = x->type};
    for (size_t d = 0; d < x->shape.rank; d++) {
        const dpti_onnx_dim dim = x->shape.dims[d];
        const bool is_one = dim.size == 1 && !dim.batch;
        if (axes.used[d] && !is_one)
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "axis %zu has not extent 1", d);
        if (!axes.used[d] && !(is_one && !axes.given)) y.shape.dims[y.shape.rank++] = dim;
    }
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status unsqueeze(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_axes axes = {.rank = x->shape.rank + list.n};
    if (axes.rank > DPTI_ONNX_MAX_RANK)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "more than %d dimensions",
                                DPTI_ONNX_MAX_RANK);
    DPT_TRY(dpti_onnx_read_axes(in, 1, &axes, error));
    dpti_onnx_fact y = {.type = x->type, .shape = {.rank = axes.rank}};
    for (size_t d = 0, from = 0; d < axes.rank; d++)
        y.shape.dims[d] = axes.used[d] ? (dpti_onnx_dim){1, false} : x->shape.dims[from++];
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Elements at other places ---------------------------------------------------------------- */

static dpt_status transpose(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const size_t rank = x->shape.rank;
    size_t n = 0;
    const int64_t *order = dpti_onnx_ints(in->node, "perm", &n);
    bool used[DPTI_ONNX_MAX_RANK] = {false};
    dpti_onnx_fact y = {.type = x->type, .shape = {.rank = rank}};
    for (size_t d = 0; d < rank && (!order || n == rank); d++) {
        const size_t from = order ? dpti_onnx_axis(order[d], rank) : rank - 1 - d;
        if (from == rank || used[from]) n = SIZE_MAX;
        if (n == SIZE_MAX) break;
        used[from] = true;
        y.shape.dims[d] = x->shape.dims[from];
    }
    if (order && n != rank)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "perm is no order of its %zu axes", rank);
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status expand(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_shape to = {.rank = list.n};
    bool valid = list.n <= DPTI_ONNX_MAX_RANK;
    for (size_t d = 0; valid && d < list.n; d++)
        valid = dpti_onnx_dim_of(list.cells[d], &to.dims[d]);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    if (!valid || !dpti_onnx_broadcast(&to, &y.shape))
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its input does not fit the shape to which it is expanded");
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status tile(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    if (list.n != x->shape.rank)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "%zu repeats for %zu axes", list.n,
                                x->shape.rank);
    for (size_t d = 0; d < list.n; d++) {
        dpti_onnx_dim times, *dim = &y.shape.dims[d];
        if (!dpti_onnx_dim_of(list.cells[d], &times) || (times.batch && dim->batch) ||
            __builtin_mul_overflow(dim->size, times.size, &dim->size))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "it cannot repeat axis %zu so",
                                    d);
        dim->batch = dim->batch || times.batch;
    }
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status concat(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, in->node->n_inputs ? in->node->n_inputs : 1, error));
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type};
    y.shape = dpti_onnx_input(in, 0)->shape;
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), y.shape.rank);
    bool fits = axis < y.shape.rank;
    for (size_t i = 1; fits && i < in->node->n_inputs; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        fits = x->shape.rank == y.shape.rank && x->type == y.type;
        for (size_t d = 0; fits && d < y.shape.rank; d++)
            fits = d == axis ? x->shape.dims[d].batch == y.shape.dims[d].batch
                             : dpti_onnx_same_dim(x->shape.dims[d], y.shape.dims[d]);
        int64_t *size = &y.shape.dims[axis].size;
        fits = fits && !__builtin_add_overflow(*size, x->shape.dims[axis].size, size);
    }
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "its inputs differ in type or in an axis that is not joined");
    return dpti_onnx_give(in, 0, &y, error);
}

/* The extents of the parts: from an input, from an attribute, or even. */
static dpt_status split(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 1, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->shape.rank);
    const size_t n = in->node->n_outputs;
    if (axis == x->shape.rank || (list.given && list.n != n))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its axis or its parts do not fit");
    const dpti_onnx_dim whole = x->shape.dims[axis];
    const int64_t even = whole.size / (int64_t)n + (whole.size % (int64_t)n != 0);
    int64_t left = whole.size;
    for (size_t k = 0; k < n; k++) {
        dpti_onnx_dim part = {even < left ? even : left, whole.batch};
        dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
        if (list.given && (!dpti_onnx_dim_of(list.cells[k], &part) || part.batch != whole.batch))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "it splits the batch, which is another one on each device");
        if (part.size > left) break;
        y.shape.dims[axis] = part;
        left -= part.size;
        DPT_TRY(dpti_onnx_give(in, k, &y, error));
    }
    if (left != 0)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its parts do not add up to the axis");
    return DPT_OK;
}

/* ---- Slice ----------------------------------------------------------------------------------- */

/* A position that counts from the end if it is negative, within [least, extent + least]. */
static bool position(dpti_onnx_cell at, dpti_onnx_dim extent, int64_t least, dpti_onnx_cell *out)
{
    const dpti_onnx_cell end = dpti_onnx_cell_of(extent), zero = {0};
    const int64_t beyond = INT32_MAX; /* so are written "to the end" and "to the beginning" */
    const dpti_onnx_cell first = {.fixed = least};
    dpti_onnx_cell last = end;
    last.fixed += least;
    if (at.times == 0 && (at.fixed >= beyond || at.fixed <= -beyond)) {
        *out = at.fixed > 0 ? last : first;
        return true;
    }
    const int sign = dpti_onnx_compare(at, zero);
    if (sign == 2) return false;
    if (sign < 0 && (__builtin_add_overflow(at.fixed, end.fixed, &at.fixed) ||
                     __builtin_add_overflow(at.times, end.times, &at.times)))
        return false;
    const int low = dpti_onnx_compare(at, first), high = dpti_onnx_compare(at, last);
    *out = low == -1 ? first : high == 1 ? last : at;
    return low != 2 && high != 2;
}

static bool slice_axis(const dpti_onnx_cell *range, int64_t step, dpti_onnx_slice *out, size_t d)
{
    dpti_onnx_cell start, end;
    dpti_onnx_dim *dim = &out->shape.dims[d];
    if (step == 0 || step == INT64_MIN) return false;
    const int64_t least = step < 0 ? -1 : 0;
    if (!position(range[0], *dim, least, &start) || !position(range[1], *dim, least, &end))
        return false;
    if (dim->batch) { /* multiples of N, of which the proof knows whether they are parts of samples
                       */
        out->start[d] = start.times;
        dim->size = end.times - start.times;
        return step == 1 && start.fixed == 0 && end.fixed == 0 && dim->size > 0;
    }
    if (start.times || end.times) return false;
    if (step < 0 && start.fixed == dim->size) start.fixed--;
    const int64_t distance = step > 0 ? end.fixed - start.fixed : start.fixed - end.fixed;
    const int64_t stride = step > 0 ? step : -step;
    out->start[d] = start.fixed;
    out->step[d] = step;
    dim->size = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    return true;
}

dpt_status dpti_onnx_read_slice(const dpti_onnx_inference *in, dpti_onnx_slice *out,
                                dpt_error *error)
{
    dpti_onnx_list starts, ends, axes, steps;
    DPT_TRY(dpti_onnx_need(in, 3, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &starts, error));
    DPT_TRY(dpti_onnx_read_list(in, 2, &ends, error));
    DPT_TRY(dpti_onnx_read_list(in, 3, &axes, error));
    DPT_TRY(dpti_onnx_read_list(in, 4, &steps, error));
    *out = (dpti_onnx_slice){.shape = dpti_onnx_input(in, 0)->shape};
    for (size_t d = 0; d < DPTI_ONNX_MAX_RANK; d++)
        out->step[d] = 1;
    const size_t rank = out->shape.rank, n = starts.n;
    if (ends.n != n || (axes.given && axes.n != n) || (steps.given && steps.n != n))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "starts, ends, axes and steps differ");
    for (size_t k = 0; k < n; k++) {
        const size_t d = dpti_onnx_axis(axes.given ? axes.cells[k].fixed : (int64_t)k, rank);
        const int64_t step = steps.given ? steps.cells[k].fixed : 1;
        const dpti_onnx_cell range[2] = {starts.cells[k], ends.cells[k]};
        if (d == rank || (steps.given && steps.cells[k].times))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its axes or steps do not fit");
        if (!slice_axis(range, step, out, d))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "the part that it takes of axis %zu depends on the batch's "
                                    "extent, or is a part of the batch",
                                    d);
    }
    return DPT_OK;
}

static dpt_status slice(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_slice s;
    DPT_TRY(dpti_onnx_read_slice(in, &s, error));
    const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type, .shape = s.shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Elements by index ----------------------------------------------------------------------- */

static dpt_status gather(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape, *at = &dpti_onnx_input(in, 1)->shape;
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->rank);
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type};
    if (axis == x->rank || x->rank - 1 + at->rank > DPTI_ONNX_MAX_RANK)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its axis or the ranks do not fit");
    for (size_t d = 0; d < axis; d++)
        y.shape.dims[y.shape.rank++] = x->dims[d];
    for (size_t d = 0; d < at->rank; d++)
        y.shape.dims[y.shape.rank++] = at->dims[d];
    for (size_t d = axis + 1; d < x->rank; d++)
        y.shape.dims[y.shape.rank++] = x->dims[d];
    return dpti_onnx_give(in, 0, &y, error);
}

/* Each row of indices names a part of the data by the axes behind the `batch_dims` axes that both
   have in common. */
static dpt_status gather_nd(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape, *at = &dpti_onnx_input(in, 1)->shape;
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type};
    const int64_t common = dpti_onnx_int(in->node, "batch_dims", 0);
    const dpti_onnx_dim row = at->rank > 0 ? at->dims[at->rank - 1] : (dpti_onnx_dim){0};
    bool fits = common >= 0 && common < (int64_t)x->rank && common < (int64_t)at->rank;
    for (size_t d = 0; fits && d < (size_t)common; d++)
        fits = dpti_onnx_same_dim(x->dims[d], at->dims[d]);
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "batch_dims does not fit its data and its indices");
    const int64_t left = (int64_t)x->rank - common;
    if (row.batch || row.size < 1 || row.size > left ||
        at->rank - 1 + (size_t)(left - row.size) > DPTI_ONNX_MAX_RANK)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its indices do not fit its data");
    for (size_t d = 0; d + 1 < at->rank; d++)
        y.shape.dims[y.shape.rank++] = at->dims[d];
    for (size_t d = (size_t)(common + row.size); d < x->rank; d++)
        y.shape.dims[y.shape.rank++] = x->dims[d];
    return dpti_onnx_give(in, 0, &y, error);
}

/* The result has the shape of the indices. */
static dpt_status gather_elements(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0), *at = dpti_onnx_input(in, 1);
    if (x->shape.rank != at->shape.rank)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its inputs have different ranks");
    const dpti_onnx_fact y = {.type = x->type, .shape = at->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* The result has the shape of the data. */
static dpt_status scatter(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* Updates have an element for each row of indices and each element of the part that it names. */
static dpt_status scatter_nd(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape, *at = &dpti_onnx_input(in, 1)->shape,
                          *from = &dpti_onnx_input(in, 2)->shape;
    const dpti_onnx_dim row = at->rank > 0 ? at->dims[at->rank - 1] : (dpti_onnx_dim){0};
    bool fits = at->rank > 0 && !row.batch && row.size >= 1 && row.size <= (int64_t)x->rank &&
                from->rank == at->rank - 1 + x->rank - (size_t)row.size;
    for (size_t d = 0; fits && d < from->rank; d++)
        fits = dpti_onnx_same_dim(from->dims[d],
                                  d + 1 < at->rank ? at->dims[d]
                                                   : x->dims[d + 1 - at->rank + (size_t)row.size]);
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "its indices and updates do not fit its data");
    return scatter(in, error);
}

static dpt_status one_hot(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list depth;
    DPT_TRY(dpti_onnx_need(in, 3, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &depth, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 2)->type, .shape = {.rank = x->rank + 1}};
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", -1), y.shape.rank);
    if (axis == y.shape.rank || y.shape.rank > DPTI_ONNX_MAX_RANK || depth.n != 1 ||
        depth.cells[0].times)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "its axis or depth does not fit");
    for (size_t d = 0, from = 0; d < y.shape.rank; d++)
        y.shape.dims[d] =
            d == axis ? (dpti_onnx_dim){depth.cells[0].fixed, false} : x->dims[from++];
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status pad(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list pads, list;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &pads, error));
    DPT_TRY(dpti_onnx_read_list(in, 3, &list, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const size_t n = list.given ? list.n : x->shape.rank;
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    if (pads.n != 2 * n)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "%zu pads for %zu axes", pads.n, n);
    for (size_t k = 0; k < n; k++) {
        const size_t d =
            dpti_onnx_axis(list.given ? list.cells[k].fixed : (int64_t)k, y.shape.rank);
        const dpti_onnx_cell before = pads.cells[k], behind = pads.cells[n + k];
        int64_t sum = 0;
        if (d == y.shape.rank || before.times || behind.times ||
            __builtin_add_overflow(before.fixed, behind.fixed, &sum))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "its pads do not fit");
        if (y.shape.dims[d].batch && (before.fixed || behind.fixed))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "it adds samples to the batch or takes some away");
        if (__builtin_add_overflow(y.shape.dims[d].size, sum, &y.shape.dims[d].size))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its result is too large");
    }
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Values from shapes ---------------------------------------------------------------------- */

static dpt_status shape(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const int64_t rank = (int64_t)dpti_onnx_input(in, 0)->shape.rank;
    int64_t start = dpti_onnx_int(in->node, "start", 0), end = dpti_onnx_int(in->node, "end", rank);
    if (start < 0) start = start < -rank ? 0 : start + rank;
    if (end < 0) end = end < -rank ? 0 : end + rank;
    if (end > rank) end = rank;
    dpti_onnx_fact y = {.type = DPTI_ONNX_INT64, .shape = {.rank = 1}};
    y.shape.dims[0].size = end > start ? end - start : 0;
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status size(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    return dpti_onnx_give(in, 0, &(dpti_onnx_fact){.type = DPTI_ONNX_INT64}, error);
}

static dpt_status constant(dpti_onnx_inference *in, dpt_error *error)
{
    static const struct {
        const char *name;
        dpti_onnx_type type;
        size_t rank;
    } kinds[] = {{"value_float", DPTI_ONNX_FLOAT, 0},
                 {"value_floats", DPTI_ONNX_FLOAT, 1},
                 {"value_int", DPTI_ONNX_INT64, 0},
                 {"value_ints", DPTI_ONNX_INT64, 1}};
    const dpti_onnx_attribute *found = dpti_onnx_find(in->node, "value");
    dpti_onnx_fact y = {.type = DPTI_ONNX_UNKNOWN};
    if (found && found->tensor) {
        y.type = found->tensor->type;
        y.shape.rank = found->tensor->rank;
        for (size_t d = 0; d < y.shape.rank; d++)
            y.shape.dims[d].size = found->tensor->extents[d];
        return dpti_onnx_give(in, 0, &y, error);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        found = dpti_onnx_find(in->node, kinds[k].name);
        if (!found) continue;
        y.type = kinds[k].type;
        y.shape.rank = kinds[k].rank;
        y.shape.dims[0].size = (int64_t)found->n;
        return dpti_onnx_give(in, 0, &y, error);
    }
    return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "a constant of this kind is not taken");
}

static dpt_status constant_of_shape(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_need(in, 1, error));
    DPT_TRY(dpti_onnx_read_list(in, 0, &list, error));
    const dpti_onnx_attribute *found = dpti_onnx_find(in->node, "value");
    dpti_onnx_fact y = {.type = DPTI_ONNX_FLOAT, .shape = {.rank = list.n}};
    if (found && found->tensor) y.type = found->tensor->type;
    bool valid = list.n <= DPTI_ONNX_MAX_RANK;
    for (size_t d = 0; valid && d < list.n; d++)
        valid = dpti_onnx_dim_of(list.cells[d], &y.shape.dims[d]);
    if (!valid)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its shape has extents that are neither fixed nor a multiple of "
                                "the batch's");
    return dpti_onnx_give(in, 0, &y, error);
}

/* Whether a Range makes the numbers from 0 to a multiple of N. */
static bool counts_batch(const dpti_onnx_inference *in)
{
    static const int64_t fixed[3] = {0, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (dpti_onnx_type_is_real(x->type) || !x->cells || x->n_cells != 1 ||
            x->cells->fixed != fixed[i] || (i == 1 ? x->cells->times < 1 : x->cells->times != 0))
            return false;
    }
    return true;
}

static dpt_status range(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const dpti_onnx_fact *f[3];
    bool known = true;
    if (counts_batch(in)) {
        const dpti_onnx_dim all = {dpti_onnx_input(in, 1)->cells->times, true};
        const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type,
                                  .shape = {.rank = 1, .dims = {all}}};
        return dpti_onnx_give(in, 0, &y, error);
    }
    for (size_t i = 0; i < 3; i++) {
        f[i] = dpti_onnx_input(in, i);
        known = known && f[i]->cells && f[i]->n_cells == 1 && f[i]->cells[0].times == 0;
    }
    if (!known)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "the numbers that it makes depend on the batch's extent or are "
                                "not known before training");
    dpti_onnx_fact y = {.type = f[0]->type, .shape = {.rank = 1}};
    if (dpti_onnx_type_is_real(y.type)) {
        const double n = (f[1]->cells->real - f[0]->cells->real) / f[2]->cells->real;
        if (!(n < 1e9)) return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "it has no end");
        y.shape.dims[0].size = n > 0 ? (int64_t)n + (n > (double)(int64_t)n) : 0;
        return dpti_onnx_give(in, 0, &y, error);
    }
    const int64_t step = f[2]->cells->fixed;
    int64_t distance;
    if (step == 0 || step == INT64_MIN ||
        __builtin_sub_overflow(f[1]->cells->fixed, f[0]->cells->fixed, &distance) ||
        distance == INT64_MIN)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "it has no end");
    if (step < 0) distance = -distance;
    const int64_t stride = step < 0 ? -step : step;
    y.shape.dims[0].size = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    return dpti_onnx_give(in, 0, &y, error);
}

/* The diagonal of a matrix of that shape. */
static dpt_status eye_like(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const int64_t type = dpti_onnx_int(in->node, "dtype", (int64_t)x->type);
    const dpti_onnx_fact y = {.type = (dpti_onnx_type)type, .shape = x->shape};
    if (x->shape.rank != 2 || x->shape.dims[0].batch || x->shape.dims[1].batch)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its input must be a matrix whose rows and columns are no samples");
    if (dpti_onnx_type_bytes(type) == 0)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "the element type %lld is not taken",
                                (long long)type);
    return dpti_onnx_give(in, 0, &y, error);
}

/* How many places there are is a question of the content. */
static dpt_status non_zero(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = DPTI_ONNX_INT64, .shape = {.rank = 2}};
    y.shape.dims[0].size = (int64_t)x->shape.rank;
    if (!x->cells || x->parameter)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "the shape of its result depends on the content of an input; only "
                                "constants are taken");
    const bool real = dpti_onnx_type_is_real(x->type);
    for (size_t i = 0; i < x->n_cells; i++) {
        if (x->cells[i].times)
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "it depends on the batch's extent");
        y.shape.dims[1].size += real ? x->cells[i].real != 0 : x->cells[i].fixed != 0;
    }
    return dpti_onnx_give(in, 0, &y, error);
}

/* Whole elements: the same shape and type. */
static dpt_status same(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type,
                              .shape = dpti_onnx_input(in, 0)->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* Pixels between the channels and the plane. */
static dpt_status depth_space(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const int64_t b = dpti_onnx_int(in->node, "blocksize", 0);
    const bool to_space = strcmp(in->node->op, "DepthToSpace") == 0;
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    dpti_onnx_dim *c = &y.shape.dims[1], *h = &y.shape.dims[2], *w = &y.shape.dims[3];
    if (x->shape.rank != 4 || b < 1 || b > 1024 ||
        (to_space ? c->size % (b * b) != 0 || h->size > INT32_MAX || w->size > INT32_MAX
                  : h->size % b != 0 || w->size % b != 0 || c->size > INT32_MAX))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its block size does not fit its input");
    c->size = to_space ? c->size / (b * b) : c->size * b * b;
    h->size = to_space ? h->size * b : h->size / b;
    w->size = to_space ? w->size * b : w->size / b;
    return dpti_onnx_give(in, 0, &y, error);
}

const dpti_onnx_operator dpti_onnx_layouts[] = {
    {"Concat", concat, SIZE_MAX},
    {"Constant", constant, 0},
    {"ConstantOfShape", constant_of_shape, 0},
    {"CumSum", same, 1},
    {"DepthToSpace", depth_space, 1},
    {"Expand", expand, 1},
    {"EyeLike", eye_like, 0},
    {"Flatten", flatten, 1},
    {"Gather", gather, 2},
    {"GatherElements", gather_elements, 2},
    {"GatherND", gather_nd, 2},
    {"NonZero", non_zero, 1},
    {"OneHot", one_hot, 1},
    {"Pad", pad, 1},
    {"Range", range, 0},
    {"Reshape", reshape, 1},
    {"ScatterElements", scatter, 3},
    {"ScatterND", scatter_nd, 3},
    {"Shape", shape, 0},
    {"Size", size, 0},
    {"Slice", slice, 1},
    {"SpaceToDepth", depth_space, 1},
    {"Split", split, 1},
    {"Squeeze", squeeze, 1},
    {"Tile", tile, 1},
    {"Transpose", transpose, 1},
    {"Trilu", same, 1},
    {"Unsqueeze", unsqueeze, 1},
    {NULL, NULL, 0},
};
