/* Arrays of float32: adding them up, whether all are finite, and a hash. */
#include "base/floats.h"

#include <string.h>

void dpti_add_up(float *sum, const float *from, size_t n, bool first)
{
    if (n == 0) return;
    if (first)
        memcpy(sum, from, n * sizeof *sum);
    else
        for (size_t i = 0; i < n; i++)
            sum[i] += from[i];
}

bool dpti_all_finite(const float *values, size_t n)
{
    /* The bits without the sign have the order of the magnitudes, and the compiler makes vector
       code of a maximum of integers. */
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most < 0x7f800000u;
}

/* Lanes side by side, so that products need not wait for each other; the rotation brings high bits
   down, where products spread them.  A single bit that differs always makes another hash: every
   operation is invertible. */
enum { LANES = 8, LANE_FLOATS = 2 };

static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane ^= word;
    return (lane << 29 | lane >> 35) * 0x9fb21c651e98df25u;
}

static uint64_t fold(uint64_t hash, uint64_t word)
{
    hash = mix(hash, word);
    return hash ^ hash >> 32;
}

uint64_t dpti_hash_floats(const float *values, size_t n, uint64_t seed)
{
    uint64_t lanes[LANES] = {0}, words[LANES];
    size_t i = 0;
    for (; n - i >= LANES * LANE_FLOATS; i += LANES * LANE_FLOATS) {
        memcpy(words, values + i, sizeof words);
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = mix(lanes[l], words[l]);
    }
    memset(words, 0, sizeof words);
    if (n > i) memcpy(words, values + i, (n - i) * sizeof *values);
    uint64_t hash = fold(seed, n);
    for (size_t l = 0; l < LANES; l++)
        hash = fold(fold(hash, lanes[l]), words[l]);
    return hash;
}

double dpti_power(double base, size_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}
