/* The size of an image. */
#ifndef DPTI_IMAGE_SHAPE_H
#define DPTI_IMAGE_SHAPE_H

#include <stddef.h>

/* The required shape of an image.  `channels` is 1 or 3. */
typedef struct dpti_image_shape {
    size_t height, width, channels;
} dpti_image_shape;

/* A larger image is treated as an error or an attack on the machine's memory; no camera has as
   many pixels. */
enum { DPTI_IMAGE_MAX_PIXELS = 1 << 28 };

#endif
