/* Parameters of the kernels of matrix products, for all tiles and for the sum of partial products.
 */
#ifndef DPT_KERNELS_GEMM_PARAMS_H
#define DPT_KERNELS_GEMM_PARAMS_H

#include "dialect.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n), row-major, for each matrix of a batch.  The first
   coordinate of a group counts tiles, and columns of tiles are its fast part.  The second
   coordinate is batch * n_splits + split.  With splits, C is the workspace: each split writes its
   partial product (m,n), and gemm_sum adds them up. */
typedef struct gemm_params {
    u64 a_stride, b_stride, c_stride; /* elements from one matrix of the batch to the next */
    u64 split_stride;                 /* elements from the C of one split to that of the next */
    u32 m, n, k;
    u32 lda, ldb, ldc;           /* elements from one row of a stored matrix to the next */
    u32 tile_rows, tile_columns; /* of C, for one group */
    u32 n_column_tiles;          /* ceil(n / tile_columns) */
    u32 n_splits, split_terms;   /* splits of k, and terms of a split */
    u32 accumulate;              /* the product is added to C */
    u32 aligned;                 /* every row of A and B begins at a multiple of 16 bytes */
    u32 has_bias, activation;    /* C = activation(C + bias (n)) */
    u32 mask_activation;         /* then C is multiplied by its slope at the mask, laid out as C */
} gemm_params;

#endif
