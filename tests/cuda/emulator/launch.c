/* Launches of kernels. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64, SLOT_BYTES = 16 };

/* What is behind it: the arguments, each from a multiple of SLOT_BYTES on. */
typedef struct launch {
    const emulated_kernel *kernel;
    dim3 grid, block;
    _Alignas(SLOT_BYTES) unsigned char arguments[];
} launch;

static size_t slot(size_t n_bytes)
{
    return (n_bytes + SLOT_BYTES - 1) / SLOT_BYTES * SLOT_BYTES;
}

static const emulated_kernel *kernel_of(const void *function)
{
    const emulated_kernel *kernel = function;
    return kernel && kernel->magic == EMULATED_MAGIC ? kernel : NULL;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function)
{
    EMU_ENTER(emu_current());
    emu_load("cudaFuncGetAttributes");
    const emulated_kernel *kernel = kernel_of(function);
    if (!kernel) return emu_leave(cudaErrorInvalidDeviceFunction);
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

static void run_kernel(emu_work *work, cudaStream_t stream)
{
    launch *l = (launch *)(void *)work->payload;
    void *arguments[MOST_ARGUMENTS];
    size_t at = 0;
    const cudaError_t planted = emu_planted("kernel");
    if (planted != cudaSuccess) {
        emu_lose(stream->card, planted);
        return;
    }
    for (size_t i = 0; i < l->kernel->n_arguments; i++) {
        arguments[i] = l->arguments + at;
        at += slot(l->kernel->bytes[i]);
    }
    if (!emu_begin_use(stream)) return;
    emu_kernel_run(l->kernel, l->grid, l->block, arguments);
    emu_end_use(stream);
}

static emu_work *create(const launch *head, void **arguments)
{
    size_t n_bytes = sizeof *head, at = 0;
    for (size_t i = 0; i < head->kernel->n_arguments; i++)
        n_bytes += slot(head->kernel->bytes[i]);
    launch *all = calloc(1, n_bytes);
    if (!all) return NULL;
    memcpy(all, head, sizeof *head);
    for (size_t i = 0; i < head->kernel->n_arguments; i++) {
        memcpy(all->arguments + at, arguments[i], head->kernel->bytes[i]);
        at += slot(head->kernel->bytes[i]);
    }
    emu_work *work = emu_work_create(run_kernel, all, n_bytes);
    free(all);
    return work;
}

static bool fits(dim3 grid, dim3 block)
{
    const unsigned long long n = (unsigned long long)block.x * block.y * block.z;
    return n > 0 && n <= 1024 && block.z <= 64 && grid.x > 0 && grid.y > 0 && grid.z > 0 &&
           grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    EMU_ENTER(emu_card_of(stream));
    const launch head = {.kernel = kernel_of(function), .grid = grid, .block = block};
    if (!head.kernel) return emu_leave(cudaErrorInvalidDeviceFunction);
    if (!fits(grid, block)) return emu_leave(cudaErrorInvalidConfiguration);
    if (shared_bytes != 0 || head.kernel->n_arguments > MOST_ARGUMENTS)
        return emu_leave(cudaErrorNotSupported);
    if (emu_card_of(stream) != emu_current()) return emu_leave(cudaErrorInvalidResourceHandle);
    return emu_leave(emu_enqueue(stream, create(&head, arguments)));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                   const cudaGraphNode_t *after, size_t n_after,
                                   const struct cudaKernelNodeParams *params)
{
    EMU_ENTER(emu_current());
    const launch head = {
        .kernel = kernel_of(params->func), .grid = params->gridDim, .block = params->blockDim};
    if (!head.kernel) return emu_leave(cudaErrorInvalidDeviceFunction);
    if (!fits(params->gridDim, params->blockDim)) return emu_leave(cudaErrorInvalidConfiguration);
    if (params->sharedMemBytes != 0 || params->extra || head.kernel->n_arguments > MOST_ARGUMENTS)
        return emu_leave(cudaErrorNotSupported);
    emu_work *work = create(&head, params->kernelParams);
    return emu_leave(emu_graph_add(graph, work, after, n_after, out));
}
