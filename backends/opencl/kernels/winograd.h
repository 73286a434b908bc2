/* Parameters of the Winograd kernels, shared with the backend's C code (dialect.h).

   A convolution with 3x3 taps is done on tiles of TILE x TILE results (4 or 2).  Tensors are
   transformed to POINTS x POINTS values a tile and channel, POINTS = TILE + 2, and what was a
   convolution is then one product of matrices for each of these points.  A transformed tensor holds
   the points one behind the other; within a point lie rows (a tile each) of channels, in chunks of
   WIDTH channels, the device's vector:

       [rows' block][chunk][row in the block][lane]

   so that a product reads both operands in the order of their addresses.  Channels are padded with
   zeros to whole chunks, rows to whole blocks.  With blocks of one row and chunks of one channel
   this is a row-major matrix. */
#ifndef DPT_OPENCL_WINOGRAD_H
#define DPT_OPENCL_WINOGRAD_H

#include "dialect.h"

/* A transformed tensor. */
typedef struct winograd_layout {
    u64 point_stride; /* elements from one point to the next */
    u32 block_rows;   /* rows of a block */
    u32 chunks;       /* of WIDTH channels */
} winograd_layout;

/* Images (n, height, width, channels) and the tiles that cover results of some size. */
typedef struct winograd_images {
    winograd_layout layout;
    u64 image_stride; /* elements from one image to the next */
    u32 height, width, channels;
    i32 pad_h, pad_w;     /* before the first tile; negative crops */
    u32 tiles_h, tiles_w; /* of an image */
    u32 n_tiles;          /* of all images */
    u32 n_rows;           /* n_tiles rounded up to whole blocks: rows behind are zeros */
    u32 activation;       /* of results: behind the bias */
    u32 mask;             /* of results: the activation whose derivative is multiplied */
    u32 accumulate;       /* results are added to */
    u32 has_bias;
    u32 padding;
} winograd_images;

/* Filters as matrices (depth, lanes) a point: depth is summed over.  Tap t (0..8) of a pair is at
   lane * lane_stride + depth * depth_stride + t * tap_stride; lanes in panels of panel_width, whole
   chunks: [panel][depth][lane in the panel]. */
typedef struct winograd_filters {
    u64 point_stride;
    u64 lane_stride, depth_stride, tap_stride;
    u32 lanes, depth;          /* of the filter */
    u32 n_lanes, padded_depth; /* of the matrices, zeros behind */
    u32 panel_width;
    u32 rotated; /* taps in reverse: backward data */
} winograd_filters;

/* C = A * B for each point: rows' blocks of A with panels of B, transformed as above. */
typedef struct winograd_product {
    u64 a_stride, b_stride, c_stride; /* between points */
    u32 blocks;                       /* of rows */
    u32 item_blocks;                  /* that a work item multiplies with each panel in turn */
    u32 depth_chunks;                 /* chunks of A */
    u32 panels;                       /* of B; c has as many, each PANEL chunks */
} winograd_product;

/* Everything at once: source and results have layouts of product.blocks blocks of rows, results of
   one panel; a work item's scratch holds both, of the points' strides. */
typedef struct winograd_fusion {
    winograd_images source, results;
    winograd_product product;
    u64 group_stride; /* elements of scratch from one group to the next */
} winograd_fusion;

/* The product of backward weights: C (lanes of A, lanes of B) = sum over rows, A^T * B.  Both are
   one block of n_rows. */
typedef struct winograd_sum {
    u64 a_stride, b_stride, c_stride; /* between points */
    u32 n_rows;
    u32 a_chunks, b_chunks; /* C is row-major, padded to them */
    u32 accumulate;
} winograd_sum;

/* The gradient of filters from a matrix (out_channels, in_channels) a point. */
typedef struct winograd_weights {
    u64 point_stride; /* between matrices */
    u32 row_stride;   /* between rows of a matrix */
    u32 in_channels, out_channels;
    u32 accumulate;
} winograd_weights;

#endif
