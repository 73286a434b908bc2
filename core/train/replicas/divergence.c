/* Deciding which replicas are good, on the caller's thread (divergence.h). */
#include "train/replicas/divergence.h"

#include "base/floats.h"
#include "dpt_error.h"
#include "train/components/membership.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>

bool dpti_verify_failed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (inflight->jobs[i].diverged) return true;
    return false;
}

/* How many replicas have this one's hash, itself among them. */
static size_t count_alike(const dpt_trainer *t, const dpti_in_flight_step *inflight, size_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n += !dpti_sits_out(&t->workers[i]) && inflight->jobs[i].hash == inflight->jobs[rank].hash;
    return n;
}

/* Reads the training state, one kind after the other, into flat. */
static bool is_finite(dpt_trainer *t, size_t rank, float *flat)
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        if (dpti_trainer_read(t, rank, kind, flat) != DPT_OK ||
            !dpti_all_finite(flat, dpti_state_elements(t, kind)))
            return false;
    }
    return true;
}

/* Whether the replica is not known to be wrong. */
static bool may_be_good(const dpt_trainer *t, const dpti_in_flight_step *inflight, size_t rank)
{
    return !dpti_sits_out(&t->workers[rank]) && !inflight->jobs[rank].spoilt;
}

/* The first of the good replicas; n_workers: all are spoilt. */
static size_t find_good(dpt_trainer *t, const dpti_in_flight_step *inflight, float *flat)
{
    size_t most = 0, first = t->n_workers;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (!may_be_good(t, inflight, i)) continue;
        const size_t n = count_alike(t, inflight, i);
        if (n > most) first = i;
        if (n > most) most = n;
    }
    for (size_t i = 0; i < t->n_workers; i++)
        if (may_be_good(t, inflight, i) && count_alike(t, inflight, i) == most &&
            is_finite(t, i, flat))
            return i;
    return first;
}

/* Two replicas of unlike backends differ by rounding: by some hundred roundings at most.  A flipped
   bit in an exponent, or in the upper half of a mantissa, makes a larger difference. */
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

/* Whether a replica differs that must have the good one's bits, or is not even close to it. */
static bool is_stray(dpt_trainer *t, size_t good, size_t rank, float *const flats[2])
{
    float *a = flats[0], *b = flats[1];
    const dpti_device *of_good = t->workers[good].device, *device = t->workers[rank].device;
    if (device->base.backend == of_good->base.backend) return true;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        if (dpti_trainer_read(t, good, kind, a) != DPT_OK ||
            dpti_trainer_read(t, rank, kind, b) != DPT_OK ||
            !alike_within_rounding(a, b, dpti_state_elements(t, kind)))
            return true;
    }
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
    dpti_change_replica(&t->workers[rank], DPTI_REPLICA_MISS);
    dpti_trainer_note_event(t, DPT_REPLICA_RESTORED, rank, &error);
}

/* The mirror has what this device alone has changed. */
static void mark_spoilt(dpt_trainer *t, size_t rank)
{
    dpt_error error = {.status = DPT_E_DEVICE};
    (void)DPT_FAIL(&error, DPT_E_DEVICE,
                   "its part of the parameters differs from the host's copy, from which it is "
                   "restored");
    dpti_change_replica(&t->workers[rank], DPTI_REPLICA_MISS);
    dpti_trainer_note_event(t, DPT_REPLICA_RESTORED, rank, &error);
}

dpt_status dpti_verify_settle(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    float *a = dpti_trainer_make_flat(t), *b = a ? dpti_trainer_make_flat(t) : NULL;
    if (a && b) {
        const size_t good = find_good(t, inflight, a);
        const size_t n_good = good < t->n_workers ? count_alike(t, inflight, good) : 0;
        for (size_t i = 0; i < t->n_workers; i++)
            if (!dpti_sits_out(&t->workers[i]) && inflight->jobs[i].spoilt)
                mark_spoilt(t, i);
            else if (!dpti_sits_out(&t->workers[i]) &&
                     inflight->jobs[i].hash != inflight->jobs[good].hash &&
                     is_stray(t, good, i, (float *const[]){a, b}))
                mark(t, i, good, n_good);
        t->replicas.settled_step = inflight->cursor.step + 1;
    }
    const dpt_status status = a && b ? DPT_OK : DPT_E_NO_MEMORY;
    free(b);
    free(a);
    return status;
}
