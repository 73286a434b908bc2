/* bfloat16, block by block, so that in place is no obstacle to vector instructions. */
#include "collective/bfloat16.h"

#include <string.h>

enum { BLOCK = 1024 }; /* elements */

static const uint32_t infinity = 0x7f800000u, largest = 0x7f7f0000u, quiet = 0x00400000u;

/* The bits of the float32 that is nearest among bfloat16. */
static uint32_t round_bits(uint32_t bits)
{
    const uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
    uint32_t rounded = (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) & 0xffff0000u;
    if (rounded >= infinity) rounded = largest;
    if (magnitude >= infinity) rounded = infinity;
    if (magnitude > infinity) rounded = infinity | quiet;
    return sign | rounded;
}

static void pack_block(const float *values, float *owes, uint16_t *packed, size_t n)
{
    uint32_t bits[BLOCK], nearest[BLOCK];
    float rounded[BLOCK];
    memcpy(bits, values, n * sizeof *bits);
    for (size_t i = 0; i < n; i++)
        nearest[i] = round_bits(bits[i]);
    memcpy(rounded, nearest, n * sizeof *rounded);
    for (size_t i = 0; i < n; i++) {
        packed[i] = (uint16_t)(nearest[i] >> 16);
        owes[i] = (nearest[i] & infinity) == infinity ? 0.0f : values[i] - rounded[i];
    }
}

void dpti_bfloat16_pack(float *data, const float *owed, float *owes, size_t n)
{
    uint8_t *at = (uint8_t *)data; /* never beyond what has been read */
    float values[BLOCK];
    uint16_t packed[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        for (size_t i = 0; i < count; i++)
            values[i] = data[begin + i] + (owed ? owed[begin + i] : -0.0f);
        pack_block(values, owes + begin, packed, count);
        memcpy(at, packed, count * sizeof *packed);
        at += count * sizeof *packed;
    }
}

static void widen(const uint16_t *packed, float *values, size_t n)
{
    uint32_t bits[BLOCK];
    for (size_t i = 0; i < n; i++)
        bits[i] = (uint32_t)packed[i] << 16;
    memcpy(values, bits, n * sizeof *values);
}

void dpti_bfloat16_unpack(float *data, size_t n)
{
    const uint8_t *bytes = (const uint8_t *)data;
    uint16_t packed[BLOCK];
    /* From the end: a float32 overwrites what has been read. */
    for (size_t end = n; end > 0;) {
        const size_t count = end % BLOCK ? end % BLOCK : BLOCK;
        end -= count;
        memcpy(packed, bytes + end * sizeof *packed, count * sizeof *packed);
        widen(packed, data + end, count);
    }
}

void dpti_bfloat16_add(float *to, const uint16_t *from, size_t n)
{
    float values[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        widen(from + begin, values, count);
        for (size_t i = 0; i < count; i++)
            to[begin + i] += values[i];
    }
}
