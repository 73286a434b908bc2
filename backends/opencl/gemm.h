/* Matrix products with our own tiles: C = A * B, batched, on locations.  Row-major, float32,
   leading dimensions in elements.  Used by linear layers and by Winograd convolutions. */
#ifndef DPT_OPENCL_GEMM_H
#define DPT_OPENCL_GEMM_H

#include "operators.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n) for each of n_batches, whose matrices lie a_stride, ...
   elements apart. */
typedef struct dpt_cl_gemm_args {
    size_t m, n, k, n_batches;
    dpt_location a, b, c;
    size_t lda, ldb, ldc; /* of the matrices as stored */
    size_t a_stride, b_stride, c_stride;
    bool accumulate;
} dpt_cl_gemm_args;

/* What distinguishes compiled kernels: transposition and tile. */
typedef struct dpt_cl_gemm_tile dpt_cl_gemm_tile; /* gemm.c */

typedef struct dpt_cl_gemm {
    cl_kernel kernel;
    const dpt_cl_gemm_tile *tile;
} dpt_cl_gemm;

extern const dpt_cl_gemm_tile
    *const dpt_cl_gemm_tiles[]; /* ends with NULL; some for CPUs, some for GPUs */
const char *dpt_cl_gemm_tile_name(const dpt_cl_gemm_tile *tile); /* "registers-8x32" */

/* DPT_E_UNSUPPORTED if the device cannot run that tile. */
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_prepare(dpt_device *device, bool a_transposed,
                                                bool b_transposed, const dpt_cl_gemm_tile *tile,
                                                dpt_cl_gemm *out);
DPT_CHECK_RESULT dpt_status dpt_cl_gemm_run(const dpt_cl_gemm *gemm, dpt_stream *stream,
                                            const dpt_cl_gemm_args *args);

#endif
