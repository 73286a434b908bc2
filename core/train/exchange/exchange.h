/* What the devices of a trainer exchange in a step: gradients, with the vote, and the parts of
   batch-norms. */
#ifndef DPTI_EXCHANGE_H
#define DPTI_EXCHANGE_H

#include "collective/allgather.h"
#include "collective/allreduce.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Makes the collectives, when the trainer's options are taken.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_exchange_create(dpt_trainer *trainer);
void dpti_exchange_destroy(dpt_trainer *trainer);

/* Before the first step: sums of gradients that devices have in parts are clipped in the exchange,
   as the optimizer asks.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_exchange_clip(dpt_trainer *trainer);
/* Before workers are created, with several processes: process p has elements [borders[p],
   borders[p + 1]) of these sums (processes + 1).  Error feedback then waits for commit. */
void dpti_exchange_divide(dpt_trainer *trainer, const size_t *borders);
/* [driver] One thread of the process, when a step counts: what its exchange has left is the error
   feedback of the next one. */
void dpti_exchange_commit(dpt_trainer *trainer);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The all-reduce of gradients; and the all-gather of batch-norms' parts, NULL if no batch-norm
   exchanges parts. */
dpti_allreduce *dpti_exchange_allreduce(const dpt_trainer *trainer);
dpti_allgather *dpti_exchange_allgather(const dpt_trainer *trainer);
/* Sets whether a worker takes part in these collectives. */
void dpti_exchange_set_present(dpt_trainer *trainer, size_t rank, bool present);
/* A device does not answer.  break wakes all driver threads that wait in these collectives and
   makes their calls fail, until mend. */
void dpti_exchange_break(dpt_trainer *trainer);
void dpti_exchange_mend(dpt_trainer *trainer);
/* Nothing in flight: forgets what a failed step has contributed. */
void dpti_exchange_reset(dpt_trainer *trainer);
/* The most elements of the parts of batch-norms that a device contributes at once. */
size_t dpti_trainer_part_size(const dpt_trainer *trainer);

/* ---- A worker's part ------------------------------------------------------------------------- */

/* [driver] Makes host memory for batch-norms' parts, if any are exchanged.  DPT_E_NO_MEMORY, or the
   device's failure. */
DPT_CHECK_RESULT dpt_status dpti_exchange_create_parts(dpti_worker *worker);
void dpti_exchange_destroy_parts(dpti_worker *worker); /* [driver] */
float *dpti_exchange_parts(const dpti_worker *worker);
/* [driver] Registers a worker's gradients for the all-reduce, and removes them.  join fails with
   DPT_E_NO_MEMORY or the device's failure. */
DPT_CHECK_RESULT dpt_status dpti_exchange_join(dpti_worker *worker);
void dpti_exchange_leave(dpti_worker *worker); /* [driver] */
/* [driver] Between steps: makes sure that the worker holds n nodes of grains behind the first one,
   and that the all-reduce knows their places.  Fails as join does. */
DPT_CHECK_RESULT dpt_status dpti_exchange_hold_nodes(dpti_worker *worker, size_t n);
/* [driver] Destroys the side stream, if there is one. */
void dpti_exchange_destroy_side(dpti_worker *worker);
/* Whether the worker's backend sums its gradients with other devices' (islands.h). */
bool dpti_in_island(const dpti_worker *worker);

/* ---- Error feedback -------------------------------------------------------------------------- */

/* Whether sums over processes are compressed, so that each process has error feedback, which is
   part of its training state. */
bool dpti_packs(const dpt_trainer *trainer);
/* The name of the format in which they travel; NULL: they are not compressed. */
const char *dpti_exchange_packing(const dpt_trainer *trainer);
/* What the end of a round takes (rounds/rounds.h): the error feedback of this process, which the
   end writes and commits; NULL where sums are not compressed. */
dpti_feedback *dpti_exchange_lend_feedback(dpt_trainer *trainer);
/* The error feedback of this process: *count float32, 0 and NULL where there is none. */
float *dpti_exchange_feedback(const dpt_trainer *trainer, size_t *count);
void dpti_exchange_clear_feedback(dpt_trainer *trainer);
/* With DPT_COMPRESS_LOWRANK the factors with which the next step begins (flat_trained), the same in
   all processes; else NULL. */
float *dpti_exchange_factors(const dpt_trainer *trainer);
/* The matrices of a model and of this rank.  NULL if memory is short. */
dpti_low_rank *dpti_exchange_make_low_rank(const dpt_model *model, size_t rank);

/* ---- First runs ------------------------------------------------------------------------------ */

/* Whether the members of all islands have done a step with these shards.  If not, a device may have
   a first run, which makes the other members wait for long. */
bool dpti_exchange_is_settled(dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Devices, or what they compute, have changed: first runs may come again. */
void dpti_exchange_unsettle(dpt_trainer *trainer);

#endif
