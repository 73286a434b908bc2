/* Reads the pixels of PNG and JPEG images through libpng and libjpeg-turbo, as far as this build
   has them.  Knows nothing of networks or of the rest of the command. */
#ifndef DPTRAIN_CLI_IMAGE_H
#define DPTRAIN_CLI_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an image must be.  channels is 1 or 3. */
typedef struct cli_image_shape {
    size_t height, width, channels;
} cli_image_shape;

/* Words for a person, without the file's name. */
typedef struct cli_image_error {
    char message[256];
    bool unfit; /* nothing is wrong with the image, but it is none for the model */
} cli_image_error;

typedef enum cli_image_format {
    CLI_IMAGE_UNKNOWN = 0,
    CLI_IMAGE_PNG,
    CLI_IMAGE_JPEG,
} cli_image_format;

/* Told by the first bytes. */
cli_image_format cli_image_format_of(const uint8_t *bytes, size_t n_bytes);

/* Decodes a PNG or JPEG image into pixels (height, width, channels), 0 to 255.  Its height and
   width must be those of the shape, which is known from its first bytes, before memory is taken for
   it. Colours become grey by their luma (ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B), grey becomes
   three equal channels, what is transparent shows black.  False: a format that this build cannot
   read, another size, damage; pixels are then undefined. */
bool cli_image_decode(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                      uint8_t *pixels, cli_image_error *error);

#endif
