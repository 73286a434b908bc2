/* The formats in which the elements of a packed all-reduce travel (collective.h). */
#ifndef DPTI_PACKING_H
#define DPTI_PACKING_H

#include "dptrain/trainer.h"

#include <stddef.h>

/* A format.  An array that is packed from an element on which is a multiple of DPTI_PACKING_UNIT
   has the bytes that it has within the whole. */
enum { DPTI_PACKING_UNIT = 256 };

typedef struct dpti_packing {
    const char *name; /* the word of the command line */
    /* The bytes of n packed elements, at most those of n float32. */
    size_t (*n_bytes)(size_t n);
    /* As dpti_bfloat16_pack, dpti_bfloat16_unpack and dpti_bfloat16_add (base/bfloat16.h). */
    void (*pack)(float *data, const float *residual, float *owes, size_t n);
    void (*unpack)(float *data, size_t n);
    void (*add)(float *to, const void *from, size_t n);
} dpti_packing;

/* bfloat16 (base/bfloat16.h), and integers of 8 bits (base/int8_blocks.h). */
extern const dpti_packing dpti_packing_bf16, dpti_packing_int8;

/* The format of a compression; NULL: float32. */
const dpti_packing *dpti_packing_of(dpt_compression compression);

#endif
