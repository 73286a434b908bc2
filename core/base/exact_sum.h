/* The exact sum of float32 numbers, which does not depend on their order. */
#ifndef DPTI_EXACT_SUM_H
#define DPTI_EXACT_SUM_H

#include <stddef.h>
#include <stdint.h>

/* A sum of up to 2^39 numbers; zeroed, it is 0.  The multiples of each power of two that occur as
   exponents, and how many numbers were infinite or no numbers. */
typedef struct dpti_exact_sum {
    int64_t multiples[256];
    size_t n_not_finite;
} dpti_exact_sum;

void dpti_exact_add(dpti_exact_sum *sum, float x);
void dpti_exact_join(dpti_exact_sum *sum, const dpti_exact_sum *other);
/* The sum, rounded in a fixed order; NaN if a number was not finite. */
double dpti_exact_value(const dpti_exact_sum *sum);

#endif
