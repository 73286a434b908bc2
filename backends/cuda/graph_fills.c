/* Replacing small fills of a graph by kernels.  Libraries set a few words to zero before their
   kernels.  A card takes some microseconds to go from a kernel to a fill and to the next kernel,
   and less than one microsecond to go from kernel to kernel. */
#include "graph_fills.h"
#include "fill.h"
#include "kernels/table.h"
#include "size.h"
#include "state.h"

#include <stdlib.h>

/* ---- Edges ----------------------------------------------------------------------------------- */

/* Edges without data.  An edge has data if, for example, a kernel begins before the one before it
   ends.  These queries fail for such an edge, and the fill is not replaced. */
static cudaError_t nodes_before(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
#if CUDART_VERSION >= 13000
    return cudaGraphNodeGetDependencies(node, out, NULL, n);
#else
    return cudaGraphNodeGetDependencies(node, out, n);
#endif
}

static cudaError_t nodes_behind(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
#if CUDART_VERSION >= 13000
    return cudaGraphNodeGetDependentNodes(node, out, NULL, n);
#else
    return cudaGraphNodeGetDependentNodes(node, out, n);
#endif
}

static cudaError_t add_edges(cudaGraph_t graph, const cudaGraphNode_t *from,
                             const cudaGraphNode_t *to, size_t n)
{
#if CUDART_VERSION >= 13000
    return cudaGraphAddDependencies(graph, from, to, NULL, n);
#else
    return cudaGraphAddDependencies(graph, from, to, n);
#endif
}

/* ---- One fill -------------------------------------------------------------------------------- */

typedef struct graph_fill {
    cudaGraphNode_t node;
    void *to;
    uint64_t n_words;
    uint32_t pattern;
    size_t n_before, n_behind;
} graph_fill;

/* The nodes of a graph, and room for the nodes before and behind one of them. */
typedef struct graph_nodes {
    cudaGraph_t graph;
    size_t n;
    cudaGraphNode_t *all, *before, *behind;
    cudaGraphNode_t *same; /* one node n times: the origin of several edges */
} graph_nodes;

/* Whether a call succeeded.  A failure only means that a fill stays; if the card is lost, the next
   call of the backend reports it, too. */
static bool works(cudaError_t code)
{
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess;
}

static uint32_t repeated(unsigned value, unsigned element_bytes)
{
    return element_bytes == 1   ? (value & 0xff) * 0x01010101u
           : element_bytes == 2 ? (value & 0xffff) * 0x00010001u
                                : value;
}

static bool is_small(cudaGraphNode_t node, graph_fill *out)
{
    enum cudaGraphNodeType type;
    struct cudaMemsetParams p;
    if (!works(cudaGraphNodeGetType(node, &type)) || type != cudaGraphNodeTypeMemset ||
        !works(cudaGraphMemsetNodeGetParams(node, &p)) || p.height != 1 || p.elementSize > 4 ||
        p.width > DPT_CUDA_SMALL_FILL_BYTES)
        return false;
    const size_t n_bytes = p.width * p.elementSize;
    if (n_bytes == 0 || n_bytes > DPT_CUDA_SMALL_FILL_BYTES ||
        (n_bytes | (uintptr_t)p.dst) % sizeof(uint32_t) != 0)
        return false;
    *out = (graph_fill){.node = node,
                        .to = p.dst,
                        .n_words = n_bytes / sizeof(uint32_t),
                        .pattern = repeated(p.value, p.elementSize)};
    return true;
}

static bool find_neighbours(graph_nodes *g, graph_fill *f)
{
    f->n_before = f->n_behind = g->n;
    return works(nodes_before(f->node, g->before, &f->n_before)) &&
           works(nodes_behind(f->node, g->behind, &f->n_behind));
}

/* Adds dpt_fill to the graph, behind the nodes that the fill is behind. */
static cudaError_t add_kernel(const dpt_cuda_device *cuda, const graph_nodes *g, graph_fill *f,
                              cudaGraphNode_t *out)
{
    uint64_t place = 0;
    void *arguments[] = {&f->to, &place, &f->n_words, &f->pattern};
    const unsigned group = cuda->traits.group_size;
    const struct cudaKernelNodeParams params = {
        .func = (void *)cuda->fill->function, /* CUDA only looks the address up */
        .gridDim = {(unsigned)dpt_ceil_div(f->n_words, group), 1, 1},
        .blockDim = {group, 1, 1},
        .kernelParams = arguments,
    };
    return cudaGraphAddKernelNode(out, g->graph, g->before, f->n_before, &params);
}

/* Replaces one fill.  The kernel has all edges of the fill before the fill is destroyed.  If the
   fill cannot be destroyed, both do the same between the same nodes, which is harmless.  A kernel
   that no node waits for would be harmful, so it is destroyed. */
static cudaError_t replace(const dpt_device *device, graph_nodes *g, graph_fill *f)
{
    cudaGraphNode_t kernel;
    if (!find_neighbours(g, f) || !works(dpt_cuda_choose(device)) ||
        !works(add_kernel(dpt_cuda_device_of(device), g, f, &kernel)))
        return cudaSuccess;
    for (size_t i = 0; i < f->n_behind; i++)
        g->same[i] = kernel;
    const bool connected = works(add_edges(g->graph, g->same, g->behind, f->n_behind));
    if (connected && works(cudaGraphDestroyNode(f->node))) return cudaSuccess;
    const cudaError_t code = cudaGraphDestroyNode(kernel);
    return works(code) || connected ? cudaSuccess : code;
}

/* ---- All of them ----------------------------------------------------------------------------- */

cudaError_t dpt_cuda_graph_replace_fills(const dpt_device *device, cudaGraph_t graph)
{
    graph_nodes g = {.graph = graph};
    cudaError_t code = cudaSuccess;
    if (!works(cudaGraphGetNodes(graph, NULL, &g.n)) || g.n == 0) return cudaSuccess;
    g.all = calloc(g.n, 4 * sizeof(*g.all));
    if (!g.all) return cudaSuccess;
    g.before = g.all + g.n;
    g.behind = g.before + g.n;
    g.same = g.behind + g.n;
    if (!works(cudaGraphGetNodes(graph, g.all, &g.n))) g.n = 0;
    for (size_t i = 0; i < g.n && code == cudaSuccess; i++) {
        graph_fill f;
        if (is_small(g.all[i], &f)) code = replace(device, &g, &f);
    }
    free(g.all);
    return code;
}
