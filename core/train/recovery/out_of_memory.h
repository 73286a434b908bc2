/* A device that runs out of memory in the middle of a step: how many samples it gets from then on,
   and what becomes of an update that it has no memory for. */
#ifndef DPTI_OUT_OF_MEMORY_H
#define DPTI_OUT_OF_MEMORY_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Notes what devices have held in a step that was committed. */
void dpti_trainer_note_held(dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Whether a step failed for lack of memory, before the commit and for no other reason. */
bool dpti_trainer_ran_out(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* From now on the devices that ran out of memory in this step get fewer samples.  DPT_E_NO_MEMORY,
   with the device named, if shards are fixed, if the device had no samples, or if the devices would
   not hold a batch any more: the bound of the device that is named stays as it was. */
DPT_CHECK_RESULT dpt_status dpti_trainer_bound_shards(dpt_trainer *trainer,
                                                      const dpti_in_flight_step *inflight);
/* Whether a device had no memory for the update of this step, which is committed. */
bool dpti_trainer_update_ran_out(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Restores the replicas of these devices from the others or, where the others have no valid replica
   either, goes back to the state of devices on standby.  Fails, with the device named, if no device
   has a state.
 */
DPT_CHECK_RESULT dpt_status dpti_trainer_restore_short(dpt_trainer *trainer,
                                                       const dpti_in_flight_step *inflight);

#endif
