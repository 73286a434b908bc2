/* The sums that the host computes: pieces of complete buckets, each by a driver thread that would
   otherwise wait, in the order of ranks, or along the tree of grains. */
#include "base/floats.h"
#include "collective/allreduce_state.h"
#include "collective/node_sums.h"
#include "device/communicator.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 4096,           /* elements that are summed at a time: 16 KiB, which stays in L1 */
    MOST_PIECE = 64 * 1024, /* elements that a rank takes upon itself at a time */
};

/* ---- Nodes of grains ------------------------------------------------------------------------- */

bool dpti_allreduce_has_nodes(const dpti_contribution *who)
{
    return who->n_grains > 0;
}

/* A rank that had no memory for the buffer of a node has failed, and nobody relies on the sums.
   They are computed all the same, with the first node in place of such a node. */
static float *sum_of_node(const dpti_member *m, size_t k, size_t begin)
{
    if (k == 0 || !m->node_views[k - 1].buffer) return dpti_member_data(m, begin);
    return m->node_views[k - 1].host + dpti_node_place(m->places, begin);
}

bool dpti_allreduce_is_finite(const dpti_member *m, dpti_range what)
{
    const size_t begin = what.begin, n = what.end - what.begin;
    bool finite = dpti_all_finite(dpti_member_data(m, begin), n);
    for (size_t k = 1; k < m->nodes.n; k++)
        finite = finite && dpti_all_finite(sum_of_node(m, k, begin), n);
    return finite;
}

/* Called when a sum is not finite.  Marks the members whose contributions are not finite, and
   returns how many are newly marked.  Members of an island are left out: they have checked their
   own contributions, so only their sum can be the reason. */
static size_t blame(dpti_allreduce *a, size_t begin, size_t n)
{
    size_t n_more = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        dpti_member *m = &a->members[r];
        if (dpti_shows(m) && m->contributes && !m->island_slot.island &&
            !dpti_allreduce_is_finite(m, (dpti_range){begin, begin + n}))
            n_more += !atomic_exchange(&m->flawed, true);
    }
    return n_more;
}

/* Sums in the order of ranks; float addition is not associative, and replicas must agree to the
   bit.  Returns false if no member contributes. */
static bool sum_ranks(const dpti_allreduce *a, size_t begin, size_t n, float sum[BLOCK])
{
    bool any = false;
    for (size_t r = 0; r < a->n_ranks; r++) {
        if (!dpti_shows(&a->members[r]) || !a->members[r].contributes) continue;
        dpti_add_up(sum, dpti_member_data(&a->members[r], begin), n, !any);
        any = true;
    }
    return any;
}

/* Copies of the sums of some elements. */
typedef struct node_copies {
    dpti_node_sums sums;
    float values[DPTI_GRAIN_NODES][BLOCK];
} node_copies;

/* Copies the nodes of all members, which follow each other, and adds them up. */
static void sum_members(const dpti_allreduce *a, size_t begin, size_t n, node_copies *copies)
{
    copies->sums.list.n = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        const dpti_member *m = &a->members[r];
        if (!dpti_shows(m) || !m->contributes) continue;
        for (size_t k = 0; k < m->nodes.n; k++) {
            float *copy = copies->values[copies->sums.list.n];
            memcpy(copy, sum_of_node(m, k, begin), n * sizeof *copy);
            dpti_node_sums_append(&copies->sums,
                                  &(dpti_node_sum){m->nodes.nodes[k], m->n_grains, copy, n});
        }
    }
}

/* Sums along the tree of grains.  Returns false if no member contributes. */
static bool sum_nodes(const dpti_allreduce *a, size_t begin, size_t n, float sum[BLOCK])
{
    node_copies copies;
    sum_members(a, begin, n, &copies);
    if (copies.sums.list.n == 0) return false;
    memcpy(sum, copies.sums.sums[0], n * sizeof *sum);
    return true;
}

void dpti_allreduce_join_members(const dpti_allreduce *allreduce, dpti_range what, bool adds,
                                 dpti_node_sums *out)
{
    const size_t n = adds ? what.end - what.begin : 0;
    out->list.n = 0;
    for (size_t r = 0; r < allreduce->n_ranks; r++) {
        const dpti_member *m = &allreduce->members[r];
        if (!dpti_shows(m) || !m->contributes) continue;
        for (size_t k = 0; k < m->nodes.n; k++)
            dpti_node_sums_append(out, &(dpti_node_sum){m->nodes.nodes[k], m->n_grains,
                                                        sum_of_node(m, k, what.begin), n});
    }
}

/* Whether the members' data are nodes of the tree of grains. */
static bool has_nodes(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (dpti_shows(&a->members[r]) && a->members[r].contributes && a->members[r].n_grains > 0)
            return true;
    return false;
}

static void write_sum(const dpti_allreduce *a, const dpti_member *m, size_t begin, dpti_sums what)
{
    if (m->windowed && !a->processes)
        dpti_window_write(a, m, begin, what);
    else
        memcpy(dpti_member_data(m, begin), what.values, what.n * sizeof *what.values);
}

bool dpti_allreduce_reduce(dpti_allreduce *allreduce, dpti_range what, size_t *n_flawed)
{
    dpti_allreduce *a = allreduce;
    const size_t n_written = a->processes ? 1 : a->n_ranks;
    const bool looks = a->wants_finite && !a->processes; /* else each rank has */
    const bool nodes = has_nodes(a);
    bool finite = true;
    float sum[BLOCK];
    *n_flawed = 0;
    for (size_t begin = what.begin; begin < what.end; begin += BLOCK) {
        const size_t n = what.end - begin < BLOCK ? what.end - begin : BLOCK;
        if (!(nodes ? sum_nodes(a, begin, n, sum) : sum_ranks(a, begin, n, sum)))
            memset(sum, 0, n * sizeof *sum);
        if (looks && !dpti_all_finite(sum, n)) {
            finite = false;
            *n_flawed += blame(a, begin, n);
        }
        for (size_t r = 0; r < n_written; r++)
            if (dpti_shows(&a->members[r]))
                write_sum(a, &a->members[r], begin, (dpti_sums){sum, n});
    }
    return finite;
}

static size_t round_up_to_lines(size_t n)
{
    return (n + DPTI_LINE - 1) / DPTI_LINE * DPTI_LINE;
}

bool dpti_allreduce_sum_piece(dpti_allreduce *allreduce, dpti_round *round)
{
    dpti_allreduce *a = allreduce;
    dpti_round *r = round;
    const dpti_range *bucket;
    for (;; r->bucket++) {
        if (r->bucket == r->n_complete) return false;
        bucket = &r->buckets[r->bucket];
        if (r->next < bucket->begin) r->next = bucket->begin;
        if (r->next < bucket->end) break;
        r->next = 0;
    }
    size_t n = round_up_to_lines(
        (bucket->end - bucket->begin) / dpti_allreduce_count_present(a, a->n_ranks) + 1);
    if (n > MOST_PIECE) n = MOST_PIECE;
    const size_t begin = r->next, end = bucket->end - begin < n ? bucket->end : begin + n;
    size_t *n_summed = &r->n_summed[r->bucket];
    r->next = end;
    r->n_summing++;
    pthread_mutex_unlock(&a->mutex);
    size_t n_flawed;
    const bool finite = dpti_allreduce_reduce(a, (dpti_range){begin, end}, &n_flawed);
    pthread_mutex_lock(&a->mutex);
    r->not_finite = r->not_finite || !finite;
    r->n_flawed += n_flawed;
    *n_summed += end - begin;
    if (--r->n_summing == 0 || *n_summed == bucket->end - bucket->begin)
        pthread_cond_broadcast(&a->changed);
    return true;
}
