/* The errors of the functions of exact.h against the mathematical library in double precision. */
#ifndef DPT_TEST_EXACT_MEASURE_H
#define DPT_TEST_EXACT_MEASURE_H

#include "loops.h"

/* The largest error, in units in the last place of the exact value, and where it is.  The error is
   infinite where one value is NaN, 0 or infinite and the other is far from it, where a zero has the
   wrong sign, and for a NaN with other bits than 0x7fc00000. */
typedef struct exact_error {
    double worst;
    uint32_t a, b;
    uint64_t n; /* arguments tried */
} exact_error;

double exact_error_of(int function, uint32_t a, uint32_t b, uint32_t computed);

/* Tries every stride-th argument of a function of one number, on all cores.  stride: 2^32 - 1 at
 * most */
exact_error exact_measure(const exact_variant *variant, int function, uint32_t stride);
/* Tries pairs. */
exact_error exact_measure_pairs(const exact_variant *variant, int function, uint64_t n);

#endif
