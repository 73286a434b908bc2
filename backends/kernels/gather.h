/* Parameters of gather.cl. */
#ifndef DPT_KERNELS_GATHER_H
#define DPT_KERNELS_GATHER_H

#include "divide.h"

typedef struct gather_params {
    u64 n_samples; /* labels and draws: an item a sample */
    u32 count;     /* elements of a sample, below 2^31 */
    u32 unused;
    divisor channels;        /* of the constants: element e is of channel e % channels */
    float mean[4], scale[4]; /* of each */
    divisor pixel, columns;  /* augmentation: by elements a pixel, width */
    u32 height, width;
    u32 pad;
    u32 flip;
    u32 border; /* erased where the upper 24 bits of a word are below it */
    u32 unused_too;
} gather_params;

/* What is drawn for a sample, in the workspace. */
typedef struct gather_drawn {
    u32 top, left; /* of the window in the padded image */
    u32 flipped;
    u32 erase_top, erase_left, erase_height, erase_width; /* height 0: nothing is erased */
    u32 unused;
} gather_drawn;

#endif
