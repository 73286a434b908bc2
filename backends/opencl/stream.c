/* Streams, which are in-order queues, and events, which are markers in a queue with the device's
   clock. */
#include "memory.h"
#include "tables.h"

#include <stdlib.h>

struct dpt_event {
    dpt_device *device;
    cl_event event; /* NULL: not recorded */
};

/* ---- Streams --------------------------------------------------------------------------------- */

dpt_status dpt_cl_queue_create(dpt_device *device, cl_command_queue *out)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    cl_int code;
    const cl_command_queue queue =
        clCreateCommandQueue(cl->context, cl->found->id, CL_QUEUE_PROFILING_ENABLE, &code);
    if (!queue) return DPT_CL_FAIL(&device->error, code, "clCreateCommandQueue");
    *out = queue;
    return DPT_OK;
}

static dpt_status create(dpt_device *device, dpt_stream **out)
{
    dpt_stream *stream = malloc(sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stream");
    *stream = (dpt_stream){.device = device};
    const dpt_status status = dpt_cl_queue_create(device, &stream->queue);
    if (status != DPT_OK) {
        free(stream);
        return status;
    }
    dpt_cl_device *cl = dpt_cl_device_of(device);
    stream->next = cl->streams;
    cl->streams = stream;
    *out = stream;
    return DPT_OK;
}

static void destroy(dpt_stream *stream)
{
    if (!stream) return;
    dpt_stream **link = &dpt_cl_device_of(stream->device)->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    (void)clReleaseCommandQueue(stream->queue);
    free(stream);
}

void dpt_cl_streams_destroy(dpt_device *device)
{
    while (dpt_cl_device_of(device)->streams)
        destroy(dpt_cl_device_of(device)->streams);
}

/* Records a deferred failure: work that was accepted before has failed.  The caller no longer knows
   which work was done, so a lack of memory means that the device is lost. */
static dpt_status deferred(dpt_device *device, cl_int code, const char *what)
{
    const dpt_status status = DPT_CL_FAIL(&device->error, code, what);
    if (status != DPT_E_DEVICE_LOST && status != DPT_E_NO_MEMORY) return status;
    device->error.status = DPT_E_DEVICE_LOST;
    return DPT_E_DEVICE_LOST;
}

static dpt_status sync(dpt_stream *stream)
{
    const cl_int code = clFinish(stream->queue);
    return code == CL_SUCCESS ? DPT_OK : deferred(stream->device, code, "clFinish");
}

/* ---- Events ---------------------------------------------------------------------------------- */

static dpt_status event_create(dpt_device *device, dpt_event **out)
{
    dpt_event *event = malloc(sizeof *event);
    if (!event) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an event");
    *event = (dpt_event){.device = device};
    *out = event;
    return DPT_OK;
}

static void forget(dpt_event *event)
{
    if (event->event) (void)clReleaseEvent(event->event);
    event->event = NULL;
}

static void event_destroy(dpt_event *event)
{
    if (!event) return;
    forget(event);
    free(event);
}

static dpt_status event_record(dpt_event *event, dpt_stream *stream)
{
    forget(event);
    DPT_CL_TRY(stream->device, clEnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event->event));
    /* Flush, so that a later query does not wait for work that the device never got. */
    DPT_CL_TRY(stream->device, clFlush(stream->queue));
    return DPT_OK;
}

/* Within a context the queue waits.  Across contexts the calling thread waits. */
static dpt_status event_wait(dpt_stream *stream, dpt_event *event)
{
    if (!event->event)
        return DPT_FAIL(&stream->device->error, DPT_E_STATE, "an event that was never recorded");
    const dpt_cl_device *here = dpt_cl_device_of(stream->device);
    const dpt_cl_device *there = dpt_cl_device_of(event->device);
    if (here->context == there->context) {
        DPT_CL_TRY(stream->device,
                   clEnqueueBarrierWithWaitList(stream->queue, 1, &event->event, NULL));
        return DPT_OK;
    }
    const cl_int code = clWaitForEvents(1, &event->event);
    return code == CL_SUCCESS ? DPT_OK : deferred(stream->device, code, "clWaitForEvents");
}

static dpt_status event_query(dpt_event *event, bool *done)
{
    cl_int state = CL_COMPLETE;
    if (event->event)
        DPT_CL_TRY(event->device, clGetEventInfo(event->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                 sizeof state, &state, NULL));
    if (state < 0) return deferred(event->device, state, "work before an event");
    *done = state == CL_COMPLETE;
    return DPT_OK;
}

static dpt_status event_sync(dpt_event *event)
{
    const cl_int code = event->event ? clWaitForEvents(1, &event->event) : CL_SUCCESS;
    return code == CL_SUCCESS ? DPT_OK : deferred(event->device, code, "clWaitForEvents");
}

static dpt_status event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    cl_ulong from = 0, to = 0;
    if (!start->event || !end->event)
        return DPT_FAIL(&end->device->error, DPT_E_STATE, "an event that was never recorded");
    DPT_CL_TRY(start->device, clGetEventProfilingInfo(start->event, CL_PROFILING_COMMAND_END,
                                                      sizeof from, &from, NULL));
    DPT_CL_TRY(end->device,
               clGetEventProfilingInfo(end->event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL));
    *seconds = to > from ? 1e-9 * (double)(to - from) : 0.0;
    return DPT_OK;
}

const dpt_stream_ops dpt_cl_stream_ops = {
    .create = create,
    .destroy = destroy,
    .sync = sync,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
};
