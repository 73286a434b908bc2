/* Replaces NCCL on machines without a card.  Ranks are threads of this process and of processes
   that are forked from it.  Data are in host memory, which is shared if there are several
   processes.  The order of calls is recorded. */
#ifndef DPT_TEST_NCCL_STAND_IN_H
#define DPT_TEST_NCCL_STAND_IN_H

#include <stddef.h>

/* What it is told, and what it tells; a test finds it as the symbol stand_in. */
typedef struct nccl_stand_in {
    int polls;     /* how often a call is in progress before it is done */
    int refuse;    /* this ncclResult_t is what joining comes to, if not 0 */
    int fail_rank; /* this rank's collectives fail with ncclRemoteError; -1: none */
    int come_to;   /* this ncclResult_t is what communicators say when they are asked, if not 0 */
    int break_at;  /* the n-th collective of a communicator, from 1, that is under way in streams
                      does not end, and all its ranks say ncclRemoteError when they are asked: as
                      where a rank's network has failed; 0: none */
    const char *(*calls)(int rank); /* "init reduce:5 broadcast:3 finalize destroy": of one rank */
    void (*forget)(void);           /* the calls */
    size_t (*n_open)(void);         /* communicators that are neither destroyed nor aborted */
} nccl_stand_in;

#endif
