/* Collectives among cards, in two ways: by NCCL, which is opened when it is first wanted
   (library.h); and within a process, where that is not there or does not start, by our own kernels,
   which read and write the memory of all ranks (peers.c).  A card is one rank. */
#ifndef DPT_CUDA_COLLECTIVE_H
#define DPT_CUDA_COLLECTIVE_H

#include "state.h"

/* A communicator of either way begins with this. */
struct dpt_communicator {
    const dpt_collective_ops *way;
};

extern const dpt_collective_ops dpt_cuda_nccl_ops;
extern const dpt_collective_ops dpt_cuda_peer_ops;

#endif
