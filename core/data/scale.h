/* Scales a part of an image to another size.  All arithmetic is on integers, so that every machine
   gets the same bytes. */
#ifndef DPTI_SCALE_H
#define DPTI_SCALE_H

#include "base/base.h"
#include "data/image.h"

/* Of what is wanted: with it no sum needs more than 64 bits. */
enum { DPTI_SCALE_MAX_EXTENT = 1 << 16 };

/* A part of an image. */
typedef struct dpti_image_window {
    size_t top, left, height, width; /* at least 1 pixel, and none outside of it */
} dpti_image_window;

/* The middle of an image, as much of it as has the wanted one's aspect, to whole pixels. */
dpti_image_window dpti_scale_middle(const dpti_image_shape *of, const dpti_image_shape *wanted);

/* A random part of an image, for torchvision's RandomResizedCrop: of at least `least_area` (above
   0, up to 1) of its area and of 3/4 to 4/3 of the wanted aspect, all as likely; the middle if in
   ten tries none fits.  The same on every machine: no function is used that these compute
   differently.
 */
dpti_image_window dpti_scale_draw(const dpti_image_shape *of, const dpti_image_shape *wanted,
                                  double least_area, dpti_random *random);

/* Fills `to` (wanted) from a window of `from` (of): both have the same number of channels, the
   image at most DPTI_IMAGE_MAX_PIXELS pixels, and no extent is 0.

   Where an extent shrinks, a value is the mean of the area that its pixel covers, parts of pixels
   counted as such; where it grows, it lies on the line between the two nearest pixels' middles.
   Both extents together are rounded once, half up.  An image of the wanted size stays as it is.
   False without memory. */
DPT_CHECK_RESULT bool dpti_scale(const uint8_t *from, const dpti_image_shape *of,
                                 const dpti_image_window *window, uint8_t *to,
                                 const dpti_image_shape *wanted);

/* Of an image of n x m the extent n of what is left when its middle is cut to wanted_n x wanted_m's
   aspect: rounded, at least 1. */
size_t dpti_scale_cut(size_t n, size_t m, size_t wanted_n, size_t wanted_m);

#endif
