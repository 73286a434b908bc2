/* The fields of the exchange: how devices sum gradients and share the statistics of batch-norms.

   Only files of core/train/exchange touch these fields.  Other concerns call the functions that
   exchange.h, islands.h and link_probe.h declare. */
#ifndef DPTI_EXCHANGE_STATE_H
#define DPTI_EXCHANGE_STATE_H

#include "balance/settled.h"
#include "collective/allgather.h"
#include "collective/allreduce.h"
#include "collective/island.h"
#include "train/components/bandwidth_model.h"
#include "train/components/finite_check.h"

/* What was measured of the link to the other processes, and chosen by it.  The same in all
   processes. */
typedef struct dpti_link_probe {
    bool done;                 /* the link was timed, and the fields below are set */
    dpti_bandwidth_model link; /* as measured */
    dpti_travel travel;        /* as chosen */
} dpti_link_probe;

/* The islands of this process's devices. */
typedef struct dpti_islands {
    dpti_island **items; /* room for n_workers */
    size_t n;
    bool due; /* they are to be formed anew: devices have come or gone, or have new replicas */
} dpti_islands;

typedef struct dpti_trainer_exchange {
    dpti_allreduce *allreduce; /* of gradients, with the vote */
    dpti_feedback feedback;    /* error feedback of this process; empty where sums over processes
                                  are not compressed */
    dpti_allgather *allgather; /* of batch-norms' parts; NULL where none are exchanged */
    dpti_islands islands;
    dpti_settled settled; /* which shards all members of islands have had, so that no first run is
                             due any more */
    dpti_link_probe link_probe;
} dpti_trainer_exchange;

/* Most places in which the gradients of one exchange lie. */
enum { DPTI_LOOK_PLACES = 2 };

/* The checks of a device in an island: for each segment of the training program that ends in an
   exchange of gradients, the gradients that the device contributes then. */
typedef struct dpti_looks {
    dpti_finite (*segments)[DPTI_LOOK_PLACES]; /* (n_segments); NULL: none are made */
    size_t n_segments;
} dpti_looks;

typedef struct dpti_worker_exchange {
    dpti_island_slot island_slot; /* its place in an island; .island NULL: it is in none */
    dpti_side_stream side;        /* for collectives of islands; made when it is in one first */
    dpti_looks looks;             /* made when the device is in an island first */
    float
        *parts; /* host memory for batch-norms' parts on their way; NULL where none are exchanged */
} dpti_worker_exchange;

#endif
