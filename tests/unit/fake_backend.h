/* A minimal backend for the unit tests of core: two devices that use the host's memory, finish
   their work before the call returns, and know only elementwise operators.  Tests observe and
   break it through fake_control, which they share with the driver threads: atomics. */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

#include "backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fake_control_block {
    atomic_int n_open, n_buffers, n_streams, n_ops; /* that are there now */
    atomic_int n_runs;                              /* ever */
    atomic_int fail_run; /* the run that is to fail, counted down from there; 0: none */
    atomic_int lose;     /* that failure loses the device */
    atomic_int fail_open, fail_info, fail_stream; /* the device's index + 1 */
    atomic_int sleep_us;                          /* per run */
    atomic_int foreign_calls;                     /* calls from another thread than the opener's */
    atomic_size_t n_requests, self;               /* of the last open */
} fake_control_block;

static fake_control_block fake_control;

enum { FAKE_DEVICES = 2, FAKE_MEMORY_BYTES = 1 << 20, FAKE_ALIGNMENT_BYTES = 16 };

typedef struct fake_device {
    size_t index;
    pthread_t thread; /* that opened it */
} fake_device;

struct dpt_buffer {
    unsigned char *bytes;
    bool owned;
};

struct dpt_stream {
    dpt_device *device;
};

struct dpt_op {
    dpt_op_desc desc;
};

/* ---- Host memory, so that what core abandons on a lost device can still be freed ------------- */

typedef struct fake_block {
    struct fake_block *next, *previous;
    max_align_t bytes[]; /* what the caller gets */
} fake_block;

static pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;
static fake_block *fake_blocks; /* guarded by fake_mutex */

static inline void *fake_new(size_t n_bytes)
{
    fake_block *block = calloc(1, sizeof *block + n_bytes);
    if (!block) return NULL;
    pthread_mutex_lock(&fake_mutex);
    block->next = fake_blocks;
    if (fake_blocks) fake_blocks->previous = block;
    fake_blocks = block;
    pthread_mutex_unlock(&fake_mutex);
    return block->bytes;
}

static inline void fake_delete(void *bytes)
{
    if (!bytes) return;
    fake_block *block = (fake_block *)(void *)((unsigned char *)bytes - sizeof(fake_block));
    pthread_mutex_lock(&fake_mutex);
    if (block->next) block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        fake_blocks = block->next;
    pthread_mutex_unlock(&fake_mutex);
    free(block);
}

static inline void fake_delete_all(void)
{
    while (fake_blocks)
        fake_delete(fake_blocks->bytes);
}

static inline void fake_check_thread(const dpt_device *device)
{
    const fake_device *state = device->state;
    if (!pthread_equal(state->thread, pthread_self()))
        atomic_fetch_add(&fake_control.foreign_calls, 1);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static inline dpt_status fake_probe(size_t *n_devices, dpt_error *error)
{
    (void)error;
    *n_devices = FAKE_DEVICES;
    return DPT_OK;
}

static inline dpt_status fake_describe(size_t index, dpt_device_properties *info, dpt_error *error)
{
    (void)error;
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "Fake %zu", index);
    info->memory_bytes = FAKE_MEMORY_BYTES;
    info->alignment_bytes = FAKE_ALIGNMENT_BYTES;
    info->n_threads = 1;
    return DPT_OK;
}

static inline dpt_status fake_open(dpt_device *device, const dpt_open_args *args)
{
    const dpt_device_request *request = &args->requests[args->self];
    atomic_store(&fake_control.n_requests, args->n_requests);
    atomic_store(&fake_control.self, args->self);
    for (size_t i = 0; i < request->n_params; i++)
        if (strcmp(request->params[i].text, "0") == 0)
            return DPT_FAIL(&device->error, DPT_E_INVALID, "%s=0: from 1 to 64",
                            request->params[i].key);
    fake_device *state = fake_new(sizeof *state);
    if (!state) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory");
    state->index = request->index;
    state->thread = pthread_self();
    device->state = state;
    atomic_fetch_add(&fake_control.n_open, 1);
    if (atomic_load(&fake_control.fail_open) == (int)request->index + 1) return DPT_E_DEVICE;
    return DPT_OK;
}

static inline void fake_close(dpt_device *device)
{
    if (!device->state) return;
    fake_check_thread(device);
    fake_delete(device->state);
    device->state = NULL;
    atomic_fetch_sub(&fake_control.n_open, 1);
}

static inline dpt_status fake_info(dpt_device *device, dpt_device_properties *info)
{
    const fake_device *state = device->state;
    fake_check_thread(device);
    if (atomic_load(&fake_control.fail_info) == (int)state->index + 1)
        return DPT_FAIL(&device->error, DPT_E_DEVICE, "info is broken");
    return fake_describe(state->index, info, &device->error);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static inline dpt_status fake_new_buffer(dpt_device *device, unsigned char *bytes, bool owned,
                                         dpt_buffer **out)
{
    fake_check_thread(device);
    dpt_buffer *buffer = fake_new(sizeof *buffer);
    if (!buffer || !bytes) {
        fake_delete(buffer);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory");
    }
    *buffer = (dpt_buffer){.bytes = bytes, .owned = owned};
    atomic_fetch_add(&fake_control.n_buffers, 1);
    *out = buffer;
    return DPT_OK;
}

static inline dpt_status fake_alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    unsigned char *bytes = fake_new(n_bytes);
    if (bytes) memset(bytes, 0xA5, n_bytes);
    return fake_new_buffer(device, bytes, true, out);
}

static inline dpt_status fake_wrap(dpt_device *device, const void *host, size_t n_bytes,
                                   dpt_buffer **out)
{
    (void)n_bytes;
    return fake_new_buffer(device, (unsigned char *)(uintptr_t)host, false, out);
}

static inline void fake_free(dpt_device *device, dpt_buffer *buffer)
{
    if (!buffer) return;
    fake_check_thread(device);
    if (buffer->owned) fake_delete(buffer->bytes);
    fake_delete(buffer);
    atomic_fetch_sub(&fake_control.n_buffers, 1);
}

static inline void *fake_host_pointer(dpt_device *device, dpt_buffer *buffer)
{
    fake_check_thread(device);
    return buffer->bytes;
}

static inline dpt_status fake_upload(dpt_stream *stream, dpt_location to, const void *host,
                                     size_t n_bytes)
{
    fake_check_thread(stream->device);
    memcpy(to.buffer->bytes + to.offset_bytes, host, n_bytes);
    return DPT_OK;
}

static inline dpt_status fake_download(dpt_stream *stream, void *host, dpt_location from,
                                       size_t n_bytes)
{
    fake_check_thread(stream->device);
    memcpy(host, from.buffer->bytes + from.offset_bytes, n_bytes);
    return DPT_OK;
}

static inline dpt_status fake_copy(dpt_stream *stream, dpt_location to, dpt_location from,
                                   size_t n_bytes)
{
    fake_check_thread(stream->device);
    memcpy(to.buffer->bytes + to.offset_bytes, from.buffer->bytes + from.offset_bytes, n_bytes);
    return DPT_OK;
}

static inline dpt_status fake_fill(dpt_stream *stream, dpt_location to, uint32_t pattern,
                                   size_t n_bytes)
{
    fake_check_thread(stream->device);
    for (size_t i = 0; i < n_bytes; i += sizeof pattern)
        memcpy(to.buffer->bytes + to.offset_bytes + i, &pattern, sizeof pattern);
    return DPT_OK;
}

/* ---- Streams --------------------------------------------------------------------------------- */

static inline dpt_status fake_stream_create(dpt_device *device, dpt_stream **out)
{
    const fake_device *state = device->state;
    if (atomic_load(&fake_control.fail_stream) == (int)state->index + 1)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no stream left");
    dpt_stream *stream = fake_new(sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory");
    stream->device = device;
    atomic_fetch_add(&fake_control.n_streams, 1);
    *out = stream;
    return DPT_OK;
}

static inline void fake_stream_destroy(dpt_stream *stream)
{
    if (!stream) return;
    fake_check_thread(stream->device);
    fake_delete(stream);
    atomic_fetch_sub(&fake_control.n_streams, 1);
}

static inline dpt_status fake_sync(dpt_stream *stream)
{
    fake_check_thread(stream->device);
    return DPT_OK;
}

/* Events are of no use to what is tested here. */
static inline dpt_status fake_event_create(dpt_device *device, dpt_event **out)
{
    (void)out;
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "no events");
}

static inline void fake_event_destroy(dpt_event *event)
{
    (void)event;
}

static inline dpt_status fake_event_record(dpt_event *event, dpt_stream *stream)
{
    (void)event;
    return DPT_FAIL(&stream->device->error, DPT_E_UNSUPPORTED, "no events");
}

static inline dpt_status fake_event_wait(dpt_stream *stream, dpt_event *event)
{
    (void)event;
    return DPT_FAIL(&stream->device->error, DPT_E_UNSUPPORTED, "no events");
}

static inline dpt_status fake_event_query(dpt_event *event, bool *done)
{
    (void)event;
    (void)done;
    return DPT_E_UNSUPPORTED;
}

static inline dpt_status fake_event_sync(dpt_event *event)
{
    (void)event;
    return DPT_E_UNSUPPORTED;
}

static inline dpt_status fake_event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    (void)start;
    (void)end;
    (void)seconds;
    return DPT_E_UNSUPPORTED;
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* AFFINE has two ways, "one" and "two", and takes the first unless told otherwise; ADD has "one"
   and disregards what is wanted; MULTIPLY does not say. */
static inline const char *fake_algorithm(const dpt_op_request *request)
{
    if (request->desc->kind == DPT_OP_MULTIPLY) return NULL;
    if (request->desc->kind == DPT_OP_ADD || !request->wanted) return "one";
    if (strcmp(request->wanted, "one") == 0) return "one";
    return strcmp(request->wanted, "two") == 0 ? "two" : NULL;
}

static inline dpt_status fake_prepare(dpt_device *device, const dpt_op_request *request,
                                      dpt_op **out, dpt_op_info *info)
{
    const dpt_op_desc *desc = request->desc;
    fake_check_thread(device);
    if (desc->kind != DPT_OP_MULTIPLY && desc->kind != DPT_OP_ADD && desc->kind != DPT_OP_AFFINE)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "elementwise operators only");
    info->algorithm = fake_algorithm(request);
    if (request->wanted && !info->algorithm)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "no '%s' here", request->wanted);
    dpt_op *op = fake_new(sizeof *op);
    if (!op) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory");
    op->desc = *desc;
    info->workspace_bytes = desc->kind == DPT_OP_AFFINE ? 64 : 0;
    info->exact = true;
    atomic_fetch_add(&fake_control.n_ops, 1);
    *out = op;
    return DPT_OK;
}

static inline void fake_release(dpt_device *device, dpt_op *op)
{
    fake_check_thread(device);
    if (!op) return;
    fake_delete(op);
    atomic_fetch_sub(&fake_control.n_ops, 1);
}

static inline float fake_value(const dpt_op_desc *desc, float a, float b)
{
    if (desc->kind == DPT_OP_MULTIPLY) return a * b;
    if (desc->kind == DPT_OP_ADD)
        return desc->u.elementwise.alpha * a + desc->u.elementwise.beta * b;
    return desc->u.elementwise.alpha * a + desc->u.elementwise.beta;
}

static inline const float *fake_floats(dpt_location location)
{
    return location.buffer ? (const float *)(void *)(location.buffer->bytes + location.offset_bytes)
                           : NULL;
}

static inline dpt_status fake_run(dpt_stream *stream, dpt_op *op, size_t n_samples,
                                  const dpt_op_args *args)
{
    fake_check_thread(stream->device);
    atomic_fetch_add(&fake_control.n_runs, 1);
    if (atomic_load(&fake_control.fail_run) > 0 &&
        atomic_fetch_sub(&fake_control.fail_run, 1) == 1) {
        const dpt_status status =
            atomic_load(&fake_control.lose) ? DPT_E_DEVICE_LOST : DPT_E_DEVICE;
        return DPT_FAIL(&stream->device->error, status, "planted failure");
    }
    const int us = atomic_load(&fake_control.sleep_us);
    if (us > 0) usleep((useconds_t)us);
    const float *a = fake_floats(args->in[0]), *b = fake_floats(args->in[1]);
    float *c = (float *)(uintptr_t)fake_floats(args->out[0]);
    for (size_t i = 0; i < n_samples * op->desc.u.elementwise.count; i++)
        c[i] = fake_value(&op->desc, a[i], b ? b[i] : 0.0f);
    return DPT_OK;
}

/* ---- The descriptor -------------------------------------------------------------------------- */

static const dpt_param_spec fake_params[] = {
    {.key = "threads", .help = "1 to 64"},
    {.key = "speed", .help = "any"},
    {.key = NULL},
};

static const dpt_device_ops fake_device_ops = {
    .probe = fake_probe,
    .describe = fake_describe,
    .open = fake_open,
    .close = fake_close,
    .info = fake_info,
};

static const dpt_memory_ops fake_memory_ops = {
    .alloc = fake_alloc,
    .free = fake_free,
    .wrap_host = fake_wrap,
    .host_pointer = fake_host_pointer,
    .upload = fake_upload,
    .download = fake_download,
    .copy = fake_copy,
    .fill = fake_fill,
};

static const dpt_stream_ops fake_stream_ops = {
    .create = fake_stream_create,
    .destroy = fake_stream_destroy,
    .sync = fake_sync,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_wait = fake_event_wait,
    .event_query = fake_event_query,
    .event_sync = fake_event_sync,
    .event_elapsed = fake_event_elapsed,
};

static const dpt_operator_ops fake_operator_ops = {
    .prepare = fake_prepare,
    .release = fake_release,
    .run = fake_run,
};

static const dpt_backend fake_backend = {
    .abi = DPT_BACKEND_ABI,
    .name = "fake",
    .description = "for tests",
    .params = fake_params,
    .device = &fake_device_ops,
    .memory = &fake_memory_ops,
    .stream = &fake_stream_ops,
    .operators = &fake_operator_ops,
};

#endif
