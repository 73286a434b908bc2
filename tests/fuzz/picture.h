/* What the fuzzers of PNG and JPEG share: an image is decoded for a model with one channel and for
   one with three.  One of another size is refused before it is decoded, so the sizes are those of
   the corpus. */
#ifndef DPT_TEST_PICTURE_H
#define DPT_TEST_PICTURE_H

#include "fuzz.h"
#include "image.h"

enum { PICTURE_SIDE = 8, PICTURE_BYTES = PICTURE_SIDE * PICTURE_SIDE * 3 };

/* Exactly as much memory as the pixels need, every one of them written, and the same both times. */
static inline void decode_picture(const uint8_t *data, size_t size, size_t channels)
{
    const cli_image_shape shape = {PICTURE_SIDE, PICTURE_SIDE, channels};
    const size_t n = (size_t)PICTURE_SIDE * PICTURE_SIDE * channels;
    cli_image_error error = {.message = ""};
    uint8_t *pixels = malloc(n), *again = malloc(n);
    require(pixels && again);
    memset(pixels, 0, n);
    memset(again, 0xff, n);
    const bool done = cli_image_decode(data, size, &shape, pixels, &error);
    require(done == cli_image_decode(data, size, &shape, again, &error));
    if (done)
        require(memcmp(pixels, again, n) == 0);
    else
        require(error.message[0] != '\0');
    for (const char *c = error.message; *c; c++)
        require(*c >= ' ' && *c <= '~');
    free(pixels);
    free(again);
}

static inline void decode_pictures(const uint8_t *data, size_t size)
{
    decode_picture(data, size, 1);
    decode_picture(data, size, 3);
}

#endif
