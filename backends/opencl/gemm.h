/* Matrix products with our own tiles: C = A * B, batched, on locations.  Row-major, float32,
   leading dimensions in elements.  Used by linear layers and by Winograd convolutions. */
#ifndef DPT_OPENCL_GEMM_H
#define DPT_OPENCL_GEMM_H

#include "device.h"
#include "operators.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n) for each of n_batches, whose matrices lie a_stride, ...
   elements apart.  A matrix has fewer than 2^31 rows and columns. */
typedef struct dpt_cl_gemm_args {
    size_t m, n, k, n_batches;
    dpt_location a, b, c;
    size_t lda, ldb, ldc; /* of the matrices as stored */
    size_t a_stride, b_stride, c_stride;
    bool accumulate;
    /* If the form is finished, C = activation(C + bias (n)), and then C *= the slope of
       mask_activation where the output of that is `mask`, which is laid out as C. */
    dpt_location bias; /* {NULL, 0}: none */
    dpt_activation activation;
    dpt_location mask;
    dpt_activation mask_activation;
    /* Scratch for partial products, of any size; {NULL, 0}, 0: k is not divided. */
    dpt_location workspace;
    size_t workspace_bytes;
} dpt_cl_gemm_args;

/* The size and shape of what one group computes: some for CPUs ("registers-..."), some for GPUs
   ("local-..."). */
typedef struct dpt_cl_gemm_tile dpt_cl_gemm_tile; /* gemm.c */

extern const dpt_cl_gemm_tile *const dpt_cl_gemm_tiles[]; /* ends with NULL; best guess first */
const char *dpt_cl_gemm_tile_name(const dpt_cl_gemm_tile *tile); /* "registers-6x64" */

/* What distinguishes compiled kernels, beside the tile. */
typedef struct dpt_cl_gemm_form {
    bool a_transposed; /* A is stored (k,m) */
    bool b_transposed; /* B is stored (n,k) */
    bool finished;     /* there may be a bias, an activation or a mask */
} dpt_cl_gemm_form;

typedef struct dpt_cl_gemm {
    const dpt_cl_gemm_tile *tile;
    dpt_kernel *kernel, *sum; /* `sum` adds up partial products; NULL: k is never divided */
} dpt_cl_gemm;

/* DPT_E_UNSUPPORTED if the tile is not for this device: too large for it, or for vectors of another
   width; algorithm= of the device, with the tile's name, has such vectors used all the same. */
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_prepare(dpt_device *device, dpt_cl_gemm_form form,
                                                const dpt_cl_gemm_tile *tile, dpt_cl_gemm *out);
/* Lets products of this shape and smaller ones divide k where C alone would leave much of the
   device idle: *n_bytes is the workspace for that, 0 where it is not worth while. */
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_divide(dpt_device *device, dpt_cl_gemm *gemm,
                                               const dpt_cl_gemm_args *shape, size_t *n_bytes);
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_run(const dpt_cl_gemm *gemm, dpt_stream *stream,
                                            const dpt_cl_gemm_args *args);

#endif
