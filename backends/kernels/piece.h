/* What an access to memory moves for a GPU's work item: WIDTH neighbouring elements, whose first
   one lies at a multiple of that; 4, or 1 where there is no such option.  A piece of activations is
   kept as it was loaded until its values are wanted (dialect.h).  Places are constants of a program
   once loops over them are unrolled. */
#ifndef DPT_KERNELS_PIECE_H
#define DPT_KERNELS_PIECE_H

#include "dialect.h"

#ifndef WIDTH
#define WIDTH 1
#endif

#if WIDTH == 4

#if defined(BF16) && BF16
typedef uint2 piece;
#else
typedef float4 piece;
#endif

DEVICE float piece_value(piece from, u32 i)
{
#if defined(BF16) && BF16
    const u32 two = i < 2 ? from.x : from.y;
    return AS_FLOAT(i % 2 == 0 ? two << 16 : two & 0xffff0000u);
#else
    return i == 0 ? from.x : i == 1 ? from.y : i == 2 ? from.z : from.w;
#endif
}

DEVICE piece piece_of(const float *values)
{
#if defined(BF16) && BF16
    piece to;
    to.x = (u32)narrow(values[0]) | (u32)narrow(values[1]) << 16;
    to.y = (u32)narrow(values[2]) | (u32)narrow(values[3]) << 16;
    return to;
#else
    return FLOAT4(values[0], values[1], values[2], values[3]);
#endif
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
