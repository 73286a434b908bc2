/* Compresses bytes as gzip does. */
#ifndef DPT_TEST_GZIP_H
#define DPT_TEST_GZIP_H

#include <libdeflate.h>
#include <stdint.h>
#include <stdlib.h>

/* One member; level 1 (fast) to 12 (small).  The caller frees; NULL if there is no memory. */
static inline uint8_t *pack_gzip(const void *bytes, size_t n_bytes, int level, size_t *n_packed)
{
    uint8_t *packed = NULL;
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(level);
    if (compressor) {
        const size_t room = libdeflate_gzip_compress_bound(compressor, n_bytes);
        packed = malloc(room);
        if (packed) *n_packed = libdeflate_gzip_compress(compressor, bytes, n_bytes, packed, room);
    }
    libdeflate_free_compressor(compressor);
    return packed;
}

#endif
