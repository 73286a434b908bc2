/* Blocks of integers of 8 bits with a common scale: conversion of arrays.

   The numbers of an array are taken in blocks of DPTI_INT8_BLOCK; the last block may be shorter.  A
   block of n numbers is 2 + n bytes:

       scale     a bfloat16, in the byte order of the machine
       integers  n signed bytes, from -127 to 127; the number is integer * scale

   The scale is the least bfloat16 of at least 1/127 of the largest magnitude of the block, so each
   number is off by half a scale at most.  As a bfloat16 has 8 significant bits, and an integer 7,
   the product is exact in float32, and so is what rounding drops.  Magnitudes above 127 * 2^121 *
   (1 + 2^-7), within 0.01 % of the largest float32, become that number.

   A block in which a number is not finite has a scale that is NaN, so all its numbers become NaN.
 */
#ifndef DPTI_INT8_BLOCKS_H
#define DPTI_INT8_BLOCKS_H

#include <stddef.h>

enum { DPTI_INT8_BLOCK = 256 };

/* The bytes of n packed numbers, less than those of n float32 if n > 0. */
size_t dpti_int8_bytes(size_t n);
/* Packs n float32 at `data` in place: data[i] + residual[i], rounded to nearest, ties to even,
   become dpti_int8_bytes(n) at the beginning of that memory.  owes[i] becomes what rounding has
   dropped, exactly; 0 in a block that is not finite.  `residual` may be NULL, for zeros, and may be
   `owes`.  `owes` may be NULL. */
void dpti_int8_pack(float *data, const float *residual, float *owes, size_t n);
/* Unpacks in place: n packed numbers at the beginning of `data` become n float32. */
void dpti_int8_unpack(float *data, size_t n);
/* to[i] += the i-th of n packed numbers at `from`, which is the beginning of a block. */
void dpti_int8_add(float *to, const void *from, size_t n);

#endif
