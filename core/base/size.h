/* Arithmetic on sizes that detects overflow.  Code that computes a size from input checks each
   product and sum here before it allocates. */
#ifndef DPTI_SIZE_H
#define DPTI_SIZE_H

#include "dpt_types.h"

/* *out = a * b, or a + b.  false on overflow; *out is then unchanged. */
DPT_CHECK_RESULT bool dpti_multiply(size_t a, size_t b, size_t *out);
DPT_CHECK_RESULT bool dpti_add(size_t a, size_t b, size_t *out);
/* Rounds up to a multiple of a power of two.  The caller makes sure that the result fits. */
size_t dpti_round_up(size_t value, size_t power_of_two);

#endif
