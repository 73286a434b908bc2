/* Memory.  A buffer is host memory, and a transfer is a copy by the team. */
#include "state.h"
#include "stream.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BUFFER_ALIGNMENT_BYTES = 256,
    HUGE_PAGE_BYTES = 2 << 20,
    /* A copy of at least this size is divided among the threads. */
    DIVIDE_BYTES = 256 << 10,
};

static size_t free_bytes(void)
{
    const long pages = sysconf(_SC_AVPHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : 0;
}

static dpt_status no_memory(dpt_device *device, size_t n_bytes)
{
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY,
                    "no memory for a buffer of %zu bytes; %zu bytes are free", n_bytes,
                    free_bytes());
}

static dpt_status alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    const dpt_cpu_host *host = dpt_cpu_device_of(device)->host;
    /* The system may promise more memory than it has.  A buffer that can never fit is refused here.
     */
    if (n_bytes > SIZE_MAX / 2 || (host->memory_bytes > 0 && n_bytes > host->memory_bytes))
        return no_memory(device, n_bytes);
    /* A large buffer begins at a huge page, so that the system can map it in huge pages. */
    const bool large = n_bytes >= 2 * (size_t)HUGE_PAGE_BYTES;
    const size_t alignment = large ? HUGE_PAGE_BYTES : BUFFER_ALIGNMENT_BYTES;
    const size_t rounded =
        (n_bytes + BUFFER_ALIGNMENT_BYTES - 1) / BUFFER_ALIGNMENT_BYTES * BUFFER_ALIGNMENT_BYTES;
    dpt_buffer *buffer = malloc(sizeof *buffer);
    void *data = NULL;
    if (!buffer || posix_memalign(&data, alignment, rounded) != 0) {
        free(buffer);
        return no_memory(device, n_bytes);
    }
    /* This is advice only: the buffer works without huge pages, too. */
    if (large) (void)madvise(data, rounded / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    *buffer = (dpt_buffer){.data = data, .owned = true};
    *out = buffer;
    return DPT_OK;
}

static dpt_status wrap_host(dpt_device *device, const void *host, size_t n_bytes, dpt_buffer **out)
{
    dpt_buffer *buffer = malloc(sizeof *buffer);
    if (!buffer) return no_memory(device, n_bytes);
    /* The memory is read-only by contract; dpt_buffer has no read-only form. */
    *buffer = (dpt_buffer){.data = (unsigned char *)(uintptr_t)host, .owned = false};
    *out = buffer;
    return DPT_OK;
}

static void free_buffer(dpt_device *device, dpt_buffer *buffer)
{
    (void)device;
    if (!buffer) return;
    if (buffer->owned) free(buffer->data);
    free(buffer);
}

static void *host_pointer(dpt_device *device, dpt_buffer *buffer)
{
    (void)device;
    return buffer->data;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

void dpt_cpu_copy_kernel(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range part =
        dpt_cpu_split(call->n_samples, DPT_CPU_ALIGNMENT_BYTES, thread, n_threads);
    const unsigned char *from = call->in[0];
    unsigned char *to = call->out[0];
    if (part.end > part.begin) memcpy(to + part.begin, from + part.begin, part.end - part.begin);
}

void dpt_cpu_fill_kernel(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples / sizeof call->pattern,
                                             DPT_CPU_ALIGNMENT_BYTES, thread, n_threads);
    uint32_t *to = call->out[0];
    const uint32_t pattern = call->pattern;
    for (size_t i = part.begin; i < part.end; i++)
        to[i] = pattern;
}

static dpt_status copy_bytes(dpt_stream *stream, void *to, const void *from, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    return dpt_cpu_stream_do(
        stream, (dpt_cpu_work){.kernel = dpt_cpu_copy_kernel,
                               .call = {.n_samples = n_bytes, .in = {from}, .out = {to}},
                               .alone = n_bytes < DIVIDE_BYTES});
}

static dpt_status upload(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes)
{
    return copy_bytes(stream, dpt_cpu_address(to), host, n_bytes);
}

static dpt_status download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    return copy_bytes(stream, host, dpt_cpu_address(from), n_bytes);
}

static dpt_status copy(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes)
{
    return copy_bytes(stream, dpt_cpu_address(to), dpt_cpu_address(from), n_bytes);
}

static dpt_status fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    if (n_bytes == 0) return DPT_OK;
    return dpt_cpu_stream_do(stream, (dpt_cpu_work){.kernel = dpt_cpu_fill_kernel,
                                                    .call = {.n_samples = n_bytes,
                                                             .out = {dpt_cpu_address(to)},
                                                             .pattern = pattern},
                                                    .alone = n_bytes < DIVIDE_BYTES});
}

const dpt_memory_ops dpt_cpu_memory_ops = {
    .alloc = alloc,
    .free = free_buffer,
    .wrap_host = wrap_host,
    .host_pointer = host_pointer,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
};
