/* A permutation of 0 .. n - 1 that takes no memory: each element is computed by itself.  It is a
   pure function of seed, use, index and n. */
#ifndef DPTI_PERMUTATION_H
#define DPTI_PERMUTATION_H

#include "base/random.h"

typedef struct dpti_permutation {
    uint64_t seed, index;
    dpti_random_use use;
    uint32_t n; /* at least 1 */
} dpti_permutation;

/* The element at `place`, which is below n: a network of Feistel over the bits of n - 1, whose
   rounds are Philox (base/random.h).  Results of n and more go through it again, fewer than once in
   the mean.  Takes about 10 calls of Philox. */
uint32_t dpti_permutation_at(const dpti_permutation *permutation, uint32_t place);

#endif
