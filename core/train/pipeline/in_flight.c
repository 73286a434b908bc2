/* Steps in flight: submitting, collecting, and dropping what follows a failure. */
#include "context/context.h"
#include "device/driver.h"
#include "train/trainer.h"

#include "base/clock.h"
#include "base/floats.h"
#include "dpt_error.h"

#include <math.h>
#include <string.h>

/* ---- Submitting ------------------------------------------------------------------------------ */

void dpti_stage(uint8_t *staging, const dpt_step_block *block, const uint32_t *records,
                size_t n_samples)
{
    memset(staging, 0, DPTI_STEP_INDEX_OFFSET);
    memcpy(staging, block, sizeof *block);
    if (n_samples > 0)
        memcpy(staging + DPTI_STEP_INDEX_OFFSET, records, n_samples * sizeof *records);
}

/* Adam's corrections of moments that began at zero, in double precision. */
static void set_adam_scales(const dpt_trainer *t, size_t step, dpt_step_block *block)
{
    const dpti_optimizer *o = &t->program.optimizer;
    const size_t updates = step - t->optimizer_origin;
    if (o->kind != DPT_OPTIMIZER_ADAMW) return;
    block->adam_scale_m = (float)(1.0 / (1.0 - dpti_power((double)o->beta1, updates)));
    block->adam_scale_v = (float)(1.0 / sqrt(1.0 - dpti_power((double)o->beta2, updates)));
}

/* That of a device that takes no part. */
static void clear_share(dpti_share *share)
{
    share->status = DPT_E_CANCELLED;
    share->committed = share->under_way = share->fresh = false;
    share->diverged = false;
    share->n_samples = 0;
    share->loss = 0;
    share->hits = 0;
    dpti_times_begin(&share->times, false);
}

static void find_contributing(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    for (size_t p = 0; t->processes && p < dpti_processes_count(t->processes); p++) {
        inflight->contributing[p] = false;
        for (size_t i = t->firsts[p]; i < t->firsts[p + 1]; i++)
            if (inflight->shards[i] > 0) inflight->contributing[p] = true;
    }
}

/* Where the indices of a share stand. */
static uint32_t *indices_of(const dpti_share *share)
{
    return (uint32_t *)(void *)(share->staging + DPTI_STEP_INDEX_OFFSET);
}

/* Deals out batch b, whose records these are: a run of consecutive samples to each device. */
static void deal_batch(dpt_trainer *t, dpti_in_flight_step *inflight, size_t b,
                       const uint32_t *records)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    dpti_trainer_batch_rows(t, inflight->shards, inflight->n_samples, b, rows);
    for (size_t i = 0; i < t->first_device; i++)
        records += rows[i];
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_share *share = &inflight->shares[i];
        const size_t n = rows[t->first_device + i];
        if (dpti_sits_out(&t->workers[i])) continue;
        if (n > 0) memcpy(indices_of(share) + share->n_samples, records, n * sizeof *records);
        share->of_batch[b] = n;
        share->n_samples += n;
        share->n_batches = b + 1;
        records += n;
    }
}

/* Samples for devices that do not hold the data.  A step without images is computed by no device of
   this process: the memory that they would read may never have been written. */
static void gather(dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const dpti_records_at from = {.data = t->data,
                                  .ahead = t->reader.ahead,
                                  .key = dpti_batch_reader_key(t, &inflight->cursor)};
    const bool unread = inflight->unread.status != DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_share *share = &inflight->shares[i];
        if (dpti_sits_out(&t->workers[i])) continue;
        share->unread = unread ? &inflight->unread : NULL;
        if (t->workers[i].feed.device && !unread)
            dpti_feed_gather(&t->workers[i].feed, &from, share->slot, indices_of(share),
                             share->n_samples);
    }
}

static void fill_flight(dpt_trainer *t, dpti_in_flight_step *inflight, const uint32_t *records)
{
    size_t first = 0;
    for (size_t i = 0; i < t->first_device; i++)
        first += inflight->shards[i];
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_share *share = &inflight->shares[i];
        share->committed = share->under_way = false; /* should its job never run */
        dpt_step_block block = {
            .lr = inflight->lr,
            .inv_batch = 1.0f / (float)inflight->n_samples,
            .step = (uint32_t)(inflight->cursor.step + 1),
            .epoch = (uint32_t)inflight->cursor.epoch,
            .seed_low = (uint32_t)t->seed,
            .seed_high = (uint32_t)(t->seed >> 32),
            .first = (uint32_t)first,
        };
        set_adam_scales(t, inflight->cursor.step + 1, &block);
        share->step = inflight->cursor.step + 1;
        share->lr = inflight->lr;
        if (dpti_sits_out(&t->workers[i])) {
            clear_share(share);
            continue;
        }
        share->n_samples = 0;
        share->slot = inflight->cursor.step % DPTI_FEED_SLOTS;
        dpti_stage(share->staging, &block, NULL, 0);
        first += inflight->shards[t->first_device + i];
    }
    for (size_t b = 0; b < dpti_trainer_n_batches(t, inflight->n_samples); b++)
        deal_batch(t, inflight, b, records + b * t->batch_size);
    gather(t, inflight);
}

static dpt_status submit(dpt_trainer *t, float lr);
static dpt_status collect(dpt_trainer *t, dpt_step_metrics *out);

static dpt_status tell_redone(dpt_trainer *t, const dpt_step_metrics *step)
{
    dpti_standby *r = &t->standby;
    const dpt_status status = r->listen ? r->listen(r->listener, step) : DPT_OK;
    if (status != DPT_OK) r->retry_to = 0;
    return status;
}

static dpt_status retry(dpt_trainer *t)
{
    const dpti_standby *r = &t->standby;
    dpt_step_metrics told;
    DPT_TRY(tell_redone(t, NULL));
    while (t->done.step < r->retry_to) {
        DPT_TRY(submit(t, r->lr[t->done.step - r->first]));
        DPT_TRY(collect(t, &told));
        DPT_TRY(tell_redone(t, &told));
    }
    return DPT_OK;
}

/* What the steps take is part of the one that waits for them. */
dpt_status dpti_trainer_catch_up(dpt_trainer *trainer)
{
    dpti_standby *r = &trainer->standby;
    const double last_finished = trainer->last_finished;
    if (r->retries || trainer->done.step >= r->retry_to) return DPT_OK;
    r->retries = true;
    const dpt_status status = retry(trainer);
    r->retries = false;
    r->has_retried = true;
    if (status == DPT_OK) r->retry_to = 0;
    trainer->last_finished = last_finished;
    return status;
}

/* Those that take part: once more where one hangs at it, or is lost. */
static dpt_status prepare(dpt_trainer *t)
{
    dpt_status status;
    do {
        DPT_TRY(dpti_trainer_lose_hung(t));
        DPT_TRY(dpti_trainer_restore(t)); /* whom that has woken, too */
        dpti_islands_form(t);
        status = t->islands.due ? DPT_E_CANCELLED : dpti_single_launch_settle(t);
    } while (status == DPT_E_CANCELLED);
    return status;
}

static void set_in_flight(dpt_trainer *t, size_t n)
{
    dpti_dataset_note_reading(t->data, n, t->n_in_flight);
    t->n_in_flight = n;
}

/* Other processes are in the step already, and would wait for this one. */
static dpt_status publish_data(dpt_trainer *t)
{
    const dpt_status status = dpti_trainer_publish_data(t, &t->store);
    if (status != DPT_OK && t->processes) dpti_processes_give_up(t->processes);
    return status;
}

/* An error of this program: a state changed in a way that membership.h does not have. */
static dpt_status check_membership(const dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_membership_refused(&t->workers[i].member))
            return dpt_fail(t->context, DPT_E_INTERNAL, "device %s changed its state illegally",
                            t->workers[i].device->id);
    return DPT_OK;
}

static dpt_status ready(dpt_trainer *t)
{
    DPT_TRY(check_membership(t));
    if (t->n_in_flight == DPTI_MAX_IN_FLIGHT)
        return dpt_fail(t->context, DPT_E_STATE, "%d steps are in flight: collect one first",
                        DPTI_MAX_IN_FLIGHT);
    dpti_readmit_poll(t);
    if (t->n_in_flight > 0) return DPT_OK;
    DPT_TRY(dpti_trainer_lose_hung(t)); /* while something was read or written */
    DPT_TRY(dpti_readmit_admit(t));
    DPT_TRY(publish_data(t));
    DPT_TRY(dpti_standby_settle(t));
    DPT_TRY(prepare(t));
    if (t->lost)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights any more: load a checkpoint");
    return dpti_trainer_catch_up(t);
}

/* Whether devices may be busy with what waits for others' work, or makes it wait: in a step's first
   run, or opening one that was lost. */
static bool may_wait(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const bool settled = dpti_settled_step(&t->settled, inflight->shards);
    return !settled || dpti_readmit_tries(t);
}

static dpt_status submit(dpt_trainer *t, float lr)
{
    DPT_TRY(ready(t));
    dpti_in_flight_step *inflight = &t->slots[t->next.step % DPTI_STEP_SLOTS];
    inflight->cursor = t->next;
    DPT_TRY(dpti_peers_begin_step(t, inflight));
    const uint32_t *records = dpti_order_batch(&t->order, &t->next, &inflight->n_samples);
    DPT_TRY(dpti_trainer_divide(t, inflight));
    if (inflight->reason == DPTI_BALANCE_SAME) inflight->reason = t->reader.reason;
    if (t->next.step + 1 == t->returned_step) inflight->reason = DPTI_BALANCE_RETURNED;
    if (t->next.step + 1 == t->standby.changed_step) inflight->reason = t->standby.reason;
    inflight->lr = lr;
    inflight->submitted = dpti_seconds();
    t->reader.reason = inflight->reason; /* should it be tried again */
    DPT_TRY(dpti_batch_reader_step(t, inflight, records));
    t->reader.reason = DPTI_BALANCE_SAME;
    DPT_TRY(dpti_standby_note(t, inflight));
    t->next = dpti_order_next(&t->order, t->next);
    inflight->last_of_epoch = t->next.epoch != inflight->cursor.epoch;
    find_contributing(t, inflight);
    fill_flight(t, inflight, records);
    inflight->failure.status = DPT_OK;
    inflight->diverged = false;
    for (size_t i = 0; i < t->n_devices; i++)
        inflight->outcomes[i] = (dpti_outcome){.status = DPT_E_CANCELLED};
    const bool late = may_wait(t, inflight);
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_share *share = &inflight->shares[i];
        if (dpti_sits_out(&t->workers[i])) continue;
        share->late = late;
        t->workers[i].last_step = inflight->cursor.step + 1;
        share->ticket = dpti_driver_post(t->workers[i].device, dpti_step_job, share);
    }
    set_in_flight(t, t->n_in_flight + 1);
    return DPT_OK;
}

dpt_status dpt_trainer_submit(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_trainer_outside_fit(t, "dpt_trainer_submit"));
    if (t->unsubmitted.status != DPT_OK) {
        DPT_TRY(submit(t, t->unsubmitted_lr)); /* which comes before this one */
        t->unsubmitted.status = DPT_OK;
    }
    return submit(t, t->lr);
}

/* ---- Collecting ------------------------------------------------------------------------------ */

/* Until it is known what came of a share.  false: the device hangs. */
static bool await_share(dpt_trainer *t, size_t rank, dpti_share *share)
{
    if (!dpti_trainer_await(t, rank, share->ticket)) return false;
    if (!share->under_way) return true;
    share->ticket = dpti_driver_post(t->workers[rank].device, dpti_single_launch_finish, share);
    return dpti_trainer_await(t, rank, share->ticket);
}

static void wait_for(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpti_share *share = &inflight->shares[i];
        if (dpti_sits_out(w) || await_share(t, i, share)) continue;
        share->status = DPT_E_DEVICE_LOST;
        share->error = w->hung_error;
        if (share->committed || share->under_way)
            dpti_membership_replica(&w->member, DPTI_REPLICA_MISS);
        share->under_way = false;
    }
}

/* Whether the step counts: the vote is everybody's, but a device that did not answer may not have
   heard of it. */
static bool committed(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (inflight->shares[i].committed) return true;
    return false;
}

void dpti_trainer_drain(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t step = t->next.step - t->n_in_flight; step < t->next.step; step++) {
        const dpti_in_flight_step *inflight = &t->slots[step % DPTI_STEP_SLOTS];
        wait_for(t, inflight);
        if (committed(t, inflight)) t->done = dpti_order_next(&t->order, inflight->cursor);
    }
    t->next = t->done;
    set_in_flight(t, 0);
    dpti_settled_forget(&t->settled); /* what failed has not been through it */
    dpti_trainer_mend(t);
    if (t->allreduce) dpti_allreduce_reset(t->allreduce);
    for (size_t i = 0; t->workers && i < t->n_workers; i++)
        t->workers[i].halted = false;
}

/* The first failure in device order that is a device's own and more than lack of memory, or none.
 */
static dpt_status report(dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const dpti_share *found = NULL;
    if (t->processes) return dpti_peers_report(t, inflight);
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_share *share = &inflight->shares[i];
        if (share->status == DPT_OK || share->status == DPT_E_CANCELLED) continue;
        if (!found || (found->status == DPT_E_NO_MEMORY && share->status != DPT_E_NO_MEMORY))
            found = share;
    }
    if (found && found->status == DPT_E_NOT_FINITE)
        return dpti_trainer_fail_not_finite(t, inflight);
    if (found) return dpti_trainer_fail(t, found->worker->device, &found->error);
    if (committed(t, inflight)) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INTERNAL, "no device has done step %zu, and none says why",
                    inflight->cursor.step + 1);
}

/* Why a step has to be done again. */
static dpti_balance_reason find_reason(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (dpti_trainer_lost_some(t, inflight)) return DPTI_BALANCE_LOST;
    return dpti_trainer_ran_out(t, inflight) ? DPTI_BALANCE_MEMORY : DPTI_BALANCE_SAME;
}

/* Replicas that differ, or have missed an update, are restored.  An island that has failed is not
   used for the next step. */
static dpt_status settle(dpt_trainer *t, const dpti_in_flight_step *oldest)
{
    if (dpti_trainer_starved(t, oldest)) return dpti_trainer_feed_starved(t, oldest);
    return dpti_verify_failed(t, oldest) ? dpti_verify_settle(t, oldest) : DPT_OK;
}

/* What must be otherwise before the steps in flight, n from this one on, are done again. */
static dpt_status remedy(dpt_trainer *t, const dpti_in_flight_step *oldest, size_t n,
                         dpti_balance_reason reason)
{
    switch (reason) {
    case DPTI_BALANCE_LOST: return dpti_trainer_lose_in_flight(t, oldest->cursor.step, n);
    case DPTI_BALANCE_SAME: return settle(t, oldest);
    default: return dpti_trainer_bound_shares(t, oldest);
    }
}

/* Likewise, when nothing is in flight any more.  A step behind the oldest that counts too was done
   by a device alone, which has failed in that one: if training goes on without it both are lost
   with it, and the one behind was not told yet.  It is in flight still, and else it is done. */
static dpt_status remedy_drained(dpt_trainer *t, const dpti_in_flight_step *oldest, size_t n,
                                 dpti_balance_reason reason)
{
    const dpti_cursor drained = t->done;
    const bool counts_behind = drained.step > oldest->cursor.step + 1;
    if (counts_behind) t->done = t->next = dpti_order_next(&t->order, oldest->cursor);
    const dpt_status status = remedy(t, oldest, n, reason);
    const bool stands = t->done.step == oldest->cursor.step + 1;
    if (status != DPT_OK && counts_behind && stands) t->done = t->next = drained;
    return status;
}

/* Does the oldest step in flight again, in which devices ran out of memory or were lost, or before
   which replicas differed, with what was in flight behind it.  If it counts all the same, and
   devices have missed its update, only that is.  After a failure nothing is in flight; where the
   step behind could not be submitted again alone, that is told when this one has been. */
static dpt_status repeat(dpt_trainer *t, dpti_in_flight_step *oldest)
{
    const size_t n = t->n_in_flight;
    const double submitted = oldest->submitted;
    const dpti_balance_reason reason = find_reason(t, oldest);
    const bool counts = committed(t, oldest);
    float lr[DPTI_MAX_IN_FLIGHT];
    for (size_t i = 0; i < n; i++)
        lr[i] = t->slots[(oldest->cursor.step + i) % DPTI_STEP_SLOTS].lr;
    dpti_trainer_drain(t);
    DPT_TRY(remedy_drained(t, oldest, n, reason));
    DPT_TRY(dpti_trainer_catch_up(t));
    for (size_t i = counts ? 1 : 0; i < n; i++) {
        const dpt_status status = submit(t, lr[i]);
        if (status == DPT_OK) continue;
        if (t->n_in_flight == 0) return status;
        t->unsubmitted = t->context->error; /* told when those before it were */
        t->unsubmitted_lr = lr[i];
        break;
    }
    dpti_in_flight_step *next = &t->slots[t->done.step % DPTI_STEP_SLOTS];
    if (t->n_in_flight > 0 && reason != DPTI_BALANCE_SAME) next->reason = reason;
    if (!counts) oldest->submitted = submitted; /* what was lost is part of the step's time */
    return DPT_OK;
}

static void take_times(const double *s, dpti_in_flight_step *inflight, size_t device)
{
    const double exchange = s[DPTI_SPAN_UPLOAD] + s[DPTI_SPAN_EXCHANGE];
    inflight->device_seconds[device] = s[DPTI_SPAN_COMPUTE] + exchange;
    inflight->exchange_seconds[device] = exchange;
    inflight->waiting_seconds[device] = s[DPTI_SPAN_WAITING];
}

/* Of any process: the others wait for its devices. */
static double longest_reading(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    double longest = 0;
    for (size_t i = 0; i < t->n_devices; i++)
        longest = fmax(longest, inflight->outcomes[i].data_seconds);
    return longest;
}

static void measure(dpt_trainer *t, dpti_in_flight_step *inflight, dpt_step_metrics *out)
{
    double loss = 0, finished = 0;
    size_t hits = 0;
    dpti_peers_take(t, inflight);
    t->agreed_requests = 0;
    for (size_t i = 0; i < t->n_devices; i++) {
        const dpti_outcome *outcome = &inflight->outcomes[i];
        loss += outcome->loss;
        hits += outcome->hits;
        if (outcome->requests & ~t->agreed_requests & DPTI_RUN_REQUEST_STOP)
            t->stopped_by = t->peers[i].process;
        t->agreed_requests |= outcome->requests;
        take_times(outcome->seconds, inflight, i);
    }
    for (size_t i = 0; i < t->n_workers; i++)
        finished = fmax(finished, inflight->shares[i].finished);
    const double began = fmax(inflight->submitted, t->last_finished);
    const double starved =
        fmax(fmin(inflight->submitted + longest_reading(t, inflight) - began, finished - began), 0);
    t->last_finished = finished;
    if (!t->standby.retries && !t->standby.has_retried)
        t->longest_step = fmax(t->longest_step, finished - began - starved);
    t->standby.has_retried = t->standby.has_retried && t->standby.retries;
    *out = (dpt_step_metrics){
        .step = inflight->cursor.step + 1,
        .epoch = inflight->cursor.epoch,
        .last_of_epoch = inflight->last_of_epoch,
        .lr = (double)inflight->lr,
        .samples = inflight->n_samples,
        .loss = loss / (double)inflight->n_samples,
        .hits = hits,
        .seconds = fmax(finished - began, 0),
        .data_seconds = starved,
        .n_devices = t->n_devices,
        .shards = inflight->shards,
        .device_seconds = inflight->device_seconds,
        .exchange_seconds = inflight->exchange_seconds,
        .waiting_seconds = inflight->waiting_seconds,
        .rebalance = inflight->reason != DPTI_BALANCE_SAME
                         ? dpti_balance_reason_words(inflight->reason)
                         : NULL,
        .throughput = inflight->throughput,
        .n_lost = dpti_trainer_n_lost(t),
    };
    if (!t->standby.retries) dpti_trainer_observe(t, inflight, out->seconds - starved);
}

/* Whether nobody's failure undid the step but that of an island, which over processes is a
   device's. */
static bool was_undone(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (t->processes) return false;
    for (size_t i = 0; i < t->n_workers; i++)
        if (inflight->shares[i].committed ||
            (inflight->shares[i].status != DPT_OK && inflight->shares[i].status != DPT_E_CANCELLED))
            return false;
    return dpti_islands_failed(t);
}

/* Whether a step has to be done again, and can be. */
static bool must_repeat(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (dpti_trainer_lost_some(t, inflight) || dpti_trainer_starved(t, inflight))
        return !t->stop_on_loss;
    return dpti_trainer_ran_out(t, inflight) || dpti_verify_failed(t, inflight) ||
           was_undone(t, inflight);
}

static dpt_status collect(dpt_trainer *t, dpt_step_metrics *out)
{
    dpti_in_flight_step *inflight = &t->slots[(t->next.step - t->n_in_flight) % DPTI_STEP_SLOTS];
    bool counted = false; /* and what is in flight is what was behind it */
    wait_for(t, inflight);
    while (!counted && must_repeat(t, inflight)) {
        DPT_TRY(repeat(t, inflight));
        counted = t->done.step > inflight->cursor.step;
        if (!counted) wait_for(t, inflight);
    }
    const dpt_status status = counted ? DPT_OK : report(t, inflight);
    if (status != DPT_OK) {
        dpti_trainer_drain(t);
        t->unsubmitted.status = DPT_OK;
        /* Nobody could repair a replica in another process. */
        if (t->processes && status != DPT_E_NOT_FINITE && !dpti_peers_could_not_read(t, inflight))
            t->lost = true;
        return status;
    }
    if (!counted) {
        t->done = dpti_order_next(&t->order, inflight->cursor);
        set_in_flight(t, t->n_in_flight - 1);
    }
    dpti_trainer_note_held(t, inflight);
    measure(t, inflight, out);
    return DPT_OK;
}

dpt_status dpt_trainer_collect(dpt_trainer *trainer, dpt_step_metrics *out)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_trainer_given(t, "dpt_trainer_collect", "out", out));
    DPT_TRY(dpti_trainer_outside_fit(t, "dpt_trainer_collect"));
    if (t->n_in_flight > 0) return collect(t, out);
    if (t->unsubmitted.status == DPT_OK)
        return dpt_fail(t->context, DPT_E_STATE, "no step is in flight: submit one first");
    const dpt_error error = t->unsubmitted;
    t->unsubmitted.status = DPT_OK;
    return dpti_context_fail(t->context, NULL, &error);
}

dpt_status dpt_trainer_step(dpt_trainer *trainer, dpt_step_metrics *out)
{
    DPT_TRY(dpti_trainer_given(trainer, "dpt_trainer_step", "out", out));
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_step"));
    DPT_TRY(dpt_trainer_submit(trainer));
    return dpt_trainer_collect(trainer, out);
}
