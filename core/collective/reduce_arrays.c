/* The public all-reduce over arrays: one job on every array's device, which meet.  Over processes
   these vote before anything is summed, since whoever cannot take part would be waited for, and
   when all is done, so that all fail or none. */
#include "base/base.h"
#include "collective/allreduce.h"
#include "device/array.h"

#include <stdlib.h>

typedef struct reduce_job {
    dpti_allreduce *allreduce;
    dpt_array *array;
    size_t rank;
    uint64_t ticket;
    dpt_status verdict; /* of all devices */
    dpt_status status;  /* this device's own */
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
    job->verdict = dpti_allreduce_run(job->allreduce, &who, &job->status, NULL);
    if (job->status != DPT_OK) job->error = *dpti_device_error(device);
}

static void run_leave(dpti_device *device, void *argument)
{
    reduce_job *job = argument;
    (void)device;
    dpti_allreduce_leave(job->allreduce, job->rank);
}

/* The first failure of a device itself. */
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

/* ---- Over processes -------------------------------------------------------------------------- */

/* The first failure, told in every process. */
static dpt_status fail_alike(dpt_context *context, dpt_status mine)
{
    dpt_error error = context->error;
    const dpt_status status = dpti_processes_agree(context->processes, mine, NULL, 0, NULL, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, NULL, &error);
}

/* begins: (n + 1); sizes: (n), this process's is there. */
static dpt_status vote(dpt_context *context, dpt_status mine, size_t *begins, uint64_t *sizes)
{
    dpti_processes *p = context->processes;
    const size_t n = dpti_processes_count(p);
    dpt_status verdict = DPT_OK;
    dpt_error error = {.status = DPT_OK};
    for (size_t r = 0; r <= n; r++)
        begins[r] = r * sizeof *sizes;
    if (dpti_processes_share(p, &(dpti_table){sizes, begins}, mine, &verdict, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    if (verdict != DPT_OK) return fail_alike(context, mine);
    for (size_t r = 1; r < n; r++)
        if (sizes[r] != sizes[0])
            return fail_alike(context,
                              dpt_fail(context, DPT_E_INVALID,
                                       "all-reduce: arrays of process %zu have %zu elements, but "
                                       "those of process 0 have %zu",
                                       r, (size_t)sizes[r], (size_t)sizes[0]));
    return DPT_OK;
}

/* How all fare, and whether their arrays have one size: all processes get the same. */
static dpt_status agree(dpt_context *context, dpt_status mine, size_t size)
{
    dpti_processes *p = context->processes;
    if (!p) return mine;
    const size_t n = dpti_processes_count(p);
    size_t *begins = calloc(n + 1, sizeof *begins);
    uint64_t *sizes = calloc(n, sizeof *sizes);
    dpt_status status = DPT_E_NO_MEMORY;
    if (begins && sizes) {
        sizes[dpti_processes_rank(p)] = size;
        status = vote(context, mine, begins, sizes);
    } else {
        (void)dpt_fail(context, status, "no memory for an all-reduce");
        dpti_processes_give_up(p);
    }
    free(sizes);
    free(begins);
    return status;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* What came of a run in which no device of any process has failed. */
static dpt_status judge(dpt_context *context, const reduce_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (jobs[i].verdict != DPT_OK)
            return dpt_fail(context, jobs[i].verdict, "all-reduce: %s",
                            dpt_status_words(jobs[i].verdict));
    return DPT_OK;
}

static dpt_status reduce(dpt_context *context, reduce_job *jobs, size_t n)
{
    const size_t size = jobs[0].array->size;
    DPT_TRY(agree(context, on_all(jobs, n, run_join), size));
    DPT_TRY(agree(context, on_all(jobs, n, run_reduce), size));
    return judge(context, jobs, n);
}

dpt_status dpt_all_reduce(dpt_array *const *arrays, size_t n_arrays)
{
    dpt_context *context = context_of(arrays, n_arrays);
    if (!context) return DPT_E_INVALID;
    if (context->processes) dpti_processes_go_on(context->processes);
    dpt_status status = check(context, arrays, n_arrays);
    reduce_job *jobs = calloc(n_arrays, sizeof *jobs);
    dpti_allreduce *allreduce =
        status == DPT_OK ? dpti_allreduce_create(n_arrays, arrays[0]->size, context->processes)
                         : NULL;
    if (status == DPT_OK && (!jobs || !allreduce))
        status = dpt_fail(context, DPT_E_NO_MEMORY, "no memory for an all-reduce");
    if (status == DPT_OK) {
        for (size_t i = 0; i < n_arrays; i++)
            jobs[i] = (reduce_job){.allreduce = allreduce, .array = arrays[i], .rank = i};
        status = reduce(context, jobs, n_arrays);
        for (size_t i = 0; i < n_arrays; i++)
            dpti_driver_call(jobs[i].array->device, run_leave, &jobs[i]);
    } else {
        status = agree(context, status, 0); /* the others wait */
    }
    dpti_allreduce_destroy(allreduce);
    free(jobs);
    return status;
}
