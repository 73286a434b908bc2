/* What processes tell each other about a trainer, and decide together (peers.h). */
#include "train/peers/peers.h"
#include "collective/arrivals.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/set.h"

#include "train/components/outcome.h"
#include "train/state/trainer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Agreeing -------------------------------------------------------------------------------- */

static dpt_status no_memory(dpt_trainer *t)
{
    return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
}

dpt_status dpti_peers_agree(dpt_trainer *trainer, dpt_status mine)
{
    if (!trainer->processes) return mine;
    dpt_error error = trainer->context->error;
    if (dpti_processes_end_alone(trainer->processes, mine, &error)) return mine;
    const dpt_status status = dpti_processes_agree(trainer->processes, mine, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(trainer->context, NULL, &error);
}

dpt_status dpti_peers_all_gather(dpt_trainer *trainer, dpt_status mine, dpti_bytes data,
                                 dpti_gathered *out)
{
    dpt_error error = trainer->context->error;
    if (dpti_processes_end_alone(trainer->processes, mine, &error)) return mine;
    dpt_status status = dpti_processes_agree(trainer->processes, mine, &error);
    if (status == DPT_OK) status = dpti_processes_gather(trainer->processes, data, out, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(trainer->context, NULL, &error);
}

dpt_status dpti_peers_gather(dpt_trainer *trainer, dpt_status mine, void *items, size_t item_bytes)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    uint8_t *bytes = items;
    if (!t->processes) return mine;
    const dpti_bytes own = {bytes + t->first_device * item_bytes, t->n_workers * item_bytes};
    DPT_TRY(dpti_peers_all_gather(t, mine, own, &all));
    memcpy(bytes, all.data, t->n_devices * item_bytes);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* ---- Meeting --------------------------------------------------------------------------------- */

static void describe(const dpt_trainer *t, size_t i, dpti_peer *peer)
{
    dpt_device_info d = {.size = sizeof d};
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

bool dpti_peers_is_others_affair(const dpt_trainer *trainer, size_t process)
{
    const dpti_processes *p = trainer->processes;
    return process != dpti_processes_rank(p) && dpti_processes_is_new(p, process);
}

static dpt_status meet_alone(dpt_trainer *t)
{
    t->n_devices = t->n_workers;
    t->peers.items = calloc(t->n_devices, sizeof *t->peers.items);
    if (!t->peers.items) return no_memory(t);
    for (size_t i = 0; i < t->n_workers; i++)
        describe(t, i, &t->peers.items[i]);
    return DPT_OK;
}

/* Takes over what was gathered. */
static dpt_status take_peers(dpt_trainer *t, dpti_gathered *all)
{
    const size_t n = dpti_processes_count(t->processes);
    t->peers.firsts = calloc(n + 1, sizeof *t->peers.firsts);
    t->peers.outcome_begins = calloc(n + 1, sizeof *t->peers.outcome_begins);
    t->peers.finished = dpti_rendezvous_create(t->n_workers);
    t->peers.items = (dpti_peer *)(void *)all->data;
    all->data = NULL;
    if (!t->peers.firsts || !t->peers.outcome_begins || !t->peers.finished) return no_memory(t);
    for (size_t r = 0; r <= n; r++) {
        t->peers.firsts[r] = all->begins[r] / sizeof *t->peers.items;
        t->peers.outcome_begins[r] = t->peers.firsts[r] * sizeof(dpti_outcome);
    }
    t->n_devices = t->peers.firsts[n];
    t->first_device = t->peers.firsts[dpti_processes_rank(t->processes)];
    if (t->n_devices <= DPTI_SPLIT_MAX_DEVICES || dpti_peers_is_others_affair(t, n - 1))
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "the processes have %zu devices; at most %d train "
                    "together",
                    t->n_devices, DPTI_SPLIT_MAX_DEVICES);
}

/* A process that is left may have met one that has died, while others have not. */
static dpt_status note_counts(dpt_trainer *t)
{
    const dpti_processes *p = t->processes;
    dpti_device_counts *c = &t->context->counts;
    const size_t n = dpti_arrivals_most(p), n_left = dpti_processes_count(p);
    dpti_gathered all = {.data = NULL};
    if (!dpti_processes_survive(p)) return DPT_OK;
    if (!c->of) *c = (dpti_device_counts){.n = n, .of = calloc(n, sizeof *c->of)};
    for (size_t r = 0; c->of && r < n_left; r++)
        c->of[dpti_processes_first(p, r)] = t->peers.firsts[r + 1] - t->peers.firsts[r];
    const dpti_bytes mine = {c->of, n * sizeof *c->of};
    DPT_TRY(dpti_peers_all_gather(t, c->of ? DPT_OK : no_memory(t), mine, &all));
    const size_t *told = (const size_t *)(const void *)all.data;
    for (size_t i = 0; i < n * n_left; i++)
        if (told[i] > c->of[i % n]) c->of[i % n] = told[i];
    dpti_gathered_free(&all);
    return DPT_OK;
}

dpt_status dpti_peers_meet(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    if (!t->processes) return meet_alone(t);
    dpti_peer *mine = calloc(t->n_workers, sizeof *mine);
    for (size_t i = 0; mine && i < t->n_workers; i++)
        describe(t, i, &mine[i]);
    dpt_status status = mine ? DPT_OK : no_memory(t);
    status =
        dpti_peers_all_gather(t, status, (dpti_bytes){mine, t->n_workers * sizeof *mine}, &all);
    if (status == DPT_OK) status = dpti_peers_agree(t, take_peers(t, &all));
    if (status == DPT_OK) status = note_counts(t);
    dpti_gathered_free(&all);
    free(mine);
    return status;
}

void dpti_peers_free(dpt_trainer *trainer)
{
    dpti_rendezvous_destroy(trainer->peers.finished);
    free(trainer->peers.outcome_begins);
    free(trainer->peers.firsts);
    free(trainer->peers.items);
}

const dpti_peer *dpti_peers_device(const dpt_trainer *trainer, size_t device)
{
    return &trainer->peers.items[device];
}

dpti_peer *dpti_peers_own(dpt_trainer *trainer, size_t rank)
{
    return &trainer->peers.items[trainer->first_device + rank];
}

dpt_status dpti_peers_tell(dpt_trainer *trainer, dpt_status mine)
{
    return dpti_peers_gather(trainer, mine, trainer->peers.items, sizeof *trainer->peers.items);
}

const size_t *dpti_peers_firsts(const dpt_trainer *trainer)
{
    return trainer->peers.firsts;
}

bool dpti_peers_is_own(const dpt_trainer *trainer, size_t device)
{
    return device >= trainer->first_device && device - trainer->first_device < trainer->n_workers;
}

dpt_status dpti_peers_check_device(const dpt_trainer *trainer, size_t device)
{
    if (device < trainer->n_devices) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID, "device %zu of %zu", device,
                    trainer->n_devices);
}

dpt_status dpti_trainer_own_device(const dpt_trainer *trainer, size_t device, size_t *rank)
{
    DPT_TRY(dpti_peers_check_device(trainer, device));
    *rank = device - trainer->first_device;
    if (dpti_peers_is_own(trainer, device)) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID, "device %zu is one of process %zu: ask there",
                    device, trainer->peers.items[device].process);
}

/* UUIDs are compared first, since two hosts may have the same name. */
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
    const dpti_peer *peers = trainer->peers.items;
    for (size_t i = 0; i < trainer->n_devices; i++) {
        if (strcmp(peers[i].backend, peers[0].backend) != 0) return false;
        for (size_t k = 0; k < i; k++)
            if (same_hardware(&peers[i], &peers[k])) return false;
    }
    return true;
}

/* ---- Weights that the caller has written ----------------------------------------------------- */

void dpti_peers_note_written(dpt_trainer *trainer)
{
    trainer->peers.written = true;
}

bool dpti_peers_have_written(const dpt_trainer *trainer)
{
    return trainer->peers.written;
}

void dpti_peers_forget_written(dpt_trainer *trainer)
{
    trainer->peers.written = false;
}

void dpti_peers_forget_diverged(dpt_trainer *trainer)
{
    trainer->peers.diverged = false;
}

bool dpti_peers_diverged(const dpt_trainer *trainer)
{
    return trainer->peers.diverged;
}

/* ---- Devices that do not answer -------------------------------------------------------------- */

void dpti_peers_break(dpt_trainer *trainer)
{
    if (trainer->peers.finished) dpti_rendezvous_break(trainer->peers.finished);
}

void dpti_peers_mend(dpt_trainer *trainer)
{
    if (trainer->peers.finished) dpti_rendezvous_mend(trainer->peers.finished);
}

/* ---- Requests -------------------------------------------------------------------------------- */

unsigned dpti_peers_requests(const dpt_trainer *trainer)
{
    return atomic_load(&trainer->peers.requests);
}

unsigned dpti_peers_agreed(const dpt_trainer *trainer)
{
    return trainer->peers.agreed_requests;
}

void dpti_peers_note_agreed(dpt_trainer *trainer, unsigned requests)
{
    trainer->peers.agreed_requests |= requests;
}

size_t dpti_peers_stopped_by(const dpt_trainer *trainer)
{
    return trainer->peers.stopped_by;
}

unsigned dpti_peers_stopped_for(const dpt_trainer *trainer)
{
    return trainer->peers.stopped_for;
}

void dpti_peers_forget_requests(dpt_trainer *trainer)
{
    atomic_store(&trainer->peers.requests, 0);
    trainer->peers.agreed_requests = 0;
}

void dpti_peers_request(dpt_trainer *trainer, dpti_run_request request)
{
    atomic_fetch_or(&trainer->peers.requests, (unsigned)request);
}

void dpti_peers_request_stop(dpt_trainer *trainer, unsigned cause)
{
    if (dpti_peers_requests(trainer) & DPTI_RUN_REQUEST_STOP) return;
    atomic_fetch_or(&trainer->peers.requests, DPTI_RUN_REQUEST_STOP | cause << DPTI_RUN_CAUSE_BIT);
}

void dpti_peers_have(dpt_trainer *trainer, dpti_run_request request)
{
    atomic_fetch_and(&trainer->peers.requests, ~(unsigned)request);
    trainer->peers.agreed_requests &= ~(unsigned)request;
}

/* What all processes say: the first one, and any one; and the first one that requests the end. */
typedef struct answers {
    unsigned first, any;
    size_t stopped_by;
    unsigned stopped_for;
} answers;

static dpt_status ask(dpt_trainer *trainer, unsigned mine, answers *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_gathered all = {.data = NULL};
    const dpti_bytes bytes = {&mine, sizeof mine};
    if (dpti_processes_gather(trainer->processes, bytes, &all, &error) != DPT_OK)
        return dpti_context_fail(trainer->context, NULL, &error);
    memcpy(&out->first, all.data, sizeof out->first);
    out->any = 0;
    for (size_t i = 0; i < dpt_process_count(trainer->context); i++) {
        unsigned one = 0;
        memcpy(&one, all.data + i * sizeof one, sizeof one);
        if (one & ~out->any & DPTI_RUN_REQUEST_STOP) {
            out->stopped_by = i;
            out->stopped_for = one >> DPTI_RUN_CAUSE_BIT;
        }
        out->any |= one;
    }
    dpti_gathered_free(&all);
    return DPT_OK;
}

dpt_status dpti_peers_ask_first(dpt_trainer *trainer, unsigned mine, unsigned *first)
{
    answers said = {.any = 0};
    DPT_TRY(ask(trainer, mine, &said));
    *first = said.first;
    return DPT_OK;
}

dpt_status dpti_peers_ask_any(dpt_trainer *trainer, unsigned mine, unsigned *any)
{
    answers said = {.any = 0};
    DPT_TRY(ask(trainer, mine, &said));
    *any = said.any;
    return DPT_OK;
}

dpt_status dpti_peers_ask_requests(dpt_trainer *trainer, unsigned mine, unsigned *any)
{
    dpti_peers *p = &trainer->peers;
    answers said = {.any = 0};
    DPT_TRY(ask(trainer, mine | dpti_peers_requests(trainer), &said));
    if (said.any & ~p->agreed_requests & DPTI_RUN_REQUEST_STOP) {
        p->stopped_by = said.stopped_by;
        p->stopped_for = said.stopped_for;
    }
    p->agreed_requests |= said.any & (DPTI_RUN_REQUESTS - 1);
    *any = said.any;
    return DPT_OK;
}
