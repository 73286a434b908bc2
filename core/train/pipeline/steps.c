/* Submitting, collecting and retrying steps (steps.h).

   These three call each other: a step that is submitted may first have to retry earlier steps, and
   a step that is collected may have to be submitted again. */
#include "train/pipeline/steps.h"

#include "context/context.h"
#include "context/sized.h"
#include "train/components/order.h"
#include "train/exchange/form_islands.h"
#include "train/exchange/islands.h"
#include "train/feeding/batch_reader.h"
#include "train/feeding/feeding.h"
#include "train/membership/presence.h"
#include "train/peers/outcomes.h"
#include "train/pipeline/alone.h"
#include "train/pipeline/drain.h"
#include "train/pipeline/measure.h"
#include "train/pipeline/round.h"
#include "train/pipeline/submit.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/failover.h"
#include "train/recovery/out_of_memory.h"
#include "train/recovery/publish.h"
#include "train/recovery/readmit.h"
#include "train/recovery/readmit_settle.h"
#include "train/recovery/recover.h"
#include "train/recovery/standby_settle.h"
#include "train/replicas/divergence.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

/* ---- Submitting ------------------------------------------------------------------------------ */

/* What makes up the set of devices of the next step: repeated until no device is lost at it. */
static dpt_status settle_devices(dpt_trainer *t)
{
    dpt_status status;
    do {
        DPT_TRY(dpti_trainer_lose_hung(t));
        DPT_TRY(dpti_trainer_restore(t)); /* of devices that were woken, too */
        status = dpti_islands_form(t) ? dpti_single_launch_settle(t) : DPT_E_CANCELLED;
    } while (status == DPT_E_CANCELLED);
    return status;
}

/* What each concern settles before a step, with nothing in flight.  The order matters:

   1. Devices are lost that hung while something was read or written.  No later entry may post a job
      to one of them.
   2. Lost devices that answer again are readmitted.  They take part in all that follows.
   3. Written samples are published.  A device that fails at it is lost before devices are chosen.
   4. Devices are put on standby, or woken.  A woken device is stale until 5.
   5. Stale replicas are restored, and islands and single-launch programs are made for the devices
      that are left now.
   6. The training state must be on a device.
   7. Where 1 to 5 went back to the state of devices on standby, the steps since are retried.
   8. A round of local steps begins with the weights that are there now. */
typedef dpt_status settle_concern(dpt_trainer *trainer);
static settle_concern *const settles[] = {
    dpti_trainer_lose_hung, dpti_readmit_settle, dpti_feeding_settle, dpti_standby_settle,
    settle_devices,         dpti_state_check,    dpti_steps_catch_up, dpti_round_begin,
};

static dpt_status settle(dpt_trainer *t)
{
    DPT_TRY(dpti_membership_check(t));
    DPT_TRY(dpti_steps_check_room(t));
    dpti_readmit_poll(t); /* starts tries, and waits for none */
    if (dpti_steps_n_in_flight(t) > 0) return dpti_rounds_check_room(t);
    for (size_t i = 0; i < sizeof settles / sizeof *settles; i++)
        DPT_TRY(settles[i](t));
    return DPT_OK;
}

static dpt_status submit(dpt_trainer *t, float lr)
{
    DPT_TRY(settle(t));
    return dpti_submit_step(t, lr);
}

dpt_status dpt_trainer_submit(dpt_trainer *trainer)
{
    dpti_trainer_pipeline *p = &trainer->pipeline;
    DPT_TRY(dpti_trainer_outside_fit(trainer, "dpt_trainer_submit"));
    trainer->context->begun = true;
    if (p->unsubmitted.status != DPT_OK) {
        DPT_TRY(submit(trainer, p->unsubmitted_lr)); /* the step before this one */
        p->unsubmitted.status = DPT_OK;
    }
    return submit(trainer, trainer->lr);
}

void dpti_trainer_forget_unsubmitted(dpt_trainer *trainer)
{
    trainer->pipeline.unsubmitted.status = DPT_OK;
    dpti_batch_reader_note_reason(trainer, DPTI_BALANCE_SAME);
}

/* ---- Remedies before a retry ----------------------------------------------------------------- */

/* Why a step has to be retried. */
static dpti_balance_reason find_reason(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (dpti_trainer_lost_some(t, inflight)) return DPTI_BALANCE_LOST;
    return dpti_trainer_ran_out(t, inflight) ? DPTI_BALANCE_MEMORY : DPTI_BALANCE_SAME;
}

/* Replicas that differ, or have missed an update, are restored.  An island that has failed is not
   used for the next step. */
static dpt_status mend_replicas(dpt_trainer *t, const dpti_in_flight_step *oldest)
{
    if (dpti_trainer_update_ran_out(t, oldest)) return dpti_trainer_restore_short(t, oldest);
    return dpti_verify_failed(t, oldest) ? dpti_verify_settle(t, oldest) : DPT_OK;
}

/* What must change before the steps in flight, n from this one on, are submitted again. */
static dpt_status remedy(dpt_trainer *t, const dpti_in_flight_step *oldest, size_t n,
                         dpti_balance_reason reason)
{
    switch (reason) {
    case DPTI_BALANCE_LOST: return dpti_trainer_lose_in_flight(t, oldest->cursor.step, n);
    case DPTI_BALANCE_SAME: return mend_replicas(t, oldest);
    default: return dpti_trainer_bound_shards(t, oldest);
    }
}

/* The same, when nothing is in flight any more.  If a step behind the oldest is committed, too, a
   device alone has done both, and has failed in that later step.  If training goes on without the
   device both are lost with it, and the caller was not told of the later one: it counts as in
   flight still.  Otherwise it is done. */
static dpt_status remedy_drained(dpt_trainer *t, const dpti_in_flight_step *oldest, size_t n,
                                 dpti_balance_reason reason)
{
    const dpti_cursor drained = *dpti_steps_done(t);
    const bool counts_behind = drained.step > oldest->cursor.step + 1;
    if (counts_behind) dpti_steps_move_to(t, dpti_feeding_behind(t, oldest->cursor));
    const dpt_status status = remedy(t, oldest, n, reason);
    const bool stands = dpti_steps_done(t)->step == oldest->cursor.step + 1;
    if (status != DPT_OK && counts_behind && stands) dpti_steps_move_to(t, drained);
    return status;
}

/* ---- Retrying -------------------------------------------------------------------------------- */

/* The steps that were in flight when one of them had to be retried. */
typedef struct dropped_steps {
    size_t n, first; /* how many, of which the first ones are committed */
    float lr[DPTI_MAX_IN_FLIGHT];
} dropped_steps;

static dropped_steps note_dropped(dpt_trainer *t, const dpti_in_flight_step *oldest)
{
    dropped_steps dropped = {.n = dpti_steps_n_in_flight(t),
                             .first = dpti_steps_committed(t, oldest) ? 1 : 0};
    for (size_t i = 0; i < dropped.n; i++)
        dropped.lr[i] = dpti_steps_step(t, oldest->cursor.step + i + 1)->lr;
    return dropped;
}

/* After a failure of the first nothing is in flight.  A failure of a later one is told when those
   before it were collected. */
static dpt_status submit_again(dpt_trainer *t, const dropped_steps *dropped)
{
    dpti_trainer_pipeline *p = &t->pipeline;
    for (size_t i = dropped->first; i < dropped->n; i++) {
        const dpt_status status = submit(t, dropped->lr[i]);
        if (status == DPT_OK) continue;
        if (dpti_steps_n_in_flight(t) == 0) return status;
        p->unsubmitted = t->context->error;
        p->unsubmitted_lr = dropped->lr[i];
        break;
    }
    return DPT_OK;
}

/* Retries the oldest step in flight, in which devices ran out of memory or were lost, or before
   which replicas differed, with the steps that were in flight behind it.  If it is committed all
   the same, and devices have missed its update, only the steps behind are retried. */
static dpt_status retry(dpt_trainer *t, dpti_in_flight_step *oldest)
{
    const double submitted = oldest->submitted;
    const dpti_balance_reason reason = find_reason(t, oldest);
    const dropped_steps dropped = note_dropped(t, oldest);
    dpti_trainer_drain(t);
    DPT_TRY(remedy_drained(t, oldest, dropped.n, reason));
    DPT_TRY(dpti_steps_catch_up(t));
    DPT_TRY(submit_again(t, &dropped));
    dpti_in_flight_step *next = dpti_steps_step(t, dpti_steps_done(t)->step + 1);
    if (dpti_steps_n_in_flight(t) > 0 && reason != DPTI_BALANCE_SAME) next->reason = reason;
    /* What was lost is part of the step's time. */
    if (dropped.first == 0) oldest->submitted = submitted;
    return DPT_OK;
}

/* ---- Collecting ------------------------------------------------------------------------------ */

/* Whether nothing undid the step but the failure of an island, which over processes is a device's
   failure. */
static bool was_undone(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (t->processes) return false;
    for (size_t i = 0; i < t->n_workers; i++)
        if (inflight->jobs[i].committed ||
            (inflight->jobs[i].status != DPT_OK && inflight->jobs[i].status != DPT_E_CANCELLED))
            return false;
    return dpti_islands_failed(t);
}

/* Whether a step has to be retried, and can be. */
static bool must_retry(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (dpti_trainer_lost_some(t, inflight) || dpti_trainer_update_ran_out(t, inflight))
        return !t->stop_on_loss;
    return dpti_trainer_ran_out(t, inflight) || dpti_verify_failed(t, inflight) ||
           was_undone(t, inflight);
}

/* A step failed: nothing is in flight any more. */
static dpt_status give_up(dpt_trainer *t, const dpti_in_flight_step *inflight, dpt_status status)
{
    dpti_trainer_drain(t);
    t->pipeline.unsubmitted.status = DPT_OK;
    /* No replica can be restored from another process.  In a round of local steps other processes
       may have taken the step. */
    const bool same = status == DPT_E_NOT_FINITE || dpti_peers_could_not_read(t, inflight);
    if (t->processes && (t->local_steps > 0 || !same)) dpti_state_give_up(t);
    dpti_rounds_close(t);
    return status;
}

static dpt_status collect(dpt_trainer *t, dpt_step_metrics *out)
{
    dpti_in_flight_step *inflight =
        dpti_steps_step(t, dpti_steps_next(t)->step - dpti_steps_n_in_flight(t) + 1);
    bool counted = false; /* it is done, and what is in flight was behind it */
    dpti_steps_wait_for(t, inflight);
    dpti_peers_finish_collected(t, inflight);
    while (!counted && must_retry(t, inflight)) {
        DPT_TRY(retry(t, inflight));
        counted = dpti_steps_done(t)->step > inflight->cursor.step;
        if (!counted) dpti_steps_wait_for(t, inflight);
    }
    const dpt_status status = counted ? DPT_OK : dpti_report_step(t, inflight);
    if (status != DPT_OK) return give_up(t, inflight, status);
    if (!counted) {
        dpti_steps_set_done(t, dpti_feeding_behind(t, inflight->cursor));
        dpti_steps_set_in_flight(t, dpti_steps_n_in_flight(t) - 1);
    }
    dpti_trainer_note_held(t, inflight);
    dpti_measure_step(t, inflight, out);
    return dpti_round_note(t, inflight, out);
}

dpt_status dpt_trainer_collect(dpt_trainer *trainer, dpt_step_metrics *out)
{
    dpti_trainer_pipeline *p = &trainer->pipeline;
    dpt_step_metrics metrics;
    DPT_TRY(dpti_trainer_given(trainer, "dpt_trainer_collect", "out", out));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_step_metrics", out));
    DPT_TRY(dpti_trainer_outside_fit(trainer, "dpt_trainer_collect"));
    if (dpti_steps_n_in_flight(trainer) > 0) {
        DPT_TRY(collect(trainer, &metrics));
        (void)dpti_give_sized(&metrics, sizeof metrics, out);
        return DPT_OK;
    }
    if (p->unsubmitted.status == DPT_OK)
        return dpt_fail(trainer->context, DPT_E_STATE, "no step is in flight: submit one first");
    const dpt_error error = p->unsubmitted;
    p->unsubmitted.status = DPT_OK;
    return dpti_context_fail(trainer->context, NULL, &error);
}

dpt_status dpt_trainer_step(dpt_trainer *trainer, dpt_step_metrics *out)
{
    DPT_TRY(dpti_trainer_given(trainer, "dpt_trainer_step", "out", out));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_step_metrics", out));
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_step"));
    DPT_TRY(dpt_trainer_submit(trainer));
    return dpt_trainer_collect(trainer, out);
}

/* ---- Going back ------------------------------------------------------------------------------ */

static dpt_status retry_missed(dpt_trainer *t)
{
    dpt_step_metrics told = {.size = sizeof told};
    DPT_TRY(dpti_standby_tell_retried(t, NULL));
    while (dpti_steps_done(t)->step < dpti_standby_retries(t).until) {
        DPT_TRY(submit(t, dpti_standby_lr_of(t, dpti_steps_done(t)->step)));
        DPT_TRY(collect(t, &told));
        DPT_TRY(dpti_standby_tell_retried(t, &told));
    }
    return DPT_OK;
}

/* The time that these steps take is part of the step that waits for them. */
dpt_status dpti_steps_catch_up(dpt_trainer *trainer)
{
    const dpti_retries due = dpti_standby_retries(trainer);
    const double last_finished = dpti_steps_last_finished(trainer);
    if (due.under_way || dpti_steps_done(trainer)->step >= due.until) return DPT_OK;
    dpti_standby_begin_retries(trainer);
    const dpt_status status = retry_missed(trainer);
    dpti_standby_end_retries(trainer, status);
    dpti_steps_set_last_finished(trainer, last_finished);
    return status;
}
