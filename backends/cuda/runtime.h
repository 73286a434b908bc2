/* CUDA's runtime as this backend uses it, linked statically, so that the plug-in loads where there
   is no driver: the runtime opens libcuda by itself and says if it is not there. */
#ifndef DPT_CUDA_RUNTIME_H
#define DPT_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#include "backend.h"

/* What a code means for the caller: out of memory, device lost (the context of the card in this
   process is broken for good, "sticky" in CUDA's words), or device error. */
dpt_status dpt_cuda_status(cudaError_t code);

/* Records a failed call with what it means and what to try; returns the status.  Clears the error
   that CUDA keeps for the next call's sake. */
#define DPT_CUDA_FAIL(error, code, what) dpt_cuda_fail((error), (code), (what), __FILE__, __LINE__)
dpt_status dpt_cuda_fail(dpt_error *error, cudaError_t code, const char *what, const char *file,
                         int line);

/* The failure that has broken the context of a stream's card, or cudaSuccess if the context works.
   Ask after a library's call has failed: the library may have a CUDA runtime of its own, so the
   last error of this runtime need not know of the failure.  `stream` is not being captured; other
   streams may be. */
cudaError_t dpt_cuda_context_failure(cudaStream_t stream);

/* Evaluates a call; on failure records it and returns its status from the caller. */
#define DPT_CUDA_TRY(device, call)                                                                 \
    do {                                                                                           \
        const cudaError_t dpt_cuda_code = (call);                                                  \
        if (dpt_cuda_code != cudaSuccess)                                                          \
            return DPT_CUDA_FAIL(&(device)->error, dpt_cuda_code, #call);                          \
    } while (0)

#endif
