/* Waiting for the main stream, its events and its recordings, by checked calls. */
#include "device/stream.h"
#include "device/dispatch.h"

static const dpt_stream_ops *stream_of(const dpti_device *device)
{
    return device->base.backend->stream;
}

static const dpt_capture_ops *capture_of(const dpti_device *device)
{
    return device->base.backend->capture;
}

dpt_status dpti_sync(dpti_device *device)
{
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, device->base.backend->stream->sync(device->stream), "stream.sync"));
    device->unsynced = false;
    return DPT_OK;
}

/* A call writes its result into memory of the thread's own first, because a call that was abandoned
   may write when the caller's memory does not exist any more. */
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
