/* bfloat16, block by block: blocks let the compiler use vector instructions although the work is in
   place. */
#include "base/bfloat16.h"

#include <stdbool.h>
#include <string.h>

enum { BLOCK = 1024 }; /* elements */

static const uint32_t infinity = 0x7f800000u, largest = 0x7f7f0000u, quiet = 0x00400000u;

/* Magnitudes from here on are not what plain rounding makes of them: half a unit above the largest.
 */
static const int32_t beyond = 0x7f7f8000;

/* The bits of the float32 that is nearest among bfloat16, below that. */
static uint32_t round_plain(uint32_t bits)
{
    return (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
}

static uint32_t round_any(uint32_t bits)
{
    const uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
    if (magnitude > infinity) return sign | infinity | quiet;
    if (magnitude == infinity) return bits;
    return magnitude >= (uint32_t)beyond ? sign | largest : round_plain(bits);
}

static bool any_beyond(const uint32_t *bits, size_t n)
{
    int32_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= (int32_t)(bits[i] & 0x7fffffffu) >= beyond;
    return any;
}

static void pack_block(const float *values, float *owes, uint16_t *packed, size_t n)
{
    uint32_t bits[BLOCK];
    float rounded[BLOCK];
    memcpy(bits, values, n * sizeof *bits);
    const bool plain = !any_beyond(bits, n);
    for (size_t i = 0; plain && i < n; i++)
        bits[i] = round_plain(bits[i]);
    for (size_t i = 0; !plain && i < n; i++)
        bits[i] = round_any(bits[i]);
    memcpy(rounded, bits, n * sizeof *rounded);
    for (size_t i = 0; i < n; i++) {
        packed[i] = (uint16_t)(bits[i] >> 16);
        owes[i] = values[i] - rounded[i];
    }
    for (size_t i = 0; !plain && i < n; i++)
        if ((bits[i] & infinity) == infinity) owes[i] = 0;
}

void dpti_bfloat16_pack(float *data, const float *residual, float *owes, size_t n)
{
    uint8_t *at = (uint8_t *)data; /* never beyond the elements that have been read */
    float values[BLOCK], dropped[BLOCK];
    uint16_t packed[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        memcpy(values, data + begin, count * sizeof *values);
        for (size_t i = 0; residual && i < count; i++)
            values[i] += residual[begin + i];
        pack_block(values, owes ? owes + begin : dropped, packed, count);
        memcpy(at, packed, count * sizeof *packed);
        at += count * sizeof *packed;
    }
}

static void widen(const uint16_t *packed, float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)packed[i] << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
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

void dpti_bfloat16_add(float *to, const void *from, size_t n)
{
    const uint16_t *packed = from;
    float values[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        widen(packed + begin, values, count);
        for (size_t i = 0; i < count; i++)
            to[begin + i] += values[i];
    }
}
