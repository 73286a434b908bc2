/* binary16 (half.h): a sign, 5 bits of exponent, 10 bits of fraction. */
#include "base/half.h"

#include <string.h>

float dpti_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    uint32_t bits =
        sign | ((rest << 13) + (112u << 23)); /* the bias of the exponent is 15, not 127 */
    float value;
    if (rest < 0x400) { /* zero, or without the leading 1 */
        value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    if (rest >= 0x7c00) bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}
