/* bfloat16: the upper half of a float32, for what travels and for what some devices store.  Pure:
   numbers only. */
#ifndef DPTI_BFLOAT16_H
#define DPTI_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* Packs n float32 at `data`, in place: their values plus those at `owed` (n), rounded to nearest,
   ties to even, as n bfloat16 at the beginning of that memory; and owes[i] becomes what rounding
   has dropped of each, exactly.  Finite values beyond the largest bfloat16 become that one; what is
   not finite stays so, a NaN a NaN, and owes nothing.  `owed` may be NULL, for zeros, and be
   `owes`. */
void dpti_bfloat16_pack(float *data, const float *residual, float *owes, size_t n);
/* And back, in place: n bfloat16 at the beginning of `data` become n float32. */
void dpti_bfloat16_unpack(float *data, size_t n);
/* to[i] += from[i]. */
void dpti_bfloat16_add(float *to, const uint16_t *from, size_t n);

#endif
