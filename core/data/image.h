/* Decodes PNG and JPEG images with libpng and libjpeg-turbo, if this build has them
   (DPTRAIN_HAS_PNG, DPTRAIN_HAS_JPEG).  Uses no files and no data sets. */
#ifndef DPTI_IMAGE_H
#define DPTI_IMAGE_H

#include "dpt_error.h"

/* What an image must be.  channels is 1 or 3. */
typedef struct dpti_image_shape {
    size_t height, width, channels;
} dpti_image_shape;

/* The bytes of a file; `name` stands in messages. */
typedef struct dpti_image_file {
    const char *name;
    const uint8_t *bytes;
    size_t n_bytes;
} dpti_image_file;

typedef enum dpti_image_format {
    DPTI_IMAGE_UNKNOWN = 0,
    DPTI_IMAGE_PNG,
    DPTI_IMAGE_JPEG,
} dpti_image_format;

/* More is taken for a mistake, or for an attempt on the machine's memory: no camera has as many. */
enum { DPTI_IMAGE_MAX_PIXELS = 1 << 28 };

/* Told by the first bytes. */
dpti_image_format dpti_image_format_of(const uint8_t *bytes, size_t n_bytes);

/* The size that an image says it has, at least 1x1 and at most DPTI_IMAGE_MAX_PIXELS; nothing is
   decoded, and no memory taken for it.  DPT_E_FORMAT: neither PNG nor JPEG, damaged, or larger;
   DPT_E_UNSUPPORTED: this build has no library for it. */
DPT_CHECK_RESULT dpt_status dpti_image_measure(const dpti_image_file *file, size_t *height,
                                               size_t *width, dpt_error *error);

/* Decodes an image into pixels (height, width, channels), 0 to 255.  Its height and width must be
   those of the shape (DPT_E_INVALID), which is known from its first bytes, before memory is taken
   for it.  Colours become grey by their luma (ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B), grey
   becomes three equal channels, what is transparent shows black.  Else as dpti_image_measure;
   DPT_E_NO_MEMORY.  After a failure pixels are undefined. */
DPT_CHECK_RESULT dpt_status dpti_image_decode(const dpti_image_file *file,
                                              const dpti_image_shape *shape, uint8_t *pixels,
                                              dpt_error *error);

#endif
