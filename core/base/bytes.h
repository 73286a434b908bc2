/* The content of a file in memory. */
#ifndef DPTI_BYTES_H
#define DPTI_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct dpti_file_bytes {
    const char *name; /* of the file, for messages */
    const uint8_t *bytes;
    size_t n_bytes;
} dpti_file_bytes;

#endif
