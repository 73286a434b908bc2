/* The direct route.  Every process sends every other process its part of that process's slice, sums
   its own slice, and sends the sum to all.  These are two phases of messages, however many
   processes there are.  An all-gather is the second phase only, a reduce-scatter the first.

   The parts of a sum along the tree of grains are the sums of a process's nodes, of which there may
   be several.  Its chunks are smaller, so that they fit into the same staging memory.

   Packed elements are at the beginning of their memory while they travel.
 */
#include "base/floats.h"
#include "collective/node_sums.h"
#include "collective/route.h"

#include <string.h>

enum {
    BLOCK = 4096, /* elements that are summed at a time: 16 KiB, which stays in L1 */
    LINE = 16,    /* elements: a cache line */
};

_Static_assert(BLOCK % DPTI_PACKING_UNIT == 0, "a block begins a unit of a packed array");

static size_t n_staged(size_t n)
{
    return n - 1;
}

/* Elements of a chunk of a slice. */
static size_t chunk_size(const dpti_link *link, const dpti_collective *what)
{
    const size_t n_parts = what->tree ? what->tree->n_nodes : 0, n_staging = n_staged(link->n);
    if (n_parts <= n_staging || n_staging == 0) return DPTI_CHUNK;
    return DPTI_CHUNK * n_staging / n_parts / LINE * LINE;
}

static size_t n_chunks(const dpti_link *link, const dpti_collective *what)
{
    return dpti_count_slice_chunks(link, what, chunk_size(link, what));
}

static dpti_range part_of(const dpti_unit *u, size_t r)
{
    return dpti_chunk_of(dpti_slice_of(u->link, u->what, r), u->chunk,
                         chunk_size(u->link, u->what));
}

static float *staging_of(const dpti_unit *u, size_t r)
{
    return u->staging + (r < u->link->rank ? r : r - 1) * DPTI_CHUNK;
}

/* ---- Along the tree -------------------------------------------------------------------------- */

static bool is_own(const dpti_unit *u, size_t node)
{
    const size_t *firsts = u->what->tree->firsts;
    return node >= firsts[u->link->rank] && node < firsts[u->link->rank + 1];
}

/* Where the sum of a node has the element `at` of this process's slice. */
static float *sum_of_node(const dpti_unit *u, size_t node, size_t at)
{
    const dpti_collective *what = u->what;
    const size_t first = what->tree->firsts[u->link->rank];
    if (is_own(u, node)) return what->own[node - first] + at;
    return u->staging + node * chunk_size(u->link, what) + at - part_of(u, u->link->rank).begin;
}

static void send_nodes(dpti_unit *u, size_t r)
{
    const dpti_collective_tree *tree = u->what->tree;
    const dpti_range his = part_of(u, r), mine = part_of(u, u->link->rank);
    const size_t *firsts = tree->firsts, rank = u->link->rank;
    for (size_t k = firsts[rank]; k < firsts[rank + 1]; k++)
        dpti_unit_send(u, r, u->what->own[k - firsts[rank]] + his.begin, dpti_range_size(his));
    for (size_t k = firsts[r]; k < firsts[r + 1]; k++)
        dpti_unit_receive(u, r, sum_of_node(u, k, mine.begin), dpti_range_size(mine));
}

static void sum_nodes(const dpti_unit *u)
{
    const dpti_collective_tree *tree = u->what->tree;
    const dpti_range mine = part_of(u, u->link->rank);
    for (size_t begin = mine.begin; begin < mine.end; begin += BLOCK) {
        const size_t n = mine.end - begin < BLOCK ? mine.end - begin : BLOCK;
        dpti_node_sums sums = {.list = {.n = 0}};
        for (size_t k = 0; k < tree->n_nodes; k++)
            dpti_node_sums_append(&sums, &(dpti_node_sum){tree->nodes[k], tree->n_grains,
                                                          sum_of_node(u, k, begin), n});
        if (sums.list.n == 0)
            memset(u->what->data + begin, 0, n * sizeof(float));
        else if (sums.sums[0] != u->what->data + begin)
            memcpy(u->what->data + begin, sums.sums[0], n * sizeof(float));
    }
}

/* ---- In the order of ranks ------------------------------------------------------------------- */

/* Rounds the elements of a range, with their residual. */
static void pack(const dpti_collective *what, dpti_range elements)
{
    const float *residual = what->residual ? what->residual + elements.begin : NULL;
    float *owes = what->owes ? what->owes + elements.begin : NULL;
    what->packing->pack(what->data + elements.begin, residual, owes, dpti_range_size(elements));
}

/* A process that does not contribute keeps its residual. */
static void keep_owing(const dpti_collective *what, dpti_range elements)
{
    const size_t n_bytes = dpti_range_size(elements) * sizeof(float);
    if (!what->owes) return;
    if (what->residual)
        memcpy(what->owes + elements.begin, what->residual + elements.begin, n_bytes);
    else
        memset(what->owes + elements.begin, 0, n_bytes);
}

/* Makes this process's part of a slice ready to be sent.  Its part of its own slice is not sent and
   stays unrounded. */
static void make_part(const dpti_unit *u, size_t r, dpti_range his)
{
    dpti_prepare_part(u, his);
    if (!dpti_is_packed(u->what) || r == u->link->rank || his.begin == his.end) return;
    if (u->what->contributes[u->link->rank])
        pack(u->what, his);
    else
        keep_owing(u->what, his);
}

static void contribute_parts(dpti_unit *u)
{
    const dpti_collective *what = u->what;
    const size_t rank = u->link->rank;
    for (size_t r = 0; r < u->link->n; r++) {
        const dpti_range his = part_of(u, r);
        make_part(u, r, his);
        if (r == rank) continue;
        if (what->tree) {
            send_nodes(u, r);
            continue;
        }
        if (what->contributes[rank])
            dpti_unit_send(u, r, what->data + his.begin, dpti_range_size(his));
        if (what->contributes[r])
            dpti_unit_receive(u, r, staging_of(u, r), dpti_range_size(part_of(u, rank)));
    }
}

static void contribute_own(dpti_unit *u)
{
    float *data = u->what->data;
    const dpti_range mine = part_of(u, u->link->rank);
    for (size_t r = 0; r < u->link->n; r++) {
        const dpti_range his = part_of(u, r);
        if (r == u->link->rank) continue;
        dpti_unit_send(u, r, data + mine.begin, dpti_range_size(mine));
        dpti_unit_receive(u, r, data + his.begin, dpti_range_size(his));
    }
}

/* Sums of some elements of this process's slice. */
typedef struct block_sums {
    dpti_range elements;
    float values[BLOCK]; /* undefined while empty */
    bool empty;          /* no process's part has been added */
} block_sums;

/* Adds the part of process r. */
static void add_part(const dpti_unit *u, size_t r, block_sums *sums)
{
    const dpti_range elements = sums->elements;
    float *block = sums->values;
    const bool first = sums->empty;
    const size_t n = dpti_range_size(elements);
    const size_t offset = elements.begin - part_of(u, u->link->rank).begin;
    const bool own = r == u->link->rank;
    const float *from = own ? u->what->data + elements.begin : staging_of(u, r);
    const dpti_packing *packing = u->what->packing;
    if (!own && packing) {
        if (first) memset(block, 0, n * sizeof *block);
        packing->add(block, (const char *)from + packing->n_bytes(offset), n);
        return;
    }
    dpti_add_up(block, own ? from : from + offset, n, first);
}

/* Sums this process's slice in the order of ranks: float addition is not associative, and a sum
   must not depend on the process that computes it. */
static void sum(const dpti_unit *u)
{
    const dpti_collective *what = u->what;
    const dpti_range mine = part_of(u, u->link->rank);
    block_sums sums;
    for (size_t begin = mine.begin; begin < mine.end; begin += BLOCK) {
        const size_t n = mine.end - begin < BLOCK ? mine.end - begin : BLOCK;
        sums.elements = (dpti_range){begin, begin + n};
        sums.empty = true;
        for (size_t r = 0; r < u->link->n; r++) {
            if (!what->contributes[r]) continue;
            add_part(u, r, &sums);
            sums.empty = false;
        }
        if (sums.empty) memset(sums.values, 0, n * sizeof *sums.values);
        memcpy(what->data + begin, sums.values, n * sizeof *sums.values);
    }
    if (dpti_is_packed(what)) pack(what, mine);
}

/* Takes the sums of all slices.  A process takes the sum of its own slice from the bytes that it
   has sent, and checks it, as the other processes do. */
static void adopt(const dpti_unit *u)
{
    for (size_t r = 0; r < u->link->n; r++) {
        const dpti_range his = part_of(u, r);
        if (dpti_is_packed(u->what))
            u->what->packing->unpack(u->what->data + his.begin, dpti_range_size(his));
        dpti_look_at_sum(u, his);
    }
}

static bool begin(dpti_unit *u, unsigned k)
{
    const bool gathers = u->what->kind != DPTI_REDUCE_SCATTER;
    if (u->what->kind == DPTI_ALL_GATHER) k++;
    switch (k) {
    case 0: contribute_parts(u); return true;
    case 1:
        if (u->what->tree)
            sum_nodes(u);
        else if (u->what->kind != DPTI_ALL_GATHER)
            sum(u);
        if (gathers) contribute_own(u);
        return gathers;
    default:
        if (u->what->kind == DPTI_ALL_REDUCE) adopt(u);
        return false;
    }
}

const dpti_route_steps dpti_route_direct = {
    .n_staged = n_staged,
    .n_chunks = n_chunks,
    .begin = begin,
};
