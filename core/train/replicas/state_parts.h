/* The optimizer's state in parts (--shard optimizer), with it the sums of gradients (--shard
   gradients), and with both the parameters (--shard parameters).

   Each device holds all parameters, and the optimizer's state of one part of them: of
   a run of the flat buffer, its own part.  In the update a device updates its own part alone.  The
   host holds the training state of the last committed step, the mirror, from which every replica
   can be restored.  So the loss of a device, which may be the only one that holds its part, loses
   nothing.

   A step in which gradients are summed is then over as follows, on each driver thread:

   1. It updates its own part, and makes the result visible to the host (dpti_state_parts_fetch).
   2. All threads vote.  If one has failed, the step is not committed, and every replica is torn: it
      may have a part of the update.  The mirror is as before the step.
   3. Otherwise the step is committed.  Each thread writes its own part to the mirror, which
      cannot fail.  All threads meet.
   4. It gives its device the other parts of the parameters, from the mirror.  A device that
      fails here has missed a committed update, as in training without parts.

   With several processes the parts are those of all of their devices, and each process has a mirror
   (parts_exchange.h).  In 2 each thread first writes its own part to buffers that are not the
   mirror yet.  Then the threads vote, the processes vote, and they exchange their parts, behind
   which these buffers are the mirror.  So 3 is done then.  A vote of another process, and a failure
   of the exchange, drop the step in this process.

   Running statistics are no part of this: every device updates all of them.

   Where sums of gradients are in parts, too, a device has its gradients of a bucket only until the
   bucket is summed (dpti_replica.windowed), and the sums of its own part.  While one device alone
   is left, it has all gradients.

   Where parameters are in parts, too, a device keeps the weights of its own part alone, and gathers
   others from the mirror when operators need them (graph/gathered.h).  The mirror changes in 3
   only, when no device computes: behind the vote, and before all threads have met.

   With offload (--offload) CPUs alone have parts that are not empty, while one is in service. */
#ifndef DPTI_STATE_PARTS_H
#define DPTI_STATE_PARTS_H

#include "base/range.h"
#include "graph/program.h"
#include "train/components/state_division.h"
#include "train/state/in_flight_step.h"
#include "train/state/replicas_state.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* ---- On the caller's thread, nothing in flight ----------------------------------------------- */

/* Whether training with these options has what is to be divided, and divides it: there are several
   devices, and gradients, or the optimizer's state if it has one; and no local steps. */
bool dpti_state_parts_possible(const dpt_trainer *trainer, dpt_shard what);
/* NULL: gradients can be divided.  Else what hinders it. */
const char *dpti_state_parts_hindrance(const dpt_trainer *trainer);
/* NULL: CPUs can hold the parts for other devices.  Else what is missing. */
const char *dpti_state_parts_lack_of_offload(const dpt_trainer *trainer, dpt_shard what);
/* Switches parts on; before workers are created.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_begin(dpt_trainer *trainer, dpt_shard what,
                                                   bool offload);
/* After workers are destroyed.  Where a device hangs, the mirror stays: it may be read. */
void dpti_state_parts_end(dpt_trainer *trainer);
bool dpti_state_parts_on(const dpt_trainer *trainer);
bool dpti_state_parts_of_gradients(const dpt_trainer *trainer);
bool dpti_state_parts_of_parameters(const dpt_trainer *trainer);
/* Whether CPUs hold all parts. */
bool dpti_state_parts_offloaded(const dpt_trainer *trainer);
/* Whether a device that has just been lost was the last CPU: others hold the parts from now on. */
bool dpti_state_parts_end_offload(const dpt_trainer *trainer, size_t rank);

/* Divides the state among the workers of all processes that are not lost, by the memory that they
   have left: by dpti_state_parts_measure, or estimated before workers are created: a device's
   memory without what it holds now, the parameters and the gradients.  All processes call it.  The
   context tells a failure: of the transport. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_divide(dpt_trainer *trainer, bool measured);
/* In a trial workers are to be created with empty parts; measure then notes what memory each device
   has left. */
void dpti_state_parts_set_trial(dpt_trainer *trainer, dpti_trial trial);
/* Whether workers are to compute as few samples at once as may be. */
bool dpti_state_parts_takes_least(const dpt_trainer *trainer);
void dpti_state_parts_measure(dpt_trainer *trainer);
/* Bytes that are copied between the device and the mirror behind each update. */
size_t dpti_state_parts_update_bytes(const dpti_worker *worker);
/* Bytes of the mirror that count as memory of the worker's device: of a CPU that holds parts for
   other devices. */
size_t dpti_state_parts_mirror_bytes(const dpti_worker *worker);
/* Bytes of the optimizer's state that a device of another process has in its part; 0: not in parts.
 */
size_t dpti_state_parts_peer_bytes(const dpt_trainer *trainer, size_t device);
/* Bytes of the whole mirror; and of what all devices together change in it in a step: several
   processes exchange that. */
size_t dpti_state_parts_whole_bytes(const dpt_trainer *trainer);
size_t dpti_state_parts_shared_bytes(const dpt_trainer *trainer);
/* The part that the worker's device updates, as its program needs it; without parts, all. */
void dpti_state_parts_own(const dpti_worker *worker, dpti_optimizer *out);

/* Makes the mirror, of the initial state.  The failure is in the context. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_make_mirror(dpt_trainer *trainer);
/* Reads or writes the first n elements of a buffer of the mirror. */
void dpti_state_parts_read(const dpt_trainer *trainer, dpt_tensor_kind kind, float *flat, size_t n);
void dpti_state_parts_write(dpt_trainer *trainer, dpt_tensor_kind kind, const float *flat,
                            size_t n);

/* Whether elements of the parameters have the bits that the mirror has. */
bool dpti_state_parts_have(const dpt_trainer *trainer, dpti_range what, const float *parameters);

/* Where driver threads meet: whether a worker takes part; a device does not answer; it is over. */
void dpti_state_parts_set_present(dpt_trainer *trainer, size_t rank, bool present);
void dpti_state_parts_break(dpt_trainer *trainer);
void dpti_state_parts_mend(dpt_trainer *trainer);

/* ---- On driver threads ----------------------------------------------------------------------- */

/* Tells the worker's replica where the mirror is, from which it gathers parameters. */
void dpti_state_parts_lend(dpti_worker *worker);
/* Host memory for the own part, where the host does not see the device's memory. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_create(dpti_worker *worker);
void dpti_state_parts_destroy(dpti_worker *worker);

/* 1: behind the update. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_fetch(dpti_shard *shard);
/* 2: `mine` is this device's status.  The same verdict on all threads. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_vote(dpti_shard *shard, dpt_status mine);
/* In place of 1 to 4, if the step was dropped before the update.  Other processes may not know. */
void dpti_state_parts_decline(const dpti_shard *shard);
/* 3 and 4: the device's status. */
DPT_CHECK_RESULT dpt_status dpti_state_parts_share(dpti_shard *shard);

#endif
