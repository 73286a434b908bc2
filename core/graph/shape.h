/* The shape of a value for one sample: its axes, and where its elements lie in the memory of the
   node that holds them (the root, see compile.h).

   A value is a *view*: reordering axes, cutting out a part or repeating a value along an axis makes
   another shape over the same memory, and no device copies anything. */
#ifndef DPTI_SHAPE_H
#define DPTI_SHAPE_H

#include "backend.h"

/* Element (i0, i1, ...) of a sample is element offset + i0 * stride[0] + i1 * stride[1] + ... of
   the root's tensor.  A stride of 0 repeats the value along an axis. */
typedef struct dpti_shape {
    size_t rank;                 /* 0 .. DPT_MAX_RANK; 0: one element */
    size_t extent[DPT_MAX_RANK]; /* each at least 1 */
    int32_t stride[DPT_MAX_RANK];
    size_t offset;
} dpti_shape;

/* The extents of a value, without a place in memory. */
typedef struct dpti_extents {
    size_t rank, extent[DPT_MAX_RANK];
} dpti_extents;

/* The number of elements.  The extents' product must have been checked. */
size_t dpti_shape_count(const dpti_shape *shape);
/* The shape of a new tensor with these extents, the last axis the fastest. */
dpti_shape dpti_shape_dense(const dpti_extents *extents);
/* The shape of a new tensor with these extents, whose axes lie in memory in the order of another
   value of the same rank: NHWC stays NHWC. */
dpti_shape dpti_shape_like(const dpti_extents *extents, const dpti_shape *other);
dpti_extents dpti_shape_extents(const dpti_shape *shape);

/* Whether the shape has every element of a tensor of `size` elements exactly once. */
bool dpti_shape_covers(const dpti_shape *shape, size_t size);
/* Whether the shape is that of a new tensor: the last axis is the fastest, without gaps. */
bool dpti_shape_is_dense(const dpti_shape *shape);
/* Whether an axis with more than one element repeats one. */
bool dpti_shape_repeats(const dpti_shape *shape);
/* Whether both have the same extents and the same places in memory. */
bool dpti_shape_same(const dpti_shape *a, const dpti_shape *b);

/* *to = the extents to which both can be broadcast: aligned at the last axis, an extent of 1
   becomes any other.  Returns false if there are none, or more than DPT_MAX_RANK axes. */
DPT_CHECK_RESULT bool dpti_broadcast_extents(const dpti_extents *with, dpti_extents *to);
/* The same value with the extents of `to`, to which it must be broadcastable. */
dpti_shape dpti_shape_broadcast(const dpti_shape *shape, const dpti_extents *to);
/* The same value with other extents of the same count, in row-major order.  Returns false if no
   strides describe it, so that a copy is needed. */
DPT_CHECK_RESULT bool dpti_shape_reshape(const dpti_shape *shape, const dpti_extents *to,
                                         dpti_shape *out);

#endif
