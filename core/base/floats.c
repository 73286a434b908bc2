/* Arrays of float32 as bits: whether all are finite, and a hash. */
#include "base/base.h"

#include <string.h>

bool dpti_all_finite(const float *values, size_t n)
{
    /* Bits without the sign order like magnitudes; a maximum of integers is vector code. */
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most < 0x7f800000u;
}

/* Lanes side by side are vector code; the rotation brings high bits down, where products spread
   them.  A single bit that differs always makes another hash: every operation is invertible. */
enum { LANES = 16 };

static uint32_t mix(uint32_t lane, uint32_t word)
{
    lane ^= word;
    return (lane << 13 | lane >> 19) * 0x9e3779b1u;
}

static uint64_t fold(uint64_t hash, uint32_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 29;
}

uint64_t dpti_hash_floats(const float *values, size_t n, uint64_t seed)
{
    uint32_t lanes[LANES] = {0}, words[LANES];
    size_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        memcpy(words, values + i, sizeof words);
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = mix(lanes[l], words[l]);
    }
    memset(words, 0, sizeof words);
    if (n > i) memcpy(words, values + i, (n - i) * sizeof *words);
    uint64_t hash = fold(fold(seed, (uint32_t)n), (uint32_t)(n >> 32));
    for (size_t l = 0; l < LANES; l++)
        hash = fold(fold(hash, lanes[l]), words[l]);
    return hash;
}
