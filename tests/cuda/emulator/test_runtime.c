/* Tests that the emulator behaves as CUDA does, as far as the backend depends on it: order within
   and between streams, captures and what invalidates them, kinds of memory, errors that
   persist. */
#include "harness.h"

#include "cuda/emulator/control.h"
#include "cuda/emulator/kernel.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { N = 1000 };

#define DONE(call)        CHECK_SIZE((size_t)(call), 0)
#define FAILS(call, code) CHECK_SIZE((size_t)(call), (size_t)(code))

typedef struct scene {
    cudaStream_t a, b, other; /* a and b of card 0, other of card 1 */
    cudaEvent_t first, second;
    cudaMemPool_t pool;
    unsigned char *memory;     /* (N) of card 0 */
    unsigned char *far_memory; /* (N) of card 1 */
    unsigned char *host;       /* (N) pinned */
} scene;

static void begin(test *t, scene *s)
{
    const struct cudaMemPoolProps pool = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    memset(s, 0, sizeof *s);
    DONE(cudaSetDevice(1));
    DONE(cudaStreamCreateWithFlags(&s->other, cudaStreamNonBlocking));
    DONE(cudaMalloc((void **)&s->far_memory, N));
    DONE(cudaSetDevice(0));
    DONE(cudaStreamCreateWithFlags(&s->a, cudaStreamNonBlocking));
    DONE(cudaStreamCreateWithFlags(&s->b, cudaStreamNonBlocking));
    DONE(cudaEventCreateWithFlags(&s->first, cudaEventDefault));
    DONE(cudaEventCreateWithFlags(&s->second, cudaEventDefault));
    DONE(cudaHostAlloc((void **)&s->host, N, cudaHostAllocPortable));
    DONE(cudaMemPoolCreate(&s->pool, &pool));
    DONE(cudaMallocFromPoolAsync((void **)&s->memory, N, s->pool, s->a));
    DONE(cudaStreamSynchronize(s->a));
}

static void end(test *t, scene *s)
{
    DONE(cudaFreeAsync(s->memory, s->a));
    DONE(cudaStreamSynchronize(s->a));
    DONE(cudaMemPoolDestroy(s->pool));
    DONE(cudaFreeHost(s->host));
    DONE(cudaEventDestroy(s->first));
    DONE(cudaEventDestroy(s->second));
    DONE(cudaStreamDestroy(s->a));
    DONE(cudaStreamDestroy(s->b));
    DONE(cudaSetDevice(1));
    DONE(cudaFree(s->far_memory));
    DONE(cudaStreamDestroy(s->other));
    DONE(cudaSetDevice(0));
    const emulated_counts left = emulated_left();
    CHECK_SIZE(left.streams + left.events + left.graphs + left.pools + left.buffers + left.pinned,
               0);
}

static void take_a_while(void *argument)
{
    (void)argument;
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void be_late(test *t, cudaStream_t stream)
{
    DONE(emulated_enqueue(stream, take_a_while, "", 1));
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Another stream sees what it waits for, and not what it does not. */
static void streams_wait_for_events(test *t)
{
    scene s;
    begin(t, &s);
    for (int waits = 0; waits < 2; waits++) {
        DONE(cudaMemsetAsync(s.memory, 1, N, s.a));
        DONE(cudaStreamSynchronize(s.a));
        be_late(t, s.a);
        DONE(cudaMemsetAsync(s.memory, 2, N, s.a));
        DONE(cudaEventRecord(s.first, s.a));
        FAILS(cudaEventQuery(s.first), cudaErrorNotReady);
        FAILS(cudaStreamQuery(s.a), cudaErrorNotReady);
        if (waits) DONE(cudaStreamWaitEvent(s.b, s.first, 0));
        DONE(cudaMemcpyAsync(s.host, s.memory, N, cudaMemcpyDeviceToHost, s.b));
        DONE(cudaStreamSynchronize(s.b));
        CHECK_SIZE(s.host[N - 1], waits ? 2 : 1);
        DONE(cudaStreamSynchronize(s.a));
    }
    end(t, &s);
}

static void events_take_the_time(test *t)
{
    scene s;
    float milliseconds = 0;
    begin(t, &s);
    FAILS(cudaEventElapsedTime(&milliseconds, s.first, s.second), cudaErrorInvalidResourceHandle);
    DONE(cudaEventRecord(s.first, s.a));
    be_late(t, s.a);
    DONE(cudaEventRecord(s.second, s.a));
    FAILS(cudaEventElapsedTime(&milliseconds, s.first, s.second), cudaErrorNotReady);
    DONE(cudaEventSynchronize(s.second));
    DONE(cudaEventElapsedTime(&milliseconds, s.first, s.second));
    CHECK(milliseconds >= 20);
    FAILS(cudaEventRecord(s.first, s.other), cudaErrorInvalidResourceHandle);
    end(t, &s);
}

/* ---- Captures -------------------------------------------------------------------------------- */

static void add_one(void *argument)
{
    ++**(unsigned char **)argument;
}

/* A fork and its join: nothing is done before the launch, and everything at each. */
static void graphs_do_it_again(test *t)
{
    scene s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    begin(t, &s);
    memset(s.host, 0, N);
    DONE(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeRelaxed));
    DONE(emulated_enqueue(s.a, add_one, &s.host, sizeof s.host));
    DONE(cudaEventRecord(s.first, s.a));
    DONE(cudaStreamWaitEvent(s.b, s.first, 0));
    DONE(emulated_enqueue(s.b, add_one, &s.host, sizeof s.host));
    DONE(cudaEventRecord(s.second, s.b));
    DONE(cudaStreamWaitEvent(s.a, s.second, 0));
    DONE(cudaStreamEndCapture(s.a, &graph));
    DONE(cudaStreamSynchronize(s.b)); /* it has left */
    CHECK_SIZE(s.host[0], 0);
    DONE(cudaGraphInstantiate(&exec, graph, 0));
    DONE(cudaGraphDestroy(graph));
    DONE(cudaGraphLaunch(exec, s.a));
    DONE(cudaGraphLaunch(exec, s.a));
    DONE(cudaGraphExecDestroy(exec)); /* while it runs */
    DONE(cudaStreamSynchronize(s.a));
    CHECK_SIZE(s.host[0], 4);
    end(t, &s);
}

static void set_byte(void *const *arguments)
{
    **(unsigned char *const *)arguments[0] = *(const unsigned char *)arguments[1];
}

static const size_t set_byte_bytes[] = {sizeof(unsigned char *), 1};
static const emulated_kernel set_byte_kernel = {EMULATED_MAGIC, set_byte, 2,
                                                set_byte_bytes, NULL,     NULL};

/* As in graph_fills.c, for any version. */
#if CUDART_VERSION >= 13000
#define BEFORE(node, out, n)          cudaGraphNodeGetDependencies(node, out, NULL, n)
#define BEHIND(node, out, n)          cudaGraphNodeGetDependentNodes(node, out, NULL, n)
#define ADD_EDGES(graph, from, to, n) cudaGraphAddDependencies(graph, from, to, NULL, n)
#else
#define BEFORE(node, out, n)          cudaGraphNodeGetDependencies(node, out, n)
#define BEHIND(node, out, n)          cudaGraphNodeGetDependentNodes(node, out, n)
#define ADD_EDGES(graph, from, to, n) cudaGraphAddDependencies(graph, from, to, n)
#endif

/* The one fill of a graph of three nodes. */
static cudaGraphNode_t find_fill(test *t, cudaGraph_t graph)
{
    cudaGraphNode_t all[4], fill = NULL;
    size_t n = 0;
    DONE(cudaGraphGetNodes(graph, NULL, &n));
    CHECK_SIZE(n, 3);
    n = 4;
    DONE(cudaGraphGetNodes(graph, all, &n));
    CHECK_SIZE(n, 3);
    CHECK(all[3] == NULL);
    for (size_t i = 0; i < n; i++) {
        enum cudaGraphNodeType type;
        struct cudaMemsetParams p;
        DONE(cudaGraphNodeGetType(all[i], &type));
        if (type == cudaGraphNodeTypeMemset) {
            fill = all[i];
            DONE(cudaGraphMemsetNodeGetParams(all[i], &p));
            CHECK_SIZE(p.width * p.elementSize * p.height, 4);
            CHECK_SIZE(p.value, 7);
        } else {
            FAILS(cudaGraphMemsetNodeGetParams(all[i], &p), cudaErrorInvalidValue);
        }
    }
    return fill;
}

/* A fill between two copies, and what is before and behind it. */
typedef struct filled {
    cudaGraph_t graph;
    cudaGraphNode_t fill, before[2], behind[2];
    size_t n_before, n_behind;
} filled;

static void capture_a_fill(test *t, scene *s, filled *f)
{
    *f = (filled){.n_before = 2, .n_behind = 2};
    memset(s->host, 1, N);
    DONE(cudaStreamBeginCapture(s->a, cudaStreamCaptureModeRelaxed));
    DONE(cudaMemcpyAsync(s->memory, s->host, 4, cudaMemcpyHostToDevice, s->a));
    DONE(cudaMemsetAsync(s->memory, 7, 4, s->a));
    DONE(cudaMemcpyAsync(s->host + 8, s->memory, 4, cudaMemcpyDeviceToHost, s->a));
    DONE(cudaStreamEndCapture(s->a, &f->graph));
    f->fill = find_fill(t, f->graph);
    DONE(BEFORE(f->fill, f->before, &f->n_before));
    DONE(BEHIND(f->fill, f->behind, &f->n_behind));
    CHECK_SIZE(f->n_before, 1);
    CHECK_SIZE(f->n_behind, 1);
    CHECK(f->before[0] != f->behind[0] && f->before[1] == NULL && f->behind[1] == NULL);
}

static void run_graph(test *t, scene *s, cudaGraph_t graph)
{
    cudaGraphExec_t exec;
    DONE(cudaGraphInstantiate(&exec, graph, 0));
    DONE(cudaGraphLaunch(exec, s->a));
    DONE(cudaGraphExecDestroy(exec));
    DONE(cudaStreamSynchronize(s->a));
}

static cudaError_t add_kernel(scene *s, filled *f, const emulated_kernel *function, size_t n_before,
                              cudaGraphNode_t *out)
{
    unsigned char value = 9;
    void *arguments[] = {&s->memory, &value};
    const struct cudaKernelNodeParams params = {.func = (void *)(uintptr_t)function,
                                                .gridDim = {1, 1, 1},
                                                .blockDim = {1, 1, 1},
                                                .kernelParams = arguments};
    return cudaGraphAddKernelNode(out, f->graph, f->before, n_before, &params);
}

/* A kernel that takes the fill's place does its work there, though it was added last. */
static void nodes_are_replaced(test *t)
{
    scene s;
    filled f;
    cudaGraphNode_t kernel;
    begin(t, &s);
    capture_a_fill(t, &s, &f);
    const emulated_nodes first = emulated_graph_nodes();
    run_graph(t, &s, f.graph);
    CHECK_SIZE(s.host[8], 7);
    const emulated_nodes second = emulated_graph_nodes();
    CHECK_SIZE(second.small_fills - first.small_fills, 1);
    CHECK_SIZE(second.added_kernels - first.added_kernels, 0);

    DONE(add_kernel(&s, &f, &set_byte_kernel, 1, &kernel));
    DONE(ADD_EDGES(f.graph, &kernel, f.behind, 1));
    DONE(cudaGraphDestroyNode(f.fill));
    DONE(BEFORE(f.behind[0], f.before, &f.n_before));
    CHECK_SIZE(f.n_before, 1);
    CHECK(f.before[0] == kernel);
    run_graph(t, &s, f.graph);
    CHECK_SIZE(s.host[8], 9);
    CHECK_SIZE(s.host[9], 1); /* one byte alone */
    CHECK_SIZE(emulated_graph_nodes().small_fills - second.small_fills, 0);
    CHECK_SIZE(emulated_graph_nodes().added_kernels - second.added_kernels, 1);
    DONE(cudaGraphDestroy(f.graph));
    end(t, &s);
}

static void senseless_edges_are_refused(test *t)
{
    scene s;
    filled f;
    cudaGraphNode_t kernel, none = NULL;
    cudaGraphExec_t exec;
    const cudaError_t wrong = cudaErrorInvalidValue;
    begin(t, &s);
    capture_a_fill(t, &s, &f);
    FAILS(add_kernel(&s, &f, NULL, 1, &kernel), cudaErrorInvalidDeviceFunction);
    FAILS(add_kernel(&s, &f, &set_byte_kernel, 2, &kernel), wrong); /* the second is NULL */
    FAILS(ADD_EDGES(f.graph, &f.fill, f.behind, 1), wrong);         /* there is one */
    FAILS(ADD_EDGES(f.graph, &f.fill, &f.fill, 1), wrong);
    FAILS(ADD_EDGES(f.graph, &f.fill, &none, 1), wrong);
    DONE(ADD_EDGES(f.graph, f.behind, f.before, 1)); /* a circle */
    FAILS(cudaGraphInstantiate(&exec, f.graph, 0), wrong);
    DONE(cudaGraphDestroy(f.graph));
    end(t, &s);
}

static void work_must_be_joined(test *t)
{
    scene s;
    cudaGraph_t graph;
    begin(t, &s);
    DONE(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeRelaxed));
    DONE(cudaEventRecord(s.first, s.a));
    DONE(cudaStreamWaitEvent(s.b, s.first, 0));
    DONE(cudaMemsetAsync(s.memory, 1, N, s.b));
    FAILS(cudaStreamEndCapture(s.b, &graph), cudaErrorStreamCaptureUnmatched);
    FAILS(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
    DONE(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeRelaxed));
    DONE(cudaEventRecord(s.first, s.a));
    DONE(cudaStreamWaitEvent(s.b, s.first, 0));
    DONE(cudaMemsetAsync(s.memory, 1, N, s.b));
    FAILS(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureUnjoined);
    DONE(cudaStreamSynchronize(s.b));
    end(t, &s);
}

/* What is forbidden meanwhile, each in a capture of its own, which it breaks. */
static void captures_break(test *t)
{
    enum { WAYS = 6 };
    scene s;
    begin(t, &s);
    for (int way = 0; way < WAYS; way++) {
        cudaGraph_t graph;
        void *memory;
        DONE(cudaEventRecord(s.second, s.b));
        DONE(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeRelaxed));
        DONE(cudaEventRecord(s.first, s.a));
        if (way == 0) FAILS(cudaStreamSynchronize(s.a), cudaErrorStreamCaptureUnsupported);
        if (way == 1) FAILS(cudaStreamQuery(s.a), cudaErrorStreamCaptureUnsupported);
        if (way == 2) FAILS(cudaEventQuery(s.first), cudaErrorCapturedEvent);
        if (way == 3) FAILS(cudaEventSynchronize(s.first), cudaErrorCapturedEvent);
        if (way == 4) FAILS(cudaStreamWaitEvent(s.a, s.second, 0), cudaErrorStreamCaptureIsolation);
        if (way == 5)
            FAILS(cudaMallocFromPoolAsync(&memory, N, s.pool, s.a),
                  cudaErrorStreamCaptureUnsupported);
        FAILS(cudaMemsetAsync(s.memory, 1, N, s.a), cudaErrorStreamCaptureInvalidated);
        FAILS(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
        CHECK(graph == NULL);
    }
    end(t, &s);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void copies_are_of_the_right_sort(test *t)
{
    scene s;
    unsigned char plain[N] = {0};
    const cudaError_t wrong = cudaErrorInvalidValue;
    begin(t, &s);
    DONE(cudaMemcpyAsync(s.memory, plain, N, cudaMemcpyHostToDevice, s.a));
    FAILS(cudaMemcpyAsync(plain, s.host, N, cudaMemcpyHostToDevice, s.a), wrong);
    FAILS(cudaMemcpyAsync(s.memory, s.host, N + 1, cudaMemcpyHostToDevice, s.a), wrong);
    FAILS(cudaMemcpyAsync(s.memory, plain, N, cudaMemcpyDeviceToHost, s.a), wrong);
    FAILS(cudaMemsetAsync(plain, 0, N, s.a), wrong);
    CHECK_SIZE((size_t)cudaPeekAtLastError(), (size_t)wrong);
    CHECK_SIZE((size_t)cudaGetLastError(), (size_t)wrong);
    DONE(cudaGetLastError());
    DONE(cudaStreamSynchronize(s.a));
    end(t, &s);
}

/* Another card's memory needs leave, which a pool has of its own. */
static void cards_ask_for_access(test *t)
{
    scene s;
    const enum cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
    const struct cudaMemAccessDesc access = {
        .location = {.type = cudaMemLocationTypeDevice, .id = 1},
        .flags = cudaMemAccessFlagsProtReadWrite};
    begin(t, &s);
    FAILS(cudaMemcpyAsync(s.far_memory, s.memory, N, kind, s.other), cudaErrorInvalidValue);
    DONE(cudaMemcpyPeerAsync(s.far_memory, 1, s.memory, 0, N, s.other));
    DONE(cudaMemPoolSetAccess(s.pool, &access, 1));
    DONE(cudaMemcpyAsync(s.far_memory, s.memory, N, kind, s.other));
    FAILS(cudaMemcpyAsync(s.far_memory, s.memory, N, kind, s.a), cudaErrorInvalidValue);
    DONE(cudaDeviceEnablePeerAccess(1, 0));
    DONE(cudaMemcpyAsync(s.far_memory, s.memory, N, kind, s.a));
    FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    DONE(cudaStreamSynchronize(s.a));
    DONE(cudaStreamSynchronize(s.other));
    end(t, &s);
}

/* A card that is full, by what its pool holds, until that is trimmed. */
static void pools_hold_and_give_back(test *t)
{
    scene s;
    size_t n_free = 0, n_all = 0, before = 0;
    uint64_t keep = UINT64_MAX;
    void *large = NULL, *larger = NULL;
    begin(t, &s);
    DONE(cudaMemPoolSetAttribute(s.pool, cudaMemPoolAttrReleaseThreshold, &keep));
    DONE(cudaMemGetInfo(&before, &n_all));
    DONE(cudaMallocFromPoolAsync(&large, before / 2, s.pool, s.a));
    DONE(cudaFreeAsync(large, s.a));
    DONE(cudaStreamSynchronize(s.a));
    DONE(cudaMemGetInfo(&n_free, &n_all));
    CHECK(n_free < before);
    FAILS(cudaMallocFromPoolAsync(&larger, before / 4 * 3, s.pool, s.a), cudaErrorMemoryAllocation);
    DONE(cudaMemPoolTrimTo(s.pool, 0));
    DONE(cudaMallocFromPoolAsync(&larger, before / 4 * 3, s.pool, s.a));
    DONE(cudaFreeAsync(larger, s.a));
    end(t, &s);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void a_card_is_lost_and_others_are_not(test *t)
{
    scene s;
    begin(t, &s);
    emulated_plant("cudaMemsetAsync", 2, cudaErrorIllegalAddress, true);
    DONE(cudaMemsetAsync(s.memory, 1, N, s.a));
    FAILS(cudaMemsetAsync(s.memory, 1, N, s.a), cudaErrorIllegalAddress);
    CHECK(emulated_fired());
    FAILS(cudaStreamSynchronize(s.a), cudaErrorIllegalAddress);
    DONE(cudaMemsetAsync(s.far_memory, 1, N, s.other));
    DONE(cudaStreamSynchronize(s.other));
    emulated_plant(NULL, 0, 0, false);
    end(t, &s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"streams wait for events", streams_wait_for_events},
        {"events take the time", events_take_the_time},
        {"graphs do it again", graphs_do_it_again},
        {"nodes are replaced", nodes_are_replaced},
        {"senseless edges are refused", senseless_edges_are_refused},
        {"work must be joined", work_must_be_joined},
        {"captures break", captures_break},
        {"copies are of the right sort", copies_are_of_the_right_sort},
        {"cards ask for access", cards_ask_for_access},
        {"pools hold and give back", pools_hold_and_give_back},
        {"a card is lost, and others are not", a_card_is_lost_and_others_are_not},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
