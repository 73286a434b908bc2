/* Bytes in memory, and the content of a file in memory. */
#ifndef DPTI_BYTES_H
#define DPTI_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes in memory that someone else holds. */
typedef struct dpti_bytes {
    const void *data; /* may be NULL if n_bytes is 0 */
    size_t n_bytes;
} dpti_bytes;

typedef struct dpti_file_bytes {
    const char *name; /* of the file, for messages */
    const uint8_t *bytes;
    size_t n_bytes;
} dpti_file_bytes;

/* Bytes that were read from a file, and that their holder frees. */
typedef struct dpti_content {
    uint8_t *bytes; /* aligned to 64 bytes; owned, free() */
    size_t n_bytes;
} dpti_content;

#endif
