/* Values side by side, and values with a fill value around them. */
#include "export/state.h"

#include "graph/tensor.h"

#include <string.h>

/* The shape of a join, or of its input, without the axis of the batch. */
static dpti_shape without(const dpti_shape *shape, size_t spare)
{
    return spare < shape->rank ? dpti_export_drop(shape, spare) : *shape;
}

/* ---- Concatenation --------------------------------------------------------------------------- */

/* Whether the inputs follow one another along an axis. */
static bool follows(const dpti_exporter *e, const dpti_node *join, size_t axis)
{
    size_t at = 0;
    for (size_t k = 0; k < join->n_inputs; k++) {
        const dpti_shape *s = &e->model->nodes[join->inputs[k]].shape;
        if (join->join.offset[k] != at * (size_t)join->shape.stride[axis]) return false;
        for (size_t i = 0; i < s->rank; i++)
            if (i != axis && s->extent[i] != join->shape.extent[i]) return false;
        at += s->extent[axis];
    }
    return at == join->shape.extent[axis];
}

static dpt_status concatenate(dpti_exporter *e, size_t node, size_t axis)
{
    const dpti_node *n = &e->model->nodes[node];
    size_t spare = n->unsampled ? n->shape.rank : dpti_export_spare_axis(&n->shape);
    if (spare == axis) spare = n->shape.rank;
    dpti_draft_value *inputs[DPTI_NODE_INPUTS];
    dpti_onnx_type type = DPTI_ONNX_BOOL;
    for (size_t k = 0; k < n->n_inputs; k++) {
        const dpti_shape shape = without(&e->model->nodes[n->inputs[k]].shape, spare);
        const dpti_exported *found = dpti_export_reach(e, n->inputs[k], &shape);
        if (!found || found->value->type != DPTI_ONNX_BOOL) type = DPTI_ONNX_FLOAT;
    }
    for (size_t k = 0; k < n->n_inputs; k++) {
        const size_t input = n->inputs[k];
        const dpti_shape shape = without(&e->model->nodes[input].shape, spare);
        if (n->unsampled) {
            const dpti_exported *found = dpti_export_reach(e, input, &shape);
            inputs[k] = dpti_export_cast(e, found ? found->value : &e->draft->spare_value, type);
        } else {
            inputs[k] = dpti_export_take(e, input, (dpti_export_want){&shape, type});
        }
    }
    const dpti_shape shape = without(&n->shape, spare);
    dpti_draft_node *concat = dpti_draft_call(e->draft, "Concat", inputs, n->n_inputs);
    dpti_draft_int(concat, "axis", (int64_t)(axis - (spare < axis) + !n->unsampled));
    dpti_export_hold(e, node, concat->output, &shape);
    return DPT_OK;
}

/* ---- Padding --------------------------------------------------------------------------------- */

/* What is put around the elements of an axis, and between them. */
typedef struct frame {
    size_t before, after, gap;
} frame;

/* The frames of all axes.  The offset is a sum of strides: the largest stride comes first. */
static void find_frames(const dpti_node *join, const dpti_shape *from, frame frames[DPT_MAX_RANK])
{
    const dpti_shape *to = &join->shape;
    bool done[DPT_MAX_RANK] = {false};
    size_t rest = join->join.offset[0];
    for (size_t n = 0; n < to->rank; n++) {
        size_t axis = to->rank;
        for (size_t i = 0; i < to->rank; i++)
            if (!done[i] && (axis == to->rank || to->extent[axis] == 1 ||
                             (to->extent[i] > 1 && to->stride[i] > to->stride[axis])))
                axis = i;
        done[axis] = true;
        frame *f = &frames[axis];
        *f = (frame){.gap = 1};
        if (to->extent[axis] == 1) continue;
        f->before = rest / (size_t)to->stride[axis];
        rest -= f->before * (size_t)to->stride[axis];
        if (from->extent[axis] > 1) f->gap = (size_t)(join->join.step[axis] / to->stride[axis]);
        f->after = to->extent[axis] - f->before - (from->extent[axis] - 1) * f->gap - 1;
    }
}

/* What Pad puts before and after each axis of a value, the batch included. */
typedef struct padding {
    dpti_draft_integers before, after;
} padding;

static dpti_draft_value *pad(dpti_exporter *e, dpti_draft_value *x, const padding *p, float fill)
{
    dpti_draft_integers pads = p->before;
    for (size_t i = 0; i < p->after.n; i++)
        pads.items[pads.n++] = p->after.items[i];
    dpti_draft_value *const inputs[] = {x, dpti_draft_axes(e->draft, &pads),
                                        dpti_draft_number(e->draft, fill)};
    dpti_draft_node *node = dpti_draft_call(e->draft, "Pad", inputs, 3);
    return node->output;
}

/* A value with gap - 1 fill values behind every element of an axis: (..., n, ...) becomes
   (..., n, 1, ...), is padded, and becomes (..., n * gap, ...). */
typedef struct spread {
    dpti_extents extents; /* of the value, and then of the result */
    size_t axis, gap;
    bool batched;
    float fill;
} spread;

static dpti_draft_value *spread_out(dpti_exporter *e, dpti_draft_value *x, spread *s)
{
    dpti_extents apart = {.rank = s->extents.rank + 1};
    padding p = {.before = {.n = s->batched + apart.rank}};
    p.after = p.before;
    for (size_t i = 0; i < apart.rank; i++)
        apart.extent[i] =
            i <= s->axis ? s->extents.extent[i] : (i == s->axis + 1 ? 1 : s->extents.extent[i - 1]);
    p.after.items[s->batched + s->axis + 1] = (int64_t)s->gap - 1;
    x = pad(e, dpti_export_reshape(e, x, s->batched, &apart), &p, s->fill);
    s->extents.extent[s->axis] *= s->gap;
    return dpti_export_reshape(e, x, s->batched, &s->extents);
}

/* Cuts off the fill values behind the last element. */
static dpti_draft_value *cut_tail(dpti_exporter *e, dpti_draft_value *x, const spread *s)
{
    const int64_t axis = (int64_t)(s->axis + s->batched);
    const int64_t end = (int64_t)(s->extents.extent[s->axis] - s->gap + 1);
    dpti_draft_value *const inputs[] = {
        x, dpti_draft_axes(e->draft, &(dpti_draft_integers){.n = 1}),
        dpti_draft_axes(e->draft, &(dpti_draft_integers){.n = 1, .items = {end}}),
        dpti_draft_axes(e->draft, &(dpti_draft_integers){.n = 1, .items = {axis}})};
    return dpti_draft_call(e->draft, "Slice", inputs, 4)->output;
}

static dpt_status surround(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_shape *from = &e->model->nodes[n->inputs[0]].shape;
    const bool batched = !n->unsampled;
    const size_t spare = batched ? dpti_export_spare_axis(&n->shape) : n->shape.rank;
    const dpti_shape input = without(from, spare), shape = without(&n->shape, spare);
    frame frames[DPT_MAX_RANK];
    padding p = {.before = {.n = batched}};
    find_frames(n, from, frames);
    const dpti_exported *found = dpti_export_reach(e, n->inputs[0], &input);
    if (!found) return dpti_export_refuse(e, node, "its input cannot be written");
    dpti_draft_value *x = dpti_export_cast(e, found->value, DPTI_ONNX_FLOAT);
    spread s = {.extents = dpti_shape_extents(&input), .batched = batched, .fill = n->join.fill};
    p.after = p.before;
    for (size_t i = 0, k = 0; i < n->shape.rank; i++) {
        if (i == spare) continue;
        s.axis = k++;
        s.gap = frames[i].gap;
        if (s.gap > 1) {
            if (s.extents.rank == DPT_MAX_RANK)
                return dpti_export_refuse(e, node, "gaps in a value with 8 axes");
            x = spread_out(e, x, &s);
            x = cut_tail(e, x, &s);
            s.extents.extent[s.axis] -= s.gap - 1;
        }
        p.before.items[p.before.n++] = (int64_t)frames[i].before;
        p.after.items[p.after.n++] = (int64_t)frames[i].after;
    }
    dpti_export_hold(e, node, pad(e, x, &p, n->join.fill), &shape);
    return DPT_OK;
}

dpt_status dpti_export_join(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    if (n->join.fills) return surround(e, node);
    for (size_t axis = 0; axis < n->shape.rank; axis++)
        if (follows(e, n, axis)) return concatenate(e, node, axis);
    return dpti_export_refuse(e, node, "its inputs do not lie along one axis");
}
