/* The parts of the optimizer's state (state_parts.h) where devices of several processes hold them.

   The parts are those of the devices of all processes, in the order of devices.  So each process
   has one run of the flat buffer, and each process has a whole mirror.  Behind its own update a
   process gets what the devices of the others have updated: parameters, running statistics and the
   optimizer's state.

   What arrives goes to a second set of buffers, `next`, into which this process's devices write
   their own parts.  It becomes the mirror when everything is there.  So a process that dies
   meanwhile leaves a whole mirror in each of the others: of the step before, or of this one. */
#ifndef DPTI_PARTS_EXCHANGE_H
#define DPTI_PARTS_EXCHANGE_H

#include "train/components/state_division.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* ---- On the caller's thread, nothing in flight ----------------------------------------------- */

/* Makes room, if there are several processes.  DPT_E_NO_MEMORY; destroy frees what was made. */
DPT_CHECK_RESULT dpt_status dpti_parts_exchange_create(dpt_trainer *trainer);
void dpti_parts_exchange_destroy(dpt_trainer *trainer);
/* Makes `next`, a copy of the mirror, if there are several processes.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_parts_exchange_make(dpt_trainer *trainer);
/* Elements of the training state were written to the mirror by the caller: `next` gets them, too.
 */
void dpti_parts_exchange_write(dpt_trainer *trainer, size_t buffer, const float *flat, size_t n);
/* All processes tell each other about their holders: those of this process's devices are filled in,
   of (n_devices).  With one process nothing is done.  The context tells a failure. */
DPT_CHECK_RESULT dpt_status dpti_parts_exchange_tell(dpt_trainer *trainer,
                                                     dpti_state_holder *holders);
/* Takes over how the state is divided over the devices of all processes (n_devices). */
void dpti_parts_exchange_divide(dpt_trainer *trainer, const dpti_state_part *parts);

/* Elements of the part that a device of any process has; 0 with one process. */
size_t dpti_parts_exchange_count(const dpt_trainer *trainer, size_t device);

/* ---- On driver threads ----------------------------------------------------------------------- */

/* Whether there are several processes. */
bool dpti_parts_exchange_on(const dpt_trainer *trainer);
/* Called by all threads behind the vote of this process, `verdict`, which they came to at `began`,
   when the process's parts are in `next`.  The processes vote, and exchange their parts.  The same
   verdict on all threads.  It is DPT_OK if the mirror is that of this step; the step is committed
   then. */
DPT_CHECK_RESULT dpt_status dpti_parts_exchange_run(dpti_shard *shard, dpt_status verdict,
                                                    double began);
/* Called by all threads in place of it where the step was dropped before the update: the processes
   vote against it.  A device may fail when the processes have voted on the sums, in which case only
   its own process knows. */
void dpti_parts_exchange_decline(const dpti_shard *shard);

#endif
