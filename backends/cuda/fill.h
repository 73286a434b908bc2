/* Filling and moving memory by kernels. */
#ifndef DPT_CUDA_FILL_H
#define DPT_CUDA_FILL_H

#include "backend.h"

/* Up to here a kernel fills: between kernels, the runtime's way takes longer to begin and to hand
   over to what comes behind (graph_fills.c). */
enum { DPT_CUDA_SMALL_FILL_BYTES = 1024 };

/* Enqueues n_bytes, a multiple of 4. */
DPT_CHECK_RESULT dpt_status dpt_cuda_fill(dpt_stream *stream, dpt_location to, uint32_t pattern,
                                          size_t n_bytes);

/* Enqueues n_words of 4 bytes, of memory that the card can read and write: its own, or pinned. */
DPT_CHECK_RESULT dpt_status dpt_cuda_move(dpt_stream *stream, void *to, const void *from,
                                          size_t n_words);

#endif
