/* Reads files and memory, gzipped or not. libdeflate decompresses the data in one call. */
#include "data/source.h"

#include "base/memory.h"
#include "base/size.h"
#include "io/file.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

/* A match of 258 bytes takes at least two bits: https://www.zlib.net/zlib_tech.html. */
enum { DEFLATE_MAX_RATIO = 1032 };

static bool is_gzip(const dpti_file_bytes *file)
{
    return file->n_bytes >= 2 && file->bytes[0] == 0x1f && file->bytes[1] == 0x8b;
}

/* Returns the largest possible content of the file that fits into an object in C. */
static size_t largest_content(const dpti_file_bytes *file)
{
    size_t n = 0;
    if (!dpti_multiply(file->n_bytes, DEFLATE_MAX_RATIO, &n) || n > PTRDIFF_MAX) n = PTRDIFF_MAX;
    return n;
}

/* Returns the content size in the file's last four bytes: the size modulo 2^32, or any number in a
   damaged file. */
static size_t promised_content(const dpti_file_bytes *file)
{
    if (file->n_bytes < 4) return 0;
    const uint8_t *size = file->bytes + file->n_bytes - 4;
    return size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
}

static dpt_status inflate(struct libdeflate_decompressor *decompressor, const dpti_file_bytes *file,
                          dpti_content *out, dpt_error *error)
{
    const size_t most = largest_content(file);
    size_t room = promised_content(file);
    if (room < file->n_bytes) room = file->n_bytes;
    if (room > most) room = most;
    for (;;) {
        dpti_content content = {.n_bytes = 0};
        if (room <= dpti_machine_memory()) content.bytes = dpti_alloc_aligned(room);
        if (!content.bytes)
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes in %s", room,
                            file->name);
        size_t n_used = 0;
        const enum libdeflate_result result =
            libdeflate_gzip_decompress_ex(decompressor, file->bytes, file->n_bytes, content.bytes,
                                          room, &n_used, &content.n_bytes);
        if (result == LIBDEFLATE_SUCCESS && n_used == file->n_bytes) {
            *out = content;
            return DPT_OK;
        }
        free(content.bytes);
        if (result == LIBDEFLATE_SUCCESS)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: there are bytes behind the end of the gzip data; download it "
                            "again",
                            file->name);
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE || room == most)
            return DPT_FAIL_NATIVE(error, DPT_E_FORMAT, (int)result,
                                   "%s: the gzip data are corrupt or end in the middle "
                                   "(truncated); download it again",
                                   file->name);
        /* The content is larger than stated: it has over 4 GiB, or the file is damaged.
           Decompressing it all shows which. */
        room = room < most / 2 ? 2 * room : most;
    }
}

static dpt_status unpack(const dpti_file_bytes *file, dpti_content *out, dpt_error *error)
{
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    if (!decompressor)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to decompress %s", file->name);
    const dpt_status status = inflate(decompressor, file, out, error);
    libdeflate_free_decompressor(decompressor);
    return status;
}

dpt_status dpti_source_read(const char *path, dpti_content *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read(path, &content, error));
    const dpti_file_bytes file = {path, content.bytes, content.n_bytes};
    if (!is_gzip(&file)) {
        *out = content;
        return DPT_OK;
    }
    const dpt_status status = unpack(&file, out, error);
    free(content.bytes);
    return status;
}

dpt_status dpti_source_copy(const dpti_file_bytes *file, dpti_content *out, dpt_error *error)
{
    if (is_gzip(file)) return unpack(file, out, error);
    uint8_t *bytes = dpti_alloc_aligned(file->n_bytes);
    if (!bytes)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes of %s", file->n_bytes,
                        file->name);
    if (file->n_bytes > 0) memcpy(bytes, file->bytes, file->n_bytes);
    *out = (dpti_content){.bytes = bytes, .n_bytes = file->n_bytes};
    return DPT_OK;
}
