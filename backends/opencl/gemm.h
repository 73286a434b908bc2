/* Matrix products with our own tiles: C = A * B, for batches of matrices.  Matrices are row-major
   and float32, with leading dimensions in elements.  Linear layers and Winograd convolutions use
   them. */
#ifndef DPT_OPENCL_GEMM_H
#define DPT_OPENCL_GEMM_H

#include "operators.h"
#include "state.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n) for each of n_batches.  The matrices of a batch are
   a_stride, b_stride and c_stride elements apart.  A matrix has fewer than 2^31 rows and columns.
 */
typedef struct dpt_cl_gemm_args {
    size_t m, n, k, n_batches;
    dpt_location a, b, c;
    size_t lda, ldb, ldc; /* of the stored matrices */
    size_t a_stride, b_stride, c_stride;
    bool accumulate;
    /* If the form is finished, C = activation(C + bias (n)).  Then C is multiplied by the
       derivative of mask_activation at the place where its output is `mask`, which is laid out as
       C. */
    dpt_location bias; /* {NULL, 0}: none */
    dpt_activation activation;
    dpt_location mask;
    dpt_activation mask_activation;
    /* Scratch for partial products, of any size.  {NULL, 0} and 0 bytes: k is not divided. */
    dpt_location workspace;
    size_t workspace_bytes;
} dpt_cl_gemm_args;

/* The size and shape of the part of C that one group computes.  Some tiles are for CPUs
   ("registers-..."), the others for GPUs ("local-..."). */
typedef struct dpt_cl_gemm_tile dpt_cl_gemm_tile; /* gemm.c */

/* All tiles, the probably fastest first, ended by NULL. */
extern const dpt_cl_gemm_tile *const dpt_cl_gemm_tiles[];
const char *dpt_cl_gemm_tile_name(const dpt_cl_gemm_tile *tile); /* "registers-6x64" */

/* The properties, beside the tile, that need another compiled kernel. */
typedef struct dpt_cl_gemm_form {
    bool a_transposed; /* A is stored (k,m) */
    bool b_transposed; /* B is stored (n,k) */
    bool finished;     /* there may be a bias, an activation or a mask */
} dpt_cl_gemm_form;

typedef struct dpt_cl_gemm {
    const dpt_cl_gemm_tile *tile;
    dpt_kernel *kernel;
    dpt_kernel *sum; /* adds up partial products; NULL: k is never divided */
} dpt_cl_gemm;

/* DPT_E_UNSUPPORTED if the tile is too large for the device, or is written for vectors of another
   width.  Another width is accepted if algorithm= of the device names the tile. */
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_prepare(dpt_device *device, dpt_cl_gemm_form form,
                                                const dpt_cl_gemm_tile *tile, dpt_cl_gemm *out);
/* Allows products of up to this shape to divide k, if C alone gives too few groups for the device.
 *n_bytes: the workspace for the partial products; 0 if k is not divided. */
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_divide(dpt_device *device, dpt_cl_gemm *gemm,
                                               const dpt_cl_gemm_args *shape, size_t *n_bytes);
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_run(const dpt_cl_gemm *gemm, dpt_stream *stream,
                                            const dpt_cl_gemm_args *args);

#endif
