/* Hashes of results, by which runs of the suite on several devices are compared. */
#include "conformance.h"

#include <math.h>
#include <string.h>

/* FNV-1a, of 64 bits (Fowler, Noll and Vo). */
static uint64_t add_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

uint64_t conformance_bits(const void *data, dpt_dtype dtype, size_t n)
{
    static const float none = NAN;
    const size_t width = dpt_dtype_bytes(dtype);
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        unsigned char element[sizeof(float)];
        memcpy(element, bytes + i * width, width);
        if (dtype == DPT_F32) {
            float value;
            memcpy(&value, element, sizeof value);
            if (isnan(value)) memcpy(element, &none, sizeof none);
        }
        for (size_t k = 0; k < width; k++)
            hash = add_byte(hash, element[k]);
    }
    return hash;
}
