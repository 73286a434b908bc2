/* Comparing replicas (verify.h). */
#include "train/replicas/verify.h"
#include "device/buffer.h"
#include "device/stream.h"

#include "base/floats.h"
#include "device/dispatch.h"
#include "train/membership/presence.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>

/* ---- Where driver threads meet --------------------------------------------------------------- */

dpt_status dpti_verify_begin(dpt_trainer *trainer, size_t every)
{
    trainer->replicas.verify_every = every;
    if (every == 0) return DPT_OK;
    trainer->replicas.checks = dpti_rendezvous_create(trainer->n_workers);
    return trainer->replicas.checks ? DPT_OK : DPT_E_NO_MEMORY;
}

void dpti_verify_end(dpt_trainer *trainer)
{
    dpti_rendezvous_destroy(trainer->replicas.checks);
}

void dpti_verify_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    if (trainer->replicas.checks)
        dpti_rendezvous_set_present(trainer->replicas.checks, rank, present);
}

void dpti_verify_break(dpt_trainer *trainer)
{
    if (trainer->replicas.checks) dpti_rendezvous_break(trainer->replicas.checks);
}

void dpti_verify_mend(dpt_trainer *trainer)
{
    if (trainer->replicas.checks) dpti_rendezvous_mend(trainer->replicas.checks);
}

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
    if (t->replicas.verify_every == 0 || dpti_host_pointer(&worker->replica.parameters))
        return DPT_OK;
    DPT_TRY(dpti_host_alloc(worker->device, worker->replica.parameters.n_bytes, &host));
    worker->replicas.verified = host;
    return DPT_OK;
}

void dpti_verify_destroy(dpti_worker *worker)
{
    float *verified = worker->replicas.verified;
    worker->replicas.verified = NULL;
    dpti_host_free(worker->device, verified);
}

/* Shows n elements of a buffer in host memory, from element `first` on.  The work of the step
   before is over: its job ended with a sync. */
static dpt_status show(const dpti_worker *w, dpti_place from, size_t n, const float **out)
{
    float *copy = w->replicas.verified;
    *out = copy;
    if (!copy) {
        DPT_TRY(dpti_begin_call(w->device)); /* it may be lost since its last step */
        *out = (const float *)dpti_host_pointer(from.buffer) + from.offset_bytes / sizeof(float);
        return DPT_OK;
    }
    DPT_TRY(dpti_download(copy, from.buffer, from.offset_bytes, n * sizeof *copy));
    return dpti_sync(w->device);
}

static dpt_status hash_replica(const dpti_worker *w, uint64_t *out)
{
    /* In parts the optimizer's state is not the same on all devices. */
    const size_t n_kinds =
        dpti_state_parts_on(w->trainer) ? 1 : dpti_trainer_n_state_buffers(w->trainer);
    const dpti_range shared = dpti_replica_kept(&w->replica).shared;
    uint64_t hash = 0;
    for (size_t k = 0; k < n_kinds; k++) {
        const bool gathers = w->replica.gathers;
        const size_t n = gathers ? dpti_range_size(shared)
                                 : dpti_state_elements(w->trainer, dpti_state_buffer_kind(k));
        const dpti_place from = gathers ? dpti_parameter_place(&w->replica, shared.begin)
                                        : (dpti_place){state_buffer(w, k), 0};
        const float *values;
        if (n == 0) continue;
        DPT_TRY(show(w, from, n, &values));
        hash = dpti_hash_floats(values, n, hash);
    }
    *out = hash;
    return DPT_OK;
}

/* Compares the weights that no other device has with the mirror. */
static dpt_status compare_own(const dpti_worker *w, dpti_shard *shard)
{
    const dpti_range own = dpti_replica_kept(&w->replica).own;
    const size_t n = dpti_range_size(own);
    const float *values;
    shard->spoilt = false;
    if (!w->replica.gathers || n == 0) return DPT_OK;
    DPT_TRY(show(w, dpti_parameter_place(&w->replica, own.begin), n, &values));
    shard->spoilt = !dpti_state_parts_have(w->trainer, own, values);
    return DPT_OK;
}

/* Whether replicas are compared in this step.  The same on all driver threads: it depends on the
   shard, on options and on presence alone. */
static bool is_due(const dpti_shard *shard)
{
    const dpt_trainer *t = shard->worker->trainer;
    return t->replicas.verify_every > 0 && shard->step > 1 &&
           shard->step != t->replicas.settled_step &&
           (shard->step - 1) % t->replicas.verify_every == 0 && dpti_trainer_n_present(t) > 1;
}

static bool all_alike(const dpt_trainer *t, const dpti_in_flight_step *inflight, size_t rank)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i]) &&
            (inflight->jobs[i].spoilt || inflight->jobs[i].hash != inflight->jobs[rank].hash))
            return false;
    return true;
}

dpt_status dpti_verify_run(dpti_shard *shard, dpt_status *mine)
{
    const dpti_worker *w = shard->worker;
    const dpt_trainer *t = w->trainer;
    if (!is_due(shard)) return DPT_OK;
    if (*mine == DPT_OK) *mine = hash_replica(w, &shard->hash);
    if (*mine == DPT_OK) *mine = compare_own(w, shard);
    if (dpti_rendezvous_meet(t->replicas.checks, w->rank, *mine) != DPT_OK) return DPT_E_CANCELLED;
    shard->diverged = !all_alike(t, dpti_steps_step(w->trainer, shard->step), w->rank);
    return shard->diverged ? DPT_E_CANCELLED : DPT_OK;
}
