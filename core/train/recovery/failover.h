/* Losing devices: which failures mean a loss, which devices are lost together, and what the others
   need in order to go on.

   Everything here happens on the caller's thread with nothing in flight.  So no thread waits for a
   lost device: it leaves the collectives, and its shards are zero.  What it holds stays as it is
   until the trainer ends, or until the device is tried again (readmit.h): a device that has failed
   is not called again only to release things. */
#ifndef DPTI_FAILOVER_H
#define DPTI_FAILOVER_H

#include "train/programs/worker.h"
#include "train/state/in_flight_step.h"
#include "train/state/replicas_state.h"

/* Whether this failure of a device means that the device is lost.  This is the only place that
   decides it. */
bool dpti_is_loss(dpt_status status);
/* Whether a device was lost in this step. */
bool dpti_trainer_lost_some(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Loses a device whose worker could not be made anew, and the devices of its fault domain, while
   the other workers are not made yet.  Fails if there are no others. */
DPT_CHECK_RESULT dpt_status dpti_trainer_lose_unmade(dpt_trainer *trainer,
                                                     const dpti_failing_rank *failing);
/* Loses all devices that are left, which have no replicas any more, and keeps the training state in
   host memory. */
void dpti_trainer_forsake(dpt_trainer *trainer, float *flats[DPTI_MAX_STATE_BUFFERS]);
/* At the trainer's end: releases what lost devices hold, where they can be called. */
void dpti_trainer_tidy_lost(dpt_trainer *trainer);

/* The three parts of losing the devices with these errors (n_workers; recover.h):

   may_lose: writes which devices are lost (`lost`, n_workers).  Returns whether training can go on
   without them.
   refuse: training cannot go on.  Returns the failure; only devices that hang are lost.
   lose: takes the devices out of service.  Fails if the devices that are left hold no batch. */
bool dpti_failover_may_lose(dpt_trainer *trainer, const dpt_error *const *errors, bool *lost);
DPT_CHECK_RESULT dpt_status dpti_failover_refuse(dpt_trainer *trainer,
                                                 const dpt_error *const *errors);
DPT_CHECK_RESULT dpt_status dpti_failover_lose(dpt_trainer *trainer, const dpt_error *const *errors,
                                               const bool *lost);

#endif
