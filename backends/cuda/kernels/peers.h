/* What the kernels of peers.cu are told. */
#ifndef DPT_CUDA_KERNELS_PEERS_H
#define DPT_CUDA_KERNELS_PEERS_H

#include "dialect.h"

#define PEERS_MOST_RANKS 16

/* In host memory, which all cards see.  Streams write its words and wait for them; kernels read it
   behind such a wait. */
typedef struct peers_table {
    u32 aborted;                 /* not 0: addresses may be anybody's, and nothing is to be done */
    u32 ready[PEERS_MOST_RANKS]; /* of each rank: the number of the call that its data are for, */
    u32 done[PEERS_MOST_RANKS];  /* and of the last that it has done its part of */
    u32 unused;
    u32 data[PEERS_MOST_RANKS][2]; /* where these are: the low half of the address, and the high */
} peers_table;

typedef struct peers_params {
    u64 begin, end; /* elements */
    u64 n_items;    /* of the launch */
    u32 n_ranks;
    u32 rank; /* whose data are copied, or written */
    u32 root; /* of a broadcast */
    u32 unused;
} peers_params;

#endif
