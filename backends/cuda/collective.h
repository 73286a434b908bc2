/* Collectives among cards, in two ways: by NCCL, which is opened when it is first wanted
   (library.h); and where that is not there, or one card is to be two ranks, which NCCL has not, by
   our own kernels, which read and write the memory of all ranks of this process (peers.c). */
#ifndef DPT_CUDA_COLLECTIVE_H
#define DPT_CUDA_COLLECTIVE_H

#include "device.h"

/* A communicator of either way begins with this. */
struct dpt_communicator {
    const dpt_collective_ops *way;
};

extern const dpt_collective_ops dpt_cuda_nccl_ops;
extern const dpt_collective_ops dpt_cuda_peer_ops;

/* Whichever serves, NCCL first. */
extern const dpt_collective_ops dpt_cuda_collective_ops;

#endif
