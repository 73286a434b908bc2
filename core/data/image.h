/* Decodes images: PNG, JPEG, WebP, GIF and TIFF by libraries, if this build has them
   (DPTRAIN_HAS_PNG and so on), BMP, PGM and PPM by itself.  Uses no files and no data sets. */
#ifndef DPTI_IMAGE_H
#define DPTI_IMAGE_H

#include "base/bytes.h"
#include "data/image_shape.h"
#include "dpt_error.h"

typedef enum dpti_image_format {
    DPTI_IMAGE_UNKNOWN = 0,
    DPTI_IMAGE_PNG,
    DPTI_IMAGE_JPEG,
    DPTI_IMAGE_WEBP,
    DPTI_IMAGE_BMP,
    DPTI_IMAGE_GIF,
    DPTI_IMAGE_TIFF,
    DPTI_IMAGE_PNM, /* PGM and PPM */
} dpti_image_format;

/* Returns the format that the first bytes indicate. */
dpti_image_format dpti_image_format_of(const uint8_t *bytes, size_t n_bytes);

/* Reads the size from an image's header: at least 1x1 and at most DPTI_IMAGE_MAX_PIXELS.  Decodes
   nothing and allocates no memory for the pixels.  Errors: DPT_E_FORMAT if it has none of these
   formats, is damaged, or is larger; DPT_E_UNSUPPORTED if this build has no library for it. */
DPT_CHECK_RESULT dpt_status dpti_image_measure(const dpti_file_bytes *file, size_t *height,
                                               size_t *width, dpt_error *error);

/* Decodes an image into pixels (height, width, channels), 0 to 255.  Its height and width must be
   those of the shape (else DPT_E_INVALID), which is checked before memory is allocated.  Colours
   become grey by their luma (ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B), grey becomes three equal
   channels, and transparent parts become black.  Other errors: as dpti_image_measure;
   DPT_E_NO_MEMORY.  After a failure the pixels are undefined. */
DPT_CHECK_RESULT dpt_status dpti_image_decode(const dpti_file_bytes *file,
                                              const dpti_image_shape *shape, uint8_t *pixels,
                                              dpt_error *error);

#endif
