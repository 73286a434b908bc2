/* exp, erf, tanh, the logistic function and the normal distribution of one float32, written so that
   a compiler turns a loop over them into vector instructions: no branch, no table, no call.  They
   use additions, multiplications and divisions only, each of which rounds once.  So every
   instruction set gives the same bits.

   The largest errors are 1.0 units in the last place for exp, 1.4 for erf and tanh, 2.5 for the
   logistic function from -88 on, below which it is 0 or less than 2^-126, and 6.5 for the normal
   distribution from -13 on, below which it is less than 2^-126 (tests/cpu/test_functions.c measures
   them).  exp is infinite from 88.73 on, and does not flush
   small numbers to zero.  NaN gives NaN.

   The coefficients are those of polynomials whose largest error is smallest, found by weighted
   least squares at 4000 Chebyshev points. */
#ifndef DPT_CPU_FUNCTIONS_H
#define DPT_CPU_FUNCTIONS_H

#include <stdint.h>
#include <string.h>

static inline float function_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t function_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 2^n, for n from -126 to 127. */
static inline float function_power_of_two(int32_t n)
{
    return function_from_bits((uint32_t)(n + 127) << 23);
}

/* exp(x) = 2^n exp(r) with r from -log(2)/2 to log(2)/2.  log(2) is subtracted in two parts, of
   which the first has so few bits that its product with n is exact. */
static inline float function_exp(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: the sum rounds to an integer */
    const float high = 0.693359375f, low = -2.12194440e-4f;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + shift, whole = shifted - shift;
    const int32_t n = (int32_t)(function_bits(shifted) - function_bits(shift));
    const float r = (x - whole * high) - whole * low;
    float p = 1.97902e-4f;
    p = p * r + 1.39447034e-3f;
    p = p * r + 8.33349768e-3f;
    p = p * r + 4.16662954e-2f;
    p = p * r + 1.66666657e-1f;
    p = p * r + 0.5f;
    p = 1.0f + (r + r * r * p);
    /* n can be less than the least exponent, so the power is two factors. */
    const int32_t half = n >> 1;
    return p * function_power_of_two(half) * function_power_of_two(n - half);
}

/* Below 1 a polynomial in x^2; from 1 on 1 - exp(-q(|x|)), where q is a polynomial. */
static inline float function_erf(float x)
{
    const float a = x < 0.0f ? -x : x, b = a > 4.0f ? 4.0f : a, z = x * x;
    float p = 7.85386073e-5f;
    p = p * z - 8.01019371e-4f;
    p = p * z + 5.18832775e-3f;
    p = p * z - 2.68538129e-2f;
    p = p * z + 1.12835854e-1f;
    p = p * z - 3.76126260e-1f;
    p = p * z + 1.28379166e-1f;
    float q = -1.86379255e-4f;
    q = q * b + 2.94765900e-3f;
    q = q * b - 2.18380671e-2f;
    q = q * b + 1.03106759e-1f;
    q = q * b + 6.38144851e-1f;
    q = q * b + 1.12708914f;
    q = q * b + 3.41522333e-4f;
    const float tail = 1.0f - function_exp(-q);
    const float far = x < 0.0f ? -tail : tail, near = x + x * p;
    return a < 1.0f ? near : far;
}

/* Below 0.625 a polynomial in x^2; from there on 1 - 2 / (exp(2 |x|) + 1). */
static inline float function_tanh(float x)
{
    const float a = x < 0.0f ? -x : x, z = x * x;
    float p = -5.52863302e-3f;
    p = p * z + 2.04833150e-2f;
    p = p * z - 5.36929667e-2f;
    p = p * z + 1.33308992e-1f;
    p = p * z - 3.33332628e-1f;
    const float large = 1.0f - 2.0f / (function_exp(2.0f * a) + 1.0f);
    const float far = x < 0.0f ? -large : large, near = x + x * (z * p);
    return a < 0.625f ? near : far;
}

static inline float function_sigmoid(float x)
{
    return 1.0f / (1.0f + function_exp(-x));
}

/* exp(-x^2 / 2), also where x^2 has more digits than a float32: x is the sum of a part whose square
   is exact and of a small one, whose exponential is a polynomial. */
static inline float function_bell(float x)
{
    const float a = x < 0.0f ? -x : x, b = a > 15.0f ? 15.0f : a;
    const float high = function_from_bits(function_bits(b) & 0xfffff000u);
    const float d = (b - high) * (b + high) * -0.5f;
    float p = 4.16666667e-2f;
    p = p * d + 1.66666667e-1f;
    p = p * d + 0.5f;
    p = 1.0f + (d + d * d * p);
    return function_exp(high * high * -0.5f) * p;
}

/* The distribution function of the normal distribution, (1 + erf(x / sqrt(2))) / 2.  bell:
   function_bell(x).  From |x| on to infinity it is bell times t times a polynomial in t, which is
   1 / (1 + 0.3 |x|).  The polynomial is about 0.625, where fewer terms cancel. */
static inline float function_normal(float x, float bell)
{
    const float a = x < 0.0f ? -x : x, t = 1.0f / (1.0f + 0.3f * (a > 15.0f ? 15.0f : a));
    const float v = t - 0.625f;
    float p = -2.06252113e-2f;
    p = p * v - 3.57147609e-3f;
    p = p * v + 4.39475067e-2f;
    p = p * v + 1.72331740e-4f;
    p = p * v - 9.15989354e-2f;
    p = p * v - 2.52472553e-2f;
    p = p * v + 2.23403111e-1f;
    p = p * v + 4.30580467e-1f;
    p = p * v + 4.26245481e-1f;
    p = p * v + 2.68963218e-1f;
    const float above = p * t * bell;
    return x > 0.0f ? 1.0f - above : above;
}

#endif
