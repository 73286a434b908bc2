/* The public all-reduce over arrays: one job on every array's device, which meet. */
#include "base/base.h"
#include "collective/allreduce.h"
#include "device/array.h"

#include <stdlib.h>

typedef struct reduce_job {
    dpti_allreduce *allreduce;
    dpt_array *array;
    size_t rank;
    uint64_t ticket;
    dpt_status status; /* this device's own */
    dpt_error error;
} reduce_job;

/* Two passes, because all must have joined before any runs. */
static void run_join(dpti_device *device, void *argument)
{
    reduce_job *job = argument;
    if (job->array->error.status != DPT_OK) {
        job->error = job->array->error;
        job->status = job->error.status;
        return;
    }
    job->status = dpti_sync(device);
    if (job->status == DPT_OK)
        job->status = dpti_allreduce_join(job->allreduce, job->rank, &job->array->buffer);
    if (job->status != DPT_OK) job->error = *dpti_device_error(device);
}

static void run_reduce(dpti_device *device, void *argument)
{
    reduce_job *job = argument;
    const dpti_contribution who = {.rank = job->rank, .contributes = true};
    const dpt_status verdict = dpti_allreduce_run(job->allreduce, &who, &job->status, NULL);
    if (verdict != DPT_OK && job->status != DPT_OK) job->error = *dpti_device_error(device);
}

static void run_leave(dpti_device *device, void *argument)
{
    reduce_job *job = argument;
    (void)device;
    dpti_allreduce_leave(job->allreduce, job->rank);
}

static dpt_status on_all(reduce_job *jobs, size_t n, dpti_job *job)
{
    for (size_t i = 0; i < n; i++)
        jobs[i].ticket = dpti_driver_post(jobs[i].array->device, job, &jobs[i]);
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < n; i++) {
        dpti_driver_wait(jobs[i].array->device, jobs[i].ticket);
        if (jobs[i].status != DPT_OK && status == DPT_OK)
            status = dpti_array_report(jobs[i].array, &jobs[i].error);
    }
    return status;
}

/* NULL if no array tells. */
static dpt_context *context_of(dpt_array *const *arrays, size_t n)
{
    for (size_t i = 0; arrays && i < n; i++)
        if (arrays[i]) return arrays[i]->device->context;
    return NULL;
}

static dpt_status check(dpt_context *context, dpt_array *const *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!arrays[i])
            return dpt_fail(context, DPT_E_INVALID,
                            "all-reduce: array %zu is NULL; leave out devices without one", i);
    for (size_t i = 0; i < n; i++) {
        if (arrays[i]->size != arrays[0]->size)
            return dpt_fail(context, DPT_E_INVALID,
                            "all-reduce: array %zu has %zu elements, but array 0 has %zu", i,
                            arrays[i]->size, arrays[0]->size);
        if (arrays[i]->device->context != context)
            return dpt_fail(context, DPT_E_INVALID,
                            "all-reduce: arrays 0 and %zu belong to different contexts", i);
        for (size_t j = 0; j < i; j++)
            if (arrays[i]->device == arrays[j]->device)
                return dpt_fail(context, DPT_E_INVALID,
                                "all-reduce: arrays %zu and %zu are on one device; give each its "
                                "own",
                                j, i);
    }
    return DPT_OK;
}

dpt_status dpt_all_reduce(dpt_array *const *arrays, size_t n_arrays)
{
    dpt_context *context = context_of(arrays, n_arrays);
    if (!context) return DPT_E_INVALID;
    DPT_TRY(check(context, arrays, n_arrays));
    reduce_job *jobs = calloc(n_arrays, sizeof *jobs);
    dpti_allreduce *allreduce =
        dpti_allreduce_create(n_arrays, arrays[0]->size, context->processes);
    dpt_status status = DPT_OK;
    if (!jobs || !allreduce) {
        status = dpt_fail(context, DPT_E_NO_MEMORY, "no memory for an all-reduce");
    } else {
        for (size_t i = 0; i < n_arrays; i++)
            jobs[i] = (reduce_job){.allreduce = allreduce, .array = arrays[i], .rank = i};
        status = on_all(jobs, n_arrays, run_join);
        if (status == DPT_OK) status = on_all(jobs, n_arrays, run_reduce);
        for (size_t i = 0; i < n_arrays; i++)
            dpti_driver_call(jobs[i].array->device, run_leave, &jobs[i]);
    }
    dpti_allreduce_destroy(allreduce);
    free(jobs);
    return status;
}
