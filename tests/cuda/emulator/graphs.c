/* Graphs: the captured nodes run again at each launch, in the stream of the launch.  They run in
   the order of the capture or, with delays, in any order that their dependencies allow. */
#include "emulator.h"

#include <stdlib.h>

struct CUgraphExec_st {
    emu_graph body;
};

void emu_nodes_drop(emu_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        emu_work_release(nodes[i].work);
        free(nodes[i].after.of);
        free(nodes[i].handle);
    }
    free(nodes);
}

/* Without handles. */
static bool copy_nodes(const emu_node *from, size_t n, emu_node **out)
{
    bool done = true;
    emu_node *nodes = calloc(n + 1, sizeof *nodes);
    for (size_t i = 0; nodes && i < n; i++) {
        nodes[i].work = from[i].work;
        nodes[i].work->n_users++;
        done = emu_nodes_add_all(&nodes[i].after, &from[i].after) && done;
    }
    if (nodes && !done) emu_nodes_drop(nodes, n);
    *out = nodes;
    return nodes && done;
}

static bool add_handles(cudaGraph_t to)
{
    for (size_t i = 0; i < to->body.n; i++)
        if (!(to->body.nodes[i].handle = emu_node_handle(to, i))) return false;
    return true;
}

cudaError_t emu_graph_create(const emu_node *nodes, size_t n, cudaGraph_t *out)
{
    cudaGraph_t made = calloc(1, sizeof *made);
    if (!made || !copy_nodes(nodes, n, &made->body.nodes)) {
        free(made);
        return cudaErrorMemoryAllocation;
    }
    made->body.n = n;
    if (!add_handles(made)) {
        emu_nodes_drop(made->body.nodes, n);
        free(made);
        return cudaErrorMemoryAllocation;
    }
    emu.left.graphs++;
    *out = made;
    return cudaSuccess;
}

/* With the lock. */
static void drop_graph(emu_graph *g)
{
    if (--g->n_users > 0) return;
    emu_nodes_drop(g->nodes, g->n);
    free(g);
}

/* ---- Destroying and instantiating ------------------------------------------------------------ */

/* These do it even if they fail. */
cudaError_t cudaGraphDestroy(cudaGraph_t graph_handle)
{
    const cudaError_t code = emu_enter(__func__, -1);
    if (!graph_handle) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    emu.left.graphs--;
    emu_nodes_drop(graph_handle->body.nodes, graph_handle->body.n);
    free(graph_handle);
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const cudaError_t code = emu_enter(__func__, -1);
    if (!exec) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    emu.left.graphs--;
    drop_graph(&exec->body); /* when no stream is at it any more */
    emu_unlock();
    return emu_leave(code);
}

static bool is_ready(const emu_graph *g, size_t i, const bool *done)
{
    for (size_t k = 0; k < g->nodes[i].after.n; k++)
        if (!done[g->nodes[i].after.of[k]]) return false;
    return true;
}

/* Captured nodes come behind what they are after, and those that were added may not: in place[old]
   a place where each does.  False if they wait for each other. */
static bool sort(const emu_graph *g, size_t *place, bool *done)
{
    size_t n = 0;
    for (size_t first = 0; n < g->n; n++) {
        while (done[first])
            first++;
        size_t i = first;
        while (i < g->n && (done[i] || !is_ready(g, i, done)))
            i++;
        if (i == g->n) break;
        done[i] = true;
        place[i] = n;
    }
    return n == g->n;
}

static cudaError_t copy_sorted(const emu_graph *from, emu_graph *to)
{
    size_t *place = calloc(from->n + 1, sizeof *place);
    bool *done = calloc(from->n + 1, sizeof *done);
    emu_node *nodes = calloc(from->n + 1, sizeof *nodes), *copies = NULL;
    cudaError_t code = place && done && nodes ? cudaSuccess : cudaErrorMemoryAllocation;
    if (code == cudaSuccess && !sort(from, place, done)) code = cudaErrorInvalidValue;
    if (code == cudaSuccess && !copy_nodes(from->nodes, from->n, &copies))
        code = cudaErrorMemoryAllocation;
    for (size_t i = 0; code == cudaSuccess && i < from->n; i++) {
        for (size_t k = 0; k < copies[i].after.n; k++)
            copies[i].after.of[k] = place[copies[i].after.of[k]];
        nodes[place[i]] = copies[i];
    }
    free(place);
    free(done);
    free(copies);
    if (code == cudaSuccess)
        *to = (emu_graph){.n_users = 1, .n = from->n, .nodes = nodes};
    else
        free(nodes);
    return code;
}

static void count_nodes(const emu_graph *g)
{
    enum { SMALL_BYTES = 1024 };
    for (size_t i = 0; i < g->n; i++) {
        struct cudaMemsetParams p;
        if (emu_is_fill(g->nodes[i].work, &p) && p.height == 1 && p.width <= SMALL_BYTES)
            emu.nodes.small_fills++;
        emu.nodes.added_kernels += g->nodes[i].added;
    }
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph_handle,
                                 unsigned long long flags)
{
    EMU_ENTER(emu_current());
    if (!graph_handle || flags != 0) return emu_leave(cudaErrorInvalidValue);
    emu_load("cudaGraphInstantiate");
    cudaGraphExec_t exec = calloc(1, sizeof *exec);
    if (!exec) return emu_leave(cudaErrorMemoryAllocation);
    emu_lock();
    const cudaError_t code = copy_sorted(&graph_handle->body, &exec->body);
    if (code == cudaSuccess) {
        count_nodes(&graph_handle->body);
        emu.left.graphs++;
        *out = exec;
    }
    emu_unlock();
    if (code != cudaSuccess) free(exec);
    return emu_leave(code);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_ENTER(emu_card_of(stream));
    if (!exec) return emu_leave(cudaErrorInvalidValue);
    emu_load("cudaGraphUpload");
    emu_lock();
    exec->body.uploaded = true;
    emu_unlock();
    return emu_leave(cudaSuccess);
}

/* ---- Launches -------------------------------------------------------------------------------- */

typedef struct launch {
    emu_graph *body;
} launch;

static emu_graph *graph_of(const emu_work *work)
{
    return ((const launch *)(const void *)work->payload)->body;
}

/* Of the nodes from `first`, which is ready, on: one by chance. */
static size_t choose(const emu_graph *g, size_t first, const bool *done, cudaStream_t stream)
{
    enum { WINDOW = 64 };
    size_t chosen = first;
    for (size_t i = first + 1; i < g->n && i < first + WINDOW; i++) {
        stream->random = stream->random * 1664525u + 1013904223u;
        if (!done[i] && stream->random >> 30 == 0 && is_ready(g, i, done)) chosen = i;
    }
    return chosen;
}

static void run_graph(emu_work *work, cudaStream_t stream)
{
    const emu_graph *g = graph_of(work);
    bool *done = emu.delays ? calloc(g->n + 1, sizeof *done) : NULL;
    for (size_t n = 0, first = 0; n < g->n; n++) {
        while (done && done[first])
            first++;
        const size_t i = done ? choose(g, first, done, stream) : n;
        if (emu_lost(stream->card) == cudaSuccess) g->nodes[i].work->run(g->nodes[i].work, stream);
        if (done) done[i] = true;
    }
    free(done);
}

static void drop_launch(emu_work *work)
{
    drop_graph(graph_of(work));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_ENTER(emu_card_of(stream));
    if (!exec) return emu_leave(cudaErrorInvalidValue);
    if (!exec->body.uploaded) emu_load("a graph's first launch");
    exec->body.uploaded = true;
    const launch payload = {&exec->body};
    emu_work *work = emu_work_create(run_graph, &payload, sizeof payload);
    if (!work) return emu_leave(cudaErrorMemoryAllocation);
    emu_lock();
    const bool captures = emu_stream_lives(stream) && stream->capture;
    exec->body.n_users++;
    emu_unlock();
    work->drop = drop_launch;
    if (captures) { /* CUDA makes a child of it, which nobody here asks for */
        emu_lock();
        emu_work_release(work);
        emu_capture_break(stream->capture);
        emu_unlock();
        return emu_leave(cudaErrorStreamCaptureUnsupported);
    }
    return emu_leave(emu_enqueue(stream, work));
}
