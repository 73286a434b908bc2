/* The exact sum of float32 numbers (exact_sum.h). */
#include "base/exact_sum.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 23, BIAS = 127 };

void dpti_exact_add(dpti_exact_sum *sum, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t exponent = bits >> FRACTION_BITS & 255;
    int64_t fraction = bits & ((1u << FRACTION_BITS) - 1);
    if (exponent == 255) {
        sum->n_not_finite++;
        return;
    }
    if (exponent > 0) fraction |= 1 << FRACTION_BITS;
    sum->multiples[exponent > 0 ? exponent : 1] += bits >> 31 ? -fraction : fraction;
}

void dpti_exact_join(dpti_exact_sum *sum, const dpti_exact_sum *other)
{
    for (size_t i = 0; i < sizeof sum->multiples / sizeof *sum->multiples; i++)
        sum->multiples[i] += other->multiples[i];
    sum->n_not_finite += other->n_not_finite;
}

double dpti_exact_value(const dpti_exact_sum *sum)
{
    double value = 0;
    if (sum->n_not_finite > 0) return NAN;
    for (int i = (int)(sizeof sum->multiples / sizeof *sum->multiples) - 1; i > 0; i--)
        value += ldexp((double)sum->multiples[i], i - BIAS - FRACTION_BITS);
    return value;
}
