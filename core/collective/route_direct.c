/* The direct route.  Every process sends every other process its part of that process's slice, sums
   its own slice, and sends the sum to all.  These are two phases of messages, however many
   processes there are.  An all-gather is the second phase only, a reduce-scatter the first.

   Elements of a packed all-reduce are bfloat16 at the beginning of their memory while they travel.
 */
#include "base/bfloat16.h"
#include "base/floats.h"
#include "collective/route.h"

#include <string.h>

enum { BLOCK = 4096 /* elements that are summed at a time: 16 KiB, which stays in L1 */ };

static size_t n_staged(size_t n)
{
    return n - 1;
}

static dpti_range part_of(const dpti_unit *u, size_t r)
{
    return dpti_chunk_of(dpti_slice_of(u->link, u->what, r), u->chunk);
}

static float *staging_of(const dpti_unit *u, size_t r)
{
    return u->staging + (r < u->link->rank ? r : r - 1) * DPTI_CHUNK;
}

/* Rounds the elements of a range, with their residual. */
static void pack(const dpti_collective *what, dpti_range elements)
{
    const float *residual = what->residual ? what->residual + elements.begin : NULL;
    dpti_bfloat16_pack(what->data + elements.begin, residual, what->owes + elements.begin,
                       dpti_range_size(elements));
}

/* A process that does not contribute keeps its residual. */
static void keep_owing(const dpti_collective *what, dpti_range elements)
{
    const size_t n_bytes = dpti_range_size(elements) * sizeof(float);
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
    if (!own && dpti_is_packed(u->what)) {
        if (first) memset(block, 0, n * sizeof *block);
        dpti_bfloat16_add(block, (const uint16_t *)(const void *)from + offset, n);
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
            dpti_bfloat16_unpack(u->what->data + his.begin, dpti_range_size(his));
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
        if (u->what->kind != DPTI_ALL_GATHER) sum(u);
        if (gathers) contribute_own(u);
        return gathers;
    default:
        if (u->what->kind == DPTI_ALL_REDUCE) adopt(u);
        return false;
    }
}

const dpti_route_steps dpti_route_direct = {
    .n_staged = n_staged,
    .n_chunks = dpti_count_slice_chunks,
    .begin = begin,
};
