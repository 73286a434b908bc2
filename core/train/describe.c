/* Describing a trainer: what it needs of each device (bytes, operations, exchanges), and what each
   device has done. */
#include "context/sized.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/components/outcome.h"
#include "train/compute/finite.h"
#include "train/compute/window.h"
#include "train/exchange/exchange.h"
#include "train/exchange/islands.h"
#include "train/feeding/feeding.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/options.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/rounds/rounds.h"
#include "train/state/trainer.h"

#include <stdlib.h>

static size_t exchange_bytes(const dpt_trainer *t, const dpti_program *p)
{
    size_t n = 0;
    if (t->n_devices == 1) return 0;
    for (size_t i = 0; i < p->n_segments; i++) {
        const dpti_segment *s = &p->segments[i];
        for (size_t k = 0; s->exchange == DPTI_EXCHANGE_CONTRIBUTE && k < s->n_parts; k++)
            n += s->parts[k].count;
        if (s->exchange == DPTI_EXCHANGE_GRADIENTS) n += t->n_gradients;
    }
    return n * sizeof(float);
}

/* The buffers of nodes of grains that the shard of the first batch needs, or those that are there.
 */
static size_t node_bytes(const dpti_worker *w, const size_t *rows)
{
    const dpt_trainer *t = w->trainer;
    const size_t most = dpti_trainer_nodes_in(t, t->first_device + w->rank, rows);
    size_t n = w->replica.nodes.n;
    if (most > n + 1) n = most - 1;
    return dpti_grain_nodes_bytes(&w->replica.nodes, n);
}

static size_t data_bytes(const dpti_worker *w)
{
    const dpti_data_copy *copy = dpti_feeding_copy_of(w);
    if (copy->owner != w->device) return 0;
    return dpti_data_bytes(copy);
}

size_t dpt_trainer_device_count(const dpt_trainer *trainer)
{
    return trainer->n_devices;
}

size_t dpt_trainer_trained_count(const dpt_trainer *trainer)
{
    const dpt_model *m = trainer->model;
    size_t n = 0;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        const bool frozen = trainer->rules ? trainer->rules[i].frozen : p->frozen;
        if (!dpti_is_statistic(p->role) && !frozen) n += p->size;
    }
    return n;
}

dpt_shard dpt_trainer_sharded(const dpt_trainer *trainer)
{
    if (dpti_state_parts_of_parameters(trainer)) return DPT_SHARD_PARAMETERS;
    if (dpti_state_parts_of_gradients(trainer)) return DPT_SHARD_GRADIENTS;
    return dpti_state_parts_on(trainer) ? DPT_SHARD_OPTIMIZER : DPT_SHARD_NONE;
}

bool dpt_trainer_offloaded(const dpt_trainer *trainer)
{
    return dpti_state_parts_offloaded(trainer);
}

dpt_status dpt_trainer_device(const dpt_trainer *trainer, size_t device, dpt_device_info *out)
{
    DPT_TRY(dpti_peers_check_device(trainer, device));
    const dpti_peer *peer = dpti_peers_device(trainer, device);
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_device_info", out));
    const dpt_device_info info = {.size = sizeof info,
                                  .id = peer->id,
                                  .alias = peer->alias,
                                  .backend = peer->backend,
                                  .name = peer->name,
                                  .detail = peer->detail,
                                  .memory_bytes = peer->memory_bytes,
                                  .n_threads = peer->n_threads,
                                  .process = peer->process,
                                  .host = trainer->processes ? peer->host : NULL,
                                  .island = dpti_islands_number(trainer, device)};
    (void)dpti_give_sized(&info, sizeof info, out);
    return DPT_OK;
}

dpt_status dpt_trainer_plan(dpt_trainer *trainer, size_t device, dpt_device_plan *out)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_peers_check_device(t, device));
    DPT_TRY(dpti_check_sized(t->context, "dpt_device_plan", out));
    dpt_device_plan plan;
    size_t *rows = calloc(t->n_devices, sizeof *rows);
    if (!rows) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a plan");
    const dpt_status status = dpti_trainer_first_shards(t, rows);
    const size_t samples = rows[device];
    const size_t n_bytes = status == DPT_OK && dpti_peers_is_own(t, device)
                               ? node_bytes(&t->workers[device - t->first_device], rows)
                               : 0;
    free(rows);
    DPT_TRY(status);
    if (!dpti_peers_is_own(t, device)) {
        const dpti_peer *peer = dpti_peers_device(t, device);
        plan = (dpt_device_plan){.size = sizeof(dpt_device_plan),
                                 .samples = samples,
                                 .micro_batch = peer->at_once,
                                 .cached = peer->cached,
                                 .optimizer_bytes = dpti_state_parts_peer_bytes(t, device),
                                 .streamed = peer->streamed};
        (void)dpti_give_sized(&plan, sizeof plan, out);
        return DPT_OK;
    }
    const dpti_worker *w = &t->workers[device - t->first_device];
    const dpti_replica *r = &w->replica;
    plan = (dpt_device_plan){
        .size = sizeof(dpt_device_plan),
        .samples = samples,
        .micro_batch = r->capacity,
        .cached = dpti_peers_device(t, device)->cached,
        .parameter_bytes = r->parameters.n_bytes + r->gradients.n_bytes + r->sums.n_bytes + n_bytes,
        .optimizer_bytes = r->velocity.n_bytes + r->squares.n_bytes,
        .activation_bytes = r->arena.n_bytes + dpti_grain_sums_bytes(w->train.sums),
        .step_bytes = r->step.n_bytes + r->halt.n_bytes + dpti_worker_finite_bytes(w) +
                      dpti_feed_bytes(dpti_feeding_feed(w)) + w->train.calls.copies_bytes,
        .streamed = dpti_feeding_has_feed(w),
        .data_bytes = data_bytes(w),
        .flops = dpti_executable_flops(&w->train, samples, false),
        .recomputed_flops = dpti_executable_flops(&w->train, samples, true),
        .exchange_bytes = exchange_bytes(t, &w->train.program),
        .gradient_bytes = t->n_gradients * sizeof(float),
        .kept_bytes = dpti_window_host_bytes(w),
        .gathered_bytes = dpti_fetches_bytes(&w->train),
        .update_bytes = dpti_state_parts_update_bytes(w),
        .copy_bytes = dpti_state_parts_mirror_bytes(w),
        .mirror_bytes = dpti_state_parts_whole_bytes(t),
        .shared_bytes = dpti_state_parts_shared_bytes(t)};
    (void)dpti_give_sized(&plan, sizeof plan, out);
    return DPT_OK;
}

size_t dpt_trainer_candidate_count(const dpt_trainer *trainer)
{
    return trainer->candidates.n;
}

dpt_status dpt_trainer_candidate(const dpt_trainer *trainer, size_t candidate, dpt_candidate *out)
{
    const dpti_candidates *all = &trainer->candidates;
    if (candidate >= all->n)
        return dpt_fail(trainer->context, DPT_E_INVALID,
                        "there is no candidate %zu: %zu combinations were tried", candidate,
                        all->n);
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_candidate", out));
    (void)dpti_give_sized(&all->list[candidate], sizeof(dpt_candidate), out);
    return DPT_OK;
}

size_t dpt_trainer_feedback_bytes(const dpt_trainer *trainer)
{
    if (trainer->compress == DPT_COMPRESS_NONE) return 0;
    /* With factors those of two steps, too, of which a checkpoint has one. */
    const size_t n_copies = trainer->compress == DPT_COMPRESS_LOWRANK ? 3 : 2;
    return n_copies * trainer->model->flat_trained * sizeof(float);
}

size_t dpt_trainer_gradient_bytes(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    const size_t n = t->model->flat_trained;
    const dpti_packing *packing = dpti_packing_of(t->compress);
    if (t->compress != DPT_COMPRESS_LOWRANK)
        return packing ? packing->n_bytes(n) : n * sizeof(float);
    dpti_low_rank *low_rank = dpti_exchange_make_low_rank(t->model, t->compress_rank);
    const size_t n_bytes = low_rank ? dpti_low_rank_bytes(low_rank) : 0;
    dpti_low_rank_destroy(low_rank);
    return n_bytes;
}

dpt_status dpt_trainer_plan_rounds(dpt_trainer *trainer, const dpt_trainer_options *options,
                                   dpt_round_plan *out)
{
    dpt_trainer *t = trainer;
    dpt_trainer_options o;
    dpt_round_plan plan = {.exchange_bytes = 0};
    bool takes_rounds = false;
    DPT_TRY(dpti_check_sized(t->context, "dpt_round_plan", out));
    DPT_TRY(
        dpti_take_sized(t->context, &(dpti_sized){"dpt_trainer_options", options, sizeof o}, &o));
    dpti_trainer_resolve(&o, t->data->count);
    DPT_TRY(dpti_trainer_check_rounds(t, &o, &takes_rounds));
    if (takes_rounds) plan = dpti_rounds_plan(t->model, &o, dpti_trainer_n_state_buffers(t));
    (void)dpti_give_sized(&plan, sizeof plan, out);
    return DPT_OK;
}

size_t dpt_trainer_operation_count(const dpt_trainer *trainer, size_t device)
{
    dpt_operation operation = {.size = sizeof operation};
    size_t n = 0;
    if (!dpti_peers_is_own(trainer, device)) return 0;
    if (dpti_is_lost(&trainer->workers[device - trainer->first_device])) return 0;
    const dpti_worker *w = &trainer->workers[device - trainer->first_device];
    while (dpti_executable_operation(&w->train, n, &operation))
        n++;
    return n;
}

dpt_status dpt_trainer_operation(const dpt_trainer *trainer, size_t device, size_t operation,
                                 dpt_operation *out)
{
    size_t rank;
    dpt_operation o;
    DPT_TRY(dpti_trainer_own_device(trainer, device, &rank));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_operation", out));
    if (!dpti_is_lost(&trainer->workers[rank]) &&
        dpti_executable_operation(&trainer->workers[rank].train, operation, &o)) {
        (void)dpti_give_sized(&o, sizeof o, out);
        return DPT_OK;
    }
    return dpt_fail(trainer->context, DPT_E_INVALID, "device %zu has no operation %zu", device,
                    operation);
}

dpt_status dpt_trainer_device_report(const dpt_trainer *trainer, size_t device,
                                     dpt_device_report *out)
{
    DPT_TRY(dpti_peers_check_device(trainer, device));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_device_report", out));
    const dpt_device_report report = dpti_account_device(dpti_shards_account(trainer), device);
    (void)dpti_give_sized(&report, sizeof report, out);
    return DPT_OK;
}

dpt_status dpt_trainer_mix_report(const dpt_trainer *trainer, dpt_mix_report *out)
{
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_mix_report", out));
    const dpt_mix_report report = dpti_account_mix(dpti_shards_account(trainer));
    (void)dpti_give_sized(&report, sizeof report, out);
    return DPT_OK;
}

bool dpt_trainer_next_event(dpt_trainer *trainer, dpt_device_event *out)
{
    if (trainer->callback != DPTI_CALLBACK_NONE) return false;
    if (dpti_check_sized(trainer->context, "dpt_device_event", out) != DPT_OK) return false;
    const dpti_device_event *event = dpti_events_take(trainer);
    if (!event) return false;
    const dpt_device_event told = {.size = sizeof told,
                                   .kind = event->kind,
                                   .device = event->device,
                                   .id = dpti_peers_device(trainer, event->device)->id,
                                   .step = event->step,
                                   .status = event->error.status,
                                   .message = event->error.message};
    return dpti_give_sized(&told, sizeof told, out);
}
