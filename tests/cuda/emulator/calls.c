/* The parts that all calls share: the environment, error codes and their names, planted failures,
   lost cards, and the last error of a thread. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

emu_state emu = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local cudaError_t last_error = cudaSuccess;

void emu_lock(void)
{
    pthread_mutex_lock(&emu.lock);
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&emu.lock);
}

double emu_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Planted failures ------------------------------------------------------------------------ */

static struct {
    char function[48]; /* "": none */
    size_t n, n_seen;
    cudaError_t code;
    bool sticky, fired;
} plant;

static const char *const functions[] = {
    "cuStreamWaitValue32",
    "cuStreamWriteValue32",
    "cudaDeviceCanAccessPeer",
    "cudaDeviceGetAttribute",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFreeAsync",
    "cudaFreeHost",
    "cudaFuncGetAttributes",
    "cudaGetDeviceProperties",
    "cudaGraphAddDependencies",
    "cudaGraphAddKernelNode",
    "cudaGraphDestroy",
    "cudaGraphDestroyNode",
    "cudaGraphExecDestroy",
    "cudaGraphGetNodes",
    "cudaGraphInstantiate",
    "cudaGraphLaunch",
    "cudaGraphMemsetNodeGetParams",
    "cudaGraphNodeGetDependencies",
    "cudaGraphNodeGetDependentNodes",
    "cudaGraphNodeGetType",
    "cudaGraphUpload",
    "cudaHostAlloc",
    "cudaLaunchKernel",
    "cudaMallocFromPoolAsync",
    "cudaMemGetInfo",
    "cudaMemPoolCreate",
    "cudaMemPoolDestroy",
    "cudaMemPoolSetAccess",
    "cudaMemPoolSetAttribute",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "cudaSetDevice",
    "cudaSetDeviceFlags",
    "cudaStreamBeginCapture",
    "cudaStreamCreateWithFlags",
    "cudaStreamDestroy",
    "cudaStreamEndCapture",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "kernel",
};

const char *emulated_function(size_t i)
{
    return i < sizeof functions / sizeof *functions ? functions[i] : NULL;
}

void emulated_plant(const char *function, size_t n, int code, bool sticky)
{
    emu_lock();
    memset(&plant, 0, sizeof plant);
    snprintf(plant.function, sizeof plant.function, "%s", function ? function : "");
    plant.n = n;
    plant.code = (cudaError_t)code;
    plant.sticky = sticky;
    for (int i = 0; i < EMU_MOST_CARDS; i++) {
        emu.cards[i].life += emu.cards[i].dying;
        emu.cards[i].lost = cudaSuccess;
        emu.cards[i].dying = false;
    }
    emu_unlock();
}

bool emulated_fired(void)
{
    emu_lock();
    const bool fired = plant.fired;
    emu_unlock();
    return fired;
}

emulated_counts emulated_left(void)
{
    emu_lock();
    emu_memory_forget();
    const emulated_counts left = emu.left;
    emu_unlock();
    return left;
}

emulated_nodes emulated_graph_nodes(void)
{
    emu_lock();
    const emulated_nodes nodes = emu.nodes;
    emu_unlock();
    return nodes;
}

/* Some toolkits have another version's number behind a name.  With the lock. */
static cudaError_t planted(const char *function, bool *sticky)
{
    const size_t n = strlen(plant.function);
    const bool any = strcmp(plant.function, "*") == 0 && strcmp(function, "kernel") != 0;
    if (!any && (n == 0 || strncmp(function, plant.function, n) != 0 ||
                 (function[n] != '\0' && function[n] != '_')))
        return cudaSuccess;
    if (++plant.n_seen != plant.n) return cudaSuccess;
    plant.fired = true;
    *sticky = plant.sticky;
    return plant.code;
}

cudaError_t emu_planted(const char *what)
{
    bool sticky = false;
    emu_lock();
    const cudaError_t code = planted(what, &sticky);
    emu_unlock();
    return code;
}

cudaError_t emu_lost(int card)
{
    emu_lock();
    const cudaError_t code = card >= 0 ? emu.cards[card].lost : cudaSuccess;
    emu_unlock();
    return code;
}

/* With the lock. */
static void lose(emu_card *card, cudaError_t code)
{
    card->dying = true;
    while (card->n_active > 0)
        pthread_cond_wait(&card->idle, &emu.lock);
    card->lost = code;
}

void emu_lose(int card, cudaError_t code)
{
    emu_lock();
    lose(&emu.cards[card], code);
    emu_unlock();
}

bool emu_begin_use(cudaStream_t stream)
{
    emu_card *card = &emu.cards[stream->card];
    emu_lock();
    const bool may = !card->dying && card->life == stream->life;
    card->n_active += may;
    emu_unlock();
    return may;
}

void emu_end_use(cudaStream_t stream)
{
    emu_card *card = &emu.cards[stream->card];
    emu_lock();
    if (--card->n_active == 0) pthread_cond_broadcast(&card->idle);
    emu_unlock();
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static size_t number(const char *name, size_t otherwise, size_t most)
{
    const char *text = getenv(name);
    const size_t value = text ? strtoul(text, NULL, 10) : otherwise;
    return value < most ? value : most;
}

/* FUNCTION:N:CODE[:sticky] */
static void read_plant(const char *text)
{
    char function[48];
    int code = 0;
    size_t n = 0;
    if (text && sscanf(text, "%47[^:]:%zu:%d", function, &n, &code) == 3) {
        snprintf(plant.function, sizeof plant.function, "%s", function);
        plant.n = n;
        plant.code = (cudaError_t)code;
        plant.sticky = strstr(text, ":sticky") != NULL;
    }
}

static void report(void)
{
    const emulated_counts c = emulated_left();
    if (emu.is_child ||
        c.streams + c.events + c.graphs + c.pools + c.buffers + c.pinned + c.late == 0)
        return;
    fprintf(stderr,
            "emulated CUDA: left behind: %zu streams, %zu events, %zu graphs, %zu pools, %zu "
            "buffers, %zu of pinned memory; %zu uses of memory that was freed\n",
            c.streams, c.events, c.graphs, c.pools, c.buffers, c.pinned, c.late);
    fflush(NULL);
    _exit(1);
}

static void in_child(void)
{
    emu.is_child = true;
}

/* With the lock. */
static void begin(void)
{
    const char *order = getenv("CUDA_EMULATED_ORDER"), *loads = getenv("CUDA_EMULATED_LOADS");
    const char *reports = getenv("CUDA_EMULATED_REPORT"), *apart = getenv("CUDA_EMULATED_APART");
    emu.begun = true;
    (void)pthread_atfork(NULL, NULL, in_child);
    emu.n_cards = (int)number("CUDA_EMULATED_CARDS", 2, EMU_MOST_CARDS);
    for (int i = 0; i < EMU_MOST_CARDS; i++)
        pthread_cond_init(&emu.cards[i].idle, NULL);
    for (int i = 0; i < emu.n_cards; i++)
        emu.cards[i].n_bytes = number("CUDA_EMULATED_MEMORY", 512, 1 << 20) << 20;
    emu.delays = (unsigned)number("CUDA_EMULATED_DELAYS", 0, 1 << 30);
    emu.apart = apart && *apart;
    emu.reverse = order && strcmp(order, "reverse") == 0;
    emu.loads_wait = loads && strcmp(loads, "wait") == 0;
    if (plant.function[0] == '\0') read_plant(getenv("CUDA_EMULATED_FAIL"));
    if (reports && *reports) (void)atexit(report);
}

/* A process that was forked has nothing of what its parent's threads did. */
cudaError_t emu_enter(const char *function, int card)
{
    bool sticky = false;
    emu_lock();
    if (!emu.begun) begin();
    cudaError_t code = planted(function, &sticky);
    if (sticky && card >= 0) lose(&emu.cards[card], code);
    if (code == cudaSuccess && card >= 0) code = emu.cards[card].lost;
    if (emu.is_child) code = cudaErrorInitializationError;
    if (emu.n_cards == 0 && code == cudaSuccess) code = cudaErrorNoDevice;
    emu_unlock();
    return code;
}

cudaError_t emu_leave(cudaError_t code)
{
    if (code != cudaSuccess) last_error = code;
    return code;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* ---- Names ----------------------------------------------------------------------------------- */

typedef struct code_row {
    cudaError_t code;
    const char *name, *words;
} code_row;

#define ROW(code, words)                                                                           \
    {                                                                                              \
        code, #code, words                                                                         \
    }
static const code_row codes[] = {
    ROW(cudaSuccess, "no error"),
    ROW(cudaErrorInvalidValue, "invalid argument"),
    ROW(cudaErrorMemoryAllocation, "out of memory"),
    ROW(cudaErrorInitializationError, "initialization error"),
    ROW(cudaErrorInvalidConfiguration, "invalid configuration of a launch"),
    ROW(cudaErrorInvalidMemcpyDirection, "invalid direction of a copy"),
    ROW(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ROW(cudaErrorNoDevice, "no device"),
    ROW(cudaErrorInvalidDevice, "no such device"),
    ROW(cudaErrorInvalidResourceHandle, "invalid handle"),
    ROW(cudaErrorIllegalState, "illegal state"),
    ROW(cudaErrorNotReady, "not ready"),
    ROW(cudaErrorIllegalAddress, "an illegal address was accessed"),
    ROW(cudaErrorLaunchOutOfResources, "too many resources for a launch"),
    ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is enabled already"),
    ROW(cudaErrorTooManyPeers, "peer resources exhausted"),
    ROW(cudaErrorPeerAccessUnsupported, "no peer access between these"),
    ROW(cudaErrorLaunchFailure, "a launch failed"),
    ROW(cudaErrorNotSupported, "not supported"),
    ROW(cudaErrorECCUncorrectable, "an uncorrectable error of memory"),
    ROW(cudaErrorStreamCaptureUnsupported, "not permitted while a stream captures"),
    ROW(cudaErrorStreamCaptureInvalidated, "the capture was invalidated before"),
    ROW(cudaErrorStreamCaptureMerge, "two captures would become one"),
    ROW(cudaErrorStreamCaptureUnmatched, "the capture did not begin in this stream"),
    ROW(cudaErrorStreamCaptureUnjoined, "the capture has work that was not joined"),
    ROW(cudaErrorStreamCaptureIsolation, "the capture would depend on work outside"),
    ROW(cudaErrorStreamCaptureImplicit, "the capture would wait for the NULL stream"),
    ROW(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
    ROW(cudaErrorStreamCaptureWrongThread, "the capture belongs to another thread"),
    ROW(cudaErrorUnknown, "unknown error"),
};
#undef ROW

static const code_row *find(cudaError_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code) return &codes[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t code)
{
    const code_row *row = find(code);
    return row ? row->name : "cudaErrorOfAnotherName";
}

const char *cudaGetErrorString(cudaError_t code)
{
    const code_row *row = find(code);
    return row ? row->words : "an error without words here";
}
