/* A device that runs out of memory in the middle of a step (out_of_memory.h): how many samples it
   gets from then on, what the caller is told where shards are fixed, and what becomes of an update
   that the device has no memory for. */
#include "train/recovery/out_of_memory.h"

#include "dpt_error.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/plan/micro_batches.h"
#include "train/plan/shards.h"
#include "train/progress/calls.h"
#include "train/recovery/recover.h"
#include "train/replicas/room.h"
#include "train/replicas/state_buffers.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

/* The most samples of a batch. */
static size_t samples_of(const dpti_shard *shard)
{
    size_t n = 0;
    for (size_t b = 0; shard->n_samples > 0 && b < shard->n_batches; b++)
        if (shard->of_batch[b] > n) n = shard->of_batch[b];
    return n;
}

static size_t at_once(const dpti_shard *shard)
{
    return dpti_next_micro_batch(samples_of(shard), shard->worker->replica.capacity);
}

void dpti_trainer_note_held(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++) {
        dpti_worker *w = &trainer->workers[i];
        if (dpti_is_lost(w)) continue;
        dpti_memory_note_held(w, samples_of(&inflight->jobs[i]));
    }
}

static bool ran_out(const dpti_shard *shard)
{
    return shard->status == DPT_E_NO_MEMORY && !shard->committed;
}

bool dpti_trainer_ran_out(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    size_t n = 0;
    if (trainer->processes) return false; /* other processes' devices cannot be given fewer */
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_shard *shard = &inflight->jobs[i];
        if (shard->status == DPT_OK || shard->status == DPT_E_CANCELLED) continue;
        if (!ran_out(shard)) return false;
        n++;
    }
    return n > 0;
}

/* Half of what the device did not hold, or what it has held before if that is more.  A device that
   does not hold any more what it once did begins again with the half. */
static size_t next_room(dpti_worker *w, size_t n)
{
    if (dpti_memory_held(w) >= n) dpti_memory_forget_held(w);
    return dpti_memory_held(w) > n / 2 ? dpti_memory_held(w) : n / 2;
}

/* Fails, and says what can be done. */
static dpt_status fail_shard(dpt_trainer *t, const dpti_shard *shard)
{
    const size_t n = at_once(shard);
    dpt_error error = {.status = DPT_E_NO_MEMORY};
    char other[128] = "", micro_batch[64] = "";
    if (t->measured)
        snprintf(other, sizeof other, ", and with fewer the devices hold no batch of %zu",
                 t->batch_size);
    if (n > 1) snprintf(micro_batch, sizeof micro_batch, ", a micro-batch of at most %zu", n / 2);
    (void)DPT_FAIL(&error, DPT_E_NO_MEMORY,
                   "%.300s; %zu samples at once are too many%s: use a smaller batch size%s%s",
                   shard->error.message, n, other, micro_batch,
                   t->measured || t->n_workers == 1
                       ? ""
                       : ", or split \"measured\", which gives a device what it holds");
    return dpti_trainer_fail(t, shard->worker->device, &error);
}

static dpt_status fail_without_samples(dpt_trainer *t, const dpti_shard *shard)
{
    dpt_error error = {.status = DPT_E_NO_MEMORY};
    (void)DPT_FAIL(&error, DPT_E_NO_MEMORY, "%.300s; and it has no samples: leave it out",
                   shard->error.message);
    return dpti_trainer_fail(t, shard->worker->device, &error);
}

dpt_status dpti_trainer_bound_shards(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    dpti_standby_end(t);
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_shard *shard = &inflight->jobs[i];
        dpti_worker *w = shard->worker;
        const size_t n = samples_of(shard);
        if (!ran_out(shard)) continue;
        if (n == 0) return fail_without_samples(t, shard);
        if (!dpti_shards_balance(t)) return fail_shard(t, shard);
        const size_t room = next_room(w, n);
        if (!dpti_balance_bound(dpti_shards_balance(t), i, room)) return fail_shard(t, shard);
        dpti_memory_limit_room(w, dpti_next_micro_batch(room, w->replica.capacity));
    }
    return DPT_OK;
}

/* ---- In the update --------------------------------------------------------------------------- */

/* The device has missed the update of a committed step.  That has nothing to do with its shard. */
static bool update_ran_out(const dpti_shard *shard)
{
    return shard->status == DPT_E_NO_MEMORY && shard->committed;
}

bool dpti_trainer_update_ran_out(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    bool any = false;
    if (trainer->processes) return false; /* no replica can be restored from another process */
    for (size_t i = 0; i < trainer->n_workers; i++)
        any = any || update_ran_out(&inflight->jobs[i]);
    return any;
}

static void tell_short(dpt_trainer *t, const dpti_shard *shard)
{
    dpt_error told = {.status = DPT_E_NO_MEMORY};
    (void)DPT_FAIL(&told, DPT_E_NO_MEMORY,
                   "it had no memory for the update of step %zu, and was given what it missed: "
                   "%.300s",
                   shard->step, shard->error.message);
    dpti_trainer_note_event(t, DPT_REPLICA_RESTORED, t->first_device + shard->worker->rank, &told);
}

dpt_status dpti_trainer_restore_short(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_trainer_restore(t));
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_shard *shard = &inflight->jobs[i];
        if (!update_ran_out(shard)) continue;
        if (dpti_state_is_lost(t))
            return dpti_trainer_fail(t, shard->worker->device, &shard->error);
        if (!dpti_is_lost(shard->worker)) tell_short(t, shard);
    }
    return DPT_OK;
}
