/* The calls of a predictor (predictor.h).  Any thread may make them: nothing of the context is
   written. */
#include "predict/predictor.h"

#include "base/softmax.h"
#include "context/sized.h"
#include "device/call_limit.h"
#include "dpt_error.h"
#include "graph/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that a device may take for one call if the options do not tell. */
static const double default_timeout = 600;

/* ---- One call -------------------------------------------------------------------------------- */

/* A device's part of a call.  A thread that hangs does not come back to it. */
typedef struct run_job {
    dpti_predict_worker *worker;
    dpti_predict_call *call;
    dpt_status status;
    bool unread;
    uint64_t ticket;
} run_job;

static void run_worker(dpti_device *device, void *argument)
{
    run_job *job = argument;
    (void)device;
    job->status = dpti_predict_worker_run(job->worker, job->call, &job->unread);
}

/* Waits for a job.  A device that hangs is lost. */
static dpt_status wait_for(const dpti_predict_call *call, run_job *job)
{
    dpti_predict_worker *w = job->worker;
    const double timeout = call->predictor->device_timeout;
    const dpti_limit limit = {.seconds = timeout > 0 ? timeout : default_timeout,
                              .words = "(dpt_predictor_options.device_timeout sets the limit)"};
    if (dpti_driver_await(w->device, job->ticket, &limit)) return job->status;
    w->error = w->device->given_up;
    w->error.status = DPT_E_DEVICE_LOST;
    return DPT_E_DEVICE_LOST;
}

/* Whether a failure means that the device is lost, and that others may do its work. */
static bool is_loss(const run_job *job, dpt_status status)
{
    return status != DPT_OK && status != DPT_E_NO_MEMORY && status != DPT_E_CALLBACK &&
           !job->unread;
}

/* Copies a worker's failure, with the device's name unless images could not be read. */
static void name_device(dpt_error *error, const dpti_predict_worker *w, bool unread)
{
    *error = w->error;
    if (!unread)
        snprintf(error->message, sizeof error->message, "device %s: %.400s", w->device->id,
                 w->error.message);
}

/* Sets the fractions of the workers that are left: by their rates if all are known, else equal
 * ones.
 */
static void set_fractions(dpt_predictor *p)
{
    double sum = 0;
    size_t n = 0;
    bool known = true;
    for (size_t i = 0; i < p->n_workers; i++) {
        const dpti_predict_worker *w = p->workers[i];
        n += !w->lost;
        known = known && (w->lost || w->rate > 0);
        sum += w->lost ? 0 : w->rate;
    }
    for (size_t i = 0; i < p->n_workers; i++)
        p->workers[i]->fraction = known ? p->workers[i]->rate / sum : 1.0 / (double)n;
}

/* Lets every device that is left work until no samples are left for it.  DPT_E_CANCELLED: a device
   hangs, and nobody knows which samples it has computed. */
static dpt_status work(dpti_predict_call *call, dpt_error *error)
{
    dpt_predictor *p = call->predictor;
    run_job jobs[DPTI_SPLIT_MAX_DEVICES];
    dpt_status verdict = DPT_OK;
    for (size_t i = 0; i < p->n_workers; i++) {
        jobs[i] = (run_job){.worker = p->workers[i], .call = call};
        if (p->workers[i]->lost) continue;
        jobs[i].ticket = dpti_driver_post(p->workers[i]->device, run_worker, &jobs[i]);
    }
    for (size_t i = 0; i < p->n_workers; i++) {
        dpti_predict_worker *w = p->workers[i];
        if (w->lost) continue;
        const dpt_status status = wait_for(call, &jobs[i]);
        const bool hangs = !dpti_driver_is_running(w->device);
        if (is_loss(&jobs[i], status)) w->lost = true;
        if (w->lost && hangs && verdict == DPT_OK) verdict = DPT_E_CANCELLED;
        if (status == DPT_OK || w->lost || (verdict != DPT_OK && verdict != DPT_E_CANCELLED))
            continue;
        name_device(error, w, jobs[i].unread);
        verdict = status;
    }
    return verdict;
}

/* The next call divides the last samples by the rates of this one. */
static void note_rates(dpt_predictor *p)
{
    for (size_t i = 0; i < p->n_workers; i++) {
        dpti_predict_worker *w = p->workers[i];
        if (!w->lost && w->measured > 0) w->rate = w->measured;
    }
}

static bool any_left(const dpt_predictor *p, dpt_error *error)
{
    for (size_t i = 0; i < p->n_workers; i++)
        if (!p->workers[i]->lost) return true;
    name_device(error, p->workers[p->n_workers - 1], false);
    return false;
}

/* Works until the queue is empty, with fewer devices each time that one is lost. */
static dpt_status work_off(dpti_predict_call *call, dpt_error *error)
{
    dpt_predictor *p = call->predictor;
    do {
        if (!any_left(p, error)) return error->status;
        set_fractions(p);
        const dpt_status status = work(call, error);
        if (status != DPT_OK) return status;
    } while (!dpti_queue_is_empty(&call->queue));
    note_rates(p);
    return DPT_OK;
}

static dpt_status run_call(dpti_predict_call *call, dpt_error *error)
{
    dpt_predictor *p = call->predictor;
    dpt_status status;
    do {
        if (dpti_queue_create(&call->queue, p->fixed ? &p->split : NULL, p->n_workers,
                              call->count) != DPT_OK)
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to predict");
        for (size_t i = 0; i < p->n_workers; i++)
            if (p->workers[i]->lost) dpti_queue_leave(&call->queue, i, (dpti_samples){0, 0});
        status = work_off(call, error);
        dpti_queue_destroy(&call->queue);
    } while (status == DPT_E_CANCELLED);
    return status;
}

/* ---- The public functions -------------------------------------------------------------------- */

static dpt_status tell(dpt_status status, const dpt_error *error, char why[DPT_WHY_BYTES])
{
    if (status != DPT_OK && why) snprintf(why, DPT_WHY_BYTES, "%s", error->message);
    return status;
}

/* A logit that overflowed, or of damaged weights, is no evidence for or against a class. */
static void mark_not_finite(float *logits, size_t n_samples, size_t n)
{
    for (size_t i = 0; i < n_samples; i++) {
        float *own = logits + i * n;
        bool finite = true;
        for (size_t k = 0; k < n; k++)
            finite = finite && isfinite(own[k]);
        for (size_t k = 0; !finite && k < n; k++)
            own[k] = NAN;
    }
}

static dpt_status predict(dpti_predict_call *call, dpt_error *error)
{
    dpt_predictor *p = call->predictor;
    const size_t classes = dpt_model_outputs(p->model), labels = dpt_model_labels(p->model);
    if (call->count == 0) return DPT_OK;
    if (!call->outputs) return DPT_FAIL(error, DPT_E_INVALID, "`outputs` is NULL");
    if (call->count > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu samples in one call: give at most %d",
                        call->count, DPTI_MAX_RECORDS);
    pthread_mutex_lock(&p->lock);
    const dpt_status status = run_call(call, error);
    pthread_mutex_unlock(&p->lock);
    if (status != DPT_OK || p->logits) return status;
    mark_not_finite(call->outputs, call->count, labels * classes);
    if (p->sigmoid)
        dpti_sigmoid_all(call->outputs, call->count * labels * classes);
    else
        dpti_softmax_rows(call->outputs, call->count * labels, classes);
    return status;
}

dpt_status dpt_predictor_run(dpt_predictor *predictor, const void *samples, size_t count,
                             float *outputs, char why[DPT_WHY_BYTES])
{
    dpt_error error = {0};
    if (!predictor || (!samples && count > 0)) {
        const char *what = predictor ? "samples" : "predictor";
        return tell(DPT_FAIL(&error, DPT_E_INVALID, "`%s` is NULL", what), &error, why);
    }
    if (predictor->model->n_inputs > 1)
        return tell(DPT_FAIL(&error, DPT_E_INVALID,
                             "the model has several inputs: make a data set of arrays, and use "
                             "dpt_predictor_run_data"),
                    &error, why);
    dpt_dataset data = predictor->samples;
    data.images = (void *)(uintptr_t)samples; /* only read */
    data.count = data.n_records = count;
    dpti_predict_call call = {
        .predictor = predictor, .data = &data, .count = count, .outputs = outputs};
    dpt_status status = dpti_dataset_check_ids(&data, samples, (dpti_written){0, count}, &error);
    if (status == DPT_OK) status = predict(&call, &error);
    return tell(status, &error, why);
}

/* Whether the samples of a data set are of the predictor's kind. */
static dpt_status check_data(const dpti_predict_call *call, dpt_error *error)
{
    const dpt_dataset *d = call->data, *s = &call->predictor->samples;
    if (d->height != s->height || d->width != s->width || d->channels != s->channels ||
        d->dtype != s->dtype || d->mixed != s->mixed ||
        (call->predictor->model->n_inputs <= 1 && d->vocabulary > s->vocabulary))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the samples of %s have another shape or type than those of the predictor",
                        d->name);
    if (call->predictor->model->n_inputs > 1 || (d->declared && !d->arranged))
        DPT_TRY(dpti_check_records(call->predictor->model, d, error));
    if (call->first > d->count || call->count > d->count - call->first)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu samples from sample %zu on of %s, which has %zu",
                        call->count, call->first, d->name, d->count);
    return DPT_OK;
}

dpt_status dpt_predictor_run_data(dpt_predictor *predictor, const dpt_dataset *data, size_t first,
                                  size_t count, float *outputs, char why[DPT_WHY_BYTES])
{
    dpt_error error = {0};
    if (!predictor || !data)
        return tell(
            DPT_FAIL(&error, DPT_E_INVALID, "`%s` is NULL", predictor ? "data" : "predictor"),
            &error, why);
    dpti_predict_call call = {
        .predictor = predictor, .data = data, .first = first, .count = count, .outputs = outputs};
    dpt_status status = check_data(&call, &error);
    if (status == DPT_OK) status = predict(&call, &error);
    return tell(status, &error, why);
}

size_t dpt_predictor_lost(dpt_predictor *predictor)
{
    size_t n = 0;
    if (!predictor) return 0;
    pthread_mutex_lock(&predictor->lock);
    for (size_t i = 0; i < predictor->n_workers; i++)
        n += predictor->workers[i]->lost;
    pthread_mutex_unlock(&predictor->lock);
    return n;
}

static dpt_predictor_device_info describe(const dpti_predict_worker *w)
{
    dpt_predictor_device_info info = {.size = sizeof info, .id = w->device->id, .lost = w->lost};
    if (w->lost)
        info.message = w->error.message;
    else
        info.bytes =
            dpti_replica_bytes(&w->replica) + dpti_feed_bytes(&w->feed) + w->forward.arena.n_bytes;
    return info;
}

dpt_status dpt_predictor_device(dpt_predictor *predictor, size_t device,
                                dpt_predictor_device_info *out)
{
    if (!predictor || !out || device >= predictor->n_workers) return DPT_E_INVALID;
    pthread_mutex_lock(&predictor->lock);
    const dpt_predictor_device_info info = describe(predictor->workers[device]);
    pthread_mutex_unlock(&predictor->lock);
    return dpti_give_sized(&info, sizeof info, out) ? DPT_OK : DPT_E_INVALID;
}
