/* Parameters of the Winograd kernels, shared with the backends' C code (dialect.h).

   A convolution with TAPS x TAPS taps is computed on tiles of TILE x TILE results: 4 or 2 with 3
   taps, 3 with 5 taps.  Tensors are transformed to POINTS x POINTS values for each tile and
   channel, where POINTS = TILE + TAPS - 1.  The convolution then is one matrix product for each of
   these points.  A transformed tensor holds the points one behind the other.  A point has a row for
   each tile.  A row has the channels in chunks of WIDTH, the width of the device's vector:

       [block of rows][chunk][row in the block][lane]

   A product therefore reads both operands in the order of their addresses.  Channels are padded
   with zeros to whole chunks, and rows to whole blocks.  With blocks of one row and chunks of one
   channel this is a row-major matrix. */
#ifndef DPT_KERNELS_WINOGRAD_H
#define DPT_KERNELS_WINOGRAD_H

#include "dialect.h"

/* A transformed tensor. */
typedef struct winograd_layout {
    u64 point_stride; /* elements from one point to the next */
    u32 block_rows;   /* rows of a block */
    u32 chunks;       /* of WIDTH channels */
} winograd_layout;

/* Images (n, height, width, channels) and the tiles that cover results of some size.

   The adjoint of forward adds up the tiles of x, which overlap.  A region is the TILE x TILE pixels
   from the first pixel of a tile on.  There are more regions than tiles, because a tile is larger
   than a region. */
typedef struct winograd_images {
    winograd_layout layout;
    u64 image_stride; /* elements from one image to the next */
    u32 height, width, channels;
    i32 pad_h, pad_w;     /* before the first tile; a negative value crops */
    u32 tiles_h, tiles_w; /* of an image */
    u32 n_tiles;          /* of all images */
    u32 n_rows;           /* n_tiles rounded up to whole blocks; the rows behind are zeros */
    u32 activation;       /* of results: applied after the bias */
    u32 mask;             /* of results: the activation by whose derivative they are multiplied */
    u32 accumulate;       /* the results are added to the output */
    u32 has_bias;
    u32 regions_h, regions_w; /* of an image; of the adjoint */
    u32 unused;
} winograd_images;

/* Filters, as a matrix (depth, lanes) for each point; products sum over depth.  In the filters, tap
   t (0..8) of a depth and a lane is at lane * lane_stride + depth * depth_stride + t * tap_stride.
   In a matrix, lanes are in panels of panel_width, which is whole chunks: [panel][depth][lane in
   the panel].
 */
typedef struct winograd_filters {
    u64 point_stride;
    u64 lane_stride, depth_stride, tap_stride;
    u32 lanes, depth;          /* of the filters */
    u32 n_lanes, padded_depth; /* of the matrices, which have zeros behind */
    u32 panel_width;
    u32 rotated; /* taps are in reverse order, for backward-data */
} winograd_filters;

/* C = A * B for each point: blocks of rows of A times panels of B, in the layouts above. */
typedef struct winograd_product {
    u64 a_stride, b_stride, c_stride; /* between points */
    u32 blocks;                       /* of rows */
    u32 item_blocks;                  /* blocks that a work item multiplies with each panel */
    u32 depth_chunks;                 /* chunks of A */
    u32 panels;                       /* of B, and of C; a panel has PANEL chunks */
} winograd_product;

/* A fused convolution.  The source has a layout of product.blocks blocks of rows, and the results
   one of these blocks and one panel.  The scratch of a work item holds both. */
typedef struct winograd_fusion {
    winograd_images source, results;
    winograd_product product;
    u64 group_stride; /* elements of scratch from one group to the next */
} winograd_fusion;

/* The product of backward-weights: C (lanes of A, lanes of B) = A^T * B, summed over rows.  A and B
   are one block of n_rows each. */
typedef struct winograd_sum {
    u64 a_stride, b_stride, c_stride; /* between points */
    u32 n_rows;
    u32 a_chunks, b_chunks; /* C is row-major and padded to whole chunks */
    u32 accumulate;
} winograd_sum;

/* The gradient of a bias: a chain over the pixels of dy of each grain. */
typedef struct winograd_bias_params {
    u64 n_pixels; /* of all grains */
    u64 grain;    /* pixels of each grain but the last */
    u64 part;     /* elements between the gradients of two grains */
    u32 n_grains; /* at least 1 */
    u32 channels;
    u32 accumulate;
    u32 unused;
} winograd_bias_params;

/* The gradient of filters, from a matrix (out_channels, in_channels) for each point of each grain.
   The gradients of grains stay apart, or are added up along the tree (tree_params.h), where one
   launch goes on from the one before. */
typedef struct winograd_weights {
    u64 point_stride; /* between matrices */
    u64 grain_stride; /* between the matrices of grains */
    u64 part;         /* elements between the gradients of grains that stay apart, or between sums
                         that wait */
    u32 row_stride;   /* between rows of a matrix */
    u32 in_channels, out_channels;
    u32 n_grains; /* of the launch, at least 1 */
    u32 first;    /* the number of its first grain */
    u32 is_tree;  /* the gradients are added up */
    u32 is_last;  /* the launch has the last grain of the tree */
    u32 accumulate;
    u32 is_empty; /* there were no samples, and the sums are 0 */
    u32 unused;
} winograd_weights;

/* Deterministic backward-weights in one kernel, from the transformed x and dy: rows of channels,
   one for each tile. */
typedef struct winograd_grains {
    winograd_weights weights;
    u64 x_stride, dy_stride; /* between points */
    u32 n_tiles;             /* of all grains */
    u32 each;                /* tiles of each grain but the last */
    u32 columns;             /* groups of WINOGRAD_SIDE input channels */
    u32 unused;
} winograd_grains;

/* Channels of a group of winograd_bias, if they are no vectors. */
#define WINOGRAD_BIAS_CHANNELS 32
/* Input channels, and output channels, of a group of winograd_grains.cl. */
#define WINOGRAD_SIDE 16

/* Backward-weights of some grains of a block in one kernel.  An item computes `strip` chunks of A
   by `span` chunks of B, and the sums of one chunk of A exist at a time: lanes of A, each with its
   chunks of B, for each point. */
typedef struct winograd_weights_fusion {
    winograd_sum sum; /* of the block, but for what concerns C */
    winograd_weights weights;
    u64 group_stride;          /* elements of scratch from one group to the next */
    u32 first_row, grain_rows; /* of the first grain; of each grain but the last */
    u32 strip, span;
} winograd_weights_fusion;

#endif
