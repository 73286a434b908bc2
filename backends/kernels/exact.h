/* Elementary functions of float32 that give the same bits on every device and every processor:
   division, square root, exp, log, sin, cos, tanh, erf, the logistic function, softplus, the
   distribution function of the normal distribution, and power.

   Source for OpenCL C 1.2, CUDA C++ and C17.  A C file may define DEVICE, FMA, SQRT, AS_UINT and
   AS_FLOAT before it includes this header; otherwise this header defines them.

   Why the bits are the same:
   - The only operations on floats are +, -, * and FMA, each of which rounds once to the nearest on
     all devices, and the conversion of an integer of at most 24 bits.  All else is integer
     arithmetic.  Division and square root of a device are used only where they round correctly.
   - No product is an operand of + or -, unless it is exact.  A compiler that contracts such a sum
     to an FMA therefore changes nothing.  Where a rounded product is added, it is FMA(a, b, 0).
   - No result depends on a float32 below 2^-126 (a subnormal number).  Devices may take such a
     number for zero.  Subnormal arguments are split by integer operations, and subnormal results
     are put together by them.  So these functions do not flush: subnormal arguments and results
     have the accuracy of all others.
   - Every NaN that is returned has the bits 0x7fc00000.  Devices differ in the bits of a NaN.

   Choices are made by masks or selections, without branches and without tables in memory, so that
   compilers make vector instructions of a loop over a function.  Results of a formula outside of
   its range are computed and not chosen.

   The largest errors, in units in the last place, are in docs/numerics.md; tests/cpu/test_exact.c
   measures them.  Values at infinities and zeros are those of math.h.

   Coefficients: tests/exact/fit.py prints them.  Each polynomial has the smallest weighted sum of
   squared errors at 200 Chebyshev points of its interval, computed with 50 digits.  The weights
   make the error relative to the function's result, and were changed in turns until the largest
   error was small (Lawson's method).  Coefficients were rounded to float32 one after the other, the
   constant first.  After each rounding the remaining coefficients were computed anew.  A constant
   with a low part is the sum of two float32. */
#ifndef DPT_KERNELS_EXACT_H
#define DPT_KERNELS_EXACT_H

#include "dialect.h"

#if defined(__OPENCL_VERSION__)

SEPARATE_ROUNDING
#define EXACT_MASKS 0
#ifndef EXACT_BUILT_DIVISION
#define EXACT_BUILT_DIVISION 1 /* OpenCL's own may be wrong by 3 units in the last place */
#endif

#elif defined(__CUDACC__)

#define EXACT_MASKS 0
#ifndef EXACT_BUILT_DIVISION
#define EXACT_BUILT_DIVISION 0
#endif

#else /* C */

#include <string.h>

#if defined(__FAST_MATH__) || (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0)
#error "exact.h needs float arithmetic that rounds every operation to float32"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define EXACT_MASKS 1 /* gcc makes no vectors of a choice whose arms may set exception flags */
#ifndef EXACT_BUILT_DIVISION
#define EXACT_BUILT_DIVISION 0
#endif

#ifndef DEVICE
#define DEVICE      static inline __attribute__((always_inline, unused))

DEVICE u32 exact_bits(float x)
{
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE float exact_float(u32 bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a * b + c, rounded once, without an instruction for it.  The product is exact in double
   precision.  The sum is rounded to odd: if it is inexact, its last bit is set, so that rounding it
   to float32 gives what rounding the exact sum gives. */
DEVICE float exact_fma(float a, float b, float c)
{
    const double product = (double)a * (double)b, sum = product + (double)c, part = sum - product;
    const double error = (product - (sum - part)) + ((double)c - part);
    u64 bits;
    double odd;
    memcpy(&bits, &sum, sizeof bits);
    /* An error of the other sign than the sum: the exact sum is between sum and its neighbour that
       is nearer to zero. */
    const u64 is_inexact = (u64)(error < 0.0) | (u64)(error > 0.0);
    const u64 is_nearer = (u64)(error < 0.0) ^ bits >> 63;
    const u64 is_even = ~bits & 1;
    bits += (is_inexact & is_even) * (1 - 2 * is_nearer);
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}

#define AS_UINT(x)  exact_bits(x)
#define AS_FLOAT(u) exact_float(u)
#define SQRT(x)     __builtin_sqrtf(x)
#if !defined(EXACT_NO_FMA) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) exact_fma(a, b, c)
#endif
#endif

#endif

#include "pair.h"

/* A number (high + low) * 2^n. */
typedef struct scaled {
    float high, low;
    i32 n;
} scaled;

/* ---- Bits ------------------------------------------------------------------------------------ */

#define EXACT_SIGN     0x80000000u
#define EXACT_NAN      0x7fc00000u
#define EXACT_INFINITY 0x7f800000u
#define EXACT_ONE      0x3f800000u

/* condition ? a : b, for a condition that is 0 or 1 */
DEVICE u32 exact_choose(i32 condition, u32 a, u32 b)
{
#if EXACT_MASKS
    const u32 mask = 0u - (u32)condition;
    return (a & mask) | (b & ~mask);
#else
    return condition ? a : b;
#endif
}

DEVICE float exact_select(i32 condition, float a, float b)
{
    return AS_FLOAT(exact_choose(condition, AS_UINT(a), AS_UINT(b)));
}

DEVICE i32 exact_most(i32 a, i32 b)
{
    return (i32)exact_choose(a > b, (u32)a, (u32)b);
}

DEVICE i32 exact_least(i32 a, i32 b)
{
    return (i32)exact_choose(a < b, (u32)a, (u32)b);
}

/* The bits of |x|, which order as the numbers do.  Those of a NaN are above EXACT_INFINITY. */
DEVICE i32 exact_magnitude(u32 bits)
{
    return (i32)(bits & 0x7fffffffu);
}

DEVICE i32 exact_is_nan(u32 bits)
{
    return exact_magnitude(bits) > (i32)EXACT_INFINITY;
}

/* The number with these bits, or NaN if the argument, whose bits are `of`, is NaN. */
DEVICE float exact_unless_nan(u32 of, u32 bits)
{
    return AS_FLOAT(exact_choose(exact_is_nan(of), EXACT_NAN, bits));
}

/* |x|, but at most limit, also for infinity and NaN. */
DEVICE float exact_limited(u32 bits, float limit)
{
    return AS_FLOAT((u32)exact_least(exact_magnitude(bits), (i32)AS_UINT(limit)));
}

/* 2^n, for n from -126 to 127 */
DEVICE float exact_power_of_two(i32 n)
{
    return AS_FLOAT((u32)(n + 127) << 23);
}

/* a * b, which may be added to something */
DEVICE float exact_product(float a, float b)
{
    return FMA(a, b, 0.0f);
}

/* The upper 32 bits of a product. */
DEVICE u32 exact_high(u32 a, u32 b)
{
#if defined(MUL_HIGH)
    return MUL_HIGH(a, b);
#else
    return (u32)((u64)a * b >> 32);
#endif
}

/* The bits of p * 2^n, rounded once, for a positive p that is not subnormal and n from -1000 to
   1000.  A subnormal number is an integer times 2^-149.  This integer is its bits, and adding 2^23
   rounds to an integer. */
DEVICE u32 exact_scale(float p, i32 n)
{
    const u32 bits = AS_UINT(p);
    const i32 exponent = (i32)(bits >> 23) + n;
    const u32 small_exponent = (u32)(exact_most(exact_least(exponent, 0), -40) + 149);
    const float small = AS_FLOAT((bits & 0x7fffffu) | small_exponent << 23);
    const u32 below = AS_UINT(small + 8388608.0f) - AS_UINT(8388608.0f);
    const u32 within = bits + ((u32)n << 23);
    return exact_choose(exponent < 1, below, exact_choose(exponent > 254, EXACT_INFINITY, within));
}

/* A positive number that is neither 0 nor infinite: mantissa * 2^(exponent - 150), where the
   mantissa has 24 bits and its first one is set. */
typedef struct exact_parts {
    u32 mantissa;
    i32 exponent;
} exact_parts;

/* The bits of |x| for a subnormal x: those of x * 2^149; otherwise unchanged. */
DEVICE u32 exact_normal_bits(u32 magnitude)
{
    const u32 scaled_bits = AS_UINT((float)(i32)(magnitude & 0x7fffffu));
    return exact_choose((i32)magnitude < 0x800000, scaled_bits, magnitude);
}

/* -149 for a subnormal number, 0 otherwise */
DEVICE i32 exact_normal_shift(u32 magnitude)
{
    return (i32)exact_choose((i32)magnitude < 0x800000, (u32)-149, 0u);
}

DEVICE exact_parts exact_split(u32 magnitude)
{
    const u32 bits = exact_normal_bits(magnitude);
    exact_parts parts;
    parts.mantissa = (bits & 0x7fffffu) | 0x800000u;
    parts.exponent = (i32)(bits >> 23) + exact_normal_shift(magnitude);
    return parts;
}

/* ---- Division and square root ---------------------------------------------------------------- */

/* 1 / d within 1.2 units in the last place, for d from 2^-100 to 2^100: Newton steps from an
   integer difference, which is linear between powers of two. */
DEVICE float exact_near_inverse(float d)
{
    float r = AS_FLOAT(0x7ef311c3u - AS_UINT(d));
    r = FMA(r, FMA(-d, r, 1.0f), r);
    r = FMA(r, FMA(-d, r, 1.0f), r);
    return FMA(r, FMA(-d, r, 1.0f), r);
}

/* 1 / d with 44 bits or more */
DEVICE pair exact_pair_inverse(pair d)
{
    const float r = exact_near_inverse(d.high);
    return pair_of(r, exact_product(r, FMA(-d.low, r, FMA(-d.high, r, 1.0f))));
}

/* 1 / sqrt(d) within some units in the last place, for d from 2^-100 to 2^100 */
DEVICE float exact_near_inverse_sqrt(float d)
{
    const float by = -0.5f * d;
    float r = AS_FLOAT(0x5f376000u - (AS_UINT(d) >> 1));
    r = r * FMA(by * r, r, 1.5f);
    r = r * FMA(by * r, r, 1.5f);
    return r * FMA(by * r, r, 1.5f);
}

/* The bits of q * 2^-24 * 2^(exponent - 127), rounded to the nearest, ties to even.  q has 25 bits
   and its first one is set.  is_more: the exact number is above q, by less than 1. */
DEVICE u32 exact_round(u32 q, i32 exponent, i32 is_more)
{
    const i32 is_normal = exponent > 0;
    const u32 shift = (u32)exact_least(exact_most(2 - exponent, 1), 26);
    const u32 whole = q >> shift, rest = q & ((1u << shift) - 1u), middle = 1u << (shift - 1u);
    const u32 above =
        (u32)(rest > middle) | ((u32)(rest == middle) & ((u32)is_more | (whole & 1u)));
    const u32 base = exact_choose(is_normal, (u32)(exponent - 1) << 23, 0u);
    return exact_choose(exponent > 254, EXACT_INFINITY, base + whole + above);
}

/* An integer near a quotient or a root, and the remainder, which shows whether it is the largest
   one that is not above. */
typedef struct exact_integer {
    u32 q;
    i32 rest;
} exact_integer;

/* One step of a quotient by d: down if the remainder is negative, up if it is d or more. */
DEVICE exact_integer exact_quotient_down(exact_integer x, u32 d)
{
    const i32 is_above = x.rest < 0;
    x.q -= (u32)is_above;
    x.rest += (i32)exact_choose(is_above, d, 0u);
    return x;
}

DEVICE exact_integer exact_quotient_up(exact_integer x, u32 d)
{
    const i32 is_below = x.rest >= (i32)d;
    x.q += (u32)is_below;
    x.rest -= (i32)exact_choose(is_below, d, 0u);
    return x;
}

/* The same for a root: (q + 1)^2 is q^2 + 2 q + 1. */
DEVICE exact_integer exact_root_down(exact_integer x)
{
    const i32 is_above = x.rest < 0;
    x.q -= (u32)is_above;
    x.rest += (i32)exact_choose(is_above, 2u * x.q + 1u, 0u);
    return x;
}

DEVICE exact_integer exact_root_up(exact_integer x)
{
    const i32 is_below = x.rest > (i32)(2u * x.q);
    x.rest -= (i32)exact_choose(is_below, 2u * x.q + 1u, 0u);
    x.q += (u32)is_below;
    return x;
}

/* |a / b| for numbers that are neither 0 nor infinite nor NaN.  The quotient of the mantissas is
   near the exact one, and the remainder of integers makes it exact. */
DEVICE u32 exact_quotient_bits(exact_parts a, exact_parts b)
{
    const i32 is_less = a.mantissa < b.mantissa;
    const float x = AS_FLOAT((a.mantissa & 0x7fffffu) | ((u32)(127 + is_less) << 23));
    const float y = AS_FLOAT((b.mantissa & 0x7fffffu) | EXACT_ONE);
    const float inverse = exact_near_inverse(y), near = exact_product(x, inverse);
    const float ratio = FMA(FMA(-y, near, x), inverse, near); /* from 1 to 2 */
    exact_integer result;
    result.q = (AS_UINT(ratio) - EXACT_ONE + 0x800000u) << 1;
    result.rest = (i32)((a.mantissa << (24 + is_less)) - result.q * b.mantissa); /* modulo 2^32 */
    result = exact_quotient_down(exact_quotient_down(result, b.mantissa), b.mantissa);
    result = exact_quotient_up(exact_quotient_up(result, b.mantissa), b.mantissa);
    return exact_round(result.q, a.exponent - b.exponent - is_less + 127, result.rest != 0);
}

DEVICE float exact_built_divide(float a, float b)
{
    const u32 p = AS_UINT(a), q = AS_UINT(b), sign = (p ^ q) & EXACT_SIGN;
    const i32 x = exact_magnitude(p), y = exact_magnitude(q), infinite = (i32)EXACT_INFINITY;
    const i32 is_zero = (x == 0) | (y == infinite), is_infinite = (x == infinite) | (y == 0);
    const i32 is_nan = (x > infinite) | (y > infinite) | (is_zero & is_infinite);
    u32 bits = exact_quotient_bits(exact_split((u32)x), exact_split((u32)y));
    bits = exact_choose(is_zero, 0u, bits);
    bits = exact_choose(is_infinite, EXACT_INFINITY, bits);
    return AS_FLOAT(exact_choose(is_nan, EXACT_NAN, bits | sign));
}

/* sqrt(x) for a positive finite x: the root of the mantissa as an integer, with its remainder. */
DEVICE u32 exact_root_bits(exact_parts x)
{
    const i32 exponent = x.exponent - 127, odd = exponent & 1;
    const float d = AS_FLOAT((x.mantissa & 0x7fffffu) | ((u32)(127 + odd) << 23)); /* 1 to 4 */
    const float inverse = exact_near_inverse_sqrt(d), near = exact_product(d, inverse);
    const float root = FMA(FMA(-near, near, d), 0.5f * inverse, near);
    exact_integer s;
    s.q = (AS_UINT(root) - EXACT_ONE + 0x800000u) << 1;
    s.rest = (i32)((x.mantissa << (25 + odd)) - s.q * s.q); /* modulo 2^32 */
    s = exact_root_up(exact_root_up(exact_root_down(exact_root_down(s))));
    return exact_round(s.q, (exponent - odd) / 2 + 127, s.rest != 0);
}

/* What square roots give for other arguments: zeros themselves, infinity itself, NaN. */
DEVICE float exact_built_sqrt(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 magnitude = exact_magnitude(bits), infinite = (i32)EXACT_INFINITY;
    const i32 is_negative = (bits & EXACT_SIGN) != 0u, is_zero = magnitude == 0;
    const i32 is_nan = (magnitude > infinite) | (is_negative & (magnitude != 0));
    u32 root = exact_root_bits(exact_split((u32)magnitude));
    root = exact_choose(is_zero | (magnitude == infinite), bits, root);
    return AS_FLOAT(exact_choose(is_nan, EXACT_NAN, root));
}

/* a / b, correctly rounded. */
DEVICE float exact_divide(float a, float b)
{
#if EXACT_BUILT_DIVISION
    return exact_built_divide(a, b);
#else
    const u32 bits = AS_UINT(a / b);
    return exact_unless_nan(bits, bits);
#endif
}

/* 1 / x, correctly rounded. */
DEVICE float exact_reciprocal(float x)
{
    return exact_divide(1.0f, x);
}

/* sqrt(x), correctly rounded. */
DEVICE float exact_sqrt(float x)
{
#if EXACT_BUILT_DIVISION
    return exact_built_sqrt(x);
#else
    const u32 bits = AS_UINT(SQRT(x));
    return exact_unless_nan(bits, bits);
#endif
}

/* 1 / sqrt(x): a Newton step with the exact square of a near value. */
DEVICE float exact_rsqrt(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 magnitude = exact_magnitude(bits), infinite = (i32)EXACT_INFINITY;
    const exact_parts parts = exact_split((u32)magnitude);
    const i32 exponent = parts.exponent - 127, odd = exponent & 1;
    const float d = AS_FLOAT((parts.mantissa & 0x7fffffu) | ((u32)(127 + odd) << 23));
    const float near = exact_near_inverse_sqrt(d);
    const pair square = two_product(near, near);
    const float error = FMA(-d, square.low, FMA(-d, square.high, 1.0f));
    const float root = FMA(0.5f * near, error, near);
    u32 result = exact_scale(root, (odd - exponent) / 2);
    result = exact_choose(magnitude == infinite, 0u, result);
    result = exact_choose(((bits & EXACT_SIGN) != 0u) | (magnitude > infinite), EXACT_NAN, result);
    return AS_FLOAT(exact_choose(magnitude == 0, bits | EXACT_INFINITY, result));
}

/* ---- exp ------------------------------------------------------------------------------------- */

#define EXACT_ROUNDER 12582912.0f /* 1.5 * 2^23: a sum with it is rounded to an integer */

/* exp(r) for |r| up to log(2) / 2, with 27 bits or more */
DEVICE pair exact_exp_near(pair r)
{
    const float square = exact_product(r.high, r.high);
    float p = 0.000197462636f;
    p = FMA(p, r.high, 0.00139354332f);
    p = FMA(p, r.high, 0.0083335638f);
    p = FMA(p, r.high, 0.0416664593f);
    p = FMA(p, r.high, 0.166666657f);
    p = FMA(p, r.high, 0.5f);
    const pair sum = quick_two_sum(1.0f, r.high);
    const float low = FMA(square, p, FMA(r.low, r.high, r.low));
    return quick_two_sum(sum.high, sum.low + low);
}

/* exp(high + low) = 2^n exp(r), for |high| up to 120 and a low part that is at most 2^-20.  The
   first difference is exact, because r has no more digits than log(2)'s first part. */
DEVICE scaled exact_exp_scaled(float high, float low)
{
    const float shifted = FMA(high, 1.44269504f, EXACT_ROUNDER), whole = shifted - EXACT_ROUNDER;
    const float first = FMA(whole, -0.693147182f, high);
    const float second = FMA(whole, 1.90465421e-9f, low);
    const pair p = exact_exp_near(quick_two_sum(first, second));
    scaled result;
    result.high = p.high;
    result.low = p.low;
    result.n = (i32)(AS_UINT(shifted) - AS_UINT(EXACT_ROUNDER));
    return result;
}

/* The pair x * 2^n, where n is at least -40: a number that is added to one of about 1 or more. */
DEVICE pair exact_addend(scaled x)
{
    return pair_scale(pair_of(x.high, x.low), exact_power_of_two(exact_most(x.n, -40)));
}

DEVICE float exact_exp(float x)
{
    const u32 bits = AS_UINT(x), sign = bits & EXACT_SIGN;
    const float limited = AS_FLOAT(AS_UINT(exact_limited(bits, 105.0f)) | sign);
    const scaled e = exact_exp_scaled(limited, 0.0f);
    return exact_unless_nan(bits, exact_scale(e.high, e.n));
}

/* ---- log ------------------------------------------------------------------------------------- */

/* A positive finite number: m * 2^exponent with m from sqrt(1/2) to sqrt(2). */
typedef struct exact_binary {
    float m, exponent;
} exact_binary;

DEVICE exact_binary exact_split_evenly(u32 magnitude)
{
    const u32 bits = exact_normal_bits(magnitude), least = AS_UINT(0.707106769f);
    const u32 above = (bits - least) & 0xff800000u; /* the exponent, in its place */
    exact_binary result;
    result.m = AS_FLOAT(bits - above);
    result.exponent = (float)(((i32)(bits - least) >> 23) + exact_normal_shift(magnitude));
    return result;
}

/* log(m) = f - f^2 / 2 + f^3 p(f), where f = m - 1, and the first two terms are exact. */
DEVICE float exact_log(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 magnitude = exact_magnitude(bits), infinite = (i32)EXACT_INFINITY;
    const exact_binary b = exact_split_evenly((u32)magnitude);
    const float f = b.m - 1.0f;
    const pair halved = two_product(0.5f * f, f);
    float p = -0.116255336f;
    p = FMA(p, f, 0.210606486f);
    p = FMA(p, f, -0.216998547f);
    p = FMA(p, f, 0.2212217f);
    p = FMA(p, f, -0.248454481f);
    p = FMA(p, f, 0.285658449f);
    p = FMA(p, f, -0.333388537f);
    p = FMA(p, f, 0.400003433f);
    p = FMA(p, f, -0.499999344f);
    p = FMA(p, f, 0.666666627f);
    const pair two = quick_two_sum(f, -halved.high);
    const float low = FMA(halved.high * f, p, two.low - halved.low);
    /* The first part of log(2) has so few bits that its product with the exponent is exact. */
    const pair sum = quick_two_sum(exact_product(b.exponent, 0.693145752f), two.high);
    const float result = sum.high + (sum.low + FMA(b.exponent, 1.42860677e-06f, low));
    const i32 is_nan = (magnitude > infinite) | (((bits & EXACT_SIGN) != 0u) & (magnitude != 0));
    u32 value = AS_UINT(result);
    value = exact_choose(magnitude == infinite, EXACT_INFINITY, value);
    value = exact_choose(magnitude == 0, EXACT_SIGN | EXACT_INFINITY, value);
    return AS_FLOAT(exact_choose(is_nan, EXACT_NAN, value));
}

/* ---- Functions of exp(-|x|) -------------------------------------------------------------------
 */

DEVICE pair exact_pair_times(pair a, pair b)
{
    const pair product = two_product(a.high, b.high);
    const float low = FMA(a.high, b.low, FMA(a.low, b.high, product.low));
    return quick_two_sum(product.high, low);
}

/* 1 / (1 + exp(-x)).  For a negative x it is e / (1 + e), where e = exp(x). */
DEVICE float exact_sigmoid(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 is_negative = (bits & EXACT_SIGN) != 0u;
    const scaled e = exact_exp_scaled(-exact_limited(bits, 105.0f), 0.0f);
    const pair addend = exact_addend(e);
    pair sum = quick_two_sum(1.0f, addend.high);
    sum.low = sum.low + addend.low;
    const pair inverse = exact_pair_inverse(sum);
    const pair product = exact_pair_times(pair_of(e.high, e.low), inverse);
    const float above = inverse.high + inverse.low;
    const float value = exact_select(is_negative, product.high, above);
    const i32 n = (i32)exact_choose(is_negative, (u32)e.n, 0u);
    return exact_unless_nan(bits, exact_scale(value, n));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + e), where e = exp(-|x|).  With s = e / (2 + e),
   log(1 + e) = 2 s + 2 s^3 p(s^2). */
DEVICE float exact_softplus(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 is_negative = (bits & EXACT_SIGN) != 0u;
    const scaled e = exact_exp_scaled(-exact_limited(bits, 105.0f), 0.0f);
    const pair addend = exact_addend(e);
    pair sum = quick_two_sum(2.0f, addend.high);
    sum.low = sum.low + addend.low;
    const pair ratio = exact_pair_times(pair_of(e.high, e.low), exact_pair_inverse(sum));
    const float s = ratio.high * exact_power_of_two(exact_most(e.n, -40));
    const float z = exact_product(s, s);
    float p = 0.121197648f;
    p = FMA(p, z, 0.107226625f);
    p = FMA(p, z, 0.143075481f);
    p = FMA(p, z, 0.199994758f);
    p = FMA(p, z, 0.333333373f);
    scaled result;
    const pair twice =
        quick_two_sum(2.0f * ratio.high, FMA(2.0f * ratio.high, z * p, 2.0f * ratio.low));
    result.high = twice.high;
    result.low = twice.low;
    result.n = e.n;
    const pair part = exact_addend(result), total = two_sum(x, part.high);
    const u32 above = AS_UINT(total.high + (total.low + part.low));
    const u32 below = exact_scale(result.high, result.n);
    const u32 value = exact_choose(is_negative, below, above);
    return exact_unless_nan(bits, exact_choose(bits == EXACT_INFINITY, bits, value));
}

/* ---- tanh and erf ---------------------------------------------------------------------------- */

/* x + x^3 p(x^2) below 0.5, and from there on 1 - 2 / (exp(2 x) + 1). */
DEVICE float exact_tanh(float x)
{
    const u32 bits = AS_UINT(x), sign = bits & EXACT_SIGN;
    const i32 magnitude = exact_magnitude(bits);
    const float a = exact_limited(bits, 10.0f), z = exact_product(a, a);
    float p = -0.00668512937f;
    p = FMA(p, z, 0.0213220883f);
    p = FMA(p, z, -0.0539046042f);
    p = FMA(p, z, 0.133330137f);
    p = FMA(p, z, -0.333333284f);
    const float near = FMA(a * z, p, a);
    const scaled e = exact_exp_scaled(2.0f * a, 0.0f);
    const pair addend = exact_addend(e);
    pair sum = quick_two_sum(addend.high, 1.0f);
    sum.low = sum.low + addend.low;
    const pair inverse = exact_pair_inverse(sum);
    const pair rest = quick_two_sum(1.0f, -2.0f * inverse.high);
    const float far = rest.high + FMA(-2.0f, inverse.low, rest.low);
    const float value = exact_select(magnitude < 0x3f000000, near, far);
    const u32 result = exact_choose(magnitude < 0x39800000, bits, AS_UINT(value) | sign);
    return exact_unless_nan(bits, result);
}

/* 1 - exp(-q(a)) for a from 0.75 on, where q is a polynomial. */
DEVICE float exact_erf_far(float a)
{
    float p = 8.48760374e-06f;
    p = FMA(p, a, -8.72060045e-05f);
    p = FMA(p, a, 0.000154084788f);
    p = FMA(p, a, 0.00239104684f);
    p = FMA(p, a, -0.021840103f);
    p = FMA(p, a, 0.104508132f);
    p = FMA(p, a, 0.635995209f);
    const pair sum = quick_two_sum(1.1284759f, FMA(a, p, -4.50368738e-08f));
    const pair product = two_product(a, sum.high);
    const scaled e = exact_exp_scaled(-product.high, -FMA(a, sum.low, product.low));
    const pair addend = exact_addend(e), rest = quick_two_sum(1.0f, -addend.high);
    return rest.high + (rest.low - addend.low);
}

/* x + x p(x^2) below 0.75.  Numbers below 2^-64 are multiplied by a power of two before. */
DEVICE float exact_erf(float x)
{
    const u32 bits = AS_UINT(x), sign = bits & EXACT_SIGN;
    const i32 magnitude = exact_magnitude(bits), is_small = magnitude < 0x1f800000;
    const float a = exact_limited(bits, 4.0f), z = exact_product(a, a);
    float p = -0.000678096898f;
    p = FMA(p, z, 0.00511895446f);
    p = FMA(p, z, -0.0268370248f);
    p = FMA(p, z, 0.11283429f);
    p = FMA(p, z, -0.37612623f);
    p = FMA(p, z, 0.128379166f);
    const u32 small = exact_choose(magnitude < 0x800000, exact_normal_bits((u32)magnitude),
                                   (u32)magnitude + (64u << 23));
    const i32 shift = (i32)exact_choose(magnitude < 0x800000, (u32)-149, (u32)-64);
    const float y = AS_FLOAT(exact_choose(is_small, small, AS_UINT(a)));
    const i32 n = (i32)exact_choose(is_small, (u32)shift, 0u);
    const u32 near = exact_scale(FMA(y, p, y), n), far = AS_UINT(exact_erf_far(a));
    const u32 value = exact_choose(magnitude < 0x3f400000, near, far);
    return exact_unless_nan(bits, exact_choose(magnitude == 0, bits, value | sign));
}

/* ---- The normal distribution ----------------------------------------------------------------- */

/* exp(-x^2 / 2) for |x| up to 15 */
DEVICE scaled exact_bell_scaled(float a)
{
    const pair square = two_product(a, a);
    return exact_exp_scaled(-0.5f * square.high, -0.5f * square.low);
}

/* exp(-x^2 / 2) */
DEVICE float exact_bell(float x)
{
    const u32 bits = AS_UINT(x);
    const scaled e = exact_bell_scaled(exact_limited(bits, 15.0f));
    return exact_unless_nan(bits, exact_scale(e.high, e.n));
}

/* (1 + erf(x / sqrt(2))) / 2 - 1/2 = x (c + x^2 p(x^2)), plus 1/2. */
DEVICE float exact_normal_near(float x)
{
    const float z = exact_product(x, x);
    float p = -7.83870018e-06f;
    p = FMA(p, z, 0.000113827293f);
    p = FMA(p, z, -0.00118653278f);
    p = FMA(p, z, 0.00997336209f);
    p = FMA(p, z, -0.0664903596f);
    const pair factor = quick_two_sum(0.398942292f, FMA(z, p, -1.18723253e-08f));
    const pair product = two_product(x, factor.high), sum = quick_two_sum(0.5f, product.high);
    return sum.high + (sum.low + FMA(x, factor.low, product.low));
}

/* The normal distribution function at -a, for a from 0.875 to 15: exp(-a^2 / 2) g(t) / (a + 1),
   where t = 1 / (a + 1).  g is between 0.42 and 0.53, so that an error of t matters little. */
DEVICE scaled exact_normal_tail(float a)
{
    const scaled e = exact_bell_scaled(a);
    const pair inverse = exact_pair_inverse(two_sum(a, 1.0f));
    const float v = (inverse.high - 0.296875f) + inverse.low;
    float p = -41.5853043f;
    p = FMA(p, v, 15.7995853f);
    p = FMA(p, v, 7.60510015f);
    p = FMA(p, v, -7.6541276f);
    p = FMA(p, v, 2.6896286f);
    p = FMA(p, v, 0.446904451f);
    p = FMA(p, v, -1.28786969f);
    p = FMA(p, v, 0.739087045f);
    p = FMA(p, v, 0.0800187662f);
    p = FMA(p, v, -0.459892929f);
    p = FMA(p, v, 0.2140982f);
    const pair g = quick_two_sum(0.497106522f, FMA(v, p, 1.03735864e-08f));
    const pair product = exact_pair_times(pair_of(e.high, e.low), exact_pair_times(g, inverse));
    scaled result;
    result.high = product.high;
    result.low = product.low;
    result.n = e.n;
    return result;
}

/* The distribution function of the normal distribution, (1 + erf(x / sqrt(2))) / 2. */
DEVICE float exact_normal(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 is_negative = (bits & EXACT_SIGN) != 0u;
    const float a = exact_limited(bits, 15.0f);
    const scaled tail = exact_normal_tail(a);
    const pair addend = exact_addend(tail), rest = quick_two_sum(1.0f, -addend.high);
    const u32 above = AS_UINT(rest.high + (rest.low - addend.low));
    const u32 below = exact_scale(tail.high, tail.n);
    const u32 far = exact_choose(is_negative, below, above);
    const u32 near = AS_UINT(exact_normal_near(AS_FLOAT(AS_UINT(a) | (bits & EXACT_SIGN))));
    const i32 is_near = exact_magnitude(bits) < (i32)AS_UINT(0.875f);
    return exact_unless_nan(bits, exact_choose(is_near, near, far));
}

/* ---- sin and cos ----------------------------------------------------------------------------- */

/* x = quadrant * pi/2 + r, modulo 2 pi, with |r| up to pi/4 */
typedef struct exact_angle {
    pair r;
    u32 quadrant;
} exact_angle;

/* 64 bits of x * 2/pi / 4 behind the binary point, for x = mantissa * 2^(exponent - 23), a mantissa
   of 24 bits and an exponent from -1 to 127: Payne and Hanek's method.  The digits of 2/pi that
   only make multiples of 4 are left out, and 96 digits behind them are multiplied. */
typedef struct exact_turn {
    u32 high, low;
} exact_turn;

DEVICE exact_turn exact_turn_of(u32 mantissa, i32 exponent)
{
    /* Words 0 to 7 are 32 zeros and the first 224 digits of 2/pi behind the binary point. */
    const u32 w0 = 0u, w1 = 0xa2f9836eu, w2 = 0x4e441529u, w3 = 0xfc2757d1u;
    const u32 w4 = 0xf534ddc0u, w5 = 0xdb629599u, w6 = 0x3c439041u, w7 = 0xfe5163abu;
    const u32 skip = (u32)(exponent + 7), shift = skip & 31u; /* digits; 6 to 134 */
    const i32 by_one = (i32)(skip >> 5 & 1u), by_two = (i32)(skip >> 6 & 1u);
    const i32 by_four = (i32)(skip >> 7 & 1u);
    const u32 a0 = exact_choose(by_one, w1, w0), a1 = exact_choose(by_one, w2, w1);
    const u32 a2 = exact_choose(by_one, w3, w2), a3 = exact_choose(by_one, w4, w3);
    const u32 a4 = exact_choose(by_one, w5, w4), a5 = exact_choose(by_one, w6, w5);
    const u32 b0 = exact_choose(by_two, a2, a0), b1 = exact_choose(by_two, a3, a1);
    const u32 b2 = exact_choose(by_two, a4, a2), b3 = exact_choose(by_two, a5, a3);
    const u32 c0 = exact_choose(by_four, w4, b0), c1 = exact_choose(by_four, w5, b1);
    const u32 c2 = exact_choose(by_four, w6, b2), c3 = exact_choose(by_four, w7, b3);
    const u32 first = c0 << shift | (c1 >> 1) >> (31u - shift);
    const u32 second = c1 << shift | (c2 >> 1) >> (31u - shift);
    const u32 third = c2 << shift | (c3 >> 1) >> (31u - shift);
    const u32 carried = exact_high(mantissa, third);
    exact_turn turn;
    turn.low = mantissa * second + carried;
    turn.high = mantissa * first + exact_high(mantissa, second) + (u32)(turn.low < carried);
    return turn;
}

/* |x| in quadrants.  Up to pi/4 r is |x| itself. */
DEVICE exact_angle exact_angle_of(u32 bits)
{
    const i32 magnitude = exact_magnitude(bits), is_small = magnitude < 0x3f490fdb;
    const i32 exponent = exact_most(exact_least(magnitude >> 23, 254), 126) - 127;
    const exact_turn turn = exact_turn_of((bits & 0x7fffffu) | 0x800000u, exponent);
    const u32 quadrant = (turn.high + 0x20000000u) >> 30;
    const u32 signed_high = turn.high - (quadrant << 30);
    /* The rest is between -1/2 and 1/2 quadrant, in units of 2^-62.  Its absolute value is wrong by
       at most one unit, because all bits are inverted. */
    const u32 inverted = 0u - (signed_high >> 31);
    const u32 high = signed_high ^ inverted, low = turn.low ^ inverted,
              sign = inverted & EXACT_SIGN;
    const float first = (float)(i32)(high >> 8) * 0x1p-22f;
    const float second = (float)(i32)((high & 0xffu) << 16 | low >> 16) * 0x1p-46f;
    const float third = (float)(i32)(low & 0xffffu) * 0x1p-62f;
    const pair two = quick_two_sum(first, second);
    const pair part = quick_two_sum(two.high, two.low + third);
    const pair r = exact_pair_times(part, pair_of(1.57079637f, -4.37113883e-08f));
    exact_angle angle;
    angle.r.high = AS_FLOAT(exact_choose(is_small, (u32)magnitude, AS_UINT(r.high) ^ sign));
    angle.r.low = AS_FLOAT(exact_choose(is_small, 0u, AS_UINT(r.low) ^ sign));
    angle.quadrant = exact_choose(is_small, 0u, quadrant);
    return angle;
}

DEVICE float exact_sin_near(pair r)
{
    const float z = exact_product(r.high, r.high);
    float p = 2.80444374e-06f;
    p = FMA(p, z, -0.000198502996f);
    p = FMA(p, z, 0.00833337288f);
    p = FMA(p, z, -0.166666672f);
    return r.high + FMA(r.high * z, p, FMA(-0.5f * z, r.low, r.low));
}

DEVICE float exact_cos_near(pair r)
{
    const float z = exact_product(r.high, r.high);
    const pair halved = two_product(0.5f * r.high, r.high),
               rest = quick_two_sum(1.0f, -halved.high);
    float p = 2.44329585e-05f;
    p = FMA(p, z, -0.0013887313f);
    p = FMA(p, z, 0.0416666456f);
    return rest.high + FMA(z * z, p, FMA(-r.high, r.low, rest.low - halved.low));
}

/* The sine of an angle that is further by some quadrants. */
DEVICE u32 exact_sine(exact_angle angle, u32 quadrants)
{
    const u32 quadrant = angle.quadrant + quadrants;
    const u32 odd = AS_UINT(exact_cos_near(angle.r)), even = AS_UINT(exact_sin_near(angle.r));
    return exact_choose((i32)(quadrant & 1u), odd, even) ^ (quadrant & 2u) << 30;
}

DEVICE float exact_sin(float x)
{
    const u32 bits = AS_UINT(x);
    const i32 magnitude = exact_magnitude(bits);
    const u32 value = exact_sine(exact_angle_of(bits), 0u) ^ (bits & EXACT_SIGN);
    const u32 result = exact_choose(magnitude < 0x39800000, bits, value);
    return AS_FLOAT(exact_choose(magnitude < (i32)EXACT_INFINITY, result, EXACT_NAN));
}

DEVICE float exact_cos(float x)
{
    const u32 bits = AS_UINT(x), value = exact_sine(exact_angle_of(bits), 1u);
    const i32 is_finite = exact_magnitude(bits) < (i32)EXACT_INFINITY;
    return AS_FLOAT(exact_choose(is_finite, value, EXACT_NAN));
}

/* ---- Power ----------------------------------------------------------------------------------- */

/* log2(m) for m from sqrt(1/2) to sqrt(2), with 35 bits or more: s (c0 + z (c1 + z p(z))), where
   s = (m - 1) / (m + 1) and z = s^2. */
DEVICE pair exact_log2_near(float m)
{
    const float f = m - 1.0f;
    const pair d = two_sum(m, 1.0f);
    const float inverse = exact_near_inverse(d.high), near = exact_product(f, inverse);
    const float rest = FMA(-near, d.low, FMA(-near, d.high, f));
    const pair s = quick_two_sum(near, exact_product(rest, inverse));
    const pair z = exact_pair_times(s, s);
    float p = 0.284723997f;
    p = FMA(p, z.high, 0.319785208f);
    p = FMA(p, z.high, 0.412211806f);
    p = FMA(p, z.high, 0.577077925f);
    const pair inner = quick_two_sum(0.961796701f, FMA(z.high, p, -6.8407866e-09f));
    const pair outer = exact_pair_times(z, inner);
    const pair sum = quick_two_sum(2.88539004f, outer.high);
    return exact_pair_times(s, pair_of(sum.high, sum.low + (outer.low + 3.85191825e-08f)));
}

/* 2^(x.high + x.low); a high part beyond 160 is taken for 160. */
DEVICE u32 exact_exp2_bits(pair x)
{
    const u32 bits = AS_UINT(x.high);
    const i32 is_far = exact_magnitude(bits) > (i32)AS_UINT(160.0f);
    const float high = AS_FLOAT(AS_UINT(exact_limited(bits, 160.0f)) | (bits & EXACT_SIGN));
    const float low = exact_select(is_far, 0.0f, x.low);
    const float shifted = high + EXACT_ROUNDER, part = high - (shifted - EXACT_ROUNDER);
    const pair r = exact_pair_times(pair_of(part, low), pair_of(0.693147182f, -1.90465421e-9f));
    const pair p = exact_exp_near(r);
    return exact_scale(p.high, (i32)(AS_UINT(shifted) - AS_UINT(EXACT_ROUNDER)));
}

/* |a|^b for an |a| that is neither 0 nor infinite nor NaN.  If |b| is above 2^40 and |a| is not 1,
   the power is 0 or infinite, and also for b = 2^40. */
DEVICE u32 exact_power_bits(u32 magnitude, u32 b)
{
    const exact_binary x = exact_split_evenly(magnitude);
    const pair near = exact_log2_near(x.m), sum = quick_two_sum(x.exponent, near.high);
    const pair binary_log = quick_two_sum(sum.high, sum.low + near.low);
    const float y = AS_FLOAT(AS_UINT(exact_limited(b, 0x1p40f)) | (b & EXACT_SIGN));
    const pair product = two_product(y, binary_log.high);
    return exact_exp2_bits(quick_two_sum(product.high, FMA(y, binary_log.low, product.low)));
}

/* Whether a number is 0 (not an integer), 1 (an odd integer) or 2 (an even integer). */
DEVICE u32 exact_parity(i32 magnitude)
{
    const i32 fraction = 150 - (magnitude >> 23); /* bits behind the binary point */
    const u32 shift = (u32)exact_least(exact_most(fraction, 0), 24);
    const u32 mantissa = ((u32)magnitude & 0x7fffffu) | 0x800000u;
    const i32 is_integer = (mantissa & ((1u << shift) - 1u)) == 0u;
    const u32 odd = exact_choose(fraction >= 0, mantissa >> shift & 1u, 0u);
    return exact_choose(is_integer, 2u - odd, 0u);
}

/* a^b, as pow of math.h. */
DEVICE float exact_power(float a, float b)
{
    const u32 p = AS_UINT(a), q = AS_UINT(b), parity = exact_parity(exact_magnitude(q));
    const i32 x = exact_magnitude(p), y = exact_magnitude(q), infinite = (i32)EXACT_INFINITY;
    const i32 is_negative = (p & EXACT_SIGN) != 0u, is_edge = (x == 0) | (x == infinite);
    const u32 edge = exact_choose((x == 0) == ((q & EXACT_SIGN) == 0u), 0u, EXACT_INFINITY);
    const u32 sign = exact_choose(is_negative & (parity == 1u), EXACT_SIGN, 0u);
    u32 bits = exact_choose(is_edge, edge, exact_power_bits((u32)x, q)) | sign;
    const i32 is_root = is_negative & (parity == 0u) & (is_edge == 0);
    bits = exact_choose(is_root | (x > infinite) | (y > infinite), EXACT_NAN, bits);
    return AS_FLOAT(exact_choose((y == 0) | (p == EXACT_ONE), EXACT_ONE, bits));
}

#endif
