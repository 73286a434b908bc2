/* A piece: the WIDTH neighbouring elements that one memory access of a GPU's work item moves. WIDTH
   is 4, or 1 without that option.  A piece begins at a multiple of WIDTH.  A piece of activations
   is kept as it was loaded until its values are needed (dialect.h).  The index of an element in a
   piece is a constant once the loop over the piece is unrolled. */
#ifndef DPT_KERNELS_PIECE_H
#define DPT_KERNELS_PIECE_H

#include "quad.h"

#ifndef WIDTH
#define WIDTH 1
#endif

#if WIDTH == 4

typedef quad_act piece;

DEVICE float piece_value(piece from, u32 i)
{
    const float4 values = QUAD_VALUES(from);
    return i == 0 ? values.x : i == 1 ? values.y : i == 2 ? values.z : values.w;
}

DEVICE piece piece_of(const float *values)
{
    return QUAD_STORED(FLOAT4(values[0], values[1], values[2], values[3]));
}

DEVICE void get_floats(float *to, GLOBAL const float *from)
{
    const float4 four = *(GLOBAL const float4 *)from;
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
}

DEVICE void put_floats(GLOBAL float *to, const float *values)
{
    *(GLOBAL float4 *)to = FLOAT4(values[0], values[1], values[2], values[3]);
}

#else

typedef act piece;

DEVICE float piece_value(piece from, u32 i)
{
    (void)i;
    return VALUE(from);
}

DEVICE piece piece_of(const float *values)
{
    piece to;
    PUT(&to, 0, values[0]);
    return to;
}

DEVICE void get_floats(float *to, GLOBAL const float *from)
{
    to[0] = from[0];
}

DEVICE void put_floats(GLOBAL float *to, const float *values)
{
    to[0] = values[0];
}

#endif

DEVICE piece get_piece(GLOBAL const act *from)
{
    return *(GLOBAL const piece *)from;
}

DEVICE void put_piece(GLOBAL act *to, const float *values)
{
    *(GLOBAL piece *)to = piece_of(values);
}

#endif
