/* Making and destroying a predictor (predictor.h). */
#include "predict/predictor.h"

#include "base/left_behind.h"
#include "checkpoint/tensor_source.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/call_limit.h"
#include "dpt_error.h"
#include "graph/call.h"
#include "graph/inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MICRO_BATCH = 64, MOST_MICRO_BATCH = 1 << 20 };

/* ---- Options --------------------------------------------------------------------------------- */

/* What the samples are, by the options' fields. */
static dpt_status take_fields(dpt_predictor *p, const dpt_predictor_options *o)
{
    dpt_error error = {0};
    dpt_dataset *s = &p->samples;
    if (o->dtype != DPT_F32 && o->dtype != DPT_U8 && o->dtype != DPT_I32)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "dpt_predictor_options.dtype is %d: use DPT_F32, DPT_U8 or DPT_I32",
                        (int)o->dtype);
    if (!p->model->vocabulary && o->dtype == DPT_I32)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "dpt_predictor_options.dtype is DPT_I32, but model %s does not read ids",
                        p->model->name);
    const bool ids = p->model->nodes[p->model->input].integer;
    s->dtype = ids ? DPT_I32 : o->dtype;
    s->mixed = p->model->ids != SIZE_MAX;
    if (s->mixed) s->dtype = DPT_F32;
    if (dpti_set_statistics(s, o->mean, o->deviation, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(p->context, NULL, &error);
}

static dpt_status take_like(dpt_predictor *p, const dpt_dataset *like)
{
    dpt_dataset *s = &p->samples;
    dpt_error error = {.status = DPT_OK};
    if (like->height != s->height || like->width != s->width || like->channels != s->channels ||
        (like->dtype == DPT_I32) != p->model->nodes[p->model->input].integer)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "the samples of %s are %zux%zux%zu%s, but model %s takes %zux%zux%zu%s",
                        like->name, like->height, like->width, like->channels,
                        like->dtype == DPT_I32 ? " ids" : "", p->model->name, s->height, s->width,
                        s->channels, p->model->vocabulary ? " ids" : "");
    if (p->model->n_inputs > 1 && dpti_check_records(p->model, like, &error) != DPT_OK)
        return dpti_context_fail(p->context, NULL, &error);
    s->dtype = like->dtype;
    s->mixed = like->mixed;
    s->stat_channels = like->stat_channels;
    memcpy(s->mean, like->mean, sizeof s->mean);
    memcpy(s->scale, like->scale, sizeof s->scale);
    return DPT_OK;
}

static dpt_status take_split(dpt_predictor *p, dpt_split split)
{
    dpt_error error = {0};
    p->fixed = split.kind != DPT_SPLIT_MEASURED;
    if (!p->fixed) return DPT_OK;
    if (dpti_split_fixed(split, p->n_workers, &p->split, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(p->context, NULL, &error);
}

static dpt_status check_deterministic(dpt_predictor *p)
{
    dpt_error error = {.status = DPT_OK};
    if (!p->deterministic || dpti_check_calls_declared(p->model, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(p->context, NULL, &error);
}

static dpt_status take_options(dpt_predictor *p, const dpt_predictor_options *o)
{
    const dpti_node *in = &p->model->nodes[p->model->input];
    p->samples = (dpt_dataset){.context = p->context,
                               .name = p->model->name,
                               .height = in->extent.h,
                               .width = in->extent.w,
                               .channels = in->extent.c,
                               .classes = dpt_model_outputs(p->model),
                               .labels_per_sample = dpt_model_labels(p->model),
                               .vocabulary = p->model->vocabulary};
    const bool integers = !dpti_model_has_gradient(p->model);
    p->logits = o->logits || integers;
    p->sigmoid = o->sigmoid && !integers;
    if (o->logits && o->sigmoid)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "dpt_predictor_options has both logits and sigmoid: leave one of them out");
    p->device_timeout = o->device_timeout;
    p->deterministic = o->deterministic;
    if (!(o->device_timeout >= 0 && isfinite(o->device_timeout)))
        return dpt_fail(p->context, DPT_E_INVALID,
                        "dpt_predictor_options.device_timeout is not a number of seconds");
    if (o->micro_batch > MOST_MICRO_BATCH)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "dpt_predictor_options.micro_batch is %zu: use at most %d", o->micro_batch,
                        MOST_MICRO_BATCH);
    DPT_TRY(check_deterministic(p));
    DPT_TRY(take_split(p, o->split));
    return o->like ? take_like(p, o->like) : take_fields(p, o);
}

/* ---- Weights --------------------------------------------------------------------------------- */

static bool has_weights(const dpt_model *model)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (!dpti_has_initial(&model->parameters[i])) return false;
    return true;
}

/* *out: the weights of a file, which the caller frees, or NULL for those of the model. */
static dpt_status read_weights(const dpt_predictor *p, const char *path, float **out)
{
    *out = NULL;
    if (!path && has_weights(p->model)) return DPT_OK;
    if (!path)
        return dpt_fail(p->context, DPT_E_INVALID,
                        "model %s has no weights yet: name a file in "
                        "dpt_predictor_options.weights",
                        p->model->name);
    *out = calloc(p->model->flat_size + 1, sizeof **out);
    if (!*out) return dpt_fail(p->context, DPT_E_NO_MEMORY, "no memory for a predictor");
    return dpti_weights_load(p->context, p->model, path, *out);
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Allocated in one piece with a copy of the weights, if there are any: if the device hangs, the job
   is left to the device. */
typedef struct create_job {
    dpti_predict_worker *worker;
    size_t micro_batch;
    dpt_status status;
    bool has_weights;
    dpt_error error;
    float weights[];
} create_job;

static void run_create_predictor(dpti_device *device, void *argument)
{
    create_job *job = argument;
    (void)device;
    job->status = dpti_predict_worker_create(job->worker, job->micro_batch,
                                             job->has_weights ? job->weights : NULL, &job->error);
    job->error.status = job->status;
}

static void run_release(dpti_device *device, void *argument)
{
    (void)device;
    dpti_predict_worker_release(argument);
}

/* What a hung device has of a worker stays with the device for ever. */
static void destroy_worker(dpti_predict_worker *worker)
{
    dpti_device *device = worker->device;
    const bool hangs = !dpti_driver_is_running(device);
    if (!hangs && dpti_driver_finish(device, run_release, worker))
        free(worker);
    else
        dpti_leave_behind(worker);
    atomic_fetch_sub(&device->n_holders, 1);
}

static void note_lost(dpti_predict_worker *worker, const dpt_error *error)
{
    worker->lost = true;
    worker->error = *error;
}

static dpt_status create_worker(dpt_predictor *p, size_t rank, const dpt_predictor_options *options,
                                const float *weights)
{
    const size_t n_bytes = weights ? p->model->flat_size * sizeof *weights : 0;
    dpti_device *device = p->devices->devices[rank];
    dpti_limit limit = dpti_preparing_limit(p->context, "while it was prepared");
    if (p->device_timeout > 0) limit.seconds = dpti_preparing_seconds(p->device_timeout);
    dpti_predict_worker *w = calloc(1, sizeof *w);
    create_job *job = malloc(sizeof *job + n_bytes);
    if (!w || !job) {
        free(w);
        free(job);
        return dpt_fail(p->context, DPT_E_NO_MEMORY, "no memory for a predictor");
    }
    *w = (dpti_predict_worker){.predictor = p, .device = device, .rank = rank};
    *job = (create_job){.worker = w,
                        .has_weights = weights != NULL,
                        .micro_batch =
                            options->micro_batch ? options->micro_batch : DEFAULT_MICRO_BATCH};
    if (weights) memcpy(job->weights, weights, n_bytes);
    p->workers[rank] = w;
    p->n_workers = rank + 1;
    atomic_fetch_add(&device->n_holders, 1);
    if (!dpti_driver_is_running(device) ||
        !dpti_driver_call_within(device, run_create_predictor, job, &limit)) {
        dpti_leave_behind(job);
        note_lost(w, &device->given_up);
        return DPT_OK;
    }
    const dpt_error error = job->error;
    free(job);
    if (error.status == DPT_E_DEVICE_LOST) note_lost(w, &error);
    if (error.status == DPT_OK || error.status == DPT_E_DEVICE_LOST) return DPT_OK;
    char prefix[DPTI_ID_BYTES + 16];
    snprintf(prefix, sizeof prefix, "device %s", device->id);
    return dpti_context_fail(p->context, prefix, &error);
}

static dpt_status check_any_left(const dpt_predictor *p)
{
    for (size_t i = 0; i < p->n_workers; i++)
        if (!p->workers[i]->lost) return DPT_OK;
    char prefix[DPTI_ID_BYTES + 16];
    snprintf(prefix, sizeof prefix, "device %s", p->workers[0]->device->id);
    return dpti_context_fail(p->context, prefix, &p->workers[0]->error);
}

static dpt_status create_workers(dpt_predictor *p, const dpt_predictor_options *options)
{
    const size_t n = p->n_workers;
    p->n_workers = 0;
    float *weights = NULL;
    p->workers = calloc(n + 1, sizeof *p->workers);
    dpt_status status = DPT_OK;
    if (!p->workers) status = dpt_fail(p->context, DPT_E_NO_MEMORY, "no memory for a predictor");
    if (status == DPT_OK) status = read_weights(p, options->weights, &weights);
    for (size_t i = 0; i < n && status == DPT_OK; i++)
        status = create_worker(p, i, options, weights);
    free(weights);
    return status == DPT_OK ? check_any_left(p) : status;
}

/* ---- The predictor --------------------------------------------------------------------------- */

dpt_status dpt_predictor_create(dpt_device_set *devices, const dpt_model *model,
                                const dpt_predictor_options *options, dpt_predictor **out)
{
    dpt_predictor_options o;
    if (!devices) return DPT_E_INVALID; /* there is no context that could tell why */
    if (!model || !out || !model->finished)
        return dpt_fail(devices->context, DPT_E_INVALID,
                        "a predictor needs a finished model, and a place where it is returned");
    DPT_TRY(dpti_take_sized(devices->context,
                            &(dpti_sized){"dpt_predictor_options", options, sizeof o}, &o));
    dpt_predictor *p = calloc(1, sizeof *p);
    if (!p || pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return dpt_fail(devices->context, DPT_E_NO_MEMORY, "no memory for a predictor");
    }
    p->context = devices->context;
    p->devices = devices;
    p->model = model;
    p->n_workers = devices->n_devices;
    dpt_status status = take_options(p, &o);
    if (status != DPT_OK) p->n_workers = 0; /* none is made */
    if (status == DPT_OK) status = create_workers(p, &o);
    if (status == DPT_OK)
        *out = p;
    else
        dpt_predictor_destroy(p);
    return status;
}

void dpt_predictor_destroy(dpt_predictor *predictor)
{
    if (!predictor) return;
    for (size_t i = 0; i < predictor->n_workers; i++)
        destroy_worker(predictor->workers[i]);
    free(predictor->workers);
    pthread_mutex_destroy(&predictor->lock);
    free(predictor);
}
