/* Buffers, pinned host memory and transfers. */
#include "memory.h"
#include "tables.h"

#include <stdlib.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

static dpt_status check_size(dpt_device *device, size_t n_bytes)
{
    const dpt_cl_found *found = dpt_cl_device_of(device)->found;
    if (n_bytes > found->max_alloc_bytes)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY,
                        "a buffer of %zu bytes is more than this driver gives at once, %zu of %zu "
                        "bytes: take a smaller batch or --micro-batch",
                        n_bytes, found->max_alloc_bytes, found->memory_bytes);
    return DPT_OK;
}

/* Writes to a new buffer.  Drivers allocate memory at its first use, and a lack of memory should be
   reported here instead of during a step. */
static cl_int touch(const dpt_cl_device *cl, cl_mem memory, size_t n_bytes)
{
    const cl_uchar zero = 0;
    const size_t last = n_bytes - 1;
    cl_int code = clEnqueueWriteBuffer(cl->queue, memory, CL_TRUE, last, 1, &zero, 0, NULL, NULL);
    if (code == CL_SUCCESS) code = clFinish(cl->queue);
    return code;
}

static dpt_status no_memory(dpt_device *device, size_t n_bytes, cl_int code)
{
    if (dpt_cl_status(code) != DPT_E_NO_MEMORY)
        return DPT_CL_FAIL(&device->error, code, "clCreateBuffer");
    return DPT_FAIL_NATIVE(&device->error, DPT_E_NO_MEMORY, code,
                           "no memory for a buffer of %zu bytes of the device's %zu: %s; take a "
                           "smaller batch or --micro-batch",
                           n_bytes, dpt_cl_device_of(device)->found->memory_bytes,
                           dpt_cl_words(code));
}

static dpt_status alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    DPT_TRY(check_size(device, n_bytes));
    dpt_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no host memory for a buffer");
    cl_int code;
    const cl_mem memory = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code);
    if (memory) code = touch(cl, memory, n_bytes);
    if (code != CL_SUCCESS) {
        if (memory) (void)clReleaseMemObject(memory);
        free(buffer);
        return no_memory(device, n_bytes, code);
    }
    *buffer = (dpt_buffer){.memory = memory, .n_bytes = n_bytes};
    *out = buffer;
    return DPT_OK;
}

static void free_buffer(dpt_device *device, dpt_buffer *buffer)
{
    (void)device;
    if (!buffer) return;
    (void)clReleaseMemObject(buffer->memory);
    free(buffer);
}

/* ---- Pinned host memory ---------------------------------------------------------------------- */

/* A buffer that stays mapped.  Drivers transfer such memory at full speed. */
struct dpt_cl_pinned {
    void *host;
    cl_mem memory;
    dpt_cl_pinned *next;
};

static void unpin(const dpt_cl_device *cl, dpt_cl_pinned *pinned)
{
    if (clEnqueueUnmapMemObject(cl->queue, pinned->memory, pinned->host, 0, NULL, NULL) ==
        CL_SUCCESS)
        (void)clFinish(cl->queue);
    (void)clReleaseMemObject(pinned->memory);
    free(pinned);
}

static dpt_status host_alloc(dpt_device *device, size_t n_bytes, void **out)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    DPT_TRY(check_size(device, n_bytes));
    dpt_cl_pinned *pinned = malloc(sizeof *pinned);
    if (!pinned) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no host memory for transfers");
    cl_int code;
    void *host = NULL;
    const cl_mem memory = clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                         n_bytes, NULL, &code);
    if (memory)
        host = clEnqueueMapBuffer(cl->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                  n_bytes, 0, NULL, NULL, &code);
    if (!host) {
        if (memory) (void)clReleaseMemObject(memory);
        free(pinned);
        return no_memory(device, n_bytes, code);
    }
    *pinned = (dpt_cl_pinned){host, memory, cl->pinned};
    cl->pinned = pinned;
    *out = host;
    return DPT_OK;
}

static void host_free(dpt_device *device, void *host)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    dpt_cl_pinned **link = &cl->pinned;
    while (*link && (*link)->host != host)
        link = &(*link)->next;
    dpt_cl_pinned *pinned = *link;
    if (!pinned) return;
    *link = pinned->next;
    unpin(cl, pinned);
}

void dpt_cl_pinned_destroy(dpt_device *device)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    while (cl->pinned) {
        dpt_cl_pinned *pinned = cl->pinned;
        cl->pinned = pinned->next;
        unpin(cl, pinned);
    }
}

/* ---- Transfers ------------------------------------------------------------------------------- */

static dpt_status upload(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    DPT_CL_TRY(stream->device, clEnqueueWriteBuffer(stream->queue, to.buffer->memory, CL_FALSE,
                                                    to.offset_bytes, n_bytes, host, 0, NULL, NULL));
    return DPT_OK;
}

static dpt_status download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    DPT_CL_TRY(stream->device,
               clEnqueueReadBuffer(stream->queue, from.buffer->memory, CL_FALSE, from.offset_bytes,
                                   n_bytes, host, 0, NULL, NULL));
    return DPT_OK;
}

static dpt_status copy(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    DPT_CL_TRY(stream->device,
               clEnqueueCopyBuffer(stream->queue, from.buffer->memory, to.buffer->memory,
                                   from.offset_bytes, to.offset_bytes, n_bytes, 0, NULL, NULL));
    return DPT_OK;
}

static dpt_status fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    DPT_CL_TRY(stream->device,
               clEnqueueFillBuffer(stream->queue, to.buffer->memory, &pattern, sizeof pattern,
                                   to.offset_bytes, n_bytes, 0, NULL, NULL));
    return DPT_OK;
}

const dpt_memory_ops dpt_cl_memory_ops = {
    .alloc = alloc,
    .free = free_buffer,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
};
