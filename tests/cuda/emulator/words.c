/* Words in the host's memory that streams write and wait for.  They are functions of the driver,
   which the backend asks the runtime for by name. */
#include "emulator.h"

#include <cuda.h>
#include <string.h>
#include <time.h>

typedef struct word {
    uint32_t *at;
    uint32_t value;
} word;

static void run_write(emu_work *work, cudaStream_t stream)
{
    const word *w = (const word *)(const void *)work->payload;
    (void)stream;
    __atomic_store_n(w->at, w->value, __ATOMIC_SEQ_CST);
}

static bool is_pinned(const uint32_t *at)
{
    emu_lock();
    const bool pinned = emu_owner(at, sizeof *at, NULL) == EMU_PINNED;
    emu_unlock();
    return pinned;
}

/* As one counts around.  Memory that was freed is nobody's. */
static bool await(const word *w)
{
    static const struct timespec nap = {.tv_nsec = 20000};
    while (is_pinned(w->at)) {
        if ((int32_t)(__atomic_load_n(w->at, __ATOMIC_SEQ_CST) - w->value) >= 0) return true;
        (void)nanosleep(&nap, NULL);
    }
    return false;
}

static void run_wait(emu_work *work, cudaStream_t stream)
{
    emulated_begin_wait();
    const bool came = await((const word *)(const void *)work->payload);
    emulated_end_wait();
    if (!came) emu_lose(stream->card, cudaErrorIllegalAddress);
}

static cudaError_t enqueue(cudaStream_t stream, CUdeviceptr at, uint32_t value,
                           void (*run)(emu_work *, cudaStream_t))
{
    const word w = {(uint32_t *)(uintptr_t)at, value};
    if (!is_pinned(w.at) || at % sizeof *w.at != 0) return cudaErrorInvalidValue;
    return emu_enqueue(stream, emu_work_create(run, &w, sizeof w));
}

/* The driver's codes are the runtime's. */
static CUresult write_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
    const cudaError_t code = emu_enter("cuStreamWriteValue32", emu_card_of(stream));
    if (code != cudaSuccess || flags != CU_STREAM_WRITE_VALUE_DEFAULT)
        return (CUresult)(int)emu_leave(code != cudaSuccess ? code : cudaErrorInvalidValue);
    return (CUresult)(int)emu_leave(enqueue(stream, at, value, run_write));
}

static CUresult wait_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
    const cudaError_t code = emu_enter("cuStreamWaitValue32", emu_card_of(stream));
    if (code != cudaSuccess || flags != CU_STREAM_WAIT_VALUE_GEQ)
        return (CUresult)(int)emu_leave(code != cudaSuccess ? code : cudaErrorInvalidValue);
    return (CUresult)(int)emu_leave(enqueue(stream, at, value, run_wait));
}

static cudaError_t find(const char *name, void **out, enum cudaDriverEntryPointQueryResult *result)
{
    static const struct {
        const char *name;
        CUresult (*function)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    } all[] = {
        {"cuStreamWriteValue32", write_value},
        {"cuStreamWaitValue32", wait_value},
    };
    *out = NULL;
    *result = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) != 0) continue;
        memcpy(out, &all[i].function, sizeof *out);
        *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    (void)version;
    (void)flags;
    return find(name, out, result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **out, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result)
{
    (void)flags;
    return find(name, out, result);
}
#endif
