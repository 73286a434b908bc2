/* Matrix products by cuBLASLt, which is opened when it is first wanted (library.h). */
#ifndef DPT_CUDA_BLAS_H
#define DPT_CUDA_BLAS_H

#include "linear.h"
#include "state.h"

/* *out is NULL, and that is no failure, where the library is missing or does not work. */
DPT_CHECK_RESULT dpt_status dpt_cuda_blas_open(dpt_device *device, dpt_cuda_blas **out);
void dpt_cuda_blas_close(dpt_cuda_blas *blas);                    /* accepts NULL */
const char *dpt_cuda_blas_description(const dpt_cuda_blas *blas); /* "cuBLASLt 13.1.0" */

/* Products of one form whose sizes differ by the number of samples: each number has its own
   algorithm, by cuBLASLt's heuristics; the last few are kept. */
typedef struct dpt_cuda_products dpt_cuda_products;

/* Bytes of workspace that a product may use on this device, whatever its size. */
size_t dpt_cuda_products_workspace(const dpt_device *device);
DPT_CHECK_RESULT dpt_status dpt_cuda_products_create(dpt_device *device, dpt_cuda_products **out);
void dpt_cuda_products_destroy(dpt_cuda_products *products); /* accepts NULL */

/* Whether the library does all that follows a product, which is a bias at most.  It is never asked
   for its ReLU: a run that diverges must show, and in some of its kernels NaN becomes a number.  On
   an H200 in float32 it did in products of 3x1x1 and of 64x1x1, and in none of 1x64x64, 64x10x84,
   32x32x4096, 128x128x128 and 256x256x512: what one shape shows says nothing about another. */
bool dpt_cuda_product_is_whole(const dpt_product *product);
/* Finds an algorithm, so that a product that cannot be done says so before it is wanted. */
DPT_CHECK_RESULT dpt_status dpt_cuda_product_plan(dpt_cuda_products *products,
                                                  const dpt_product *product);
/* Enqueues a product; what follows it as well if it is whole.  m, n and k are at least 1.  A and B
   have one type; C has it too, or is float32; the bias has C's.  Sums are float32, and C is rounded
   once. */
DPT_CHECK_RESULT dpt_status dpt_cuda_product_run(dpt_cuda_products *products, dpt_stream *stream,
                                                 const dpt_product *product,
                                                 dpt_location workspace);

#endif
