/* Standby.  Devices are left out of steps while steps are faster without them
   (balance/standby_policy.h).  Their replicas miss updates.  They get the training state now and
   then, so that they can go on should all other devices be lost: from the state that they have, by
   retrying the steps since then.

   Standby needs one process, measured shards, and losses that do not end the call.  Everything here
   happens on the caller's thread; devices come and go with nothing in flight. */
#ifndef DPTI_STANDBY_H
#define DPTI_STANDBY_H

#include "balance/standby_policy.h"
#include "dptrain.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* allowed: devices may be put on standby, if the trainer's options and data allow it, too.
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_standby_create(dpt_trainer *trainer, bool allowed);
void dpti_standby_destroy(dpt_trainer *trainer);
/* Takes in a committed step, which took so many seconds. */
void dpti_standby_observe(dpt_trainer *trainer, const dpti_in_flight_step *inflight,
                          double seconds);
/* Whether there is something for dpti_standby_settle to do. */
bool dpti_standby_waits(const dpt_trainer *trainer);
/* A step is about to be submitted, and has its cursor and its learning rate: notes that devices on
   standby miss it.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_standby_note(dpt_trainer *trainer,
                                              const dpti_in_flight_step *inflight);
/* Why the shards of a step, from 1, differ: DPTI_BALANCE_SAME unless it is the first behind a
   change. */
dpti_balance_reason dpti_standby_reason_at(const dpt_trainer *trainer, size_t step);
/* For a checkpoint: the devices on standby for good (n_workers), the seconds of exchanges of each
   (n_workers), and what standby trials have shown.  false: standby is not allowed, and nothing is
   written. */
bool dpti_standby_export(const dpt_trainer *trainer, bool *on_standby, double *exchange,
                         dpti_standby_record *out);
/* Goes on from such a record on the same devices, when all replicas and the balance have what they
   had: the devices are on standby from the next step on, as far as they can be. */
void dpti_standby_resume(dpt_trainer *trainer, const bool *on_standby, const double *exchange,
                         const dpti_standby_record *learnt);
/* All devices take part again, and what was measured is forgotten: devices are about to be lost, to
   get fewer samples, or have come back. */
void dpti_standby_end(dpt_trainer *trainer);
/* Before a device is lost: it is not counted among those on standby any more. */
void dpti_standby_leave(dpt_trainer *trainer, size_t rank);
/* How many devices are on standby; and whether all of them had the training state before the step
   behind `done` steps last. */
size_t dpti_standby_count(const dpt_trainer *trainer);
bool dpti_standby_missed_first(const dpt_trainer *trainer, size_t done);

/* For recovery/standby_settle.c: whether a change is due, and making it; whether the replicas of
   devices on standby are to be refreshed, which costs little by now, and how long that took. */
bool dpti_standby_change_due(const dpt_trainer *trainer);
void dpti_standby_change(dpt_trainer *trainer);
bool dpti_standby_refresh_due(const dpt_trainer *trainer);
void dpti_standby_note_refresh(dpt_trainer *trainer, double seconds);

/* ---- Going back ------------------------------------------------------------------------------ */

/* No valid replica is left but those of devices on standby, or that have woken up and were not
   restored since, without the devices that are `lost` (n_workers).  Training stands where these are
   from then on, until dpti_trainer_catch_up.  false: there are none. */
bool dpti_standby_rewind(dpt_trainer *trainer, const bool *lost);
/* Training cannot go back, while a caller writes down where it stands. */
void dpti_standby_stay(dpt_trainer *trainer, bool stays);
/* The steps that training is to retry after it has gone back. */
typedef struct dpti_retries {
    size_t until; /* the last of them, from 1; 0: none */
    bool under_way;
} dpti_retries;
dpti_retries dpti_standby_retries(const dpt_trainer *trainer);
void dpti_standby_begin_retries(dpt_trainer *trainer);
void dpti_standby_end_retries(dpt_trainer *trainer, dpt_status status);
void dpti_standby_forget_retries(dpt_trainer *trainer);
/* The learning rate of a step behind `done` steps, when it was done first. */
float dpti_standby_lr_of(const dpt_trainer *trainer, size_t done);
/* Tells the listener of a step that was retried; NULL: of none yet.  Its failure ends retrying. */
DPT_CHECK_RESULT dpt_status dpti_standby_tell_retried(dpt_trainer *trainer,
                                                      const dpt_step_metrics *step);
/* Whether a step's time is its own: none was retried while it waited.  Called once for each step
   that was collected. */
bool dpti_standby_take_time(dpt_trainer *trainer);
/* Sets the listener; NULL: none. */
void dpti_standby_listen(dpt_trainer *trainer,
                         dpt_status (*listen)(void *listener, const dpt_step_metrics *step),
                         void *listener);

#endif
