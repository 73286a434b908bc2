/* The bits of a float32, and back. */
#ifndef DPTI_FLOAT_BITS_H
#define DPTI_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t dpti_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float dpti_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
