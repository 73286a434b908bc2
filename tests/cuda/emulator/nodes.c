/* The nodes of a graph, for code that inspects a capture and replaces nodes. */
#include "emulator.h"

#include <stdlib.h>

cudaGraphNode_t emu_node_handle(cudaGraph_t of, size_t place)
{
    cudaGraphNode_t handle = malloc(sizeof *handle);
    if (handle) *handle = (struct CUgraphNode_st){of, place};
    return handle;
}

/* ---- Questions and edges --------------------------------------------------------------------- */

static emu_node *node_of(cudaGraphNode_t handle)
{
    return &handle->graph->body.nodes[handle->place];
}

static const emu_work *work_of(cudaGraphNode_t node)
{
    return node_of(node)->work;
}

/* As all such questions are answered: without `out`, how many; else as many as there is room for,
   and NULL behind them. */
static void hand_out(const emu_graph *g, const emu_nodes *set, cudaGraphNode_t *out, size_t *n)
{
    for (size_t i = 0; out && i < *n; i++)
        out[i] = i < set->n ? g->nodes[set->of[i]].handle : NULL;
    if (!out || *n > set->n) *n = set->n;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t of, cudaGraphNode_t *out, size_t *n)
{
    emu_nodes all = {.n = 0};
    bool done = true;
    EMU_ENTER(-1);
    if (!of || !n) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    for (size_t i = of->body.n; i-- > 0;) /* in no order that is promised */
        done = done && emu_nodes_add(&all, i);
    if (done) hand_out(&of->body, &all, out, n);
    emu_unlock();
    free(all.of);
    return emu_leave(done ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *out)
{
    EMU_ENTER(-1);
    if (!node) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    *out = work_of(node)->type;
    emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *out)
{
    EMU_ENTER(-1);
    if (!node) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    const bool is_fill = emu_is_fill(work_of(node), out);
    emu_unlock();
    return emu_leave(is_fill ? cudaSuccess : cudaErrorInvalidValue);
}

static bool contains(const emu_nodes *set, size_t i)
{
    for (size_t k = 0; k < set->n; k++)
        if (set->of[k] == i) return true;
    return false;
}

static cudaError_t dependencies(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    if (!node || !n) return cudaErrorInvalidValue;
    emu_lock();
    hand_out(&node->graph->body, &node_of(node)->after, out, n);
    emu_unlock();
    return cudaSuccess;
}

static cudaError_t dependents(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    emu_nodes found = {.n = 0};
    bool done = true;
    if (!node || !n) return cudaErrorInvalidValue;
    emu_lock();
    const emu_graph *g = &node->graph->body;
    for (size_t i = 0; i < g->n; i++)
        if (contains(&g->nodes[i].after, node->place)) done = done && emu_nodes_add(&found, i);
    if (done) hand_out(g, &found, out, n);
    emu_unlock();
    free(found.of);
    return done ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* With the lock. */
static bool may_add(cudaGraph_t to, cudaGraphNode_t from, cudaGraphNode_t behind)
{
    return from && behind && from != behind && from->graph == to && behind->graph == to &&
           !contains(&node_of(behind)->after, from->place);
}

static cudaError_t add_edges(cudaGraph_t to, const cudaGraphNode_t *from,
                             const cudaGraphNode_t *behind, size_t n)
{
    cudaError_t code = to ? cudaSuccess : cudaErrorInvalidValue;
    emu_lock();
    for (size_t i = 0; code == cudaSuccess && i < n; i++)
        if (!may_add(to, from[i], behind[i])) code = cudaErrorInvalidValue;
    for (size_t i = 0; code == cudaSuccess && i < n; i++)
        if (!emu_nodes_add(&node_of(behind[i])->after, from[i]->place))
            code = cudaErrorMemoryAllocation;
    emu_unlock();
    return code;
}

/* No edge carries data here. */
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                         cudaGraphEdgeData *data, size_t *n)
{
    EMU_ENTER(-1);
    return emu_leave(data ? cudaErrorNotSupported : dependencies(node, out, n));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                           cudaGraphEdgeData *data, size_t *n)
{
    EMU_ENTER(-1);
    return emu_leave(data ? cudaErrorNotSupported : dependents(node, out, n));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t to, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *behind, const cudaGraphEdgeData *data,
                                     size_t n)
{
    EMU_ENTER(-1);
    return emu_leave(data ? cudaErrorNotSupported : add_edges(to, from, behind, n));
}
#else
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    EMU_ENTER(-1);
    return emu_leave(dependencies(node, out, n));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    EMU_ENTER(-1);
    return emu_leave(dependents(node, out, n));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t to, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *behind, size_t n)
{
    EMU_ENTER(-1);
    return emu_leave(add_edges(to, from, behind, n));
}
#endif

/* ---- Changes --------------------------------------------------------------------------------- */

/* With the lock. */
static cudaError_t add_node(cudaGraph_t to, emu_work *work, const cudaGraphNode_t *after, size_t n,
                            cudaGraphNode_t *out)
{
    emu_graph *g = &to->body;
    emu_node added = {.work = work, .added = true};
    for (size_t i = 0; i < n; i++) {
        const bool fits =
            after[i] && after[i]->graph == to && !contains(&added.after, after[i]->place);
        if (fits && emu_nodes_add(&added.after, after[i]->place)) continue;
        free(added.after.of);
        return fits ? cudaErrorMemoryAllocation : cudaErrorInvalidValue;
    }
    emu_node *grown = realloc(g->nodes, (g->n + 1) * sizeof *grown);
    if (grown) g->nodes = grown;
    added.handle = grown ? emu_node_handle(to, g->n) : NULL;
    if (!added.handle) {
        free(added.after.of);
        return cudaErrorMemoryAllocation;
    }
    g->nodes[g->n++] = added;
    *out = added.handle;
    return cudaSuccess;
}

cudaError_t emu_graph_add(cudaGraph_t graph_handle, emu_work *work, const cudaGraphNode_t *after,
                          size_t n, cudaGraphNode_t *out)
{
    if (!work) return cudaErrorMemoryAllocation;
    emu_lock();
    const cudaError_t code =
        graph_handle ? add_node(graph_handle, work, after, n, out) : cudaErrorInvalidValue;
    if (code != cudaSuccess) emu_work_release(work);
    emu_unlock();
    return code;
}

/* The set without a node, whose number the ones behind it move into. */
static void forget(emu_nodes *set, size_t gone)
{
    size_t n = 0;
    for (size_t k = 0; k < set->n; k++)
        if (set->of[k] != gone) set->of[n++] = set->of[k] - (set->of[k] > gone);
    set->n = n;
}

/* Its edges go with it; who came after it does not come after what it came after. */
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    EMU_ENTER(-1);
    if (!node) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    emu_graph *g = &node->graph->body;
    const size_t gone = node->place;
    emu_work_release(g->nodes[gone].work);
    free(g->nodes[gone].after.of);
    free(node);
    for (size_t i = gone; i + 1 < g->n; i++) {
        g->nodes[i] = g->nodes[i + 1];
        g->nodes[i].handle->place = i;
    }
    g->n--;
    for (size_t i = 0; i < g->n; i++)
        forget(&g->nodes[i].after, gone);
    emu_unlock();
    return cudaSuccess;
}
