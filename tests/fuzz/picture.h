/* Shared code of the fuzzers of PNG and JPEG.  An image is decoded for a model with one channel
   and for one with three, unscaled and scaled.  Unscaled, an image must have the size of the
   corpus; an image of another size is refused before it is decoded. */
#ifndef DPT_TEST_PICTURE_H
#define DPT_TEST_PICTURE_H

#include "data/image.h"
#include "data/picture.h"
#include "fuzz.h"

enum { PICTURE_SIDE = 8, SCALED_HEIGHT = 5, SCALED_WIDTH = 11, MAX_SCALED_PIXELS = 1 << 16 };

/* What a fuzzer can decode many times a second. */
static inline bool is_small(const uint8_t *data, size_t size)
{
    const dpti_file_bytes file = {.name = "image", .bytes = data, .n_bytes = size};
    size_t height = 0, width = 0;
    const dpt_status status = dpti_image_measure(&file, &height, &width, NULL);
    require((status == DPT_OK) == (height > 0 && width > 0));
    return status != DPT_OK || height <= MAX_SCALED_PIXELS / width;
}

/* Exactly as much memory as the pixels need, every one of them written, and the same both times. */
static inline void decode_picture(const uint8_t *data, size_t size, const dpt_picture_shape *shape)
{
    const size_t n = shape->height * shape->width * shape->channels;
    dpt_error error = {.message = ""};
    uint8_t *pixels = malloc(n), *again = malloc(n);
    require(pixels && again);
    memset(pixels, 0, n);
    memset(again, 0xff, n);
    const dpt_status status =
        dpti_picture_parse(&(dpti_file_bytes){"image", data, size}, shape, pixels, &error);
    require(status ==
            dpti_picture_parse(&(dpti_file_bytes){"image", data, size}, shape, again, &error));
    if (status == DPT_OK)
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
    const bool small = is_small(data, size);
    for (size_t channels = 1; channels <= 3; channels += 2) {
        const dpt_picture_shape same = {PICTURE_SIDE, PICTURE_SIDE, channels, false, false};
        const dpt_picture_shape scaled = {SCALED_HEIGHT, SCALED_WIDTH, channels, true, false};
        decode_picture(data, size, &same);
        if (small) decode_picture(data, size, &scaled);
    }
}

#endif
