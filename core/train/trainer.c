/* Creating a trainer: options (options.c), memory, workers (worker.c).  Its steps are in flights.c.
 */
#include "train/trainer.h"
#include "context/context.h"
#include "device/driver.h"
#include "device/set.h"

#include "base/left_behind.h"
#include "dpt_error.h"
#include "train/peers/algorithms.h"

#include <stdlib.h>

/* Of any batch-norm; at least 1. */
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

/* Three statistics of a channel forward; backward two sums, of as many layers as meet at once. */
size_t dpti_trainer_part_size(const dpt_trainer *trainer)
{
    const size_t most = 2 * DPTI_MOST_PARTS > 3 ? 2 * DPTI_MOST_PARTS : 3;
    return most * most_channels(trainer->model);
}

static bool allocate_shares(dpt_trainer *t)
{
    bool complete = true;
    for (size_t s = 0; s < DPTI_STEP_SLOTS; s++)
        for (size_t i = 0; i < t->n_workers; i++) {
            dpti_share *share = &t->slots[s].shares[i];
            *share = (dpti_share){.worker = &t->workers[i],
                                  .contributing = t->slots[s].contributing,
                                  .of_batch = calloc(t->accumulate, sizeof(size_t))};
            complete = complete && share->of_batch;
        }
    return complete;
}

static dpt_status allocate(dpt_trainer *t)
{
    const size_t n = t->n_devices;
    const dpti_gatherers who = {t->n_workers, t->processes, t->firsts};
    bool complete = dpti_account_create(n, dpti_step_samples(t), &t->account);
    t->workers = calloc(t->n_workers, sizeof *t->workers);
    t->islands.items = calloc(t->n_workers, sizeof *t->islands.items);
    t->islands.due = true;
    if (t->verify_every > 0) {
        t->checks = dpti_rendezvous_create(t->n_workers);
        complete = complete && t->checks;
    }
    /* Where a step's batches differ they take recordings of their own. */
    complete =
        dpti_settled_create(n, t->accumulate > 1 ? 1 : DPTI_SETTLED, &t->settled) && complete;
    t->allreduce = dpti_allreduce_create(t->n_workers, t->model->flat_size, t->processes);
    const size_t n_processes = t->processes ? dpti_processes_count(t->processes) : 0;
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_in_flight_step *inflight = &t->slots[i];
        if (n_processes > 0) inflight->contributing = calloc(n_processes, sizeof(bool));
        complete = complete && (inflight->contributing || n_processes == 0);
        inflight->shares = calloc(t->n_workers, sizeof *inflight->shares);
        inflight->outcomes = calloc(n, sizeof *inflight->outcomes);
        inflight->shards = calloc(n, sizeof *inflight->shards);
        inflight->device_seconds = calloc(n, sizeof *inflight->device_seconds);
        inflight->exchange_seconds = calloc(n, sizeof *inflight->exchange_seconds);
        inflight->waiting_seconds = calloc(n, sizeof *inflight->waiting_seconds);
        inflight->throughput = calloc(n, sizeof *inflight->throughput);
        complete = complete && inflight->shares && inflight->outcomes && inflight->shards &&
                   inflight->device_seconds && inflight->exchange_seconds &&
                   inflight->waiting_seconds && inflight->throughput;
    }
    if (t->program.n_parts > 1) {
        t->allgather = dpti_allgather_create(&who, dpti_trainer_part_size(t));
        complete = complete && t->allgather;
    }
    if (t->allreduce) dpti_allreduce_want_finite(t->allreduce);
    if (t->compress == DPT_COMPRESS_BF16 && t->processes) {
        complete = complete && dpti_feedback_create(t->model->flat_trained, &t->feedback);
        if (t->allreduce) dpti_allreduce_pack(t->allreduce, &t->feedback);
    }
    if (!t->workers || !t->islands.items || !t->allreduce || !complete ||
        !dpti_order_create(t->data, dpti_step_samples(t), t->seed, t->order.shuffle, &t->order) ||
        !allocate_shares(t))
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    DPT_TRY(dpti_batch_reader_create(t));
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i] = (dpti_worker){.trainer = t, .device = t->devices->devices[i], .rank = i};
    return DPT_OK;
}

static bool place(void *user, size_t device, dpti_job *job, void *argument)
{
    return dpti_trainer_prepare(user, device, job, argument);
}

dpti_placing dpti_trainer_placing(dpt_trainer *trainer, const bool *absent)
{
    return (dpti_placing){
        .devices = trainer->devices, .absent = absent, .call = place, .user = trainer};
}

static dpt_status create_workers(dpt_trainer *t, const char *init)
{
    dpt_error error = {0};
    dpti_failing_rank failing;
    float *weights = dpti_trainer_make_flat(t);
    dpt_status status = weights ? DPT_OK : DPT_E_NO_MEMORY;
    if (status == DPT_OK && dpti_initialize(t->model, init, t->seed, weights, &error) != DPT_OK)
        status = dpti_context_fail(t->context, NULL, &error);
    status = status == DPT_OK ? dpti_trainer_create_workers(t, weights, &failing)
                              : dpti_peers_agree(t, status);
    free(weights);
    return status;
}

static dpt_status prepare(dpt_trainer *t, const dpt_trainer_options *options)
{
    dpt_error error = {0};
    size_t failing = 0;
    DPT_TRY(dpti_trainer_take_options(t, options));
    DPT_TRY(allocate(t));
    DPT_TRY(dpti_trainer_take_split(t, options->split));
    if (dpti_standby_create(t, !options->no_rest) != DPT_OK)
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    DPT_TRY(dpti_trainer_find_capacities(t));
    const dpti_placing where = dpti_trainer_placing(t, NULL);
    if (dpti_data_store_create(&where, t->data, &t->store, &failing, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return DPT_OK;
}

static dpt_status begin(dpt_trainer *t)
{
    DPT_TRY(dpti_trainer_start_balance(t));
    return dpti_trainer_check_shares(t);
}

/* What fails in one process fails in all, where they next agree. */
static dpt_status build(dpt_trainer *t, const dpt_trainer_options *options)
{
    DPT_TRY(dpti_peers_meet(t, options));
    DPT_TRY(dpti_peers_agree(t, prepare(t, options)));
    DPT_TRY(dpti_link_probe_processes(t, dpti_trainer_chooses_buckets(options)));
    DPT_TRY(create_workers(t, options->init));
    return dpti_algorithms_gather(t, begin(t));
}

dpt_status dpt_trainer_create(dpt_device_set *devices, const dpt_model *model,
                              const dpt_dataset *data, const dpt_trainer_options *options,
                              dpt_trainer **out)
{
    if (!devices) return DPT_E_INVALID; /* and there is no context to tell */
    if (!model || !data || !out)
        return dpt_fail(devices->context, DPT_E_INVALID,
                        "a trainer needs a model and data, and a place where it is returned");
    const dpt_trainer_options o = dpti_trainer_resolve(options, data->count);
    dpt_trainer *t = calloc(1, sizeof *t);
    if (!t) return dpt_fail(devices->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    t->context = devices->context;
    t->devices = devices;
    t->processes = devices->context->processes;
    t->n_workers = devices->n_devices;
    t->model = model;
    t->data = data;
    t->order.shuffle = !o.no_shuffle;
    /* Survival is within one process. */
    t->stop_on_loss = o.stop_on_loss || devices->context->processes != NULL;
    t->device_timeout = o.device_timeout;
    t->done = t->next = (dpti_cursor){.epoch = 1};
    const dpt_status status = build(t, &o);
    for (size_t i = 0; i < t->n_workers; i++)
        atomic_fetch_add(&devices->devices[i]->n_holders, 1);
    if (status == DPT_OK)
        *out = t;
    else
        dpt_trainer_destroy(t);
    return status;
}

/* What hangs may still read what it was to choose. */
static void free_choices(dpt_trainer *t)
{
    bool hangs = false;
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        hangs = hangs || (dpti_is_lost(w) && dpti_is_hung(w));
        if (!dpti_is_lost(w) || !dpti_is_hung(w)) dpti_recorded_choices_free(&w->kept);
    }
    if (!hangs) {
        dpti_replay_free(&t->replay);
        return;
    }
    dpti_replay *left = malloc(sizeof *left);
    if (!left) return;
    *left = t->replay;
    dpti_leave_behind(left);
}

void dpt_trainer_destroy(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    if (!t) return;
    dpti_trainer_drain(t);
    dpti_readmit_end(t);
    dpti_islands_end(t);
    for (size_t i = 0; i < t->n_workers; i++)
        atomic_fetch_sub(&t->devices->devices[i]->n_holders, 1);
    dpti_trainer_destroy_workers(t);
    dpti_trainer_tidy_lost(t);
    for (size_t i = 0; i < DPTI_TESTS; i++)
        dpti_data_store_destroy(&t->tests[i].store);
    dpti_data_store_destroy(&t->store);
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        free(t->slots[i].contributing);
        free(t->slots[i].outcomes);
        for (size_t d = 0; t->slots[i].shares && d < t->n_workers; d++) {
            dpti_times_free(&t->slots[i].shares[d].times);
            free(t->slots[i].shares[d].of_batch);
        }
        free(t->slots[i].throughput);
        free(t->slots[i].waiting_seconds);
        free(t->slots[i].exchange_seconds);
        free(t->slots[i].device_seconds);
        free(t->slots[i].shards);
        free(t->slots[i].shares);
    }
    dpti_batch_reader_destroy(&t->reader);
    dpti_order_free(&t->order);
    dpti_account_free(&t->account);
    dpti_balance_destroy(t->balance);
    dpti_allgather_destroy(t->allgather);
    dpti_allreduce_destroy(t->allreduce);
    dpti_feedback_free(&t->feedback);
    dpti_settled_destroy(&t->settled);
    dpti_standby_destroy(t);
    dpti_rendezvous_destroy(t->checks);
    free(t->events.events);
    dpti_algorithms_free(t);
    dpti_trainer_free_state_buffers(t->last_state);
    dpti_peers_free(t);
    free_choices(t);
    free(t->workers);
    free(t->islands.items);
    free(t->split_text);
    free(t);
}

/* ---- Small things ---------------------------------------------------------------------------- */

dpt_status dpti_trainer_given(dpt_trainer *trainer, const char *call, const char *what,
                              const void *pointer)
{
    if (pointer) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID, "%s needs its argument %s, which is NULL",
                    call, what);
}

dpt_status dpti_trainer_outside_fit(dpt_trainer *trainer, const char *call)
{
    if (trainer->callback == DPTI_CALLBACK_NONE) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s in a callback of dpt_fit: call it when dpt_fit has returned", call);
}

dpt_status dpti_trainer_idle(dpt_trainer *trainer, const char *call)
{
    if (trainer->callback == DPTI_CALLBACK_OTHER)
        return dpt_fail(trainer->context, DPT_E_STATE,
                        "%s in a callback of dpt_fit: call it when an epoch is told", call);
    if (trainer->n_in_flight == 0) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s while steps are in flight: collect them first", call);
}

dpt_status dpti_trainer_check_idle(dpt_trainer *trainer, const char *call)
{
    DPT_TRY(dpti_trainer_outside_fit(trainer, call));
    return dpti_trainer_idle(trainer, call);
}

size_t dpt_trainer_in_flight(const dpt_trainer *trainer)
{
    return trainer->n_in_flight;
}

size_t dpt_trainer_steps(const dpt_trainer *trainer)
{
    return trainer->done.step;
}

dpt_status dpt_trainer_set_lr(dpt_trainer *trainer, float lr)
{
    DPT_TRY(dpti_trainer_outside_fit(trainer, "dpt_trainer_set_lr"));
    if (!(lr > 0 && lr <= 1e6f))
        return dpt_fail(trainer->context, DPT_E_INVALID, "a learning rate of %g is not in (0, 1e6]",
                        (double)lr);
    trainer->lr = lr;
    return DPT_OK;
}

size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device)
{
    const size_t own = device - trainer->first_device;
    if (device < trainer->first_device || own >= trainer->n_workers) return 0;
    const dpti_worker *w = &trainer->workers[own];
    if (dpti_is_lost(w)) return 0;
    size_t n_bytes = dpti_replica_bytes(&w->replica) + w->train.arena.n_bytes +
                     w->finite.found.n_bytes + dpti_feed_bytes(&w->feed);
    for (size_t i = 0; i < DPTI_TESTS; i++)
        n_bytes += w->tests[i].evaluate.arena.n_bytes + dpti_feed_bytes(&w->tests[i].own_feed);
    return n_bytes;
}

dpt_status dpti_trainer_fail(dpt_trainer *trainer, const dpti_device *device,
                             const dpt_error *error)
{
    char prefix[DPTI_ID_BYTES + 8];
    snprintf(prefix, sizeof prefix, "device %s", device->id);
    /* A loss that is not finite is no device's fault. */
    return dpti_context_fail(trainer->context, error->status == DPT_E_NOT_FINITE ? NULL : prefix,
                             error);
}
