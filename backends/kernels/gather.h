/* Parameters of gather.cl. */
#ifndef DPT_KERNELS_GATHER_H
#define DPT_KERNELS_GATHER_H

#include "divide.h"
#include "randaugment.h"

typedef struct gather_params {
    u64 n_samples;    /* for labels and draws, which have no dimension of samples */
    u32 count;        /* elements of a sample, below 2^31 */
    u32 op;           /* of RandAugment: the operation that a launch does */
    divisor channels; /* the channels of mean and scale: element e has channel e % channels */
    float mean[4], scale[4]; /* of each channel */
    divisor pixel, columns;  /* for augmentation: the elements of a pixel, and the width */
    u32 height, width;
    u32 pad;
    u32 flip;
    u32 border; /* a sample has an erased rectangle if the upper 24 bits of a word are below this */
    u32 rotates; /* whether images are rotated */
    u32 jitters; /* whether their colours are changed */
    distort_limits limits;
    u32 n_ops, magnitude; /* of RandAugment */
} gather_params;

/* The draws of a sample, in the workspace. */
typedef struct gather_drawn {
    u32 top, left; /* of the crop window in the padded image */
    u32 flipped;
    u32 erase_top, erase_left, erase_height, erase_width; /* height 0: nothing is erased */
    distort_drawn distorted;
    randaugment_op ops[RANDAUGMENT_MOST];
} gather_drawn;

#endif
