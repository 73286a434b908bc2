/* Encodes small pictures as PNG, and bytes as base64.  libpng is not needed. */
#ifndef DPTI_PNG_H
#define DPTI_PNG_H

#include "base/bytes.h"
#include "dpt_types.h"

/* A picture of 8 bits a value. */
typedef struct dpti_picture_bytes {
    size_t height, width, channels; /* channels: 1 (grey) or 3 (red, green, blue) */
    const uint8_t *pixels;          /* (height, width, channels) */
} dpti_picture_bytes;

/* Encodes a picture of at least one pixel and of less than 2^31 bytes (W3C, PNG, third edition).
   The caller frees out->bytes.  Returns false if there is no memory. */
DPT_CHECK_RESULT bool dpti_png_encode(const dpti_picture_bytes *picture, dpti_content *out);

/* Returns the base64 text of n bytes (RFC 4648), which the caller frees; NULL if there is no
   memory. */
char *dpti_base64(const uint8_t *bytes, size_t n);

#endif
