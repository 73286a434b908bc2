/* A second stream of a device, by checked calls. */
#include "device/side_stream.h"
#include "device/device.h"

#include "device/dispatch.h"
#include "device/stream.h"

static const dpt_stream_ops *streams_of(const dpti_device *device)
{
    return device->base.backend->stream;
}

dpt_status dpti_side_stream_create(dpti_device *device, dpti_side_stream *out)
{
    *out = (dpti_side_stream){.device = NULL};
    DPT_TRY(dpti_begin_call(device));
    dpt_stream *stream = NULL;
    DPT_TRY(DPTI_CALL(device, streams_of(device)->create(&device->base, &stream), "stream.create"));
    *out = (dpti_side_stream){.device = device, .stream = stream};
    return DPT_OK;
}

void dpti_side_stream_destroy(dpti_side_stream *side)
{
    dpti_device *device = side->device;
    if (!device) return;
    for (size_t k = 0; k < DPTI_SIDE_STREAM_POINTS; k++)
        if (side->points[k]) dpti_event_destroy(device, &side->points[k]);
    dpt_stream *stream = side->stream;
    *side = (dpti_side_stream){.device = NULL};
    if (!device->lost) DPTI_RELEASE(device, streams_of(device)->destroy(stream));
}

static dpt_status begin(const dpti_side_stream *side, const dpti_slice *slice)
{
    DPT_TRY(dpti_begin_call(side->device));
    return dpti_slice_check(side->device, slice);
}

dpt_status dpti_side_stream_fill(dpti_side_stream *side, const dpti_slice *to, uint32_t pattern)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, to));
    if (to->n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->fill(side->stream, dpti_slice_location(to),
                                                        pattern, to->n_bytes),
                     "memory.fill");
}

dpt_status dpti_side_stream_download(dpti_side_stream *side, void *host, const dpti_slice *from)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, from));
    if (from->n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->download(
                         side->stream, host, dpti_slice_location(from), from->n_bytes),
                     "memory.download");
}

dpt_status dpti_side_stream_sync(dpti_side_stream *side)
{
    DPT_TRY(dpti_begin_call(side->device));
    return DPTI_CALL(side->device, streams_of(side->device)->sync(side->stream), "stream.sync");
}

dpt_status dpti_side_stream_mark(dpti_side_stream *side, size_t k)
{
    dpti_device *device = side->device;
    if (!side->points[k]) {
        dpt_event *event = NULL;
        DPT_TRY(dpti_event_create(device, &event));
        side->points[k] = event;
    }
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, streams_of(device)->event_record(side->points[k], side->stream),
                     "stream.event_record");
}

dpt_status dpti_side_stream_passed(dpti_side_stream *side, size_t k, bool *passed)
{
    dpti_device *device = side->device;
    bool done = false;
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, streams_of(device)->event_query(side->points[k], &done),
                      "stream.event_query"));
    *passed = done;
    return DPT_OK;
}
