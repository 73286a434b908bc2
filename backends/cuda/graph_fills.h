/* Replacing the small fills of a captured graph by kernels. */
#ifndef DPT_CUDA_GRAPH_FILLS_H
#define DPT_CUDA_GRAPH_FILLS_H

#include "runtime.h"

/* Replaces every fill of at most DPT_CUDA_SMALL_FILL_BYTES by a kernel of ours.  A fill that cannot
   be replaced stays.  If the result is not cudaSuccess, the graph no longer does what was captured.
 */
DPT_CHECK_RESULT cudaError_t dpt_cuda_graph_replace_fills(const dpt_device *device,
                                                          cudaGraph_t graph);

#endif
