/* Scales a part of an image to another size.  All arithmetic is on integers, so that every machine
   gets the same bytes. */
#ifndef DPTI_SCALE_H
#define DPTI_SCALE_H

#include "base/random.h"
#include "data/image.h"

/* Largest extent of the result; up to it no sum needs more than 64 bits. */
enum { DPTI_SCALE_MAX_EXTENT = 1 << 16 };

/* A part of an image. */
typedef struct dpti_image_window {
    size_t top, left, height, width; /* at least 1 pixel, and within the image */
} dpti_image_window;

/* Returns the largest centred window of an image that has the aspect ratio of `wanted`, in whole
   pixels. */
dpti_image_window dpti_scale_middle(const dpti_image_shape *of, const dpti_image_shape *wanted);

/* Returns a random window of an image, as for torchvision's RandomResizedCrop: with at least
   `least_area` (above 0, up to 1) of its area, and 3/4 to 4/3 of the wanted aspect ratio.  If ten
   random windows do not fit, the result is the centred window.  The result is the same on every
   machine, because no function is used whose rounding differs between machines. */
dpti_image_window dpti_scale_draw(const dpti_image_shape *of, const dpti_image_shape *wanted,
                                  double least_area, dpti_random *random);

/* An image, and the window of the image that is scaled. */
typedef struct dpti_scale_source {
    const uint8_t *pixels; /* (shape) */
    dpti_image_shape shape;
    dpti_image_window window;
} dpti_scale_source;

/* Fills `to` (wanted) from a window of an image.  Both have the same number of channels.  The
   image has at most DPTI_IMAGE_MAX_PIXELS pixels, and no extent is 0.

   If an extent shrinks, a value is the mean over the area that the result pixel covers, with
   fractions of pixels.  If an extent grows, a value is interpolated linearly between the centres
   of the two nearest pixels.  The result of both extents is rounded once, half up.  An image of
   the wanted size is copied.  Returns false if there is no memory. */
DPT_CHECK_RESULT bool dpti_scale(const dpti_scale_source *from, uint8_t *to,
                                 const dpti_image_shape *wanted);

/* Returns the extent n of the centred part of an n x m image that has the aspect ratio wanted_n x
   wanted_m: rounded, at least 1. */
size_t dpti_scale_cut(size_t n, size_t m, size_t wanted_n, size_t wanted_m);

#endif
