/* Collectives among cards.  NCCL computes them; it is opened with the first communicator
   (library.h).  If NCCL is missing or does not start, our own kernels compute the collectives of
   one process: they read and write the memory of all ranks (peers.c).  A card is one rank. */
#ifndef DPT_CUDA_COLLECTIVE_H
#define DPT_CUDA_COLLECTIVE_H

#include "state.h"

/* The beginning of both kinds of communicators. */
struct dpt_communicator {
    const dpt_collective_ops *ops; /* dpt_cuda_nccl_ops or dpt_cuda_peer_ops */
};

extern const dpt_collective_ops dpt_cuda_nccl_ops;
extern const dpt_collective_ops dpt_cuda_peer_ops;

#endif
