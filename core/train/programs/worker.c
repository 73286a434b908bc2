/* Making and destroying workers (worker.h). */
#include "train/programs/worker.h"

#include "base/grains.h"
#include "base/left_behind.h"
#include "device/arithmetic_test.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "dpt_error.h"
#include "train/components/batch_norm.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/compute/finite.h"
#include "train/compute/single_launch.h"
#include "train/compute/window.h"
#include "train/exchange/exchange.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/micro_batches.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/programs/capacities.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/replicas/room.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/replicas/verify.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- One worker ------------------------------------------------------------------------------ */

/* If the device hangs the job is left to the device. */
typedef struct worker_job {
    dpti_worker *worker;
    dpti_begin begin;
    dpt_status status;
    dpt_error error;
} worker_job;

static dpt_status create_staging(dpti_worker *w)
{
    const size_t most = w->capacity * w->trainer->accumulate;
    const size_t mixed = dpti_mix_elements(&w->trainer->program);
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_shard *shard = dpti_steps_shard(w->trainer, i, w->rank);
        void *staging, *result;
        DPT_TRY(dpti_host_alloc(w->device, dpti_step_buffer_bytes(most, mixed), &staging));
        shard->staging = staging;
        shard->staged = most;
        DPT_TRY(dpti_host_alloc(w->device, (most + 1) * 2 * sizeof(float), &result));
        shard->result = result;
    }
    return dpti_exchange_create_parts(w);
}

void dpti_worker_program(const dpti_worker *worker, dpti_executable_options *options)
{
    const dpti_worker *w = worker;
    const dpt_trainer *t = w->trainer;
    const size_t most = w->replica.capacity;
    options->program = t->program;
    dpti_state_parts_own(w, &options->program.optimizer);
    /* In deterministic training nodes of grains add up, and no micro-batch adds to another. */
    options->program.accumulate =
        !t->program.deterministic && (most < w->capacity || t->accumulate > 1);
    options->program.recompute = w->recomputes;
    options->program.fed = dpti_is_fed(w) ? most : 0;
    options->data = dpti_is_fed(w)
                        ? dpti_feed_places(dpti_feeding_feed(w))
                        : dpti_data_copy_places(dpti_feeding_copy_of(w), t->program.loss);
}

/* Takes memory for the nodes of grains that are known to be needed.  Their places depend on whether
   there are several micro-batches. */
static dpt_status hold_nodes(dpti_worker *w, dpt_error *error)
{
    const dpt_trainer *t = w->trainer;
    const size_t n = dpti_trainer_known_nodes(t, t->first_device + w->rank);
    DPT_TRY(dpti_window_hold(w, n));
    if (!w->replica.windowed)
        dpti_grain_nodes_place(&w->train, dpti_has_micro_batches(w) || t->accumulate > 1);
    if (n < 2) return DPT_OK;
    const dpt_status status = dpti_grain_nodes_hold(&w->replica, n - 1);
    if (status != DPT_E_NO_MEMORY) return status;
    return DPT_FAIL(
        error, status,
        "%.300s; with micro-batches of %zu deterministic training keeps further sums of gradients "
        "there (%zu, each of %zu bytes): use a split that needs fewer, such as equal shards of 2, "
        "4 or 8 devices, or leave the device out",
        w->device->base.error.message, w->replica.capacity, n - 1,
        dpti_grain_nodes_bytes(&w->replica.nodes, 1));
}

/* Makes the replica, and its program of training, for at most `most` samples at once. */
static dpt_status create_replica(dpti_worker *w, size_t most, dpti_begin begin, dpt_error *error)
{
    const dpt_trainer *t = w->trainer;
    dpti_executable_options options;
    dpti_replica_options kind = {.model = t->model,
                                 .capacity = most,
                                 .optimizer = t->program.optimizer,
                                 .class_weights = t->program.class_weights,
                                 .mix_elements = dpti_mix_elements(&t->program),
                                 .n_gradients = t->n_gradients};
    dpti_state_parts_own(w, &kind.optimizer);
    DPT_TRY(dpti_replica_create(w->device, &kind, &w->replica));
    const bool single_launch = t->n_workers == 1 && dpti_may_use_single_launch(w);
    dpti_state_parts_lend(w);
    dpti_state_note_views(w);
    w->replica.insists = t->replay.choices != NULL;
    w->replica.wanted =
        t->replay.choices ? &t->replay.choices[t->first_device + w->rank] : &w->kept;
    if (begin == DPTI_BEGIN_INITIAL)
        DPT_TRY(dpti_replica_initialize(&w->replica, &(dpti_initial){t->init, t->seed}, error));
    DPT_TRY(single_launch ? dpti_single_launch_create(w) : dpti_worker_create_finite(w));
    DPT_TRY(dpti_verify_create(w));
    DPT_TRY(dpti_state_parts_create(w));
    DPT_TRY(dpti_feeding_create_feed(w, most));
    dpti_worker_program(w, &options);
    options.program.single_launch = single_launch;
    if (single_launch) dpti_single_launch_use_train(w);
    DPT_TRY(dpti_executable_create(&w->replica, &options, &w->train, error));
    DPT_TRY(dpti_window_create(w));
    return t->program.deterministic ? hold_nodes(w, error) : DPT_OK;
}

static void destroy_replica(dpti_worker *w)
{
    dpti_evaluation_destroy_programs(w);
    dpti_window_destroy(w);
    dpti_executable_destroy(&w->train);
    dpti_feeding_destroy_feed(w);
    dpti_verify_destroy(w);
    dpti_state_parts_destroy(w);
    dpti_worker_destroy_finite(w);
    dpti_single_launch_destroy(w);
    dpti_exchange_destroy_side(w);
    dpti_replica_destroy(&w->replica);
    dpti_state_forget_views(w);
}

/* Whether the worker's shard must not be larger than what it computes at once. */
static bool keeps_whole(const dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    return t->measured && !t->in_micro_batches &&
           dpti_takes_batch_statistics(t->model, t->batch_norm);
}

/* The fewest samples that the worker may compute at once: in deterministic training a grain, or its
   whole shard where batch-norm takes statistics of the batch and the shard is fixed. */
static size_t least_at_once(const dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    const size_t grain = t->program.deterministic ? dpti_grains_of(t->batch_size).size : 1;
    if (t->program.deterministic && t->program.n_parts > 1 && !keeps_whole(w)) return w->capacity;
    return grain < w->capacity ? grain : w->capacity;
}

/* In deterministic training a device holds whole grains. */
static size_t whole_grains(const dpti_worker *w, size_t n_samples)
{
    const dpt_trainer *t = w->trainer;
    const size_t grain = t->program.deterministic ? dpti_grains_of(t->batch_size).size : 1;
    return n_samples - n_samples % grain;
}

/* Halves the number of samples at once until the worker fits into the device's memory.  Before that
   the copy of the data is dropped, since micro-batches change what a batch-norm sees, and feeding
   samples changes nothing.  With measured shards and statistics of the batch the worker's capacity
   becomes that number: other devices may have room.  Recomputation comes last: it takes time. */
static dpt_status fit_replica(dpti_worker *w, dpti_begin begin, dpt_error *error)
{
    const dpt_recompute recompute = w->trainer->recompute;
    w->recomputes = recompute == DPT_RECOMPUTE_ON;
    DPT_TRY(dpti_find_micro_batch_limit(w, error));
    const size_t least = least_at_once(w), limit = dpti_micro_batch_limit_of(w);
    size_t most = limit < w->capacity ? limit : w->capacity;
    if (most < least && dpti_is_limited_by_caches(w)) most = least;
    /* In deterministic training micro-batches take memory for nodes of grains, too. */
    if (dpti_state_parts_takes_least(w->trainer) && !w->trainer->program.deterministic)
        most = least;
    for (;;) {
        *error = (dpt_error){.status = DPT_OK};
        const dpt_status status = create_replica(w, most, begin, error);
        /* A call that did not fill in *error left the details in the device's record. */
        if (status != DPT_OK && error->status == DPT_OK) *error = w->device->base.error;
        const bool is_last = most <= least && (recompute != DPT_RECOMPUTE_AUTO || w->recomputes);
        if (status != DPT_E_NO_MEMORY || is_last || dpti_data_bytes(dpti_feeding_copy_of(w)) > 0)
            return status;
        destroy_replica(w);
        if (most <= least) {
            w->recomputes = true;
            continue;
        }
        most = whole_grains(w, (most + 1) / 2);
        if (most < least) most = least;
        if (keeps_whole(w)) w->capacity = most;
    }
}

/* A device without samples has chosen algorithms for the optimizer alone. */
static dpt_status keep_choices(dpti_worker *w, dpt_error *error)
{
    if (w->kept.n > 0 || w->replica.capacity == 0) return DPT_OK;
    const dpt_status status = dpti_executable_choices(&w->train, &w->kept);
    return status == DPT_OK ? DPT_OK : DPT_FAIL(error, status, "no memory for choices");
}

static dpt_status create(dpti_worker *w, dpti_begin begin, dpt_error *error)
{
    const bool tests = w->trainer->program.deterministic && !w->device->rehearsal.on;
    if (tests) DPT_TRY(dpti_arithmetic_test(w->device, error));
    DPT_TRY(create_staging(w));
    DPT_TRY(fit_replica(w, begin, error));
    DPT_TRY(keep_choices(w, error));
    dpti_memory_begin(w);
    return dpti_exchange_join(w);
}

static void run_create_worker(dpti_device *device, void *argument)
{
    worker_job *job = argument;
    job->status = create(job->worker, job->begin, &job->error);
    if (job->status != DPT_OK && job->error.status == DPT_OK)
        job->error = *dpti_device_error(device);
    job->error.status = job->status;
}

dpt_status dpti_trainer_create_worker(dpt_trainer *trainer, size_t rank, dpti_begin begin,
                                      dpt_error *error)
{
    dpti_worker *w = &trainer->workers[rank];
    *error = *dpti_hung_error(w);
    if (dpti_is_hung(w)) return DPT_E_DEVICE_LOST;
    worker_job *job = malloc(sizeof *job);
    if (!job) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to prepare a device");
    *job = (worker_job){.worker = w, .begin = begin};
    if (!dpti_trainer_prepare(trainer, rank, run_create_worker, job)) {
        dpti_leave_behind(job);
        *error = *dpti_hung_error(w);
        return DPT_E_DEVICE_LOST;
    }
    const dpt_status status = job->status;
    *error = job->error;
    free(job);
    return status;
}

void dpti_worker_destroy(dpti_worker *w)
{
    dpti_device *device = w->device;
    dpti_exchange_leave(w);
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_shard *shard = dpti_steps_shard(w->trainer, i, w->rank);
        if (!shard) continue;
        float *result = shard->result;
        shard->result = NULL;
        dpti_host_free(device, result);
        uint8_t *staging = shard->staging;
        shard->staging = NULL;
        dpti_host_free(device, staging);
    }
    dpti_exchange_destroy_parts(w);
    destroy_replica(w);
}

void dpti_worker_destroy_job(dpti_device *device, void *argument)
{
    (void)device;
    dpti_worker_destroy(argument);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Workers of lost devices, and of devices that hang, are not touched: dpti_trainer_tidy_lost
   releases them at the trainer's end. */
void dpti_trainer_destroy_workers(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; t->workers && i < t->n_workers; i++)
        if (t->workers[i].trainer && !dpti_is_lost(&t->workers[i]))
            (void)dpti_trainer_release(t, i, dpti_worker_destroy_job, &t->workers[i]);
}

/* Creates the workers until one fails: its copy of the data is in *crowded if that took memory that
   the worker lacks, else *failing is the worker. */
static dpt_status try_all(dpt_trainer *t, dpti_begin begin, dpti_data_copy **crowded,
                          dpti_failing_rank *failing)
{
    *crowded = NULL;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpt_error error = {.status = DPT_OK};
        if (dpti_is_lost(w)) continue;
        const dpt_status status = dpti_trainer_create_worker(t, i, begin, &error);
        if (status == DPT_OK) continue;
        if (status == DPT_E_NO_MEMORY && dpti_data_bytes(dpti_feeding_copy_of(w)) > 0) {
            *crowded = dpti_feeding_copy_of(w);
            return status;
        }
        *failing = (dpti_failing_rank){.rank = i, .error = error};
        return dpti_trainer_fail(t, w->device, &error);
    }
    return DPT_OK;
}

/* The same, as often as copies of the data take memory that workers lack. */
static dpt_status try_with_copies(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    for (;;) {
        if (!t->in_micro_batches) DPT_TRY(dpti_trainer_find_capacities(t));
        dpti_data_copy *crowded = NULL;
        const dpt_status status = try_all(t, begin, &crowded, failing);
        if (!crowded) return status;
        dpti_trainer_destroy_workers(t);
        dpti_data_copy_drop(crowded);
    }
}

/* Notes what memory the devices have left beside workers without parts of the optimizer's state,
   and makes workers with parts that go by that. */
static dpt_status create_measured(dpt_trainer *t, dpti_trial trial, dpti_begin begin,
                                  dpti_failing_rank *failing)
{
    dpti_state_parts_set_trial(t, trial);
    const dpt_status status = try_with_copies(t, begin, failing);
    dpti_state_parts_set_trial(t, DPTI_NO_TRIAL);
    DPT_TRY(dpti_peers_agree(t, status));
    dpti_state_parts_measure(t);
    dpti_trainer_destroy_workers(t);
    DPT_TRY(dpti_state_parts_divide(t, true));
    return try_with_copies(t, begin, failing);
}

/* Parts of the optimizer's state go by estimates.  How much gradients take is known only when a
   program is made: parts of sums go by what memory is left. */
static dpt_status create_first(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    if (dpti_state_parts_of_gradients(t))
        return create_measured(t, DPTI_TRIAL_FULL, begin, failing);
    DPT_TRY(dpti_state_parts_divide(t, false));
    return try_with_copies(t, begin, failing);
}

/* Parts are divided over all processes: all of them divide anew, or none.  DPT_E_NO_MEMORY: memory
   is short in any. */
static dpt_status agree_on_parts(dpt_trainer *t, dpt_status mine)
{
    enum { IS_SHORT = 1, HAS_FAILED = 2 };
    unsigned any = 0;
    if (!t->processes || !dpti_state_parts_on(t)) return mine;
    const unsigned bits = mine == DPT_E_NO_MEMORY ? IS_SHORT : HAS_FAILED;
    DPT_TRY(dpti_peers_ask_any(t, mine == DPT_OK ? 0 : bits, &any));
    if (any == IS_SHORT) return DPT_E_NO_MEMORY;
    return any == 0 ? DPT_OK : dpti_peers_agree(t, mine);
}

/* If one does not fit, they go by what memory is left beside the rest, which all of them fit into
   if they can fit. */
static dpt_status create_all(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    const dpt_status status = agree_on_parts(t, create_first(t, begin, failing));
    if (status != DPT_E_NO_MEMORY || !dpti_state_parts_on(t)) return status;
    dpti_trainer_destroy_workers(t);
    return create_measured(t, DPTI_TRIAL_LEAST, begin, failing);
}

bool dpti_any_has_micro_batches(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_devices; i++)
        if (dpti_peers_device(trainer, i)->in_micro_batches) return true;
    return false;
}

/* The same, and all processes learn what all workers can do. */
static dpt_status create_and_tell(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    return dpti_peers_share_capacities(t, create_all(t, begin, failing));
}

/* Where the devices together hold less at once than a batch, each gets a shard in proportion to
   what it holds, in several micro-batches. */
static bool widen_capacities(dpt_trainer *t)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->n_devices; i++)
        sum += dpti_peers_device(t, i)->capacity;
    if (!t->measured || sum >= t->batch_size) return false;
    const size_t n = t->batch_size / sum + (t->batch_size % sum != 0);
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].capacity *= n; /* the sum is below twice the batch */
    t->in_micro_batches = true;
    return true;
}

static dpt_status create_fitting(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    DPT_TRY(create_and_tell(t, begin, failing));
    if (!widen_capacities(t)) return DPT_OK;
    dpti_trainer_destroy_workers(t);
    return create_and_tell(t, begin, failing);
}

/* Whether every device computes whole grains at once, and with statistics of the batch its whole
   shard. */
static dpt_status check_grains(dpt_trainer *t)
{
    const size_t size = dpti_grains_of(t->batch_size).size;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        const size_t most = w->replica.capacity;
        if (dpti_is_lost(w) || most >= w->capacity) continue;
        if (t->program.n_parts > 1)
            return dpt_fail(
                t->context, DPT_E_INVALID,
                "%s computes %zu samples at once, and batch-norm needs its whole shard: "
                "deterministic training needs a smaller batch size, no limit of "
                "micro-batches, or batch-norm frozen",
                w->device->id, most);
        if (most < size)
            return dpt_fail(
                t->context, DPT_E_INVALID,
                "%s computes %zu samples at once, and deterministic training needs %zu: "
                "use a larger micro-batch or a smaller batch size",
                w->device->id, most, size);
    }
    return DPT_OK;
}

dpt_status dpti_trainer_create_workers(dpt_trainer *trainer, dpti_begin begin,
                                       dpti_failing_rank *failing)
{
    dpt_trainer *t = trainer;
    *failing = (dpti_failing_rank){.rank = t->n_workers};
    DPT_TRY(create_fitting(t, begin, failing));
    if (t->program.deterministic) return dpti_peers_agree(t, check_grains(t));
    if (!dpti_any_has_micro_batches(t) || t->program.n_parts <= 1) return DPT_OK;
    /* Devices with several micro-batches cannot exchange parts in each of them: each device takes
       its own statistics, for each micro-batch. */
    dpti_trainer_destroy_workers(t);
    t->program.n_parts = 1;
    return create_and_tell(t, begin, failing);
}
