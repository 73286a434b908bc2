/* Arrays of float32: sums, a test for values that are not finite, a hash; and an exact power. */
#ifndef DPTI_FLOATS_H
#define DPTI_FLOATS_H

#include "dpt_types.h"

/* base^exponent by multiplications alone.  The result has the same bits on every machine, which the
   result of pow has not. */
double dpti_power(double base, size_t exponent);
/* sum (n) += from (n).  If `first` is set, sum = from instead, which keeps the sign of a zero. */
void dpti_add_up(float *sum, const float *from, size_t n, bool first);
/* Returns whether all n values are finite. */
bool dpti_all_finite(const float *values, size_t n);
/* Returns a hash of the bits of n values.  Two arrays of one size that differ in one bit have
   different hashes; other arrays have the same hash by chance only.  `seed` is the hash of the data
   before these values, or any start value. */
uint64_t dpti_hash_floats(const float *values, size_t n, uint64_t seed);

#endif
