/* The orientation that a camera has noted in a picture's file (EXIF), and pixels that are turned by
   it. */
#ifndef DPTI_EXIF_H
#define DPTI_EXIF_H

#include "data/image.h"

/* Returns the orientation in the EXIF data of a PNG, JPEG, WebP or TIFF file, 1 to 8 as EXIF
   numbers them: 1 for a file that says nothing, says something else, or is damaged. */
unsigned dpti_exif_orientation(const dpti_file_bytes *file);

/* Whether an orientation swaps height and width. */
static inline bool dpti_exif_swaps(unsigned orientation)
{
    return orientation >= 5;
}

/* Turns and mirrors pixels (height, width, channels) of the file as the orientation says, as PIL's
   exif_transpose does.  `shape` is that of `from`; height and width of `to` are swapped if the
   orientation swaps them. */
void dpti_exif_turn(const uint8_t *from, const dpti_image_shape *shape, unsigned orientation,
                    uint8_t *to);

#endif
