/* bfloat16, the upper half of a float32: conversion of arrays. */
#ifndef DPTI_BFLOAT16_H
#define DPTI_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* Packs n float32 at `data` in place: data[i] + residual[i], rounded to nearest, ties to even,
   become n bfloat16 at the beginning of that memory.  owes[i] becomes what rounding has dropped,
   exactly.  A finite value beyond the largest bfloat16 becomes the largest bfloat16.  An infinity
   stays an infinity and a NaN a NaN; owes[i] is then 0.  `residual` may be NULL, for zeros, and may
   be `owes`.  `owes` may be NULL. */
void dpti_bfloat16_pack(float *data, const float *residual, float *owes, size_t n);
/* Unpacks in place: n bfloat16 at the beginning of `data` become n float32. */
void dpti_bfloat16_unpack(float *data, size_t n);
/* to[i] += from[i], of n bfloat16. */
void dpti_bfloat16_add(float *to, const void *from, size_t n);

#endif
