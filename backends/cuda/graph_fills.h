/* Small fills of a graph that a stream has captured, as kernels. */
#ifndef DPT_CUDA_GRAPH_FILLS_H
#define DPT_CUDA_GRAPH_FILLS_H

#include "runtime.h"

/* Puts a kernel of ours in the place of every fill of at most DPT_CUDA_SMALL_FILL_BYTES that can be
   replaced; what fails leaves a fill as it was.  Anything but cudaSuccess: the graph is not what
   was captured any more. */
DPT_CHECK_RESULT cudaError_t dpt_cuda_graph_replace_fills(const dpt_device *device,
                                                          cudaGraph_t graph);

#endif
