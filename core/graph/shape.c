/* Shapes of values: views, broadcasting, reshaping. */
#include "graph/shape.h"

#include <stdlib.h>

size_t dpti_shape_count(const dpti_shape *shape)
{
    size_t n = 1;
    for (size_t i = 0; i < shape->rank; i++)
        n *= shape->extent[i];
    return n;
}

dpti_extents dpti_shape_extents(const dpti_shape *shape)
{
    dpti_extents e = {.rank = shape->rank};
    for (size_t i = 0; i < shape->rank; i++)
        e.extent[i] = shape->extent[i];
    return e;
}

dpti_shape dpti_shape_dense(const dpti_extents *extents)
{
    dpti_shape s = {.rank = extents->rank};
    size_t stride = 1;
    for (size_t i = extents->rank; i-- > 0;) {
        s.extent[i] = extents->extent[i];
        s.stride[i] = (int32_t)stride;
        stride *= extents->extent[i];
    }
    return s;
}

/* Whether axis a of a shape lies outside of axis b.  Axes without an order keep theirs. */
static bool is_outside(const dpti_shape *shape, size_t a, size_t b)
{
    const int64_t p = llabs((long long)shape->stride[a]), q = llabs((long long)shape->stride[b]);
    return shape->extent[a] > 1 && shape->extent[b] > 1 && p > q && q > 0;
}

dpti_shape dpti_shape_like(const dpti_extents *extents, const dpti_shape *other)
{
    dpti_shape s = {.rank = extents->rank};
    size_t order[DPT_MAX_RANK], stride = 1;
    for (size_t i = 0; i < s.rank; i++) {
        size_t at = i;
        for (; at > 0 && is_outside(other, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (size_t i = s.rank; i-- > 0;) {
        const size_t axis = order[i];
        s.extent[axis] = extents->extent[axis];
        s.stride[axis] = (int32_t)stride;
        stride *= extents->extent[axis];
    }
    return s;
}

bool dpti_shape_repeats(const dpti_shape *shape)
{
    for (size_t i = 0; i < shape->rank; i++)
        if (shape->extent[i] > 1 && shape->stride[i] == 0) return true;
    return false;
}

/* An order of the axes in which every stride is the product of the extents inside of it makes the
   shape a permutation of a dense one. */
bool dpti_shape_covers(const dpti_shape *shape, size_t size)
{
    bool taken[DPT_MAX_RANK] = {false};
    size_t stride = 1;
    if (shape->offset != 0 || dpti_shape_count(shape) != size) return false;
    for (size_t found = 0; found < shape->rank; found++) {
        size_t next = shape->rank;
        for (size_t i = 0; i < shape->rank; i++)
            if (!taken[i] && (shape->extent[i] == 1 || shape->stride[i] == (int32_t)stride))
                next = i;
        if (next == shape->rank) return false;
        taken[next] = true;
        stride *= shape->extent[next];
    }
    return true;
}

bool dpti_shape_is_dense(const dpti_shape *shape)
{
    size_t stride = 1;
    for (size_t i = shape->rank; i-- > 0;) {
        if (shape->extent[i] > 1 && shape->stride[i] != (int32_t)stride) return false;
        stride *= shape->extent[i];
    }
    return true;
}

bool dpti_shape_same(const dpti_shape *a, const dpti_shape *b)
{
    if (a->rank != b->rank || a->offset != b->offset) return false;
    for (size_t i = 0; i < a->rank; i++)
        if (a->extent[i] != b->extent[i] || (a->extent[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

/* ---- Broadcasting ---------------------------------------------------------------------------- */

bool dpti_broadcast_extents(const dpti_extents *with, dpti_extents *to)
{
    const dpti_extents *longer = with->rank > to->rank ? with : to;
    const dpti_extents *shorter = with->rank > to->rank ? to : with;
    const size_t lead = longer->rank - shorter->rank;
    dpti_extents out = *longer;
    for (size_t i = 0; i < shorter->rank; i++) {
        const size_t e = shorter->extent[i];
        size_t *at = &out.extent[lead + i];
        if (*at == 1) *at = e;
        if (e != *at && e != 1) return false;
    }
    *to = out;
    return true;
}

dpti_shape dpti_shape_broadcast(const dpti_shape *shape, const dpti_extents *to)
{
    const size_t lead = to->rank - shape->rank;
    dpti_shape s = {.rank = to->rank, .offset = shape->offset};
    for (size_t i = 0; i < to->rank; i++) {
        s.extent[i] = to->extent[i];
        if (i >= lead && shape->extent[i - lead] == to->extent[i])
            s.stride[i] = shape->stride[i - lead];
    }
    return s;
}

/* ---- Reshaping ------------------------------------------------------------------------------- */

/* The axes [first, last) of a shape as one axis: its stride, or false if there are gaps between
   them. */
static bool is_one_axis(const dpti_shape *shape, size_t first, size_t last, int32_t *stride)
{
    int64_t expected = 0;
    bool found = false;
    *stride = 1;
    for (size_t i = last; i-- > first;) {
        if (shape->extent[i] == 1) continue;
        if (!found) *stride = shape->stride[i];
        if (found && shape->stride[i] != expected) return false;
        expected = (int64_t)shape->stride[i] * (int64_t)shape->extent[i];
        found = true;
    }
    return true;
}

bool dpti_shape_reshape(const dpti_shape *shape, const dpti_extents *to, dpti_shape *out)
{
    dpti_shape s = {.rank = to->rank, .offset = shape->offset};
    size_t i = 0, k = 0;
    /* Groups of axes before and after that have the same product. */
    while (i < shape->rank || k < to->rank) {
        const size_t first = i, begin = k;
        size_t before = i < shape->rank ? shape->extent[i++] : 1;
        size_t after = k < to->rank ? to->extent[k++] : 1;
        while (before != after) {
            if (before < after ? i == shape->rank : k == to->rank) return false;
            if (before < after)
                before *= shape->extent[i++];
            else
                after *= to->extent[k++];
        }
        int32_t stride;
        if (!is_one_axis(shape, first, i, &stride)) return false;
        for (size_t axis = k; axis-- > begin;) {
            s.extent[axis] = to->extent[axis];
            s.stride[axis] = stride;
            stride *= (int32_t)to->extent[axis];
        }
    }
    *out = s;
    return true;
}
