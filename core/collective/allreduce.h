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
#include "collective/contribution.h"
#include "collective/feedback.h"
#include "collective/island.h"
#include "collective/processes.h"
#include "collective/range.h"
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

/* [driver] Contributes a range of elements before the run.  All ranks contribute the same ranges in
   the same order, and each range ends where the range before it begins.  Waits for nobody.  The
   device's earlier work is done (sync), and nothing reads or writes these elements until the run is
   over.  A rank that has failed contributes them all the same: they count for the order of the
   others, not for the run.  *exchange->mine and the times are as for the run, but the wait for an
   island's sum belongs to the run. */
void dpti_allreduce_contribute(dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                               dpti_range what);

/* [driver] Called by every rank.  It contributes what it has not contributed yet.  *exchange->mine
   is the rank's status so far, and becomes the failure of its own transfers.  If any rank comes
   with a failure, nobody may rely on the sums, and all ranks get the first failure in rank order
   (of this process; else that of another process).  The device's earlier work is done (sync). Spans
   are added to the times as WAITING until all ranks have come, including sums that this rank makes
   meanwhile, and as EXCHANGE for this rank's transfers and for everything after that, which no
   computation hides.  *exchange->mine becomes DPT_E_CANCELLED if the sum of an island could not be
   made and this device is not the reason (island.h). */
DPT_CHECK_RESULT dpt_status dpti_allreduce_run(dpti_allreduce *allreduce,
                                               dpti_exchange_context *exchange);

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

/* [driver] Says where the values came from that were not finite, after a run that failed so. */
dpti_blame dpti_allreduce_blame(const dpti_allreduce *allreduce, size_t rank);

#endif
