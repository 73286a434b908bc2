/* Recordings.  A recording is a list of works that is replayed as one job of the team.  A step then
   costs one start and one end of the team, and a barrier between two operators. */
#include "state.h"
#include "stream.h"
#include "tables.h"

#include <stdlib.h>

static dpt_status begin(dpt_stream *stream)
{
    if (stream->recording)
        return DPT_FAIL(&stream->device->error, DPT_E_STATE, "this stream is recording already");
    stream->recording = calloc(1, sizeof *stream->recording);
    if (!stream->recording)
        return DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY, "no memory for a recording");
    return DPT_OK;
}

static void release(dpt_device *device, dpt_recording *recording)
{
    (void)device;
    if (!recording) return;
    free(recording->works);
    free(recording);
}

static dpt_status end(dpt_stream *stream, dpt_recording **out)
{
    dpt_recording *recording = stream->recording;
    if (!recording)
        return DPT_FAIL(&stream->device->error, DPT_E_STATE, "this stream is not recording");
    stream->recording = NULL;
    if (recording->status != DPT_OK) { /* the device's error has held the reason since then */
        const dpt_status status = recording->status;
        release(stream->device, recording);
        return status;
    }
    *out = recording;
    return DPT_OK;
}

static dpt_status replay(dpt_stream *stream, dpt_recording *recording)
{
    dpt_cpu_team_do(dpt_cpu_device_of(stream->device)->team, recording->works, recording->n_works);
    return DPT_OK;
}

const dpt_capture_ops dpt_cpu_capture_ops = {
    .begin = begin,
    .end = end,
    .replay = replay,
    .release = release,
};
