/* Lost devices that may come back (readmit.h). */
#include "train/recovery/readmit.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/driver.h"
#include "device/open.h"
#include "device/stream.h"

#include "base/clock.h"
#include "dpt_error.h"
#include "train/components/data_store.h"
#include "train/components/membership.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/programs/bound.h"
#include "train/programs/worker.h"
#include "train/state/trainer.h"

#include <math.h>
#include <string.h>

/* ---- On the device's driver ------------------------------------------------------------------ */

/* [driver] Releases what the worker holds, in good order if the device is not lost to its backend,
   and closes the device. */
static void run_release(dpti_device *device, void *argument)
{
    dpti_worker *w = argument;
    dpti_readmission *readmission = &w->recovery.readmission;
    /* Its call has come back: the calls below find out whether it is lost. */
    if (dpti_is_hung(w) && device->stream) device->lost = false;
    /* What a failed step has enqueued is over, or the device is lost. */
    if (!device->lost && dpti_sync(device) == DPT_E_DEVICE_LOST) device->lost = true;
    if (!readmission->released) dpti_worker_destroy(w);
    for (size_t i = 0; i < DPTI_READMISSION_COPIES; i++)
        dpti_data_copy_free(&readmission->copies[i]);
    readmission->released = true;
    if (readmission->closes) dpti_device_shut(device);
}

enum { TRIED_WORDS = 1024 };

/* Whether its memory keeps what is written. */
static dpt_status try_memory(dpti_device *device, uint32_t *words, const dpti_buffer *buffer)
{
    const size_t n_bytes = TRIED_WORDS * sizeof *words;
    for (uint32_t i = 0; i < TRIED_WORDS; i++)
        words[i] = i * 0x9e3779b1u;
    DPT_TRY(dpti_upload(buffer, 0, words, n_bytes));
    DPT_TRY(dpti_sync(device));
    memset(words, 0, n_bytes);
    DPT_TRY(dpti_download(words, buffer, 0, n_bytes));
    DPT_TRY(dpti_sync(device));
    for (uint32_t i = 0; i < TRIED_WORDS; i++)
        if (words[i] != i * 0x9e3779b1u)
            return DPT_FAIL(&device->base.error, DPT_E_DEVICE, "its memory does not keep values");
    return DPT_OK;
}

static dpt_status try_device(dpti_device *device)
{
    dpti_buffer buffer;
    void *words;
    DPT_TRY(dpti_host_alloc(device, TRIED_WORDS * sizeof(uint32_t), &words));
    dpt_status status = dpti_alloc(device, TRIED_WORDS * sizeof(uint32_t), &buffer);
    if (status == DPT_OK) status = try_memory(device, words, &buffer);
    dpti_free(&buffer);
    dpti_host_free(device, words);
    return status;
}

static void run_open(dpti_device *device, void *argument)
{
    dpti_readmission *readmission = &((dpti_worker *)argument)->recovery.readmission;
    readmission->status = device->shut ? dpti_device_reopen(device) : DPT_OK;
    if (readmission->status == DPT_OK) readmission->status = try_device(device);
}

/* ---- Trying ---------------------------------------------------------------------------------- */

/* The only place that changes the phase: deadline.c watches the calls of a device that is tried. */
static void set_phase(dpti_worker *w, dpti_readmission_phase phase)
{
    w->recovery.readmission.state = phase;
    dpti_deadline_watch_readmission(w, phase == DPTI_READMISSION_RELEASING ||
                                           phase == DPTI_READMISSION_OPENING);
}

void dpti_readmit_postpone(dpti_worker *worker)
{
    dpti_readmission *readmission = &worker->recovery.readmission;
    const double first = worker->trainer->recovery.readmit_after;
    const double most = DPTI_READMIT_MOST * first;
    readmission->wait = readmission->wait > 0 ? fmin(2 * readmission->wait, most) : first;
    readmission->due = dpti_seconds() + readmission->wait;
    set_phase(worker, DPTI_READMISSION_WAITING);
}

void dpti_readmit_after(dpt_trainer *trainer, double seconds)
{
    trainer->recovery.readmit_after = seconds;
}

void dpti_readmit_begin(dpt_trainer *trainer, size_t rank)
{
    dpti_worker *w = &trainer->workers[rank];
    if (!(trainer->recovery.readmit_after > 0)) return;
    w->recovery.readmission.since = dpti_seconds();
    w->recovery.readmission.released = false;
    dpti_readmit_postpone(w);
}

/* Whether another device computes with this copy, or is in a call that may not return. */
static bool is_used(const dpt_trainer *t, const dpti_worker *w, const dpti_data_store *store,
                    size_t copy)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *other = &t->workers[i];
        if (other != w && (!dpti_is_lost(other) || dpti_is_hung(other)) &&
            store->copy_of[i] == copy)
            return true;
    }
    return false;
}

/* Takes the device's own copies of data out of the stores.  false: others read one of them, and it
   stays. */
static bool detach_copies(dpt_trainer *t, dpti_worker *w)
{
    dpti_data_store *stores[DPTI_READMISSION_COPIES] = {dpti_feeding_store(t)};
    bool all = true;
    _Static_assert(DPTI_READMISSION_COPIES == DPTI_TESTS + 1, "the copies of each data set");
    for (size_t i = 0; i < DPTI_TESTS; i++)
        stores[i + 1] = dpti_evaluation_store(t, i);
    for (size_t i = 0; i < DPTI_READMISSION_COPIES; i++)
        for (size_t c = 0; c < stores[i]->n_copies; c++) {
            dpti_data_copy *copy = &stores[i]->copies[c];
            if (copy->owner != w->device || !dpti_data_resident(copy)) continue;
            if (is_used(t, w, stores[i], c))
                all = false;
            else
                w->recovery.readmission.copies[i] = dpti_data_copy_detach(copy);
        }
    return all;
}

/* A device whose call has not come back, or which something else of this process still uses, is
   tried later; one that is lost to its backend and holds data that others read, never. */
static void start(dpt_trainer *t, dpti_worker *w)
{
    dpti_readmission *readmission = &w->recovery.readmission;
    readmission->due = dpti_seconds() + readmission->wait;
    if (atomic_load(&w->device->n_holders) > 1) return;
    if (dpti_is_hung(w) && !dpti_driver_revive(w->device)) return;
    readmission->closes = detach_copies(t, w);
    if (!readmission->closes && w->device->lost && !dpti_is_hung(w)) {
        set_phase(w, DPTI_READMISSION_NOT);
        return;
    }
    set_phase(w, DPTI_READMISSION_RELEASING);
    readmission->ticket = dpti_driver_post(w->device, run_release, w);
}

/* Starts the tries of all devices that were lost with this one. */
static void start_domain(dpt_trainer *t, const dpti_worker *first)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (w->recovery.readmission.state == DPTI_READMISSION_WAITING &&
            (w == first || dpti_same_fault_domain(w->device, first->device)))
            start(t, w);
    }
}

/* A device whose thread is given up meanwhile has failed. */
static bool is_done(const dpti_worker *w)
{
    return dpti_driver_wait_for(w->device, w->recovery.readmission.ticket, 0) ||
           !dpti_driver_is_running(w->device);
}

/* Whether a job of the device's try is under way, or has just ended. */
static bool is_tried(const dpti_worker *worker)
{
    const dpti_readmission_phase phase = worker->recovery.readmission.state;
    return phase == DPTI_READMISSION_RELEASING || phase == DPTI_READMISSION_OPENING;
}

/* Whether all devices that were lost with this one have been closed. */
static bool may_open(const dpt_trainer *t, const dpti_worker *w)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *other = &t->workers[i];
        if (other->recovery.readmission.state == DPTI_READMISSION_RELEASING &&
            dpti_same_fault_domain(other->device, w->device) && !is_done(other))
            return false;
    }
    return is_done(w);
}

static void look(dpt_trainer *t, dpti_worker *w)
{
    switch (w->recovery.readmission.state) {
    case DPTI_READMISSION_NOT:
    case DPTI_READMISSION_READY: return;
    case DPTI_READMISSION_WAITING:
        if (dpti_seconds() >= w->recovery.readmission.due) start_domain(t, w);
        return;
    case DPTI_READMISSION_RELEASING:
        if (!may_open(t, w)) return;
        if (!dpti_driver_is_running(w->device)) {
            dpti_readmit_postpone(w);
            return;
        }
        dpti_change_device(w, DPTI_DEVICE_RETURN);
        set_phase(w, DPTI_READMISSION_OPENING);
        w->recovery.readmission.ticket = dpti_driver_post(w->device, run_open, w);
        return;
    case DPTI_READMISSION_OPENING:
        if (!is_done(w)) return;
        if (dpti_driver_is_running(w->device) && w->recovery.readmission.status == DPT_OK)
            set_phase(w, DPTI_READMISSION_READY);
        else
            dpti_readmit_postpone(w);
        return;
    }
}

void dpti_readmit_poll(dpt_trainer *trainer)
{
    for (size_t i = 0; trainer->recovery.readmit_after > 0 && i < trainer->n_workers; i++)
        look(trainer, &trainer->workers[i]);
}

bool dpti_readmit_waits(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (trainer->workers[i].recovery.readmission.state == DPTI_READMISSION_READY) return true;
    return false;
}

bool dpti_readmit_tries(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (is_tried(&trainer->workers[i])) return true;
    return false;
}

void dpti_readmit_note_admitted(dpti_worker *worker, size_t step)
{
    set_phase(worker, DPTI_READMISSION_NOT);
    worker->trainer->recovery.returned_step = step;
}

bool dpti_readmit_returned_at(const dpt_trainer *trainer, size_t step)
{
    return trainer->recovery.returned_step == step;
}

/* ---- The end --------------------------------------------------------------------------------- */

void dpti_readmit_end(dpt_trainer *trainer)
{
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++) {
        dpti_worker *w = &trainer->workers[i];
        if (is_tried(w) && dpti_trainer_await(trainer, i, w->recovery.readmission.ticket))
            dpti_change_device(w, DPTI_DEVICE_RETURN);
        set_phase(w, DPTI_READMISSION_NOT);
    }
}
