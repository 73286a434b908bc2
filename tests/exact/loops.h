/* Loops over the functions of exact.h.  One source is compiled several times with different options
   of the compiler.  Each compilation is a variant, and all variants must give the same bits. */
#ifndef DPT_TEST_EXACT_LOOPS_H
#define DPT_TEST_EXACT_LOOPS_H

#include "functions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of a (n) and of b (n), which only functions of two numbers read -> bits of y (n) */
typedef void exact_loop(const uint32_t *restrict a, const uint32_t *restrict b,
                        uint32_t *restrict y, size_t n);

typedef struct exact_variant {
    const char *name;
    exact_loop *const *loops; /* (N_FUNCTIONS) */
    bool builds_division;     /* it has no instruction that divides or takes a root */
} exact_variant;

extern const char *const exact_names[N_FUNCTIONS];

/* The i-th variant that this processor can run, or NULL.  The last one is the fastest. */
const exact_variant *exact_variant_at(size_t i);
const exact_variant *exact_fastest(void);

/* Pairs of numbers of which the results cover all cases of a function of two numbers: any bits,
   results of all sizes, first numbers near 1, integers.  The pairs are the same on every machine.
 */
void exact_pairs(int function, uint64_t seed, size_t n, uint32_t *a, uint32_t *b);

#endif
