/* Stand-ins for cuBLASLt and cuDNN in the plug-in of emulated cards.  They replace blas.c and
   dnn*.c behind the same headers, with the shortest possible loops.  They tell nothing about the
   real libraries: test_plans.c tests cuDNN's graphs, and a card is needed for the rest.

   CUDA_EMULATED_LIBRARIES names the libraries that exist: "cublaslt", "cudnn" or both.  By default
   neither exists, and our own kernels are used. */
#ifndef DPT_TEST_CUDA_STAND_IN_H
#define DPT_TEST_CUDA_STAND_IN_H

enum { STAND_IN_WAYS = 3 }; /* of the library of convolutions: cudnn-0 to cudnn-2 */

#endif
