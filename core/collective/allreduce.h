/* All-reduce among devices of any backends, through host memory.

   Every driver thread takes part.  It shows its device's data in host memory: in place if the
   device's memory is host memory, else in a staging copy.  Driver threads that wait for the others
   compute sums, piece by piece, in the order of the ranks, and write the sums to all ranks.  The
   order is fixed, so every replica gets the same bits.

   A rank can contribute its data in buckets, as they are written, and go on computing.  Buckets
   that all ranks have contributed are summed meanwhile by driver threads that have nothing else to
   do.

   Ranks of an island (island.h) sum among themselves first.  One of them shows the island's sum,
   and the ranks outside the island see only this one.  If all ranks are in the island, its sum is
   the sum of all, and it does not go through host memory.

   A rank may have a window: it shows its data of a bucket until the bucket is summed, and takes
   only its part of the sums (windows.c).

   With several processes, ranks are the ranks of this process.  The sum of this process goes into
   one rank's data.  The communication thread (processes.h) reduces it there over the processes,
   bucket by bucket while everybody goes on computing, and the result is then copied to the other
   ranks.  In a wide island the processes only vote: once when all ranks have made their calls, so
   that no process waits for one that has failed, and once when the sums have arrived. */
#ifndef DPTI_ALLREDUCE_H
#define DPTI_ALLREDUCE_H

#include "base/node_places.h"
#include "base/range.h"
#include "base/times.h"
#include "collective/contribution.h"
#include "collective/feedback.h"
#include "collective/island.h"
#include "collective/processes.h"
#include "device/buffer.h"

typedef struct dpti_allreduce dpti_allreduce;

/* Creates an all-reduce of `count` float32.  `processes` is NULL if this process is alone.  Returns
   NULL if memory is short. */
dpti_allreduce *dpti_allreduce_create(size_t n_ranks, size_t count, dpti_processes *processes);
void dpti_allreduce_destroy(dpti_allreduce *allreduce); /* accepts NULL; all ranks have left */

/* [driver] Every rank joins once, and all join before the first run.  The elements are at the start
   of `data`.  Fails as dpti_view_open does.  `leave` accepts a rank that has not joined. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_join(dpti_allreduce *allreduce, size_t rank,
                                                const dpti_buffer *data);
/* What a rank has instead of all elements: places of the elements of a bucket that is not summed
   yet, and a part of the sums. */
typedef struct dpti_window {
    const dpti_node_places *places; /* of the rank's data, as long as it has joined */
    const dpti_buffer *sums; /* sums of the elements `own`, and behind them those from `shared` on;
                                not read if that is none */
    dpti_range own;
    size_t shared;
} dpti_window;
/* [driver] The same for a rank with a window.  Several ranks are present whenever one has a window,
   and then all of them have, in all processes.  Each element below `shared` is the own one of one
   rank of all processes.  There are no islands.  A rank must not write a place again before the
   bucket there is summed (dpti_allreduce_await).  With several processes a rank that writes nothing
   waits, too, because the sums over processes arrive in these places of the first rank. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_join_window(dpti_allreduce *allreduce, size_t rank,
                                                       const dpti_buffer *data,
                                                       const dpti_window *window);
/* Called before the first run.  If ranks have windows, sums of the first `count` elements are
   scaled if their norm is above max_norm.  The norm is that of DPT_OP_CLIP_NORM as a deterministic
   operator.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_clip(dpti_allreduce *allreduce, size_t count,
                                                float max_norm);
/* With several processes, before ranks join: those of process p have the own elements [borders[p],
   borders[p + 1]) (processes + 1).  Whether a step counts is decided behind its run, so runs leave
   the feedback of dpti_allreduce_pack to the caller, who commits it. */
void dpti_allreduce_divide(dpti_allreduce *allreduce, const size_t *borders);
/* The buffers of nodes, and the places of elements in them. */
typedef struct dpti_node_buffers {
    const dpti_node_places *places;
    const dpti_buffer *items;
    size_t n;
} dpti_node_buffers;

/* [driver] Joins the buffers of the nodes behind the first one (contribution.h), which outlive the
   all-reduce.  A rank may join more nodes before it contributes anything to a run.  Sums then
   follow the tree of grains.  A rank that comes to a run without all of its nodes must come with a
   failure. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_join_nodes(dpti_allreduce *allreduce, size_t rank,
                                                      const dpti_node_buffers *nodes);
void dpti_allreduce_leave(dpti_allreduce *allreduce, size_t rank);

/* Between runs only.  The others do not wait for an absent rank, and its data stay unchanged.  All
   ranks are present at first. */
void dpti_allreduce_set_present(dpti_allreduce *allreduce, size_t rank, bool present);
/* Between runs only.  Puts the rank into an island, or into none if island_slot->island is NULL.
   All ranks are in no island at first.  The members of an island have joined, are present, and have
   their places in the order of ranks; the first of them shows the island's sum. */
void dpti_allreduce_set_island_slot(dpti_allreduce *allreduce, size_t rank,
                                    const dpti_island_slot *island_slot);

/* As dpti_rendezvous_break and dpti_rendezvous_mend.  Islands are aborted before. */
void dpti_allreduce_break(dpti_allreduce *allreduce);
void dpti_allreduce_mend(dpti_allreduce *allreduce);
/* Called while no rank is in a run or comes to one.  Waits until the other processes are done with
   buckets in flight, and forgets the buckets of a run that did not take place. */
void dpti_allreduce_reset(dpti_allreduce *allreduce);

/* [driver] Contributes a range of elements before the run.  All ranks contribute the same ranges in
   the same order, and each range ends where the range before it begins.  Waits for nobody.  The
   device's earlier work is done (sync), and nothing reads or writes these elements until the run is
   over.  A rank that has failed contributes them all the same: they count for the order of the
   others, not for the run.  *exchange->mine and the times are as for the run, but the wait for an
   island's sum belongs to the run. */
void dpti_allreduce_contribute(dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                               dpti_range what);

/* [driver] Waits until the first n_buckets ranges of the next run, which the rank has contributed,
   are summed, and sums meanwhile.  The rank may then write these elements of its nodes behind the
   first one, and of its window.  DPT_E_CANCELLED if a device does not answer or the transport
   fails; the run then fails, too.
 */
DPT_CHECK_RESULT dpt_status dpti_allreduce_await(dpti_allreduce *allreduce, size_t rank,
                                                 size_t n_buckets);

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

/* [driver] Called by a rank whose run, or work before the run, has failed.  Waits until nothing
   writes the rank's data any more.  Returns `mine`, and leaves the device's record as it is, if
   that is the rank's own failure; otherwise returns what the device says now. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_settle(dpti_allreduce *allreduce, size_t rank,
                                                  dpt_status mine);

/* Called before the first run.  From then on a run fails with DPT_E_NOT_FINITE if values are not
   finite, and dpti_allreduce_blame tells each rank where they come from.  Within one process, sums
   of several ranks are checked while they are computed.  With several processes, each rank checks
   its contribution, whose failure becomes its *mine, and the sum, for which all processes get the
   same result.  A rank that is alone checks its own data itself, and so do the members of an
   island, before they contribute. */
void dpti_allreduce_want_finite(dpti_allreduce *allreduce);

/* Called before the first run, with several processes.  Elements below feedback->count are packed
   when they travel to other processes (collective.h), or factors of them travel (low_rank_sum.h).
   In the second case ranks contribute all elements in the run, and none before.  *feedback outlives
   the all-reduce.  Only runs that succeed change it, and it may be read and written between runs.
 */
void dpti_allreduce_pack(dpti_allreduce *allreduce, dpti_feedback *feedback);

/* [driver] Says where the values came from that were not finite, after a run that failed so. */
dpti_blame dpti_allreduce_blame(const dpti_allreduce *allreduce, size_t rank);

#endif
