/* Evaluation and prediction on all devices at once (evaluate.h).  Each device takes one run of
   consecutive samples, and computes it in micro-batches of as many samples as fit on the device. */
#include "train/evaluation/evaluate.h"

#include "base/clock.h"
#include "base/exact_sum.h"
#include "base/softmax.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/driver.h"
#include "device/stream.h"
#include "graph/loss.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/compute/shard.h"
#include "train/compute/step.h"
#include "train/feeding/feeding.h"
#include "train/feeding/fits.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/failover.h"
#include "train/recovery/publish.h"
#include "train/recovery/recover.h"
#include "train/replicas/room.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/weights.h"
#include "train/rounds/rounds.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluate_job {
    dpti_worker *worker;
    size_t slot;         /* of the data set (programs/bound.h) */
    size_t first, count; /* samples [first, first + count) */
    dpt_status status;
    dpt_error error;
    dpti_ahead *ahead; /* reads the images of micro-batches, where they are read as they are needed;
                          else NULL */
    bool unread;       /* images could not be read: status and error say why */
    atomic_bool *over; /* set then, so that no device goes on */
    float *outputs;    /* of these samples, (count, outputs), or NULL: loss and hits are wanted */
    dpti_exact_sum loss;
    size_t hits;
    uint64_t ticket;
} evaluate_job;

/* ---- Binding programs to data sets ----------------------------------------------------------- */

/* Provides the host feed: that of training if it has room for these data, else one of its own. */
static dpt_status provide_feed(dpti_worker *w, size_t slot)
{
    const dpt_trainer *t = w->trainer;
    const dpt_dataset *data = dpti_evaluation_test(w->trainer, slot)->data;
    dpti_worker_test *test = dpti_evaluation_program(w, slot);
    const size_t most = w->replica.capacity;
    const dpti_feed_options options = {.data = data,
                                       .loss = t->program.loss,
                                       .capacity = most,
                                       .host_capacity = most,
                                       .n_slots = 1};
    test->feed = dpti_feeding_feed(w);
    if (dpti_feed_serves(test->feed, data, most)) return DPT_OK;
    test->feed = &test->own_feed;
    return dpti_feed_create(w->device, &options, &test->own_feed);
}

static void run_bind(dpti_device *device, void *argument)
{
    evaluate_job *job = argument;
    dpti_worker *w = job->worker;
    dpt_trainer *t = w->trainer;
    const dpti_test *test = dpti_evaluation_test(t, job->slot);
    dpti_worker_test *own = dpti_evaluation_program(w, job->slot);
    const dpti_data_store *store =
        dpti_dataset_share(test->data, t->data) ? dpti_feeding_store(t) : &test->store;
    const dpti_data_copy *copy = &store->copies[store->copy_of[w->rank]];
    dpti_executable_options options = {.program = {.data = test->data,
                                                   .purpose = test->purpose,
                                                   .loss = t->program.loss,
                                                   .own_loss = t->program.own_loss,
                                                   .own_loss_user = t->program.own_loss_user,
                                                   .huber_delta = t->program.huber_delta,
                                                   .chunk_rows = t->program.chunk_rows,
                                                   .deterministic = t->program.deterministic},
                                       .data = dpti_data_copy_places(copy, t->program.loss)};
    job->status = DPT_OK;
    if (!dpti_data_resident(copy)) {
        job->status = provide_feed(w, job->slot);
        if (job->status == DPT_OK) options.data = dpti_feed_places(own->feed);
        options.program.fed = w->replica.capacity;
    }
    if (job->status == DPT_OK)
        job->status = dpti_executable_create(&w->replica, &options, &own->evaluate, &job->error);
    if (job->status != DPT_OK && job->error.status == DPT_OK)
        job->error = *dpti_device_error(device);
}

/* Goes on without a device, if that is possible.  DPT_E_CANCELLED: the caller tries again. */
static dpt_status lose(dpt_trainer *t, size_t rank, const dpt_error *error)
{
    if (!dpti_is_loss(error->status) || t->stop_on_loss)
        return dpti_trainer_fail(t, t->workers[rank].device, error);
    DPT_TRY(dpti_trainer_lose_one(t, rank, error));
    return DPT_E_CANCELLED;
}

static dpt_status place_data(dpt_trainer *t, const dpt_dataset *data, dpti_data_store *store)
{
    dpti_data_store_failure failure = {0};
    bool absent[DPTI_SPLIT_MAX_DEVICES];
    for (size_t i = 0; i < t->n_workers; i++)
        absent[i] = dpti_is_lost(&t->workers[i]);
    const dpti_placing where = dpti_trainer_placing(t, absent);
    if (dpti_data_store_create(&where, data, store, &failure) == DPT_OK) return DPT_OK;
    if (dpti_is_loss(failure.error.status) && !t->stop_on_loss)
        return lose(t, failure.device, &failure.error);
    return dpti_context_fail(t->context, NULL, &failure.error);
}

/* Binds a free slot; it is free again after a failure. */
static dpt_status bind(dpt_trainer *t, const dpt_dataset *data, dpti_purpose purpose, size_t slot)
{
    dpti_test *test = dpti_evaluation_test(t, slot);
    if (!dpti_dataset_share(data, t->data)) DPT_TRY(place_data(t, data, &test->store));
    test->data = data;
    test->serial = data->serial;
    test->purpose = purpose;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (dpti_memory_room(w) == 0 || dpti_is_lost(w)) continue;
        evaluate_job job = {.worker = w, .slot = slot};
        if (!dpti_trainer_call(t, i, run_bind, &job)) {
            job.status = DPT_E_DEVICE_LOST;
            job.error = *dpti_hung_error(w);
        }
        if (job.status == DPT_OK) continue;
        dpti_evaluation_unbind(t, slot);
        job.error.status = job.status;
        return lose(t, i, &job.error);
    }
    return DPT_OK;
}

static bool is_bound(const dpti_test *test, const dpt_dataset *data, dpti_purpose purpose)
{
    return test->data == data && test->serial == data->serial && test->purpose == purpose;
}

/* The slot that is bound to these data, or else the slot to bind: a free one, or the least recently
   used. */
static size_t find_slot(dpt_trainer *t, const dpt_dataset *data, dpti_purpose purpose)
{
    size_t oldest = 0;
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        const dpti_test *test = dpti_evaluation_test(t, i);
        if (is_bound(test, data, purpose)) return i;
        if (test->used < dpti_evaluation_test(t, oldest)->used) oldest = i;
    }
    return oldest;
}

/* Binds a slot to the data, if none is bound to them.  If memory is short the other slots are
   freed: they were bound for speed alone. */
static dpt_status provide(dpt_trainer *t, const dpt_dataset *data, dpti_purpose purpose,
                          size_t *slot)
{
    const size_t found = find_slot(t, data, purpose);
    dpti_test *test = dpti_evaluation_test(t, found);
    if (!is_bound(test, data, purpose)) {
        dpti_evaluation_unbind(t, found);
        dpt_status status = bind(t, data, purpose, found);
        if (status == DPT_E_NO_MEMORY) {
            for (size_t i = 0; i < DPTI_TESTS; i++)
                dpti_evaluation_unbind(t, i);
            status = bind(t, data, purpose, found);
        }
        DPT_TRY(status);
    }
    dpti_evaluation_note_use(t, found);
    *slot = found;
    return DPT_OK;
}

/* ---- Evaluating ------------------------------------------------------------------------------ */

enum { MICRO_BATCHES_AHEAD = 2 };

static size_t list_records(const evaluate_job *job, size_t first, size_t n, uint32_t *records)
{
    const dpt_dataset *data = dpti_evaluation_test(job->worker->trainer, job->slot)->data;
    const size_t end = job->first + job->count;
    if (first >= end) return 0;
    if (n > end - first) n = end - first;
    for (size_t i = 0; i < n; i++)
        records[i] = (uint32_t)dpti_dataset_record(data, first + i);
    return n;
}

/* Waits for the images of a micro-batch, and begins to read those of the next ones. */
static dpt_status read_micro_batch(evaluate_job *job, uint32_t *records, size_t first, size_t n)
{
    if (!job->ahead) return DPT_OK;
    for (size_t i = 0; i <= MICRO_BATCHES_AHEAD; i++) {
        const size_t at = first + i * n, n_there = list_records(job, at, n, records);
        dpti_ahead_begin(job->ahead,
                         &(dpti_ahead_run){.key = at, .records = records, .n = n_there});
    }
    list_records(job, first, n, records);
    const dpt_status status = dpti_ahead_wait(
        job->ahead, &(dpti_ahead_run){.key = first, .records = records, .n = n}, &job->error);
    job->unread = status != DPT_OK;
    if (job->unread) atomic_store(job->over, true);
    return status;
}

static dpt_status compute_micro_batch(evaluate_job *job, dpti_shard *buffers, size_t first,
                                      size_t n)
{
    dpti_worker *w = job->worker;
    const dpt_dataset *data = dpti_evaluation_test(w->trainer, job->slot)->data;
    dpti_worker_test *test = dpti_evaluation_program(w, job->slot);
    const dpt_step_block block = {.inv_batch = 1.0f, .first = (uint32_t)first};
    uint32_t *records = (uint32_t *)(void *)(buffers->staging + DPTI_STEP_INDEX_OFFSET);
    dpti_stage(buffers->staging, &block, NULL, 0);
    DPT_TRY(read_micro_batch(job, records, first, n));
    list_records(job, first, n, records);
    DPT_TRY(dpti_worker_upload(w, buffers->staging, 0, n));
    if (test->feed) {
        const dpti_records_at from = {.data = data, .ahead = job->ahead, .key = first};
        dpti_feed_gather(test->feed, &from, 0, (dpti_records){.indices = records, .n = n});
        DPT_TRY(dpti_feed_upload(test->feed, data, (dpti_feed_range){.n = n}));
    }
    float *outputs =
        job->outputs ? job->outputs + (first - job->first) * test->evaluate.program.result_elements
                     : buffers->result;
    const dpti_segment_run run = {.executable = &test->evaluate, .n_samples = n, .result = outputs};
    DPT_TRY(dpti_worker_run(w, &run));
    for (size_t i = 0; !job->outputs && i < n; i++) {
        dpti_exact_add(&job->loss, buffers->result[2 * i]);
        job->hits += (size_t)buffers->result[2 * i + 1];
    }
    return DPT_OK;
}

static void compute_micro_batches(evaluate_job *job)
{
    dpti_worker *w = job->worker;
    /* Nothing is in flight, so the staging memory of any step is free. */
    dpti_shard *buffers = dpti_steps_spare_shard(w->trainer, w->rank);
    for (size_t done = 0; job->status == DPT_OK && done < job->count;) {
        const size_t left = job->count - done;
        const size_t room = dpti_memory_room(w), n = left < room ? left : room;
        job->status = compute_micro_batch(job, buffers, job->first + done, n);
        if (job->status == DPT_OK) done += n;
        if (job->status == DPT_OK && atomic_load(job->over)) job->status = DPT_E_CANCELLED;
        if (job->status != DPT_E_NO_MEMORY || n <= 1) continue;
        dpti_memory_limit_room(w, n / 2); /* fewer samples at once do not change the results */
        job->status = dpti_sync(w->device);
    }
}

static void run_evaluate(dpti_device *device, void *argument)
{
    evaluate_job *job = argument;
    compute_micro_batches(job);
    if (job->status == DPT_OK) return;
    if (job->status == DPT_E_CALLBACK) atomic_store(job->over, true);
    if (!job->unread) job->error = *dpti_device_error(device);
    job->error.status = job->status;
}

/* With several processes no device gets fewer samples than it was made for (out_of_memory.c). */
static bool takes_any(const dpt_trainer *t, size_t device)
{
    return t->processes ? dpti_peers_device(t, device)->capacity > 0
                        : dpti_memory_room(&t->workers[device]) > 0;
}

/* Divides the samples among the devices.  A device without samples in training has none here. */
static void divide(const dpt_trainer *t, size_t count, size_t *rows)
{
    const dpti_split *measured = dpti_shards_split(t);
    dpti_split split = {.n_devices = t->n_devices};
    for (size_t i = 0; i < t->n_devices; i++) {
        const double part = measured->equal ? 1.0 : measured->parts[i];
        split.parts[i] = takes_any(t, i) ? part : 0.0;
    }
    dpti_trainer_split_left(t, &split, count, rows);
}

/* What is asked for. */
typedef struct request {
    const dpt_dataset *data;
    size_t first, count; /* samples [first, first + count) */
    float *outputs;      /* gets (count, outputs); NULL: loss and hits are wanted */
    dpt_evaluation *sum; /* gets these; NULL: outputs are wanted */
    size_t slot;         /* of the bound data sets, once it is known */
} request;

/* The numbers that the model predicts for a sample. */
static size_t n_outputs(const dpt_trainer *t)
{
    return dpt_model_labels(t->model) * dpt_model_outputs(t->model);
}

/* Predictions go through memory of the job's own, which a device that hangs keeps. */
static bool give_outputs(const dpt_trainer *t, evaluate_job *jobs)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        jobs[i].outputs = malloc((jobs[i].count + 1) * n_outputs(t) * sizeof(float));
        if (!jobs[i].outputs) return false;
    }
    return true;
}

static void take_outputs(const dpt_trainer *t, const request *what, evaluate_job *jobs)
{
    const size_t each = n_outputs(t);
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_hung(&t->workers[i]) && !dpti_is_lost(&t->workers[i])) continue;
        if (jobs[i].outputs && jobs[i].status == DPT_OK && jobs[i].count > 0)
            memcpy(what->outputs + (jobs[i].first - what->first) * each, jobs[i].outputs,
                   jobs[i].count * each * sizeof(float));
        free(jobs[i].outputs);
        jobs[i].outputs = NULL;
    }
}

/* Makes the readers of images.  They are freed although a device hangs, since it hangs in a call of
   its own and does not come back to its reader. */
static bool give_ahead(dpt_trainer *t, const request *what, evaluate_job *jobs)
{
    const dpt_dataset *data = dpti_evaluation_test(t, what->slot)->data;
    for (size_t i = 0; data->reader && i < t->n_workers; i++) {
        jobs[i].ahead = dpti_ahead_create(data, MICRO_BATCHES_AHEAD + 1, NULL);
        if (!jobs[i].ahead) return false;
    }
    return true;
}

/* Gives jobs what they need besides their devices. */
static bool give(dpt_trainer *t, const request *what, evaluate_job *jobs)
{
    return give_ahead(t, what, jobs) && (!what->outputs || give_outputs(t, jobs));
}

static void take(const dpt_trainer *t, const request *what, evaluate_job *jobs)
{
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_ahead_destroy(jobs[i].ahead);
        jobs[i].ahead = NULL;
    }
    if (what->outputs) take_outputs(t, what, jobs);
}

/* Images that cannot be read are no device's failure. */
static dpt_status fail(dpt_trainer *t, const evaluate_job *job)
{
    if (job->unread) return dpti_context_fail(t->context, NULL, &job->error);
    return dpti_trainer_fail(t, job->worker->device, &job->error);
}

/* This process's part of an evaluation. */
typedef struct work {
    evaluate_job *jobs; /* (n_workers) */
    size_t n_over;      /* of these have been waited for */
    atomic_bool over;   /* no device is to go on */
} work;

/* Posts the jobs of this process's devices, which take `rows` samples each. */
static dpt_status post_jobs(dpt_trainer *t, const request *what, const size_t *rows, work *w)
{
    size_t done = 0;
    evaluate_job *jobs = calloc(t->n_workers, sizeof *jobs);
    for (size_t i = 0; i < t->first_device; i++)
        done += rows[i];
    for (size_t i = 0; jobs && i < t->n_workers; i++) {
        const size_t count = rows[t->first_device + i];
        jobs[i] = (evaluate_job){.worker = &t->workers[i],
                                 .slot = what->slot,
                                 .over = &w->over,
                                 .first = what->first + done,
                                 .count = count};
        done += count;
    }
    if (!jobs || !give(t, what, jobs)) {
        if (jobs) take(t, what, jobs);
        free(jobs);
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to %s",
                        what->outputs ? "predict" : "evaluate");
    }
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_is_lost(&t->workers[i]))
            jobs[i].ticket = dpti_driver_post(t->workers[i].device, run_evaluate, &jobs[i]);
    w->jobs = jobs;
    return DPT_OK;
}

/* Waits for jobs, one after the other, until one lasts longer than a moment.  Returns whether there
   is one. */
static bool wait_a_while(dpt_trainer *t, work *w)
{
    for (; w->jobs && w->n_over < t->n_workers; w->n_over++) {
        evaluate_job *job = &w->jobs[w->n_over];
        if (dpti_is_lost(job->worker)) continue;
        const dpti_awaited what = dpti_trainer_await_a_while(t, w->n_over, job->ticket);
        if (what == DPTI_AWAIT_MORE) return true;
        if (what == DPTI_AWAITED) continue;
        job->status = DPT_E_DEVICE_LOST;
        job->error = *dpti_hung_error(job->worker);
    }
    return false;
}

/* Waits for the jobs of all processes.  Meanwhile it asks the listener, and ends the jobs if the
   listener of any process ends the evaluation.  All processes call it, also one that has no jobs
   because its preparations have failed. */
static dpt_status watch(dpt_trainer *t, work *w)
{
    enum { MORE = DPTI_RUN_REQUESTS };
    dpti_trainer_evaluation *e = &t->evaluation;
    dpt_status status = DPT_OK;
    unsigned any;
    do {
        const bool ends = e->ends && e->ends(e->listener);
        const unsigned mine = wait_a_while(t, w) ? MORE : 0;
        any = mine | (ends ? DPTI_RUN_REQUEST_STOP : 0);
        if (t->processes)
            status = e->ends ? dpti_peers_ask_requests(t, mine, &any)
                             : dpti_peers_ask_any(t, mine, &any);
        e->ended = status == DPT_OK && e->ends && any & DPTI_RUN_REQUEST_STOP;
    } while (status == DPT_OK && any & MORE && !e->ended);
    if (status != DPT_OK || e->ended) atomic_store(&w->over, true);
    while (wait_a_while(t, w)) {
    }
    return status;
}

/* Looks at the jobs, which are over, and frees what they needed besides their devices. */
static dpt_status finish_jobs(dpt_trainer *t, const request *what, evaluate_job *jobs)
{
    dpt_status status = DPT_OK;
    const dpt_error *errors[DPTI_SPLIT_MAX_DEVICES] = {NULL};
    bool lost = false;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (jobs[i].status == DPT_OK || jobs[i].status == DPT_E_CANCELLED) continue;
        if (status == DPT_OK) status = fail(t, &jobs[i]);
        if (jobs[i].unread || !dpti_is_loss(jobs[i].status)) continue;
        errors[i] = &jobs[i].error;
        lost = true;
    }
    dpti_trainer_mend(t);
    take(t, what, jobs);
    if (!lost) return status;
    DPT_TRY(dpti_trainer_lose(t, errors));
    return DPT_E_CANCELLED;
}

static dpt_status check_shape(const dpt_trainer *t, const dpt_dataset *data)
{
    const dpti_node *in = &t->model->nodes[t->model->input];
    DPT_TRY(dpti_check_inputs(t, data));
    if (data->height == in->extent.h && data->width == in->extent.w &&
        data->channels == in->extent.c &&
        (t->program.loss == DPT_LOSS_OUTPUT || data->classes <= dpt_model_outputs(t->model)))
        return dpti_check_ids(t, data);
    return dpt_fail(t->context, DPT_E_INVALID,
                    "the %s%simages of %s are %zux%zux%zu in %zu classes, but model %s takes "
                    "%zux%zux%zu in %zu",
                    data->part ? data->part : "", data->part ? " " : "",
                    data->file ? data->file : data->name, data->height, data->width, data->channels,
                    data->classes, t->model->name, in->extent.h, in->extent.w, in->extent.c,
                    dpt_model_outputs(t->model));
}

dpt_status dpti_trainer_check_answers(dpt_trainer *trainer, const dpt_dataset *data)
{
    const dpt_trainer *t = trainer;
    const size_t outputs = dpt_model_outputs(t->model);
    if (t->program.loss == DPT_LOSS_OUTPUT) {
        if (outputs == 1 && dpt_model_labels(t->model) == 1 && dpti_dataset_labels(data) == 1)
            return DPT_OK;
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the loss of a sample is the output of model %s: it must be one number, "
                        "and %s must have at most one label a sample",
                        t->model->name, data->name);
    }
    if (!dpti_loss_has_targets(t->program.loss)) {
        if (dpti_dataset_has_labels(data)) return dpti_check_labels(t, data);
        return dpt_fail(t->context, DPT_E_INVALID, "%s has no labels, which %s needs%s", data->name,
                        dpti_loss_is_own(t->program.loss) ? "a loss of labels" : "cross-entropy",
                        data->targets
                            ? "; it has targets: use a squared error or another loss of targets"
                            : "");
    }
    if (dpt_model_labels(t->model) > 1)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "model %s scores %zu labels a sample, which only cross-entropy trains",
                        t->model->name, dpt_model_labels(t->model));
    if (!data->targets)
        return dpt_fail(t->context, DPT_E_INVALID, "the loss %s needs targets, and %s has %s",
                        dpti_loss_names[t->program.loss], data->name,
                        dpti_dataset_has_labels(data) ? "only labels; use cross-entropy" : "none");
    if (data->classes != outputs)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "model %s predicts %zu numbers, but %s has %zu targets a sample",
                        t->model->name, outputs, data->name, data->classes);
    return DPT_OK;
}

dpt_status dpti_trainer_check_test(dpt_trainer *trainer, const dpt_dataset *data)
{
    DPT_TRY(check_shape(trainer, data));
    return dpti_trainer_check_answers(trainer, data);
}

/* What came of a device's part, and what its process knows about the whole. */
typedef struct part {
    dpti_exact_sum loss;
    uint64_t hits;
    uint64_t count;   /* samples of all */
    uint64_t written; /* whether weights were, since they were compared */
} part;

/* Provides all that this process's part needs: valid replicas, programs, data. */
static dpt_status prepare(dpt_trainer *t, request *what)
{
    const dpt_dataset *data = what->data;
    const size_t n_gone = dpti_trainer_n_lost(t);
    DPT_TRY(dpti_trainer_refresh(t));
    DPT_TRY(dpti_trainer_catch_up(t));
    if (dpti_trainer_n_lost(t) != n_gone) return DPT_E_CANCELLED; /* rows must be divided anew */
    DPT_TRY(dpti_state_check(t));
    DPT_TRY(provide(t, data, what->outputs ? DPTI_PURPOSE_PREDICT : DPTI_PURPOSE_EVALUATE,
                    &what->slot));
    dpti_test *test = dpti_evaluation_test(t, what->slot);
    DPT_TRY(dpti_trainer_publish_data(t, dpti_dataset_share(data, t->data) ? dpti_feeding_store(t)
                                                                           : &test->store));
    return dpti_trainer_n_lost(t) != n_gone ? DPT_E_CANCELLED : DPT_OK;
}

/* This process's part of what is asked for, and where its results go. */
typedef struct own_part {
    const request *what;
    part *parts;        /* (n_devices) */
    const size_t *rows; /* (n_devices) samples of each device */
} own_part;

/* Does this process's part, unless its preparations have failed (`status`). */
static dpt_status do_own(dpt_trainer *t, const own_part *own, dpt_status status)
{
    const request *what = own->what;
    work w = {.jobs = NULL};
    if (status == DPT_OK) status = post_jobs(t, what, own->rows, &w);
    const dpt_status watched = watch(t, &w);
    if (!w.jobs) return status == DPT_OK ? watched : status;
    status = finish_jobs(t, what, w.jobs);
    for (size_t i = 0; i < t->n_workers; i++)
        own->parts[t->first_device + i] = (part){.loss = w.jobs[i].loss,
                                                 .hits = w.jobs[i].hits,
                                                 .count = what->count,
                                                 .written = dpti_peers_have_written(t)};
    free(w.jobs);
    return status == DPT_OK ? watched : status;
}

/* Whether all processes have worked on as many samples, by the same weights.  Weights are compared
   behind the evaluation, when each process knows whether any process has written weights: so no
   message is needed where none has. */
static dpt_status check_alike(dpt_trainer *t, const part *parts)
{
    bool written = false;
    if (!t->processes) return DPT_OK;
    for (size_t i = 0; i < t->n_devices; i++) {
        written = written || parts[i].written;
        if (parts[i].count == parts[0].count) continue;
        return dpti_peers_agree(
            t, dpt_fail(t->context, DPT_E_INVALID,
                        "process %zu evaluates %zu samples, and process 0 %zu; give all processes "
                        "the same data",
                        dpti_peers_device(t, i)->process, (size_t)parts[i].count,
                        (size_t)parts[0].count));
    }
    return written ? dpti_peers_check_weights(t) : DPT_OK;
}

/* Every process gets the others' outputs too. */
static dpt_status gather_outputs(dpt_trainer *t, const request *what, const size_t *rows)
{
    const size_t row_bytes = n_outputs(t) * sizeof(float);
    dpt_error error = {.status = DPT_OK};
    dpt_status verdict = DPT_OK;
    if (!t->processes) return DPT_OK;
    const size_t n = dpti_processes_count(t->processes), *firsts = dpti_peers_firsts(t);
    size_t *begins = calloc(n + 1, sizeof *begins);
    dpt_status status = dpti_peers_agree(
        t, begins ? DPT_OK : dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to predict"));
    for (size_t r = 0; r < n && status == DPT_OK; r++) {
        begins[r + 1] = begins[r];
        for (size_t i = firsts[r]; i < firsts[r + 1]; i++)
            begins[r + 1] += rows[i] * row_bytes;
    }
    const dpti_table table = {.data = what->outputs, .begins = begins};
    if (status == DPT_OK) {
        status = dpti_processes_share(t->processes, &table, &verdict, &error);
        if (status != DPT_OK) status = dpti_context_fail(t->context, NULL, &error);
    }
    free(begins);
    return status;
}

/* Does this process's part, and gathers those of all processes. */
static dpt_status do_all(dpt_trainer *t, request *what, part *parts, size_t *rows)
{
    dpt_status status =
        what->outputs ? check_shape(t, what->data) : dpti_trainer_check_test(t, what->data);
    if (status == DPT_OK) {
        divide(t, what->count, rows);
        status = prepare(t, what);
    }
    status = do_own(t, &(own_part){what, parts, rows}, status);
    status = dpti_peers_gather(t, status, parts, sizeof *parts);
    if (status == DPT_OK && t->evaluation.ended) return DPT_E_CANCELLED;
    if (status == DPT_OK) status = check_alike(t, parts);
    if (status == DPT_OK && what->outputs) status = gather_outputs(t, what, rows);
    return status;
}

/* The sum of the losses does not depend on how samples are divided.  DPT_E_CANCELLED: a device was
   lost, and the others begin anew; or the listener has ended the evaluation. */
static dpt_status attempt(dpt_trainer *t, request *what)
{
    dpti_trainer_update_split(t);
    part *parts = calloc(t->n_devices, sizeof *parts);
    size_t *rows = calloc(t->n_devices, sizeof *rows);
    const dpt_status status =
        parts && rows
            ? do_all(t, what, parts, rows)
            : dpti_peers_agree(t, dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to evaluate"));
    dpti_exact_sum loss = {.n_not_finite = 0};
    for (size_t i = 0; status == DPT_OK && what->sum && i < t->n_devices; i++) {
        dpti_exact_join(&loss, &parts[i].loss);
        what->sum->hits += parts[i].hits;
    }
    if (status == DPT_OK && what->sum) what->sum->loss = dpti_exact_value(&loss);
    free(rows);
    free(parts);
    return status;
}

static dpt_status evaluate(dpt_trainer *t, request *what)
{
    dpt_status status;
    t->evaluation.ended = false;
    do
        status = attempt(t, what);
    while (status == DPT_E_CANCELLED && !t->evaluation.ended);
    return status;
}

void dpti_evaluation_listen(dpt_trainer *trainer, bool (*ends)(void *listener), void *listener)
{
    trainer->evaluation = (dpti_trainer_evaluation){.ends = ends, .listener = listener};
}

dpt_status dpt_trainer_evaluate(dpt_trainer *trainer, const dpt_dataset *data, dpt_evaluation *out)
{
    const double began = dpti_seconds();
    DPT_TRY(dpti_trainer_given(trainer, "dpt_trainer_evaluate", "data", data));
    DPT_TRY(dpti_trainer_given(trainer, "dpt_trainer_evaluate", "out", out));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_evaluation", out));
    DPT_TRY(dpti_trainer_idle(trainer, "dpt_trainer_evaluate"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_evaluate"));
    dpt_evaluation sum = {
        .size = sizeof sum, .samples = data->count, .labels = dpti_count_all_labels(data)};
    DPT_TRY(evaluate(trainer, &(request){.data = data, .count = data->count, .sum = &sum}));
    if (!isfinite(sum.loss))
        return dpti_peers_agree(
            trainer, dpt_fail(trainer->context, DPT_E_NOT_FINITE,
                              "the loss on %s after step %zu is not finite; lower the learning "
                              "rate or check the weights and the data",
                              data->name, dpt_trainer_steps(trainer)));
    const double count = sum.labels ? (double)sum.labels : 1;
    sum.loss /= count;
    sum.accuracy = (double)sum.hits / count;
    sum.seconds = dpti_seconds() - began;
    (void)dpti_give_sized(&sum, sizeof sum, out);
    return DPT_OK;
}

/* ---- Predicting ------------------------------------------------------------------------------ */

dpt_status dpt_trainer_predict(dpt_trainer *trainer, const dpt_dataset *data, size_t first,
                               size_t count, float *outputs)
{
    dpt_trainer *t = trainer;
    const size_t classes = dpt_model_outputs(t->model);
    DPT_TRY(dpti_trainer_given(t, "dpt_trainer_predict", "data", data));
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_predict"));
    DPT_TRY(dpti_rounds_check_closed(t, "dpt_trainer_predict"));
    if (first > data->count || count > data->count - first)
        return dpti_peers_agree(t, dpt_fail(t->context, DPT_E_INVALID,
                                            "%zu samples from sample %zu on of %s, which has "
                                            "%zu",
                                            count, first, data->name, data->count));
    if (count == 0) return DPT_OK;
    DPT_TRY(dpti_trainer_given(t, "dpt_trainer_predict", "outputs", outputs));
    DPT_TRY(
        evaluate(t, &(request){.data = data, .first = first, .count = count, .outputs = outputs}));
    const size_t n_rows = count * dpt_model_labels(t->model);
    if (t->program.loss == DPT_LOSS_CROSS_ENTROPY) dpti_softmax_rows(outputs, n_rows, classes);
    if (t->program.loss == DPT_LOSS_BINARY_CROSS_ENTROPY)
        dpti_sigmoid_all(outputs, n_rows * classes);
    return DPT_OK;
}
