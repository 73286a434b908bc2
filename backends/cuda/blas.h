/* Matrix products by cuBLASLt, which is opened with the first device (library.h). */
#ifndef DPT_CUDA_BLAS_H
#define DPT_CUDA_BLAS_H

#include "linear.h"
#include "state.h"

/* *out stays NULL, and the call succeeds, if the library is missing or does not work.
   DPT_E_NO_MEMORY, DPT_E_DEVICE_LOST. */
DPT_CHECK_RESULT dpt_status dpt_cuda_blas_open(dpt_device *device, dpt_cuda_blas **out);
void dpt_cuda_blas_close(dpt_cuda_blas *blas); /* accepts NULL */
/* "cuBLASLt 13.1.0"; of NULL, why there is none. */
const char *dpt_cuda_blas_description(const dpt_cuda_blas *blas);

/* Products of one form whose sizes differ by the number of samples.  cuBLASLt's heuristics choose
   an algorithm for each number of samples.  The plans that were used last are kept. */
typedef struct dpt_cuda_products dpt_cuda_products;

/* The most bytes of workspace that a product of any size uses on this device. */
size_t dpt_cuda_products_workspace(const dpt_device *device);
DPT_CHECK_RESULT dpt_status dpt_cuda_products_create(dpt_device *device, dpt_cuda_products **out);
void dpt_cuda_products_destroy(dpt_cuda_products *products); /* accepts NULL */

/* Whether the library computes everything of a product: A times B, and a bias at most.

   The library's fused ReLU is never used, because some of its kernels turn NaN into a number, and
   training that diverges must show it.  On an H200 in float32, products of 3x1x1 and 64x1x1 did so;
   products of 1x64x64, 64x10x84, 32x32x4096, 128x128x128 and 256x256x512 did not.  A result for one
   shape therefore says nothing about another. */
bool dpt_cuda_product_is_whole(const dpt_product *product);
/* Makes the plan of a product.  DPT_E_UNSUPPORTED if the library has no algorithm for it. */
DPT_CHECK_RESULT dpt_status dpt_cuda_product_plan(dpt_cuda_products *products,
                                                  const dpt_product *product);
/* Enqueues A times B, and the bias if the product is whole.  m, n and k are at least 1.  A and B
   have the same type; C has that type or float32; the bias has C's type.  Sums are float32, and C
   is rounded once.  DPT_E_UNSUPPORTED, with nothing enqueued, if the library has no algorithm. */
DPT_CHECK_RESULT dpt_status dpt_cuda_product_run(dpt_cuda_products *products, dpt_stream *stream,
                                                 const dpt_product *product,
                                                 dpt_location workspace);

#endif
