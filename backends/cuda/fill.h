/* Filling and copying memory by kernels. */
#ifndef DPT_CUDA_FILL_H
#define DPT_CUDA_FILL_H

#include "backend.h"

/* Up to this size a kernel fills memory.  The runtime's fill takes longer to begin, and the kernel
   behind it starts later (graph_fills.c). */
enum { DPT_CUDA_SMALL_FILL_BYTES = 1024 };

/* Enqueues a fill of n_bytes, a multiple of 4.  Fails as dpt_launch_items does. */
DPT_CHECK_RESULT dpt_status dpt_cuda_fill(dpt_stream *stream, dpt_location to, uint32_t pattern,
                                          size_t n_bytes);

/* Enqueues a copy of n_words of 4 bytes.  Both addresses are memory that the card can reach: its
   own, or pinned host memory. */
DPT_CHECK_RESULT dpt_status dpt_cuda_move(dpt_stream *stream, void *to, const void *from,
                                          size_t n_words);

#endif
