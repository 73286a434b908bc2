/* The table and the parameters of the kernels of peers.cu. */
#ifndef DPT_CUDA_KERNELS_PEERS_H
#define DPT_CUDA_KERNELS_PEERS_H

#include "dialect.h"

#define PEERS_MOST_RANKS 16

/* A table in host memory that all cards reach.  Streams write its words and wait for them.  Kernels
   read the table behind such a wait. */
typedef struct peers_table {
    u32 aborted;                 /* not 0: addresses may be invalid, and kernels must do nothing */
    u32 ready[PEERS_MOST_RANKS]; /* of each rank: the number of the call that its data are for */
    u32 done[PEERS_MOST_RANKS];  /* of each rank: the last call of which its part is done */
    u32 unused;
    u32 data[PEERS_MOST_RANKS][2]; /* of each rank: low and high half of the data's address */
} peers_table;

typedef struct peers_params {
    u64 begin, end; /* elements */
    u64 n_items;    /* of the launch */
    u32 n_ranks;
    u32 rank; /* of this card */
    u32 root; /* of a broadcast */
    u32 unused;
} peers_params;

#endif
