/* What came of steps, told between processes (outcomes.h). */
#include "train/peers/outcomes.h"

#include "context/context.h"
#include "dpt_error.h"
#include "train/components/checksum.h"
#include "train/components/outcome.h"
#include "train/membership/presence.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static dpti_outcome outcome_of(const dpti_shard *shard)
{
    dpti_outcome o = {.status = shard->status,
                      .committed = shard->committed,
                      .loss = shard->loss,
                      .exact_loss = shard->exact_loss,
                      .hits = shard->hits,
                      .first_run = shard->first_run};
    memcpy(o.seconds, shard->times.seconds, sizeof o.seconds);
    if (shard->flaw) snprintf(o.flaw, sizeof o.flaw, "%s", shard->flaw);
    return o;
}

void dpti_peers_take(const dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    if (trainer->processes) return;
    for (size_t i = 0; i < trainer->n_workers; i++)
        inflight->outcomes[i] = outcome_of(&inflight->jobs[i]);
    inflight->outcomes[0].data_seconds = inflight->data_seconds;
}

/* Whether what failed is no device: the weights are what they were. */
static bool spares_device(const dpti_outcome *outcome)
{
    return strcmp(outcome->flaw, DPTI_FLAW_UNREAD) == 0 ||
           strcmp(outcome->flaw, DPTI_FLAW_CALLBACK) == 0;
}

/* The first device that has failed by itself; n_devices if none has. */
static size_t first_failed(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < t->n_devices; i++) {
        const dpt_status status = inflight->outcomes[i].status;
        if (status != DPT_OK && status != DPT_E_CANCELLED) return i;
    }
    return t->n_devices;
}

/* A checksum of which samples the devices of all processes have in a step, as this process knows
   it. */
static uint64_t division_of(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const uint64_t place[] = {inflight->cursor.epoch, inflight->cursor.position,
                              inflight->n_samples};
    return dpti_checksum(dpti_checksum(1, place, sizeof place), inflight->shards,
                         t->n_devices * sizeof *inflight->shards);
}

static const char *course_of(const dpti_outcome *outcome)
{
    return outcome->ends_round ? "ends the round" : "takes a step";
}

/* In what a process took another step than the first process.  If it did, no process's weights are
   of use. */
static dpt_status compare_steps(const dpti_outcome *first, const dpti_outcome *other,
                                const dpti_peer *peer, dpt_error *error)
{
    char who[2 * DPTI_ID_BYTES];
    snprintf(who, sizeof who, "process %zu (%s)", peer->process, peer->host);
    if (other->ends_round != first->ends_round)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s %s where process 0 %s: call dpt_trainer_end_round in all processes, "
                        "behind the same step",
                        who, course_of(other), course_of(first));
    if (other->step != first->step)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s is at step %" PRIu64 " where process 0 is at step %" PRIu64
                        ": all call a trainer alike, and load the same state",
                        who, other->step, first->step);
    if (other->weights != first->weights)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s began step %" PRIu64 " with other weights than process 0: write or "
                        "load the same in all processes",
                        who, other->step);
    if (memcmp(&other->lr, &first->lr, sizeof first->lr) != 0)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s took step %" PRIu64
                        " with learning rate %.9g, and process 0 with %.9g; give all processes "
                        "the same one",
                        who, other->step, (double)other->lr, (double)first->lr);
    if (other->division != first->division)
        return DPT_FAIL(error, DPT_E_STATE,
                        "%s divided step %" PRIu64
                        " among the devices otherwise than process 0; go on from the last "
                        "checkpoint, and report this as a defect of dptrain",
                        who, other->step);
    return DPT_OK;
}

/* Compares what the processes have told of a step. */
static dpt_status compare_processes(const dpt_trainer *t, const dpti_outcome *outcomes,
                                    dpt_error *error)
{
    for (size_t r = 1; r < dpti_processes_count(t->processes); r++) {
        const size_t i = t->peers.firsts[r];
        DPT_TRY(compare_steps(&outcomes[0], &outcomes[i], &t->peers.items[i], error));
    }
    return DPT_OK;
}

/* Whether all processes took the same step; if not that is the step's failure. */
static bool took_the_same(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    if (!inflight->diverged)
        inflight->diverged = compare_processes(t, inflight->outcomes, &inflight->failure) != DPT_OK;
    return !inflight->diverged;
}

/* The process of the device that failed tells all others why.  For values that are not finite the
   outcomes tell enough. */
static dpt_status tell_failure(dpt_trainer *t, dpti_in_flight_step *inflight, size_t failed)
{
    inflight->failure.status = inflight->outcomes[failed].status;
    dpti_processes_know(t->processes);
    if (inflight->failure.status == DPT_E_NOT_FINITE) return DPT_OK;
    const bool own = failed >= t->first_device && failed - t->first_device < t->n_workers;
    dpti_gathered all = {.data = NULL};
    dpt_error error = {.status = DPT_OK};
    const char *message = own ? inflight->jobs[failed - t->first_device].error.message : "";
    DPT_TRY(dpti_processes_gather(t->processes, (dpti_bytes){message, own ? strlen(message) : 0},
                                  &all, &error));
    const dpti_peer *peer = &t->peers.items[failed];
    const bool spares = spares_device(&inflight->outcomes[failed]);
    const int length = (int)(all.begins[dpti_processes_count(t->processes)]);
    snprintf(inflight->failure.message, sizeof inflight->failure.message,
             "process %zu (%s): %s%s%s%.*s", peer->process, peer->host, spares ? "" : "device ",
             spares ? "" : peer->id, spares ? "" : ": ", length < 300 ? length : 300,
             (const char *)all.data);
    dpti_gathered_free(&all);
    return DPT_OK;
}

static dpt_status tell(dpt_trainer *t, dpti_in_flight_step *inflight, dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++)
        inflight->outcomes[t->first_device + i] = outcome_of(&inflight->jobs[i]);
    dpti_outcome *first = &inflight->outcomes[t->first_device];
    first->requests = atomic_load(&t->peers.requests);
    first->step = inflight->cursor.step + 1;
    first->weights = inflight->weights;
    first->division = division_of(t, inflight);
    first->lr = inflight->lr;
    first->data_seconds = inflight->data_seconds;
    const dpti_table table = {.data = inflight->outcomes, .begins = t->peers.outcome_begins};
    DPT_TRY(dpti_processes_share(t->processes, &table, &verdict, error));
    if (!took_the_same(t, inflight)) {
        dpti_processes_know(t->processes);
        return DPT_OK;
    }
    const size_t failed = first_failed(t, inflight);
    return failed < t->n_devices ? tell_failure(t, inflight, failed) : DPT_OK;
}

void dpti_peers_finish(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    dpt_trainer *t = w->trainer;
    dpti_in_flight_step *inflight = dpti_steps_step(t, shard->step);
    dpt_error error = {.status = DPT_OK};
    if (!dpti_step_processes(t)) return;
    /* No thread contributes a failure: the shards hold what came of them. */
    if (dpti_rendezvous_meet(t->peers.finished, w->rank, DPT_OK) != DPT_OK || w->rank != 0) return;
    if (tell(t, inflight, &error) != DPT_OK) inflight->failure = error;
}

void dpti_peers_finish_collected(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_error error = {.status = DPT_OK};
    if (trainer->local_steps == 0) return;
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (dpti_is_hung(&trainer->workers[i])) return; /* this process has given up */
    if (tell(trainer, inflight, &error) != DPT_OK) inflight->failure = error;
}

static dpt_status meet_at_end(dpt_trainer *t, dpti_outcome *outcomes, dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    const dpti_table table = {.data = outcomes, .begins = t->peers.outcome_begins};
    outcomes[t->first_device].ends_round = true;
    outcomes[t->first_device].step = dpti_steps_done(t)->step;
    DPT_TRY(dpti_processes_share(t->processes, &table, &verdict, error));
    const dpt_status status = compare_processes(t, outcomes, error);
    if (status != DPT_OK) dpti_processes_know(t->processes);
    return status;
}

dpt_status dpti_peers_meet_at_end(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpt_error error = {.status = DPT_OK};
    dpti_outcome *outcomes = calloc(t->n_devices, sizeof *outcomes);
    if (!outcomes) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to end a round");
    if (meet_at_end(t, outcomes, &error) != DPT_OK)
        (void)dpti_context_fail(t->context, NULL, &error);
    free(outcomes);
    return error.status;
}

/* Reports a device that hangs, which only this process knows. */
static dpt_status report_hung(dpt_trainer *t, size_t rank)
{
    const dpti_peer *peer = &t->peers.items[t->first_device + rank];
    const dpt_error error = *dpti_hung_error(&t->workers[rank]);
    char prefix[3 * DPTI_ID_BYTES];
    snprintf(prefix, sizeof prefix, "process %zu (%s): device %s", peer->process, peer->host,
             peer->id);
    return dpti_context_fail(t->context, prefix, &error);
}

dpt_status dpti_peers_report(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (dpti_is_hung(&trainer->workers[i])) return report_hung(trainer, i);
    if (inflight->failure.status == DPT_OK) return DPT_OK;
    if (inflight->diverged) trainer->peers.diverged = true;
    if (inflight->failure.status == DPT_E_NOT_FINITE) return DPT_E_NOT_FINITE;
    return dpti_context_fail(trainer->context, NULL, &inflight->failure);
}

bool dpti_peers_could_not_read(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    bool any = false;
    for (size_t i = 0; i < trainer->n_devices; i++) {
        const dpti_outcome *o = &inflight->outcomes[i];
        if (o->status == DPT_OK || o->status == DPT_E_CANCELLED) continue;
        if (!spares_device(o)) return false;
        any = true;
    }
    return any && !inflight->diverged;
}

void dpti_peers_take_requests(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    dpti_peers *p = &trainer->peers;
    p->agreed_requests = 0;
    for (size_t i = 0; i < trainer->n_devices; i++) {
        const unsigned requests = inflight->outcomes[i].requests;
        if (requests & ~p->agreed_requests & DPTI_RUN_REQUEST_STOP) {
            p->stopped_by = p->items[i].process;
            p->stopped_for = requests >> DPTI_RUN_CAUSE_BIT;
        }
        p->agreed_requests |= requests;
    }
}
