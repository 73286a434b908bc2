/* Feeds arbitrary bytes to the reader of PNG images: unchanged, and with corrected checksums of
   all chunks, because a fuzzer does not find valid checksums. */
#include "picture.h"

#include <libdeflate.h>

enum { SIGNATURE_BYTES = 8, CHUNK_BYTES = 12 };

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Length, four letters, data, checksum of letters and data. */
static void put_checksums(uint8_t *data, size_t size)
{
    for (size_t at = SIGNATURE_BYTES; at <= size && size - at >= CHUNK_BYTES;) {
        const size_t length = get32(data + at);
        if (length > size - at - CHUNK_BYTES) return;
        const uint32_t sum = libdeflate_crc32(0, data + at + 4, length + 4);
        for (unsigned i = 0; i < 4; i++)
            data[at + 8 + length + i] = (uint8_t)(sum >> (24 - 8 * i));
        at += CHUNK_BYTES + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = calloc(1, size > 0 ? size : 1);
    require(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    put_checksums(copy, size);
    decode_pictures(copy, size);
    if (size > 0 && memcmp(copy, data, size) != 0) decode_pictures(data, size);
    free(copy);
    return 0;
}
