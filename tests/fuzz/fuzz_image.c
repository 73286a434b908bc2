/* Feeds any bytes to the reader of PNG and JPEG images, for a model with one channel and for one
   with three.  An image of another size is refused before it is decoded, so the sizes are those of
   the corpus. */
#include "image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIDE = 8 };

static void require(bool held)
{
    if (!held) abort();
}

static void decode(const uint8_t *data, size_t size, size_t channels)
{
    const cli_image_shape shape = {SIDE, SIDE, channels};
    const size_t n = SIDE * SIDE * channels;
    cli_image_error error = {""};
    uint8_t *pixels = malloc(n), *again = malloc(n);
    if (pixels && again) {
        memset(pixels, 0, n);
        memset(again, 0xff, n);
        const bool done = cli_image_decode(data, size, &shape, pixels, &error);
        require(done == cli_image_decode(data, size, &shape, again, &error));
        /* Every pixel was written, and the same both times. */
        if (done)
            require(memcmp(pixels, again, n) == 0);
        else
            require(error.message[0] != '\0');
        for (const char *c = error.message; *c; c++)
            require(*c >= ' ' && *c <= '~');
    }
    free(pixels);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size, 1);
    decode(data, size, 3);
    return 0;
}
