/* Steps in flight: their records, and where training stands. */
#ifndef DPTI_IN_FLIGHT_H
#define DPTI_IN_FLIGHT_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Allocates the records of steps.  DPT_E_NO_MEMORY; destroy frees what was made. */
DPT_CHECK_RESULT dpt_status dpti_steps_create(dpt_trainer *trainer);
void dpti_steps_destroy(dpt_trainer *trainer);

/* Where training stands: behind the last committed step that was collected; and before the next
   step to be submitted. */
const dpti_cursor *dpti_steps_done(const dpt_trainer *trainer);
const dpti_cursor *dpti_steps_next(const dpt_trainer *trainer);
/* Nothing in flight: training stands here from now on. */
void dpti_steps_move_to(dpt_trainer *trainer, dpti_cursor cursor);
size_t dpti_steps_n_in_flight(const dpt_trainer *trainer);
/* The record of a step, from 1: in flight, or one of the last two that were collected. */
dpti_in_flight_step *dpti_steps_step(dpt_trainer *trainer, size_t step);
/* Host memory for one worker's samples and results, which evaluation uses while nothing is in
   flight. */
dpti_shard *dpti_steps_spare_shard(dpt_trainer *trainer, size_t rank);
/* The i-th of a worker's DPTI_STEP_SLOTS shards, to which a worker gives host memory; NULL if the
   records were not made. */
dpti_shard *dpti_steps_shard(dpt_trainer *trainer, size_t i, size_t rank);
/* When the last collected step ended, by the host's clock. */
double dpti_steps_last_finished(const dpt_trainer *trainer);
/* Whether shards keep the spans of their times, for the trace. */
bool dpti_steps_traced(const dpt_trainer *trainer);
void dpti_steps_set_traced(dpt_trainer *trainer, bool traced);
/* Training has gone back: it retries the steps up to this one, from 1.  0: it has not gone back. */
size_t dpti_steps_retry_to(const dpt_trainer *trainer);
void dpti_steps_set_retry_to(dpt_trainer *trainer, size_t step);
/* The last step in which a worker took part, from 1; 0: none. */
size_t dpti_steps_last_step_of(const dpt_trainer *trainer, size_t rank);

/* Nothing in flight: where training has gone back (dpti_standby_rewind) it retries the steps since.
   Failures are those of a step.  This calls the function that dpti_steps_set_catch_up was given:
   recovery goes on from retried steps, and retrying steps needs recovery. */
DPT_CHECK_RESULT dpt_status dpti_trainer_catch_up(dpt_trainer *trainer);
void dpti_steps_set_catch_up(dpt_trainer *trainer, dpt_status (*catch_up)(dpt_trainer *trainer));

/* ---- For the pipeline ------------------------------------------------------------------------ */

/* Sets what dpti_steps_done, _next, _last_finished and _last_step_of tell. */
void dpti_steps_set_done(dpt_trainer *trainer, dpti_cursor cursor);
void dpti_steps_set_next(dpt_trainer *trainer, dpti_cursor cursor);
void dpti_steps_set_last_finished(dpt_trainer *trainer, double seconds);
void dpti_steps_set_last_step_of(dpt_trainer *trainer, size_t rank, size_t step);

/* One step more, or one step less, is in flight. */
void dpti_steps_set_in_flight(dpt_trainer *trainer, size_t n);
/* Whether steps may be submitted: DPT_E_STATE if as many are in flight as may be. */
DPT_CHECK_RESULT dpt_status dpti_steps_check_room(const dpt_trainer *trainer);

#endif
