/* Makes an image of one size from an image of another: cut in its middle to the same aspect, then
   scaled.  All arithmetic is on integers, so that every machine gets the same bytes. */
#ifndef DPTI_SCALE_H
#define DPTI_SCALE_H

#include "data/image.h"

/* Of what is wanted: with it no sum needs more than 64 bits. */
enum { DPTI_SCALE_MAX_EXTENT = 1 << 16 };

/* Fills `to` (wanted) from `from` (of): both have the same number of channels, the image at most
   DPTI_IMAGE_MAX_PIXELS pixels, and no extent is 0.

   Where an extent shrinks, a value is the mean of the area that its pixel covers, parts of pixels
   counted as such; where it grows, it lies on the line between the two nearest pixels' middles.
   Both extents together are rounded once, half up.  An image of the wanted size stays as it is.
   False without memory. */
DPT_CHECK_RESULT bool dpti_scale(const uint8_t *from, const dpti_image_shape *of, uint8_t *to,
                                 const dpti_image_shape *wanted);

/* Of an image of n x m the extent n of what is left when its middle is cut to wanted_n x wanted_m's
   aspect: rounded, at least 1. */
size_t dpti_scale_cut(size_t n, size_t m, size_t wanted_n, size_t wanted_m);

#endif
