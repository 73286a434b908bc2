/* Losing devices, and what the others need in order to go on (failover.h). */
#include "train/recovery/failover.h"

#include "base/left_behind.h"
#include "device/driver.h"
#include "dpt_error.h"
#include "train/components/membership.h"
#include "train/exchange/form_islands.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/membership/rendezvous.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/programs/worker.h"
#include "train/progress/calls.h"
#include "train/recovery/readmit.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- What is a loss -------------------------------------------------------------------------- */

bool dpti_is_loss(dpt_status status)
{
    switch (status) {
    case DPT_OK:
    case DPT_E_CANCELLED: return false;  /* another device has failed */
    case DPT_E_NO_MEMORY: return false;  /* it gets fewer samples (out_of_memory.c), or */
    case DPT_E_NOT_FINITE: return false; /* the weights or the data have failed */
    case DPT_E_CALLBACK: return false;   /* a function of the program has failed */
    default: return true;
    }
}

bool dpti_trainer_lost_some(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (dpti_is_loss(inflight->jobs[i].status)) return true;
    return false;
}

/* ---- Those that are left --------------------------------------------------------------------- */

/* Whether a device with a valid replica would be left, or one that can get the training state from
   the mirror. */
static bool any_left(const dpt_trainer *t, const bool *lost)
{
    const bool copied = dpti_state_parts_on(t);
    for (size_t i = 0; i < t->n_workers; i++)
        if (!lost[i] && !dpti_is_lost(&t->workers[i]) && (copied || !dpti_is_stale(&t->workers[i])))
            return true;
    return false;
}

/* The first of the errors, the device named. */
static dpt_status fail_first(dpt_trainer *t, const dpt_error *const *errors)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (errors[i] && dpti_is_loss(errors[i]->status))
            return dpti_trainer_fail(t, t->workers[i].device, errors[i]);
    return DPT_E_INTERNAL;
}

static dpt_status fail_batch(dpt_trainer *t, size_t rank, const dpt_error *error)
{
    dpt_error told = {.status = error->status};
    (void)DPT_FAIL(&told, error->status,
                   "%.300s; and without it the devices hold no batch of %zu: use a smaller batch "
                   "size, or a micro-batch",
                   error->message, t->batch_size);
    return dpti_trainer_fail(t, t->workers[rank].device, &told);
}

static void leave(dpt_trainer *t, size_t rank)
{
    dpti_standby_leave(t, rank);
    dpti_change_device(&t->workers[rank], DPTI_DEVICE_LOSE);
    dpti_islands_leave(t, rank);
    dpti_trainer_set_present(t, rank, false);
}

/* Takes a device out of service. */
static dpt_status lose(dpt_trainer *t, size_t rank, const dpt_error *error)
{
    dpti_worker *w = &t->workers[rank];
    dpti_balance *balance = dpti_shards_balance(t);
    if (balance && !dpti_balance_lose(balance, rank)) return fail_batch(t, rank, error);
    leave(t, rank);
    dpt_error told = *error;
    if (dpti_state_parts_end_offload(t, rank))
        (void)DPT_FAIL(&told, error->status,
                       "%.400s; no CPU is left: the other devices hold the optimizer's state now",
                       error->message);
    dpti_trainer_note_event(t, DPT_DEVICE_LOST, rank, &told);
    dpti_readmit_begin(t, rank);
    dpti_change_replica(w, DPTI_REPLICA_MISS); /* the other devices commit steps without it */
    return DPT_OK;
}

/* Training does not go on.  Devices that hang are lost all the same: they cannot be called. */
static void leave_hung(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_is_hung(&t->workers[i]) && !dpti_is_lost(&t->workers[i])) leave(t, i);
}

/* The error by which a device is lost: its own, or that of a device of its fault domain.  NULL:
   none. */
static const dpt_error *find_cause(const dpt_trainer *t, size_t rank,
                                   const dpt_error *const *errors)
{
    if (errors[rank] && dpti_is_loss(errors[rank]->status)) return errors[rank];
    for (size_t i = 0; i < t->n_workers; i++)
        if (errors[i] && dpti_is_loss(errors[i]->status) &&
            dpti_same_fault_domain(t->workers[i].device, t->workers[rank].device))
            return errors[i];
    return NULL;
}

/* Which devices are lost by these errors. */
static void find_lost(const dpt_trainer *t, const dpt_error *const *errors, bool *lost)
{
    for (size_t i = 0; i < t->n_workers; i++)
        lost[i] = !dpti_is_lost(&t->workers[i]) && find_cause(t, i, errors);
}

static dpt_status lose_all(dpt_trainer *t, const dpt_error *const *errors, const bool *lost)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        if (!lost[i]) continue;
        const dpt_error *cause = find_cause(t, i, errors);
        dpt_error told = *cause;
        if (cause != errors[i])
            (void)DPT_FAIL(&told, DPT_E_DEVICE_LOST, "it shares the fault domain %.*s: %.300s",
                           (int)sizeof t->workers[i].device->info.fault_domain,
                           t->workers[i].device->info.fault_domain, cause->message);
        DPT_TRY(lose(t, i, &told));
    }
    return DPT_OK;
}

bool dpti_failover_may_lose(dpt_trainer *trainer, const dpt_error *const *errors, bool *lost)
{
    dpti_trainer_note_hung(trainer);
    find_lost(trainer, errors, lost);
    return !trainer->stop_on_loss &&
           (any_left(trainer, lost) || dpti_standby_rewind(trainer, lost));
}

dpt_status dpti_failover_refuse(dpt_trainer *trainer, const dpt_error *const *errors)
{
    leave_hung(trainer);
    return fail_first(trainer, errors);
}

dpt_status dpti_failover_lose(dpt_trainer *trainer, const dpt_error *const *errors,
                              const bool *lost)
{
    dpti_standby_end(trainer);
    return lose_all(trainer, errors, lost);
}

/* A device that has no memory for its worker is lost, too. */
dpt_status dpti_trainer_lose_unmade(dpt_trainer *trainer, const dpti_failing_rank *failing)
{
    dpt_trainer *t = trainer;
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    bool lost[DPTI_SPLIT_MAX_DEVICES], left = false;
    dpt_error error = failing->error;
    if (!dpti_is_loss(error.status)) error.status = DPT_E_DEVICE;
    errors[failing->rank] = &error;
    find_lost(t, errors, lost);
    for (size_t i = 0; i < t->n_workers; i++)
        left = left || (!lost[i] && !dpti_is_lost(&t->workers[i]));
    if (!left || t->stop_on_loss)
        return dpti_trainer_fail(t, t->workers[failing->rank].device, &failing->error);
    return lose_all(t, errors, lost);
}

void dpti_trainer_forsake(dpt_trainer *trainer, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (!dpti_is_lost(&t->workers[i])) leave(t, i);
        dpti_change_replica(&t->workers[i], DPTI_REPLICA_MISS);
    }
    dpti_state_keep(t, flats);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Leaves the worker's replica and programs behind, since the list of workers is freed, and the data
   that the device may read. */
static void leave_behind(dpt_trainer *t, const dpti_worker *worker)
{
    dpti_feeding_leave(t, worker->rank);
    dpti_evaluation_leave(t, worker->rank);
    dpti_worker *copy = malloc(sizeof *copy);
    if (!copy) return;
    *copy = *worker;
    dpti_leave_behind(copy);
}

/* The device's driver thread is there again, so that the worker can be destroyed. */
static void call_again(dpti_worker *w)
{
    dpti_change_device(w, DPTI_DEVICE_RETURN);
    if (dpti_is_lost(w)) dpti_change_device(w, DPTI_DEVICE_READMIT);
}

static void end(dpti_worker *w)
{
    if (!dpti_is_lost(w)) dpti_change_device(w, DPTI_DEVICE_LOSE);
}

void dpti_trainer_tidy_lost(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    bool any = false;
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        const bool lost = dpti_is_lost(w) || dpti_is_hung(w);
        const bool there = lost && dpti_driver_revive(w->device);
        any = any || there;
        if (there)
            call_again(w);
        else
            end(w); /* the workers of other devices are destroyed already; one that hangs keeps what
                       it has */
    }
    if (any) dpti_trainer_destroy_workers(t);
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        end(&t->workers[i]);
        if (dpti_is_hung(&t->workers[i])) leave_behind(t, &t->workers[i]);
    }
}
