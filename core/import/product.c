/* Products of two values, and of a value with a constant matrix. */
#include "graph/product.h"

#include "graph/recurrent.h"
#include "import/state.h"

/* A product with a factor that is the same for all samples, or with many axes.  (..., m, k) times
   (..., k, n): both become (..., m, n, k), and the products are summed along the
   last axis. */
static dpt_value multiply(dpti_importer *im, dpt_value a, dpt_value b)
{
    dpti_extents left = dpti_extents_of(im->model, a), right = dpti_extents_of(im->model, b);
    size_t order[DPT_MAX_RANK];
    for (size_t i = 0; i < right.rank; i++)
        order[i] = i + 2 < right.rank ? i : 2 * right.rank - 3 - i;
    b = dpti_transpose(im->model, b, order);
    if (!b.id) return b;
    right = dpti_extents_of(im->model, b);
    left.extent[left.rank] = left.extent[left.rank - 1];
    left.extent[left.rank++ - 1] = 1;
    right.extent[right.rank] = right.extent[right.rank - 1];
    right.extent[right.rank - 1] = right.extent[right.rank - 2];
    right.extent[right.rank++ - 2] = 1;
    const dpt_value in[] = {dpti_reshape(im->model, a, &left), dpti_reshape(im->model, b, &right)};
    const size_t rank = left.rank > right.rank ? left.rank : right.rank;
    const dpti_map_code product = {.n_code = 3,
                                   .value = 2,
                                   .n_in = 2,
                                   .in = {0, 1},
                                   .code = {{.code = DPT_MAP_LOAD},
                                            {.code = DPT_MAP_LOAD, .index = 1},
                                            {.code = DPT_MAP_MULTIPLY, .a = 0, .b = 1}}};
    return dpti_map(im->model, &(dpti_mapping){.what = "product",
                                               .code = &product,
                                               .inputs = in,
                                               .n = 2,
                                               .reduced = 1u << (rank - 1),
                                               .reduction = DPT_REDUCE_SUM});
}

/* Whether b is a matrix that is the same for all samples, which a linear layer takes as its
 * weights.
 */
static bool is_projection(const dpti_importer *im, dpt_value a, dpt_value b)
{
    return a.id && b.id && !dpti_node_at(im->model, a)->unsampled &&
           dpti_node_at(im->model, b)->unsampled && !dpti_node_at(im->model, b)->integer &&
           !dpti_node_at(im->model, a)->integer && dpti_extents_of(im->model, b).rank == 2;
}

/* x times a matrix. */
static dpt_value project(dpti_importer *im, dpt_value x, dpt_value matrix)
{
    matrix = dpti_transpose(im->model, matrix, (const size_t[DPT_MAX_RANK]){1, 0});
    return dpti_projection(im->model, x, &(dpti_linear_values){.w = matrix});
}

dpt_value dpti_import_multiply(dpti_importer *im, dpt_value a, dpt_value b)
{
    if (im->model->status == DPT_OK && is_projection(im, a, b)) return project(im, a, b);
    return dpti_multiplies(im->model, a, b) ? dpti_product(im->model, a, b) : multiply(im, a, b);
}

/* A vector as a row (axis 0 is new) or as a column (axis 1 is new). */
static dpt_value as_matrix(dpti_importer *im, dpt_value x, size_t new_axis)
{
    const size_t n = dpti_extents_of(im->model, x).extent[0];
    const dpti_extents to = {.rank = 2, .extent = {new_axis ? n : 1, new_axis ? 1 : n}};
    return dpti_reshape(im->model, x, &to);
}

dpt_status dpti_import_product(dpti_importer *im)
{
    dpt_value a, b;
    DPT_TRY(dpti_import_input(im, 0, &a));
    DPT_TRY(dpti_import_input(im, 1, &b));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const size_t p = dpti_extents_of(im->model, a).rank, q = dpti_extents_of(im->model, b).rank;
    if (p < 1 || q < 1 || p >= DPT_MAX_RANK || q >= DPT_MAX_RANK)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only values of 1 to %d axes can be multiplied yet",
                                  DPT_MAX_RANK - 1);
    if (p == 1) a = as_matrix(im, a, 0);
    if (q == 1) b = as_matrix(im, b, 1);
    const dpt_value y = dpti_import_multiply(im, a, b);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, dpti_reshape(im->model, dpti_import_scaled(im, y), &to));
    return DPT_OK;
}

/* The axes of x: `axis` first, the others in the order in which they lie in memory, so that those
   of an image, whose channels are last in memory, can be merged without a copy. */
static void put_first(const dpti_shape *x, size_t axis, size_t order[DPT_MAX_RANK])
{
    order[0] = axis;
    for (size_t i = 0, n = 1; i < x->rank; i++) {
        if (i == axis) continue;
        size_t at = n++;
        for (; at > 1 && x->stride[order[at - 1]] < x->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

dpt_status dpti_import_combine(dpti_importer *im, const dpti_combination *c, dpt_value *x)
{
    *x = dpti_own_tensor(im->model, *x);
    DPT_TRY(dpti_import_check(im));
    const dpti_shape from = dpti_node_at(im->model, *x)->shape;
    const size_t n_in = from.extent[c->axis];
    size_t order[DPT_MAX_RANK] = {0}, back[DPT_MAX_RANK] = {0};
    put_first(&from, c->axis, order);
    dpti_extents merged = {.rank = 2, .extent = {n_in, 1}}, apart = {.rank = from.rank};
    for (size_t i = 0; i < from.rank; i++) {
        back[order[i]] = i;
        apart.extent[i] = i ? from.extent[order[i]] : c->n_out;
        if (i) merged.extent[1] *= apart.extent[i];
    }
    const dpti_extents matrix = {.rank = 2, .extent = {c->n_out, n_in}};
    dpt_value factor = dpti_add_constant(im->model, &matrix, c->weights);
    if (!dpti_node_at(im->model, *x)->unsampled) factor = dpti_for_each_sample(im->model, factor);
    *x = dpti_reshape(im->model, dpti_transpose(im->model, *x, order), &merged);
    DPT_TRY(dpti_import_check(im));
    *x = dpti_reshape(im->model, dpti_import_multiply(im, factor, *x), &apart);
    *x = dpti_transpose(im->model, *x, back);
    return dpti_import_check(im);
}
