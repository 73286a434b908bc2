/* Checked calls through the vtable: bounds and limits before, a record of what failed after, and
   the defaults of entries that a backend may leave out.  Backends trust what they get from here. */
#include "device/dispatch.h"
#include "base/memory.h"

#include <stdlib.h>

dpt_status dpti_begin_call(dpti_device *device)
{
    if (device->lost) return DPT_E_DEVICE_LOST;
    device->base.error.status = DPT_OK;
    device->base.error.message[0] = '\0';
    return DPT_OK;
}

dpt_status dpti_end_call(dpti_device *device, dpt_status status, const char *entry)
{
    dpti_leave_call(device);
    if (status == DPT_OK) return DPT_OK;
    dpt_error *error = &device->base.error;
    if (error->message[0] == '\0')
        DPT_FAIL(error, status, "%s failed: %s", entry, dpt_status_words(status));
    error->status = status;
    if (status == DPT_E_DEVICE_LOST) device->lost = true;
    return status;
}

static const dpt_memory_ops *memory_of(const dpti_device *device)
{
    return device->base.backend->memory;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static dpt_status check_limit(dpti_device *device, size_t n_bytes)
{
    const size_t used = atomic_load(&device->memory_used_bytes);
    const size_t limit = device->memory_limit_bytes;
    if (used <= limit && n_bytes <= limit - used) return DPT_OK;
    return DPT_FAIL(&device->base.error, DPT_E_NO_MEMORY,
                    "%zu bytes asked with %zu in use, but memory= limits it to %zu: raise the "
                    "limit or take a smaller batch",
                    n_bytes, used, limit);
}

dpt_status dpti_alloc(dpti_device *device, size_t n_bytes, dpti_buffer *out)
{
    *out = (dpti_buffer){.device = NULL};
    DPT_TRY(dpti_begin_call(device));
    if (n_bytes == 0)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL, "an allocation of 0 bytes");
    DPT_TRY(check_limit(device, n_bytes));
    dpt_buffer *handle = NULL;
    DPT_TRY(DPTI_CALL(device, memory_of(device)->alloc(&device->base, n_bytes, &handle),
                      "memory.alloc"));
    atomic_fetch_add(&device->memory_used_bytes, n_bytes);
    *out = (dpti_buffer){
        .device = device, .handle = handle, .n_bytes = n_bytes, .charged_bytes = n_bytes};
    return DPT_OK;
}

/* DPT_E_UNSUPPORTED if the backend cannot wrap. */
static dpt_status wrap(dpti_device *device, const void *host, size_t n_bytes, dpti_buffer *out)
{
    if (!memory_of(device)->wrap_host) return DPT_E_UNSUPPORTED;
    DPT_TRY(dpti_begin_call(device));
    dpt_buffer *handle = NULL;
    DPT_TRY(DPTI_CALL(device, memory_of(device)->wrap_host(&device->base, host, n_bytes, &handle),
                      "memory.wrap_host"));
    *out = (dpti_buffer){.device = device, .handle = handle, .n_bytes = n_bytes};
    return DPT_OK;
}

dpt_status dpti_alloc_data(dpti_device *device, const void *host, size_t n_bytes, dpti_buffer *out)
{
    *out = (dpti_buffer){.device = NULL};
    if (n_bytes > 0) {
        const dpt_status status = wrap(device, host, n_bytes, out);
        if (status != DPT_E_UNSUPPORTED) return status;
    }
    dpti_buffer buffer;
    DPT_TRY(dpti_alloc(device, n_bytes, &buffer));
    const dpt_status status = dpti_upload(&buffer, 0, host, n_bytes);
    if (status != DPT_OK) {
        dpti_free(&buffer);
        return status;
    }
    *out = buffer;
    return DPT_OK;
}

/* In front of freeing memory: after a failure work that nobody has waited for may still use it. */
static void settle(dpti_device *device)
{
    const dpt_error first = device->base.error;
    if (!device->unsynced || device->lost) return;
    (void)!dpti_sync(device);
    device->unsynced = false;
    device->base.error = first;
}

void dpti_free(dpti_buffer *buffer)
{
    dpti_device *device = buffer->device;
    if (!device) return;
    settle(device);
    dpt_buffer *handle = buffer->handle;
    atomic_fetch_sub(&device->memory_used_bytes, buffer->charged_bytes);
    *buffer = (dpti_buffer){.device = NULL};
    /* A lost device's memory is abandoned: its driver may crash or hang on it. */
    if (!device->lost) DPTI_RELEASE(device, memory_of(device)->free(&device->base, handle));
}

void *dpti_host_pointer(const dpti_buffer *buffer)
{
    const dpti_device *device = buffer->device;
    if (!device || device->lost || !memory_of(device)->host_pointer) return NULL;
    return memory_of(device)->host_pointer(&buffer->device->base, buffer->handle);
}

dpt_status dpti_host_alloc(dpti_device *device, size_t n_bytes, void **out)
{
    DPT_TRY(dpti_begin_call(device));
    void *host = NULL;
    if (memory_of(device)->host_alloc) {
        DPT_TRY(DPTI_CALL(device, memory_of(device)->host_alloc(&device->base, n_bytes, &host),
                          "memory.host_alloc"));
    } else {
        host = dpti_alloc_aligned(n_bytes);
        if (!host)
            return DPT_FAIL(&device->base.error, DPT_E_NO_MEMORY,
                            "the host has no %zu bytes for transfers", n_bytes);
    }
    *out = host;
    return DPT_OK;
}

void dpti_host_free(dpti_device *device, void *host)
{
    if (!host) return;
    settle(device);
    if (!memory_of(device)->host_free)
        free(host);
    else if (!device->lost)
        DPTI_RELEASE(device, memory_of(device)->host_free(&device->base, host));
}

/* ---- Transfers ------------------------------------------------------------------------------- */

static dpt_status begin_transfer(const dpti_buffer *buffer, size_t offset_bytes, size_t n_bytes,
                                 const char *what)
{
    if (!buffer->device) return DPT_E_INTERNAL;
    DPT_TRY(dpti_begin_call(buffer->device));
    if (offset_bytes > buffer->n_bytes || n_bytes > buffer->n_bytes - offset_bytes)
        return DPT_FAIL(&buffer->device->base.error, DPT_E_INTERNAL,
                        "%s of %zu bytes at %zu leaves the buffer of %zu", what, n_bytes,
                        offset_bytes, buffer->n_bytes);
    return DPT_OK;
}

static dpt_location location(const dpti_buffer *buffer, size_t offset_bytes)
{
    return (dpt_location){.buffer = buffer->handle, .offset_bytes = offset_bytes};
}

dpt_status dpti_upload(const dpti_buffer *to, size_t offset_bytes, const void *host, size_t n_bytes)
{
    DPT_TRY(begin_transfer(to, offset_bytes, n_bytes, "an upload"));
    if (n_bytes == 0) return DPT_OK;
    dpti_device *device = to->device;
    device->unsynced = true;
    return DPTI_CALL(
        device,
        memory_of(device)->upload(device->stream, location(to, offset_bytes), host, n_bytes),
        "memory.upload");
}

dpt_status dpti_download(void *host, const dpti_buffer *from, size_t offset_bytes, size_t n_bytes)
{
    DPT_TRY(begin_transfer(from, offset_bytes, n_bytes, "a download"));
    if (n_bytes == 0) return DPT_OK;
    dpti_device *device = from->device;
    device->unsynced = true;
    return DPTI_CALL(
        device,
        memory_of(device)->download(device->stream, host, location(from, offset_bytes), n_bytes),
        "memory.download");
}

dpt_status dpti_copy(const dpti_buffer *to, size_t to_offset_bytes, const dpti_buffer *from,
                     size_t from_offset_bytes, size_t n_bytes)
{
    DPT_TRY(begin_transfer(to, to_offset_bytes, n_bytes, "a copy"));
    dpti_device *device = to->device;
    if (from->device != device)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL, "a copy from another device's buffer");
    DPT_TRY(begin_transfer(from, from_offset_bytes, n_bytes, "a copy"));
    if (n_bytes == 0) return DPT_OK;
    device->unsynced = true;
    return DPTI_CALL(device,
                     memory_of(device)->copy(device->stream, location(to, to_offset_bytes),
                                             location(from, from_offset_bytes), n_bytes),
                     "memory.copy");
}

dpt_status dpti_fill(const dpti_buffer *to, size_t offset_bytes, uint32_t pattern, size_t n_bytes)
{
    DPT_TRY(begin_transfer(to, offset_bytes, n_bytes, "a fill"));
    dpti_device *device = to->device;
    if (offset_bytes % 4 != 0 || n_bytes % 4 != 0)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL,
                        "a fill of %zu bytes at %zu is not in words of 4", n_bytes, offset_bytes);
    if (n_bytes == 0) return DPT_OK;
    device->unsynced = true;
    return DPTI_CALL(
        device,
        memory_of(device)->fill(device->stream, location(to, offset_bytes), pattern, n_bytes),
        "memory.fill");
}

dpt_status dpti_sync(dpti_device *device)
{
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, device->base.backend->stream->sync(device->stream), "stream.sync"));
    device->unsynced = false;
    return DPT_OK;
}

/* ---- Events and recordings ------------------------------------------------------------------- */

static const dpt_stream_ops *stream_of(const dpti_device *device)
{
    return device->base.backend->stream;
}

static const dpt_capture_ops *capture_of(const dpti_device *device)
{
    return device->base.backend->capture;
}

/* What a call gives is in the thread's own memory first: one that was given up may write it when
   nobody has the place for it any more. */
dpt_status dpti_event_create(dpti_device *device, dpt_event **out)
{
    DPT_TRY(dpti_begin_call(device));
    dpt_event *event = NULL;
    DPT_TRY(DPTI_CALL(device, stream_of(device)->event_create(&device->base, &event),
                      "stream.event_create"));
    *out = event;
    return DPT_OK;
}

void dpti_event_destroy(dpti_device *device, dpt_event **event)
{
    dpt_event *handle = *event;
    *event = NULL;
    if (!device->lost) DPTI_RELEASE(device, stream_of(device)->event_destroy(handle));
}

dpt_status dpti_event_record(dpti_device *device, dpt_event *event)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, stream_of(device)->event_record(event, device->stream),
                     "stream.event_record");
}

dpt_status dpti_event_query(dpti_device *device, dpt_event *event, bool *done)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, stream_of(device)->event_query(event, done), "stream.event_query");
}

dpt_status dpti_event_sync(dpti_device *device, dpt_event *event)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, stream_of(device)->event_sync(event), "stream.event_sync");
}

dpt_status dpti_event_elapsed(dpti_device *device, dpt_event *start, dpt_event *end,
                              double *seconds)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, stream_of(device)->event_elapsed(start, end, seconds),
                     "stream.event_elapsed");
}

bool dpti_can_record(const dpti_device *device)
{
    return capture_of(device) != NULL;
}

bool dpti_records_late(const dpti_device *device)
{
    return (device->info.flags & DPT_DEVICE_RECORDS_LATE) != 0;
}

dpt_status dpti_recording_begin(dpti_device *device)
{
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, capture_of(device)->begin(device->stream), "capture.begin");
}

dpt_status dpti_recording_end(dpti_device *device, dpt_recording **out)
{
    DPT_TRY(dpti_begin_call(device));
    dpt_recording *recording = NULL;
    DPT_TRY(DPTI_CALL(device, capture_of(device)->end(device->stream, &recording), "capture.end"));
    *out = recording;
    return DPT_OK;
}

dpt_status dpti_recording_replay(dpti_device *device, dpt_recording *recording)
{
    DPT_TRY(dpti_begin_call(device));
    device->unsynced = true;
    return DPTI_CALL(device, capture_of(device)->replay(device->stream, recording),
                     "capture.replay");
}

void dpti_recording_release(dpti_device *device, dpt_recording **recording)
{
    dpt_recording *handle = *recording;
    *recording = NULL;
    if (handle && !device->lost)
        DPTI_RELEASE(device, capture_of(device)->release(&device->base, handle));
}
