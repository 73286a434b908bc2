/* Devices that die: which failures mean it, who goes with them, and what the others need in order
   to go on.  Everything here happens on the caller's thread with nothing in flight, so that a lost
   device is one that nobody waits for: it leaves the meetings, and its shares are zero.

   What it holds stays as it is until the trainer ends, or until the device is tried again
   (readmit.h): a device that has failed is not called again only to tidy up. */
#include "device/driver.h"
#include "train/trainer.h"

#include "base/left_behind.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- What is a loss -------------------------------------------------------------------------- */

bool dpti_is_loss(dpt_status status)
{
    switch (status) {
    case DPT_OK:
    case DPT_E_CANCELLED: return false;  /* another device's fault */
    case DPT_E_NO_MEMORY: return false;  /* it gets fewer samples (memory.c), or training ends */
    case DPT_E_NOT_FINITE: return false; /* the weights' or the data's fault: training ends */
    default: return true;
    }
}

bool dpti_trainer_lost_some(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (dpti_is_loss(inflight->shares[i].status)) return true;
    return false;
}

bool dpti_same_fault_domain(const dpti_device *a, const dpti_device *b)
{
    return a->base.backend == b->base.backend && a->info.fault_domain[0] &&
           strncmp(a->info.fault_domain, b->info.fault_domain, sizeof a->info.fault_domain) == 0;
}

size_t dpti_trainer_n_lost(const dpt_trainer *trainer)
{
    size_t n = 0;
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++)
        n += dpti_is_lost(&trainer->workers[i]);
    return n;
}

size_t dpti_trainer_n_present(const dpt_trainer *trainer)
{
    size_t n = 0;
    for (size_t i = 0; i < trainer->n_workers; i++)
        n += !dpti_sits_out(&trainer->workers[i]);
    return n;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Without memory the event is dropped: it is told, not needed. */
void dpti_trainer_note_event(dpt_trainer *trainer, dpt_device_event_kind kind, size_t device,
                             const dpt_error *error)
{
    dpti_device_events *e = &trainer->events;
    if (e->n_taken > 0) {
        e->n -= e->n_taken;
        memmove(e->events, e->events + e->n_taken, e->n * sizeof *e->events);
        e->n_taken = 0;
    }
    if (e->n == e->room) {
        const size_t room = e->room ? 2 * e->room : 4;
        dpti_device_event *events = realloc(e->events, room * sizeof *events);
        if (!events) return;
        e->events = events;
        e->room = room;
    }
    /* Training that has gone back goes on where it was. */
    const size_t done = trainer->done.step, retry_to = trainer->standby.retry_to;
    e->events[e->n++] = (dpti_device_event){.kind = kind,
                                            .device = device,
                                            .step = (done > retry_to ? done : retry_to) + 1,
                                            .error = *error};
}

bool dpt_trainer_next_event(dpt_trainer *trainer, dpt_device_event *out)
{
    dpti_device_events *e = &trainer->events;
    if (e->n_taken == e->n || trainer->callback != DPTI_CALLBACK_NONE) return false;
    const dpti_device_event *event = &e->events[e->n_taken++];
    *out = (dpt_device_event){.kind = event->kind,
                              .device = event->device,
                              .id = trainer->peers[event->device].id,
                              .step = event->step,
                              .status = event->error.status,
                              .message = event->error.message};
    return true;
}

/* ---- Those that are left --------------------------------------------------------------------- */

void dpti_trainer_split_left(const dpt_trainer *trainer, const dpti_split *split, size_t n_rows,
                             size_t *rows)
{
    const dpt_trainer *t = trainer;
    dpti_split left = {.equal = split->equal};
    size_t of_left[DPTI_SPLIT_MAX_DEVICES];
    double sum = 0;
    if (t->processes) { /* a job that loses a device ends */
        dpti_split_rows(split, n_rows, rows);
        return;
    }
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_lost(&t->workers[i])) continue;
        left.parts[left.n_devices++] = split->parts[i];
        sum += split->parts[i];
    }
    if (!(sum > 0)) left.equal = true;
    if (left.n_devices > 0) dpti_split_rows(&left, n_rows, of_left);
    for (size_t i = 0, k = 0; i < t->n_workers; i++)
        rows[i] = dpti_is_lost(&t->workers[i]) ? 0 : of_left[k++];
}

void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    dpt_trainer *t = trainer;
    dpti_allreduce_set_present(t->allreduce, rank, present);
    if (t->allgather) dpti_allgather_set_present(t->allgather, rank, present);
    if (t->checks) dpti_rendezvous_set_present(t->checks, rank, present);
}

/* Fixed shares have grown, and devices were prepared for what they had. */
static dpt_status prepare_left(dpt_trainer *t)
{
    size_t made[DPTI_SPLIT_MAX_DEVICES];
    bool grown = false;
    if (t->measured) return DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++)
        made[i] = t->workers[i].capacity;
    DPT_TRY(dpti_trainer_find_capacities(t));
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (!dpti_is_lost(w) && w->capacity > made[i]) grown = true;
        if (dpti_is_lost(w) || w->capacity < made[i]) w->capacity = made[i]; /* as its memory is */
    }
    return grown ? dpti_trainer_rebuild(t) : DPT_OK;
}

/* Whether somebody whose weights can be trusted would be left. */
static bool any_left(const dpt_trainer *t, const bool *lost)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!lost[i] && !dpti_is_lost(&t->workers[i]) && !dpti_is_stale(&t->workers[i]))
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
    dpti_membership_device(&t->workers[rank].member, DPTI_DEVICE_LOSE);
    dpti_islands_leave(t, rank);
    dpti_trainer_set_present(t, rank, false);
}

/* Takes a device out of service. */
static dpt_status lose(dpt_trainer *t, size_t rank, const dpt_error *error)
{
    dpti_worker *w = &t->workers[rank];
    if (t->balance && !dpti_balance_lose(t->balance, rank)) return fail_batch(t, rank, error);
    leave(t, rank);
    dpti_trainer_note_event(t, DPT_DEVICE_LOST, rank, error);
    dpti_readmit_begin(t, rank);
    dpti_membership_replica(&w->member, DPTI_REPLICA_MISS); /* the others go on */
    return DPT_OK;
}

/* Nobody goes on.  Those that hang are gone all the same: there is nobody to call. */
static void leave_hung(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_is_hung(&t->workers[i]) && !dpti_is_lost(&t->workers[i])) leave(t, i);
}

/* Those that share a fault domain with a lost one. */
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

/* Who is lost by these errors. */
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

dpt_status dpti_trainer_lose(dpt_trainer *trainer, const dpt_error *const *errors)
{
    dpt_trainer *t = trainer;
    bool lost[DPTI_SPLIT_MAX_DEVICES];
    dpti_trainer_note_hung(t);
    find_lost(t, errors, lost);
    if (t->stop_on_loss || (!any_left(t, lost) && !dpti_standby_rewind(t, lost))) {
        leave_hung(t);
        return fail_first(t, errors);
    }
    dpti_standby_end(t);
    DPT_TRY(lose_all(t, errors, lost));
    return prepare_left(t);
}

/* One that has no memory to be made at all is no use either. */
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
        dpti_membership_replica(&t->workers[i].member, DPTI_REPLICA_MISS);
    }
    dpti_trainer_free_state_buffers(t->last_state);
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        t->last_state[k] = flats[k];
        flats[k] = NULL;
    }
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
        errors[i] = &w->hung_error;
        any = true;
    }
    return any ? dpti_trainer_lose(trainer, errors) : DPT_OK;
}

dpt_status dpti_trainer_lose_in_flight(dpt_trainer *trainer, size_t step, size_t n)
{
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < trainer->n_workers; i++) {
            const dpti_share *share = &trainer->slots[(step + k) % DPTI_STEP_SLOTS].shares[i];
            if (!errors[i] && dpti_is_loss(share->status)) errors[i] = &share->error;
        }
    return dpti_trainer_lose(trainer, errors);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Its replica and programs, for the list of workers goes, and the data that it may read. */
static void leave_behind(dpt_trainer *t, const dpti_worker *worker)
{
    dpti_dataset_leave(t->data);
    dpti_data_store_leave(&t->store, worker->rank);
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        if (t->tests[i].data) dpti_dataset_leave(t->tests[i].data);
        dpti_data_store_leave(&t->tests[i].store, worker->rank);
    }
    dpti_worker *copy = malloc(sizeof *copy);
    if (!copy) return;
    *copy = *worker;
    dpti_leave_behind(copy);
}

/* Its driver is there, so that its worker can be destroyed. */
static void call_again(dpti_worker *w)
{
    dpti_membership_device(&w->member, DPTI_DEVICE_RETURN);
    if (dpti_is_lost(w)) dpti_membership_device(&w->member, DPTI_DEVICE_READMIT);
}

static void end(dpti_worker *w)
{
    if (!dpti_is_lost(w)) dpti_membership_device(&w->member, DPTI_DEVICE_LOSE);
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
            end(w); /* the others have been seen to; one that hangs keeps what it has */
    }
    if (any) dpti_trainer_destroy_workers(t);
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        end(&t->workers[i]);
        if (dpti_is_hung(&t->workers[i])) leave_behind(t, &t->workers[i]);
    }
}
