/* What a rank contributes to an all-reduce, and what becomes of it. */
#ifndef DPTI_CONTRIBUTION_H
#define DPTI_CONTRIBUTION_H

#include "base/grains.h"
#include "base/times.h"
#include "dpt_types.h"

/* The rank, and whether it contributes data.  All processes know alike who contributes. */
typedef struct dpti_contribution {
    size_t rank;
    bool contributes; /* a rank that does not contribute still receives the sum */
    /* The members of an island, all alike, hand in nothing before all of them in this process have
       come to the run.  Until then a member may make calls that wait for all streams, and these
       streams would wait for the member. */
    bool late;
    const bool *processes; /* (processes) which of them contribute; NULL: all.  Stays until the run
                              is over */
    /* [driver] Called if the sum of the rank's island is the sum of all: returns DPT_OK, or what is
       wrong with the sum, such as DPT_E_NOT_FINITE.  NULL: the sum is not checked. */
    dpt_status (*look)(void *user);
    void *user;
    /* Of deterministic training, else 0 and NULL: the grains of the batch, and the nodes whose sums
       the rank has.  Node k is in the buffer number k - 1 of dpti_allreduce_join_nodes, node 0 in
       the rank's data. */
    size_t n_grains;
    const dpti_grain_list *nodes;
    const size_t *borders; /* (processes + 1) with several: the grains of each process */
} dpti_contribution;

/* One rank's part in an exchange.  It is handed from the trainer through the all-reduce to the
   island and the processes. */
typedef struct dpti_exchange_context {
    const dpti_contribution *who;
    dpt_status *mine; /* the rank's status so far; becomes the failure of its own transfers */
    dpti_stopwatch stopwatch; /* of the rank's driver thread */
} dpti_exchange_context;

/* Where values came from that were not finite. */
typedef enum dpti_blame {
    DPTI_BLAME_NOBODY, /* another rank came with that status */
    DPTI_BLAME_OWN,    /* this rank's contribution is not finite */
    DPTI_BLAME_OTHERS, /* the contributions of others are not */
    DPTI_BLAME_SUM, /* every contribution is finite, and the sum is not.  (Over processes, the sum
                       of an island is OWN of the rank that shows it.) */
} dpti_blame;

#endif
