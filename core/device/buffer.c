/* Device memory and transfers.  Bounds and limits are checked before each call, because backends
   trust their arguments.  Entries of the vtable that a backend may leave out have their defaults
   here. */
#include "device/buffer.h"
#include "base/memory.h"
#include "device/dispatch.h"
#include "device/rehearsal.h"
#include "device/stream.h"

#include <stdlib.h>
#include <string.h>

static const dpt_memory_ops *memory_of(const dpti_device *device)
{
    return device->base.backend->memory;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What an imagined buffer has, so that its handle and its address are those of a buffer. */
enum { IMAGINED_BYTES = 64 };

static void note_need(dpti_device *device, size_t n_bytes)
{
    dpti_rehearsal *r = &device->rehearsal;
    if (r->needs_bytes == 0 || n_bytes < r->needs_bytes) r->needs_bytes = n_bytes;
}

static dpt_status check_limit(dpti_device *device, size_t n_bytes)
{
    const size_t used = atomic_load(&device->memory_used_bytes);
    const bool rehearses = device->rehearsal.on;
    const size_t limit = rehearses ? device->rehearsal.limit_bytes : device->memory_limit_bytes;
    if (used <= limit && n_bytes <= limit - used) return DPT_OK;
    if (rehearses) note_need(device, n_bytes > SIZE_MAX - used ? SIZE_MAX : used + n_bytes);
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
    const bool imagined = device->rehearsal.on;
    const size_t made_bytes = imagined ? IMAGINED_BYTES : n_bytes;
    dpt_buffer *handle = NULL;
    DPT_TRY(DPTI_CALL(device, memory_of(device)->alloc(&device->base, made_bytes, &handle),
                      "memory.alloc"));
    atomic_fetch_add(&device->memory_used_bytes, n_bytes);
    *out = (dpti_buffer){.device = device,
                         .handle = handle,
                         .n_bytes = n_bytes,
                         .charged_bytes = n_bytes,
                         .imagined = imagined};
    return DPT_OK;
}

dpt_status dpti_charge(dpti_device *device, size_t n_bytes)
{
    DPT_TRY(check_limit(device, n_bytes));
    atomic_fetch_add(&device->memory_used_bytes, n_bytes);
    return DPT_OK;
}

void dpti_discharge(dpti_device *device, size_t n_bytes)
{
    atomic_fetch_sub(&device->memory_used_bytes, n_bytes);
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

/* Called before memory is freed: after a failure, work that nobody has waited for may still use the
   memory. */
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

static dpt_location location(const dpti_buffer *buffer, size_t offset_bytes)
{
    return (dpt_location){.buffer = buffer->handle, .offset_bytes = offset_bytes};
}

dpt_status dpti_slice_check(dpti_device *device, const dpti_slice *slice)
{
    const size_t size = slice->buffer->n_bytes;
    if (slice->buffer->device == device && slice->offset_bytes <= size &&
        slice->n_bytes <= size - slice->offset_bytes)
        return DPT_OK;
    return DPT_FAIL(&device->base.error, DPT_E_INTERNAL, "%zu bytes at %zu leave the buffer of %zu",
                    slice->n_bytes, slice->offset_bytes, size);
}

dpt_location dpti_slice_location(const dpti_slice *slice)
{
    return location(slice->buffer, slice->offset_bytes);
}

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

dpt_status dpti_upload(const dpti_buffer *to, size_t offset_bytes, const void *host, size_t n_bytes)
{
    DPT_TRY(begin_transfer(to, offset_bytes, n_bytes, "an upload"));
    if (n_bytes == 0 || to->imagined) return DPT_OK;
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
    if (n_bytes == 0 || from->imagined) return DPT_OK;
    dpti_device *device = from->device;
    device->unsynced = true;
    return DPTI_CALL(
        device,
        memory_of(device)->download(device->stream, host, location(from, offset_bytes), n_bytes),
        "memory.download");
}

dpt_status dpti_copy(const dpti_buffer *to, size_t to_offset_bytes, const dpti_slice *from)
{
    DPT_TRY(begin_transfer(to, to_offset_bytes, from->n_bytes, "a copy"));
    dpti_device *device = to->device;
    if (from->buffer->device != device)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL, "a copy from another device's buffer");
    DPT_TRY(begin_transfer(from->buffer, from->offset_bytes, from->n_bytes, "a copy"));
    if (from->n_bytes == 0 || to->imagined || from->buffer->imagined) return DPT_OK;
    device->unsynced = true;
    return DPTI_CALL(device,
                     memory_of(device)->copy(device->stream, location(to, to_offset_bytes),
                                             dpti_slice_location(from), from->n_bytes),
                     "memory.copy");
}

dpt_status dpti_fill(const dpti_buffer *to, size_t offset_bytes, uint32_t pattern, size_t n_bytes)
{
    DPT_TRY(begin_transfer(to, offset_bytes, n_bytes, "a fill"));
    dpti_device *device = to->device;
    if (offset_bytes % 4 != 0 || n_bytes % 4 != 0)
        return DPT_FAIL(&device->base.error, DPT_E_INTERNAL,
                        "a fill of %zu bytes at %zu is not in words of 4", n_bytes, offset_bytes);
    if (n_bytes == 0 || to->imagined) return DPT_OK;
    device->unsynced = true;
    return DPTI_CALL(
        device,
        memory_of(device)->fill(device->stream, location(to, offset_bytes), pattern, n_bytes),
        "memory.fill");
}

/* ---- Memory domains ---------------------------------------------------------------------------
 */

bool dpti_sees_memory(const dpti_device *device, const dpt_backend *backend, const char *domain)
{
    const dpt_device_properties *info = &device->info;
    return device->base.backend == backend && domain[0] &&
           strncmp(info->memory_domain, domain, sizeof info->memory_domain) == 0;
}

bool dpti_shards_memory(const dpti_device *a, const dpti_device *b)
{
    return a == b || dpti_sees_memory(a, b->base.backend, b->info.memory_domain);
}
