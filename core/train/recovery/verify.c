/* Replicas that drift apart (verify.h). */
#include "train/recovery/verify.h"
#include "device/buffer.h"
#include "device/stream.h"

#include "base/floats.h"
#include "device/dispatch.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

/* ---- Hashing, on the driver ------------------------------------------------------------------ */

static const dpti_buffer *state_buffer(const dpti_worker *w, size_t k)
{
    const dpti_replica *r = &w->replica;
    const dpti_buffer *buffers[DPTI_MAX_STATE_BUFFERS] = {&r->parameters, &r->velocity,
                                                          &r->squares};
    return buffers[k];
}

dpt_status dpti_verify_create(dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    void *host = NULL;
    if (t->verify_every == 0 || dpti_host_pointer(&worker->replica.parameters)) return DPT_OK;
    DPT_TRY(dpti_host_alloc(worker->device, t->model->flat_size * sizeof(float), &host));
    worker->verified = host;
    return DPT_OK;
}

void dpti_verify_destroy(dpti_worker *worker)
{
    float *verified = worker->verified;
    worker->verified = NULL;
    dpti_host_free(worker->device, verified);
}

/* The earlier step's work has passed: its job ended with a sync. */
static dpt_status hash_replica(const dpti_worker *w, uint64_t *out)
{
    const size_t n = w->trainer->model->flat_size;
    uint64_t hash = 0;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(w->trainer); k++) {
        const dpti_buffer *buffer = state_buffer(w, k);
        const float *values = w->verified;
        if (w->verified) {
            DPT_TRY(dpti_download(w->verified, buffer, 0, n * sizeof *values));
            DPT_TRY(dpti_sync(w->device));
        } else {
            DPT_TRY(dpti_begin_call(w->device)); /* it may be lost since its last step */
            values = dpti_host_pointer(buffer);
        }
        hash = dpti_hash_floats(values, n, hash);
    }
    *out = hash;
    return DPT_OK;
}

/* Those that are there, and the same in all drivers: by what stands in the flight. */
static bool is_due(const dpti_share *share)
{
    const dpt_trainer *t = share->worker->trainer;
    return t->verify_every > 0 && share->step > 1 && share->step != t->settled_step &&
           (share->step - 1) % t->verify_every == 0 && dpti_trainer_n_present(t) > 1;
}

static bool all_alike(const dpt_trainer *t, const dpti_in_flight_step *inflight, size_t rank)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i]) &&
            inflight->shares[i].hash != inflight->shares[rank].hash)
            return false;
    return true;
}

dpt_status dpti_verify_run(dpti_share *share, dpt_status *mine)
{
    const dpti_worker *w = share->worker;
    const dpt_trainer *t = w->trainer;
    if (!is_due(share)) return DPT_OK;
    if (*mine == DPT_OK) *mine = hash_replica(w, &share->hash);
    if (dpti_rendezvous_meet(t->checks, w->rank, *mine) != DPT_OK) return DPT_E_CANCELLED;
    share->diverged = !all_alike(t, &t->slots[(share->step - 1) % DPTI_STEP_SLOTS], w->rank);
    return share->diverged ? DPT_E_CANCELLED : DPT_OK;
}

/* ---- Deciding, on the caller's thread -------------------------------------------------------- */

bool dpti_verify_failed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (inflight->shares[i].diverged) return true;
    return false;
}

/* Alike with this one, itself among them. */
static size_t count_alike(const dpt_trainer *t, const dpti_in_flight_step *inflight, size_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n += !dpti_sits_out(&t->workers[i]) &&
             inflight->shares[i].hash == inflight->shares[rank].hash;
    return n;
}

/* Reads what lasts, one kind after the other, into flat. */
static bool is_finite(dpt_trainer *t, size_t rank, float *flat)
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++)
        if (dpti_trainer_read(t, rank, dpti_state_buffer_kind(k), flat) != DPT_OK ||
            !dpti_all_finite(flat, t->model->flat_size))
            return false;
    return true;
}

/* The first of the good ones. */
static size_t find_good(dpt_trainer *t, const dpti_in_flight_step *inflight, float *flat)
{
    size_t most = 0, first = t->n_workers;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_sits_out(&t->workers[i])) continue;
        const size_t n = count_alike(t, inflight, i);
        if (n > most) first = i;
        if (n > most) most = n;
    }
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i]) && count_alike(t, inflight, i) == most &&
            is_finite(t, i, flat))
            return i;
    return first;
}

/* The same numbers, each rounded a few hundred times more or less: far from what a flipped bit in
   an exponent or in the upper half of a mantissa makes of one. */
static const float rounding = 1e-4f;

static bool alike_within_rounding(const float *a, const float *b, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)a[i] * (double)a[i];
    const float typical = (float)sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= rounding * (fabsf(a[i]) + typical))) return false;
    return true;
}

/* Whether a replica has to be what the good one is, to the bit, or is not even close to it. */
static bool is_stray(dpt_trainer *t, size_t good, size_t rank, float *a, float *b)
{
    const dpti_device *of_good = t->workers[good].device, *device = t->workers[rank].device;
    if (device->base.backend == of_good->base.backend) return true;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++)
        if (dpti_trainer_read(t, good, dpti_state_buffer_kind(k), a) != DPT_OK ||
            dpti_trainer_read(t, rank, dpti_state_buffer_kind(k), b) != DPT_OK ||
            !alike_within_rounding(a, b, t->model->flat_size))
            return true;
    return false;
}

static void mark(dpt_trainer *t, size_t rank, size_t good, size_t n_good)
{
    const size_t n = dpti_trainer_n_present(t);
    dpt_error error = {.status = DPT_E_DEVICE};
    if (2 * n_good > n)
        (void)DPT_FAIL(&error, DPT_E_DEVICE,
                       "its replica differs from %zu of %zu that are alike; restored from %s",
                       n_good, n, t->workers[good].device->id);
    else
        (void)DPT_FAIL(&error, DPT_E_DEVICE,
                       "its replica differs, and no majority of the %zu is alike; restored from "
                       "%s, which may be the one that is wrong",
                       n, t->workers[good].device->id);
    dpti_membership_replica(&t->workers[rank].member, DPTI_REPLICA_MISS);
    dpti_trainer_note_event(t, DPT_REPLICA_RESTORED, rank, &error);
}

dpt_status dpti_verify_settle(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    float *a = dpti_trainer_make_flat(t), *b = a ? dpti_trainer_make_flat(t) : NULL;
    if (a && b) {
        const size_t good = find_good(t, inflight, a);
        const size_t n_good = count_alike(t, inflight, good);
        for (size_t i = 0; i < t->n_workers; i++)
            if (!dpti_sits_out(&t->workers[i]) &&
                inflight->shares[i].hash != inflight->shares[good].hash &&
                is_stray(t, good, i, a, b))
                mark(t, i, good, n_good);
        t->settled_step = inflight->cursor.step + 1;
    }
    const dpt_status status = a && b ? DPT_OK : DPT_E_NO_MEMORY;
    free(b);
    free(a);
    return status;
}
