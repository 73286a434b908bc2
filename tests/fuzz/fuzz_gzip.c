/* Feeds arbitrary bytes to the reader of gzipped files: as a file, and as the deflate stream of a
   file whose header, checksum and size are valid, because a fuzzer does not find valid checksums.
   The output is compared with that of deflate. */
#include "data/source.h"
#include "fuzz.h"

#include <libdeflate.h>

enum { ROOM = 1 << 18, MAX_RATIO = 1032, FIXED_BYTES = 10, TRAILER_BYTES = 8 };

enum { HAS_CRC = 2, HAS_EXTRA = 4, HAS_NAME = 8, HAS_COMMENT = 16 };

static void put32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static dpt_status unpack(const uint8_t *data, size_t size, dpti_content *out)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_status status =
        dpti_source_copy(&(dpti_file_bytes){"input", data, size}, out, &error);
    if (status != DPT_OK) require_refusal(status, &error);
    return status;
}

static void check_plain(const uint8_t *data, size_t size)
{
    dpti_content content = {.n_bytes = 0};
    if (unpack(data, size, &content) != DPT_OK) return;
    if (looks_like_gzip(data, size))
        require(content.n_bytes <= size * MAX_RATIO);
    else
        require(content.n_bytes == size && (size == 0 || memcmp(content.bytes, data, size) == 0));
    free(content.bytes);
}

/* The fields that the flags announce, of a few bytes each; their length. */
static size_t write_header(uint8_t *to, uint8_t flags)
{
    size_t n = FIXED_BYTES;
    memcpy(to, "\x1f\x8b\x08\0\0\0\0\0\0\x03", FIXED_BYTES);
    to[3] = flags & (HAS_CRC | HAS_EXTRA | HAS_NAME | HAS_COMMENT);
    if (flags & HAS_EXTRA) {
        memcpy(to + n, "\x03\0abc", 5);
        n += 5;
    }
    for (unsigned flag = HAS_NAME; flag <= HAS_COMMENT; flag *= 2)
        if (flags & flag) {
            memcpy(to + n, "text", 5);
            n += 5;
        }
    if (flags & HAS_CRC) {
        uint8_t sum[4];
        put32(sum, libdeflate_crc32(0, to, n));
        memcpy(to + n, sum, 2);
        n += 2;
    }
    return n;
}

/* The first byte is the header's flags, and what the trailer says of the size; the others are the
   deflate stream. */
static void check_wrapped(const uint8_t *data, size_t size)
{
    static uint8_t plain[ROOM];
    size_t n_used = 0, n_plain = 0;
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    uint8_t *file = malloc(size + 64);
    require(decompressor && file);
    const enum libdeflate_result result = libdeflate_deflate_decompress_ex(
        decompressor, data + 1, size - 1, plain, sizeof plain, &n_used, &n_plain);
    size_t n = write_header(file, data[0]);
    if (result == LIBDEFLATE_SUCCESS) {
        memcpy(file + n, data + 1, n_used);
        n += n_used;
        put32(file + n, libdeflate_crc32(0, plain, n_plain));
        put32(file + n + 4, (uint32_t)n_plain);
        n += TRAILER_BYTES;
        dpti_content content = {.n_bytes = 0};
        require(unpack(file, n, &content) == DPT_OK && content.n_bytes == n_plain);
        require(n_plain == 0 || memcmp(content.bytes, plain, n_plain) == 0);
        free(content.bytes);
        /* Damaged in its last bytes, cut, or followed by another byte it is refused. */
        require(unpack(file, n - 1, &content) == DPT_E_FORMAT);
        file[n] = data[0];
        require(unpack(file, n + 1, &content) == DPT_E_FORMAT);
        file[n - 1 - data[0] % TRAILER_BYTES] ^= (uint8_t)(1 + data[0] % 255);
        require(unpack(file, n, &content) != DPT_OK);
    }
    free(file);
    libdeflate_free_decompressor(decompressor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_plain(data, size);
    if (size > 1) check_wrapped(data, size);
    return 0;
}
