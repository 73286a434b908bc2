/* Counter-based random numbers.  A number is a pure function of seed, use, index and position, so
   that every process and device computes the same numbers. */
#ifndef DPTI_RANDOM_H
#define DPTI_RANDOM_H

#include "dpt_types.h"

/* Philox4x32-10 (Salmon et al., SC 2011): out = f(counter, key), a pure function. */
void dpti_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What a sequence of numbers is for.  The use is part of the counter, so that no two uses share
   numbers. */
typedef enum dpti_random_use {
    DPTI_RANDOM_INIT = 1,    /* index: position of the parameter */
    DPTI_RANDOM_SHUFFLE = 2, /* index: epoch */
    DPTI_RANDOM_DATA = 3,    /* index: sample */
    DPTI_RANDOM_SPLIT = 4,   /* index: 0 */
    DPTI_RANDOM_CROP = 5,    /* index: epoch << 32 | sample */
    DPTI_RANDOM_WINDOW = 6,  /* index: epoch */
    DPTI_RANDOM_TOKEN = 7,   /* index: the number of the draw in a text */
    DPTI_RANDOM_MIX = 8,     /* index: epoch << 32 | sample */
    DPTI_RANDOM_PLACE = 9,   /* index: epoch (base/permutation.h) */
    DPTI_RANDOM_FACTOR = 10, /* index: column (collective/low_rank.h) */
} dpti_random_use;

/* A sequence of numbers keyed by (seed, use, index). */
typedef struct dpti_random {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t block[4];
    unsigned left;
} dpti_random;

/* Starts the sequence of (seed, use, index). */
void dpti_random_init(dpti_random *random, uint64_t seed, dpti_random_use use, uint64_t index);
/* The next number of the sequence: 32 random bits. */
uint32_t dpti_random_u32(dpti_random *random);
/* Uniform in 0 .. bound - 1, without bias.  bound > 0. */
uint32_t dpti_random_below(dpti_random *random, uint32_t bound);
float dpti_random_uniform(dpti_random *random); /* [0, 1), 24 bits */
float dpti_random_normal(dpti_random *random);  /* N(0, 1), Box-Muller in double */

#endif
