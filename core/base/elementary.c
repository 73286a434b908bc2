/* Elementary functions with the same bits on every machine (elementary.h). */
#include "base/elementary.h"

#include "base/floats.h"

#include <math.h>
#include <string.h>

#if defined(__FAST_MATH__) || (defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0)
#error "elementary.c needs arithmetic that rounds every operation to double precision"
#endif

/* log(2): the first part has 32 bits, so that its product with an exponent is exact. */
static const double log2_high = 0x1.62e42feep-1, log2_low = 0x1.a39ef35793c76p-33;

/* sum of coefficients[k] x^k, by Horner's rule */
static double polynomial(const double *coefficients, size_t n, double x)
{
    double sum = coefficients[n - 1];
    for (size_t k = n - 1; k > 0; k--)
        sum = sum * x + coefficients[k - 1];
    return sum;
}

/* x * 2^n, for n from -1100 to 1100 and x near 1 */
static double times_power_of_two(double x, int n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    if (n < -1000 || n > 1000) return ldexp(x, n);
    memcpy(&power, &bits, sizeof power);
    return x * power;
}

/* ---- exp and log ----------------------------------------------------------------------------- */

double dpti_exp(double x)
{
    /* 1 / (k + 2)!: exp(r) = 1 + r + r^2 p(r), with |r| up to log(2) / 2 */
    static const double p[] = {
        1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    };
    if (isnan(x)) return x;
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    const double n = floor(x * 1.4426950408889634 + 0.5);
    const double high = x - n * log2_high, low = n * log2_low, r = high - low;
    const double error = (high - r) - low; /* of r, which was rounded */
    const double e = 1 + (r + (r * r * polynomial(p, sizeof p / sizeof *p, r) + error));
    return times_power_of_two(e, (int)n);
}

double dpti_log(double x)
{
    /* log(m) = 2 s + 2 s^3 p(s^2), where s = (m - 1) / (m + 1) is at most 0.1716 */
    static const double p[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                               1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    int n;
    if (isnan(x) || x < 0) return NAN;
    if (x == 0) return -INFINITY;
    if (isinf(x)) return x;
    double m = frexp(x, &n); /* from 1/2 to 1 */
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    /* 2 s = f - s f, so that log(m) = f - s (f - 2 s^2 p) */
    const double f = m - 1, s = f / (2 + f), square = s * s;
    const double tail = 2 * square * polynomial(p, sizeof p / sizeof *p, square);
    return n * log2_high + (f - (s * (f - tail) - n * log2_low));
}

/* ---- The cosine ------------------------------------------------------------------------------ */

/* x from -1/8 to 1/8 turns */
static double small_cos(double x)
{
    /* (-1)^k / (2 k)! from k = 2 on */
    static const double p[] = {
        1.0 / 24,        -1.0 / 720,         1.0 / 40320,         -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    const double a = x * 6.283185307179586476925, square = a * a, half = square / 2;
    const double most = 1 - half; /* its error is what follows from it */
    return most +
           ((1 - most - half) + square * square * polynomial(p, sizeof p / sizeof *p, square));
}

/* the same of the sine */
static double small_sin(double x)
{
    /* (-1)^k / (2 k + 1)! from k = 1 on */
    static const double p[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    const double a = x * 6.283185307179586476925, square = a * a;
    return a + a * square * polynomial(p, sizeof p / sizeof *p, square);
}

double dpti_cos_turns(double x)
{
    if (!isfinite(x)) return NAN;
    const double turn = fabs(fmod(x, 1.0)); /* exact, as is all up to the polynomials */
    const double quarters = floor(turn * 4 + 0.5), rest = turn - quarters / 4;
    switch ((int)quarters % 4) {
    case 0: return small_cos(rest);
    case 1: return -small_sin(rest);
    case 2: return -small_cos(rest);
    default: return small_sin(rest);
    }
}

/* ---- Powers ---------------------------------------------------------------------------------- */

double dpti_raise(double base, double exponent)
{
    const double size = fabs(base);
    /* Without a finite positive number to raise, the result of pow is exact. */
    if (!isfinite(base) || !isfinite(exponent) || size == 0 || size == 1)
        return pow(base, exponent);
    const bool whole = floor(exponent) == exponent;
    if (base < 0 && !whole) return NAN;
    const double sign = base < 0 && fabs(fmod(exponent, 2)) == 1 ? -1 : 1;
    if (whole && fabs(exponent) <= 64) {
        const double power = dpti_power(size, (size_t)fabs(exponent));
        /* Where the power is infinite its inverse may be a subnormal number. */
        if (exponent >= 0) return sign * power;
        if (isfinite(power)) return sign / power;
    }
    return sign * dpti_exp(exponent * dpti_log(size));
}
