/* Blocks of integers of 8 bits, one after the other. */
#include "base/int8_blocks.h"

#include "base/float_bits.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = DPTI_INT8_BLOCK, SCALE_BYTES = 2, BLOCK_BYTES = SCALE_BYTES + BLOCK };

/* Upper halves of float32. */
static const uint32_t least_scale = 0x00010000u, largest_scale = 0x7c010000u,
                      not_a_number = 0x7fc00000u, infinity = 0x7f800000u;

size_t dpti_int8_bytes(size_t n)
{
    return n + (n + BLOCK - 1) / BLOCK * SCALE_BYTES;
}

/* The bits of the largest magnitude, which are in the order of magnitudes. */
static uint32_t largest_bits(const float *values, size_t n)
{
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t magnitude = (int32_t)(dpti_float_bits(values[i]) & 0x7fffffffu);
        most = magnitude > most ? magnitude : most;
    }
    return (uint32_t)most;
}

/* The bits of the scale of a block whose largest magnitude has these bits. */
static uint32_t find_scale(uint32_t largest)
{
    if (largest >= infinity) return not_a_number;
    if (largest == 0) return 0;
    const uint32_t up =
        (dpti_float_bits(dpti_float_of_bits(largest) / 127) + 0xffffu) & 0xffff0000u;
    if (up > largest_scale) return largest_scale;
    return up > 0 ? up : least_scale;
}

static void pack_block(const float *values, float *owes, uint8_t *packed, size_t n)
{
    /* Adding and subtracting 1.5 * 2^23 rounds to an integer. */
    static const float rounder = 12582912.0f;
    const uint32_t bits = find_scale(largest_bits(values, n));
    const float scale = dpti_float_of_bits(bits);
    const uint16_t upper = (uint16_t)(bits >> 16);
    int8_t integers[BLOCK] = {0};
    memcpy(packed, &upper, SCALE_BYTES);
    if (scale > 0) {
        for (size_t i = 0; i < n; i++) {
            const float integer = values[i] / scale + rounder - rounder;
            integers[i] = (int8_t)integer;
            owes[i] = values[i] - integer * scale;
        }
    } else {
        memset(owes, 0, n * sizeof *owes);
    }
    memcpy(packed + SCALE_BYTES, integers, n);
}

void dpti_int8_pack(float *data, const float *residual, float *owes, size_t n)
{
    uint8_t *at = (uint8_t *)data; /* never beyond the elements that have been read */
    float values[BLOCK], dropped[BLOCK];
    uint8_t packed[BLOCK_BYTES];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        memcpy(values, data + begin, count * sizeof *values);
        for (size_t i = 0; residual && i < count; i++)
            values[i] += residual[begin + i];
        pack_block(values, dropped, packed, count);
        if (owes) memcpy(owes + begin, dropped, count * sizeof *owes);
        memcpy(at, packed, SCALE_BYTES + count);
        at += SCALE_BYTES + count;
    }
}

static void unpack_block(const uint8_t *packed, float *values, size_t n)
{
    uint16_t upper;
    int8_t integers[BLOCK] = {0};
    memcpy(&upper, packed, SCALE_BYTES);
    memcpy(integers, packed + SCALE_BYTES, n);
    const float scale = dpti_float_of_bits((uint32_t)upper << 16);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)integers[i] * scale;
}

void dpti_int8_unpack(float *data, size_t n)
{
    const uint8_t *bytes = (const uint8_t *)data;
    uint8_t packed[BLOCK_BYTES];
    /* From the end: a float32 overwrites what has been read. */
    for (size_t end = n; end > 0;) {
        const size_t count = end % BLOCK ? end % BLOCK : BLOCK;
        end -= count;
        memcpy(packed, bytes + dpti_int8_bytes(end), SCALE_BYTES + count);
        unpack_block(packed, data + end, count);
    }
}

void dpti_int8_add(float *to, const void *from, size_t n)
{
    const uint8_t *bytes = from;
    float values[BLOCK];
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t count = n - begin < BLOCK ? n - begin : BLOCK;
        unpack_block(bytes + dpti_int8_bytes(begin), values, count);
        for (size_t i = 0; i < count; i++)
            to[begin + i] += values[i];
    }
}
