/* Filling memory with a word. */
#ifndef DPT_CUDA_FILL_H
#define DPT_CUDA_FILL_H

#include "backend.h"

/* Enqueues n_bytes, a multiple of 4. */
DPT_CHECK_RESULT dpt_status dpt_cuda_fill(dpt_stream *stream, dpt_location to, uint32_t pattern,
                                          size_t n_bytes);

#endif
