/* Shards: how many samples of a step each device computes, as measured, by a fixed split, or as in
   the log of an earlier run. */
#ifndef DPTI_SHARDS_H
#define DPTI_SHARDS_H

#include "balance/account.h"
#include "balance/balance.h"
#include "balance/split.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Makes the sums of what devices have done.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_plan_create(dpt_trainer *trainer);
void dpti_plan_destroy(dpt_trainer *trainer);

/* Takes "measured", "equal", "A:B:C" or "replay:LOG".  The context tells the error. */
DPT_CHECK_RESULT dpt_status dpti_trainer_take_split(dpt_trainer *trainer, dpt_split given);
const char *dpti_shards_split_text(const dpt_trainer *trainer); /* as it was given */
/* The path of the log whose shards are replayed; NULL if none is. */
const char *dpti_trainer_replayed(const dpt_trainer *trainer);
/* Sets each worker's capacity: the most samples that it will see, in full batches, in the ragged
   last one, in the log, and with the devices that are left.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_trainer_find_capacities(dpt_trainer *trainer);
/* DPT_E_INVALID if the log that is replayed does not have n_steps beyond those submitted. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_steps(dpt_trainer *trainer, size_t n_steps);
/* How many batches a step of n_samples > 0 has; the last one may be ragged. */
size_t dpti_trainer_n_batches(const dpt_trainer *trainer, size_t n_samples);
/* One batch of a step. */
typedef struct dpti_step_batch {
    const size_t *shards; /* (n_devices) of the step */
    size_t n_samples;     /* of the step */
    size_t batch;         /* from 0 */
} dpti_step_batch;

/* Computes the rows (n_devices) of a batch.

   They are as even over the batches as they can be, and the same for the same shards. */
void dpti_trainer_batch_rows(const dpt_trainer *trainer, const dpti_step_batch *batch,
                             size_t *rows);
/* Sets the shards of a step whose cursor and n_samples are set, and why they changed.  Called in
   the order of submission.  DPT_E_INVALID if the log that is replayed does not fit. */
DPT_CHECK_RESULT dpt_status dpti_trainer_divide(dpt_trainer *trainer,
                                                dpti_in_flight_step *inflight);
/* Takes in what a committed step has taken: its devices' times, and its `seconds`. */
void dpti_trainer_observe(dpt_trainer *trainer, const dpti_in_flight_step *inflight,
                          double seconds);
/* The shards (n_devices) of the first batch. */
DPT_CHECK_RESULT dpt_status dpti_trainer_first_shards(dpt_trainer *trainer, size_t *rows);
/* The most nodes of grains (base/grains.h) that a device of this process holds at once with these
   shards of a batch; 0 where training is not deterministic. */
size_t dpti_trainer_nodes_in(const dpt_trainer *trainer, size_t device, const size_t *rows);
/* The same for all batches whose shards are known beforehand: with fixed shards and those of a log.
   0 where shards are measured. */
size_t dpti_trainer_known_nodes(const dpt_trainer *trainer, size_t device);
/* Makes the balance, when the workers are made and their capacities known.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_trainer_start_balance(dpt_trainer *trainer);
/* The balance; NULL where shards are not measured, and before it is made. */
dpti_balance *dpti_shards_balance(const dpt_trainer *trainer);
const dpti_account *dpti_shards_account(const dpt_trainer *trainer);
/* The split of fixed shards and of evaluation; and its update to the proportions of what has been
   measured, if anything has. */
const dpti_split *dpti_shards_split(const dpt_trainer *trainer);
void dpti_trainer_update_split(dpt_trainer *trainer);
/* The n_rows rows (n_workers) of a split for the devices that are not lost: equal, or in their
   proportions; equal, too, if these are all zero; none where no device is left. */
void dpti_trainer_split_left(const dpt_trainer *trainer, const dpti_split *split, size_t n_rows,
                             size_t *rows);

#endif
