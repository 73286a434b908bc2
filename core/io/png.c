/* Writes PNG: a header, the rows in one compressed chunk, an end. */
#include "io/png.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVEL = 6,
    SIGNATURE = 8,
    HEADER = 13,
    CHUNK = 12
}; /* length, type and checksum of a chunk */

static uint8_t *put_number(uint8_t *to, size_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)(number >> shift);
    return to;
}

/* Ends a chunk whose n bytes of data are behind its type; `data` points to them. */
static uint8_t *end_chunk(uint8_t *data, size_t n, const char *type)
{
    put_number(data - 8, n);
    memcpy(data - 4, type, 4);
    return put_number(data + n, libdeflate_crc32(0, data - 4, n + 4));
}

static uint8_t *put_header(uint8_t *to, const dpti_picture_bytes *p)
{
    static const uint8_t signature[SIGNATURE] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    memcpy(to, signature, SIGNATURE);
    uint8_t *data = to + SIGNATURE + 8;
    uint8_t *at = put_number(put_number(data, p->width), p->height);
    *at++ = 8; /* bits */
    *at++ = p->channels == 3 ? 2 : 0;
    memset(at, 0, 3); /* compression, filter, no interlacing */
    return end_chunk(data, HEADER, "IHDR");
}

/* The rows, each behind the number of its filter, which is 0: none. */
static uint8_t *make_rows(const dpti_picture_bytes *p, size_t *n)
{
    const size_t row = p->width * p->channels;
    *n = p->height * (row + 1);
    uint8_t *rows = malloc(*n);
    for (size_t y = 0; rows && y < p->height; y++) {
        rows[y * (row + 1)] = 0;
        memcpy(rows + y * (row + 1) + 1, p->pixels + y * row, row);
    }
    return rows;
}

bool dpti_png_encode(const dpti_picture_bytes *picture, dpti_content *out)
{
    size_t n_rows = 0;
    uint8_t *rows = make_rows(picture, &n_rows);
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(LEVEL);
    const size_t most = compressor ? libdeflate_zlib_compress_bound(compressor, n_rows) : 0;
    uint8_t *bytes = malloc(SIGNATURE + 3 * CHUNK + HEADER + most);
    const bool well = rows && compressor && bytes;
    if (well) {
        uint8_t *data = put_header(bytes, picture) + 8;
        const size_t n = libdeflate_zlib_compress(compressor, rows, n_rows, data, most);
        uint8_t *end = end_chunk(data, n, "IDAT") + 8;
        end = end_chunk(end, 0, "IEND");
        *out = (dpti_content){.bytes = bytes, .n_bytes = (size_t)(end - bytes)};
    } else {
        free(bytes);
    }
    libdeflate_free_compressor(compressor);
    free(rows);
    return well;
}

char *dpti_base64(const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; text && i < n; i += 3) {
        const size_t left = n - i;
        const unsigned bits = (unsigned)bytes[i] << 16 | (left > 1 ? bytes[i + 1] : 0u) << 8 |
                              (left > 2 ? bytes[i + 2] : 0u);
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[bits & 63] : '=';
    }
    if (text) *to = '\0';
    return text;
}
