/* Sums of formulas along an axis, and what their formulas read. */
#include "import/state.h"

#include <stdlib.h>

dpt_value dpti_import_insert_axis(dpti_importer *im, dpt_value x, size_t at)
{
    if (!x.id) return x;
    const dpti_extents from = dpti_extents_of(im->model, x);
    dpti_extents to = {.rank = from.rank + 1};
    for (size_t i = 0; i < to.rank; i++)
        to.extent[i] = i < at ? from.extent[i] : i == at ? 1 : from.extent[i - 1];
    return dpti_reshape(im->model, x, &to);
}

dpt_value dpti_import_drop_axis(dpti_importer *im, dpt_value x, size_t axis)
{
    if (!x.id) return x;
    const dpti_extents from = dpti_extents_of(im->model, x);
    dpti_extents to = {.rank = from.rank - 1};
    for (size_t i = 0; i < to.rank; i++)
        to.extent[i] = from.extent[i < axis ? i : i + 1];
    return dpti_reshape(im->model, x, &to);
}

dpt_value dpti_import_count(dpti_importer *im, size_t rank, size_t axis, size_t n)
{
    dpti_extents extents = {.rank = rank};
    for (size_t i = 0; i < rank; i++)
        extents.extent[i] = i == axis ? n : 1;
    if (n > DPTI_MAX_EXTENT)
        return DPTI_MODEL_FAIL(im->model, DPT_E_UNSUPPORTED,
                               "an axis of %zu elements is longer than %d", n, DPTI_MAX_EXTENT);
    float *numbers = malloc((n + 1) * sizeof *numbers);
    if (!numbers)
        return DPTI_MODEL_FAIL(im->model, DPT_E_NO_MEMORY, "no memory for model %s",
                               im->model->name);
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)i;
    const dpt_value x = dpti_add_constant(im->model, &extents, numbers);
    free(numbers);
    return x;
}

dpt_value dpti_import_as_integers(dpti_importer *im, dpt_value x)
{
    if (!x.id) return x;
    dpti_node *node = &im->model->nodes[x.id - 1];
    node->integer = true;
    node->forward.u.map.out[0].type = DPT_I32;
    return x;
}

dpt_value dpti_import_sum(dpti_importer *im, const dpti_sum *sum)
{
    dpti_map_code code;
    dpt_error error = {.status = DPT_OK};
    if (im->model->status != DPT_OK) return (dpt_value){0};
    if (dpti_map_parse(sum->formula, sum->n, &code, &error) != DPT_OK)
        return DPTI_MODEL_FAIL(im->model, DPT_E_INVALID, "sum of \"%.80s\": %.300s", sum->formula,
                               error.message);
    dpt_value y = dpti_map(im->model, &(dpti_mapping){.what = "sum",
                                                      .code = &code,
                                                      .inputs = sum->inputs,
                                                      .n = sum->n,
                                                      .reduced = 1u << sum->axis,
                                                      .reduction = DPT_REDUCE_SUM});
    if (sum->integer) y = dpti_import_as_integers(im, y);
    return sum->keeps_axis ? y : dpti_import_drop_axis(im, y, sum->axis);
}
