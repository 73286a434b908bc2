/* Gradients that are not finite, and what the caller is told about them (finite.h). */
#include "train/compute/finite.h"
#include "context/context.h"

#include "dpt_error.h"
#include "train/components/finite_check.h"
#include "train/components/outcome.h"
#include "train/exchange/exchange.h"
#include "train/exchange/looks.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/peers/outcomes.h"
#include "train/peers/peers.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- A device's checks of its own ------------------------------------------------------------ */

dpt_status dpti_worker_create_finite(dpti_worker *worker)
{
    const dpti_replica *r = &worker->replica;
    /* Sums that are divided are checked where they are computed. */
    const size_t n = r->windowed ? 0 : r->model->flat_gradients;
    return dpti_finite_create(r, 0, n, &worker->compute.finite);
}

void dpti_worker_destroy_finite(dpti_worker *worker)
{
    dpti_looks_destroy(worker);
    dpti_finite_destroy(&worker->compute.finite);
}

size_t dpti_worker_finite_bytes(const dpti_worker *worker)
{
    return worker->compute.finite.found.n_bytes;
}

/* The i-th check that a device makes behind a segment. */
static const dpti_finite *look_of(const dpti_worker *w, size_t segment, size_t i)
{
    static const dpti_finite none;
    if (dpti_in_island(w)) {
        const dpti_finite *looks = dpti_looks_at(w, segment);
        return looks ? &looks[i] : &none;
    }
    const bool ends = w->train.program.segments[segment].exchange == DPTI_EXCHANGE_GRADIENTS;
    return ends && i == 0 && dpti_is_alone(w) ? &w->compute.finite : &none;
}

dpt_status dpti_worker_look(const dpti_worker *worker, size_t segment)
{
    for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
        DPT_TRY(dpti_finite_enqueue(look_of(worker, segment, i)));
    return DPT_OK;
}

bool dpti_worker_saw_finite(const dpti_worker *worker, size_t segment)
{
    for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
        if (!dpti_finite_all(look_of(worker, segment, i))) return false;
    return true;
}

/* ---- What is said ---------------------------------------------------------------------------- */

static const char *is_or_are(const char *flaw)
{
    return strcmp(flaw, "loss") == 0 ? "is" : "are";
}

dpt_status dpti_trainer_diverges(dpt_error *error, const char *flaw, size_t step, float lr)
{
    return DPT_FAIL(error, DPT_E_NOT_FINITE,
                    "the %s of step %zu %s not finite: training diverges; lower the learning rate "
                    "(now %g) or check the data",
                    flaw, step, is_or_are(flaw), (double)lr);
}

/* As many names as fit. */
static void name_failing_ranks(const dpt_trainer *t, const dpti_in_flight_step *inflight,
                               char *names, size_t n_bytes)
{
    size_t length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < t->n_devices && length < n_bytes; i++) {
        const dpti_peer *peer = dpti_peers_device(t, i);
        const char *separator = length > 0 ? ", " : "";
        if (inflight->outcomes[i].status != DPT_E_NOT_FINITE) continue;
        const int n = t->processes
                          ? snprintf(names + length, n_bytes - length, "%s%s of process %zu (%s)",
                                     separator, peer->id, peer->process, peer->host)
                          : snprintf(names + length, n_bytes - length, "%s%s", separator, peer->id);
        length += n > 0 ? (size_t)n : 0;
    }
}

dpt_status dpti_trainer_fail_not_finite(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    size_t n_failing = 0, n_contributing = 0;
    const char *flaw = "numbers"; /* of the first one */
    dpt_error error = {.status = DPT_OK};
    dpti_peers_take(t, inflight);
    for (size_t i = 0; i < t->n_devices; i++) {
        const dpti_outcome *outcome = &inflight->outcomes[i];
        n_contributing += inflight->shards[i] > 0;
        if (outcome->status != DPT_E_NOT_FINITE) continue;
        if (n_failing++ == 0) flaw = outcome->flaw;
    }
    (void)dpti_trainer_diverges(&error, flaw, inflight->cursor.step + 1, inflight->lr);
    /* All of them, or the sum of what each has: it is the training. */
    if (n_failing == n_contributing) return dpti_context_fail(t->context, NULL, &error);
    for (size_t i = 0; i < t->n_devices; i++)
        if (inflight->outcomes[i].status == DPT_E_NOT_FINITE)
            dpti_trainer_note_event(t, DPT_DEVICE_NOT_FINITE, i, &error);
    char names[200];
    name_failing_ranks(t, inflight, names, sizeof names);
    (void)DPT_FAIL(&error, DPT_E_NOT_FINITE,
                   "device%s %s: the %s of step %zu %s not finite there, and finite on the other "
                   "device%s: leave %s out if that comes again, or lower the learning rate (now "
                   "%g) or check the data",
                   n_failing == 1 ? "" : "s", names, flaw, inflight->cursor.step + 1,
                   is_or_are(flaw), n_contributing - n_failing == 1 ? "" : "s",
                   n_failing == 1 ? "it" : "them", (double)inflight->lr);
    return dpti_context_fail(t->context, NULL, &error);
}
