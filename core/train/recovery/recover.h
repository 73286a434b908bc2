/* Losing devices, and restoring those that are left.  Any of these functions may lose a device.

   Everything here happens on the caller's thread with nothing in flight.  A failure is in the
   context. */
#ifndef DPTI_RECOVER_H
#define DPTI_RECOVER_H

#include "dpt_error.h"
#include "dptrain.h"
#include "train/state/replicas_state.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpt_trainer dpt_trainer;

/* ---- Losing devices -------------------------------------------------------------------------- */

/* Goes on without the devices whose errors[i] (n_workers) is not NULL and a loss, and without those
   of their fault domains.  DPT_OK: training can go on.  Otherwise no device is lost, and the first
   of these errors is returned: no device would be left, or losses end the call; or the others could
   not be prepared for larger shards. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose(dpt_trainer *trainer, const dpt_error *const *errors);
/* The same for one device; and for the devices lost in the n steps from the one behind `step` on.
 */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_one(dpt_trainer *trainer, size_t rank,
                                                  const dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_in_flight(dpt_trainer *trainer, size_t step,
                                                        size_t n);
/* The same for devices whose thread was given up outside of a step.  A job that is posted to such a
   device would run on the caller's thread and wait there for the other devices. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_hung(dpt_trainer *trainer);

/* ---- Restoring replicas ---------------------------------------------------------------------- */

/* Gives every stale replica the training state of one that is valid; nothing in flight.  restore
   leaves out devices on standby, refresh does not.  A device that fails at it is lost, if losses do
   not end the call. */
DPT_CHECK_RESULT dpt_status dpti_trainer_restore(dpt_trainer *trainer);
DPT_CHECK_RESULT dpt_status dpti_trainer_refresh(dpt_trainer *trainer);
/* Reads the training state of one replica that can be trusted and read.  `flats` gets
   dpti_trainer_n_state_buffers flat buffers, which the caller frees.  Devices that fail at it are
   lost. */
DPT_CHECK_RESULT dpt_status dpti_trainer_read_state_buffers(dpt_trainer *trainer,
                                                            float *flats[DPTI_MAX_STATE_BUFFERS]);
/* Reads n_kinds buffers from the first replica that can be read.  Devices that fail at it are lost
   if another one does not fail, except while a state is salvaged, and where losses end the call.
   DPT_E_STATE if no device holds the training state. */
DPT_CHECK_RESULT dpt_status dpti_trainer_read_trusted(dpt_trainer *trainer, size_t n_kinds,
                                                      float *const *flats);
/* Reads the weights like dpti_trainer_read_trusted, for a record of them: devices on standby do not
   get the training state before.  If the only devices that hold it fail, training goes back to the
   state of the devices on standby, and the weights are those. */
DPT_CHECK_RESULT dpt_status dpti_trainer_peek(dpt_trainer *trainer, float *flat);
/* Makes the workers that are not lost anew, for their capacities, with the training state as it is;
   nothing in flight.  All processes call it.  A device that fails at it, or hangs, is lost.  After
   a failure no device is left, and the training state is in host memory (dpti_trainer_forsake). */
DPT_CHECK_RESULT dpt_status dpti_trainer_rebuild(dpt_trainer *trainer);

#endif
