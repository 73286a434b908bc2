/* All-gather of small parts among devices of any backends, through host memory.  Batch-norm
   exchanges its statistics by it.  Every driver thread contributes the part of its device and takes
   the parts of all devices, in the order of ranks.  With several processes, one rank of this
   process exchanges the rows of this process for those of the others. */
#ifndef DPTI_ALLGATHER_H
#define DPTI_ALLGATHER_H

#include "base/times.h"
#include "collective/processes.h"
#include "device/operator.h"

typedef struct dpti_allgather dpti_allgather;

typedef struct dpti_gatherers {
    size_t n_ranks; /* in this process */
    /* NULL if this process is alone; else process p has rows [firsts[p], firsts[p + 1]), and
       `firsts` stays unchanged. */
    dpti_processes *processes;
    const size_t *firsts;
    /* The table has so many rows, of which a rank contributes several, or none (dpti_gather.rows).
       0: each rank has one row. */
    size_t n_rows;
} dpti_gatherers;

/* The rows of the table that a rank contributes, and how many rows all ranks together do. */
typedef struct dpti_gather_rows {
    size_t first, n, n_all;
    const size_t *borders; /* (processes + 1) with several: the rows of each process */
} dpti_gather_rows;

/* Creates an all-gather in which a rank contributes at most `max_count` float32 at a time.  Returns
   NULL if memory is short. */
dpti_allgather *dpti_allgather_create(const dpti_gatherers *who, size_t max_count);
void dpti_allgather_destroy(dpti_allgather *allgather); /* accepts NULL */

/* A part of `count` float32 that every rank has for each of its rows, and where the parts of all
   rows go: (rows of all processes, count). */
typedef struct dpti_gather_part {
    dpti_place part, parts; /* of a rank that contributes */
    size_t count;
} dpti_gather_part;

/* What one rank contributes to one all-gather. */
typedef struct dpti_gather {
    size_t rank;
    bool contributes;
    const dpti_gather_part *items; /* (n) with the same counts for every rank */
    size_t n;
    dpti_gather_rows rows; /* used if dpti_gatherers.n_rows is not 0 */
    /* Of a rank that contributes only: */
    float *staging;    /* (rows of all processes, all parts) from dpti_host_alloc, for transfers */
    dpt_event *moving; /* recorded before the parts are uploaded */
} dpti_gather;

/* [driver] Enqueues the download of the parts of a rank that contributes, into its staging memory.
   The table of all parts is shared by all devices and is not transfer memory of any of them. */
DPT_CHECK_RESULT dpt_status dpti_allgather_fetch(const dpti_gather *what);

/* [driver] An all-gather in two halves: every rank contributes its parts, waiting for nobody, and
   then takes the parts of all ranks.  In between a rank does not touch the parts.  All ranks call
   both in the same order, with the same `what` in both.

   A rank that contributes hands in what dpti_allgather_fetch has downloaded, and gets all parts:
   their upload to `parts` is enqueued.  A rank that does not contribute counts as zeros and gets
   nothing. *mine is the rank's status so far.  It becomes the failure of the rank's own transfers,
   or DPT_E_NOT_FINITE if its part is not finite, because the others could not tell where that came
   from. If any rank comes with a failure, no rank gets anything, and all get the first failure in
   the order of ranks.  A rank that fails later, after it has contributed or while it takes the
   parts, brings that failure to the next all-gather.  The device's earlier work, the download
   included, is done (sync) before `contribute`.  Added to *times, which may be NULL: EXCHANGE for
   contributing, and WAITING.  The uploads are still running then, from the event `moving` on. Parts
   go to other processes when the first rank of this process takes its parts. */
void dpti_allgather_contribute(dpti_allgather *allgather, const dpti_gather *what, dpt_status *mine,
                               dpti_times *times);
DPT_CHECK_RESULT dpt_status dpti_allgather_take(dpti_allgather *allgather, const dpti_gather *what,
                                                dpt_status *mine, dpti_times *times);

/* As the functions of the all-reduce (allreduce.h).  The part of an absent rank is zeros. */
void dpti_allgather_set_present(dpti_allgather *allgather, size_t rank, bool present);
void dpti_allgather_break(dpti_allgather *allgather);
void dpti_allgather_mend(dpti_allgather *allgather);

#endif
