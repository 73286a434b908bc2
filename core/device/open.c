/* Opens one device on its driver thread, and closes it. */
#include "device/open.h"
#include "device/driver.h"
#include "device/registry.h"

#include "base/left_behind.h"
#include "context/context.h"
#include "device/call_limit.h"
#include "device/dispatch.h"
#include "device/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- On the driver thread ----------------------------------------------------------------------
 */

static const dpt_device_ops *device_ops(const dpti_device *device)
{
    return device->base.backend->device;
}

/* Reads the device's description and checks it against the contract of backend.h. */
static dpt_status read_info(dpti_device *device)
{
    dpt_device_properties info = {.memory_bytes = 0};
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

/* The call returns no status, but it can hang like any other. */
static void close_vtable(dpti_device *device)
{
    DPTI_RELEASE(device, device_ops(device)->close(&device->base));
}

/* After a failure the device is closed, and its record has the reason. */
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
        /* A failure is not reported to anybody; close accepts a device that has failed. */
        const dpt_status status = dpti_sync(device);
        dpt_stream *stream = device->stream;
        device->stream = NULL;
        if (status != DPT_E_DEVICE_LOST)
            DPTI_RELEASE(device, device->base.backend->stream->destroy(stream));
    }
    device->stream = NULL;
    device->lost = device->shut =
        true; /* set before the call, because close may not return and must not be called twice */
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

/* Returns a copy in one allocation, with copies of the texts, which belong to the device list; NULL
   if memory is short.  The keys belong to the backend, which is never unloaded. */
static dpt_open_args *copy_args(const dpt_open_args *args)
{
    size_t n_params = 0, n_chars = 0;
    for (size_t i = 0; i < args->n_requests; i++)
        for (size_t k = 0; k < args->requests[i].n_params; k++, n_params++)
            n_chars += strlen(args->requests[i].params[k].text) + 1;
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
        for (size_t k = 0; k < requests[i].n_params; k++, params++) {
            *params = args->requests[i].params[k];
            params->text = put(&text, params->text);
        }
    }
    return copy;
}

/* Makes a device that has no driver thread yet.  Returns NULL if memory is short. */
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

/* Opens the device on its driver thread.  If the call does not return, the device is left to the
   thread and the registry marks it as hung: DPT_E_DEVICE_LOST.  *error is written on failure. */
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

dpt_status dpti_device_open(dpt_context *context, const dpti_selected *selected,
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

void dpti_device_close(dpti_device *device)
{
    if (dpti_driver_revive(device) && device->stays) {
        dpti_driver_stop(device);
        dpti_leave_behind(device);
    } else if (dpti_driver_is_running(device) && dpti_driver_finish(device, run_close, NULL)) {
        release(device);
    } else { /* the driver thread has not returned: the device is left to it */
        dpti_driver_leave(device);
    }
}
