/* All-reduce among devices of any backends, through host memory.  Every driver thread takes part:
   it shows its device's data (in place where the device's memory is the host's, else a staged
   copy), sums one slice of everybody's in the order of the ranks, and writes the sum back to all.
   The order is fixed, so every replica ends with the same bits.

   Where there are several processes, ranks are those of this process: its sum goes into one rank's
   data, is reduced there over the processes (collective/processes.h), and then reaches the others.
 */
#ifndef DPTI_ALLREDUCE_H
#define DPTI_ALLREDUCE_H

#include "base/times.h"
#include "collective/processes.h"
#include "device/device.h"

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
/* A rank will not come: as dpti_rendezvous_break and mend say. */
void dpti_allreduce_break(dpti_allreduce *allreduce);
void dpti_allreduce_mend(dpti_allreduce *allreduce);

/* [driver] Called by every rank.  *mine is this rank's status so far, and becomes the failure of
   its own transfers.  If any rank brings a failure nothing is summed and all get the first failure
   in rank order (of this process; else that of another one).  A rank that does not contribute still
   receives the sum.  The device's earlier work has passed (sync).  This rank's transfers and its
   slice of the sum are added to *times as EXCHANGE, and what it waits for the others as WAITING;
   times may be NULL. */
DPT_CHECK_RESULT dpt_status dpti_allreduce_run(dpti_allreduce *allreduce, size_t rank,
                                               bool contributes, dpt_status *mine,
                                               dpti_times *times);

#endif
