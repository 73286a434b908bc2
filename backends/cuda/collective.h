/* Collectives among cards by NCCL, which is opened when it is first wanted (library.h).

   Communicators are non-blocking ones: no call of NCCL's waits for another rank, so that whoever
   waits does so here, where it can be sent away, and abort finds nobody inside the library. */
#ifndef DPT_CUDA_COLLECTIVE_H
#define DPT_CUDA_COLLECTIVE_H

#include "device.h"

extern const dpt_collective_ops dpt_cuda_collective_ops;

#endif
