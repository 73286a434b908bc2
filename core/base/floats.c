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
