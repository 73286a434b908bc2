/* Collectives of a step: made, broken when a device does not answer, and mended (exchange.h). */
#include "train/exchange/exchange.h"

#include "device/buffer.h"
#include "device/side_stream.h"
#include "train/peers/peers.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* The most channels of a batch-norm; at least 1. */
static size_t most_channels(const dpt_model *model)
{
    size_t most = 1;
    for (size_t i = 0; i < model->n_nodes; i++) {
        const dpti_node *node = &model->nodes[i];
        if (node->kind == DPTI_NODE_BATCH_NORM && node->forward.u.batch_norm.channels > most)
            most = node->forward.u.batch_norm.channels;
    }
    return most;
}

/* Forward it is three statistics of a channel; backward two sums, of as many layers as are
   exchanged at once. */
size_t dpti_trainer_part_size(const dpt_trainer *trainer)
{
    const size_t most = 2 * DPTI_MOST_PARTS > 3 ? 2 * DPTI_MOST_PARTS : 3;
    return most * most_channels(trainer->model);
}

dpti_low_rank *dpti_exchange_make_low_rank(const dpt_model *model, size_t rank)
{
    dpti_low_rank *l = dpti_low_rank_create(model->flat_trained, rank);
    bool complete = l != NULL;
    for (size_t i = 0; complete && i < model->n_parameters; i++) {
        const dpti_parameter *p = &model->parameters[i];
        const dpti_range what = {p->offset, p->offset + p->size};
        if (what.end <= model->flat_trained)
            complete = dpti_low_rank_add(l, what, p->rank > 1 ? p->shape[0] : 0);
    }
    complete = complete && dpti_low_rank_finish(l);
    if (complete) return l;
    dpti_low_rank_destroy(l);
    return NULL;
}

static bool create_feedback(dpt_trainer *t)
{
    dpti_feedback *feedback = &t->exchange.feedback;
    if (t->compress == DPT_COMPRESS_LOWRANK)
        return dpti_feedback_create_low_rank(
            dpti_exchange_make_low_rank(t->model, t->compress_rank), feedback);
    return dpti_feedback_create(dpti_packing_of(t->compress), t->model->flat_trained, feedback);
}

dpt_status dpti_exchange_create(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_trainer_exchange *x = &t->exchange;
    x->islands.items = calloc(t->n_workers, sizeof *x->islands.items);
    x->islands.due = true;
    /* Where a step's batches differ they take recordings of their own. */
    bool complete =
        dpti_settled_create(t->n_devices, t->accumulate > 1 ? 1 : DPTI_SETTLED, &x->settled);
    x->allreduce = dpti_allreduce_create(t->n_workers, t->n_gradients, dpti_step_processes(t));
    if (t->program.n_parts > 1) {
        const dpti_gatherers who = {.n_ranks = t->n_workers,
                                    .processes = dpti_step_processes(t),
                                    .firsts = dpti_peers_firsts(t),
                                    .n_rows = t->program.deterministic ? DPTI_GRAINS : 0};
        x->allgather = dpti_allgather_create(&who, dpti_trainer_part_size(t));
        complete = complete && x->allgather;
    }
    if (x->allreduce) dpti_allreduce_want_finite(x->allreduce);
    if (t->compress != DPT_COMPRESS_NONE && t->processes) {
        complete = complete && create_feedback(t);
        if (x->allreduce && dpti_step_processes(t)) dpti_allreduce_pack(x->allreduce, &x->feedback);
    }
    return complete && x->allreduce && x->islands.items ? DPT_OK : DPT_E_NO_MEMORY;
}

void dpti_exchange_destroy(dpt_trainer *trainer)
{
    dpti_trainer_exchange *x = &trainer->exchange;
    dpti_allgather_destroy(x->allgather);
    dpti_allreduce_destroy(x->allreduce);
    dpti_feedback_free(&x->feedback);
    dpti_settled_destroy(&x->settled);
    free(x->islands.items);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

dpti_allreduce *dpti_exchange_allreduce(const dpt_trainer *trainer)
{
    return trainer->exchange.allreduce;
}

dpti_allgather *dpti_exchange_allgather(const dpt_trainer *trainer)
{
    return trainer->exchange.allgather;
}

void dpti_exchange_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    dpti_trainer_exchange *x = &trainer->exchange;
    dpti_allreduce_set_present(x->allreduce, rank, present);
    if (x->allgather) dpti_allgather_set_present(x->allgather, rank, present);
}

void dpti_exchange_break(dpt_trainer *trainer)
{
    dpti_trainer_exchange *x = &trainer->exchange;
    dpti_allreduce_break(x->allreduce);
    if (x->allgather) dpti_allgather_break(x->allgather);
}

void dpti_exchange_mend(dpt_trainer *trainer)
{
    dpti_trainer_exchange *x = &trainer->exchange;
    dpti_allreduce_mend(x->allreduce);
    if (x->allgather) dpti_allgather_mend(x->allgather);
}

void dpti_exchange_reset(dpt_trainer *trainer)
{
    if (trainer->exchange.allreduce) dpti_allreduce_reset(trainer->exchange.allreduce);
}

/* ---- A worker's part ------------------------------------------------------------------------- */

dpt_status dpti_exchange_create_parts(dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    const size_t n_rows = t->program.deterministic ? DPTI_GRAINS : dpti_step_devices(t);
    const size_t n_bytes = n_rows * dpti_trainer_part_size(t) * sizeof(float);
    void *parts;
    if (!t->exchange.allgather) return DPT_OK;
    DPT_TRY(dpti_host_alloc(worker->device, n_bytes, &parts));
    worker->exchange.parts = parts;
    return DPT_OK;
}

void dpti_exchange_destroy_parts(dpti_worker *worker)
{
    float *parts = worker->exchange.parts;
    worker->exchange.parts = NULL;
    dpti_host_free(worker->device, parts);
}

float *dpti_exchange_parts(const dpti_worker *worker)
{
    return worker->exchange.parts;
}

dpt_status dpti_exchange_join(dpti_worker *worker)
{
    dpti_allreduce *allreduce = worker->trainer->exchange.allreduce;
    const dpti_replica *r = &worker->replica;
    if (!r->windowed) return dpti_allreduce_join(allreduce, worker->rank, &r->gradients);
    const dpti_window window = {.places = &r->nodes.places,
                                .sums = &r->sums,
                                .own = {r->sums_begin, r->sums_end},
                                .shared = r->model->flat_trained};
    return dpti_allreduce_join_window(allreduce, worker->rank, &r->gradients, &window);
}

dpt_status dpti_exchange_clip(dpt_trainer *trainer)
{
    const float max_norm = trainer->program.optimizer.clip_norm;
    if (max_norm == 0) return DPT_OK;
    return dpti_allreduce_clip(trainer->exchange.allreduce, trainer->model->flat_trained, max_norm);
}

void dpti_exchange_divide(dpt_trainer *trainer, const size_t *borders)
{
    dpti_allreduce_divide(trainer->exchange.allreduce, borders);
}

void dpti_exchange_commit(dpt_trainer *trainer)
{
    if (dpti_packs(trainer)) dpti_feedback_commit(&trainer->exchange.feedback);
}

dpt_status dpti_exchange_hold_nodes(dpti_worker *worker, size_t n)
{
    dpti_allreduce *allreduce = worker->trainer->exchange.allreduce;
    const dpti_grain_nodes *nodes = &worker->replica.nodes;
    DPT_TRY(dpti_grain_nodes_hold(&worker->replica, n));
    return dpti_allreduce_join_nodes(
        allreduce, worker->rank, &(dpti_node_buffers){&nodes->places, nodes->buffers, nodes->n});
}

void dpti_exchange_leave(dpti_worker *worker)
{
    dpti_allreduce *allreduce = worker->trainer->exchange.allreduce;
    if (allreduce) dpti_allreduce_leave(allreduce, worker->rank);
}

void dpti_exchange_destroy_side(dpti_worker *worker)
{
    dpti_side_stream_destroy(&worker->exchange.side);
}

bool dpti_in_island(const dpti_worker *worker)
{
    return worker->exchange.island_slot.island != NULL;
}

/* ---- Error feedback -------------------------------------------------------------------------- */

bool dpti_packs(const dpt_trainer *trainer)
{
    return trainer->exchange.feedback.count > 0;
}

const char *dpti_exchange_packing(const dpt_trainer *trainer)
{
    const dpti_feedback *f = &trainer->exchange.feedback;
    if (!dpti_packs(trainer)) return NULL;
    return f->packing ? f->packing->name : "lowrank";
}

dpti_feedback *dpti_exchange_lend_feedback(dpt_trainer *trainer)
{
    return dpti_packs(trainer) ? &trainer->exchange.feedback : NULL;
}

float *dpti_exchange_feedback(const dpt_trainer *trainer, size_t *count)
{
    *count = trainer->exchange.feedback.count;
    return trainer->exchange.feedback.residual;
}

void dpti_exchange_clear_feedback(dpt_trainer *trainer)
{
    dpti_feedback *f = &trainer->exchange.feedback;
    if (dpti_packs(trainer)) memset(f->residual, 0, f->count * sizeof *f->residual);
    if (f->low_rank) dpti_low_rank_restart(f->low_rank);
}

float *dpti_exchange_factors(const dpt_trainer *trainer)
{
    const dpti_low_rank *l = trainer->exchange.feedback.low_rank;
    return l ? l->start : NULL;
}

/* ---- First runs ------------------------------------------------------------------------------ */

bool dpti_exchange_is_settled(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    return dpti_settled_step(&trainer->exchange.settled, inflight->shards);
}

void dpti_exchange_unsettle(dpt_trainer *trainer)
{
    dpti_settled_forget(&trainer->exchange.settled);
}
