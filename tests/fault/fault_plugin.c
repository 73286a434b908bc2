/* The fault backend's tables: each entry counts the call, forwards it, and records what was
   created. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#ifdef FAULT_STAGED
#define FAULT_NAME "faultstaged"
#else
#define FAULT_NAME "fault"
#endif

static const dpt_backend *inner_of(dpt_device *device)
{
    return fault_of(device)->inner.backend;
}

/* ---- Devices --------------------------------------------------------------------------------- */

static dpt_status device_probe(size_t *n_devices, dpt_error *error)
{
    const dpt_backend *inner = fault_inner(error);
    fault_hang_if_told(FAULT_NAME, "probe");
    return inner ? inner->device->probe(n_devices, error) : DPT_E_ABSENT;
}

static dpt_status device_describe(size_t index, dpt_device_properties *info, dpt_error *error)
{
    const dpt_backend *inner = fault_inner(error);
    fault_hang_if_told(FAULT_NAME, "describe");
    if (!inner) return DPT_E_ABSENT;
    DPT_TRY(inner->device->describe(index, info, error));
    if (!getenv("DPTRAIN_FAULT_APART")) return DPT_OK;
    info->flags &= ~(uint32_t)DPT_DEVICE_IS_HOST_CPU;
    snprintf(info->compute_domain, sizeof info->compute_domain, "apart");
    return DPT_OK;
}

static dpt_status device_open(dpt_device *device, const dpt_open_args *args)
{
    fault_state *state = device->state = calloc(1, sizeof *state);
    if (!state) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for the device");
    DPT_TRY(fault_parse(device, &args->requests[args->self]));
    DPT_TRY(fault_appear(device, args->self));
    fault_hang_if_told(FAULT_NAME, "open");
    fault_let_go(device, "open");
    const dpt_backend *inner = fault_inner(&device->error);
    if (!inner) return device->error.status;
    dpt_device_request *requests = fault_strip(args);
    if (!requests) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for the device");
    dpt_open_args stripped = *args;
    stripped.requests = requests;
    state->inner.backend = inner;
    const dpt_status status = inner->device->open(&state->inner, &stripped);
    free(requests);
    return fault_forwarded(device, status);
}

static void event_destroy(dpt_event *event);
static void stream_destroy(dpt_stream *stream);
static void operator_release(dpt_device *device, dpt_op *op);
static void memory_free(dpt_device *device, dpt_buffer *buffer);
static void memory_host_free(dpt_device *device, void *host);

static void release_object(dpt_device *device, fault_object_kind kind, void *handle)
{
    switch (kind) {
    case FAULT_BUFFER: memory_free(device, handle); break;
    case FAULT_HOST: memory_host_free(device, handle); break;
    case FAULT_STREAM: stream_destroy(handle); break;
    case FAULT_EVENT: event_destroy(handle); break;
    case FAULT_OP: operator_release(device, handle); break;
    case FAULT_RECORDING: fault_capture_ops.release(device, handle); break;
    }
}

/* What a lost device's owners abandoned is released here, so that leaks elsewhere stay visible. */
static void device_close(dpt_device *device)
{
    fault_state *state = fault_of(device);
    if (!state) return;
    fault_let_go(device, "close");
    state->is_closing = true;
    fault_report("closed %zu %zu\n", state->n_calls, fault_count_objects(state));
    while (state->objects)
        release_object(device, state->objects->kind, state->objects->handle);
    if (state->inner.backend) state->inner.backend->device->close(&state->inner);
    free(state);
    device->state = NULL;
}

static dpt_status device_info(dpt_device *device, dpt_device_properties *info)
{
    DPT_TRY(fault_enter(device, "info"));
    DPT_TRY(
        fault_forwarded(device, inner_of(device)->device->info(&fault_of(device)->inner, info)));
    if (fault_of(device)->domain)
        snprintf(info->fault_domain, sizeof info->fault_domain, "planted:%zu",
                 fault_of(device)->domain);
    if (fault_of(device)->cache) info->cache_bytes = fault_of(device)->cache;
    if (fault_of(device)->late) info->flags |= DPT_DEVICE_RECORDS_LATE;
    if (fault_of(device)->apart) info->flags &= ~(uint32_t)DPT_DEVICE_IS_HOST_CPU;
    if (fault_of(device)->varies) info->flags &= ~(uint32_t)DPT_DEVICE_DETERMINISTIC;
    return DPT_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Ends a creation: remembers the object, or gives it back. */
static dpt_status created(dpt_device *device, fault_object_kind kind, void *handle)
{
    if (fault_track(device, kind, handle)) return DPT_OK;
    release_object(device, kind, handle);
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to remember an object");
}

/* What is undefined in new memory is no number, as it may be elsewhere. */
static void spoil(void *host, size_t n_bytes)
{
    if (host) memset(host, 0xff, n_bytes);
}

static dpt_status memory_alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    const dpt_memory_ops *memory = inner_of(device)->memory;
    dpt_device *inner = &fault_of(device)->inner;
    dpt_buffer *buffer = NULL;
    DPT_TRY(fault_enter(device, "alloc"));
    DPT_TRY(fault_forwarded(device, memory->alloc(inner, n_bytes, &buffer)));
    DPT_TRY(created(device, FAULT_BUFFER, buffer));
    spoil(memory->host_pointer(inner, buffer), n_bytes);
    *out = buffer;
    return DPT_OK;
}

static void memory_free(dpt_device *device, dpt_buffer *buffer)
{
    fault_let_go(device, "free");
    fault_forget(device, buffer);
    inner_of(device)->memory->free(&fault_of(device)->inner, buffer);
}

#ifndef FAULT_STAGED
enum { FAULT_LEAST_WRAPPED = 256 };

static dpt_status memory_wrap_host(dpt_device *device, const void *host, size_t n_bytes,
                                   dpt_buffer **out)
{
    dpt_buffer *buffer = NULL;
    DPT_TRY(fault_enter(device, "wrap_host"));
    if (!inner_of(device)->memory->wrap_host) {
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "the wrapped backend has no wrap_host");
    }
    if (n_bytes < FAULT_LEAST_WRAPPED && strcmp(fault_of(device)->refuses, "wrap") == 0)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "so little is not wrapped");
    DPT_TRY(fault_forwarded(device, inner_of(device)->memory->wrap_host(&fault_of(device)->inner,
                                                                        host, n_bytes, &buffer)));
    DPT_TRY(created(device, FAULT_BUFFER, buffer));
    *out = buffer;
    return DPT_OK;
}

static void *memory_host_pointer(dpt_device *device, dpt_buffer *buffer)
{
    const dpt_memory_ops *memory = inner_of(device)->memory;
    return memory->host_pointer ? memory->host_pointer(&fault_of(device)->inner, buffer) : NULL;
}
#endif

static dpt_status memory_host_alloc(dpt_device *device, size_t n_bytes, void **out)
{
    const dpt_memory_ops *memory = inner_of(device)->memory;
    void *host = NULL;
    DPT_TRY(fault_enter(device, "host_alloc"));
    if (memory->host_alloc) {
        DPT_TRY(
            fault_forwarded(device, memory->host_alloc(&fault_of(device)->inner, n_bytes, &host)));
    } else {
        host = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
        if (!host) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no host memory");
    }
    DPT_TRY(created(device, FAULT_HOST, host));
    spoil(host, n_bytes);
    *out = host;
    return DPT_OK;
}

static void memory_host_free(dpt_device *device, void *host)
{
    const dpt_memory_ops *memory = inner_of(device)->memory;
    fault_let_go(device, "host_free");
    fault_forget(device, host);
    if (memory->host_alloc) {
        memory->host_free(&fault_of(device)->inner, host);
    } else {
        free(host);
    }
}

static dpt_status memory_upload(dpt_stream *stream, dpt_location to, const void *host,
                                size_t n_bytes)
{
    DPT_TRY(fault_enter(stream->device, "upload"));
    return fault_forwarded(
        stream->device, inner_of(stream->device)->memory->upload(stream->inner, to, host, n_bytes));
}

/* Downloads that are not behind anything any more.  What an abort has left is not worth any. */
static dpt_status catch_up(dpt_stream *stream)
{
    const dpt_memory_ops *memory = inner_of(stream->device)->memory;
    size_t n = 0;
    for (; n < stream->n_downloads && fault_passed(&stream->downloads[n].behind); n++) {
        const fault_download *d = &stream->downloads[n];
        DPT_TRY(fault_forwarded(stream->device,
                                memory->download(stream->inner, d->host, d->from, d->n_bytes)));
    }
    stream->n_downloads -= n;
    if (n > 0)
        memmove(stream->downloads, stream->downloads + n,
                stream->n_downloads * sizeof *stream->downloads);
    if (fault_passed(&stream->waits)) stream->waits = (fault_wait){.communicator = NULL};
    return DPT_OK;
}

static dpt_status put_off(dpt_stream *stream, const fault_download *download)
{
    const size_t n_bytes = (stream->n_downloads + 1) * sizeof *download;
    fault_download *downloads = realloc(stream->downloads, n_bytes);
    if (!downloads) return DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY, "no memory");
    downloads[stream->n_downloads++] = *download;
    stream->downloads = downloads;
    return DPT_OK;
}

static dpt_status memory_download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    DPT_TRY(fault_enter(stream->device, "download"));
    if (!fault_passed(&stream->waits)) {
        const fault_download download = {host, from, n_bytes, stream->waits};
        return put_off(stream, &download);
    }
    return fault_forwarded(
        stream->device,
        inner_of(stream->device)->memory->download(stream->inner, host, from, n_bytes));
}

static dpt_status memory_copy(dpt_stream *stream, dpt_location to, dpt_location from,
                              size_t n_bytes)
{
    dpt_status recorded;
    DPT_TRY(fault_enter(stream->device, "copy"));
    if (fault_record(stream, &(fault_call){.to = to, .from = from, .n_bytes = n_bytes}, &recorded))
        return recorded;
    return fault_forwarded(
        stream->device, inner_of(stream->device)->memory->copy(stream->inner, to, from, n_bytes));
}

static dpt_status memory_fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    dpt_status recorded;
    DPT_TRY(fault_enter(stream->device, "fill"));
    if (fault_record(stream, &(fault_call){.to = to, .pattern = pattern, .n_bytes = n_bytes},
                     &recorded))
        return recorded;
    return fault_forwarded(
        stream->device,
        inner_of(stream->device)->memory->fill(stream->inner, to, pattern, n_bytes));
}

/* ---- Streams and events ---------------------------------------------------------------------- */

static dpt_status stream_create(dpt_device *device, dpt_stream **out)
{
    DPT_TRY(fault_enter(device, "stream_create"));
    dpt_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stream");
    stream->device = device;
    const dpt_status status = fault_forwarded(
        device, inner_of(device)->stream->create(&fault_of(device)->inner, &stream->inner));
    if (status != DPT_OK) {
        free(stream);
        return status;
    }
    DPT_TRY(created(device, FAULT_STREAM, stream));
    *out = stream;
    return DPT_OK;
}

static void stream_destroy(dpt_stream *stream)
{
    if (!stream) return;
    fault_let_go(stream->device, "stream_free");
    fault_forget(stream->device, stream);
    fault_capture_ops.release(stream->device, stream->recording); /* one that nobody ended */
    inner_of(stream->device)->stream->destroy(stream->inner);
    free(stream->downloads);
    free(stream);
}

static dpt_status stream_sync(dpt_stream *stream)
{
    DPT_TRY(fault_enter(stream->device, "sync"));
    fault_await(&stream->waits);
    DPT_TRY(catch_up(stream));
    return fault_forwarded(stream->device, inner_of(stream->device)->stream->sync(stream->inner));
}

static dpt_status event_create(dpt_device *device, dpt_event **out)
{
    DPT_TRY(fault_enter(device, "event_create"));
    dpt_event *event = calloc(1, sizeof *event);
    if (!event) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an event");
    event->device = device;
    const dpt_status status = fault_forwarded(
        device, inner_of(device)->stream->event_create(&fault_of(device)->inner, &event->inner));
    if (status != DPT_OK) {
        free(event);
        return status;
    }
    DPT_TRY(created(device, FAULT_EVENT, event));
    *out = event;
    return DPT_OK;
}

static void event_destroy(dpt_event *event)
{
    if (!event) return;
    fault_let_go(event->device, "event_free");
    fault_forget(event->device, event);
    inner_of(event->device)->stream->event_destroy(event->inner);
    free(event);
}

static dpt_status event_record(dpt_event *event, dpt_stream *stream)
{
    DPT_TRY(fault_enter(stream->device, "event_record"));
    event->seconds = fault_of(stream->device)->seconds;
    event->stream = stream;
    event->waits = stream->waits;
    return fault_forwarded(
        stream->device,
        inner_of(stream->device)->stream->event_record(event->inner, stream->inner));
}

static dpt_status event_wait(dpt_stream *stream, dpt_event *event)
{
    DPT_TRY(fault_enter(stream->device, "event_wait"));
    return fault_forwarded(
        stream->device, inner_of(stream->device)->stream->event_wait(stream->inner, event->inner));
}

static dpt_status event_query(dpt_event *event, bool *done)
{
    DPT_TRY(fault_enter(event->device, "event_query"));
    if (event->waits.communicator) {
        *done = fault_passed(&event->waits);
        if (!*done) return DPT_OK;
        event->waits = (fault_wait){.communicator = NULL};
        DPT_TRY(catch_up(event->stream));
    }
    *done = false;
    if (fault_of(event->device)->lag) return DPT_OK;
    return fault_forwarded(event->device,
                           inner_of(event->device)->stream->event_query(event->inner, done));
}

static dpt_status event_sync(dpt_event *event)
{
    DPT_TRY(fault_enter(event->device, "event_sync"));
    if (event->waits.communicator) {
        fault_await(&event->waits);
        event->waits = (fault_wait){.communicator = NULL};
        DPT_TRY(catch_up(event->stream));
    }
    return fault_forwarded(event->device,
                           inner_of(event->device)->stream->event_sync(event->inner));
}

static dpt_status event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    DPT_TRY(fault_enter(start->device, "event_elapsed"));
    if (fault_of(start->device)->clock > 0) {
        *seconds = end->seconds - start->seconds;
        return DPT_OK;
    }
    return fault_forwarded(
        start->device,
        inner_of(start->device)->stream->event_elapsed(start->inner, end->inner, seconds));
}

/* ---- Operators ------------------------------------------------------------------------------- */

static dpt_status operator_prepare(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                                   dpt_op_info *info)
{
    DPT_TRY(fault_enter(device, "prepare"));
    dpt_op *op = calloc(1, sizeof *op);
    if (!op) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    op->desc = *request->desc;
    const dpt_status status =
        fault_forwarded(device, inner_of(device)->operators->prepare(&fault_of(device)->inner,
                                                                     request, &op->inner, info));
    if (status != DPT_OK) {
        free(op);
        return status;
    }
    DPT_TRY(created(device, FAULT_OP, op));
    *out = op;
    return DPT_OK;
}

static void operator_release(dpt_device *device, dpt_op *op)
{
    if (!op) return;
    fault_let_go(device, "release");
    fault_forget(device, op);
    inner_of(device)->operators->release(&fault_of(device)->inner, op->inner);
    free(op);
}

static dpt_status operator_run(dpt_stream *stream, dpt_op *op, size_t n_samples,
                               const dpt_op_args *args)
{
    dpt_status recorded;
    DPT_TRY(fault_enter(stream->device, "run"));
    if (fault_record(stream, &(fault_call){.op = op, .n_samples = n_samples, .args = *args},
                     &recorded))
        return recorded;
    return fault_run(stream, op, n_samples, args);
}

/* ---- The descriptor -------------------------------------------------------------------------- */

static const char *const bugs[] = {
#define FAULT_BUG_WORD(name, word) #word,
    FAULT_BUG_LIST(FAULT_BUG_WORD)
#undef FAULT_BUG_WORD
        NULL,
};

#define COUNT(name, meaning)                                                                       \
    {                                                                                              \
        .key = name, .help = meaning, .type = DPT_PARAM_NUMBER, .min = 1, .max = SIZE_MAX          \
    }
static const dpt_param_spec params[] = {
    COUNT("fail", "the call that fails, from 1"),
    COUNT("lost", "the call from which on all fail, from 1"),
    COUNT("full", "the call that has no memory, from 1"),
    COUNT("for", "how many calls have none (1)"),
    COUNT("room", "the most samples of a run"),
    COUNT("from", "the step from which on memory is short (1)"),
    COUNT("clock", "simulated milliseconds a sample"),
    COUNT("hang", "the call that does not return"),
    COUNT("stall", "milliseconds after which it does"),
    COUNT("after", "updates before calls are counted (0)"),
    COUNT("again", "openings in which failures are planted (all; 1 with away)"),
    COUNT("starve", "the update that has no memory, and as many as for= says"),
    COUNT("only", "the opening in which failures are planted (all)"),
    COUNT("away", "openings behind the first that fail"),
    COUNT("domain", "the number of its fault domain"),
    COUNT("island", "the number of the island that it can be in"),
    COUNT("stick", "the collective that does not end"),
    COUNT("narrow", "1: its communicators are within one process"),
    COUNT("cache", "bytes that its caches hold"),
    {.key = "entry", .help = "the vtable entry whose calls are counted (all)"},
    {.key = "bug", .help = "a planted mistake", .type = DPT_PARAM_CHOICE, .choices = bugs},
    COUNT("poison", "the step in which gradients are infinite"),
    COUNT("smudge", "the step in which batch-norm's parts are"),
    COUNT("huge", "the step in which a gradient is almost"),
    COUNT("wreck", "the update behind which an element is no number"),
    COUNT("flip", "the update behind which a bit is another one"),
    COUNT("place", "the output of the update that it is in (1)"),
    COUNT("late", "1: it records what has run once"),
    COUNT("varies", "1: it does not compute deterministically"),
    COUNT("apart", "1: it is not the host's CPU"),
    COUNT("lag", "1: events pass when they are waited for"),
    {.key = "refuses",
     .help = "what of a recording is not to be had: begin, run, end; wrap: to wrap little"},
    {.key = "threads", .help = "passed on", .type = DPT_PARAM_NUMBER, .min = 1, .max = 1024},
    {.key = "algorithm", .help = "passed on"},
    {.key = NULL},
};
#undef COUNT

static const dpt_device_ops device_ops = {
    .probe = device_probe,
    .describe = device_describe,
    .open = device_open,
    .close = device_close,
    .info = device_info,
};

static const dpt_memory_ops memory_ops = {
    .alloc = memory_alloc,
    .free = memory_free,
#ifndef FAULT_STAGED
    .wrap_host = memory_wrap_host,
    .host_pointer = memory_host_pointer,
#endif
    .host_alloc = memory_host_alloc,
    .host_free = memory_host_free,
    .upload = memory_upload,
    .download = memory_download,
    .copy = memory_copy,
    .fill = memory_fill,
};

static const dpt_stream_ops stream_ops = {
    .create = stream_create,
    .destroy = stream_destroy,
    .sync = stream_sync,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
};

static const dpt_operator_ops operator_ops = {
    .prepare = operator_prepare,
    .release = operator_release,
    .run = operator_run,
};

static const dpt_backend backend = {
    .abi = DPT_BACKEND_ABI,
    .name = FAULT_NAME,
    .description = "wraps another backend and plants failures, for tests",
    .params = params,
    .device = &device_ops,
    .memory = &memory_ops,
    .stream = &stream_ops,
    .operators = &operator_ops,
#ifndef FAULT_STAGED
    .capture = &fault_capture_ops,
#endif
    .collective = &fault_collective_ops,
};

DPT_API const dpt_backend *dpt_backend_entry(uint32_t abi);

const dpt_backend *dpt_backend_entry(uint32_t abi)
{
    fault_hang_if_told(FAULT_NAME, "load");
    return abi == DPT_BACKEND_ABI ? &backend : NULL;
}
