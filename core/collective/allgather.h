/* All-gather of small parts among devices of any backends, through host memory: what batch-norm
   exchanges.  Every driver thread brings its device's part and takes everybody's away, in the order
   of the ranks.  Where there are several processes, one of this process's ranks exchanges its rows
   for those of the others. */
#ifndef DPTI_ALLGATHER_H
#define DPTI_ALLGATHER_H

#include "base/times.h"
#include "collective/processes.h"
#include "device/operator.h"

typedef struct dpti_allgather dpti_allgather;

typedef struct dpti_gatherers {
    size_t n_ranks; /* of this process */
    /* NULL if there is this process alone; else process p has rows [firsts[p], firsts[p + 1]), and
       `firsts` stays as it is. */
    dpti_processes *processes;
    const size_t *firsts;
} dpti_gatherers;

/* For what a rank brings to a meeting of at most `max_count` float32.  NULL without memory. */
dpti_allgather *dpti_allgather_create(const dpti_gatherers *who, size_t max_count);
void dpti_allgather_destroy(dpti_allgather *allgather); /* accepts NULL */

/* A part that every rank has, of `count` float32, and where all of them go: (ranks of all
   processes, count). */
typedef struct dpti_gather_part {
    dpti_place part, parts; /* of a rank that contributes */
    size_t count;
} dpti_gather_part;

/* What one rank brings to a meeting. */
typedef struct dpti_gather {
    size_t rank;
    bool contributes;
    const dpti_gather_part *items; /* (n) of the same sizes for every rank */
    size_t n;
    /* Of a rank that contributes: */
    float *staging;    /* (rows of all processes, all parts) from dpti_host_alloc, for transfers: */
    dpt_event *moving; /* recorded before the parts are taken away */
} dpti_gather;

/* [driver] Enqueues the download of what a rank that contributes is to bring.  Tables are
   everybody's, and no device's own memory: it goes by the staging memory. */
DPT_CHECK_RESULT dpt_status dpti_allgather_fetch(const dpti_gather *what);

/* [driver] Every rank brings its parts to a meeting, waiting for nobody, then takes everybody's
   away; what it has to do meanwhile does not touch the parts.  All call both in the same order,
   each with the same `what` in both.

   A rank that contributes brings what was fetched and gets all parts, enqueued to `parts`; one
   that does not counts as zeros and gets nothing.  *mine is this rank's status so far, and becomes
   the failure of its own transfers, or DPT_E_NOT_FINITE if its part is not: the others would not
   know where that came from.  If any rank brings a failure nobody gets anything, and all get the
   first failure in rank order; a rank that fails after it has brought its parts, or in taking them
   away, brings that to the next meeting.  The device's earlier work, fetching among it, has passed
   (sync) before `bring`.  Added to *times, which may be NULL: EXCHANGE,
   for bringing the parts, and WAITING; they are still on their way, from `moving` on.  What goes to
   other processes goes when the first rank of this one takes its parts. */
void dpti_allgather_contribute(dpti_allgather *allgather, const dpti_gather *what, dpt_status *mine,
                               dpti_times *times);
DPT_CHECK_RESULT dpt_status dpti_allgather_take(dpti_allgather *allgather, const dpti_gather *what,
                                                dpt_status *mine, dpti_times *times);

/* As those of the all-reduce; the part of a rank that is not present is zeros. */
void dpti_allgather_set_present(dpti_allgather *allgather, size_t rank, bool present);
void dpti_allgather_break(dpti_allgather *allgather);
void dpti_allgather_mend(dpti_allgather *allgather);

#endif
