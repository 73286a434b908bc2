/* The tiles of the convolution kernels for CPUs: ROWS x UNITS vectors of V floats.  All three are
   constants of the program, so the arrays become registers. */
#ifndef DPT_KERNELS_CONV2D_REGISTERS_TILE_H
#define DPT_KERNELS_CONV2D_REGISTERS_TILE_H

#include "dialect.h"

#if V == 16
typedef float16 vec;
#define VEC_LOAD(p)     vload16(0, p)
#define VEC_STORE(x, p) vstore16(x, 0, p)
#else
typedef float8 vec;
#define VEC_LOAD(p)     vload8(0, p)
#define VEC_STORE(x, p) vstore8(x, 0, p)
#endif

/* PoCL's vstore writes a vector in four pieces.  A type that is not aligned makes clang write it at
   once. */
#if defined(__clang__)
typedef vec __attribute__((aligned(4))) vec_anywhere;
#undef VEC_STORE
#define VEC_STORE(x, p) store_anywhere(x, p)
DEVICE void __attribute__((overloadable)) store_anywhere(vec x, GLOBAL float *p)
{
    *(GLOBAL vec_anywhere *)p = x;
}
DEVICE void __attribute__((overloadable)) store_anywhere(vec x, float *p)
{
    *(vec_anywhere *)p = x;
}
#endif

/* a * b + c.  A deterministic operator rounds it once. */
#if DETERMINISTIC
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((c) + (a) * (b))
#endif

#define LANES     (UNITS * V)
#define UNROLL    _Pragma("unroll")
#define EACH_ROW  UNROLL for (int i = 0; i < ROWS; i++)
#define EACH_UNIT UNROLL for (int u = 0; u < UNITS; u++)

/* A group has one work item, which is a thread's piece of work.  A lane is a channel. */
#define ITEM_KERNEL KERNEL __attribute__((reqd_work_group_size(1, 1, 1)))

#endif
