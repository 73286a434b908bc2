/* Quads: four neighbouring elements that one memory access moves.  A GPU's work item that accesses
   single elements has too few bytes in flight to keep the memory busy.

       FOR_QUADS (first, n_quads) {
           quad_act own[QUADS];
           UNROLL for (u32 k = 0; k < QUADS; k++) own[k] = QUAD(act, x, QUAD_AT(first, k, n_quads));
           ...
           UNROLL for (u32 k = 0; k < QUADS; k++)
               if (HAS_QUAD(first, k, n_quads)) QUAD_OUT(act, y, QUAD_AT(first, k, n_quads)) = ...
       }

   An item treats QUADS quads and loads all of them before it waits for the first.  In place of
   quads that do not exist, an item loads its first quad again.  Tensors must begin at a multiple of
   four elements, which the host checks.  The host uses no quads on CPUs, where loops become vectors
   (span.h). */
#ifndef DPT_KERNELS_QUAD_H
#define DPT_KERNELS_QUAD_H

#include "dialect.h"

#define QUADS 2u

#if defined(KERNEL)

typedef float4 quad_float;
typedef uint2 quad_u16; /* not ushort4, which nvcc takes apart directly behind the load */
#if defined(BF16) && BF16
typedef quad_u16 quad_act;
#else
typedef quad_float quad_act;
#endif

#define FOR_QUADS(first, n_quads)                                                                  \
    const u64 first = (GLOBAL_ID - LOCAL_ID) * QUADS + LOCAL_ID;                                   \
    if (first < (n_quads))

#define HAS_QUAD(first, k, n_quads) ((first) + (k)*GROUP < (n_quads))
#define QUAD_AT(first, k, n_quads)  (HAS_QUAD(first, k, n_quads) ? (first) + (k)*GROUP : (first))

/* The i-th quad of a tensor. */
#define QUAD(type, tensor, i)     (((GLOBAL const quad_##type *)(tensor))[i])
#define QUAD_OUT(type, tensor, i) (((GLOBAL quad_##type *)(tensor))[i])

/* Whether a launch treats quads. */
#if defined(DEVICE_IS_CPU) && DEVICE_IS_CPU
#define BY_QUADS(p) 0
#else
#define BY_QUADS(p) ((p).by_quads)
#endif

/* Reads four neighbouring elements from local memory. */
DEVICE void take(float *to, LOCAL const float *from)
{
    const float4 four = *(LOCAL const float4 *)from;
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

DEVICE quad_float widen_quad(quad_u16 q)
{
    return FLOAT4(AS_FLOAT(q.x << 16), AS_FLOAT(q.x & 0xffff0000u), AS_FLOAT(q.y << 16),
                  AS_FLOAT(q.y & 0xffff0000u));
}

DEVICE quad_u16 narrow_quad(quad_float values)
{
    quad_u16 q;
    q.x = narrow(values.x) | (u32)narrow(values.y) << 16;
    q.y = narrow(values.z) | (u32)narrow(values.w) << 16;
    return q;
}

#if defined(BF16) && BF16
#define QUAD_VALUES(q)    widen_quad(q)
#define QUAD_STORED(four) narrow_quad(four)

DEVICE quad_act quad_of_zeros(void)
{
    quad_act q;
    q.x = q.y = 0;
    return q;
}

DEVICE quad_act quad_of_nothing(void)
{
    return quad_of_zeros();
}
#else
#define QUAD_VALUES(q)    (q)
#define QUAD_STORED(four) (four)

DEVICE quad_act quad_of_zeros(void)
{
    return FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
}

DEVICE quad_act quad_of_nothing(void)
{
    return FLOAT4(NOTHING, NOTHING, NOTHING, NOTHING);
}
#endif

#endif

#endif
