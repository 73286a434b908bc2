/* Parameters of the convolution kernels for CPUs (conv2d_registers_*.cl), for kernels and host.

   Distances are in floats.  A *panel* is LANES result channels of a group; the last panel of a
   group is padded.  A *tile* is ROWS results of a panel, which stay in registers while they are
   summed. */
#ifndef DPT_KERNELS_CONV2D_REGISTERS_H
#define DPT_KERNELS_CONV2D_REGISTERS_H

#include "dialect.h"

/* dpt_conv2d_pack: packs the filters of a grid (below), ordered by group, panel, row of taps,
   column of taps and channel, lane.  The index of a filter's element is group * group_step + lane *
   lane_step + channel * channel_step + (row_first + row * row_step) + (column_first + column *
   column_step) */
typedef struct conv_pack_params {
    u64 group_step, lane_step, channel_step;
    i32 row_first, row_step, column_first, column_step;
    u32 taps_h, taps_w, channels; /* of the sums */
    u32 group_lanes, n_panels;    /* result channels and panels of a group */
    u32 lanes;                    /* LANES */
    u32 n_zeros;                  /* zeros to write behind the packed filters */
    u32 has_bias;
} conv_pack_params;

/* dpt_conv2d_frame: copies samples of in_h rows of in_row floats into frames of zeros of out_h
 * rows. */
typedef struct conv_frame_params {
    u32 in_h, in_row, out_h, out_row;
    u32 first_h,
        first; /* the place in the frame of a sample's first row, and of a row's first float */
} conv_frame_params;

/* dpt_conv2d_gather: computes a regular grid of results.  A result is the sum over taps_h x taps_w
   segments of `run` consecutive floats.  In forward the grid is all of y.  In backward-data it is
   the pixels of dx that meet the same taps, so there is one grid for each phase of the stride. */
typedef struct conv_gather_params {
    u64 n_pixels; /* of all samples */
    u64 in_sample, out_sample;
    u64 zeros;          /* the index in packed of `run` zeros, for taps outside the sample */
    u32 grid_h, grid_w; /* of a sample */
    u32 out_first, out_row, out_pixel; /* a sample's first result, and the steps to the next ones */
    i32 first_h, first_w;              /* row and column of the first result's first tap */
    u32 step_h, step_w;                /* from the first tap of a result to that of the next one */
    u32 in_h, in_w, in_row, in_pixel;
    i32 inside_first, inside_end;     /* the rows that are not zeros of a frame */
    u32 taps_h, taps_w, tap_h, tap_w; /* taps, and rows or columns from one to the next */
    u32 run;
    u32 block;                              /* segments whose products are added before a store */
    u32 item_pixels;                        /* pixels of a work item */
    u32 n_panels, group_channels, group_in; /* of a group; result and source channels */
    u32 has_bias, activation, mask, accumulate;
    float end; /* of deterministic operators: what is added to each sum behind its last term */
    u32 panels_first; /* neighbouring work items have the same pixels, else the same panel */
    u32 unused;
} conv_gather_params;

/* dpt_conv2d_weights: sums over pixels.  A tile is ROWS elements of the filters, whose inputs are
   broadcast, times a panel of dy.  Tiles are numbered by group, panel, tile of the filter.  The
   tiles of a part of the pixels are stored one behind the other, and dpt_conv2d_reduce adds up the
   parts.  A deterministic operator has one part, in which the sums of grains are added up along the
   tree.  Those that wait lie in memory of the tile, or of the work item if an item treats all
   pixels of a tile before the next one. */
typedef struct conv_weights_params {
    u64 before;     /* rows of earlier launches of the call; of deterministic operators, too: */
    u64 grain_rows; /* rows of a grain, at least 1 */
    u64 n_rows;     /* rows of output pixels of all samples */
    u64 part_rows;  /* rows of a part */
    u64 in_sample, out_sample;
    u32 block_rows;              /* rows whose products are added before a store */
    u32 n_tiles, item_tiles;     /* all tiles, and tiles of a work item */
    u32 filter_tiles, tap_tiles; /* tiles of a filter; tiles of a tap, if they are cut by taps */
    u32 n_panels;                /* of a group */
    u32 out_h, out_w, out_channels;
    u32 in_h, in_w, in_row, in_pixel;
    u32 stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    u32 kernel_h, kernel_w, group_in, group_out;
    u32 has_bias;
    u32 has_tail; /* the last sample of dy is a copy, behind whose end the kernel may read */
    u32 ends;     /* the call ends with the launch */
    u32 by_item;  /* of deterministic operators: all rows are one block */
    float end;    /* the same: what is added to the sum of a grain behind its last term */
} conv_weights_params;

typedef struct conv_reduce_params {
    u64 n_parts;
    u32 rows, lanes; /* of a tile */
    u32 n_tiles, filter_tiles, tap_tiles, n_panels;
    u32 group_in, group_out, filter_size;
    u32 cut_by_taps, has_bias, accumulate;
    float end; /* added to each sum behind its last term: +0, or -0, which changes nothing */
    u32 unused;
} conv_reduce_params;

enum {
    CONV_PACK_COLUMNS = 16, /* columns that a work item of dpt_conv2d_pack treats */
    CONV_TILE_MAX = 512,    /* the most of ROWS * LANES */
};

#endif
