/* CUDA's runtime and its error codes.  The runtime is linked statically, so the plug-in loads on a
   machine without a driver.  The runtime opens libcuda itself and reports if it is missing. */
#ifndef DPT_CUDA_RUNTIME_H
#define DPT_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#include "backend.h"

/* The status that a code means: DPT_E_NO_MEMORY, DPT_E_ABSENT, DPT_E_UNSUPPORTED,
   DPT_E_DEVICE_LOST or DPT_E_DEVICE.  A device is lost if the card's context in this process is
   broken for good; CUDA calls such errors sticky. */
dpt_status dpt_cuda_status(cudaError_t code);

/* Records a failed call, what the failure means and what a person can try.  Returns the status.
   Clears the last error that CUDA keeps, because later calls would report it again. */
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
