/* Losing devices, and restoring those that are left (recover.h).

   Restoring a replica may lose a device, and losing a device may need replicas restored: so both
   are here. */
#include "train/recovery/recover.h"

#include "context/context.h"
#include "train/exchange/form_islands.h"
#include "train/exchange/islands.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/programs/worker.h"
#include "train/progress/in_flight.h"
#include "train/recovery/failover.h"
#include "train/replicas/replicas.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- Making workers anew --------------------------------------------------------------------- */

static dpt_status write_all(dpt_trainer *t, float *const *flats, dpti_failing_rank *failing)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_is_lost(w)) continue;
        const dpt_status status = dpti_trainer_write_state_buffers(t, i, flats);
        if (status == DPT_OK) continue;
        const dpt_error error =
            dpti_is_hung(w) ? *dpti_hung_error(w) : *dpti_device_error(w->device);
        if (error.status != DPT_OK) *failing = (dpti_failing_rank){.rank = i, .error = error};
        return status; /* the failure may be the host's */
    }
    return DPT_OK;
}

/* One attempt; DPT_E_CANCELLED: a device was lost, try again with the others. */
static dpt_status remake(dpt_trainer *t, float *const *flats)
{
    dpti_failing_rank failing;
    dpti_trainer_unbind_tests(t);
    dpti_islands_end(t);
    dpti_islands_set_due(t);
    dpti_trainer_destroy_workers(t);
    dpt_status status = dpti_trainer_create_workers(t, DPTI_BEGIN_EMPTY, &failing);
    if (status == DPT_OK) status = write_all(t, flats, &failing);
    if (status == DPT_OK || failing.rank == t->n_workers) return status;
    DPT_TRY(dpti_trainer_lose_unmade(t, &failing));
    return DPT_E_CANCELLED;
}

/* With measured shards, and statistics of the batch, a worker that is made anew may hold fewer
   samples than before: its part of the optimizer's state has grown.  `made`: what they held
   (n_workers). */
static dpt_status bound_shards(dpt_trainer *t, const size_t *made)
{
    dpti_balance *balance = dpti_shards_balance(t);
    for (size_t i = 0; balance && i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_is_lost(w) || w->capacity >= made[i]) continue;
        if (!dpti_balance_bound(balance, i, w->capacity))
            return dpt_fail(t->context, DPT_E_NO_MEMORY,
                            "%s holds %zu samples beside its part of the optimizer's state, and so "
                            "the devices hold no batch of %zu: use a smaller batch size",
                            w->device->id, w->capacity, t->batch_size);
    }
    return DPT_OK;
}

dpt_status dpti_trainer_rebuild(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    size_t made[DPTI_SPLIT_MAX_DEVICES];
    for (size_t i = 0; i < t->n_workers; i++)
        made[i] = t->workers[i].capacity;
    dpt_status status = dpti_peers_agree(t, dpti_trainer_read_state_buffers(t, flats));
    if (status == DPT_OK) {
        do
            status = remake(t, flats);
        while (status == DPT_E_CANCELLED);
        if (status != DPT_OK) dpti_trainer_forsake(t, flats);
    }
    dpti_trainer_free_state_buffers(flats);
    return status == DPT_OK && dpti_state_parts_on(t) ? bound_shards(t, made) : status;
}

/* ---- Losing devices -------------------------------------------------------------------------- */

/* Fixed shards have grown beyond what devices were prepared for, or a part of the optimizer's state
   has no device any more: prepares them anew. */
static dpt_status prepare_left(dpt_trainer *t)
{
    size_t made[DPTI_SPLIT_MAX_DEVICES];
    bool grown = dpti_state_parts_on(t);
    if (t->measured) return grown ? dpti_trainer_rebuild(t) : DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++)
        made[i] = t->workers[i].capacity;
    DPT_TRY(dpti_trainer_find_capacities(t));
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (!dpti_is_lost(w) && w->capacity > made[i]) grown = true;
        if (dpti_is_lost(w) || w->capacity < made[i])
            w->capacity = made[i]; /* its memory was made for that */
    }
    return grown ? dpti_trainer_rebuild(t) : DPT_OK;
}

dpt_status dpti_trainer_lose(dpt_trainer *trainer, const dpt_error *const *errors)
{
    bool lost[DPTI_SPLIT_MAX_DEVICES];
    if (!dpti_failover_may_lose(trainer, errors, lost))
        return dpti_failover_refuse(trainer, errors);
    DPT_TRY(dpti_failover_lose(trainer, errors, lost));
    return prepare_left(trainer);
}

dpt_status dpti_trainer_lose_one(dpt_trainer *trainer, size_t rank, const dpt_error *error)
{
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    errors[rank] = error;
    return dpti_trainer_lose(trainer, errors);
}

dpt_status dpti_trainer_lose_hung(dpt_trainer *trainer)
{
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    bool any = false;
    dpti_trainer_note_hung(trainer);
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        if (!dpti_is_hung(w) || dpti_is_lost(w)) continue;
        errors[i] = dpti_hung_error(w);
        any = true;
    }
    return any ? dpti_trainer_lose(trainer, errors) : DPT_OK;
}

dpt_status dpti_trainer_lose_in_flight(dpt_trainer *trainer, size_t step, size_t n)
{
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < trainer->n_workers; i++) {
            const dpti_shard *shard = &dpti_steps_step(trainer, step + k + 1)->jobs[i];
            if (!errors[i] && dpti_is_loss(shard->status)) errors[i] = &shard->error;
        }
    return dpti_trainer_lose(trainer, errors);
}

/* ---- Restoring replicas ---------------------------------------------------------------------- */

/* The last error of a device. */
static const dpt_error *error_of(const dpt_trainer *t, size_t rank)
{
    const dpti_worker *w = &t->workers[rank];
    return dpti_is_hung(w) ? dpti_hung_error(w) : dpti_device_error(w->device);
}

/* Where no other replica is valid, though no device is lost, training goes back to the state of the
   devices on standby. */
static bool goes_back(dpt_trainer *t)
{
    const bool lost[DPTI_SPLIT_MAX_DEVICES] = {false};
    if (!dpti_standby_rewind(t, lost)) return false;
    dpti_standby_end(t);
    return true;
}

/* The worker whose replica others are restored from: the first valid one whose device is not lost
   to its backend.  If all valid ones are lost, it is one of those, whose device then reports the
   loss.  n_workers: none is valid.  Where the optimizer's state is in parts, any device that is not
   lost stands for the mirror. */
static size_t find_source(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_is_stale(&t->workers[i]) && !t->workers[i].device->lost) return i;
    const size_t trusted = dpti_trainer_trusted(t);
    if (dpti_state_parts_on(t)) return trusted;
    return trusted == t->n_workers && goes_back(t) ? dpti_trainer_trusted(t) : trusted;
}

/* A device that has no memory to be written, or read, is lost, since the others' training must not
   end for it.  DPT_E_CANCELLED: it is.  Otherwise the lack of memory is the host's, or no device
   can go on. */
static dpt_status go_without_starving(dpt_trainer *t, size_t failing)
{
    const dpt_error first = t->context->error;
    dpt_error why = *error_of(t, failing);
    if (why.status != DPT_E_NO_MEMORY || t->processes || t->stop_on_loss) return DPT_E_NO_MEMORY;
    why.status = DPT_E_DEVICE;
    if (dpti_trainer_lose_one(t, failing, &why) == DPT_OK) return DPT_E_CANCELLED;
    return dpti_context_fail(t->context, NULL, &first);
}

/* One attempt; DPT_E_CANCELLED: a device was lost, try again with the others. */
static dpt_status restore(dpt_trainer *t, bool standby)
{
    size_t n_stale = 0, failing = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n_stale += dpti_replica_is_due(&t->workers[i], standby);
    if (t->processes && dpti_state_is_lost(t)) return DPT_OK;
    if (n_stale == 0 && dpti_trainer_n_lost(t) < t->n_workers) return DPT_OK;
    const size_t from = find_source(t);
    dpti_state_set_lost(t, from == t->n_workers || dpti_trainer_n_lost(t) == t->n_workers);
    if (dpti_state_is_lost(t)) return DPT_OK;
    const dpt_status status = dpti_replica_copy_to_stale(t, from, standby, &failing);
    if (status == DPT_E_NO_MEMORY) return go_without_starving(t, failing);
    if (!dpti_is_loss(status) || t->stop_on_loss) return status;
    DPT_TRY(dpti_trainer_lose_one(t, failing, error_of(t, failing)));
    return DPT_E_CANCELLED;
}

dpt_status dpti_trainer_restore(dpt_trainer *trainer)
{
    dpt_status status;
    do
        status = restore(trainer, false);
    while (status == DPT_E_CANCELLED);
    return status;
}

dpt_status dpti_trainer_refresh(dpt_trainer *trainer)
{
    dpt_status status;
    do
        status = restore(trainer, true);
    while (status == DPT_E_CANCELLED);
    return status;
}

/* ---- Reading the training state -------------------------------------------------------------- */

/* Reads from the first replica that can be read.  errors[i]: of those before it, the errors by
   which devices are lost.  A device that is short of memory for a moment is not lost. */
static dpt_status read_first(dpt_trainer *t, size_t n_kinds, float *const *flats,
                             const dpt_error **errors)
{
    dpt_status status = DPT_E_STATE;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_stale(&t->workers[i])) continue;
        status = dpti_replica_read_saved(t, i, n_kinds, flats);
        if (status == DPT_E_NO_MEMORY) continue;
        if (!dpti_is_loss(status)) return status;
        if (t->stop_on_loss && !dpti_state_is_salvaged(t) && status != DPT_E_DEVICE_LOST)
            return status;
        if (!dpti_is_lost(&t->workers[i])) errors[i] = error_of(t, i);
    }
    return status;
}

/* Where one device alone has the training state, devices on standby, and those that were just
   woken, get it before it is read: so another device has it if that one is lost meanwhile.  Where
   no device has it, training goes back to the state of the devices on standby. */
static dpt_status spare(dpt_trainer *t)
{
    size_t n_trusted = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n_trusted += !dpti_is_stale(&t->workers[i]);
    if (n_trusted > 1) return DPT_OK;
    if (t->processes || t->stop_on_loss || dpti_state_is_salvaged(t) ||
        dpti_steps_n_in_flight(t) > 0)
        return DPT_OK;
    DPT_TRY(dpti_trainer_refresh(t));
    return dpti_trainer_catch_up(t);
}

/* Loses the devices that failed while others were read. */
static dpt_status lose_unread(dpt_trainer *t, const dpt_error **errors)
{
    bool any = false;
    for (size_t i = 0; i < t->n_workers; i++)
        any = any || errors[i];
    if (!any || dpti_state_is_salvaged(t) || t->stop_on_loss) return DPT_OK;
    dpti_standby_stay(t, true);
    const dpt_status status = dpti_trainer_lose(t, errors);
    dpti_standby_stay(t, false);
    return status;
}

dpt_status dpti_trainer_read_trusted(dpt_trainer *trainer, size_t n_kinds, float *const *flats)
{
    dpt_trainer *t = trainer;
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    if (dpti_state_is_kept(t)) {
        dpti_state_copy_kept(t, n_kinds, flats);
        return DPT_OK;
    }
    DPT_TRY(spare(t));
    if (dpti_trainer_trusted(t) == t->n_workers)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights: nothing to save");
    DPT_TRY(read_first(t, n_kinds, flats, errors));
    return lose_unread(t, errors);
}

dpt_status dpti_trainer_peek(dpt_trainer *trainer, float *flat)
{
    dpt_trainer *t = trainer;
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    if (dpti_state_is_kept(t)) {
        dpti_state_copy_kept(t, 1, &flat);
        return DPT_OK;
    }
    const dpt_status status = read_first(t, 1, &flat, errors);
    DPT_TRY(lose_unread(t, errors));
    return status == DPT_OK ? DPT_OK : dpti_trainer_read_trusted(t, 1, &flat);
}

dpt_status dpti_trainer_read_state_buffers(dpt_trainer *trainer,
                                           float *flats[DPTI_MAX_STATE_BUFFERS])
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_replica_make_flats(t, flats));
    for (;;) {
        size_t from = find_source(t);
        if (from == t->n_workers)
            return dpt_fail(t->context, DPT_E_STATE, "no device holds trusted weights any more");
        const dpt_status status = dpti_replica_read_source(t, &from, flats);
        if (!dpti_is_loss(status)) return status;
        DPT_TRY(dpti_trainer_lose_one(t, from, error_of(t, from)));
    }
}
