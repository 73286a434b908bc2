/* Numbers of about twice the precision of float, as the sum of two floats (Dekker 1971).  They
   replace double precision, which a device need not have.  The error of a sum is computed by
   additions, and the error of a product by FMA.  No product stands where a compiler might contract
   it with an addition, because that would make the error wrong. */
#ifndef DPT_KERNELS_PAIR_H
#define DPT_KERNELS_PAIR_H

#include "dialect.h"

typedef struct pair {
    float high, low; /* |low| is at most half a unit in the last place of high */
} pair;

DEVICE pair pair_of(float high, float low)
{
    pair result;
    result.high = high;
    result.low = low;
    return result;
}

/* a + b, exactly (Knuth). */
DEVICE pair two_sum(float a, float b)
{
    const float sum = a + b, of_b = sum - a;
    return pair_of(sum, (a - (sum - of_b)) + (b - of_b));
}

/* a + b, exactly, if |a| >= |b| or a is 0. */
DEVICE pair quick_two_sum(float a, float b)
{
    const float sum = a + b;
    return pair_of(sum, b - (sum - a));
}

/* a * b, exactly if nothing underflows.  FMA with 0 is a product that no compiler contracts. */
DEVICE pair two_product(float a, float b)
{
    const float product = FMA(a, b, 0.0f);
    return pair_of(product, FMA(a, b, -product));
}

/* The value as a float.  The low part of an infinity is NaN and is ignored. */
DEVICE float pair_value(pair a)
{
    return a.low == a.low ? a.high + a.low : a.high;
}

/* Adds a value to a running sum of many terms.  The low part is not normalised. */
DEVICE pair pair_accumulate(pair sum, float value)
{
    const pair next = two_sum(sum.high, value);
    return pair_of(next.high, sum.low + next.low);
}

DEVICE pair pair_add(pair a, pair b)
{
    const pair high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
    const pair sum = quick_two_sum(high.high, high.low + low.high);
    return quick_two_sum(sum.high, sum.low + low.low);
}

DEVICE pair pair_negative(pair a)
{
    return pair_of(-a.high, -a.low);
}

DEVICE pair pair_multiply(pair a, pair b)
{
    const pair product = two_product(a.high, b.high);
    return quick_two_sum(product.high, FMA(a.high, b.low, FMA(a.low, b.high, product.low)));
}

/* a * b for a power of two. */
DEVICE pair pair_scale(pair a, float b)
{
    return pair_of(a.high * b, a.low * b);
}

/* a / b by long division, because the device's division may be wrong by some units in the last
 * place.
 */
DEVICE pair pair_divide(pair a, pair b)
{
    const float first = a.high / b.high;
    const pair rest = pair_add(a, pair_negative(pair_multiply(pair_of(first, 0.0f), b)));
    const float second = rest.high / b.high;
    const pair last = pair_add(rest, pair_negative(pair_multiply(pair_of(second, 0.0f), b)));
    return quick_two_sum(first, second + last.high / b.high);
}

/* 1 / sqrt(a), by a Newton step from the device's value.  a is scaled, so that its square and the
   error of the square are normal numbers. */
DEVICE pair pair_inverse_sqrt(pair a)
{
    const float large = 0x1p60f, small = 0x1p-60f;
    const float by = a.high > large ? 0x1p-80f : a.high < small ? 0x1p80f : 1.0f;
    const float back = a.high > large ? 0x1p-40f : a.high < small ? 0x1p40f : 1.0f;
    const pair scaled = pair_scale(a, by);
    const float guess = 1.0f / SQRT(scaled.high);
    const pair one = pair_multiply(scaled, two_product(guess, guess));
    const float off = (1.0f - one.high) - one.low;
    return pair_scale(quick_two_sum(guess, FMA(0.5f * off, guess, 0.0f)), back);
}

/* 1 / sqrt(variance + epsilon), rounded once. */
DEVICE float inverse_deviation(pair variance, float epsilon)
{
    return pair_value(pair_inverse_sqrt(pair_add(variance, pair_of(epsilon, 0.0f))));
}

#endif
