/* Recordings: a stream captures work as a CUDA graph, which is launched as one. */
#include "graph_fills.h"
#include "state.h"
#include "tables.h"

#include <stdlib.h>

struct dpt_recording {
    cudaGraphExec_t graph;
};

/* The mode is relaxed.  While the stream is captured, libraries and the threads of other devices
   may make calls that do not concern the stream, as loading a kernel. */
static dpt_status begin(dpt_stream *stream)
{
    dpt_device *device = stream->device;
    if (!dpt_cuda_device_of(device)->has_graphs)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "graphs=off: nothing is recorded");
    DPT_CUDA_TRY(device, cudaStreamBeginCapture(stream->queue, cudaStreamCaptureModeRelaxed));
    return DPT_OK;
}

/* Uploads the graph to the device now.  Otherwise the first launch would do it, and its time would
   count as the device's work. */
static void upload(dpt_stream *stream, cudaGraphExec_t graph)
{
    if (cudaGraphUpload(graph, stream->queue) != cudaSuccess) (void)cudaGetLastError();
}

/* Makes the graph.  A graph without nodes is valid.  A lack of memory becomes DPT_E_UNSUPPORTED,
   because the same work can be done without a recording. */
static dpt_status end(dpt_stream *stream, dpt_recording **out)
{
    dpt_device *device = stream->device;
    cudaGraph_t captured = NULL;
    DPT_CUDA_TRY(device, cudaStreamEndCapture(stream->queue, &captured));

    const char *what = "cudaGraphDestroyNode";
    dpt_recording *recording = malloc(sizeof *recording);
    cudaError_t code = recording ? dpt_cuda_graph_replace_fills(device, captured) : cudaSuccess;
    if (recording && code == cudaSuccess) {
        what = "cudaGraphInstantiate";
        code = cudaGraphInstantiate(&recording->graph, captured, 0);
    }
    if (cudaGraphDestroy(captured) != cudaSuccess) (void)cudaGetLastError();
    if (!recording) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a recording");
    if (code == cudaSuccess) {
        upload(stream, recording->graph);
        *out = recording;
        return DPT_OK;
    }
    free(recording);
    const dpt_status status = DPT_CUDA_FAIL(&device->error, code, what);
    if (status != DPT_E_DEVICE && status != DPT_E_NO_MEMORY) return status;
    device->error.status = DPT_E_UNSUPPORTED;
    return DPT_E_UNSUPPORTED;
}

static dpt_status replay(dpt_stream *stream, dpt_recording *recording)
{
    DPT_CUDA_TRY(stream->device, cudaGraphLaunch(recording->graph, stream->queue));
    return DPT_OK;
}

static void release(dpt_device *device, dpt_recording *recording)
{
    (void)device;
    if (!recording) return;
    if (cudaGraphExecDestroy(recording->graph) != cudaSuccess) (void)cudaGetLastError();
    free(recording);
}

const dpt_capture_ops dpt_cuda_capture_ops = {
    .begin = begin,
    .end = end,
    .replay = replay,
    .release = release,
};
