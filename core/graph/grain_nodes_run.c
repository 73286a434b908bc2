/* The memory for nodes of grains (grain_nodes.h). */
#include "graph/grain_nodes.h"

#include "device/stream.h"
#include "graph/grain_sums.h"
#include "graph/replica.h"

/* ---- What segments write --------------------------------------------------------------------- */

/* A visit of the sums over samples that a segment writes to the flat buffer. */
typedef struct visit {
    dpti_grain_nodes *nodes;
    size_t segment, n_before; /* buckets that are contributed before the segment */
    size_t after;             /* the most that a bucket has to wait for */
    size_t *n_written;        /* (buckets) elements that are written whatever was there; NULL: not
                                 wanted */
    bool *found;              /* (buckets) a segment that writes it is found */
} visit;

/* n: of the elements that are written whatever was there. */
static void visit_sum(visit *v, size_t begin, size_t n)
{
    dpti_grain_nodes *nodes = v->nodes;
    const size_t k = dpti_node_bucket_of(&nodes->places, begin);
    if (k == nodes->places.n_buckets) return;
    if (nodes->places.buckets[k].after > v->after) v->after = nodes->places.buckets[k].after;
    if (!v->n_written) return;
    if (!v->found[k]) {
        nodes->places.buckets[k].n_before = v->n_before;
        nodes->first_in[k] = v->segment;
        v->found[k] = true;
    }
    v->n_written[k] += n;
}

/* Whether an instruction writes gradients that have the places of nodes. */
static bool writes_places(const dpti_executable *x, size_t i)
{
    return x->replica->windowed ? x->ops[i].device != NULL : dpti_sums_over_grains(x, i);
}

/* Whether output s of an instruction does not depend on what was there. */
static bool overwrites(const dpti_executable *x, size_t i, size_t s)
{
    const dpti_instruction *instruction = &x->program.instructions[i];
    if (!x->replica->windowed) return true;
    return !(instruction->flags & DPT_RUN_ACCUMULATE) && !instruction->clears &&
           dpti_writes_all(&instruction->desc, &x->ops[i].signature, s);
}

static void visit_segment(const dpti_executable *x, visit *v)
{
    const dpti_segment *segment = &x->program.segments[v->segment];
    for (size_t i = segment->first; i < segment->last; i++) {
        const dpti_signature *signature = &x->ops[i].signature;
        if (!writes_places(x, i)) continue;
        for (size_t s = 0; s < signature->n_out; s++) {
            const dpti_program_tensor *t = &x->program.tensors[x->program.instructions[i].out[s]];
            if (t->home != DPTI_HOME_GRADIENTS) continue;
            visit_sum(v, t->offset, overwrites(x, i, s) ? signature->out[s].fixed : 0);
        }
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* A bucket that nothing writes is cleared in the segment that it ends. */
static void find_buckets(const dpti_program *program, dpti_grain_nodes *nodes)
{
    dpti_node_places *p = &nodes->places;
    for (size_t s = 0; s < program->n_segments && p->n_buckets < DPTI_NODE_BUCKETS; s++) {
        const dpti_segment *segment = &program->segments[s];
        if (segment->exchange != DPTI_EXCHANGE_BUCKET) continue;
        nodes->first_in[p->n_buckets] = s;
        p->buckets[p->n_buckets] = (dpti_node_bucket){
            .begin = segment->begin, .end = segment->end, .n_before = p->n_buckets};
        p->n_buckets++;
    }
}

void dpti_grain_nodes_place(const dpti_executable *executable, bool whole)
{
    const dpti_executable *x = executable;
    dpti_grain_nodes *nodes = &x->replica->nodes;
    size_t n_written[DPTI_NODE_BUCKETS] = {0};
    bool found[DPTI_NODE_BUCKETS] = {false};
    visit v = {.nodes = nodes, .n_written = n_written, .found = found};
    nodes->places = (dpti_node_places){.n_buckets = 0};
    if (!whole) find_buckets(&x->program, nodes);
    for (; !x->program.segments[v.segment].commits; v.segment++) {
        visit_segment(x, &v);
        v.n_before += x->program.segments[v.segment].exchange == DPTI_EXCHANGE_BUCKET;
    }
    for (size_t k = 0; k < nodes->places.n_buckets; k++) {
        const dpti_node_bucket *b = &nodes->places.buckets[k];
        nodes->cleared[k] = n_written[k] != b->end - b->begin;
    }
    dpti_place_nodes(&nodes->places, x->program.n_gradients);
}

size_t dpti_grain_nodes_after(const dpti_executable *executable, size_t segment)
{
    const dpti_executable *x = executable;
    dpti_grain_nodes *nodes = &x->replica->nodes;
    visit v = {.nodes = nodes, .segment = segment};
    do {
        v.segment++;
        visit_segment(x, &v);
        for (size_t k = 0; k < nodes->places.n_buckets; k++)
            if (nodes->first_in[k] == v.segment && nodes->places.buckets[k].after > v.after)
                v.after = nodes->places.buckets[k].after;
    } while (x->program.segments[v.segment].exchange != DPTI_EXCHANGE_BUCKET &&
             x->program.segments[v.segment].exchange != DPTI_EXCHANGE_GRADIENTS);
    return v.after;
}

dpt_status dpti_grain_nodes_clear(const dpti_executable *executable, size_t segment)
{
    const dpti_grain_nodes *nodes = &executable->replica->nodes;
    if (executable->replica->kept) return DPT_OK;
    for (size_t k = 0; k < nodes->places.n_buckets; k++) {
        const dpti_node_bucket *b = &nodes->places.buckets[k];
        const bool clears = nodes->cleared[k] && nodes->first_in[k] == segment;
        const size_t at = b->at * sizeof(float), n_bytes = (b->end - b->begin) * sizeof(float);
        for (size_t i = 0; clears && i < nodes->n; i++)
            DPT_TRY(dpti_fill(&nodes->buffers[i], at, 0, n_bytes));
        if (clears && executable->replica->windowed)
            DPT_TRY(dpti_fill(&executable->replica->gradients, at, 0, n_bytes));
    }
    return DPT_OK;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

dpt_status dpti_grain_nodes_hold(dpti_replica *replica, size_t n)
{
    dpti_grain_nodes *nodes = &replica->nodes;
    const size_t n_bytes = dpti_grain_nodes_bytes(nodes, 1);
    while (nodes->n < n) {
        dpti_buffer *buffer = &nodes->buffers[nodes->n];
        DPT_TRY(dpti_alloc(replica->device, n_bytes, buffer));
        nodes->n++;
        DPT_TRY(dpti_fill(buffer, 0, 0, n_bytes));
    }
    return DPT_OK;
}

void dpti_grain_nodes_free(dpti_grain_nodes *nodes)
{
    while (nodes->n > 0)
        dpti_free(&nodes->buffers[--nodes->n]);
}

size_t dpti_grain_nodes_bytes(const dpti_grain_nodes *nodes, size_t n)
{
    return n * nodes->places.n_elements * sizeof(float);
}
