/* The beginning and the end of a round of local steps (round.h).

   The end goes through host memory: the state of one replica is read, joined with the states of the
   other processes, and written to all replicas.  It happens once in many steps, so that it is not
   worth an all-reduce on the devices.  Processes compare a checksum of the state with the next
   step, as they do whenever weights were written.  With an outer delay only the last round of an
   epoch ends so.  The others are exchanged by the communication thread while steps go on. */
#include "train/pipeline/round.h"

#include "base/clock.h"
#include "train/exchange/exchange.h"
#include "train/peers/outcomes.h"
#include "train/peers/peers.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/replicas/replicas.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"
#include "train/state/trainer.h"

#include <stdlib.h>

dpt_status dpti_round_begin(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    if (t->local_steps == 0 || dpti_rounds_open(t)) return DPT_OK;
    const dpt_status status = dpti_trainer_read_saved(t, 0, DPT_PARAMETER, dpti_rounds_begin(t));
    if (status != DPT_OK) dpti_rounds_close(t);
    return status;
}

static dpt_status read_state(dpt_trainer *t, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    DPT_TRY(dpti_replica_make_flats(t, flats));
    return dpti_replica_read_saved(t, 0, dpti_trainer_n_state_buffers(t), flats);
}

/* What fails in one process fails in all of them. */
static dpt_status join(dpt_trainer *t, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    DPT_TRY(dpti_peers_agree(t, read_state(t, flats)));
    if (dpti_rounds_in_flight(t))
        DPT_TRY(dpti_rounds_take_exchange(t, flats[0], dpti_exchange_lend_feedback(t)));
    DPT_TRY(dpti_rounds_join(t, dpti_trainer_n_state_buffers(t), flats,
                             dpti_exchange_lend_feedback(t)));
    return dpti_peers_agree(t, dpti_trainer_adopt_saved(t, (const float *const *)flats));
}

/* The round is over, or has no end. */
static dpt_status close_round(dpt_trainer *t, dpt_status status)
{
    dpti_rounds_close(t);
    if (status != DPT_OK) dpti_state_give_up(t);
    return status;
}

dpt_status dpti_round_end(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    if (!dpti_rounds_open(t)) return DPT_OK;
    const dpt_status status = join(t, flats);
    dpti_trainer_free_state_buffers(flats);
    return close_round(t, status);
}

/* ---- With an outer delay --------------------------------------------------------------------- */

static dpt_status read_parameters(dpt_trainer *t, float *flat)
{
    if (!flat) return DPT_E_NO_MEMORY;
    DPT_TRY(dpti_rounds_make_room(t));
    return dpti_trainer_read_saved(t, 0, DPT_PARAMETER, flat);
}

static dpt_status start_exchange(dpt_trainer *t, float *flat)
{
    DPT_TRY(dpti_peers_agree(t, read_parameters(t, flat)));
    dpti_rounds_start_exchange(t, flat, dpti_exchange_lend_feedback(t));
    return DPT_OK;
}

/* Each process has weights of its own behind it, so they are not compared. */
static dpt_status take_exchange(dpt_trainer *t, float *flat)
{
    DPT_TRY(dpti_peers_agree(t, read_parameters(t, flat)));
    DPT_TRY(dpti_rounds_take_exchange(t, flat, dpti_exchange_lend_feedback(t)));
    const dpt_status status = dpti_trainer_write_saved(t, DPT_PARAMETER, flat);
    dpti_peers_forget_written(t);
    return dpti_peers_agree(t, status);
}

static dpt_status exchange_beside_steps(dpt_trainer *t)
{
    const bool starts = dpti_rounds_border(t, dpti_steps_done(t));
    float *flat = dpti_trainer_make_flat(t);
    const dpt_status status = starts ? start_exchange(t, flat) : take_exchange(t, flat);
    free(flat);
    return status == DPT_OK ? DPT_OK : close_round(t, status);
}

/* ---- What a step ends ------------------------------------------------------------------------ */

dpt_status dpti_round_note(dpt_trainer *trainer, const dpti_in_flight_step *inflight,
                           dpt_step_metrics *out)
{
    dpt_trainer *t = trainer;
    if (!dpti_rounds_open(t)) return DPT_OK;
    dpti_rounds_count(t, inflight);
    if (!dpti_rounds_stops(t, dpti_steps_done(t))) return DPT_OK;
    const double began = dpti_seconds();
    DPT_TRY(dpti_rounds_closes(t, dpti_steps_done(t)) ? dpti_round_end(t)
                                                      : exchange_beside_steps(t));
    const double ended = dpti_seconds();
    out->round_seconds = ended - began;
    out->seconds += out->round_seconds;
    dpti_steps_set_last_finished(t, ended);
    return DPT_OK;
}

dpt_status dpt_trainer_end_round(dpt_trainer *trainer)
{
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_end_round"));
    if (!dpti_rounds_open(trainer)) return DPT_OK;
    const dpt_status status = dpti_peers_meet_at_end(trainer);
    return status == DPT_OK ? dpti_round_end(trainer) : close_round(trainer, status);
}
