/* Records by storing the calls, so that planted bugs also act in replays, whether or not the
   wrapped backend can record. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

struct dpt_recording {
    dpt_device *device;
    size_t n, capacity;
    fault_call *calls;
};

static void recording_free(dpt_recording *recording)
{
    if (!recording) return;
    free(recording->calls);
    free(recording);
}

static bool refuses(dpt_device *device, const char *what)
{
    return strcmp(fault_of(device)->refuses, what) == 0;
}

static dpt_status refuse(dpt_device *device)
{
    fault_report("refused\n");
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "no recording (planted)");
}

bool fault_record(dpt_stream *stream, const fault_call *call, dpt_status *status)
{
    dpt_recording *recording = stream->recording;
    if (!recording) return false;
    *status = DPT_OK;
    if (refuses(stream->device, "run")) {
        *status = DPT_FAIL(&stream->device->error, DPT_E_DEVICE, "not to be recorded (planted)");
        return true;
    }
    if (recording->n == recording->capacity) {
        const size_t capacity = 2 * recording->capacity + 16;
        fault_call *calls = realloc(recording->calls, capacity * sizeof *calls);
        if (!calls) {
            *status = DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY, "no memory to record");
            return true;
        }
        recording->calls = calls;
        recording->capacity = capacity;
    }
    recording->calls[recording->n++] = *call;
    return true;
}

static dpt_status capture_begin(dpt_stream *stream)
{
    DPT_TRY(fault_enter(stream->device, "begin"));
    if (refuses(stream->device, "begin")) return refuse(stream->device);
    stream->recording = calloc(1, sizeof *stream->recording);
    if (!stream->recording) {
        return DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY, "no memory to record");
    }
    stream->recording->device = stream->device;
    return DPT_OK;
}

static dpt_status capture_end(dpt_stream *stream, dpt_recording **out)
{
    dpt_recording *recording = stream->recording;
    dpt_status status = fault_enter(stream->device, "end");
    stream->recording = NULL;
    if (status == DPT_OK && (refuses(stream->device, "end") || refuses(stream->device, "run"))) {
        recording_free(recording);
        return refuse(stream->device);
    }
    if (status == DPT_OK && !fault_track(stream->device, FAULT_RECORDING, recording)) {
        status = DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY, "no memory to record");
    }
    if (status != DPT_OK) {
        recording_free(recording);
        return status;
    }
    *out = recording;
    return DPT_OK;
}

static dpt_status replay_call(dpt_stream *stream, const fault_call *call)
{
    const dpt_memory_ops *memory = fault_of(stream->device)->inner.backend->memory;
    if (call->op) return fault_run(stream, call->op, call->n_samples, &call->args);
    return fault_forwarded(
        stream->device, call->from.buffer
                            ? memory->copy(stream->inner, call->to, call->from, call->n_bytes)
                            : memory->fill(stream->inner, call->to, call->pattern, call->n_bytes));
}

static dpt_status capture_replay(dpt_stream *stream, dpt_recording *recording)
{
    DPT_TRY(fault_enter(stream->device, "replay"));
    for (size_t i = 0; i < recording->n; i++)
        DPT_TRY(replay_call(stream, &recording->calls[i]));
    return DPT_OK;
}

static void capture_release(dpt_device *device, dpt_recording *recording)
{
    if (!recording) return;
    fault_let_go(device, "recording_free");
    fault_forget(device, recording);
    recording_free(recording);
}

const dpt_capture_ops fault_capture_ops = {
    .begin = capture_begin,
    .end = capture_end,
    .replay = capture_replay,
    .release = capture_release,
};
