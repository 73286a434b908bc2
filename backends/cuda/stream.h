/* Waiting for a stream.  The caller's thread asks for 50 microseconds, which is about the cost of
   waking up, and then sleeps: a thread that goes on asking takes a core from devices that compute
   on the host's cores. */
#ifndef DPT_CUDA_STREAM_H
#define DPT_CUDA_STREAM_H

#include "state.h"

/* Waits for the stream.  A failure is one of work that was accepted before: it is recorded in the
   device's error as a deferred failure, and DPT_E_NO_MEMORY becomes DPT_E_DEVICE_LOST. */
DPT_CHECK_RESULT dpt_status dpt_cuda_wait(dpt_stream *stream);

/* Waits for the stream and returns CUDA's code; records nothing. */
cudaError_t dpt_cuda_wait_code(const dpt_stream *stream);

#endif
