/* Parameters of the convolution kernels for CPUs (conv2d_registers_*.cl), shared with the host.

   Distances are in floats.  A *panel* is LANES result channels of a group, the last one of a group
   padded; a *tile* is ROWS results of a panel, held in registers while their sums are added up. */
#ifndef DPT_KERNELS_CONV2D_REGISTERS_H
#define DPT_KERNELS_CONV2D_REGISTERS_H

#include "dialect.h"

/* dpt_conv2d_pack: the filters of a grid (below), ordered by group, panel, row of taps, column of
   taps and channel, lane.  Place of a filter's element:
       group * group_step + lane * lane_step + channel * channel_step +
       (row_first + row * row_step) + (column_first + column * column_step) */
typedef struct conv_pack_params {
    u64 group_step, lane_step, channel_step;
    i32 row_first, row_step, column_first, column_step;
    u32 taps_h, taps_w, channels; /* of the sums */
    u32 group_lanes, n_panels;    /* result channels and panels of a group */
    u32 lanes;                    /* LANES */
    u32 n_zeros;                  /* zeros to be written at the end of the packed filters */
    u32 has_bias;
} conv_pack_params;

/* dpt_conv2d_frame: samples of in_h rows of in_row floats, in a frame of zeros of out_h rows. */
typedef struct conv_frame_params {
    u32 in_h, in_row, out_h, out_row;
    u32 first_h, first; /* where in the frame a sample's first row, a row's first float come */
} conv_frame_params;

/* dpt_conv2d_gather: a regular grid of results, each the sum over taps_h x taps_w segments of `run`
   consecutive floats.  Forward it is all of y; backward to the data, those pixels of dx that see
   the same taps: one grid for each phase of the stride. */
typedef struct conv_gather_params {
    u64 n_pixels; /* of all samples */
    u64 in_sample, out_sample;
    u64 zeros;          /* place in packed of `run` zeros, for taps outside the sample */
    u32 grid_h, grid_w; /* of a sample */
    u32 out_first, out_row, out_pixel; /* a sample's first result, and on to the next ones */
    i32 first_h, first_w;              /* row and column of the first result's first tap */
    u32 step_h, step_w;                /* from a result's to the next one's */
    u32 in_h, in_w, in_row, in_pixel;
    i32 inside_first, inside_end;     /* rows that are not zeros of a frame */
    u32 taps_h, taps_w, tap_h, tap_w; /* how many, and rows or columns from one to the next */
    u32 run;
    u32 block;                              /* segments whose products are added in one go */
    u32 item_pixels;                        /* of a work item */
    u32 n_panels, group_channels, group_in; /* of a group; result and source channels */
    u32 has_bias, activation, mask, accumulate;
    u32 panels_first; /* neighbouring work items have the same pixels, else the same panel */
} conv_gather_params;

/* dpt_conv2d_weights: sums over pixels.  A tile is ROWS elements of the filters, their inputs
   broadcast, times a panel of dy.  Tiles are numbered by group, panel, tile of the filter; those of
   each part of the pixels are stored behind one another, and dpt_conv2d_reduce adds up the parts.
 */
typedef struct conv_weights_params {
    u64 n_rows;    /* rows of output pixels of all samples */
    u64 part_rows; /* of a part */
    u64 in_sample, out_sample;
    u32 block_rows;              /* rows whose products are added in one go */
    u32 n_tiles, item_tiles;     /* all, and of a work item */
    u32 filter_tiles, tap_tiles; /* of a filter; of a tap, where tiles are cut by taps */
    u32 n_panels;                /* of a group */
    u32 out_h, out_w, out_channels;
    u32 in_h, in_w, in_row, in_pixel;
    u32 stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    u32 kernel_h, kernel_w, group_in, group_out;
    u32 has_bias;
    u32 has_tail; /* the last sample of dy is a copy that may be read beyond */
    u32 resume;   /* add to sums of an earlier launch */
} conv_weights_params;

typedef struct conv_reduce_params {
    u64 n_parts;
    u32 rows, lanes; /* of a tile */
    u32 n_tiles, filter_tiles, tap_tiles, n_panels;
    u32 group_in, group_out, filter_size;
    u32 cut_by_taps, has_bias, accumulate;
} conv_reduce_params;

enum {
    CONV_PACK_COLUMNS = 16, /* that a work item of dpt_conv2d_pack treats */
    CONV_TILE_MAX = 512,    /* ROWS * LANES at most */
};

#endif
