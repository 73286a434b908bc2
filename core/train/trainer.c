/* Creating a trainer: options, workers, memory.  Its steps are in flights.c. */
#include "train/trainer.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options --------------------------------------------------------------------------------- */

static dpt_status check_model(dpt_trainer *t)
{
    const dpt_model *m = t->model;
    const dpt_dataset *d = t->data;
    if (!m->finished)
        return dpt_fail(t->context, DPT_E_STATE, "model %s is not finished: call dpt_model_finish",
                        m->name);
    const dpti_extent in = m->nodes[m->input].extent;
    if (in.h != d->height || in.w != d->width || in.c != d->channels)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "model %s takes %zux%zux%zu images, but those of %s are %zux%zux%zu",
                        m->name, in.h, in.w, in.c, d->name, d->height, d->width, d->channels);
    if (dpt_model_classes(m) < d->classes)
        return dpt_fail(t->context, DPT_E_INVALID, "model %s has %zu classes, but %s has %zu",
                        m->name, dpt_model_classes(m), d->name, d->classes);
    return DPT_OK;
}

static bool in_range(float value, float min, float max)
{
    return value >= min && value <= max; /* false for NaN */
}

static dpt_status take_options(dpt_trainer *t, const dpt_trainer_options *o)
{
    dpt_context *context = t->context;
    t->batch_size = o->batch_size ? o->batch_size : 256;
    t->lr = o->lr != 0 ? o->lr : 0.1f;
    t->seed = o->seed;
    t->program = (dpti_program_options){.data = t->data,
                                        .training = true,
                                        .momentum = o->momentum,
                                        .weight_decay = o->weight_decay,
                                        .nesterov = o->nesterov};
    if (t->batch_size > t->data->count)
        return dpt_fail(context, DPT_E_INVALID,
                        "a batch of %zu is more than the %zu samples of %s; use a smaller batch "
                        "size",
                        t->batch_size, t->data->count, t->data->name);
    if (t->data->count > INT32_MAX)
        return dpt_fail(context, DPT_E_INVALID, "%s has more than %d samples", t->data->name,
                        INT32_MAX);
    if (!in_range(t->lr, 0, 1e6f))
        return dpt_fail(context, DPT_E_INVALID, "a learning rate of %g is not in (0, 1e6]",
                        (double)t->lr);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return dpt_fail(context, DPT_E_INVALID, "a momentum of %g is not in [0, 1)",
                        (double)o->momentum);
    if (!in_range(o->weight_decay, 0, 1e3f))
        return dpt_fail(context, DPT_E_INVALID, "a weight decay of %g is not in [0, 1000]",
                        (double)o->weight_decay);
    if (o->nesterov && o->momentum == 0)
        return dpt_fail(context, DPT_E_INVALID,
                        "Nesterov's rule needs a momentum greater than 0, such as 0.9");
    if (o->optimizer != DPT_OPTIMIZER_SGD)
        return dpt_fail(context, DPT_E_INVALID, "unknown optimizer %d", (int)o->optimizer);
    return DPT_OK;
}

/* ---- Workers --------------------------------------------------------------------------------- */

typedef struct worker_job {
    dpti_worker *worker;
    const float *weights;
    dpt_status status;
    dpt_error error;
} worker_job;

static dpt_status create_worker(dpti_worker *w, const float *weights, dpt_error *error)
{
    dpt_trainer *t = w->trainer;
    const dpti_data_copy *copy = &t->store.copies[t->store.copy_of[w->rank]];
    const size_t flat_bytes = t->model->flat_size * sizeof(float);
    DPT_TRY(dpti_replica_create(w->device, t->model, w->capacity, t->program.momentum != 0,
                                &w->replica));
    for (size_t i = 0; i < DPTI_FLIGHTS; i++) {
        dpti_share *share = &t->flights[i].shares[w->rank];
        void *staging, *result;
        DPT_TRY(dpti_host_alloc(w->device, dpti_step_bytes(w->capacity), &staging));
        share->staging = staging;
        DPT_TRY(dpti_host_alloc(w->device, (w->capacity + 1) * 2 * sizeof(float), &result));
        share->result = result;
    }
    DPT_TRY(dpti_upload(&w->replica.parameters, 0, weights, flat_bytes));
    DPT_TRY(dpti_sync(w->device));
    DPT_TRY(dpti_allreduce_join(t->allreduce, w->rank, &w->replica.gradients));
    return dpti_executable_create(&w->replica, &t->program, &copy->images, &copy->labels, &w->train,
                                  error);
}

static void run_create_worker(dpti_device *device, void *argument)
{
    worker_job *job = argument;
    job->status = create_worker(job->worker, job->weights, &job->error);
    /* What did not fill the record itself left the detail with the device. */
    if (job->status != DPT_OK && job->error.status == DPT_OK) job->error = device->base.error;
}

static void run_destroy_worker(dpti_device *device, void *argument)
{
    dpti_worker *w = argument;
    dpt_trainer *t = w->trainer;
    dpti_executable_destroy(&w->evaluate);
    dpti_executable_destroy(&w->train);
    if (t->allreduce) dpti_allreduce_leave(t->allreduce, w->rank);
    for (size_t i = 0; i < DPTI_FLIGHTS; i++) {
        dpti_share *share = t->flights[i].shares ? &t->flights[i].shares[w->rank] : NULL;
        if (share && share->result) dpti_host_free(device, share->result);
        if (share && share->staging) dpti_host_free(device, share->staging);
    }
    dpti_replica_destroy(&w->replica);
}

static dpt_status create_workers(dpt_trainer *t, const char *init)
{
    dpt_error error = {0};
    float *weights = calloc(t->model->flat_size, sizeof *weights);
    if (!weights) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for the weights");
    dpt_status status =
        dpti_initialize(t->model, init ? init : "default", t->seed, weights, &error);
    if (status != DPT_OK) status = dpti_context_fail(t->context, NULL, &error);
    for (size_t i = 0; status == DPT_OK && i < t->n_workers; i++) {
        worker_job job = {.worker = &t->workers[i], .weights = weights};
        dpti_driver_call(t->workers[i].device, run_create_worker, &job);
        status = job.status;
        if (status != DPT_OK) (void)dpti_trainer_fail(t, t->workers[i].device, &job.error);
    }
    free(weights);
    return status;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static dpt_status allocate(dpt_trainer *t)
{
    const size_t n = t->n_workers;
    bool complete = true;
    t->workers = calloc(n, sizeof *t->workers);
    t->allreduce = dpti_allreduce_create(n, t->model->flat_size);
    for (size_t i = 0; i < DPTI_FLIGHTS; i++) {
        dpti_flight *flight = &t->flights[i];
        flight->shares = calloc(n, sizeof *flight->shares);
        flight->shards = calloc(n, sizeof *flight->shards);
        flight->device_seconds = calloc(n, sizeof *flight->device_seconds);
        complete = complete && flight->shares && flight->shards && flight->device_seconds;
    }
    if (!t->workers || !t->allreduce || !complete ||
        !dpti_order_create(t->data->count, t->batch_size, t->seed, t->order.shuffle, &t->order))
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    for (size_t i = 0; i < n; i++) {
        t->workers[i] = (dpti_worker){.trainer = t, .device = t->devices->devices[i], .rank = i};
        for (size_t s = 0; s < DPTI_FLIGHTS; s++)
            t->flights[s].shares[i].worker = &t->workers[i];
    }
    return DPT_OK;
}

static dpt_status build(dpt_trainer *t, const dpt_trainer_options *options)
{
    dpt_error error = {0};
    DPT_TRY(check_model(t));
    DPT_TRY(take_options(t, options));
    DPT_TRY(allocate(t));
    DPT_TRY(dpti_trainer_take_split(t, options->split));
    DPT_TRY(dpti_trainer_find_capacities(t));
    if (dpti_data_store_create(t->devices, t->data, &t->store, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return create_workers(t, options->init);
}

dpt_status dpt_trainer_create(dpt_device_set *devices, const dpt_model *model,
                              const dpt_dataset *data, const dpt_trainer_options *options,
                              dpt_trainer **out)
{
    static const dpt_trainer_options defaults;
    if (!options) options = &defaults;
    if (!model || !data)
        return dpt_fail(devices->context, DPT_E_INVALID, "a trainer needs a model and data");
    dpt_trainer *t = calloc(1, sizeof *t);
    if (!t) return dpt_fail(devices->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    t->context = devices->context;
    t->devices = devices;
    t->n_workers = devices->n_devices;
    t->model = model;
    t->data = data;
    t->order.shuffle = !options->no_shuffle;
    t->done = t->next = (dpti_cursor){.epoch = 1};
    const dpt_status status = build(t, options);
    if (status == DPT_OK)
        *out = t;
    else
        dpt_trainer_destroy(t);
    return status;
}

void dpt_trainer_destroy(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    if (!t) return;
    dpti_trainer_drain(t);
    for (size_t i = 0; t->workers && i < t->n_workers; i++)
        if (t->workers[i].trainer)
            dpti_driver_call(t->workers[i].device, run_destroy_worker, &t->workers[i]);
    dpti_data_store_destroy(&t->test_store);
    dpti_data_store_destroy(&t->store);
    for (size_t i = 0; i < DPTI_FLIGHTS; i++) {
        free(t->flights[i].device_seconds);
        free(t->flights[i].shards);
        free(t->flights[i].shares);
    }
    dpti_order_free(&t->order);
    dpti_replay_free(&t->replay);
    dpti_allreduce_destroy(t->allreduce);
    free(t->workers);
    free(t->split_text);
    free(t);
}

/* ---- Small things ---------------------------------------------------------------------------- */

dpt_status dpti_trainer_idle(dpt_trainer *trainer, const char *call)
{
    if (trainer->n_in_flight == 0) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s while steps are in flight: collect them first", call);
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
    if (!(lr > 0 && lr <= 1e6f))
        return dpt_fail(trainer->context, DPT_E_INVALID, "a learning rate of %g is not in (0, 1e6]",
                        (double)lr);
    trainer->lr = lr;
    return DPT_OK;
}

size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device)
{
    if (device >= trainer->n_workers) return 0;
    const dpti_worker *w = &trainer->workers[device];
    return dpti_replica_bytes(&w->replica) + w->train.arena.n_bytes + w->evaluate.arena.n_bytes;
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
