/* The dialect in which device kernels are written once: names that mean the same in OpenCL C 1.2
   and in CUDA C++.  Kernels are the *.cl files of this folder.  The OpenCL backend embeds them as
   text, and the CUDA backend includes them.  A header beside each file holds the structs of its
   parameters. The C code of the backends includes these headers, too; for C, this file only defines
   the types.

   A kernel takes a tensor as a base and an offset in elements, because OpenCL has no pointers into
   buffers.  One struct of parameters follows by value:

       KERNEL void dpt_scale(OUT(float, y), IN(float, x), const scale_params p)
       {
           TENSOR_OUT(float, y);
           TENSOR_IN(float, x);
           const u64 i = GLOBAL_ID;
           if (i < p.count) y[i] = p.alpha * x[i];
       }

   An unused slot is null, and a parameter says that the slot is unused.

   Groups have up to two dimensions.  CUDA has at most 65535 groups in the second dimension.  More
   groups are folded into a third dimension, which can make some extra groups.  A kernel whose
   second dimension is the samples therefore begins with if (IS_EXTRA_GROUP(p.n_samples)) return.

   Rules:
   - There are no atomics on floats, and every reduction has a fixed order.  COUNT_UP, the only
     atomic, adds 1 to an integer.
   - Nothing depends on the width of a warp.
   - If a kernel needs the size of its groups, it is GROUP: a power of two, at least 1, and a
   constant of the program.
   - Every work item of a group reaches every BARRIER.
   - An offset that counts samples has 64 bits.  An offset within a sample may have 32.
   - Float literals end in f, because not every device has double precision.  A program with
     DETERMINISTIC may use double.

   A program of deterministic operators has the macro DETERMINISTIC (backends/common/launch.h).  In
   it every operation rounds once to the nearest and nothing is contracted: a * b + c rounds twice,
   and only FMA is fused.  Nothing is flushed to zero.  Functions, divisions and square roots are
   those of functions.h, because / and the device's square root need not round correctly. */
#ifndef DPT_KERNELS_DIALECT_H
#define DPT_KERNELS_DIALECT_H

#ifndef DETERMINISTIC
#define DETERMINISTIC 0
#endif

#if defined(__OPENCL_VERSION__)

typedef uchar u8;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;

#define KERNEL             __kernel
#define DEVICE             inline static __attribute__((always_inline))
#define GLOBAL             __global
#define LOCAL              __local /* for a pointer to local memory */
#define SHARED             __local /* for an array in local memory, at the top of a kernel */
#define CONSTANT           __constant
#define RESTRICT           restrict

#define GLOBAL_ID          ((u64)get_global_id(0))
#define GROUP_ID(d)        ((u32)get_group_id(d))
#define LOCAL_ID           ((u32)get_local_id(0))
#define BARRIER()          barrier(CLK_LOCAL_MEM_FENCE)
#define COUNT_UP(counter)  atomic_inc(counter) /* a pointer to a u32 in local memory */

#define FMA(a, b, c)       fma(a, b, c)
#define SQRT(x)            sqrt(x)
#define ROUND(x)           rint(x)
#define FLOOR(x)           floor(x)
#define CEIL(x)            ceil(x)
#define FMAX(a, b)         fmax(a, b)
#define FMIN(a, b)         fmin(a, b)
#define FABS(x)            fabs(x)
#define MUL_HIGH(a, b)     ((u32)((u64)(a) * (u64)(b) >> 32)) /* PoCL's mul_hi takes 4 products */
#define MUL_HIGH_64(a, b)  mul_hi(a, b)                       /* of u64 */
#define AS_FLOAT(u)        as_float(u)
#define AS_UINT(x)         as_uint(x)
#define FLOAT4(a, b, c, d) ((float4)(a, b, c, d))
#define GROUP_OF(n)        __attribute__((reqd_work_group_size(n, 1, 1))) /* behind KERNEL */
#define IS_EXTRA_GROUP(n)  0
/* From here to the end of the file, a * b + c is rounded twice and never becomes an FMA. */
#define SEPARATE_ROUNDING _Pragma("OPENCL FP_CONTRACT OFF")

#if DETERMINISTIC
SEPARATE_ROUNDING
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#endif

#elif defined(__CUDACC__)

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define KERNEL static __global__
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define SHARED             __shared__
#define CONSTANT           __constant__
#define RESTRICT           __restrict__

#define GLOBAL_ID          ((u64)blockIdx.x * blockDim.x + threadIdx.x)
#define GROUP_ID(d)        ((d) == 0 ? blockIdx.x : blockIdx.z * gridDim.y + blockIdx.y)
#define LOCAL_ID           threadIdx.x
#define BARRIER()          __syncthreads()
#define COUNT_UP(counter)  atomicAdd(counter, 1u)

#define FMA(a, b, c)       fmaf(a, b, c)
#define SQRT(x)            sqrtf(x)
#define ROUND(x)           rintf(x)
#define FLOOR(x)           floorf(x)
#define CEIL(x)            ceilf(x)
#define FMAX(a, b)         fmaxf(a, b)
#define FMIN(a, b)         fminf(a, b)
#define FABS(x)            fabsf(x)
#define MUL_HIGH(a, b)     __umulhi(a, b)
#define MUL_HIGH_64(a, b)  __umul64hi(a, b)
#define AS_FLOAT(u)        __uint_as_float(u)
#define AS_UINT(x)         __float_as_uint(x)
#define FLOAT4(a, b, c, d) make_float4(a, b, c, d)
#define GROUP_OF(n)        __launch_bounds__(n)
#define IS_EXTRA_GROUP(n)  (GROUP_ID(1) >= (n))
#define SEPARATE_ROUNDING  /* the CUDA backend compiles with -fmad=false */

#ifndef GROUP
#define GROUP 256
#endif

#else /* C, for the structs of parameters */

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;

#endif

/* What the left side of a product has where an element does not exist.  The right side has +0
   there. The sum of a deterministic operator stays as it is then, and keeps the sign of a zero: the
   product of -0 and +0 is -0. */
#define NOTHING (DETERMINISTIC ? -0.0f : 0.0f)

/* In front of a loop that the compiler must unroll.  PoCL unrolls no loop by itself. */
#define UNROLL _Pragma("unroll")

/* A tensor among the parameters of a kernel, and its pointer in the kernel. */
#define IN(type, name)         GLOBAL const type *name##_base, const u64 name##_place
#define OUT(type, name)        GLOBAL type *name##_base, const u64 name##_place
#define TENSOR_IN(type, name)  GLOBAL const type *const name = name##_base + name##_place
#define TENSOR_OUT(type, name) GLOBAL type *const name = name##_base + name##_place

/* ---- bfloat16 -------------------------------------------------------------------------------- */

/* A program with BF16 stores activations and their gradients (T in core/backend/op_list.h) as
   bfloat16, which is the upper half of a float32.  A program without BF16 stores them as float32.
   Tensors of activations have elements of type act, which only GET reads and only PUT writes.
   Arithmetic is float32.  Code that loads several elements before a branch keeps them as act and
   takes their VALUE behind the branch, because widening waits for the load. */
#if defined(GLOBAL_ID) /* a device; in C the CPU backend has a KERNEL of its own */

/* bfloat16 to float32, exactly. */
DEVICE float widen(u16 half_word)
{
    return AS_FLOAT((u32)half_word << 16);
}

/* float32 to bfloat16: to the nearest, ties to even.  A value that is too large becomes infinity,
   and a NaN becomes a quiet NaN. */
DEVICE u16 narrow(float value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u16 half_word;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half_word) : "f"(value));
    return half_word;
#else
    const u32 bits = AS_UINT(value);
    const u32 rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (u16)(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) >> 16);
#endif
}

#if defined(BF16) && BF16
typedef u16 act;
#define VALUE(x)              widen(x)
#define PUT(tensor, i, value) ((tensor)[i] = narrow(value))
#else
typedef float act;
#define VALUE(x)              (x)
#define PUT(tensor, i, value) ((tensor)[i] = (value))
#endif
#define GET(tensor, i) VALUE((tensor)[i])

#endif

/* Whether the halt word is set, so that the operator must write nothing.  The kernel takes the word
   as IN(float, halt).  p.halts says whether there is a halt word. */
#define HALTED(p) ((p).halts && halt_base[halt_place] != 0.0f)

/* The indices of the words of the step block (core/backend/operators.h, dpt_step_block).  A kernel
   takes it as IN(u32, step), then AS_FLOAT(step[STEP_LR]). */
#define STEP_LR           0
#define STEP_INV_BATCH    1
#define STEP_STEP         2
#define STEP_EPOCH        3
#define STEP_SEED_LOW     4
#define STEP_SEED_HIGH    5
#define STEP_FIRST        6
#define STEP_ADAM_SCALE_M 7
#define STEP_ADAM_SCALE_V 8
#define STEP_INV_LABELS   9

#endif
