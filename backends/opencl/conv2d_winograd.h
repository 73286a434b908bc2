/* What a Winograd convolution is prepared to, between its two files: conv2d_winograd.c decides,
   conv2d_winograd_run.c enqueues.  The transforms and layouts are kernels/winograd.h's. */
#ifndef DPT_OPENCL_CONV2D_WINOGRAD_H
#define DPT_OPENCL_CONV2D_WINOGRAD_H

#include "column_sums.h"
#include "families.h"
#include "gemm.h"
#include "kernels/winograd.h"

/* The parameters of an alternative. */
typedef struct dpt_cl_winograd_method {
    size_t tile;         /* results of a tile are tile x tile */
    const char *product; /* a tile of gemm.h; NULL: our own product, in registers */
    bool fused;          /* transforms and product in one kernel */
} dpt_cl_winograd_method;

/* op->plan.state.  Samples are worked off in blocks whose transformed tiles stay in a cache. */
typedef struct dpt_cl_winograd {
    size_t tile, points;              /* points of a tile: (tile + 2)^2 */
    size_t width, rows, panel;        /* lanes of a vector; rows and vectors of a product's tile */
    size_t source_c, result_c;        /* channels, padded to what products need */
    size_t tiles_h, tiles_w;          /* of a sample */
    size_t block_samples;             /* at most this many at once */
    size_t matrix_stride;             /* elements between points of the filters, or of their sums */
    winograd_images source, results;  /* of a block: what depends on its samples is set by run */
    winograd_filters filters;         /* forward and backward data */
    size_t source_at, results_at;     /* bytes in the workspace; filters or sums are at 0 */
    size_t scratch_at, scratch_bytes; /* of the product, or of the gradient of the bias */
    dpt_kernel *transform_source, *transform_results;
    dpt_kernel *transform_filters, *weights_back; /* one of them */
    dpt_kernel *multiply;                         /* in registers; fused: all of it; or else: */
    dpt_cl_gemm gemm;
    winograd_fusion fusion; /* fused: what depends on the samples is set by run */
    size_t most_groups;
    dpt_column_sums sums; /* backward weights with a bias */
} dpt_cl_winograd;

/* A dpt_op_run each. */
dpt_op_run dpt_cl_winograd_run; /* forward and backward data */
dpt_op_run dpt_cl_winograd_run_fused;
dpt_op_run dpt_cl_winograd_run_weights; /* backward weights */

/* The products of so many samples, without the places of the matrices. */
dpt_cl_gemm_args dpt_cl_winograd_shape(const dpt_op *op, const dpt_cl_winograd *s,
                                       size_t n_samples);

/* Elements between points of a transformed tensor of n elements each: not a multiple of a page,
   for the points of one tile would share few lines of a cache. */
size_t dpt_cl_winograd_stride(size_t n);

#endif
