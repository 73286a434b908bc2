/* Rounds of local steps: where they begin and end, and the arithmetic of their ends.

   With local steps a process is a group.  Its devices share each step of the group, and no gradient
   leaves the process.  Processes take several steps by themselves, a round, and then exchange what
   has changed:

       d[p]      = parameters at the beginning of the round - parameters of process p now
       d         = sum of d[p] * samples of p in the round / samples of the round
       velocity  = outer momentum * velocity + d
       parameter = parameter at the beginning - outer rate * (d + outer momentum * velocity)

   This is SGD with Nesterov's rule, as PyTorch has it, with d in place of a gradient (Douillard et
   al. 2023, "DiLoCo").  The running statistics of batch-norms, and the state of the optimizer that
   the processes use within a round, become the mean over the processes, weighted likewise.  So all
   processes go on from one training state.

   With compression (dpt_trainer_options.compress) the sum over the processes of d[p] * samples of p
   in the round / samples of the round travels in that format, with error feedback, which is that of
   gradients otherwise (exchange/exchange.h).  The state of the optimizer travels as bfloat16 then,
   also with integers of 8 bits: a second moment that became 0 would make its next step huge.  It
   has no error feedback, because it is no sum over rounds.  Running statistics travel as float32.

   A round ends behind every `local_steps`-th step of an epoch, and at the end of the epoch.  Where
   rounds end therefore follows from the place in the data alone.  dpt_trainer_end_round ends one
   early.

   With an outer delay D, a round whose epoch goes on does not wait for the exchange.  Each process
   notes its parameters, starts the exchange of d[p], and goes on from its parameters.  Behind D
   steps of the next round it takes the outer step:

       parameter of p = parameter at the beginning' + (parameter of p now - parameter of p noted)

   where the parameter at the beginning' is what the outer step makes of it, the same in all
   processes, and is the beginning of the next round.  So a process keeps what it has learnt in D
   steps, and d[p] of the next round has all that it has changed.  Running statistics and the
   optimizer's state stay with each process.  The last round of an epoch, and one that ends early,
   is joined at once, as without a delay: an exchange in flight ends first, and its outer step is
   taken. What stayed with each process becomes the mean, weighted by the samples since the
   processes had one training state.  A round is closed behind that, and open before.
 */
#ifndef DPTI_ROUNDS_H
#define DPTI_ROUNDS_H

#include "collective/feedback.h"
#include "dptrain.h"
#include "train/state/in_flight_step.h"
#include "train/state/replicas_state.h"

typedef struct dpt_trainer dpt_trainer;

/* Makes room for the ends of rounds, if the trainer has local steps.  DPT_E_NO_MEMORY; destroy
   frees what was made. */
DPT_CHECK_RESULT dpt_status dpti_rounds_create(dpt_trainer *trainer);
void dpti_rounds_destroy(dpt_trainer *trainer);

/* What rounds of a training with these resolved options take, whose replicas have n_kinds buffers
   of training state. */
dpt_round_plan dpti_rounds_plan(const dpt_model *model, const dpt_trainer_options *options,
                                size_t n_kinds);

/* ---- Where a round stands -------------------------------------------------------------------- */

/* Whether a round ends between the steps before and behind a cursor; whether a delayed outer step
   is taken there; and whether one of both is, so that no step may be in flight. */
bool dpti_rounds_border(const dpt_trainer *trainer, const dpti_cursor *cursor);
bool dpti_rounds_takes(const dpt_trainer *trainer, const dpti_cursor *cursor);
bool dpti_rounds_stops(const dpt_trainer *trainer, const dpti_cursor *cursor);
/* Whether a round that ends there is joined at once. */
bool dpti_rounds_closes(const dpt_trainer *trainer, const dpti_cursor *cursor);
/* Whether processes have taken steps of a round that has not ended, so that each has weights of its
   own. */
bool dpti_rounds_open(const dpt_trainer *trainer);
/* Whether a round is open, and none is joined before the next step that would be submitted. */
bool dpti_rounds_continue(const dpt_trainer *trainer);
/* DPT_E_STATE if a round is open, in the words of a call that needs the weights of all processes.
 */
DPT_CHECK_RESULT dpt_status dpti_rounds_check_closed(dpt_trainer *trainer, const char *call);
/* DPT_E_STATE if steps are in flight behind which a round ends, or a delayed outer step is taken,
   so that nothing may be submitted. */
DPT_CHECK_RESULT dpt_status dpti_rounds_check_room(dpt_trainer *trainer);

/* ---- The course of a round ------------------------------------------------------------------- */

/* Begins a round.  The caller writes the parameters (flat_size) to the memory that is returned. */
float *dpti_rounds_begin(dpt_trainer *trainer);
/* Counts the samples of a step that was collected. */
void dpti_rounds_count(dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* All processes call it with nothing in flight.  `flats` is the training state of this process
   (n_kinds buffers), and becomes that of all.  The outer velocity has taken the step, and the error
   feedback is that of the next round; `feedback` is NULL without compression.  Fails as the
   transport does; DPT_E_NOT_FINITE, in all processes, if the result is not finite. */
DPT_CHECK_RESULT dpt_status dpti_rounds_join(dpt_trainer *trainer, size_t n_kinds,
                                             float *const *flats, dpti_feedback *feedback);
/* With an outer delay, before start_exchange: makes room for an exchange.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_rounds_make_room(dpt_trainer *trainer);
/* Starts the exchange of a round, and begins the next round.  All processes call it with no step
   and no exchange in flight.  `now` (flat_trained): the parameters of this process.  `feedback` is
   as in dpti_rounds_join, and stays until the exchange is taken or dropped. */
void dpti_rounds_start_exchange(dpt_trainer *trainer, const float *now,
                                const dpti_feedback *feedback);
bool dpti_rounds_in_flight(const dpt_trainer *trainer); /* whether an exchange is */
/* Waits for the exchange and takes its outer step: `now`, the parameters of this process, become
   what it goes on with.  Fails as dpti_rounds_join. */
DPT_CHECK_RESULT dpt_status dpti_rounds_take_exchange(dpt_trainer *trainer, float *now,
                                                      dpti_feedback *feedback);
/* The round is over: its end is done, or it has no end because the steps have failed.
   What an exchange in flight brings is dropped. */
void dpti_rounds_close(dpt_trainer *trainer);

/* ---- What lasts ------------------------------------------------------------------------------ */

/* The outer velocity (flat_gradients), the same in all processes between rounds; NULL: none. */
float *dpti_rounds_velocity(const dpt_trainer *trainer);
/* The training state is another one: no round is open, and the outer velocity is zero. */
void dpti_rounds_restart(dpt_trainer *trainer);

#endif
