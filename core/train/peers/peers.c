/* What processes tell each other about a trainer, and decide together. */
#include "train/peers/peers.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/set.h"

#include "train/peers/header_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Agreeing -------------------------------------------------------------------------------- */

static dpt_status no_memory(dpt_trainer *t)
{
    return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
}

static dpt_status agree(dpt_trainer *t, dpt_status mine, const void *data, size_t n_bytes,
                        dpti_gathered *out)
{
    dpt_error error = t->context->error;
    const dpt_status status = dpti_processes_agree(t->processes, mine, data, n_bytes, out, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &error);
}

dpt_status dpti_peers_agree(dpt_trainer *trainer, dpt_status mine)
{
    return trainer->processes ? agree(trainer, mine, NULL, 0, NULL) : mine;
}

dpt_status dpti_peers_all_gather(dpt_trainer *trainer, dpt_status mine, const void *data,
                                 size_t n_bytes, dpti_gathered *out)
{
    return agree(trainer, mine, data, n_bytes, out);
}

dpt_status dpti_peers_gather(dpt_trainer *trainer, dpt_status mine, void *items, size_t item_bytes)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    uint8_t *bytes = items;
    if (!t->processes) return mine;
    DPT_TRY(agree(t, mine, bytes + t->first_device * item_bytes, t->n_workers * item_bytes, &all));
    memcpy(bytes, all.data, t->n_devices * item_bytes);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* ---- Meeting --------------------------------------------------------------------------------- */

static void describe(const dpt_trainer *t, size_t i, dpti_peer *peer)
{
    dpt_device_description d;
    dpt_device_describe(&t->devices->devices[i]->base, &d);
    *peer = (dpti_peer){.memory_bytes = d.memory_bytes, .n_threads = d.n_threads};
    snprintf(peer->id, sizeof peer->id, "%s", d.id);
    snprintf(peer->alias, sizeof peer->alias, "%s", d.alias);
    snprintf(peer->backend, sizeof peer->backend, "%s", d.backend);
    snprintf(peer->name, sizeof peer->name, "%s", d.name);
    snprintf(peer->detail, sizeof peer->detail, "%s", d.detail);
    memcpy(peer->uuid, t->devices->devices[i]->info.uuid, sizeof peer->uuid);
    memcpy(peer->pci_id, t->devices->devices[i]->info.pci_id, sizeof peer->pci_id);
    if (!t->processes) return;
    peer->process = dpti_processes_rank(t->processes);
    if (gethostname(peer->host, sizeof peer->host - 1) != 0) peer->host[0] = '\0';
}

static dpt_status meet_alone(dpt_trainer *t)
{
    t->n_devices = t->n_workers;
    t->peers = calloc(t->n_devices, sizeof *t->peers);
    if (!t->peers) return no_memory(t);
    for (size_t i = 0; i < t->n_workers; i++)
        describe(t, i, &t->peers[i]);
    return DPT_OK;
}

/* Takes over what was gathered. */
static dpt_status take_peers(dpt_trainer *t, dpti_gathered *all)
{
    const size_t n = dpti_processes_count(t->processes);
    t->firsts = calloc(n + 1, sizeof *t->firsts);
    t->outcome_begins = calloc(n + 1, sizeof *t->outcome_begins);
    t->finished = dpti_rendezvous_create(t->n_workers);
    t->peers = (dpti_peer *)(void *)all->data;
    all->data = NULL;
    if (!t->firsts || !t->outcome_begins || !t->finished) return no_memory(t);
    for (size_t r = 0; r <= n; r++) {
        t->firsts[r] = all->begins[r] / sizeof *t->peers;
        t->outcome_begins[r] = t->firsts[r] * sizeof(dpti_outcome);
    }
    t->n_devices = t->firsts[n];
    t->first_device = t->firsts[dpti_processes_rank(t->processes)];
    if (t->n_devices <= DPTI_SPLIT_MAX_DEVICES) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "the processes have %zu devices; at most %d train "
                    "together",
                    t->n_devices, DPTI_SPLIT_MAX_DEVICES);
}

dpt_status dpti_peers_meet(dpt_trainer *trainer, const dpt_trainer_options *options)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    if (!t->processes) return meet_alone(t);
    dpti_peer *mine = calloc(t->n_workers, sizeof *mine);
    for (size_t i = 0; mine && i < t->n_workers; i++)
        describe(t, i, &mine[i]);
    dpt_status status = mine ? DPT_OK : no_memory(t);
    status = agree(t, status, mine, t->n_workers * sizeof *mine, &all);
    if (status == DPT_OK) status = dpti_peers_agree(t, take_peers(t, &all));
    if (status == DPT_OK) status = dpti_header_check_trainer(t, options);
    dpti_gathered_free(&all);
    free(mine);
    return status;
}

void dpti_peers_free(dpt_trainer *trainer)
{
    dpti_rendezvous_destroy(trainer->finished);
    free(trainer->outcome_begins);
    free(trainer->firsts);
    free(trainer->peers);
}

/* A UUID is the better one: a host's name may be another host's, too. */
static bool same_hardware(const dpti_peer *a, const dpti_peer *b)
{
    static const unsigned char none[sizeof a->uuid] = {0};
    if (memcmp(a->uuid, none, sizeof none) != 0 || memcmp(b->uuid, none, sizeof none) != 0)
        return memcmp(a->uuid, b->uuid, sizeof none) == 0;
    return a->pci_id[0] && strcmp(a->host, b->host) == 0 &&
           strncmp(a->pci_id, b->pci_id, sizeof a->pci_id) == 0;
}

bool dpti_peers_are_alike(const dpt_trainer *trainer)
{
    const dpti_peer *peers = trainer->peers;
    for (size_t i = 0; i < trainer->n_devices; i++) {
        if (strcmp(peers[i].backend, peers[0].backend) != 0) return false;
        for (size_t k = 0; k < i; k++)
            if (same_hardware(&peers[i], &peers[k])) return false;
    }
    return true;
}

static uint64_t checksum_of_replay(const dpt_trainer *t)
{
    return dpti_checksum(1, t->replay.shards,
                         t->replay.n_steps * t->replay.n_devices * sizeof *t->replay.shards);
}

static dpt_status check_replay(dpt_trainer *t)
{
    const uint64_t mine = checksum_of_replay(t);
    dpti_gathered all = {.data = NULL};
    DPT_TRY(agree(t, DPT_OK, &mine, sizeof mine, &all));
    bool same = true;
    for (size_t r = 0; r < dpti_processes_count(t->processes); r++)
        same = same && memcmp(all.data + all.begins[r], all.data, sizeof mine) == 0;
    dpti_gathered_free(&all);
    return dpti_peers_agree(t, same ? DPT_OK
                                    : dpt_fail(t->context, DPT_E_INVALID,
                                               "the logs that are replayed differ; give all "
                                               "processes the same one"));
}

void dpti_peers_note(dpt_trainer *trainer, size_t rank)
{
    const dpti_worker *w = &trainer->workers[rank];
    const size_t at_once = w->replica.capacity;
    dpti_peer *peer = &trainer->peers[trainer->first_device + rank];
    const bool is_short = at_once < w->pass_limit && at_once < w->capacity; /* of memory */
    peer->capacity = dpti_is_lost(w) ? 0 : w->capacity;
    peer->at_once = dpti_is_lost(w) ? 0 : at_once;
    peer->takes_passes = !dpti_is_lost(w) && dpti_has_micro_batches(w);
    peer->pass_limit = is_short && !dpti_is_lost(w) ? at_once : w->pass_limit;
    peer->cached = w->cached && peer->takes_passes && !is_short;
    peer->streamed = w->feed.device != NULL;
}

dpt_status dpti_peers_share_capacities(dpt_trainer *trainer, dpt_status mine)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; i < t->n_workers; i++)
        dpti_peers_note(t, i);
    DPT_TRY(dpti_peers_gather(t, mine, t->peers, sizeof *t->peers));
    return t->processes && t->replay.n_steps > 0 ? check_replay(t) : DPT_OK;
}

/* ---- Weights --------------------------------------------------------------------------------- */

typedef struct beginning {
    uint64_t weights;
    uint64_t step, epoch, position;
} beginning;

static dpt_status sum_weights(dpt_trainer *t, beginning *out)
{
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY, DPT_SQUARES};
    const dpti_replica *r = &t->workers[0].replica;
    const dpti_buffer *buffers[] = {&r->parameters, &r->velocity, &r->squares};
    float *flat = dpti_trainer_make_flat(t);
    dpt_status status = flat ? DPT_OK : DPT_E_NO_MEMORY;
    *out = (beginning){
        .step = t->done.step, .epoch = t->done.epoch, .position = t->done.position, .weights = 1};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (status != DPT_OK || !buffers[k]->handle) continue;
        status = dpti_trainer_read(t, 0, kinds[k], flat);
        out->weights = dpti_checksum(out->weights, flat, t->model->flat_size * sizeof *flat);
    }
    free(flat);
    return status;
}

/* With the step they are compared. */
dpt_status dpti_peers_begin_step(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    beginning b = {.weights = 0};
    inflight->weights = 0;
    if (!t->processes || !t->written) return DPT_OK;
    DPT_TRY(sum_weights(t, &b));
    inflight->weights = b.weights | 1;
    t->written = false;
    return DPT_OK;
}

dpt_status dpti_peers_check_weights(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    beginning mine = {.step = 0}, other;
    if (!t->processes) return DPT_OK;
    const dpt_status status = sum_weights(t, &mine);
    DPT_TRY(agree(t, status, &mine, sizeof mine, &all));
    const char *what = NULL;
    for (size_t r = 1; r < dpti_processes_count(t->processes); r++) {
        memcpy(&mine, all.data, sizeof mine);
        memcpy(&other, all.data + all.begins[r], sizeof other);
        if (mine.step != other.step || mine.epoch != other.epoch || mine.position != other.position)
            what = "steps done";
        else if (mine.weights != other.weights)
            what = "weights";
        if (!what) continue;
        dpti_gathered_free(&all);
        return dpti_peers_agree(t, dpt_fail(t->context, DPT_E_INVALID,
                                            "process %zu begins with other %s than process 0; "
                                            "load the same checkpoint in all processes",
                                            r, what));
    }
    dpti_gathered_free(&all);
    DPT_TRY(dpti_peers_agree(t, DPT_OK));
    t->written = t->diverged = false;
    return DPT_OK;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static dpti_outcome outcome_of(const dpti_share *share)
{
    dpti_outcome o = {.status = share->status,
                      .committed = share->committed,
                      .loss = share->loss,
                      .hits = share->hits,
                      .fresh = share->fresh};
    memcpy(o.seconds, share->times.seconds, sizeof o.seconds);
    if (share->flaw) snprintf(o.flaw, sizeof o.flaw, "%s", share->flaw);
    return o;
}

void dpti_peers_take(const dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    if (trainer->processes) return;
    for (size_t i = 0; i < trainer->n_workers; i++)
        inflight->outcomes[i] = outcome_of(&inflight->shares[i]);
    inflight->outcomes[0].data_seconds = inflight->data_seconds;
}

static bool is_unread(const dpti_outcome *outcome)
{
    return strcmp(outcome->flaw, DPTI_FLAW_UNREAD) == 0;
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

/* Which samples the devices of all processes have in a step, as this one knows it. */
static uint64_t division_of(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const uint64_t place[] = {inflight->cursor.epoch, inflight->cursor.position,
                              inflight->n_samples};
    return dpti_checksum(dpti_checksum(1, place, sizeof place), inflight->shards,
                         t->n_devices * sizeof *inflight->shards);
}

/* In what a process took another step than the first one, if it did: weights that nobody wants come
   of it. */
static dpt_status compare_steps(const dpti_outcome *first, const dpti_outcome *other,
                                const dpti_peer *peer, dpt_error *error)
{
    char who[2 * DPTI_ID_BYTES];
    snprintf(who, sizeof who, "process %zu (%s)", peer->process, peer->host);
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

/* Whether all took the same step; if not that is the flight's failure. */
static bool took_the_same(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const dpti_outcome *outcomes = inflight->outcomes;
    for (size_t r = 1; !inflight->diverged && r < dpti_processes_count(t->processes); r++) {
        const size_t i = t->firsts[r];
        inflight->diverged =
            compare_steps(&outcomes[0], &outcomes[i], &t->peers[i], &inflight->failure) != DPT_OK;
    }
    return !inflight->diverged;
}

/* Its process tells all the others what has happened to it.  Of numbers that are not finite the
   outcomes tell. */
static dpt_status tell_failure(dpt_trainer *t, dpti_in_flight_step *inflight, size_t failed)
{
    inflight->failure.status = inflight->outcomes[failed].status;
    dpti_processes_know(t->processes);
    if (inflight->failure.status == DPT_E_NOT_FINITE) return DPT_OK;
    const bool own = failed >= t->first_device && failed - t->first_device < t->n_workers;
    dpti_gathered all = {.data = NULL};
    dpt_error error = {.status = DPT_OK};
    const char *message = own ? inflight->shares[failed - t->first_device].error.message : "";
    DPT_TRY(dpti_processes_gather(t->processes, message, own ? strlen(message) : 0, &all, &error));
    const dpti_peer *peer = &t->peers[failed];
    const bool unread = is_unread(&inflight->outcomes[failed]); /* and no device's fault */
    const int length = (int)(all.begins[dpti_processes_count(t->processes)]);
    snprintf(inflight->failure.message, sizeof inflight->failure.message,
             "process %zu (%s): %s%s%s%.*s", peer->process, peer->host, unread ? "" : "device ",
             unread ? "" : peer->id, unread ? "" : ": ", length < 300 ? length : 300,
             (const char *)all.data);
    dpti_gathered_free(&all);
    return DPT_OK;
}

static dpt_status tell(dpt_trainer *t, dpti_in_flight_step *inflight, dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++)
        inflight->outcomes[t->first_device + i] = outcome_of(&inflight->shares[i]);
    dpti_outcome *first = &inflight->outcomes[t->first_device];
    first->requests = atomic_load(&t->requests);
    first->step = inflight->cursor.step + 1;
    first->weights = inflight->weights;
    first->division = division_of(t, inflight);
    first->lr = inflight->lr;
    first->data_seconds = inflight->data_seconds;
    const dpti_table table = {.data = inflight->outcomes, .begins = t->outcome_begins};
    DPT_TRY(dpti_processes_share(t->processes, &table, DPT_OK, &verdict, error));
    if (!took_the_same(t, inflight)) {
        dpti_processes_know(t->processes);
        return DPT_OK;
    }
    const size_t failed = first_failed(t, inflight);
    return failed < t->n_devices ? tell_failure(t, inflight, failed) : DPT_OK;
}

void dpti_peers_finish(dpti_share *share)
{
    dpti_worker *w = share->worker;
    dpt_trainer *t = w->trainer;
    dpti_in_flight_step *inflight = &t->slots[(share->step - 1) % DPTI_STEP_SLOTS];
    dpt_error error = {.status = DPT_OK};
    if (!t->processes) return;
    /* Nobody brings a failure: what came of the shares stands in them. */
    if (dpti_rendezvous_meet(t->finished, w->rank, DPT_OK) != DPT_OK || w->rank != 0) return;
    if (tell(t, inflight, &error) != DPT_OK) inflight->failure = error;
}

/* Of which only this process knows. */
static dpt_status report_hung(dpt_trainer *t, size_t rank)
{
    const dpti_peer *peer = &t->peers[t->first_device + rank];
    dpt_error error = t->workers[rank].hung_error;
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
    if (inflight->diverged) trainer->diverged = true;
    if (inflight->failure.status == DPT_E_NOT_FINITE)
        return dpti_trainer_fail_not_finite(trainer, inflight);
    return dpti_context_fail(trainer->context, NULL, &inflight->failure);
}

bool dpti_peers_could_not_read(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    bool any = false;
    for (size_t i = 0; i < trainer->n_devices; i++) {
        const dpti_outcome *o = &inflight->outcomes[i];
        if (o->status == DPT_OK || o->status == DPT_E_CANCELLED) continue;
        if (!is_unread(o)) return false;
        any = true;
    }
    return any && !inflight->diverged;
}

void dpti_peers_request(dpt_trainer *trainer, dpti_run_request request)
{
    atomic_fetch_or(&trainer->requests, (unsigned)request);
}

void dpti_peers_have(dpt_trainer *trainer, dpti_run_request request)
{
    atomic_fetch_and(&trainer->requests, ~(unsigned)request);
    trainer->agreed_requests &= ~(unsigned)request;
}

dpt_status dpti_peers_ask_first(dpt_trainer *trainer, unsigned mine, unsigned *first)
{
    dpt_error error = {.status = DPT_OK};
    dpti_gathered all = {.data = NULL};
    if (dpti_processes_gather(trainer->processes, &mine, sizeof mine, &all, &error) != DPT_OK)
        return dpti_context_fail(trainer->context, NULL, &error);
    memcpy(first, all.data, sizeof *first);
    dpti_gathered_free(&all);
    return DPT_OK;
}
