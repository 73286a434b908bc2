/* Buffers, pinned host memory, and transfers. */
#include "fill.h"
#include "state.h"
#include "stream.h"
#include "tables.h"

#include <stdlib.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

static dpt_status no_memory(dpt_device *device, size_t n_bytes, cudaError_t code)
{
    size_t n_free = 0, n_all = 0;
    if (dpt_cuda_status(code) != DPT_E_NO_MEMORY)
        return DPT_CUDA_FAIL(&device->error, code, "cudaMallocFromPoolAsync");
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&n_free, &n_all) != cudaSuccess) (void)cudaGetLastError();
    return DPT_FAIL_NATIVE(&device->error, DPT_E_NO_MEMORY, (long)code,
                           "no memory for a buffer of %zu bytes: of the card's %zu, %zu are free; "
                           "take a smaller batch or --micro-batch",
                           n_bytes, n_all, n_free);
}

static void give_back(const dpt_cuda_device *cuda, void *memory)
{
    const cudaError_t code =
        cuda->pool ? cudaFreeAsync(memory, cuda->scratch.queue) : cudaFree(memory);
    if (code != cudaSuccess) (void)cudaGetLastError(); /* of a device that is lost */
}

/* Allocates memory that any stream may use after the return. */
static cudaError_t take(const dpt_cuda_device *cuda, size_t n_bytes, void **out)
{
    /* CUDA does not document the result for impossible sizes. */
    if (n_bytes > cuda->properties.totalGlobalMem) return cudaErrorMemoryAllocation;
    if (!cuda->pool) return cudaMalloc(out, n_bytes);
    const cudaStream_t queue = cuda->scratch.queue;
    cudaError_t code = cudaMallocFromPoolAsync(out, n_bytes, cuda->pool, queue);
    if (code == cudaErrorMemoryAllocation) {
        /* The pool may hold enough memory in pieces that are too small: return them to the driver.
         */
        (void)cudaGetLastError();
        code = cudaStreamSynchronize(queue);
        if (code == cudaSuccess) code = cudaMemPoolTrimTo(cuda->pool, 0);
        if (code == cudaSuccess) code = cudaMallocFromPoolAsync(out, n_bytes, cuda->pool, queue);
    }
    if (code != cudaSuccess) return code;
    code = dpt_cuda_wait_code(&cuda->scratch);
    if (code != cudaSuccess) give_back(cuda, *out);
    return code;
}

static dpt_status alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    dpt_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no host memory for a buffer");
    *buffer = (dpt_buffer){.n_bytes = n_bytes};
    cudaError_t code = dpt_cuda_choose(device);
    if (code == cudaSuccess) code = take(dpt_cuda_device_of(device), n_bytes, &buffer->memory);
    if (code != cudaSuccess) {
        free(buffer);
        return no_memory(device, n_bytes, code);
    }
    *out = buffer;
    return DPT_OK;
}

static void free_buffer(dpt_device *device, dpt_buffer *buffer)
{
    if (!buffer) return;
    give_back(dpt_cuda_device_of(device), buffer->memory);
    free(buffer);
}

/* ---- Pinned host memory ---------------------------------------------------------------------- */

/* The memory is portable, so that another card can read what this one has written. */
static dpt_status host_alloc(dpt_device *device, size_t n_bytes, void **out)
{
    cudaError_t code = dpt_cuda_choose(device);
    if (code == cudaSuccess) code = cudaHostAlloc(out, n_bytes, cudaHostAllocPortable);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return DPT_FAIL_NATIVE(&device->error, DPT_E_NO_MEMORY, (long)code,
                               "the host has no %zu bytes that can be pinned for transfers",
                               n_bytes);
    }
    return code == cudaSuccess ? DPT_OK : DPT_CUDA_FAIL(&device->error, code, "cudaHostAlloc");
}

static void host_free(dpt_device *device, void *host)
{
    (void)device;
    if (cudaFreeHost(host) != cudaSuccess) (void)cudaGetLastError();
}

/* ---- Transfers ------------------------------------------------------------------------------- */

/* A piece of memory that is copied. */
typedef struct piece {
    void *to;
    const void *from;
    size_t n_bytes;
} piece;

static dpt_status transfer(dpt_stream *stream, piece p, enum cudaMemcpyKind kind)
{
    if (p.n_bytes == 0) return DPT_OK;
    DPT_CUDA_TRY(stream->device, cudaMemcpyAsync(p.to, p.from, p.n_bytes, kind, stream->queue));
    return DPT_OK;
}

/* Whether a kernel can copy between host and device.  For a few kilobytes a kernel is faster than a
   copy engine, which takes long to begin and to end.  A card reaches pinned host memory only. */
static bool may_move(const void *host, const void *own, size_t n_bytes)
{
    enum { MOST_BYTES = 16 << 10 };
    struct cudaPointerAttributes is;
    if (n_bytes > MOST_BYTES ||
        (n_bytes | (uintptr_t)host | (uintptr_t)own) % sizeof(uint32_t) != 0)
        return false;
    if (cudaPointerGetAttributes(&is, host) == cudaSuccess)
        return is.type == cudaMemoryTypeHost && is.devicePointer == host;
    (void)cudaGetLastError();
    return false;
}

static dpt_status upload(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes)
{
    if (may_move(host, dpt_cuda_pointer(to), n_bytes))
        return dpt_cuda_move(stream, dpt_cuda_pointer(to), host, n_bytes / sizeof(uint32_t));
    return transfer(stream, (piece){dpt_cuda_pointer(to), host, n_bytes}, cudaMemcpyHostToDevice);
}

static dpt_status download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    if (may_move(host, dpt_cuda_pointer(from), n_bytes))
        return dpt_cuda_move(stream, host, dpt_cuda_pointer(from), n_bytes / sizeof(uint32_t));
    return transfer(stream, (piece){host, dpt_cuda_pointer(from), n_bytes}, cudaMemcpyDeviceToHost);
}

static dpt_status copy(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes)
{
    return transfer(stream, (piece){dpt_cuda_pointer(to), dpt_cuda_pointer(from), n_bytes},
                    cudaMemcpyDeviceToDevice);
}

/* The runtime fills with one byte.  Other patterns, and small fills, take a kernel. */
static dpt_status fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    const uint32_t byte = pattern & 0xff;
    if (n_bytes == 0) return DPT_OK;
    if (pattern != byte * 0x01010101u || n_bytes <= DPT_CUDA_SMALL_FILL_BYTES)
        return dpt_cuda_fill(stream, to, pattern, n_bytes);
    DPT_CUDA_TRY(stream->device,
                 cudaMemsetAsync(dpt_cuda_pointer(to), (int)byte, n_bytes, stream->queue));
    return DPT_OK;
}

const dpt_memory_ops dpt_cuda_memory_ops = {
    .alloc = alloc,
    .free = free_buffer,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
};
