/* The parts that the direct convolutions share: the geometry of a description, and samples with
   their padding.

   A filter is a list of segments.  The inputs of a segment's taps are consecutive floats in a
   sample, so tiles read the input in place.  Without dilation and groups, all taps of a filter row
   are one segment.  Taps are numbered as OHWI filters store them. */
#ifndef DPT_CPU_CONV2D_H
#define DPT_CPU_CONV2D_H

#include "../operators.h"
#include "tile.h"

/* The most terms that a tile adds before its sums are stored.  The packed panel then stays in the
   second-level cache while it is used for all rows. */
enum { REDUCTION_MAX = 512 };

typedef struct conv {
    dpt_conv2d_desc desc;
    bool padded;                           /* samples are first copied into a frame of zeros */
    size_t padded_h, padded_w;             /* extents with padding */
    size_t in_size, padded_size, out_size; /* floats of a sample */
    size_t pixels;                         /* out_h * out_w */
    size_t column_step,
        row_step;               /* floats from the inputs of an output pixel to those of the next */
    size_t group_in, group_out; /* channels of a group */
    size_t taps;                /* of a filter: kernel_h * kernel_w * group_in */
    size_t out_width;           /* packed width of a group's output channels */
    size_t chunk;               /* samples that are treated together */
    size_t n_segments;
    segment segments[]; /* of group 0, with offsets into a padded sample */
} conv;

/* The state of a new plan.  NULL without memory. */
conv *KERNEL(conv_create)(const dpt_conv2d_desc *desc);

/* The samples at x with their padding: x itself if there is no padding; otherwise `frame`, of
   n_samples * padded_size floats, into which they are copied. */
const float *KERNEL(conv_frame)(const conv *v, const float *x, size_t n_samples, float *frame);

/* The offset of the input of a tap of group 0, in floats from the pixel's first input. */
size_t KERNEL(conv_tap_offset)(const conv *v, size_t tap);

/* The pieces of a call, of at most `chunk` samples each. */
size_t KERNEL(conv_pieces)(size_t n_samples, size_t chunk, unsigned n_threads);

/* Fills in the parts that the plans of the three operators share. */
void KERNEL(conv_describe)(dpt_op *op, const conv *v);

#endif
