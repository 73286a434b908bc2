/* Arrays: float32 buffers, each on one device, and element-wise work that is put into the queue of
   the device.  All of it happens on the driver thread in the order of the calls, so nothing here
   needs a lock. */
#include "device/array.h"
#include "base/left_behind.h"
#include "base/memory.h"
#include "base/size.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/call_limit.h"
#include "device/driver.h"
#include "device/operator.h"
#include "device/stream.h"

#include <stdlib.h>
#include <string.h>

void dpti_array_fail(dpt_array *array, const dpt_error *error)
{
    dpti_device *device = array->device;
    array->error = *error;
    if (device->deferred.status == DPT_OK) device->deferred = *error;
}

dpt_status dpti_array_report(const dpt_array *array, const dpt_error *error)
{
    char prefix[DPTI_ID_BYTES + 8];
    snprintf(prefix, sizeof prefix, "device %s", array->device->id);
    return dpti_context_fail(array->device->context, prefix, error);
}

/* A job that the caller waits for. */
typedef struct waited_job {
    dpt_array *array;
    float *host;
    dpt_error error; /* status DPT_OK: it succeeded */
} waited_job;

static dpt_status call(dpt_array *array, dpti_job *run, float *host)
{
    dpti_device *device = array->device;
    waited_job job = {.array = array, .host = host};
    const dpti_limit limit = dpti_call_limit(device->context);
    if (!dpti_driver_call_within(device, run, &job, &limit)) job.error = device->given_up;
    return job.error.status == DPT_OK ? DPT_OK : dpti_array_report(array, &job.error);
}

/* What nobody waits for now. */
static void post_job(dpti_device *device, dpti_job *run, void *argument)
{
    const dpti_limit limit = dpti_call_limit(device->context);
    (void)dpti_driver_post_within(device, run, argument, &limit);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static dpt_status check_shape(dpt_context *context, const size_t *shape, size_t rank, size_t *size)
{
    if (rank < 1 || rank > 4)
        return dpt_fail(context, DPT_E_INVALID, "an array has rank 1 to 4, not %zu", rank);
    size_t product = 1;
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] == 0)
            return dpt_fail(context, DPT_E_INVALID, "extent %zu of an array is zero", i);
        if (!dpti_multiply(product, shape[i], &product) || product > PTRDIFF_MAX / sizeof(float))
            return dpt_fail(context, DPT_E_INVALID, "an array is larger than any memory");
    }
    *size = product;
    return DPT_OK;
}

static dpt_status allocate(dpti_device *device, dpt_array *array)
{
    const size_t n_bytes = array->size * sizeof(float);
    DPT_TRY(dpti_alloc(device, n_bytes, &array->buffer));
    const dpt_status status = dpti_fill(&array->buffer, 0, 0, n_bytes);
    if (status != DPT_OK) dpti_free(&array->buffer);
    return status;
}

static void run_create(dpti_device *device, void *argument)
{
    waited_job *job = argument;
    if (allocate(device, job->array) != DPT_OK) job->error = *dpti_device_error(device);
}

dpt_status dpt_array_create(dpt_device *device, const size_t *shape, size_t rank, dpt_array **out)
{
    dpt_context *context = dpti_device_of(device)->context;
    size_t size = 0;
    DPT_TRY(check_shape(context, shape, rank, &size));
    dpt_array *array = calloc(1, sizeof *array);
    if (!array) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for an array");
    array->device = dpti_device_of(device);
    array->rank = rank;
    array->size = size;
    memcpy(array->shape, shape, rank * sizeof *shape);
    const dpt_status status = call(array, run_create, NULL);
    if (status != DPT_OK) {
        free(array);
        return status;
    }
    atomic_fetch_add(&array->device->n_holders, 1);
    *out = array;
    return DPT_OK;
}

static void release_op(dpti_array_op *cached)
{
    dpti_free(&cached->workspace);
    dpti_release(&cached->op);
}

static void run_destroy(dpti_device *device, void *argument)
{
    const waited_job *job = argument;
    dpt_array *array = job->array;
    /* The work that uses the array must have passed.  A failure of that work has no array left to
       be reported with, so it is left for dpt_device_set_wait. */
    if (dpti_sync(device) != DPT_OK) dpti_array_fail(array, dpti_device_error(device));
    release_op(&array->affine);
    release_op(&array->add);
    release_op(&array->multiply);
    dpti_free(&array->buffer);
}

void dpt_array_destroy(dpt_array *array)
{
    if (!array) return;
    if (array->stays) {
        dpti_leave_behind(array);
        return;
    }
    waited_job job = {.array = array};
    const bool released = dpti_driver_finish(array->device, run_destroy, &job);
    atomic_fetch_sub(&array->device->n_holders, 1);
    if (released)
        free(array);
    else
        dpti_leave_behind(array);
}

size_t dpt_array_rank(const dpt_array *array)
{
    return array->rank;
}

const size_t *dpt_array_shape(const dpt_array *array)
{
    return array->shape;
}

size_t dpt_array_size(const dpt_array *array)
{
    return array->size;
}

dpt_device *dpt_array_device(const dpt_array *array)
{
    return &array->device->base;
}

/* ---- Setting, waiting and getting ------------------------------------------------------------ */

typedef struct set_job {
    dpt_array *array;
    float values[];
} set_job;

static dpt_status upload(const set_job *job)
{
    const dpt_array *array = job->array;
    DPT_TRY(dpti_upload(&array->buffer, 0, job->values, array->size * sizeof(float)));
    return dpti_sync(array->device); /* the copy goes away */
}

static void run_set(dpti_device *device, void *argument)
{
    set_job *job = argument;
    if (upload(job) == DPT_OK)
        job->array->error.status = DPT_OK;
    else
        dpti_array_fail(job->array, dpti_device_error(device));
    free(job);
}

dpt_status dpt_array_set(dpt_array *array, const float *host)
{
    const size_t n_bytes = array->size * sizeof(float);
    set_job *job = malloc(sizeof *job + n_bytes);
    if (!job)
        return dpt_fail(array->device->context, DPT_E_NO_MEMORY,
                        "no memory to copy %zu bytes to device %s", n_bytes, array->device->id);
    job->array = array;
    memcpy(job->values, host, n_bytes);
    post_job(array->device, run_set, job);
    return DPT_OK;
}

/* Waits for the stream.  A failure that the wait reports makes the array invalid. */
static void finish(dpti_device *device, waited_job *job, dpt_status status)
{
    dpt_array *array = job->array;
    if (status == DPT_OK) status = dpti_sync(device);
    if (status != DPT_OK && array->error.status == DPT_OK)
        dpti_array_fail(array, dpti_device_error(device));
    job->error = array->error;
}

static void run_wait(dpti_device *device, void *argument)
{
    finish(device, argument, DPT_OK);
}

static void run_get(dpti_device *device, void *argument)
{
    waited_job *job = argument;
    const dpt_array *array = job->array;
    dpt_status status = DPT_OK;
    if (array->error.status == DPT_OK)
        status = dpti_download(job->host, &array->buffer, 0, array->size * sizeof(float));
    finish(device, job, status);
}

dpt_status dpt_array_wait(dpt_array *array)
{
    return call(array, run_wait, NULL);
}

/* If the driver thread may be abandoned, the call gets memory that can be left to it. */
dpt_status dpt_array_get(dpt_array *array, float *host)
{
    dpti_device *device = array->device;
    const size_t n_bytes = array->size * sizeof *host;
    if (!(device->context->device_timeout > 0)) return call(array, run_get, host);
    float *copy = dpti_alloc_aligned(n_bytes);
    if (!copy)
        return dpt_fail(device->context, DPT_E_NO_MEMORY,
                        "no memory to copy %zu bytes of device %s", n_bytes, device->id);
    const dpt_status status = call(array, run_get, copy);
    if (status == DPT_OK) memcpy(host, copy, n_bytes);
    if (dpti_driver_is_running(device))
        free(copy);
    else
        dpti_leave_behind(copy);
    return status;
}

/* ---- Elementwise work ------------------------------------------------------------------------ */

typedef struct compute_job {
    dpt_op_desc desc;
    dpt_array *a, *b, *c; /* b is NULL if there is none */
} compute_job;

static dpti_array_op *cached_op(dpt_array *c, dpt_op_kind kind)
{
    if (kind == DPT_OP_MULTIPLY) return &c->multiply;
    return kind == DPT_OP_ADD ? &c->add : &c->affine;
}

static bool same_factors(const dpt_elementwise_desc *a, const dpt_elementwise_desc *b)
{
    /* Compares bits, because a NaN is a valid factor. */
    return memcmp(&a->alpha, &b->alpha, sizeof a->alpha) == 0 &&
           memcmp(&a->beta, &b->beta, sizeof a->beta) == 0;
}

static dpt_status prepare(const compute_job *job, dpti_array_op *cached)
{
    dpti_device *device = job->c->device;
    if (cached->op.device) {
        if (same_factors(&cached->op.desc.u.elementwise, &job->desc.u.elementwise)) return DPT_OK;
        DPT_TRY(dpti_sync(device)); /* what is enqueued still uses it */
        release_op(cached);
    }
    DPT_TRY(dpti_prepare(device, &job->desc, 1, &cached->op));
    if (cached->op.info.workspace_bytes == 0) return DPT_OK;
    const dpt_status status =
        dpti_alloc(device, cached->op.info.workspace_bytes, &cached->workspace);
    if (status != DPT_OK) release_op(cached);
    return status;
}

static dpt_status compute(const compute_job *job)
{
    dpti_array_op *cached = cached_op(job->c, job->desc.kind);
    DPT_TRY(prepare(job, cached));
    const dpti_binding binding = {
        .in = {{.buffer = &job->a->buffer}, {.buffer = job->b ? &job->b->buffer : NULL}},
        .out = {{.buffer = &job->c->buffer}},
        .workspace = {.buffer = &cached->workspace},
    };
    dpt_op_args args;
    DPT_TRY(dpti_bind(&cached->op, 1, &binding, &args));
    return dpti_run(&cached->op, 1, &args);
}

static void run_compute(dpti_device *device, void *argument)
{
    compute_job *job = argument;
    dpt_array *c = job->c;
    /* An array that is computed from an invalid array is invalid for the same reason. */
    if (c->error.status == DPT_OK && job->a->error.status != DPT_OK) c->error = job->a->error;
    if (c->error.status == DPT_OK && job->b && job->b->error.status != DPT_OK)
        c->error = job->b->error;
    if (c->error.status == DPT_OK && compute(job) != DPT_OK)
        dpti_array_fail(c, dpti_device_error(device));
    free(job);
}

static dpt_status post(const compute_job *job)
{
    dpti_device *device = job->c->device;
    dpt_context *context = device->context;
    if (job->a->device != device || (job->b && job->b->device != device))
        return dpt_fail(context, DPT_E_INVALID, "the arrays of an operation lie on two devices");
    if (job->a->size != job->c->size || (job->b && job->b->size != job->c->size))
        return dpt_fail(context, DPT_E_INVALID,
                        "the arrays of an operation have %zu, %zu and %zu elements: they must be "
                        "equal",
                        job->a->size, job->b ? job->b->size : job->c->size, job->c->size);
    compute_job *copy = malloc(sizeof *copy);
    if (!copy) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a job");
    *copy = *job;
    copy->desc.u.elementwise.count = job->c->size;
    post_job(device, run_compute, copy);
    return DPT_OK;
}

dpt_status dpt_array_multiply(dpt_array *a, dpt_array *b, dpt_array *c)
{
    return post(&(compute_job){.desc = {.kind = DPT_OP_MULTIPLY}, .a = a, .b = b, .c = c});
}

dpt_status dpt_array_add(dpt_array *a, dpt_array *b, dpt_array *c)
{
    return post(&(compute_job){
        .desc = {.kind = DPT_OP_ADD, .u.elementwise = {.alpha = 1.0f, .beta = 1.0f}},
        .a = a,
        .b = b,
        .c = c,
    });
}

dpt_status dpt_array_affine(dpt_array *a, float alpha, float beta, dpt_array *c)
{
    return post(&(compute_job){
        .desc = {.kind = DPT_OP_AFFINE, .u.elementwise = {.alpha = alpha, .beta = beta}},
        .a = a,
        .c = c,
    });
}
