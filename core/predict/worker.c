/* What a predictor does on a device's driver thread (predictor.h). */
#include "predict/predictor.h"

#include "base/clock.h"
#include "device/arithmetic_test.h"
#include "device/stream.h"
#include "device/throttle.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status create_buffers(dpti_predict_worker *w, size_t most)
{
    const size_t each = w->forward.program.result_elements;
    void *staging, *result;
    DPT_TRY(dpti_host_alloc(w->device, dpti_step_bytes(most), &staging));
    w->staging = staging;
    DPT_TRY(dpti_host_alloc(w->device, most * each * sizeof(float), &result));
    w->result = result;
    return DPT_OK;
}

static dpt_status upload_weights(dpti_predict_worker *w, const float *weights, dpt_error *error)
{
    dpti_replica *r = &w->replica;
    if (!weights) return dpti_replica_initialize(r, &(dpti_initial){.seed = 0}, error);
    DPT_TRY(dpti_upload(&r->parameters, 0, weights, r->model->flat_size * sizeof *weights));
    return dpti_sync(w->device);
}

static dpt_status create(dpti_predict_worker *w, size_t most, const float *weights,
                         dpt_error *error)
{
    const dpt_predictor *p = w->predictor;
    const dpti_replica_options kind = {.model = p->model, .capacity = most, .predicts = true};
    const dpti_feed_options feed = {.data = &p->samples,
                                    .loss = DPT_LOSS_CROSS_ENTROPY,
                                    .capacity = most,
                                    .host_capacity = most,
                                    .n_slots = 1};
    if (p->deterministic) DPT_TRY(dpti_arithmetic_test(w->device, error));
    DPT_TRY(dpti_replica_create(w->device, &kind, &w->replica));
    DPT_TRY(upload_weights(w, weights, error));
    DPT_TRY(dpti_feed_create(w->device, &feed, &w->feed));
    const dpti_executable_options options = {.program = {.data = &p->samples,
                                                         .purpose = DPTI_PURPOSE_PREDICT,
                                                         .fed = most,
                                                         .deterministic = p->deterministic},
                                             .data = dpti_feed_places(&w->feed)};
    DPT_TRY(dpti_executable_create(&w->replica, &options, &w->forward, error));
    w->most = most;
    return create_buffers(w, most);
}

void dpti_predict_worker_release(dpti_predict_worker *worker)
{
    dpti_predict_worker *w = worker;
    float *result = w->result;
    w->result = NULL;
    dpti_host_free(w->device, result);
    uint8_t *staging = w->staging;
    w->staging = NULL;
    dpti_host_free(w->device, staging);
    dpti_executable_destroy(&w->forward);
    if (w->feed.device) dpti_feed_destroy(&w->feed);
    dpti_replica_destroy(&w->replica);
}

dpt_status dpti_predict_worker_create(dpti_predict_worker *worker, size_t micro_batch,
                                      const float *weights, dpt_error *error)
{
    for (size_t most = micro_batch;; most = (most + 1) / 2) {
        *error = (dpt_error){.status = DPT_OK};
        const dpt_status status = create(worker, most, weights, error);
        if (status != DPT_OK && error->status == DPT_OK)
            *error = *dpti_device_error(worker->device);
        if (status != DPT_E_NO_MEMORY || most <= 1) return status;
        dpti_predict_worker_release(worker);
    }
}

/* ---- Computing ------------------------------------------------------------------------------- */

/* One worker's part of a call. */
typedef struct part {
    dpti_predict_worker *worker;
    dpti_predict_call *call;
    dpti_ahead *ahead; /* reads the images that are read on demand; else NULL */
    bool unread;
} part;

static dpt_status read_images(part *p, const uint32_t *records, dpti_samples run)
{
    if (!p->ahead) return DPT_OK;
    const dpt_status status = dpti_ahead_wait(
        p->ahead, &(dpti_ahead_run){.key = run.first, .records = records, .n = run.end - run.first},
        &p->worker->error);
    p->unread = status != DPT_OK;
    return status;
}

/* Stages the records of a run, and sends them. */
static dpt_status send(part *p, dpti_samples run)
{
    dpti_predict_worker *w = p->worker;
    const dpt_dataset *data = p->call->data;
    const size_t n = run.end - run.first;
    const dpt_step_block block = {.inv_batch = 1.0f};
    uint32_t *records = (uint32_t *)(void *)(w->staging + DPTI_STEP_INDEX_OFFSET);
    memset(w->staging, 0, DPTI_STEP_INDEX_OFFSET);
    memcpy(w->staging, &block, sizeof block);
    for (size_t i = 0; i < n; i++)
        records[i] = (uint32_t)dpti_dataset_record(data, p->call->first + run.first + i);
    DPT_TRY(read_images(p, records, run));
    const dpti_records_at from = {.data = data, .ahead = p->ahead, .key = run.first};
    dpti_feed_gather(&w->feed, &from, 0, (dpti_records){.indices = records, .n = n});
    DPT_TRY(dpti_upload(&w->replica.step, 0, w->staging, dpti_step_bytes(n)));
    return dpti_feed_upload(&w->feed, data, (dpti_feed_range){.n = n});
}

static dpt_status compute(part *p, dpti_samples run)
{
    dpti_predict_worker *w = p->worker;
    const size_t n = run.end - run.first, each = w->forward.program.result_elements;
    double busy = 0;
    DPT_TRY(send(p, run));
    DPT_TRY(dpti_event_record(w->device, w->replica.start));
    DPT_TRY(dpti_executable_run(&w->forward, 0, n, NULL));
    DPT_TRY(dpti_event_record(w->device, w->replica.end));
    DPT_TRY(dpti_executable_record(&w->forward, 0, n, NULL));
    DPT_TRY(dpti_executable_result(&w->forward, n, w->result));
    DPT_TRY(dpti_sync(w->device));
    DPT_TRY(dpti_event_elapsed(w->device, w->replica.start, w->replica.end, &busy));
    dpti_device_throttle(w->device, busy);
    dpti_executable_widen(&w->forward, n, w->result);
    memcpy(p->call->outputs + run.first * each, w->result, n * each * sizeof(float));
    return DPT_OK;
}

/* Computes a run in as many pieces as memory asks for: fewer samples at once change no result. */
static dpt_status compute_run(part *p, dpti_samples run)
{
    dpti_predict_worker *w = p->worker;
    while (run.first < run.end) {
        const size_t n = run.end - run.first < w->most ? run.end - run.first : w->most;
        const dpt_status status = compute(p, (dpti_samples){run.first, run.first + n});
        if (status == DPT_OK) run.first += n;
        if (status == DPT_OK || (status == DPT_E_NO_MEMORY && n > 1 && !p->unread)) {
            if (status != DPT_OK) w->most = n / 2;
            continue;
        }
        return status;
    }
    return DPT_OK;
}

static dpt_status compute_all(part *p)
{
    dpti_predict_worker *w = p->worker;
    const double began = dpti_seconds();
    const dpti_turn turn = {.device = w->rank, .most = w->most, .fraction = w->fraction};
    size_t n = 0;
    for (;;) {
        const dpti_samples run = dpti_queue_take(&p->call->queue, &turn);
        if (run.first >= run.end) break;
        const dpt_status status = compute_run(p, run);
        if (status != DPT_OK) {
            dpti_queue_leave(&p->call->queue, w->rank, run);
            return status;
        }
        n += run.end - run.first;
    }
    const double seconds = dpti_seconds() - began;
    if (n > 0 && seconds > 0) w->measured = (double)n / seconds;
    return DPT_OK;
}

dpt_status dpti_predict_worker_run(dpti_predict_worker *worker, dpti_predict_call *call,
                                   bool *unread)
{
    part p = {.worker = worker, .call = call};
    worker->error = (dpt_error){.status = DPT_OK};
    if (call->data->reader) {
        p.ahead = dpti_ahead_create(call->data, 1, NULL);
        if (!p.ahead) return DPT_FAIL(&worker->error, DPT_E_NO_MEMORY, "no memory to read images");
    }
    const dpt_status status = compute_all(&p);
    dpti_ahead_destroy(p.ahead);
    *unread = p.unread;
    if (status != DPT_OK && worker->error.status == DPT_OK)
        worker->error = *dpti_device_error(worker->device);
    if (status != DPT_OK) worker->error.status = status;
    return status;
}
