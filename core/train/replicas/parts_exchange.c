/* Parts of the optimizer's state in devices of several processes (parts_exchange.h). */
#include "train/replicas/parts_exchange.h"

#include "base/clock.h"
#include "base/left_behind.h"
#include "base/times.h"
#include "train/exchange/exchange.h"
#include "train/peers/peers.h"
#include "train/replicas/state_buffers.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

bool dpti_parts_exchange_on(const dpt_trainer *trainer)
{
    return trainer->processes != NULL;
}

/* ---- Room ------------------------------------------------------------------------------------ */

dpt_status dpti_parts_exchange_create(dpt_trainer *trainer)
{
    dpti_parts_exchange *x = &trainer->replicas.parts.between;
    if (!trainer->processes) return DPT_OK;
    const size_t n = dpti_processes_count(trainer->processes) + 1;
    x->nothing = calloc(n, sizeof *x->nothing);
    x->parameters = calloc(n, sizeof *x->parameters);
    x->others = calloc(n, sizeof *x->others);
    x->parts = calloc(trainer->n_devices, sizeof *x->parts);
    return x->nothing && x->parameters && x->others && x->parts ? DPT_OK : DPT_E_NO_MEMORY;
}

/* A transport that has failed, and does not go on, may still write to what it was to receive. */
void dpti_parts_exchange_destroy(dpt_trainer *trainer)
{
    dpti_parts_exchange *x = &trainer->replicas.parts.between;
    const bool written = x->failed && !dpti_processes_survive(trainer->processes);
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        if (written && x->next[k])
            dpti_leave_behind(x->next[k]);
        else
            free(x->next[k]);
    }
    free(x->parts);
    free(x->others);
    free(x->parameters);
    free(x->nothing);
    *x = (dpti_parts_exchange){.failed = false};
}

dpt_status dpti_parts_exchange_make(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_state_parts *parts = &t->replicas.parts;
    for (size_t k = 0; t->processes && k < dpti_trainer_n_state_buffers(t); k++) {
        parts->between.next[k] = dpti_trainer_make_flat(t);
        if (!parts->between.next[k]) return DPT_E_NO_MEMORY;
        memcpy(parts->between.next[k], parts->mirror[k],
               t->model->flat_size * sizeof *parts->mirror[k]);
    }
    return DPT_OK;
}

void dpti_parts_exchange_write(dpt_trainer *trainer, size_t buffer, const float *flat, size_t n)
{
    float *next = trainer->replicas.parts.between.next[buffer];
    if (next) memcpy(next, flat, n * sizeof *next);
}

/* ---- Dividing -------------------------------------------------------------------------------- */

dpt_status dpti_parts_exchange_tell(dpt_trainer *trainer, dpti_state_holder *holders)
{
    if (!trainer->processes) return DPT_OK;
    return dpti_peers_gather(trainer, DPT_OK, holders, sizeof *holders);
}

/* The running statistics travel with the last part that is not empty, whose device writes them. */
void dpti_parts_exchange_divide(dpt_trainer *trainer, const dpti_state_part *parts)
{
    const dpt_trainer *t = trainer;
    dpti_parts_exchange *x = &trainer->replicas.parts.between;
    const size_t *firsts = dpti_peers_firsts(t);
    const size_t n = t->model->flat_trained;
    if (!t->processes) return;
    memcpy(x->parts, parts, t->n_devices * sizeof *parts);
    const size_t n_processes = dpti_processes_count(t->processes);
    for (size_t p = 0; p <= n_processes; p++) {
        const size_t begin = p < n_processes ? parts[firsts[p]].begin : n;
        x->others[p] = begin;
        x->parameters[p] = p > 0 && begin == n ? t->model->flat_gradients : begin;
    }
    dpti_exchange_divide(trainer, x->others);
}

size_t dpti_parts_exchange_count(const dpt_trainer *trainer, size_t device)
{
    const dpti_state_part *parts = trainer->replicas.parts.between.parts;
    return parts ? parts[device].end - parts[device].begin : 0;
}

/* ---- Behind the update ----------------------------------------------------------------------- */

/* Gathers the parts of all processes in `next`.  One collective for each buffer. */
static dpt_status gather(dpt_trainer *t)
{
    dpti_parts_exchange *x = &t->replicas.parts.between;
    const size_t n_processes = dpti_processes_count(t->processes);
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        const size_t *slices = k == 0 ? x->parameters : x->others;
        const dpti_collective all = {.kind = DPTI_ALL_GATHER,
                                     .data = x->next[k],
                                     .count = slices[n_processes],
                                     .slices = slices};
        if (all.count > 0) dpti_processes_start_collective(t->processes, &all);
    }
    return dpti_processes_finish_collectives(t->processes, &error);
}

/* Everything is there. */
static void take_next(dpti_state_parts *parts)
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        float *before = parts->mirror[k];
        parts->mirror[k] = parts->between.next[k];
        parts->between.next[k] = before;
    }
}

/* Returns the verdict of all processes. */
static dpt_status vote(const dpt_trainer *t, dpt_status mine)
{
    const dpti_parts_exchange *x = &t->replicas.parts.between;
    dpt_status verdict = mine;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    const dpti_table nothing = {.data = x->nothing, .begins = x->nothing};
    DPT_TRY(dpti_processes_share(t->processes, &nothing, &verdict, &error));
    return verdict;
}

void dpti_parts_exchange_decline(const dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    if (w->rank == 0) (void)vote(w->trainer, DPT_E_CANCELLED);
}

/* What one thread does for the process. */
static dpt_status exchange(dpt_trainer *t, dpt_status mine)
{
    dpti_parts_exchange *x = &t->replicas.parts.between;
    const dpt_status verdict = vote(t, mine);
    x->voted = dpti_seconds();
    DPT_TRY(verdict);
    const dpt_status status = gather(t);
    x->failed = x->failed || status != DPT_OK;
    DPT_TRY(status);
    take_next(&t->replicas.parts);
    dpti_exchange_commit(t);
    return DPT_OK;
}

dpt_status dpti_parts_exchange_run(dpti_shard *shard, dpt_status verdict, double began)
{
    const dpti_worker *w = shard->worker;
    dpt_trainer *t = w->trainer;
    const dpti_state_parts *parts = &t->replicas.parts;
    if (w->rank == 0) {
        verdict = exchange(t, verdict);
        shard->committed = verdict == DPT_OK; /* from here on the mirror has the step */
    }
    verdict = dpti_rendezvous_meet(parts->meet, w->rank, verdict);
    /* No device looks slow because its thread does the work of its process. */
    const double now = dpti_seconds(), voted = verdict == DPT_OK ? parts->between.voted : now;
    dpti_times_add(&shard->times, DPTI_SPAN_WAITING, began, voted - began);
    dpti_times_add(&shard->times, DPTI_SPAN_EXCHANGE, voted, now - voted);
    return verdict;
}
