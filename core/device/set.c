/* Sets of devices: opening what a list names, subsets, waiting, closing. */
#include "device/set.h"

#include "base/processors.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/call_limit.h"
#include "device/driver.h"
#include "device/open.h"
#include "device/registry.h"
#include "device/select.h"
#include "device/stream.h"

#include <stdio.h>
#include <stdlib.h>

/* All requests of the backend of device `self`, in the order of the list. */
static dpt_open_args gather_requests(const dpti_selection *selection, size_t self,
                                     dpt_device_request *requests)
{
    dpt_open_args args = {.requests = requests, .n_processors = dpti_processors()};
    for (size_t i = 0; i < selection->n_devices; i++) {
        const dpti_selected *device = &selection->devices[i];
        if (device->backend != selection->devices[self].backend) continue;
        if (i == self) args.self = args.n_requests;
        requests[args.n_requests++] = (dpt_device_request){
            .index = device->index,
            .precision = device->precision,
            .params = device->params,
            .n_params = device->n_params,
        };
    }
    return args;
}

/* Whether it was not named, and does not answer. */
static bool passed_over(const dpti_selected *device)
{
    return device->entry->kind == DPTI_ENTRY_ALL && device->backend->devices[device->index].hung;
}

/* What fails leaves the devices that are open in the set, for the caller to close. */
static dpt_status open_all(dpt_device_set *set, const dpti_selection *selection)
{
    dpt_device_request *requests = calloc(selection->n_devices, sizeof *requests);
    set->devices = calloc(selection->n_devices, sizeof(dpti_device *));
    dpt_status status = DPT_OK;
    if (!requests || !set->devices)
        status = dpt_fail(set->context, DPT_E_NO_MEMORY, "no memory for the devices");
    bool goes_on = status == DPT_OK;
    for (size_t i = 0; goes_on && i < selection->n_devices; i++) {
        const dpt_open_args args = gather_requests(selection, i, requests);
        status = dpti_device_open(set->context, &selection->devices[i], &args,
                                  &set->devices[set->n_devices]);
        if (status == DPT_OK) set->n_devices++;
        goes_on = status == DPT_OK || passed_over(&selection->devices[i]);
    }
    if (goes_on && set->n_devices > 0) status = DPT_OK;
    free(requests);
    return status;
}

dpt_status dpt_device_set_open(dpt_context *context, const char *text, dpt_device_set **out)
{
    dpt_error error = {.status = DPT_OK};
    const dpti_device_list *list = NULL;
    dpti_selection selection = {.n_devices = 0};
    dpt_device_set *set = NULL;
    dpt_status status =
        dpti_registry_read_list(context->registry, text ? text : "all", &list, &error);
    if (status == DPT_OK) status = dpti_select(context->registry, list, &selection, &error);
    if (status == DPT_OK && context->precision)
        status = dpti_selection_set_precision(&selection, context->precision, &error);
    if (status != DPT_OK) {
        status = dpti_context_fail(context, NULL, &error);
        goto end;
    }
    set = calloc(1, sizeof *set);
    if (!set) {
        status = dpt_fail(context, DPT_E_NO_MEMORY, "no memory for the devices");
        goto end;
    }
    set->context = context;
    status = open_all(set, &selection);
    if (status != DPT_OK) goto end;
    *out = set;
    set = NULL;
end:
    dpt_device_set_close(set);
    dpti_selection_free(&selection);
    return status;
}

static dpt_status check_indices(const dpt_device_set *set, const size_t *indices, size_t n)
{
    if (n == 0) return dpt_fail(set->context, DPT_E_INVALID, "a subset needs a device at least");
    for (size_t i = 0; i < n; i++) {
        if (indices[i] >= set->n_devices)
            return dpt_fail(set->context, DPT_E_INVALID,
                            "there is no device %zu in a set of %zu, counted from 0", indices[i],
                            set->n_devices);
        /* Its driver would wait for itself. */
        for (size_t k = 0; k < i; k++)
            if (indices[k] == indices[i])
                return dpt_fail(set->context, DPT_E_INVALID, "device %zu stands twice in a subset",
                                indices[i]);
    }
    return DPT_OK;
}

dpt_status dpt_device_set_subset(dpt_device_set *set, const size_t *indices, size_t n,
                                 dpt_device_set **out)
{
    DPT_TRY(check_indices(set, indices, n));
    dpt_device_set *subset = calloc(1, sizeof *subset);
    dpti_device **devices = calloc(n, sizeof(dpti_device *));
    if (!subset || !devices) {
        free(devices);
        free(subset);
        return dpt_fail(set->context, DPT_E_NO_MEMORY, "no memory for a set of devices");
    }
    for (size_t i = 0; i < n; i++)
        devices[i] = set->devices[indices[i]];
    *subset = (dpt_device_set){
        .context = set->context, .n_devices = n, .devices = devices, .borrowed = true};
    *out = subset;
    return DPT_OK;
}

void dpt_device_set_close(dpt_device_set *set)
{
    if (!set) return;
    while (!set->borrowed && set->n_devices > 0)
        dpti_device_close(set->devices[--set->n_devices]);
    free(set->devices);
    free(set);
}

size_t dpt_device_set_count(const dpt_device_set *set)
{
    return set->n_devices;
}

dpt_device *dpt_device_set_get(const dpt_device_set *set, size_t i)
{
    return i < set->n_devices ? &set->devices[i]->base : NULL;
}

void dpt_device_describe(const dpt_device *device, dpt_device_info *out)
{
    const dpti_device *d = dpti_device_of(device);
    const dpt_device_info info = {
        .size = sizeof info,
        .id = d->id,
        .alias = d->alias,
        .backend = d->base.backend->name,
        .name = d->info.name,
        .detail = d->info.detail,
        .memory_bytes = d->info.memory_bytes,
        .n_threads = d->info.n_threads,
    };
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}

/* ---- Waiting --------------------------------------------------------------------------------- */

typedef struct wait_job {
    uint64_t ticket;
    dpt_error error; /* status DPT_OK: all is well */
} wait_job;

static void run_wait(dpti_device *device, void *argument)
{
    wait_job *job = argument;
    job->error.status = dpti_sync(device);
    if (device->deferred.status != DPT_OK)
        job->error = device->deferred; /* the cause, where sync only sees the consequence */
    else if (job->error.status != DPT_OK)
        job->error = *dpti_device_error(device);
    device->deferred.status = DPT_OK;
}

dpt_status dpt_device_set_wait(dpt_device_set *set)
{
    wait_job *jobs = calloc(set->n_devices, sizeof *jobs);
    if (!jobs) return dpt_fail(set->context, DPT_E_NO_MEMORY, "no memory to wait for devices");
    const dpti_limit limit = dpti_call_limit(set->context);
    for (size_t i = 0; i < set->n_devices; i++)
        jobs[i].ticket = dpti_driver_post(set->devices[i], run_wait, &jobs[i]);
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < set->n_devices; i++) {
        dpti_device *device = set->devices[i];
        if (!dpti_driver_await(device, jobs[i].ticket, &limit)) jobs[i].error = device->given_up;
        if (status != DPT_OK || jobs[i].error.status == DPT_OK) continue;
        char prefix[DPTI_ID_BYTES + 8];
        snprintf(prefix, sizeof prefix, "device %s", device->id);
        status = dpti_context_fail(set->context, prefix, &jobs[i].error);
    }
    free(jobs);
    return status;
}
