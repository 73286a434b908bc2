/* Loss and accuracy over a data set, on all devices at once: each takes one run of consecutive
   samples and works it off in passes of what it can hold. */
#include "train/trainer.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

typedef struct evaluate_job {
    dpti_worker *worker;
    size_t first, count; /* samples [first, first + count) */
    dpt_status status;
    dpt_error error;
    double loss; /* sum */
    size_t hits;
    uint64_t ticket;
} evaluate_job;

/* ---- Binding the programs to the data set ---------------------------------------------------- */

static void run_unbind(dpti_device *device, void *argument)
{
    dpti_worker *w = argument;
    (void)device;
    dpti_executable_destroy(&w->evaluate);
}

static void unbind(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        dpti_driver_call(t->workers[i].device, run_unbind, &t->workers[i]);
    dpti_data_store_destroy(&t->test_store);
    t->test = NULL;
}

static void run_bind(dpti_device *device, void *argument)
{
    evaluate_job *job = argument;
    dpti_worker *w = job->worker;
    const dpt_trainer *t = w->trainer;
    const dpti_data_store *store = t->test == t->data ? &t->store : &t->test_store;
    const dpti_data_copy *copy = &store->copies[store->copy_of[w->rank]];
    const dpti_program_options options = {.data = t->test};
    (void)device;
    job->status = dpti_executable_create(&w->replica, &options, &copy->images, &copy->labels,
                                         &w->evaluate, &job->error);
}

static dpt_status bind(dpt_trainer *t, const dpt_dataset *data)
{
    dpt_error error = {0};
    if (t->test == data) return DPT_OK;
    unbind(t);
    if (data != t->data &&
        dpti_data_store_create(t->devices, data, &t->test_store, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    t->test = data;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (w->capacity == 0) continue;
        evaluate_job job = {.worker = w};
        dpti_driver_call(w->device, run_bind, &job);
        if (job.status == DPT_OK) continue;
        (void)dpti_trainer_fail(t, w->device, &job.error);
        unbind(t);
        return job.status;
    }
    return DPT_OK;
}

/* ---- Evaluating ------------------------------------------------------------------------------ */

static dpt_status one_pass(evaluate_job *job, dpti_share *buffers, size_t first, size_t n)
{
    dpti_worker *w = job->worker;
    const dpt_step_block block = {.inv_batch = 1.0f, .first = (uint32_t)first};
    uint32_t *records = (uint32_t *)(void *)(buffers->staging + DPTI_STEP_INDEX_OFFSET);
    double seconds = 0;
    dpti_stage(buffers->staging, &block, NULL, 0);
    for (size_t i = 0; i < n; i++)
        records[i] = (uint32_t)(first + i);
    DPT_TRY(dpti_worker_upload(w, buffers->staging, n));
    DPT_TRY(dpti_worker_run(w, &w->evaluate, 0, n, buffers->result, &seconds));
    for (size_t i = 0; i < n; i++) {
        job->loss += (double)buffers->result[2 * i];
        job->hits += buffers->result[2 * i + 1] != 0.0f;
    }
    return DPT_OK;
}

static void run_evaluate(dpti_device *device, void *argument)
{
    evaluate_job *job = argument;
    dpti_worker *w = job->worker;
    /* Nothing is in flight, so the staging memory of any step is free. */
    dpti_share *buffers = &w->trainer->flights[0].shares[w->rank];
    for (size_t done = 0; job->status == DPT_OK && done < job->count;) {
        const size_t left = job->count - done;
        const size_t n = left < w->capacity ? left : w->capacity;
        job->status = one_pass(job, buffers, job->first + done, n);
        done += n;
    }
    if (job->status != DPT_OK) job->error = device->base.error;
}

/* Devices that have no samples in training have none here. */
static void divide(const dpt_trainer *t, size_t count, size_t *rows)
{
    dpti_split split = {.n_devices = t->n_workers};
    for (size_t i = 0; i < t->n_workers; i++) {
        const double part = t->split.equal ? 1.0 : t->split.parts[i];
        split.parts[i] = t->workers[i].capacity > 0 ? part : 0.0;
    }
    dpti_split_rows(&split, count, rows);
}

static dpt_status evaluate(dpt_trainer *t, const dpt_dataset *data, evaluate_job *jobs,
                           size_t *rows, dpt_evaluation *out)
{
    const double began = dpti_seconds();
    dpt_status status = DPT_OK;
    double loss = 0;
    size_t hits = 0, first = 0;
    divide(t, data->count, rows);
    for (size_t i = 0; i < t->n_workers; i++) {
        jobs[i] = (evaluate_job){.worker = &t->workers[i], .first = first, .count = rows[i]};
        first += rows[i];
        jobs[i].ticket = dpti_driver_post(t->workers[i].device, run_evaluate, &jobs[i]);
    }
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_driver_wait(t->workers[i].device, jobs[i].ticket);
        if (jobs[i].status != DPT_OK && status == DPT_OK)
            status = dpti_trainer_fail(t, t->workers[i].device, &jobs[i].error);
        loss += jobs[i].loss;
        hits += jobs[i].hits;
    }
    DPT_TRY(status);
    if (!isfinite(loss))
        return dpt_fail(t->context, DPT_E_NOT_FINITE,
                        "the loss on %s after step %zu is not finite; lower the learning rate or "
                        "check the weights and the data",
                        data->name, t->done.step);
    const double count = (double)data->count;
    *out = (dpt_evaluation){.samples = data->count,
                            .hits = hits,
                            .loss = loss / count,
                            .accuracy = (double)hits / count,
                            .seconds = dpti_seconds() - began};
    return DPT_OK;
}

dpt_status dpti_trainer_check_test(dpt_trainer *trainer, const dpt_dataset *data)
{
    dpt_trainer *t = trainer;
    const dpti_node *in = &t->model->nodes[t->model->input];
    if (data->height == in->extent.h && data->width == in->extent.w &&
        data->channels == in->extent.c && data->classes <= dpt_model_classes(t->model))
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "%s (%zux%zux%zu, %zu classes) does not fit model %s (%zux%zux%zu, %zu)",
                    data->name, data->height, data->width, data->channels, data->classes,
                    t->model->name, in->extent.h, in->extent.w, in->extent.c,
                    dpt_model_classes(t->model));
}

dpt_status dpt_trainer_evaluate(dpt_trainer *trainer, const dpt_dataset *data, dpt_evaluation *out)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_evaluate"));
    DPT_TRY(dpti_trainer_check_test(t, data));
    DPT_TRY(dpti_trainer_restore(t));
    if (t->lost)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights any more: load a checkpoint");
    DPT_TRY(bind(t, data));
    evaluate_job *jobs = calloc(t->n_workers, sizeof *jobs);
    size_t *rows = calloc(t->n_workers, sizeof *rows);
    dpt_status status = DPT_E_NO_MEMORY;
    if (jobs && rows)
        status = evaluate(t, data, jobs, rows, out);
    else
        (void)dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to evaluate");
    free(rows);
    free(jobs);
    return status;
}
