/* Which devices are on standby, and what becomes of their replicas (standby.h). */
#include "train/standby/standby.h"

#include "train/components/membership.h"
#include "train/exchange/exchange.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/membership/rendezvous.h"
#include "train/plan/shards.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_REFRESH = 64 }; /* steps between refreshes */

/* The part of all time that refreshing may cost; the same where retrying steps would take the
   devices on standby long_redo seconds; that time; the weight of a new time of exchanges. */
static const double refresh_cost = 0.005, dear_refresh_cost = 0.05, long_redo = 10.0, newest = 0.2;

dpt_status dpti_standby_create(dpt_trainer *trainer, bool allowed)
{
    dpti_standby *r = &trainer->standby;
    r->policy = dpti_standby_policy_new();
    /* Samples of steps that would be retried must not change. */
    r->allowed = allowed && trainer->measured && !trainer->processes && !trainer->stop_on_loss &&
                 !dpti_dataset_whole(trainer->data)->writable;
    r->chosen = calloc(trainer->n_workers, sizeof *r->chosen);
    r->exchange = calloc(trainer->n_workers, sizeof *r->exchange);
    r->shards = calloc(trainer->n_devices, sizeof *r->shards);
    return r->chosen && r->exchange && r->shards ? DPT_OK : DPT_E_NO_MEMORY;
}

void dpti_standby_destroy(dpt_trainer *trainer)
{
    dpti_standby *r = &trainer->standby;
    free(r->lr);
    free(r->shards);
    free(r->exchange);
    free(r->chosen);
    *r = (dpti_standby){.allowed = false};
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* The seconds that a step of the devices not in `absent` promises.  A device that is left alone
   exchanges with no other.  The balance knows the mean batch of a step. */
static double promise_without(const dpt_trainer *t, const bool *absent)
{
    double exchange[DPTI_BALANCE_MAX_DEVICES];
    const double n = (double)t->accumulate;
    for (size_t i = 0; i < t->n_workers; i++)
        exchange[i] = t->standby.exchange[i] / n;
    return n * dpti_balance_without(dpti_shards_balance(t), absent, exchange);
}

/* The devices that train now, in the order of their speed with a whole batch.  Returns how many. */
static size_t sort_by_speed(const dpt_trainer *t, size_t *order)
{
    double seconds[DPTI_BALANCE_MAX_DEVICES];
    bool absent[DPTI_BALANCE_MAX_DEVICES];
    size_t n = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        absent[i] = true;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_sits_out(&t->workers[i])) continue;
        absent[i] = false;
        seconds[i] = promise_without(t, absent);
        absent[i] = true;
        size_t k = n++;
        for (; k > 0 && seconds[order[k - 1]] > seconds[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return n;
}

/* Writes to `chosen` the devices without which steps promise to be fastest: some number of the
   slowest.  None is a member of an island, which would have to be formed anew.  Together they hold
   a batch, so that they can go on alone.  INFINITY: no devices. */
static double choose(dpt_trainer *t)
{
    bool absent[DPTI_BALANCE_MAX_DEVICES];
    size_t order[DPTI_BALANCE_MAX_DEVICES], held = 0;
    double best = INFINITY;
    const size_t n = sort_by_speed(t, order);
    for (size_t i = 0; i < t->n_workers; i++)
        absent[i] = dpti_sits_out(&t->workers[i]);
    for (size_t k = n; k-- > 1 && !dpti_in_island(&t->workers[order[k]]);) {
        absent[order[k]] = true;
        held += dpti_balance_excluded(dpti_shards_balance(t), order[k]);
        const double promise = promise_without(t, absent);
        if (held < t->batch_size || !(promise < best)) continue;
        best = promise;
        memcpy(t->standby.chosen, absent, t->n_workers * sizeof *absent);
    }
    return best;
}

/* The same, when all devices have been measured again.  Returns whether other devices are chosen
   than before; if none are, those before stay chosen. */
static bool choose_others(dpt_trainer *t)
{
    bool before[DPTI_BALANCE_MAX_DEVICES];
    const size_t n_bytes = t->n_workers * sizeof *before;
    memcpy(before, t->standby.chosen, n_bytes);
    return !isinf(choose(t)) && memcmp(before, t->standby.chosen, n_bytes) != 0;
}

/* A device that is alone has no exchanges, and its times with others are still known. */
static void note_exchanges(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    if (dpti_trainer_n_present(t) < 2) return;
    for (size_t i = 0; i < t->n_workers; i++) {
        const double seconds = inflight->outcomes[i].seconds[DPTI_SPAN_EXCHANGE];
        double *known = &t->standby.exchange[i];
        if (dpti_sits_out(&t->workers[i])) continue;
        *known = *known > 0 ? *known + newest * (seconds - *known) : seconds;
    }
}

/* Whether the step has the shards of the step before, and no device had a first run. */
static bool is_steady(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const size_t n_bytes = t->n_devices * sizeof *inflight->shards;
    bool steady = memcmp(t->standby.shards, inflight->shards, n_bytes) == 0;
    memcpy(t->standby.shards, inflight->shards, n_bytes);
    for (size_t i = 0; i < t->n_devices; i++)
        steady = steady && !inflight->outcomes[i].first_run;
    return steady;
}

/* Tells the caller by events, when a standby trial was a gain, or is over for devices of which it
   was told. */
static void tell(dpt_trainer *t)
{
    const dpti_standby_policy *r = &t->standby.policy;
    dpt_error told = {.status = DPT_OK};
    if (r->state != DPTI_STANDBY_LASTS && r->state != DPTI_STANDBY_NONE) return;
    snprintf(told.message, sizeof told.message, "steps take %.3g ms with it, %.3g ms without",
             1e3 * r->learnt.with.seconds, 1e3 * r->learnt.without.seconds);
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        const bool on_standby =
            r->state == DPTI_STANDBY_LASTS && t->standby.chosen[i] && !dpti_is_lost(w);
        if (on_standby == w->standby.reported) continue;
        w->standby.reported = on_standby;
        if (dpti_is_lost(w)) continue;
        dpti_trainer_note_event(t, on_standby ? DPT_DEVICE_STANDBY : DPT_DEVICE_PRESENT,
                                t->first_device + i, &told);
    }
}

void dpti_standby_observe(dpt_trainer *trainer, const dpti_in_flight_step *inflight, double seconds)
{
    dpt_trainer *t = trainer;
    dpti_standby *r = &t->standby;
    if (!r->allowed || !dpti_shards_balance(t) || r->retries) return;
    if (inflight->n_samples != dpti_step_samples(t)) return;
    note_exchanges(t, inflight);
    dpti_standby_policy_observe(&r->policy, seconds, is_steady(t, inflight));
    if (r->changes || !dpti_standby_policy_is_due(&r->policy)) return;
    const dpti_standby_phase before = r->policy.state;
    const double promise = before == DPTI_STANDBY_NONE ? choose(t) : INFINITY;
    r->changes = dpti_standby_policy_decide(&r->policy, promise, r->refresh_seconds);
    tell(t);
    if (r->changes && before == DPTI_STANDBY_TRY_ALL && !r->policy.confirms)
        r->others = choose_others(t);
}

/* ---- Putting on standby, and waking ---------------------------------------------------------- */

static void put_on_standby(dpt_trainer *t, dpti_worker *w)
{
    if (dpti_is_lost(w) || dpti_is_standby(w) || dpti_in_island(w)) return;
    if (!dpti_balance_exclude(dpti_shards_balance(t), w->rank)) return;
    dpti_trainer_set_present(t, w->rank, false);
    dpti_change_device(w, DPTI_DEVICE_TO_STANDBY);
    t->standby.n++;
}

static void make_present(dpt_trainer *t, dpti_worker *w)
{
    if (!dpti_is_standby(w)) return;
    dpti_change_device(w, DPTI_DEVICE_TO_PRESENT);
    t->standby.n--;
    dpti_trainer_set_present(t, w->rank, true);
    dpti_balance_readd(dpti_shards_balance(t), w->rank);
}

static void make_all_present(dpt_trainer *t)
{
    for (size_t i = 0; t->standby.n > 0 && i < t->n_workers; i++)
        make_present(t, &t->workers[i]);
}

/* The seconds of a step of the chosen devices alone, as modelled. */
static double find_retry_seconds(const dpt_trainer *t)
{
    bool absent[DPTI_BALANCE_MAX_DEVICES];
    for (size_t i = 0; i < t->n_workers; i++)
        absent[i] = dpti_is_lost(&t->workers[i]) || !t->standby.chosen[i];
    return promise_without(t, absent);
}

void dpti_standby_change(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_standby *r = &t->standby;
    const bool on_standby = r->n == 0;
    if (on_standby) r->retry_seconds = find_retry_seconds(t);
    if (!on_standby) make_all_present(t);
    for (size_t i = 0; on_standby && i < t->n_workers; i++)
        if (r->chosen[i]) put_on_standby(t, &t->workers[i]);
    dpti_exchange_unsettle(t);
    const bool none = on_standby && r->n == 0; /* no chosen device can be put on standby */
    if (none)
        dpti_standby_policy_forget(&r->policy);
    else
        dpti_standby_policy_change(&r->policy, r->others);
    r->changes = r->others = false;
    tell(t);
    if (none) return;
    r->reason = on_standby ? DPTI_BALANCE_STANDBY : DPTI_BALANCE_PRESENT;
    r->changed_step = dpti_steps_done(t)->step + 1;
}

void dpti_standby_end(dpt_trainer *trainer)
{
    dpti_standby *r = &trainer->standby;
    make_all_present(trainer);
    r->changes = r->others = false;
    r->policy.state = DPTI_STANDBY_NONE;
    tell(trainer);
    dpti_standby_policy_forget(&r->policy);
}

void dpti_standby_leave(dpt_trainer *trainer, size_t rank)
{
    if (dpti_is_standby(&trainer->workers[rank])) trainer->standby.n--;
}

/* ---- From one process to the next ------------------------------------------------------------ */

/* Whether devices are put on standby for good before the next step: a standby trial has confirmed
   it, or an earlier process. */
static bool is_decided(const dpti_standby *r)
{
    return r->changes && r->n == 0 && r->policy.state == DPTI_STANDBY_TRY_ALL && r->policy.confirms;
}

bool dpti_standby_export(const dpt_trainer *trainer, bool *on_standby, double *exchange,
                         dpti_standby_record *out)
{
    const dpt_trainer *t = trainer;
    const bool decided = is_decided(&t->standby);
    if (!t->standby.allowed) return false;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        on_standby[i] =
            (w->standby.reported || (decided && t->standby.chosen[i])) && !dpti_is_lost(w);
        exchange[i] = t->standby.exchange[i];
    }
    *out = dpti_standby_policy_record(&t->standby.policy);
    return true;
}

/* Whether all these devices together hold a batch (choose). */
static bool may_standby(const dpt_trainer *t, const bool *on_standby)
{
    size_t held = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        if (on_standby[i]) held += dpti_balance_excluded(dpti_shards_balance(t), i);
    return held >= t->batch_size;
}

void dpti_standby_resume(dpt_trainer *trainer, const bool *on_standby, const double *exchange,
                         const dpti_standby_record *learnt)
{
    dpt_trainer *t = trainer;
    dpti_standby *r = &t->standby;
    if (!r->allowed) return;
    r->changes = may_standby(t, on_standby);
    r->policy = dpti_standby_policy_resume(learnt, r->changes);
    memcpy(r->chosen, on_standby, t->n_workers * sizeof *on_standby);
    memcpy(r->exchange, exchange, t->n_workers * sizeof *exchange);
}

/* ---- Their replicas -------------------------------------------------------------------------- */

static bool any_behind(const dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_is_standby(&t->workers[i]) && dpti_is_stale(&t->workers[i])) return true;
    return false;
}

/* Whether a refresh is due: refreshes cost little of all time. */
bool dpti_standby_refresh_due(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    const dpti_standby *r = &t->standby;
    const double n = (double)r->n_lr, seconds = r->policy.learnt.without.seconds * n;
    const double most = n * r->retry_seconds > long_redo ? dear_refresh_cost : refresh_cost;
    return r->n >= 1 && r->n_lr >= LEAST_REFRESH && any_behind(t) &&
           r->refresh_seconds <= most * seconds;
}

bool dpti_standby_change_due(const dpt_trainer *trainer)
{
    return trainer->standby.changes;
}

void dpti_standby_note_refresh(dpt_trainer *trainer, double seconds)
{
    trainer->standby.refresh_seconds = seconds;
}

bool dpti_standby_waits(const dpt_trainer *trainer)
{
    return trainer->standby.changes || dpti_standby_refresh_due(trainer);
}

/* Notes that the valid replicas of devices on standby miss this step.  Returns whether all devices
   on standby have valid replicas. */
static bool note_fresh(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    bool all = dpti_steps_n_in_flight(t) == 0;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (!dpti_is_standby(w)) continue;
        all = all && !dpti_is_stale(w);
        if (dpti_is_stale(w)) continue;
        dpti_skip_step(w, inflight->cursor);
    }
    return all;
}

static dpt_status make_capacity(dpt_trainer *t, size_t n)
{
    dpti_standby *r = &t->standby;
    size_t capacity = r->capacity > 0 ? r->capacity : LEAST_REFRESH;
    if (n < r->capacity) return DPT_OK;
    while (capacity <= n)
        capacity *= 2;
    float *grown = realloc(r->lr, capacity * sizeof *grown);
    if (!grown) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a step");
    r->lr = grown;
    r->capacity = capacity;
    return DPT_OK;
}

dpt_status dpti_standby_note(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    dpti_standby *r = &t->standby;
    if (r->n == 0) return DPT_OK;
    if (note_fresh(t, inflight)) r->first = inflight->cursor.step;
    r->n_lr = inflight->cursor.step - r->first;
    DPT_TRY(make_capacity(t, r->n_lr));
    r->lr[r->n_lr++] = inflight->lr;
    return DPT_OK;
}

static bool has_missed(const dpt_trainer *t, size_t rank, const bool *lost)
{
    const dpti_worker *w = &t->workers[rank];
    return dpti_is_behind(w) && !dpti_is_lost(w) && !lost[rank];
}

/* Whether the devices that are on standby, or were just woken, hold a batch without those that are
   lost. */
static bool hold_a_batch(const dpt_trainer *t, const bool *lost)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        if (has_missed(t, i, lost)) sum += dpti_balance_excluded(dpti_shards_balance(t), i);
    return sum >= t->batch_size;
}

/* Of the devices that missed steps, and whose replicas are whole, the one that missed the fewest;
   NULL: there is none. */
static const dpti_worker *find_rested(const dpt_trainer *t, const bool *lost)
{
    const dpti_worker *best = NULL;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (!has_missed(t, i, lost) || !dpti_stands_at(w)) continue;
        if (!best || dpti_stands_at(w)->step > dpti_stands_at(best)->step) best = w;
    }
    return best;
}

bool dpti_standby_rewind(dpt_trainer *trainer, const bool *lost)
{
    dpt_trainer *t = trainer;
    dpti_standby *r = &t->standby;
    const dpti_worker *rested = r->stays ? NULL : find_rested(t, lost);
    if (!rested || !hold_a_batch(t, lost)) return false;
    for (size_t i = 0; i < t->n_workers; i++)
        if (lost[i]) dpti_change_replica(&t->workers[i], DPTI_REPLICA_MISS);
    if (dpti_steps_done(t)->step > dpti_steps_retry_to(t))
        dpti_steps_set_retry_to(t, dpti_steps_done(t)->step);
    const dpti_cursor stands_at = *dpti_stands_at(rested);
    dpti_change_replica(&t->workers[rested->rank], DPTI_REPLICA_GO_BACK);
    dpti_steps_move_to(t, stands_at);
    return true;
}

/* ---- For the pipeline and for callers -------------------------------------------------------- */

dpti_balance_reason dpti_standby_reason_at(const dpt_trainer *trainer, size_t step)
{
    const dpti_standby *r = &trainer->standby;
    return r->changed_step == step ? r->reason : DPTI_BALANCE_SAME;
}

size_t dpti_standby_count(const dpt_trainer *trainer)
{
    return trainer->standby.n;
}

bool dpti_standby_missed_first(const dpt_trainer *trainer, size_t done)
{
    return trainer->standby.first == done;
}

void dpti_standby_stay(dpt_trainer *trainer, bool stays)
{
    trainer->standby.stays = stays;
}

dpti_retries dpti_standby_retries(const dpt_trainer *trainer)
{
    const dpti_standby *r = &trainer->standby;
    return (dpti_retries){.until = dpti_steps_retry_to(trainer), .under_way = r->retries};
}

void dpti_standby_begin_retries(dpt_trainer *trainer)
{
    trainer->standby.retries = true;
}

void dpti_standby_end_retries(dpt_trainer *trainer, dpt_status status)
{
    dpti_standby *r = &trainer->standby;
    r->retries = false;
    r->has_retried = true;
    if (status == DPT_OK) dpti_steps_set_retry_to(trainer, 0);
}

void dpti_standby_forget_retries(dpt_trainer *trainer)
{
    dpti_steps_set_retry_to(trainer, 0);
}

float dpti_standby_lr_of(const dpt_trainer *trainer, size_t done)
{
    const dpti_standby *r = &trainer->standby;
    return r->lr[done - r->first];
}

dpt_status dpti_standby_tell_retried(dpt_trainer *trainer, const dpt_step_metrics *step)
{
    dpti_standby *r = &trainer->standby;
    const dpt_status status = r->listen ? r->listen(r->listener, step) : DPT_OK;
    if (status != DPT_OK) dpti_steps_set_retry_to(trainer, 0);
    return status;
}

bool dpti_standby_take_time(dpt_trainer *trainer)
{
    dpti_standby *r = &trainer->standby;
    const bool own = !r->retries && !r->has_retried;
    r->has_retried = r->has_retried && r->retries;
    return own;
}

void dpti_standby_listen(dpt_trainer *trainer,
                         dpt_status (*listen)(void *listener, const dpt_step_metrics *step),
                         void *listener)
{
    trainer->standby.listen = listen;
    trainer->standby.listener = listener;
}
