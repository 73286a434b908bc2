/* The checksum of checksum.h. */
#include "train/components/checksum.h"

#include <string.h>

uint64_t dpti_checksum(uint64_t sum, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;
    uint64_t word;
    for (; n_bytes >= sizeof word; bytes += sizeof word, n_bytes -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 29;
    }
    for (; n_bytes > 0; bytes++, n_bytes--)
        sum = (sum ^ *bytes) * UINT64_C(0x100000001B3);
    return sum;
}
