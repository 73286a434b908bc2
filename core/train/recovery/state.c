/* Reading and writing what a trainer holds: flat buffers, tensors by name, and the repair of a
   replica that missed an update. */
#include "context/context.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "train/trainer.h"

#include "base/left_behind.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- Flat buffers ---------------------------------------------------------------------------- */

/* In one piece with its host memory: if the device hangs it is the device's. */
typedef struct flat_job {
    const dpti_buffer *buffer;
    bool read;
    size_t n_bytes;
    dpt_status status;
    float values[];
} flat_job;

static dpt_status transfer(flat_job *job)
{
    if (job->read)
        DPT_TRY(dpti_download(job->values, job->buffer, 0, job->n_bytes));
    else
        DPT_TRY(dpti_upload(job->buffer, 0, job->values, job->n_bytes));
    return dpti_sync(job->buffer->device);
}

static void run_transfer(dpti_device *device, void *argument)
{
    flat_job *job = argument;
    (void)device;
    job->status = transfer(job);
}

static const dpti_buffer *buffer_of(const dpti_replica *replica, dpt_tensor_kind kind)
{
    switch (kind) {
    case DPT_PARAMETER: return &replica->parameters;
    case DPT_GRADIENT: return &replica->gradients;
    case DPT_VELOCITY: return &replica->velocity;
    case DPT_SQUARES: break;
    }
    return &replica->squares;
}

/* Runs it and takes what it has read: the device's status. */
static dpt_status run_and_take(dpt_trainer *t, size_t rank, flat_job *job, float *read)
{
    dpti_worker *w = &t->workers[rank];
    if (!dpti_trainer_call(t, rank, run_transfer, job)) {
        dpti_leave_behind(job);
        return dpti_trainer_fail(t, w->device, &w->hung_error);
    }
    const dpt_status status = job->status;
    if (status == DPT_OK && read) memcpy(read, job->values, job->n_bytes);
    free(job);
    return status == DPT_OK ? DPT_OK
                            : dpti_trainer_fail(t, w->device, dpti_device_error(w->device));
}

static dpt_status move(dpt_trainer *t, size_t rank, dpt_tensor_kind kind, float *read,
                       const float *write)
{
    const dpti_worker *w = &t->workers[rank];
    const dpti_buffer *buffer = buffer_of(&w->replica, kind);
    const size_t n_bytes = t->model->flat_size * sizeof(float);
    if (!buffer->handle)
        return dpt_fail(t->context, DPT_E_NOT_FOUND, "there is no %s: this optimizer has none",
                        kind == DPT_VELOCITY ? "velocity" : "second moment");
    flat_job *job = malloc(sizeof *job + n_bytes);
    if (!job) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a copy of the weights");
    *job = (flat_job){.buffer = buffer, .read = read != NULL, .n_bytes = n_bytes};
    if (write) memcpy(job->values, write, n_bytes);
    const dpt_status status = run_and_take(t, rank, job, read);
    const float *view = kind == DPT_PARAMETER  ? w->views[0]
                        : kind == DPT_VELOCITY ? w->views[1]
                        : kind == DPT_SQUARES  ? w->views[2]
                                               : NULL;
    if (status == DPT_OK || !t->salvage || !read || !view) return status;
    memcpy(read, view, n_bytes);
    return DPT_OK;
}

dpt_status dpti_trainer_read(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind, float *flat)
{
    return move(trainer, rank, kind, flat, NULL);
}

dpt_status dpti_trainer_write(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind,
                              const float *flat)
{
    return move(trainer, rank, kind, NULL, flat);
}

float *dpti_trainer_make_flat(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    const size_t n = t->model->flat_size;
    float *flat = calloc(n, sizeof *flat);
    if (!flat)
        (void)dpt_fail(t->context, DPT_E_NO_MEMORY,
                       "no memory for a copy of the weights of model %s, which has %zu parameters "
                       "for %zu classes: %.1f GiB",
                       t->model->name, n, dpt_model_classes(t->model),
                       (double)n * sizeof *flat / 1073741824.0);
    return flat;
}

size_t dpti_trainer_trusted(const dpt_trainer *trainer)
{
    size_t i = 0;
    while (i < trainer->n_workers && dpti_is_stale(&trainer->workers[i]))
        i++;
    return i;
}

/* What outlives a step: parameters, then the optimizer's state, as far as there is any. */
static const dpt_tensor_kind lasting[DPTI_MAX_STATE_BUFFERS] = {DPT_PARAMETER, DPT_VELOCITY,
                                                                DPT_SQUARES};

size_t dpti_trainer_n_state_buffers(const dpt_trainer *trainer)
{
    const dpti_optimizer *o = &trainer->program.optimizer;
    return o->kind == DPT_OPTIMIZER_ADAMW ? 3 : o->momentum != 0 ? 2 : 1;
}

/* Where nobody else's weights can be trusted, though no device is lost, those of devices that rest
   are gone on from. */
static bool goes_back(dpt_trainer *t)
{
    const bool lost[DPTI_SPLIT_MAX_DEVICES] = {false};
    if (!dpti_standby_rewind(t, lost)) return false;
    dpti_standby_end(t);
    return true;
}

/* The replica to repair others from: one whose device is there; if every trusted one is lost, one
   of those, whose device then says so.  n_workers if none is trusted. */
static size_t find_source(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_is_stale(&t->workers[i]) && !t->workers[i].device->lost) return i;
    const size_t trusted = dpti_trainer_trusted(t);
    return trusted == t->n_workers && goes_back(t) ? dpti_trainer_trusted(t) : trusted;
}

static bool is_due(const dpti_worker *w, bool standby)
{
    return dpti_is_stale(w) && !dpti_is_lost(w) && (standby || !dpti_is_standby(w));
}

static dpt_status repair(dpt_trainer *t, size_t to, float *const *flats)
{
    dpti_worker *w = &t->workers[to];
    dpti_membership_replica(&w->member, DPTI_REPLICA_TEAR);
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++)
        DPT_TRY(dpti_trainer_write(t, to, lasting[k], flats[k]));
    dpti_membership_replica(&w->member, DPTI_REPLICA_WRITE);
    return DPT_OK;
}

/* Repairs whom it can: one that is lost leaves the others no worse.  The first failure, of
 *culprit, is returned, and the context tells of it. */
static dpt_status repair_all(dpt_trainer *t, bool standby, float *const *flats, size_t *failing)
{
    dpt_error first = {.status = DPT_OK};
    for (size_t i = 0; i < t->n_workers; i++) {
        if (!is_due(&t->workers[i], standby) || repair(t, i, flats) == DPT_OK) continue;
        if (first.status == DPT_OK) *failing = i;
        if (first.status == DPT_OK) first = t->context->error;
        if (!t->stop_on_loss) break; /* who failed is lost first */
    }
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

static dpt_status read_replica(dpt_trainer *t, size_t rank, size_t n_kinds, float *const *flats)
{
    for (size_t k = 0; k < n_kinds; k++)
        DPT_TRY(dpti_trainer_read(t, rank, lasting[k], flats[k]));
    return DPT_OK;
}

/* Another one serves where this source is short of memory, and becomes *from. */
static dpt_status read_source(dpt_trainer *t, size_t *from, float *const *flats)
{
    const size_t n = dpti_trainer_n_state_buffers(t);
    dpt_status status = read_replica(t, *from, n, flats);
    for (size_t i = *from + 1; status == DPT_E_NO_MEMORY && i < t->n_workers; i++) {
        if (dpti_is_stale(&t->workers[i]) || t->workers[i].device->lost) continue;
        *from = i;
        status = read_replica(t, i, n, flats);
    }
    return status;
}

static dpt_status make_flats(dpt_trainer *t, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        flats[k] = dpti_trainer_make_flat(t);
        if (!flats[k]) return DPT_E_NO_MEMORY;
    }
    return DPT_OK;
}

/* All of it before anything is written: one that is lost meanwhile leaves nobody with parts. */
static dpt_status copy_to_stale(dpt_trainer *t, size_t from, bool standby, size_t *failing)
{
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    *failing = from;
    dpt_status status = make_flats(t, flats);
    if (status == DPT_OK) status = read_source(t, failing, flats);
    if (status == DPT_OK) status = repair_all(t, standby, flats, failing);
    dpti_trainer_free_state_buffers(flats);
    return status;
}

/* The error of a device, as it left it. */
static const dpt_error *error_of(const dpt_trainer *t, size_t rank)
{
    const dpti_worker *w = &t->workers[rank];
    return dpti_is_hung(w) ? &w->hung_error : dpti_device_error(w->device);
}

/* A device that has no memory to be written, or read, goes: the others' training does not end for
   it.  DPT_E_CANCELLED; or the lack of memory, if it is the host's, or nobody can go on. */
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
        n_stale += is_due(&t->workers[i], standby);
    if (t->processes && t->lost) return DPT_OK;
    if (n_stale == 0 && dpti_trainer_n_lost(t) < t->n_workers) return DPT_OK;
    const size_t from = find_source(t);
    t->lost = from == t->n_workers || dpti_trainer_n_lost(t) == t->n_workers;
    if (t->lost) return DPT_OK;
    const dpt_status status = copy_to_stale(t, from, standby, &failing);
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

dpt_status dpti_trainer_read_state_buffers(dpt_trainer *trainer,
                                           float *flats[DPTI_MAX_STATE_BUFFERS])
{
    dpt_trainer *t = trainer;
    DPT_TRY(make_flats(t, flats));
    for (;;) {
        size_t from = find_source(t);
        if (from == t->n_workers)
            return dpt_fail(t->context, DPT_E_STATE, "no device holds trusted weights any more");
        const dpt_status status = read_source(t, &from, flats);
        if (!dpti_is_loss(status)) return status;
        DPT_TRY(dpti_trainer_lose_one(t, from, error_of(t, from)));
    }
}

dpt_status dpti_trainer_write_state_buffers(dpt_trainer *trainer, size_t rank,
                                            float *const flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(trainer); k++)
        DPT_TRY(dpti_trainer_write(trainer, rank, lasting[k], flats[k]));
    dpti_worker *w = &trainer->workers[rank];
    dpti_membership_replica(&w->member, DPTI_REPLICA_WRITE);
    return DPT_OK;
}

void dpti_trainer_free_state_buffers(float *flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        free(flats[k]);
        flats[k] = NULL;
    }
}

/* Writes every replica.  One that cannot be written is stale from then on; the first failure is
   returned, and the context tells of it. */
static dpt_status write_all(dpt_trainer *t, dpt_tensor_kind kind, const float *flat)
{
    dpt_error first = {.status = DPT_OK};
    t->written = true;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_lost(&t->workers[i]) || dpti_trainer_write(t, i, kind, flat) == DPT_OK)
            continue;
        dpti_membership_replica(&t->workers[i].member, DPTI_REPLICA_TEAR);
        if (first.status == DPT_OK) first = t->context->error;
    }
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

dpt_tensor_kind dpti_state_buffer_kind(size_t i)
{
    return lasting[i];
}

dpt_status dpti_trainer_adopt_state(dpt_trainer *trainer, const float *const *flats)
{
    dpt_trainer *t = trainer;
    dpt_error first = {.status = DPT_OK};
    dpti_standby_end(t);
    t->standby.retry_to = 0;
    dpti_trainer_free_state_buffers(t->last_state);
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpti_membership_replica(&w->member,
                                dpti_is_lost(w) ? DPTI_REPLICA_DISCARD : DPTI_REPLICA_WRITE);
    }
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++)
        if (write_all(t, lasting[k], flats[k]) != DPT_OK && first.status == DPT_OK)
            first = t->context->error;
    t->lost = dpti_trainer_trusted(t) == t->n_workers;
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

dpt_status dpti_trainer_adopt(dpt_trainer *trainer, const float *weights, const float *zeros)
{
    trainer->optimizer_origin = trainer->done.step;
    if (dpti_packs(trainer))
        memset(trainer->feedback.residual, 0,
               trainer->feedback.count * sizeof *trainer->feedback.residual);
    return dpti_trainer_adopt_state(trainer, (const float *const[]){weights, zeros, zeros});
}

/* Reads from the first replica that can be read; errors[i]: what those before it said that are lost
   by it, which those that are short of memory for a moment are not. */
static dpt_status read_first(dpt_trainer *t, size_t n_kinds, float *const *flats,
                             const dpt_error **errors)
{
    dpt_status status = DPT_E_STATE;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_stale(&t->workers[i])) continue;
        status = read_replica(t, i, n_kinds, flats);
        if (status == DPT_E_NO_MEMORY) continue;
        if (!dpti_is_loss(status)) return status;
        if (t->stop_on_loss && !t->salvage && status != DPT_E_DEVICE_LOST) return status;
        if (!dpti_is_lost(&t->workers[i])) errors[i] = error_of(t, i);
    }
    return status;
}

/* Where one device alone has the weights, those that rest, or have just woken up, get them before
   they are read, so that somebody has them if it is lost meanwhile; where nobody has, theirs are
   gone on from. */
static dpt_status spare(dpt_trainer *t)
{
    size_t n_trusted = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n_trusted += !dpti_is_stale(&t->workers[i]);
    if (n_trusted > 1) return DPT_OK;
    if (t->processes || t->stop_on_loss || t->salvage || t->n_in_flight > 0) return DPT_OK;
    DPT_TRY(dpti_trainer_refresh(t));
    return dpti_trainer_catch_up(t);
}

dpt_status dpti_trainer_read_trusted(dpt_trainer *trainer, size_t n_kinds, float *const *flats)
{
    dpt_trainer *t = trainer;
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    bool any = false;
    if (t->last_state[0]) {
        for (size_t k = 0; k < n_kinds; k++)
            memcpy(flats[k], t->last_state[k], t->model->flat_size * sizeof *flats[k]);
        return DPT_OK;
    }
    DPT_TRY(spare(t));
    if (dpti_trainer_trusted(t) == t->n_workers)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights: nothing to save");
    DPT_TRY(read_first(t, n_kinds, flats, errors));
    for (size_t i = 0; i < t->n_workers; i++)
        any = any || errors[i];
    t->standby.stays = true;
    const dpt_status status =
        any && !t->salvage && !t->stop_on_loss ? dpti_trainer_lose(t, errors) : DPT_OK;
    t->standby.stays = false;
    return status;
}

/* ---- Tensors by name ------------------------------------------------------------------------- */

static dpt_status find(dpt_trainer *t, const char *name, size_t size, const dpti_parameter **out)
{
    const dpti_parameter *p = dpti_model_parameter(t->model, name);
    if (!p)
        return dpt_fail(t->context, DPT_E_NOT_FOUND, "model %s has no tensor %s", t->model->name,
                        name);
    if (p->size != size)
        return dpt_fail(t->context, DPT_E_INVALID, "tensor %s has %zu elements, not %zu", name,
                        p->size, size);
    *out = p;
    return DPT_OK;
}

static dpt_status known_kind(dpt_trainer *t, dpt_tensor_kind kind)
{
    if (kind >= DPT_PARAMETER && kind <= DPT_SQUARES) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "unknown kind of tensor %d", (int)kind);
}

/* Who has that of the last step: this device, or another one if it rested then. */
static size_t find_gradient(const dpt_trainer *t, size_t rank)
{
    const size_t step = t->done.step;
    if (t->workers[rank].last_step == step) return rank;
    for (size_t i = 0; i < t->n_workers; i++)
        if (t->workers[i].last_step == step && !dpti_is_lost(&t->workers[i]) &&
            !dpti_is_stale(&t->workers[i]))
            return i;
    return rank;
}

dpt_status dpt_trainer_get(dpt_trainer *trainer, size_t device, dpt_tensor_kind kind,
                           const char *name, float *out, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_get"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    size_t rank;
    DPT_TRY(dpti_trainer_own_device(t, device, &rank));
    if (dpti_is_stale(&t->workers[rank]) &&
        !dpti_is_lost(&t->workers[rank])) { /* it rests, or has just been woken */
        DPT_TRY(dpti_trainer_refresh(t));
        DPT_TRY(dpti_trainer_catch_up(t));
    }
    if (dpti_is_lost(&t->workers[rank]))
        return dpt_fail(t->context, DPT_E_DEVICE_LOST, "device %s is lost",
                        t->workers[rank].device->id);
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    if (kind == DPT_GRADIENT) rank = find_gradient(t, rank);
    const dpt_status status = dpti_trainer_read(t, rank, kind, flat);
    if (status == DPT_OK) dpti_parameter_export(p, flat + p->offset, out);
    free(flat);
    return status;
}

dpt_status dpt_trainer_set(dpt_trainer *trainer, dpt_tensor_kind kind, const char *name,
                           const float *values, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_check_idle(t, "dpt_trainer_set"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    DPT_TRY(dpti_trainer_refresh(t)); /* of all, since what is not written stays */
    DPT_TRY(dpti_trainer_catch_up(t));
    if (t->lost)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights any more: load a checkpoint");
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    dpt_status status = dpti_trainer_read(t, dpti_trainer_trusted(t), kind, flat);
    if (status == DPT_OK) {
        dpti_parameter_import(p, values, flat + p->offset);
        status = write_all(t, kind, flat);
    }
    free(flat);
    return status;
}
