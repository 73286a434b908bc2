/* A device's worker: its replica and programs, made for as many samples at once as its memory
 * holds.
 */
#include "device/buffer.h"
#include "device/side_stream.h"
#include "device/stream.h"
#include "train/trainer.h"

#include "base/left_behind.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- One worker ------------------------------------------------------------------------------ */

/* In one piece with the weights: if the device hangs it is the device's. */
typedef struct worker_job {
    dpti_worker *worker;
    dpt_status status;
    dpt_error error;
    float weights[];
} worker_job;

static dpt_status create_parts(dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    const size_t n_bytes = t->n_devices * dpti_trainer_part_size(t) * sizeof(float);
    void *parts;
    if (!t->allgather) return DPT_OK;
    DPT_TRY(dpti_host_alloc(w->device, n_bytes, &parts));
    w->parts = parts;
    return DPT_OK;
}

static dpt_status create_staging(dpti_worker *w)
{
    const size_t most = w->capacity * w->trainer->accumulate;
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_share *share = &w->trainer->slots[i].shares[w->rank];
        void *staging, *result;
        DPT_TRY(dpti_host_alloc(w->device, dpti_step_bytes(most), &staging));
        share->staging = staging;
        DPT_TRY(dpti_host_alloc(w->device, (most + 1) * 2 * sizeof(float), &result));
        share->result = result;
    }
    return create_parts(w);
}

static dpti_data_copy *copy_of(const dpti_worker *w)
{
    const dpti_data_store *store = &w->trainer->store;
    return &store->copies[store->copy_of[w->rank]];
}

/* A device without samples needs no data. */
static bool is_fed(const dpti_worker *w)
{
    return !dpti_data_resident(copy_of(w)) && w->capacity > 0;
}

void dpti_worker_program(const dpti_worker *worker, dpti_program_options *options,
                         dpti_data_places *places)
{
    const dpti_worker *w = worker;
    const dpt_trainer *t = w->trainer;
    const size_t most = w->replica.capacity;
    *options = t->program;
    options->accumulate = most < w->capacity || t->accumulate > 1;
    options->fed = is_fed(w) ? most : 0;
    *places =
        is_fed(w) ? dpti_feed_places(&w->feed) : dpti_data_copy_places(copy_of(w), t->program.loss);
}

/* The replica, and its program of training, for at most `most` samples at once. */
static dpt_status create_replica(dpti_worker *w, size_t most, const float *weights,
                                 dpt_error *error)
{
    const dpt_trainer *t = w->trainer;
    dpti_data_places places;
    dpti_program_options options;
    DPT_TRY(dpti_replica_create(w->device, t->model, most, &t->program.optimizer, &w->replica));
    const bool whole = t->n_workers == 1 && dpti_may_use_single_launch(w);
    w->views[0] = dpti_host_pointer(&w->replica.parameters);
    w->views[1] = dpti_host_pointer(&w->replica.velocity);
    w->views[2] = dpti_host_pointer(&w->replica.squares);
    w->replica.insists = t->replay.choices != NULL;
    w->replica.wanted =
        t->replay.choices ? &t->replay.choices[t->first_device + w->rank] : &w->kept;
    DPT_TRY(dpti_upload(&w->replica.parameters, 0, weights, t->model->flat_size * sizeof(float)));
    DPT_TRY(dpti_sync(w->device));
    DPT_TRY(whole ? dpti_single_launch_create(w)
                  : dpti_finite_create(&w->replica, 0, t->model->flat_size, &w->finite));
    DPT_TRY(dpti_verify_create(w));
    if (is_fed(w)) {
        const dpti_feed_size size = {.capacity = most,
                                     .host_capacity = w->capacity * t->accumulate,
                                     .n_slots = DPTI_FEED_SLOTS};
        DPT_TRY(dpti_feed_create(w->device, t->data, t->program.loss, &size, &w->feed));
    }
    dpti_worker_program(w, &options, &places);
    options.whole = whole;
    if (whole) w->whole = &w->train;
    return dpti_executable_create(&w->replica, &options, &places, &w->train, error);
}

static void destroy_replica(dpti_worker *w)
{
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        dpti_executable_destroy(&w->tests[i].evaluate);
        dpti_feed_destroy(&w->tests[i].own_feed);
    }
    dpti_executable_destroy(&w->train);
    dpti_feed_destroy(&w->feed);
    dpti_verify_destroy(w);
    dpti_looks_destroy(&w->looks);
    dpti_finite_destroy(&w->finite);
    dpti_single_launch_destroy(w);
    dpti_side_stream_destroy(&w->side);
    dpti_replica_destroy(&w->replica);
    memset(w->views, 0, sizeof w->views);
}

/* Whether its share is to be what it computes at once. */
static bool keeps_whole(const dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    return t->measured && !t->takes_passes && dpti_model_has_batch_norm(t->model);
}

/* Halves what is computed at once until it fits into the device's memory; but before that the data
   have to go, since passes change what a batch-norm sees, and feeding changes nothing.  Where
   shares follow measurements and there is a batch-norm, the device gets no more than that: others
   may have room. */
static dpt_status fit_replica(dpti_worker *w, const float *weights, dpt_error *error)
{
    DPT_TRY(dpti_find_pass_limit(w, error));
    size_t most = w->pass_limit < w->capacity ? w->pass_limit : w->capacity;
    for (;;) {
        *error = (dpt_error){.status = DPT_OK};
        const dpt_status status = create_replica(w, most, weights, error);
        /* What did not fill the record itself left the detail with the device. */
        if (status != DPT_OK && error->status == DPT_OK) *error = w->device->base.error;
        if (status != DPT_E_NO_MEMORY || most <= 1 || dpti_data_bytes(copy_of(w)) > 0)
            return status;
        destroy_replica(w);
        most = (most + 1) / 2;
        if (keeps_whole(w)) w->capacity = most;
    }
}

/* A device without samples has chosen for nothing but the optimizer. */
static dpt_status keep_choices(dpti_worker *w, dpt_error *error)
{
    if (w->kept.n > 0 || w->replica.capacity == 0) return DPT_OK;
    const dpt_status status = dpti_executable_choices(&w->train, &w->kept);
    return status == DPT_OK ? DPT_OK : DPT_FAIL(error, status, "no memory for choices");
}

static dpt_status create(dpti_worker *w, const float *weights, dpt_error *error)
{
    DPT_TRY(create_staging(w));
    DPT_TRY(fit_replica(w, weights, error));
    DPT_TRY(keep_choices(w, error));
    w->room = w->replica.capacity;
    w->held = 0;
    return dpti_allreduce_join(w->trainer->allreduce, w->rank, &w->replica.gradients);
}

static void run_create_worker(dpti_device *device, void *argument)
{
    worker_job *job = argument;
    job->status = create(job->worker, job->weights, &job->error);
    if (job->status != DPT_OK && job->error.status == DPT_OK)
        job->error = *dpti_device_error(device);
    job->error.status = job->status;
}

dpt_status dpti_trainer_create_worker(dpt_trainer *trainer, size_t rank, const float *weights,
                                      dpt_error *error)
{
    dpti_worker *w = &trainer->workers[rank];
    const size_t n_bytes = trainer->model->flat_size * sizeof *weights;
    *error = w->hung_error;
    if (dpti_is_hung(w)) return DPT_E_DEVICE_LOST;
    worker_job *job = malloc(sizeof *job + n_bytes);
    if (!job) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a copy of the weights");
    *job = (worker_job){.worker = w};
    memcpy(job->weights, weights, n_bytes);
    if (!dpti_trainer_prepare(trainer, rank, run_create_worker, job)) {
        dpti_leave_behind(job);
        *error = w->hung_error;
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
    dpt_trainer *t = w->trainer;
    if (t->allreduce) dpti_allreduce_leave(t->allreduce, w->rank);
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_share *share = t->slots[i].shares ? &t->slots[i].shares[w->rank] : NULL;
        if (!share) continue;
        float *result = share->result;
        share->result = NULL;
        dpti_host_free(device, result);
        uint8_t *staging = share->staging;
        share->staging = NULL;
        dpti_host_free(device, staging);
    }
    float *parts = w->parts;
    w->parts = NULL;
    dpti_host_free(device, parts);
    destroy_replica(w);
}

void dpti_worker_destroy_job(dpti_device *device, void *argument)
{
    (void)device;
    dpti_worker_destroy(argument);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Those that are lost, or hang, are not touched: the trainer's end sees to them. */
void dpti_trainer_destroy_workers(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; t->workers && i < t->n_workers; i++)
        if (t->workers[i].trainer && !dpti_is_lost(&t->workers[i]))
            (void)dpti_trainer_release(t, i, dpti_worker_destroy_job, &t->workers[i]);
}

/* Creates the workers until one fails: its copy of the data is in *crowded if that took memory that
   the worker lacks, else it is the culprit. */
static dpt_status try_all(dpt_trainer *t, const float *weights, dpti_data_copy **crowded,
                          dpti_failing_rank *failing)
{
    *crowded = NULL;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpt_error error = {.status = DPT_OK};
        if (dpti_is_lost(w)) continue;
        const dpt_status status = dpti_trainer_create_worker(t, i, weights, &error);
        if (status == DPT_OK) continue;
        if (status == DPT_E_NO_MEMORY && dpti_data_bytes(copy_of(w)) > 0) {
            *crowded = copy_of(w);
            return status;
        }
        *failing = (dpti_failing_rank){.rank = i, .error = error};
        return dpti_trainer_fail(t, w->device, &error);
    }
    return DPT_OK;
}

static dpt_status create_all(dpt_trainer *t, const float *weights, dpti_failing_rank *failing)
{
    for (;;) {
        if (!t->takes_passes) DPT_TRY(dpti_trainer_find_capacities(t));
        dpti_data_copy *crowded = NULL;
        const dpt_status status = try_all(t, weights, &crowded, failing);
        if (!crowded) return status;
        dpti_trainer_destroy_workers(t);
        dpti_data_copy_drop(crowded);
    }
}

bool dpti_any_has_micro_batches(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_devices; i++)
        if (trainer->peers[i].takes_passes) return true;
    return false;
}

/* Likewise, and all processes know what all can do. */
static dpt_status create_and_tell(dpt_trainer *t, const float *weights, dpti_failing_rank *failing)
{
    return dpti_peers_share_capacities(t, create_all(t, weights, failing));
}

/* Where the devices together hold less at once than a batch, each gets a part in proportion to what
   it holds, in passes. */
static bool widen_capacities(dpt_trainer *t)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->n_devices; i++)
        sum += t->peers[i].capacity;
    if (!t->measured || sum >= t->batch_size) return false;
    const size_t passes = t->batch_size / sum + (t->batch_size % sum != 0);
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].capacity *= passes; /* below twice the batch */
    t->takes_passes = true;
    return true;
}

static dpt_status create_fitting(dpt_trainer *t, const float *weights, dpti_failing_rank *failing)
{
    DPT_TRY(create_and_tell(t, weights, failing));
    if (!widen_capacities(t)) return DPT_OK;
    dpti_trainer_destroy_workers(t);
    return create_and_tell(t, weights, failing);
}

dpt_status dpti_trainer_create_workers(dpt_trainer *trainer, const float *weights,
                                       dpti_failing_rank *failing)
{
    dpt_trainer *t = trainer;
    *failing = (dpti_failing_rank){.rank = t->n_workers};
    DPT_TRY(create_fitting(t, weights, failing));
    if (!dpti_any_has_micro_batches(t) || t->program.n_parts <= 1) return DPT_OK;
    /* Devices that work in several passes cannot meet in each: every one takes its own statistics,
       a pass at a time. */
    dpti_trainer_destroy_workers(t);
    t->program.n_parts = 1;
    return create_and_tell(t, weights, failing);
}

/* ---- Anew ------------------------------------------------------------------------------------ */

static dpt_status write_all(dpt_trainer *t, float *const *flats, dpti_failing_rank *failing)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_is_lost(w)) continue;
        const dpt_status status = dpti_trainer_write_state_buffers(t, i, flats);
        if (status == DPT_OK) continue;
        const dpt_error error = dpti_is_hung(w) ? w->hung_error : *dpti_device_error(w->device);
        if (error.status != DPT_OK) *failing = (dpti_failing_rank){.rank = i, .error = error};
        return status; /* which may be the host's */
    }
    return DPT_OK;
}

/* One attempt; DPT_E_CANCELLED: a device was lost, try again with the others. */
static dpt_status remake(dpt_trainer *t, float *const *flats)
{
    dpti_failing_rank failing;
    dpti_trainer_unbind_tests(t);
    dpti_islands_end(t);
    t->islands.due = true;
    dpti_trainer_destroy_workers(t);
    dpt_status status = dpti_trainer_create_workers(t, flats[0], &failing);
    if (status == DPT_OK) status = write_all(t, flats, &failing);
    if (status == DPT_OK || failing.rank == t->n_workers) return status;
    DPT_TRY(dpti_trainer_lose_unmade(t, &failing));
    return DPT_E_CANCELLED;
}

dpt_status dpti_trainer_rebuild(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    dpt_status status = dpti_peers_agree(t, dpti_trainer_read_state_buffers(t, flats));
    if (status == DPT_OK) {
        do
            status = remake(t, flats);
        while (status == DPT_E_CANCELLED);
        if (status != DPT_OK) dpti_trainer_forsake(t, flats);
    }
    dpti_trainer_free_state_buffers(flats);
    return status;
}
