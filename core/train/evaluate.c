/* Loss and accuracy over a data set, or what the network says of its samples, on all devices at
   once: each takes one run of consecutive samples and works it off in passes of what it can hold.
 */
#include "train/trainer.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

typedef struct evaluate_job {
    dpti_worker *worker;
    size_t first, count; /* samples [first, first + count) */
    dpt_status status;
    dpt_error error;
    float *outputs; /* of these samples, (count, classes), or NULL: loss and hits are wanted */
    double loss;    /* sum */
    size_t hits;
    uint64_t ticket;
} evaluate_job;

/* ---- Binding the programs to the data set ---------------------------------------------------- */

static void run_unbind(dpti_device *device, void *argument)
{
    dpti_worker *w = argument;
    (void)device;
    dpti_executable_destroy(&w->evaluate);
    dpti_feed_destroy(&w->own_test_feed);
    w->test_feed = NULL;
}

static void unbind(dpt_trainer *t)
{
    for (size_t i = 0; i < t->n_workers; i++)
        dpti_driver_call(t->workers[i].device, run_unbind, &t->workers[i]);
    dpti_data_store_destroy(&t->test_store);
    t->test = NULL;
}

/* That of training if it has room for these data, else one of its own. */
static dpt_status provide_test_feed(dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    const size_t most = w->replica.capacity;
    const dpti_feed_size size = {.capacity = most, .host_capacity = most, .n_slots = 1};
    w->test_feed = &w->feed;
    if (dpti_feed_serves(&w->feed, t->test, most)) return DPT_OK;
    w->test_feed = &w->own_test_feed;
    return dpti_feed_create(w->device, t->test, t->program.loss, &size, &w->own_test_feed);
}

static void run_bind(dpti_device *device, void *argument)
{
    evaluate_job *job = argument;
    dpti_worker *w = job->worker;
    const dpt_trainer *t = w->trainer;
    const dpti_data_store *store =
        dpti_dataset_share(t->test, t->data) ? &t->store : &t->test_store;
    const dpti_data_copy *copy = &store->copies[store->copy_of[w->rank]];
    dpti_data_places places = dpti_data_copy_places(copy, t->program.loss);
    dpti_program_options options = {
        .data = t->test, .purpose = t->test_purpose, .loss = t->program.loss};
    job->status = DPT_OK;
    if (!dpti_data_resident(copy)) {
        job->status = provide_test_feed(w);
        if (job->status == DPT_OK) places = dpti_feed_places(w->test_feed);
        options.fed = w->replica.capacity;
    }
    if (job->status == DPT_OK)
        job->status =
            dpti_executable_create(&w->replica, &options, &places, &w->evaluate, &job->error);
    if (job->status != DPT_OK && job->error.status == DPT_OK) job->error = device->base.error;
}

static dpt_status bind(dpt_trainer *t, const dpt_dataset *data, dpti_purpose purpose)
{
    dpt_error error = {0};
    if (t->test == data && t->test_purpose == purpose) return DPT_OK;
    unbind(t);
    if (!dpti_dataset_share(data, t->data) &&
        dpti_data_store_create(t->devices, data, &t->test_store, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    t->test = data;
    t->test_purpose = purpose;
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
        records[i] = (uint32_t)dpti_dataset_record(w->trainer->test, first + i);
    DPT_TRY(dpti_worker_upload(w, buffers->staging, 0, n));
    if (w->test_feed) {
        dpti_feed_gather(w->test_feed, w->trainer->test, 0, records, n);
        DPT_TRY(dpti_feed_upload(w->test_feed, w->trainer->test, 0, 0, n));
    }
    if (job->outputs)
        return dpti_worker_run(
            w, &w->evaluate, 0, n,
            job->outputs + (first - job->first) * w->evaluate.program.result_elements, &seconds);
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
        const size_t most = w->replica.capacity;
        const size_t n = left < most ? left : most;
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

/* Works samples [first, first + count) off and waits; the jobs have what came out. */
static dpt_status work_off(dpt_trainer *t, size_t first, size_t count, float *outputs,
                           evaluate_job *jobs, size_t *rows)
{
    const size_t classes = dpt_model_classes(t->model);
    dpt_status status = DPT_OK;
    size_t done = 0;
    divide(t, count, rows);
    for (size_t i = 0; i < t->n_workers; i++) {
        jobs[i] = (evaluate_job){.worker = &t->workers[i],
                                 .first = first + done,
                                 .count = rows[i],
                                 .outputs = outputs ? outputs + done * classes : NULL};
        done += rows[i];
        jobs[i].ticket = dpti_driver_post(t->workers[i].device, run_evaluate, &jobs[i]);
    }
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_driver_wait(t->workers[i].device, jobs[i].ticket);
        if (jobs[i].status != DPT_OK && status == DPT_OK)
            status = dpti_trainer_fail(t, t->workers[i].device, &jobs[i].error);
    }
    return status;
}

static dpt_status check_shape(const dpt_trainer *t, const dpt_dataset *data)
{
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

dpt_status dpti_trainer_check_test(dpt_trainer *trainer, const dpt_dataset *data)
{
    DPT_TRY(check_shape(trainer, data));
    return dpti_trainer_check_answers(trainer, data);
}

/* The same with everything around it.  `outputs` or `sum` is what is wanted. */
static dpt_status evaluate(dpt_trainer *t, const dpt_dataset *data, size_t first, size_t count,
                           float *outputs, dpt_evaluation *sum)
{
    DPT_TRY(outputs ? check_shape(t, data) : dpti_trainer_check_test(t, data));
    DPT_TRY(dpti_trainer_restore(t));
    if (t->lost)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights any more: load a checkpoint");
    DPT_TRY(bind(t, data, outputs ? DPTI_PURPOSE_PREDICT : DPTI_PURPOSE_EVALUATE));
    evaluate_job *jobs = calloc(t->n_workers, sizeof *jobs);
    size_t *rows = calloc(t->n_workers, sizeof *rows);
    dpt_status status = DPT_E_NO_MEMORY;
    if (jobs && rows)
        status = work_off(t, first, count, outputs, jobs, rows);
    else
        (void)dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to evaluate");
    for (size_t i = 0; status == DPT_OK && sum && i < t->n_workers; i++) {
        sum->loss += jobs[i].loss;
        sum->hits += jobs[i].hits;
    }
    free(rows);
    free(jobs);
    return status;
}

dpt_status dpt_trainer_evaluate(dpt_trainer *trainer, const dpt_dataset *data, dpt_evaluation *out)
{
    const double began = dpti_seconds();
    const double count = (double)data->count;
    dpt_evaluation sum = {.samples = data->count};
    DPT_TRY(dpti_trainer_idle(trainer, "dpt_trainer_evaluate"));
    DPT_TRY(evaluate(trainer, data, 0, data->count, NULL, &sum));
    if (!isfinite(sum.loss))
        return dpt_fail(trainer->context, DPT_E_NOT_FINITE,
                        "the loss on %s after step %zu is not finite; lower the learning rate or "
                        "check the weights and the data",
                        data->name, trainer->done.step);
    sum.loss /= count;
    sum.accuracy = (double)sum.hits / count;
    sum.seconds = dpti_seconds() - began;
    *out = sum;
    return DPT_OK;
}

/* ---- Predicting ------------------------------------------------------------------------------ */

static void softmax(float *row, size_t n)
{
    double most = (double)row[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = fmax(most, (double)row[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)row[i] - most);
    for (size_t i = 0; i < n; i++)
        row[i] = (float)(exp((double)row[i] - most) / sum);
}

dpt_status dpt_trainer_predict(dpt_trainer *trainer, const dpt_dataset *data, size_t first,
                               size_t count, float *outputs)
{
    dpt_trainer *t = trainer;
    const size_t classes = dpt_model_classes(t->model);
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_predict"));
    if (first > data->count || count > data->count - first)
        return dpt_fail(t->context, DPT_E_INVALID, "samples %zu to %zu of %s, which has %zu", first,
                        first + count, data->name, data->count);
    if (count == 0) return DPT_OK;
    DPT_TRY(evaluate(t, data, first, count, outputs, NULL));
    for (size_t i = 0; t->program.loss == DPT_LOSS_CROSS_ENTROPY && i < count; i++)
        softmax(outputs + i * classes, classes);
    return DPT_OK;
}
