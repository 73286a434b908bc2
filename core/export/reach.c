/* Values in other shapes: which operators make one view of a node's memory of another. */
#include "export/state.h"

#include "graph/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- Shapes ---------------------------------------------------------------------------------- */

dpti_shape dpti_export_drop(const dpti_shape *shape, size_t axis)
{
    dpti_shape s = {.offset = shape->offset};
    for (size_t i = 0; i < shape->rank; i++) {
        if (i == axis) continue;
        s.extent[s.rank] = shape->extent[i];
        s.stride[s.rank++] = shape->stride[i];
    }
    return s;
}

size_t dpti_export_spare_axis(const dpti_shape *shape)
{
    for (size_t i = 0; i + 1 < shape->rank; i++)
        if (shape->extent[i] == 1) return i;
    return shape->rank;
}

dpti_shape dpti_export_image(const dpti_extent *extent)
{
    return (dpti_shape){
        .rank = 3,
        .extent = {extent->c, extent->h, extent->w},
        .stride = {1, (int32_t)(extent->w * extent->c), (int32_t)extent->c},
    };
}

/* The input has the axes of the file; ids of a model that was built have one axis. */
static dpti_shape shape_of_input(const dpt_model *model, const dpti_node *node)
{
    const dpti_extents *file = &model->file_input.extents;
    dpti_shape s = node->shape;
    if (file->rank > 0 && (file->rank != 4 || node->integer)) {
        s = dpti_shape_dense(file);
        return dpti_export_drop(&s, model->file_input.batch_axis);
    }
    if (node->integer) s = (dpti_shape){.rank = 1, .extent = {node->elements}, .stride = {1}};
    return s;
}

dpti_shape dpti_export_shape(const dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    if (n->kind == DPTI_NODE_INPUT) return shape_of_input(e->model, n);
    if (!n->has_shape || n->unsampled) return n->shape;
    return dpti_export_drop(&n->shape, dpti_export_spare_axis(&n->shape));
}

/* The shape without axes of one element. */
static dpti_shape squeeze(const dpti_shape *shape)
{
    dpti_shape s = {.offset = shape->offset};
    for (size_t i = 0; i < shape->rank; i++) {
        if (shape->extent[i] == 1) continue;
        s.extent[s.rank] = shape->extent[i];
        s.stride[s.rank++] = shape->stride[i];
    }
    return s;
}

/* ---- Values that are held -------------------------------------------------------------------- */

static const dpti_exported *hold(dpti_exporter *e, size_t root, dpti_exported held)
{
    dpti_exported *item = dpti_onnx_take(&e->draft->arena, 1, sizeof *item);
    dpti_exported **end = &e->held[root];
    if (!item) {
        e->draft->status = DPT_E_NO_MEMORY;
        return e->held[root];
    }
    while (*end)
        end = &(*end)->next;
    *item = held;
    item->next = NULL;
    *end = item;
    return item;
}

bool dpti_export_is_common(const dpti_exporter *e, size_t node)
{
    return e->common[node];
}

void dpti_export_hold(dpti_exporter *e, size_t node, dpti_draft_value *value,
                      const dpti_shape *shape)
{
    (void)hold(e, node,
               (dpti_exported){
                   .value = value, .shape = *shape, .batched = !dpti_export_is_common(e, node)});
}

dpti_draft_value *dpti_export_reshape(dpti_exporter *e, dpti_draft_value *x, bool batched,
                                      const dpti_extents *extents)
{
    dpti_draft_integers to = {.n = batched}; /* 0 keeps the batch */
    for (size_t i = 0; i < extents->rank; i++)
        to.items[to.n++] = (int64_t)extents->extent[i];
    return dpti_draft_binary(e->draft, "Reshape", x, dpti_draft_axes(e->draft, &to));
}

dpti_draft_value *dpti_export_fold(dpti_exporter *e, dpti_draft_value *x,
                                   const dpti_extents *extents)
{
    dpti_draft_integers to = {.n = 1, .items = {-1}};
    for (size_t i = 0; i < extents->rank; i++)
        to.items[to.n++] = (int64_t)extents->extent[i];
    return dpti_draft_binary(e->draft, "Reshape", x, dpti_draft_axes(e->draft, &to));
}

dpti_draft_value *dpti_export_permute(dpti_exporter *e, dpti_draft_value *x,
                                      const dpti_draft_integers *order)
{
    dpti_draft_node *node = dpti_draft_call(e->draft, "Transpose", &x, 1);
    dpti_draft_ints(e->draft, node, "perm", order);
    return node->output;
}

/* ---- One operator ---------------------------------------------------------------------------- */

/* Each of these adds the operator that makes `wanted` of a value, and returns the result; NULL if
   it is not the right operator. */
typedef dpti_draft_value *step(dpti_exporter *e, const dpti_exported *from,
                               const dpti_shape *wanted);

static dpti_draft_value *by_reshape(dpti_exporter *e, const dpti_exported *from,
                                    const dpti_shape *wanted)
{
    const dpti_extents extents = dpti_shape_extents(wanted);
    dpti_shape s;
    if (!dpti_shape_reshape(&from->shape, &extents, &s) || !dpti_shape_same(&s, wanted))
        return NULL;
    return dpti_export_reshape(e, from->value, from->batched, &extents);
}

static dpti_draft_value *by_transpose(dpti_exporter *e, const dpti_exported *from,
                                      const dpti_shape *wanted)
{
    const dpti_shape *s = &from->shape;
    bool used[DPT_MAX_RANK] = {false};
    dpti_draft_integers order = {.n = from->batched};
    if (s->rank != wanted->rank || s->offset != wanted->offset) return NULL;
    for (size_t j = 0; j < wanted->rank; j++) {
        size_t i = 0;
        while (i < s->rank && (used[i] || s->extent[i] != wanted->extent[j] ||
                               (s->extent[i] > 1 && s->stride[i] != wanted->stride[j])))
            i++;
        if (i == s->rank) return NULL;
        used[i] = true;
        order.items[order.n++] = (int64_t)(i + from->batched);
    }
    return dpti_export_permute(e, from->value, &order);
}

/* The axis that has the largest stride of those that are not done. */
static size_t next_axis(const dpti_shape *s, const bool done[DPT_MAX_RANK])
{
    size_t best = s->rank;
    for (size_t i = 0; i < s->rank; i++)
        if (!done[i] && s->extent[i] > 1 && s->stride[i] > 0 &&
            (best == s->rank || s->stride[i] > s->stride[best]))
            best = i;
    return best;
}

/* What a slice takes of an axis. */
typedef struct cut {
    int64_t begin, end, step;
} cut;

/* The cut of every axis; false if `wanted` is no slice. */
static bool find_cuts(const dpti_shape *s, const dpti_shape *wanted, cut cuts[DPT_MAX_RANK])
{
    bool done[DPT_MAX_RANK] = {false};
    int64_t rest = (int64_t)wanted->offset - (int64_t)s->offset;
    if (s->rank != wanted->rank || rest < 0) return false;
    for (size_t i = 0; i < s->rank; i++) {
        const int32_t stride = s->stride[i];
        cuts[i] = (cut){0, (int64_t)s->extent[i], 1};
        if (wanted->extent[i] > s->extent[i]) return false;
        if (wanted->extent[i] > 1 && (stride == 0 || wanted->stride[i] % stride != 0)) return false;
        if (wanted->extent[i] > 1) cuts[i].step = wanted->stride[i] / stride;
        if (cuts[i].step == 0) return false; /* one element is repeated */
    }
    for (size_t i; (i = next_axis(s, done)) < s->rank;) {
        const int64_t stride = s->stride[i], n = (int64_t)wanted->extent[i];
        done[i] = true;
        cuts[i].begin = rest / stride;
        if (cuts[i].begin >= (int64_t)s->extent[i]) return false;
        rest -= cuts[i].begin * stride;
        cuts[i].end = cuts[i].begin + (n - 1) * cuts[i].step;
        if (cuts[i].end < 0 || cuts[i].end >= (int64_t)s->extent[i]) return false;
        cuts[i].end += cuts[i].step > 0 ? 1 : -1;
        if (cuts[i].end < 0) cuts[i].end = INT32_MIN; /* before the first element */
    }
    return rest == 0;
}

static dpti_draft_value *by_slice(dpti_exporter *e, const dpti_exported *from,
                                  const dpti_shape *wanted)
{
    cut cuts[DPT_MAX_RANK];
    dpti_draft_integers begins = {.n = 0}, ends = begins, axes = begins, steps = begins;
    if (!find_cuts(&from->shape, wanted, cuts)) return NULL;
    for (size_t i = 0; i < wanted->rank; i++) {
        const cut *c = &cuts[i];
        if (c->begin == 0 && c->step == 1 && c->end == (int64_t)from->shape.extent[i]) continue;
        begins.items[begins.n++] = c->begin;
        ends.items[ends.n++] = c->end;
        axes.items[axes.n++] = (int64_t)(i + from->batched);
        steps.items[steps.n++] = c->step;
    }
    dpti_draft_value *const inputs[] = {
        from->value, dpti_draft_axes(e->draft, &begins), dpti_draft_axes(e->draft, &ends),
        dpti_draft_axes(e->draft, &axes), dpti_draft_axes(e->draft, &steps)};
    return dpti_draft_call(e->draft, "Slice", inputs, 5)->output;
}

static dpti_draft_value *by_expand(dpti_exporter *e, const dpti_exported *from,
                                   const dpti_shape *wanted)
{
    const dpti_extents own = dpti_shape_extents(&from->shape), to = dpti_shape_extents(wanted);
    dpti_extents both = to;
    dpti_draft_value *x = from->value;
    dpti_draft_integers extents = {.n = from->batched, .items = {1}};
    if (own.rank > to.rank || !dpti_broadcast_extents(&own, &both) ||
        memcmp(both.extent, to.extent, to.rank * sizeof *to.extent) != 0)
        return NULL;
    const dpti_shape s = dpti_shape_broadcast(&from->shape, &to);
    if (!dpti_shape_same(&s, wanted)) return NULL;
    if (from->batched && own.rank < to.rank) {
        dpti_extents padded = {.rank = to.rank};
        for (size_t i = 0; i < to.rank; i++)
            padded.extent[i] = i + own.rank < to.rank ? 1 : own.extent[i + own.rank - to.rank];
        x = dpti_export_reshape(e, x, true, &padded);
    }
    for (size_t i = 0; i < to.rank; i++)
        extents.items[extents.n++] = (int64_t)to.extent[i];
    return dpti_draft_binary(e->draft, "Expand", x, dpti_draft_axes(e->draft, &extents));
}

/* Makes `wanted` of one of the values that are held; NULL if none is near enough. */
static const dpti_exported *find(dpti_exporter *e, size_t root, const dpti_shape *wanted)
{
    static step *const steps[] = {by_reshape, by_transpose, by_slice, by_expand};
    for (const dpti_exported *from = e->held[root]; from; from = from->next)
        if (dpti_shape_same(&from->shape, wanted)) return from;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        for (const dpti_exported *from = e->held[root]; from; from = from->next) {
            dpti_draft_value *y = steps[k](e, from, wanted);
            if (y)
                return hold(
                    e, root,
                    (dpti_exported){.value = y, .shape = *wanted, .batched = from->batched});
        }
    return NULL;
}

/* The same without axes of one element, which are reshaped away and back. */
static const dpti_exported *find_squeezed(dpti_exporter *e, size_t root, const dpti_shape *wanted)
{
    const dpti_shape to = squeeze(wanted);
    const dpti_exported *last = e->held[root];
    while (last && last->next)
        last = last->next;
    for (const dpti_exported *from = e->held[root]; from; from = from->next) {
        const dpti_shape s = squeeze(&from->shape);
        if (s.rank == from->shape.rank && to.rank == wanted->rank) continue;
        dpti_draft_value *x = from->value;
        const dpti_extents extents = dpti_shape_extents(&s);
        if (s.rank != from->shape.rank) x = dpti_export_reshape(e, x, from->batched, &extents);
        const dpti_exported squeezed = {.value = x, .shape = s, .batched = from->batched};
        dpti_draft_value *y = by_transpose(e, &squeezed, &to);
        if (!y) y = by_slice(e, &squeezed, &to);
        if (y) {
            (void)hold(e, root, (dpti_exported){.value = y, .shape = to, .batched = from->batched});
            return find(e, root, wanted);
        }
        if (from == last) break;
    }
    return NULL;
}

/* ---- Any view -------------------------------------------------------------------------------- */

static dpti_draft_value *indices_of(dpti_exporter *e, const dpti_shape *shape)
{
    const size_t n = dpti_shape_count(shape);
    int64_t *indices = dpti_onnx_take(&e->draft->arena, n, sizeof *indices);
    if (!indices) {
        e->draft->status = DPT_E_NO_MEMORY;
        return &e->draft->spare_value;
    }
    for (size_t i = 0; i < n; i++) {
        size_t index = i;
        int64_t at = (int64_t)shape->offset;
        for (size_t k = shape->rank; k-- > 0;) {
            at += (int64_t)(index % shape->extent[k]) * shape->stride[k];
            index /= shape->extent[k];
        }
        indices[i] = at;
    }
    dpti_draft_tensor *tensor =
        dpti_draft_initialiser(e->draft, dpti_draft_name(e->draft, "val_indices", DPTI_ONNX_INT64),
                               indices, n * sizeof *indices);
    tensor->rank = shape->rank;
    for (size_t i = 0; i < shape->rank; i++)
        tensor->extents[i] = (int64_t)shape->extent[i];
    return tensor->value;
}

/* Gathers the elements out of the whole memory of the root. */
static const dpti_exported *gather(dpti_exporter *e, size_t root, const dpti_shape *wanted)
{
    const dpti_exported *all = e->held[root];
    bool done[DPT_MAX_RANK] = {false};
    dpti_shape memory = {.rank = 0};
    /* One of several inputs is not all of the record. */
    if (!all || !dpti_shape_covers(&all->shape, e->model->nodes[root].size)) return NULL;
    for (size_t i; (i = next_axis(&all->shape, done)) < all->shape.rank;) {
        done[i] = true;
        memory.extent[memory.rank] = all->shape.extent[i];
        memory.stride[memory.rank++] = all->shape.stride[i];
    }
    const dpti_shape flat = {.rank = 1, .extent = {dpti_shape_count(&all->shape)}, .stride = {1}};
    all = find(e, root, &memory);
    if (!all) all = find_squeezed(e, root, &memory);
    if (all) all = find(e, root, &flat);
    if (!all) return NULL;
    dpti_draft_value *const inputs[] = {all->value, indices_of(e, wanted)};
    dpti_draft_node *node = dpti_draft_call(e->draft, "Gather", inputs, 2);
    dpti_draft_int(node, "axis", all->batched);
    return hold(e, root,
                (dpti_exported){.value = node->output, .shape = *wanted, .batched = all->batched});
}

const dpti_exported *dpti_export_reach(dpti_exporter *e, size_t node, const dpti_shape *wanted)
{
    const dpti_node *n = &e->model->nodes[node];
    const size_t root = e->root[node];
    const dpti_exported *found = find(e, root, wanted);
    if (!found) found = find_squeezed(e, root, wanted);
    if (found) return found;
    const dpti_shape own = dpti_export_shape(e, node);
    if (!dpti_shape_same(&own, wanted)) {
        (void)dpti_export_reach(e, node, &own);
    } else if (root != node) {
        const dpti_shape input = dpti_export_shape(e, n->inputs[0]);
        (void)dpti_export_reach(e, n->inputs[0], &input);
    } else {
        return gather(e, root, wanted);
    }
    found = find(e, root, wanted);
    if (!found) found = find_squeezed(e, root, wanted);
    return found ? found : gather(e, root, wanted);
}

/* ---- Operands -------------------------------------------------------------------------------- */

dpti_draft_value *dpti_export_cast(dpti_exporter *e, dpti_draft_value *x, dpti_onnx_type type)
{
    if (x->type == type) return x;
    dpti_draft_node *node = dpti_draft_call(e->draft, "Cast", &x, 1);
    dpti_draft_int(node, "to", type);
    node->output->type = type;
    return node->output;
}

/* The number of samples, as a list of one: an extent of the first input. */
static dpti_draft_value *batch_of(dpti_exporter *e)
{
    dpti_draft *d = e->draft;
    if (e->batch) return e->batch;
    dpti_draft_value *shape = dpti_draft_unary(d, "Shape", d->inputs[0].value);
    const int64_t axis = e->model->file_input.name ? (int64_t)e->model->file_input.batch_axis : 0;
    shape->type = DPTI_ONNX_INT64;
    dpti_draft_value *const inputs[] = {
        shape, dpti_draft_axes(d, &(dpti_draft_integers){.n = 1, .items = {axis}}),
        dpti_draft_axes(d, &(dpti_draft_integers){.n = 1, .items = {axis + 1}})};
    e->batch = dpti_draft_call(d, "Slice", inputs, 3)->output;
    return e->batch;
}

/* A value that samples have in common, repeated for each. */
static dpti_draft_value *repeat(dpti_exporter *e, const dpti_exported *x)
{
    dpti_draft *d = e->draft;
    dpti_draft_integers extents = {.n = 0};
    for (size_t i = 0; i < x->shape.rank; i++)
        extents.items[extents.n++] = (int64_t)x->shape.extent[i];
    dpti_draft_value *const parts[] = {batch_of(e), dpti_draft_axes(d, &extents)};
    dpti_draft_node *join = dpti_draft_call(d, "Concat", parts, 2);
    dpti_draft_int(join, "axis", 0);
    return dpti_draft_binary(d, "Expand", x->value, join->output);
}

dpti_draft_value *dpti_export_take(dpti_exporter *e, size_t node, dpti_export_want want)
{
    const dpti_exported *found = dpti_export_reach(e, node, want.shape);
    if (!found) {
        if (e->draft->status == DPT_OK) e->draft->status = DPT_E_UNSUPPORTED;
        return &e->draft->spare_value;
    }
    dpti_draft_value *x = found->batched ? found->value : repeat(e, found);
    return dpti_export_cast(e, x, want.type);
}

dpti_draft_value *dpti_export_shared(dpti_exporter *e, size_t node, const dpti_shape *shape)
{
    const dpti_exported *found = dpti_export_reach(e, node, shape);
    if (found && !found->batched) return dpti_export_cast(e, found->value, DPTI_ONNX_FLOAT);
    if (e->draft->status == DPT_OK) e->draft->status = DPT_E_UNSUPPORTED;
    return &e->draft->spare_value;
}

dpti_draft_value *dpti_export_operand(dpti_exporter *e, size_t node, size_t input)
{
    const size_t of = e->model->nodes[node].inputs[input];
    const dpti_shape shape = dpti_export_shape(e, of);
    return dpti_export_take(e, of, (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
}
