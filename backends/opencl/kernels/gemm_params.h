/* What a kernel of a matrix product is told, and how it ends: shared by all tiles and by the sum of
   partial products. */
#ifndef DPT_KERNELS_GEMM_PARAMS_H
#define DPT_KERNELS_GEMM_PARAMS_H

#include "dialect.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n), row-major, for each matrix of a batch.  Of the groups'
   first coordinate the columns of tiles are the fast part; the second is batch * n_splits + split.
   With splits, C is the workspace: each split writes its partial product (m,n), and
   a kernel of its own adds them up. */
typedef struct gemm_params {
    u64 a_stride, b_stride, c_stride; /* elements from one matrix of the batch to the next */
    u64 split_stride;                 /* elements from one split's C to the next's */
    u32 m, n, k;
    u32 lda, ldb, ldc;           /* elements from row to row of the stored matrices */
    u32 tile_rows, tile_columns; /* of C, for one group */
    u32 n_column_tiles;          /* ceil(n / tile_columns) */
    u32 n_splits, split_terms;   /* terms of the k that one split sums */
    u32 accumulate;              /* C is added to */
    u32 aligned;                 /* every row of A and B begins at a multiple of 16 bytes */
    u32 has_bias, activation;    /* C = activation(C + bias (n)) */
    u32 mask_activation;         /* then C *= its slope at the mask, laid out as C */
} gemm_params;

#endif
