/* Permutations by a Feistel network (permutation.h). */
#include "base/permutation.h"

enum { ROUNDS = 6 }; /* even, so that both parts have their own width at the end */

static unsigned bits_of(uint32_t value)
{
    unsigned n = 0;
    for (; value > 0; value >>= 1)
        n++;
    return n;
}

/* The random bits of a round.  The part has at most 16 bits. */
static uint32_t round_bits(const dpti_permutation *p, uint32_t round, uint32_t part)
{
    const uint32_t key[2] = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)};
    const uint32_t counter[4] = {round << 16 | part, (uint32_t)p->use, (uint32_t)p->index,
                                 (uint32_t)(p->index >> 32)};
    uint32_t out[4];
    dpti_philox(counter, key, out);
    return out[0];
}

/* One pass through the network, a permutation of the numbers of `bits` bits. */
static uint32_t pass(const dpti_permutation *p, unsigned bits, uint32_t value)
{
    unsigned low_bits = bits / 2, high_bits = bits - low_bits;
    uint32_t low = value & ((UINT32_C(1) << low_bits) - 1), high = value >> low_bits;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t mixed =
            (high ^ round_bits(p, round, low)) & ((UINT32_C(1) << high_bits) - 1);
        const unsigned width = low_bits;
        high = low;
        high_bits = width;
        low = mixed;
        low_bits = bits - width;
    }
    return high << low_bits | low;
}

uint32_t dpti_permutation_at(const dpti_permutation *permutation, uint32_t place)
{
    const unsigned bits = bits_of(permutation->n - 1);
    if (bits == 0) return place;
    do {
        place = pass(permutation, bits, place);
    } while (place >= permutation->n);
    return place;
}
