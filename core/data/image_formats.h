/* What the readers of picture formats share.  There is one reader for each format, in a file of its
   own; image.c chooses it by the first bytes of a file. */
#ifndef DPTI_IMAGE_FORMATS_H
#define DPTI_IMAGE_FORMATS_H

#include "base/bytes.h"
#include "data/image_shape.h"
#include "dpt_error.h"

/* What the caller wants of an image: its size, or its pixels in a shape. */
typedef struct dpti_image_request {
    const dpti_file_bytes *file;
    const dpti_image_shape *shape; /* NULL: only the size */
    uint8_t *pixels;               /* of the shape, which is that of the image */
    size_t height, width;          /* set by dpti_image_check_size */
} dpti_image_request;

/* Reads the size of an image and passes it to dpti_image_check_size; if r->shape is not NULL, then
   writes the pixels.  Errors: as dpti_image_decode. */
typedef dpt_status dpti_image_reader(dpti_image_request *r, dpt_error *error);

dpti_image_reader dpti_read_png, dpti_read_jpeg, dpti_read_webp, dpti_read_bmp, dpti_read_gif,
    dpti_read_tiff, dpti_read_pnm;

/* Stores the size in the image's header, and checks whether it can be the wanted one. */
DPT_CHECK_RESULT dpt_status dpti_image_check_size(dpti_image_request *r, size_t height,
                                                  size_t width, dpt_error *error);
/* Fails with the words of a library or of a reader, which may contain text of the file:
   DPT_E_FORMAT, or DPT_E_NO_MEMORY if the words say so. */
dpt_status dpti_image_damaged(const dpti_image_request *r, const char *format, const char *words,
                              dpt_error *error);
/* Fails because this build has no library for a format; `package` is that of Debian. */
dpt_status dpti_image_no_library(const dpti_image_request *r, const char *format,
                                 const char *package, dpt_error *error);
dpt_status dpti_image_no_memory(const dpti_image_request *r, dpt_error *error);

/* Decoded pixels: 1 or 3 channels, with or without alpha. */
typedef struct dpti_decoded_pixels {
    const uint8_t *values;
    size_t channels; /* without alpha */
    bool alpha;
} dpti_decoded_pixels;

/* Converts n pixels to the wanted channels. */
void dpti_image_convert(const dpti_decoded_pixels *decoded, size_t n, uint8_t *to, size_t channels);

#endif
