/* All-reduce among devices of any backends, through host memory.  Every driver thread takes part:
   it shows its device's data (in place where the device's memory is the host's, else a staged
   copy), and those that wait for the others sum, piece by piece, in the order of the ranks, and
   write the sums to all.  The order is fixed, so every replica ends with the same bits.

   A rank can bring its data in buckets, as they are written, and go on computing; what is complete
   is summed meanwhile by those that have nothing else to do.

   Ranks of an island (collective/island.h) sum among themselves first: one of them shows the sum,
   and is the only one of them that the others see.  Where the island is all there is, its sum is
   the whole one, and no host sees it.

   Where there are several processes, ranks are those of this process: its sum goes into one rank's
   data, is reduced there over the processes by the communication thread (collective/processes.h),
   for buckets while everybody goes on computing, and then reaches the others.  In a wide island
   processes only vote: when all ranks have made their calls, so that nobody waits for one that has
   failed, and when their sums have come. */
#ifndef DPTI_ALLREDUCE_H
#define DPTI_ALLREDUCE_H

#include "base/times.h"
#include "collective/feedback.h"
#include "collective/island.h"
#include "collective/processes.h"
#include "device/buffer.h"

typedef struct dpti_allreduce dpti_allreduce;

/* For `count` float32 elements; `processes` is NULL if there is this one alone.  NULL without
   memory. */
dpti_allreduce *dpti_allreduce_create(size_t n_ranks, size_t count, dpti_processes *processes);
void dpti_allreduce_destroy(dpti_allreduce *allreduce); /* accepts NULL; all ranks have left */

/* [driver] Once per rank, and for all ranks before the first run: `data` holds the elements from
   its start on.  leave accepts a rank that has not joined. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_join(dpti_allreduce *allreduce, size_t rank,
                                                const dpti_buffer *data);
void dpti_allreduce_leave(dpti_allreduce *allreduce, size_t rank);

/* Between runs: a rank that is not present is not waited for, and its data stay as they are.  All
   are at first. */
void dpti_allreduce_set_present(dpti_allreduce *allreduce, size_t rank, bool present);
/* Between runs: the rank is in this island, from now on; berth->island NULL: in none, as all are at
   first.  Members have joined, are present, and stand in their island in the order of ranks; its
   first one's rank shows the sum. */
void dpti_allreduce_set_island_slot(dpti_allreduce *allreduce, size_t rank,
                                    const dpti_island_slot *island_slot);

/* A rank will not come: as dpti_rendezvous_break and mend say.  Islands are aborted before. */
void dpti_allreduce_break(dpti_allreduce *allreduce);
void dpti_allreduce_mend(dpti_allreduce *allreduce);
/* Nobody is there or on the way: waits for what other processes still do with buckets, and forgets
   those of a run that did not take place. */
void dpti_allreduce_reset(dpti_allreduce *allreduce);

/* Who comes, and who brings anything, which all processes know alike. */
typedef struct dpti_contribution {
    size_t rank;
    bool contributes;      /* a rank that does not still receives the sum */
    bool late;             /* an island's members, all alike, hand in nothing before all of them in
                              this process have come to the run: until then one of them may make
                              calls that wait for all streams, which wait for it */
    const bool *processes; /* (processes) which of them contribute; NULL: all.  Stays until the run
                              is over */
    /* [driver] Where the sum of its island is the whole one: DPT_OK, or what is wrong with it,
       DPT_E_NOT_FINITE perhaps.  NULL: nothing ever is. */
    dpt_status (*look)(void *user);
    void *user;
} dpti_contribution;

/* [driver] Brings elements [begin, end) before the run, where all bring the same ranges in the same
   order, each of which ends where the one before begins.  Waits for nobody.  The device's earlier
   work has passed (sync), and none reads or writes these elements until the run is over.  A rank
   that has failed brings them all the same: they count for the others' order, not for the run. As
   the run for *mine and *times, but that waiting for an island's sum is the run's. */
void dpti_allreduce_contribute(dpti_allreduce *allreduce, const dpti_contribution *who,
                               size_t begin, size_t end, dpt_status *mine, dpti_times *times);

/* [driver] Called by every rank, which brings what it has not brought yet.  *mine is this rank's
   status so far, and becomes the failure of its own transfers.  If any rank brings a failure nobody
   may count on sums and all get the first failure in rank order (of this process; else that of
   another one).  The device's earlier work has passed (sync).  Added to *times, which may be NULL:
   as WAITING what passes until all have come, sums included that this rank makes meanwhile; as
   EXCHANGE this rank's transfers and what passes from then on, which is what no computing hides.
   *mine becomes DPT_E_CANCELLED where an island's sum could not be made and that is not this
   device's fault (island.h). */
DPT_CHECK_RESULT dpt_status dpti_allreduce_run(dpti_allreduce *allreduce,
                                               const dpti_contribution *who, dpt_status *mine,
                                               dpti_times *times);

/* [driver] Of a rank whose run, or what was before it, has failed: nothing writes its data any
   more. Returns `mine`, whose record stays as it is; if that is no failure of its own, what the
   device says now. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_settle(dpti_allreduce *allreduce, size_t rank,
                                                  dpt_status mine);

/* Before the first run: numbers that are not finite fail it with DPT_E_NOT_FINITE, and blame tells
   each rank where they come from.  Within one process the sum of several is looked at while it is
   made. Where there are others each rank looks at what it brings, which becomes its *mine, and at
   the sum, in which all see the same.  One
   that is alone looks at its own part itself, and so do those of an island, before they bring
   it. */
void dpti_allreduce_want_finite(dpti_allreduce *allreduce);

/* Before the first run, where there are other processes: elements below feedback->count travel to
   them packed (collective/processes.h).  It outlives the all-reduce, changes with every run that
   succeeds and with no other, and may be read and written between runs. */
void dpti_allreduce_pack(dpti_allreduce *allreduce, dpti_feedback *feedback);

/* [driver] Of this rank, behind such a failure. */
typedef enum dpti_blame {
    DPTI_BLAME_NOBODY, /* another rank came with that status */
    DPTI_BLAME_OWN,    /* what this rank has brought is not finite */
    DPTI_BLAME_OTHERS, /* what others have brought */
    DPTI_BLAME_SUM,    /* what each has brought is finite, and the sum is not.  (Over processes an
                          island's sum is OWN of the one that shows it.) */
} dpti_blame;

dpti_blame dpti_allreduce_blame(const dpti_allreduce *allreduce, size_t rank);

#endif
