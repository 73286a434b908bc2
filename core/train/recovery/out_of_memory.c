/* A device that runs out of memory in the middle of a step (out_of_memory.h): how many samples it
   gets from then on, what the caller is told where shards are fixed, and what becomes of an update
   that the device has no memory for. */
#include "train/recovery/out_of_memory.h"

#include "base/print.h"
#include "dpt_error.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/plan/micro_batches.h"
#include "train/plan/shards.h"
#include "train/progress/calls.h"
#include "train/recovery/recover.h"
#include "train/replicas/room.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdarg.h>
#include <stdio.h>

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

/* ---- What can be done ------------------------------------------------------------------------ */

enum { MOST_ADVICE = 5, ADVICE_BYTES = 72 };

/* Things to use, one of which may be enough. */
typedef struct advice {
    char items[MOST_ADVICE][ADVICE_BYTES];
    size_t n;
} advice;

DPT_PRINTF(2, 3) static void add(advice *a, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    dpti_print_args(a->items[a->n++], ADVICE_BYTES, format, arguments);
    va_end(arguments);
}

/* Writes "this, that, or another". */
static void list(const advice *a, char *out, size_t n_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < a->n && length < n_bytes; i++)
        length += (size_t)snprintf(out + length, n_bytes - length, "%s%s%s", i > 0 ? ", " : "",
                                   i > 0 && i + 1 == a->n ? "or " : "", a->items[i]);
}

/* One sample does not fit.  Smaller micro-batches are no help. */
static void advise_for_one(const dpt_trainer *t, const dpti_worker *w, advice *a)
{
    const dpt_shard divided = dpt_trainer_sharded(t);
    if (!w->recomputes) add(a, "--recompute on, which computes activations again");
    if (divided == DPT_SHARD_NONE && dpti_state_parts_possible(t, DPT_SHARD_OPTIMIZER))
        add(a, "--shard optimizer, which divides its state over devices");
    else if (divided < DPT_SHARD_PARAMETERS && !dpti_state_parts_hindrance(t) &&
             dpti_state_parts_possible(t, DPT_SHARD_PARAMETERS))
        add(a, "--shard parameters, which divides them over devices");
    add(a, "a device with more memory");
}

/* Fails, and says what can be done.  A smaller batch leaves a device no fewer than one sample, but
   other devices may hold all of it where shards are measured. */
static dpt_status fail_shard(dpt_trainer *t, const dpti_shard *shard)
{
    const size_t n = at_once(shard);
    dpt_error error = {.status = DPT_E_NO_MEMORY};
    advice a = {.n = 0};
    char count[64], other[128] = "", words[MOST_ADVICE * (ADVICE_BYTES + 8)] = "";
    if (n > 1)
        snprintf(count, sizeof count, "%zu samples at once are too many", n);
    else
        snprintf(count, sizeof count, "one sample at once is too much");
    if (t->measured)
        snprintf(other, sizeof other, ", and with fewer the devices hold no batch of %zu",
                 t->batch_size);
    if (n > 1 || t->measured) add(&a, "a smaller batch size");
    if (n > 1)
        add(&a, "a micro-batch of at most %zu", n / 2);
    else
        advise_for_one(t, shard->worker, &a);
    if (!t->measured && t->n_workers > 1)
        add(&a, "split \"measured\", which gives a device what it holds");
    list(&a, words, sizeof words);
    (void)DPT_FAIL(&error, DPT_E_NO_MEMORY, "%.200s; %s%s: use %s", shard->error.message, count,
                   other, words);
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
