/* Stand-ins for cuBLASLt and cuDNN in the plug-in of emulated cards: in place of blas.c and dnn*.c,
   behind the same headers, by the shortest loops.  Nothing is learnt here about what the libraries
   do: for cuDNN's graphs there is test_plans.c, for the rest a card.

   CUDA_EMULATED_LIBRARIES names those that are there: "cublaslt", "cudnn" or both; by default there
   are none, and our own kernels do the work. */
#ifndef DPT_TEST_CUDA_STAND_IN_H
#define DPT_TEST_CUDA_STAND_IN_H

enum { STAND_IN_WAYS = 3 }; /* of the library of convolutions: cudnn-0 to cudnn-2 */

#endif
