/* Streams, which do not wait for each other, and events, which use the device's clock. */
#include "stream.h"
#include "tables.h"

#include <stdlib.h>
#include <time.h>

struct dpt_event {
    dpt_device *device;
    cudaEvent_t event;
    bool recorded;
};

/* ---- Streams --------------------------------------------------------------------------------- */

static dpt_status create(dpt_device *device, dpt_stream **out)
{
    dpt_stream *stream = malloc(sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stream");
    *stream = (dpt_stream){.device = device};
    cudaError_t code = dpt_cuda_choose(device);
    if (code == cudaSuccess)
        code = cudaStreamCreateWithFlags(&stream->queue, cudaStreamNonBlocking);
    if (code != cudaSuccess) {
        free(stream);
        return DPT_CUDA_FAIL(&device->error, code, "cudaStreamCreateWithFlags");
    }
    *out = stream;
    return DPT_OK;
}

static void destroy(dpt_stream *stream)
{
    if (!stream) return;
    if (cudaStreamDestroy(stream->queue) != cudaSuccess) (void)cudaGetLastError();
    free(stream);
}

/* Records a deferred failure: work that was accepted before has failed.  The caller no longer knows
   which work was done, so a lack of memory means that the device is lost. */
static dpt_status deferred(dpt_device *device, cudaError_t code, const char *what)
{
    const dpt_status status = DPT_CUDA_FAIL(&device->error, code, what);
    if (status != DPT_E_NO_MEMORY) return status;
    device->error.status = DPT_E_DEVICE_LOST;
    return DPT_E_DEVICE_LOST;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Asks about, or waits for, a stream or an event. */
typedef cudaError_t ask_fn(const void *what);

static cudaError_t query_stream(const void *what)
{
    return cudaStreamQuery(((const dpt_stream *)what)->queue);
}

static cudaError_t synchronize_stream(const void *what)
{
    return cudaStreamSynchronize(((const dpt_stream *)what)->queue);
}

static cudaError_t query_event(const void *what)
{
    return cudaEventQuery(((const dpt_event *)what)->event);
}

static cudaError_t synchronize_event(const void *what)
{
    return cudaEventSynchronize(((const dpt_event *)what)->event);
}

/* Asks for about the time that waking up costs, and then sleeps.  Waits after a failure, too,
   because work that still runs uses memory that the caller may free. */
static cudaError_t wait_for(ask_fn *query, ask_fn *synchronize, const void *what)
{
    static const double patience_seconds = 50e-6;
    const double start = now();
    cudaError_t code;
    do
        code = query(what);
    while (code == cudaErrorNotReady && now() - start < patience_seconds);
    if (code == cudaSuccess) return code;
    (void)cudaGetLastError();
    const cudaError_t waited = synchronize(what);
    return code == cudaErrorNotReady ? waited : code;
}

cudaError_t dpt_cuda_wait_code(const dpt_stream *stream)
{
    return wait_for(query_stream, synchronize_stream, stream);
}

dpt_status dpt_cuda_wait(dpt_stream *stream)
{
    const cudaError_t code = dpt_cuda_wait_code(stream);
    return code == cudaSuccess ? DPT_OK : deferred(stream->device, code, "cudaStreamSynchronize");
}

/* ---- Events ---------------------------------------------------------------------------------- */

static dpt_status event_create(dpt_device *device, dpt_event **out)
{
    dpt_event *event = malloc(sizeof *event);
    if (!event) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an event");
    *event = (dpt_event){.device = device};
    const cudaError_t code = cudaEventCreateWithFlags(&event->event, cudaEventBlockingSync);
    if (code != cudaSuccess) {
        free(event);
        return DPT_CUDA_FAIL(&device->error, code, "cudaEventCreateWithFlags");
    }
    *out = event;
    return DPT_OK;
}

static void event_destroy(dpt_event *event)
{
    if (!event) return;
    if (cudaEventDestroy(event->event) != cudaSuccess) (void)cudaGetLastError();
    free(event);
}

static dpt_status event_record(dpt_event *event, dpt_stream *stream)
{
    DPT_CUDA_TRY(stream->device, cudaEventRecord(event->event, stream->queue));
    event->recorded = true;
    return DPT_OK;
}

/* The event may be of another card.  The stream waits, and the host does not. */
static dpt_status event_wait(dpt_stream *stream, dpt_event *event)
{
    if (!event->recorded)
        return DPT_FAIL(&stream->device->error, DPT_E_STATE, "an event that was never recorded");
    DPT_CUDA_TRY(stream->device, cudaStreamWaitEvent(stream->queue, event->event, 0));
    return DPT_OK;
}

static dpt_status event_query(dpt_event *event, bool *done)
{
    const cudaError_t code = event->recorded ? cudaEventQuery(event->event) : cudaSuccess;
    if (code != cudaSuccess && code != cudaErrorNotReady)
        return deferred(event->device, code, "cudaEventQuery");
    if (code == cudaErrorNotReady) (void)cudaGetLastError();
    *done = code == cudaSuccess;
    return DPT_OK;
}

static dpt_status event_sync(dpt_event *event)
{
    if (!event->recorded) return DPT_OK;
    const cudaError_t code = wait_for(query_event, synchronize_event, event);
    return code == cudaSuccess ? DPT_OK : deferred(event->device, code, "cudaEventSynchronize");
}

static dpt_status event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    float milliseconds = 0.0f;
    if (!start->recorded || !end->recorded)
        return DPT_FAIL(&end->device->error, DPT_E_STATE, "an event that was never recorded");
    DPT_CUDA_TRY(end->device, cudaEventElapsedTime(&milliseconds, start->event, end->event));
    *seconds = milliseconds > 0.0f ? 1e-3 * (double)milliseconds : 0.0;
    return DPT_OK;
}

const dpt_stream_ops dpt_cuda_stream_ops = {
    .create = create,
    .destroy = destroy,
    .sync = dpt_cuda_wait,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
};
