/* Making the worker of a device that is readmitted (readmit_settle.h). */
#include "train/recovery/readmit_settle.h"

#include "base/clock.h"
#include "context/context.h"
#include "train/components/data_store.h"
#include "train/components/membership.h"
#include "train/exchange/islands.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/membership/rendezvous.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/programs/capacities.h"
#include "train/programs/worker.h"
#include "train/progress/in_flight.h"
#include "train/recovery/readmit.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/standby/standby.h"
#include "train/state/trainer.h"

#include <stdio.h>
#include <string.h>

/* As at the beginning: if memory is short, the copy of the data is dropped before shards become
   smaller. */
static dpt_status create(dpt_trainer *t, dpti_worker *w)
{
    dpti_data_copy *copy = dpti_feeding_copy_of(w);
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_trainer_create_worker(t, w->rank, DPTI_BEGIN_EMPTY, &error);
    if (status != DPT_E_NO_MEMORY || copy->owner != w->device || dpti_data_bytes(copy) == 0)
        return status;
    if (!dpti_trainer_release(t, w->rank, dpti_worker_destroy_job, w)) return DPT_E_DEVICE_LOST;
    dpti_data_copy_drop(copy);
    return dpti_trainer_create_worker(t, w->rank, DPTI_BEGIN_EMPTY, &error);
}

/* Finds the worker's capacity.  *grown: other workers have to hold more than they were made for. */
static dpt_status find_capacity(dpt_trainer *t, dpti_worker *w, bool *grown)
{
    size_t made[DPTI_SPLIT_MAX_DEVICES];
    *grown = false;
    if (t->measured) return DPT_OK; /* its capacity stays */
    for (size_t i = 0; i < t->n_workers; i++)
        made[i] = t->workers[i].capacity;
    DPT_TRY(dpti_trainer_find_capacities(t));
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *other = &t->workers[i];
        if (other == w) continue;
        if (!dpti_is_lost(other) && other->capacity > made[i])
            *grown = true;
        else
            other->capacity = made[i];
    }
    return DPT_OK;
}

static dpt_status make_worker(dpt_trainer *t, dpti_worker *w, float *const *flats, bool *grown)
{
    const dpti_placing where = dpti_trainer_placing(t, NULL);
    DPT_TRY(find_capacity(t, w, grown));
    DPT_TRY(dpti_data_store_rejoin(&where, dpti_feeding_store(t), t->data, w->rank));
    DPT_TRY(create(t, w));
    /* In several micro-batches batch-norm would take other statistics than the other devices. */
    if (dpti_has_micro_batches(w) && t->program.n_parts > 1) return DPT_E_NO_MEMORY;
    return dpti_trainer_write_state_buffers(t, w->rank, flats);
}

static void send_away(dpt_trainer *t, dpti_worker *w)
{
    dpti_change_device(w, DPTI_DEVICE_LOSE);
    dpti_change_replica(w, DPTI_REPLICA_MISS);
    w->recovery.readmission.released = dpti_trainer_release(t, w->rank, dpti_worker_destroy_job, w);
    dpti_readmit_postpone(w);
}

static void take_in(dpt_trainer *t, dpti_worker *w)
{
    dpt_error told = {.status = DPT_OK};
    dpti_trainer_unbind_tests(t); /* the programs of evaluation do not include this device */
    dpti_standby_end(t);
    dpti_change_device(w, DPTI_DEVICE_ADMITTED);
    dpti_trainer_set_present(t, w->rank, true);
    dpti_islands_set_due(t);
    if (dpti_shards_balance(t)) dpti_balance_readmit(dpti_shards_balance(t), w->rank, w->capacity);
    dpti_peers_note(t, w->rank);
    dpti_readmit_note_admitted(w, dpti_steps_done(t)->step + 1);
    snprintf(told.message, sizeof told.message, "it answers again, after %.3g s",
             dpti_seconds() - w->recovery.readmission.since);
    dpti_trainer_note_event(t, DPT_DEVICE_READMITTED, w->rank, &told);
}

static dpt_status admit(dpt_trainer *t, dpti_worker *w)
{
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    const dpt_error before = t->context->error;
    dpt_status status = dpti_trainer_read_state_buffers(t, flats);
    if (status == DPT_OK) {
        bool grown = false;
        dpti_change_device(w, DPTI_DEVICE_READMIT);
        if (make_worker(t, w, flats, &grown) == DPT_OK) {
            take_in(t, w);
            grown = grown || dpti_state_parts_on(t); /* it gets a part of the optimizer's state */
        } else {
            send_away(t, w);
        }
        t->context->error = before; /* a device that fails again is no failure of the call */
        /* A failure of the other devices is one: they may hold nothing any more. */
        if (grown) status = dpti_trainer_rebuild(t);
    }
    dpti_trainer_free_state_buffers(flats);
    return status;
}

dpt_status dpti_readmit_settle(dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (trainer->workers[i].recovery.readmission.state == DPTI_READMISSION_READY)
            DPT_TRY(admit(trainer, &trainer->workers[i]));
    return DPT_OK;
}
