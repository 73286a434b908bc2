/* A CUDA device without a card, as the plug-in "cudahost": the host code of backends/cuda that
   divides linear layers and convolutions among the libraries, workspaces and kernels is the real
   one; the libraries, the few kernels that it launches, memory and streams are these files', on the
   host, by the shortest loops.  The conformance suite then sees what goes where.  Nothing is learnt
   here about what the libraries do: for their graphs there is test_plans.c, for the rest a card.

   Parameters: precision=fp32, tf32 or bf16, as of cuda; cudnn=0 (the default) or 2, the way that
   convolutions take: one name alone, for nothing is measured here; cublaslt=off. */
#ifndef DPT_TEST_CUDA_STAND_IN_H
#define DPT_TEST_CUDA_STAND_IN_H

#include "device.h"

enum { STAND_IN_WAYS = 3 }; /* of the library of convolutions */

/* n elements as doubles, in memory of the caller's; NULL without memory.  With `cut`, float32 loses
   what TF32 does not hold. */
double *stand_in_read(const void *from, dpt_dtype type, size_t n, bool cut);
/* And back, rounded once. */
void stand_in_write(void *to, dpt_dtype type, const double *from, size_t n);
/* Overwrites scratch memory with what must not be found again. */
void stand_in_scribble(void *to, size_t n_bytes);

/* Whether products of float32 lose bits on this device. */
static inline bool stand_in_cuts(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->precision != DPT_CUDA_FP32;
}

#endif
