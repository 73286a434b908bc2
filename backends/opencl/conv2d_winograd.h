/* The plan of a Winograd convolution.  conv2d_winograd.c makes the plan, and conv2d_winograd_run.c
   enqueues it.  kernels/winograd.h describes the transforms and layouts. */
#ifndef DPT_OPENCL_CONV2D_WINOGRAD_H
#define DPT_OPENCL_CONV2D_WINOGRAD_H

#include "column_sums.h"
#include "families.h"
#include "gemm.h"
#include "kernels/winograd.h"

/* The parameters of an alternative. */
typedef struct dpt_cl_winograd_method {
    size_t tile;         /* a tile has tile x tile results */
    const char *product; /* the name of a tile of gemm.h; NULL: the product in registers */
    bool fused;          /* transforms and product are one kernel */
} dpt_cl_winograd_method;

/* op->plan.state.  Samples are treated in blocks, whose transformed tiles stay in a cache. */
typedef struct dpt_cl_winograd {
    size_t tile, points;              /* points of a tile: (tile + 2)^2 */
    size_t width, rows, panel;        /* lanes of a vector; rows and vectors of a product's tile */
    size_t source_c, result_c;        /* channels, padded as products need */
    size_t tiles_h, tiles_w;          /* of a sample */
    size_t block_samples;             /* the most samples of a block */
    size_t matrix_stride;             /* elements between points of the filters, or of their sums */
    winograd_images source, results;  /* complete except for what depends on the samples */
    winograd_filters filters;         /* of forward and backward-data */
    size_t source_at, results_at;     /* bytes in the workspace; filters or sums are at 0 */
    size_t scratch_at, scratch_bytes; /* of the product, or of the gradient of the bias */
    dpt_kernel *transform_source, *transform_results;
    dpt_kernel *transform_filters; /* of forward and backward-data */
    dpt_kernel *weights_back;      /* of backward-weights */
    dpt_kernel *multiply; /* the product in registers, or everything if fused; NULL: gemm */
    dpt_cl_gemm gemm;
    winograd_fusion fusion; /* if fused: complete except for what depends on the samples */
    size_t most_groups;
    dpt_column_sums sums; /* of backward-weights with a bias */
} dpt_cl_winograd;

dpt_op_run dpt_cl_winograd_run;         /* forward and backward-data */
dpt_op_run dpt_cl_winograd_run_fused;   /* forward and backward-data, if fused */
dpt_op_run dpt_cl_winograd_run_weights; /* backward-weights */

/* The products of n_samples, without the locations of the matrices. */
dpt_cl_gemm_args dpt_cl_winograd_shape(const dpt_op *op, const dpt_cl_winograd *s,
                                       size_t n_samples);

/* Elements between the points of a transformed tensor, each of which has n elements.  It is no
   multiple of a page, because the points of a tile would then share few lines of a cache. */
size_t dpt_cl_winograd_stride(size_t n);

#endif
