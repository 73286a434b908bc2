/* What the three convolution kernels share: the geometry of a description, and samples with their
   padding.

   A filter is a list of segments: taps whose inputs are consecutive floats in a sample, so that
   tiles read the input where it lies.  Without dilation and groups, all taps of a filter row are
   one segment.  Taps are numbered as OHWI filters store them. */
#ifndef DPT_CPU_CONV2D_H
#define DPT_CPU_CONV2D_H

#include "../operators.h"
#include "tile.h"

/* Products that a tile adds before its sums go back to memory: the packed panel then stays in the
   second-level cache while it meets all rows. */
enum { REDUCTION_MAX = 512 };

typedef struct conv {
    dpt_conv2d_desc desc;
    bool padded;                           /* samples are copied into a frame of zeros first */
    size_t padded_h, padded_w;             /* extents with padding */
    size_t in_size, padded_size, out_size; /* floats a sample */
    size_t pixels;                         /* out_h * out_w */
    size_t column_step, row_step; /* from an output pixel's inputs to the next one's, in floats */
    size_t group_in, group_out;   /* channels of a group */
    size_t taps;                  /* of a filter: kernel_h * kernel_w * group_in */
    size_t out_width;             /* packed width of a group's output channels */
    size_t chunk;                 /* samples that are treated together */
    size_t n_segments;
    segment segments[]; /* offsets into a padded sample, of group 0 */
} conv;

/* A new plan's state, NULL without memory. */
conv *KERNEL(conv_create)(const dpt_conv2d_desc *desc);

/* The samples that begin at x, with padding: x itself if there is none, else copied into frame,
   which holds n_samples * padded_size floats. */
const float *KERNEL(conv_frame)(const conv *v, const float *x, size_t n_samples, float *frame);

/* Where the inputs of a tap of group 0 lie, from a pixel's first. */
size_t KERNEL(conv_tap_offset)(const conv *v, size_t tap);

/* The pieces of a call, of at most `chunk` samples each. */
size_t KERNEL(conv_pieces)(size_t n_samples, size_t chunk, unsigned n_threads);

/* Fills in what the plans of the three operators have in common. */
void KERNEL(conv_describe)(dpt_op *op, const conv *v);

#endif
