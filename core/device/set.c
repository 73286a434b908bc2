/* Opening and closing sets of devices. */
#include "base/clock.h"
#include "base/left_behind.h"
#include "device/dispatch.h"
#include "device/driver.h"
#include "device/select.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- One device, on its driver --------------------------------------------------------------- */

static const dpt_device_ops *device_ops(const dpti_device *device)
{
    return device->base.backend->device;
}

/* Asks what the device is and holds it to the contract. */
static dpt_status read_info(dpti_device *device)
{
    dpt_device_info info = {.memory_bytes = 0};
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, device_ops(device)->info(&device->base, &info), "device.info"));
    const size_t alignment = info.alignment_bytes;
    if (alignment == 0 || alignment > 256 || (alignment & (alignment - 1)) != 0)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL,
                        "the backend asks for an alignment of %zu bytes", alignment);
    if (info.activations != DPT_F32 && info.activations != DPT_BF16)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL,
                        "the backend stores activations as element type %d", (int)info.activations);
    info.name[sizeof info.name - 1] = '\0';
    info.detail[sizeof info.detail - 1] = '\0';
    if (info.memory_bytes > device->memory_limit_bytes)
        info.memory_bytes = device->memory_limit_bytes;
    device->info = info;
    return DPT_OK;
}

static dpt_status create_stream(dpti_device *device)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, device->base.backend->stream->create(&device->base, &device->stream),
                     "stream.create");
}

static dpt_status open_on_driver(dpti_device *device, const dpt_open_args *args)
{
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, device_ops(device)->open(&device->base, args), "device.open"));
    DPT_TRY(read_info(device));
    return create_stream(device);
}

/* A call without a status, which can last too long like any other. */
static void close_vtable(dpti_device *device)
{
    DPTI_RELEASE(device, device_ops(device)->close(&device->base));
}

/* A failure is in the device's record, and leaves it closed. */
static dpt_status open_or_close(dpti_device *device)
{
    const dpt_status status = open_on_driver(device, device->opening);
    if (status == DPT_OK) return DPT_OK;
    const dpt_error error = device->base.error;
    close_vtable(device);
    device->base.error = error;
    return status;
}

static void run_open(dpti_device *device, void *argument)
{
    *(dpt_status *)argument = open_or_close(device);
}

void dpti_device_shut(dpti_device *device)
{
    if (device->shut) return;
    if (!device->lost) {
        /* Nobody is left to hear of a failure; close copes with it. */
        const dpt_status status = dpti_sync(device);
        dpt_stream *stream = device->stream;
        device->stream = NULL;
        if (status != DPT_E_DEVICE_LOST)
            DPTI_RELEASE(device, device->base.backend->stream->destroy(stream));
    }
    device->stream = NULL;
    device->lost = device->shut = true; /* whether or not close returns: it is not called twice */
    close_vtable(device);
}

dpt_status dpti_device_reopen(dpti_device *device)
{
    device->base = (dpt_device){.backend = device->base.backend};
    device->given_up.status = DPT_OK;
    device->lost = device->shut = false;
    const dpt_status status = open_or_close(device);
    if (status != DPT_OK) device->lost = device->shut = true;
    return status;
}

static void run_close(dpti_device *device, void *argument)
{
    (void)argument;
    dpti_device_shut(device);
}

/* Releases a device whose vtable is closed or was never opened. */
static void release(dpti_device *device)
{
    dpti_driver_stop(device);
    free(device->opening);
    free(device);
}

static char *put(char **at, const char *text)
{
    char *copy = *at;
    const size_t n = strlen(text) + 1;
    memcpy(copy, text, n);
    *at += n;
    return copy;
}

/* A copy in one allocation; NULL without memory. */
static dpt_open_args *copy_args(const dpt_open_args *args)
{
    size_t n_params = 0, n_chars = 0;
    for (size_t i = 0; i < args->n_requests; i++)
        for (size_t k = 0; k < args->requests[i].n_params; k++, n_params++)
            n_chars += strlen(args->requests[i].params[k].key) +
                       strlen(args->requests[i].params[k].value) + 2;
    dpt_open_args *copy = malloc(sizeof *copy + args->n_requests * sizeof(dpt_device_request) +
                                 n_params * sizeof(dpt_param) + n_chars);
    if (!copy) return NULL;
    dpt_device_request *requests = (dpt_device_request *)(copy + 1);
    dpt_param *params = (dpt_param *)(requests + args->n_requests);
    char *text = (char *)(params + n_params);
    *copy = *args;
    copy->requests = requests;
    for (size_t i = 0; i < args->n_requests; i++) {
        requests[i] = args->requests[i];
        requests[i].params = params;
        for (size_t k = 0; k < requests[i].n_params; k++, params++)
            *params = (dpt_param){.key = put(&text, args->requests[i].params[k].key),
                                  .value = put(&text, args->requests[i].params[k].value)};
    }
    return copy;
}

/* Without a driver yet; NULL without memory. */
static dpti_device *make_device(dpt_context *context, const dpti_selected *selected,
                                const dpt_open_args *args)
{
    dpti_device *device = calloc(1, sizeof *device);
    if (!device) return NULL;
    device->base.backend = selected->backend->backend;
    device->context = context;
    memcpy(device->id, selected->id, sizeof device->id);
    memcpy(device->alias, selected->backend->devices[selected->index].alias, sizeof device->alias);
    device->memory_limit_bytes = selected->entry->memory_limit_bytes;
    device->throttle = selected->entry->throttle;
    device->patience = context->device_timeout;
    atomic_init(&device->memory_used_bytes, 0);
    device->opening = copy_args(args);
    if (device->opening) return device;
    free(device);
    return NULL;
}

/* On its driver, which is left with the device if it does not come back: DPT_E_DEVICE_LOST, and the
   registry knows.  *error is written on failure. */
static dpt_status open_within(dpti_device *device, const dpti_selected *selected, dpt_error *error)
{
    dpt_context *context = device->context;
    const dpti_limit limit = dpti_preparing_limit(context, "while it was opened");
    dpt_status status = DPT_E_DEVICE_LOST;
    if (dpti_driver_call_within(device, run_open, &status, &limit)) {
        if (status == DPT_OK) return DPT_OK;
        *error = device->base.error;
        release(device);
        return status;
    }
    *error = device->given_up;
    dpti_registry_give_up(context->registry, selected->backend, selected->index, error);
    dpti_driver_leave(device);
    return DPT_E_DEVICE_LOST;
}

static dpt_status open_device(dpt_context *context, const dpti_selected *selected,
                              const dpt_open_args *args, dpti_device **out)
{
    dpti_device *device = make_device(context, selected, args);
    if (!device) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a device");
    char prefix[DPTI_ID_BYTES + 8];
    snprintf(prefix, sizeof prefix, "device %s", device->id);
    dpt_error error = {.status = DPT_OK};
    dpt_status status = dpti_driver_start(device, &error);
    if (status != DPT_OK)
        release(device);
    else
        status = open_within(device, selected, &error);
    if (status != DPT_OK) return dpti_context_fail(context, prefix, &error);
    *out = device;
    return DPT_OK;
}

static void sleep_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Some microseconds in which the core's other hardware thread, if it has one, is not disturbed. */
static void rest(void)
{
    for (size_t i = 0; i < 64; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* Makes a device slower by waiting: an instrument for experiments on equal hardware.  A core that
   has slept computes more slowly, and less evenly, for a while, since its caches and its clock are
   then others'; a slow processor's core has not slept. */
void dpti_device_throttle(const dpti_device *device, double busy_seconds)
{
    const double seconds = (device->throttle - 1) * busy_seconds;
    if (!(seconds > 0)) return;
    if (!(device->info.flags & DPT_DEVICE_DRIVER_COMPUTES)) {
        sleep_seconds(seconds);
        return;
    }
    const double end = dpti_seconds() + seconds;
    while (dpti_seconds() < end)
        rest();
}

static void run_set_throttle(dpti_device *device, void *factor)
{
    device->throttle = *(const double *)factor;
}

void dpti_device_set_throttle(dpti_device *device, double factor)
{
    dpti_driver_call(device, run_set_throttle, &factor);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* All requests of the backend of device `self`, in the order of the list. */
static dpt_open_args gather_requests(const dpti_selection *selection, size_t self,
                                     dpt_device_request *requests)
{
    dpt_open_args args = {.requests = requests};
    for (size_t i = 0; i < selection->n_devices; i++) {
        const dpti_selected *device = &selection->devices[i];
        if (device->backend != selection->devices[self].backend) continue;
        if (i == self) args.self = args.n_requests;
        requests[args.n_requests++] = (dpt_device_request){
            .index = device->index,
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
        status =
            open_device(set->context, &selection->devices[i], &args, &set->devices[set->n_devices]);
        if (status == DPT_OK) set->n_devices++;
        goes_on = status == DPT_OK || passed_over(&selection->devices[i]);
    }
    if (goes_on && set->n_devices > 0) status = DPT_OK;
    free(requests);
    return status;
}

dpt_status dpt_devices_open(dpt_context *context, const char *text, dpt_device_set **out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_device_list list = {.n_entries = 0};
    dpti_selection selection = {.n_devices = 0};
    dpt_device_set *set = NULL;
    dpt_status status = dpti_device_list_parse(text ? text : "all", &list, &error);
    if (status == DPT_OK) status = dpti_select(context->registry, &list, &selection, &error);
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
    dpt_devices_close(set);
    dpti_selection_free(&selection);
    dpti_device_list_free(&list);
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

dpt_status dpt_devices_subset(dpt_device_set *set, const size_t *indices, size_t n,
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

void dpt_devices_close(dpt_device_set *set)
{
    if (!set) return;
    while (!set->borrowed && set->n_devices > 0) {
        dpti_device *device = set->devices[--set->n_devices];
        if (dpti_driver_revive(device) && device->stays) {
            dpti_driver_stop(device);
            dpti_leave_behind(device);
        } else if (dpti_driver_is_running(device) && dpti_driver_finish(device, run_close, NULL)) {
            release(device);
        } else { /* one whose thread has not come back is left to it */
            dpti_driver_leave(device);
        }
    }
    free(set->devices);
    free(set);
}

size_t dpt_devices_count(const dpt_device_set *set)
{
    return set->n_devices;
}

dpt_device *dpt_devices_get(const dpt_device_set *set, size_t i)
{
    return i < set->n_devices ? &set->devices[i]->base : NULL;
}

void dpt_device_describe(const dpt_device *device, dpt_device_description *out)
{
    const dpti_device *d = dpti_device_of(device);
    *out = (dpt_device_description){
        .id = d->id,
        .alias = d->alias,
        .backend = d->base.backend->name,
        .name = d->info.name,
        .detail = d->info.detail,
        .memory_bytes = d->info.memory_bytes,
        .n_threads = d->info.n_threads,
    };
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

dpt_status dpt_devices_wait(dpt_device_set *set)
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
