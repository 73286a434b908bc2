/* Sequences of the public interface (sequence.h). */
#include "graph/sequence.h"

bool dpti_is_sequence(dpt_model *model, dpt_value x, const char *layer)
{
    const dpti_extent e = dpti_node_at(model, x)->extent;
    if (!e.flat && e.h == 1) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer %s: its input is no sequence; give it an image of height 1, whose "
                          "pixels are the places of the sequence",
                          layer);
    return false;
}

dpt_value dpti_rows_of_sequence(dpt_model *model, dpt_value x, const char *layer)
{
    static const size_t order[DPT_MAX_RANK] = {1, 2, 0};
    if (!dpti_usable(model, x, layer)) return (dpt_value){0};
    const dpti_extents e = dpti_extents_of(model, x);
    if (e.rank != 3 || e.extent[1] != 1)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: its input is no sequence; give it an image of height 1, "
                               "whose pixels are the places of the sequence, or a part of its "
                               "channels",
                               layer);
    x = dpti_transpose(model, x, order);
    return dpti_reshape(model, x, &(dpti_extents){.rank = 2, .extent = {e.extent[2], e.extent[0]}});
}

dpt_value dpti_as_sequence(dpt_model *model, dpt_value x)
{
    static const size_t order[DPT_MAX_RANK] = {1, 2, 0};
    const dpti_extent e = dpti_node_at(model, x)->extent;
    x = dpti_transpose(model, x, order);
    return dpti_reshape(model, x, &(dpti_extents){.rank = 2, .extent = {e.w, e.c}});
}

dpt_value dpti_sequence_as_image(dpt_model *model, dpt_value x)
{
    static const size_t order[DPT_MAX_RANK] = {2, 0, 1};
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    const dpti_extents row = {.rank = 3, .extent = {1, e.extent[0], e.extent[1]}};
    return dpti_as_image(model, dpti_transpose(model, dpti_reshape(model, x, &row), order));
}
