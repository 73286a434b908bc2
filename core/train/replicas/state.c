/* Reading and writing the training state of replicas (state.h). */
#include "train/replicas/state.h"

#include "base/left_behind.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "train/components/membership.h"
#include "train/exchange/exchange.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/rounds/rounds.h"
#include "train/standby/standby.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- Flat buffers ---------------------------------------------------------------------------- */

/* The most elements that are copied at once: 16 MiB.  A buffer for all of them would take as much
   memory as the weights take. */
enum { PIECE = 4 << 20 };

/* In one piece with its host memory: if the device hangs it is the device's. */
typedef struct flat_job {
    const dpti_buffer *buffer;
    bool read;
    size_t begin_bytes, n_bytes; /* in the buffer */
    dpt_status status;
    float values[];
} flat_job;

static dpt_status transfer(flat_job *job)
{
    if (job->read)
        DPT_TRY(dpti_download(job->values, job->buffer, job->begin_bytes, job->n_bytes));
    else
        DPT_TRY(dpti_upload(job->buffer, job->begin_bytes, job->values, job->n_bytes));
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

/* Runs it and takes what it has read: the device's status.  On DPT_OK the caller still has the job;
   otherwise it is gone. */
static dpt_status run_and_take(dpt_trainer *t, size_t rank, flat_job *job, float *read)
{
    dpti_worker *w = &t->workers[rank];
    if (!dpti_trainer_call(t, rank, run_transfer, job)) {
        dpti_leave_behind(job);
        return dpti_trainer_fail(t, w->device, dpti_hung_error(w));
    }
    if (job->status == DPT_OK) {
        if (read) memcpy(read, job->values, job->n_bytes);
        return DPT_OK;
    }
    free(job);
    return dpti_trainer_fail(t, w->device, dpti_device_error(w->device));
}

/* One of the two: where what is read goes, or what is written. */
typedef struct ends {
    float *read;
    const float *write;
    size_t n; /* elements */
} ends;

/* Copies between the ends and the beginning of a buffer, piece by piece. */
static dpt_status move_pieces(dpt_trainer *t, size_t rank, const dpti_buffer *buffer, ends e)
{
    const size_t most = e.n < PIECE ? e.n : PIECE;
    flat_job *job = malloc(sizeof *job + most * sizeof(float));
    if (!job) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a copy of the weights");
    for (size_t begin = 0, n; begin < e.n; begin += n) {
        n = e.n - begin < most ? e.n - begin : most;
        *job = (flat_job){.buffer = buffer,
                          .read = e.read != NULL,
                          .begin_bytes = begin * sizeof(float),
                          .n_bytes = n * sizeof(float)};
        if (e.write) memcpy(job->values, e.write + begin, job->n_bytes);
        DPT_TRY(run_and_take(t, rank, job, e.read ? e.read + begin : NULL));
    }
    free(job);
    return DPT_OK;
}

static const float *view_of(const dpti_worker *w, dpt_tensor_kind kind)
{
    switch (kind) {
    case DPT_PARAMETER: return w->replicas.views[0];
    case DPT_VELOCITY: return w->replicas.views[1];
    case DPT_SQUARES: return w->replicas.views[2];
    case DPT_GRADIENT: break;
    }
    return NULL;
}

static dpt_status move(dpt_trainer *t, size_t rank, dpt_tensor_kind kind, ends e)
{
    const dpti_worker *w = &t->workers[rank];
    const dpti_buffer *buffer = buffer_of(&w->replica, kind);
    /* A device that was lost while its worker was created has no replica. */
    if (!buffer->handle && dpti_is_lost(w))
        return dpti_trainer_fail(t, w->device, dpti_device_error(w->device));
    if (!buffer->handle)
        return dpt_fail(t->context, DPT_E_NOT_FOUND, "there is no %s: this optimizer has none",
                        kind == DPT_VELOCITY ? "velocity" : "second moment");
    const dpt_status status = move_pieces(t, rank, buffer, e);
    const float *view = view_of(w, kind);
    if (status == DPT_OK || !t->replicas.salvage || !e.read || !view) return status;
    memcpy(e.read, view, e.n * sizeof(float));
    return DPT_OK;
}

/* Whether the host has what replicas have in parts: the optimizer's state, if there is any. */
static bool is_in_parts(const dpt_trainer *t, dpt_tensor_kind kind)
{
    return dpti_state_parts_on(t) &&
           (kind == DPT_VELOCITY ||
            (kind == DPT_SQUARES && dpti_trainer_n_state_buffers(t) == DPTI_MAX_STATE_BUFFERS));
}

/* Reads the sums that a device has of divided gradients; all have those behind the parameters. */
static dpt_status read_sums(dpt_trainer *t, size_t rank, ends e)
{
    const dpti_replica *r = &t->workers[rank].replica;
    const size_t n_own = r->sums_end - r->sums_begin, trained = t->model->flat_trained;
    const size_t n_bytes = (n_own + e.n - trained) * sizeof(float);
    if (n_bytes == 0) return DPT_OK;
    float *values = malloc(n_bytes);
    if (!values) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a copy of gradients");
    const dpt_status status =
        move_pieces(t, rank, &r->sums, (ends){.read = values, .n = n_bytes / sizeof *values});
    if (status == DPT_OK) {
        memcpy(e.read + r->sums_begin, values, n_own * sizeof *values);
        memcpy(e.read + trained, values + n_own, (e.n - trained) * sizeof *values);
    }
    free(values);
    return status;
}

/* Gradients whose sums are divided. */
static dpt_status move_sums(dpt_trainer *t, ends e)
{
    if (!e.read)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "gradients that devices have in parts are not written");
    if (t->processes)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "gradients that devices of several processes have in parts are not read");
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_is_lost(&t->workers[i])) DPT_TRY(read_sums(t, i, e));
    return DPT_OK;
}

/* Parameters that are in parts.  Those that the device does not keep are read from the mirror, and
   are not written. */
static dpt_status move_kept(dpt_trainer *t, size_t rank, ends e)
{
    const dpti_kept_parameters k = dpti_replica_kept(&t->workers[rank].replica);
    const size_t n_own = dpti_range_size(k.own), n = n_own + dpti_range_size(k.shared);
    float *values = calloc(n + 1, sizeof *values);
    if (!values) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a copy of parameters");
    if (e.write) {
        memcpy(values, e.write + k.own.begin, n_own * sizeof *values);
        memcpy(values + n_own, e.write + k.shared.begin, (n - n_own) * sizeof *values);
    }
    const ends compact = {e.read ? values : NULL, e.read ? NULL : values, n};
    const dpt_status status = n > 0 ? move(t, rank, DPT_PARAMETER, compact) : DPT_OK;
    if (status == DPT_OK && e.read) {
        dpti_state_parts_read(t, DPT_PARAMETER, e.read, e.n);
        memcpy(e.read + k.own.begin, values, n_own * sizeof *values);
        memcpy(e.read + k.shared.begin, values + n_own, (n - n_own) * sizeof *values);
    }
    free(values);
    return status;
}

/* The same where the optimizer's state may be in parts: it is read from the mirror, and of what
   is written a device gets its part. */
static dpt_status move_part(dpt_trainer *t, size_t rank, dpt_tensor_kind kind, ends e)
{
    const dpti_state_part *part = &t->workers[rank].replicas.part;
    if (kind == DPT_GRADIENT && t->workers[rank].replica.windowed) return move_sums(t, e);
    if (kind == DPT_PARAMETER && t->workers[rank].replica.gathers) return move_kept(t, rank, e);
    if (!is_in_parts(t, kind)) return move(t, rank, kind, e);
    if (e.read) {
        dpti_state_parts_read(t, kind, e.read, e.n);
        return DPT_OK;
    }
    if (part->begin == part->end) return DPT_OK;
    return move(t, rank, kind,
                (ends){.write = e.write + part->begin, .n = part->end - part->begin});
}

dpt_status dpti_trainer_read(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind, float *flat)
{
    return move_part(trainer, rank, kind,
                     (ends){.read = flat, .n = dpti_state_elements(trainer, kind)});
}

dpt_status dpti_trainer_read_saved(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind,
                                   float *flat)
{
    return move_part(trainer, rank, kind,
                     (ends){.read = flat, .n = dpti_saved_elements(trainer, kind)});
}

dpt_status dpti_trainer_write(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind,
                              const float *flat)
{
    return move_part(trainer, rank, kind,
                     (ends){.write = flat, .n = dpti_state_elements(trainer, kind)});
}

dpt_status dpti_trainer_write_state_buffers(dpt_trainer *trainer, size_t rank,
                                            float *const flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(trainer); k++)
        DPT_TRY(dpti_trainer_write(trainer, rank, dpti_state_buffer_kind(k), flats[k]));
    dpti_worker *w = &trainer->workers[rank];
    dpti_change_replica(w, DPTI_REPLICA_WRITE);
    return DPT_OK;
}

/* Writes every replica.  One that cannot be written is stale from then on; the first failure is
   returned, and the context tells of it. */
static dpt_status write_all(dpt_trainer *t, dpt_tensor_kind kind, ends e)
{
    dpt_error first = {.status = DPT_OK};
    dpti_peers_note_written(t);
    dpti_state_parts_write(t, kind, e.write, e.n);
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_lost(&t->workers[i]) || move_part(t, i, kind, e) == DPT_OK) continue;
        dpti_change_replica(&t->workers[i], DPTI_REPLICA_TEAR);
        if (first.status == DPT_OK) first = t->context->error;
    }
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

dpt_status dpti_trainer_write_all(dpt_trainer *trainer, dpt_tensor_kind kind, const float *flat)
{
    const size_t n = dpti_state_elements(trainer, kind);
    if (kind == DPT_PARAMETER) trainer->replicas.base_hash[0] = '\0';
    return write_all(trainer, kind, (ends){.write = flat, .n = n});
}

dpt_status dpti_trainer_write_saved(dpt_trainer *trainer, dpt_tensor_kind kind, const float *flat)
{
    return write_all(trainer, kind, (ends){.write = flat, .n = dpti_saved_elements(trainer, kind)});
}

static dpt_status adopt_state(dpt_trainer *t, const float *const *flats, bool saved)
{
    dpt_error first = {.status = DPT_OK};
    dpti_standby_end(t);
    dpti_standby_forget_retries(t);
    dpti_trainer_free_state_buffers(t->replicas.last_state);
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpti_change_replica(w, dpti_is_lost(w) ? DPTI_REPLICA_DISCARD : DPTI_REPLICA_WRITE);
    }
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        const dpt_status status = saved ? dpti_trainer_write_saved(t, kind, flats[k])
                                        : dpti_trainer_write_all(t, kind, flats[k]);
        if (status != DPT_OK && first.status == DPT_OK) first = t->context->error;
    }
    t->replicas.lost = dpti_trainer_trusted(t) == t->n_workers;
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

dpt_status dpti_trainer_adopt_state(dpt_trainer *trainer, const float *const *flats)
{
    return adopt_state(trainer, flats, false);
}

dpt_status dpti_trainer_adopt_saved(dpt_trainer *trainer, const float *const *flats)
{
    return adopt_state(trainer, flats, true);
}

dpt_status dpti_trainer_adopt(dpt_trainer *trainer, const float *weights, const float *zeros,
                              bool saved)
{
    trainer->replicas.optimizer_origin = dpti_steps_done(trainer)->step;
    dpti_exchange_clear_feedback(trainer);
    dpti_rounds_restart(trainer);
    return adopt_state(trainer, (const float *const[]){weights, zeros, zeros}, saved);
}
