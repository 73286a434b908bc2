/* The sums that the host computes: pieces of complete buckets, each by a driver thread that would
   otherwise wait, in the order of ranks. */
#include "base/floats.h"
#include "collective/allreduce_state.h"
#include "device/communicator.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 4096,           /* elements that are summed at a time: 16 KiB, which stays in L1 */
    MOST_PIECE = 64 * 1024, /* elements that a rank takes upon itself at a time */
};

bool dpti_allreduce_is_finite(const dpti_member *m, dpti_range what)
{
    const size_t begin = what.begin, n = what.end - what.begin;
    bool finite = dpti_all_finite(m->view.host + begin, n);
    for (size_t k = 1; k < m->nodes.n; k++)
        finite = finite && dpti_all_finite(m->node_views[k - 1].host + begin, n);
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
        dpti_add_up(sum, a->members[r].view.host + begin, n, !any);
        any = true;
    }
    return any;
}

/* Nodes of the tree, from left to right, with their sums. */
typedef struct summed_nodes {
    size_t n_grains;
    dpti_grain_list list;
    float sums[DPTI_GRAIN_NODES][BLOCK];
} summed_nodes;

/* Appends a node, and joins nodes that are halves of one. */
static void append_node(summed_nodes *s, const dpti_grain_node *node, const float *sum, size_t n)
{
    dpti_grain_list *l = &s->list;
    memcpy(s->sums[l->n], sum, n * sizeof *sum);
    l->nodes[l->n++] = *node;
    while (l->n > 1 &&
           dpti_grains_are_halves(&l->nodes[l->n - 2], &l->nodes[l->n - 1], s->n_grains)) {
        dpti_add_up(s->sums[l->n - 2], s->sums[l->n - 1], n, false);
        l->nodes[l->n - 2].end = l->nodes[l->n - 1].end;
        l->n--;
    }
}

/* Sums the nodes of all members as far as they are halves of others. */
static void sum_members(const dpti_allreduce *a, size_t begin, size_t n, summed_nodes *s)
{
    s->list.n = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        const dpti_member *m = &a->members[r];
        if (!dpti_shows(m) || !m->contributes) continue;
        s->n_grains = m->n_grains;
        for (size_t k = 0; k < m->nodes.n; k++)
            append_node(s, &m->nodes.nodes[k],
                        (k == 0 ? m->view.host : m->node_views[k - 1].host) + begin, n);
    }
}

/* Sums along the tree of grains.  Returns false if no member contributes. */
static bool sum_nodes(const dpti_allreduce *a, size_t begin, size_t n, float sum[BLOCK])
{
    summed_nodes s;
    sum_members(a, begin, n, &s);
    if (s.list.n == 0) return false;
    memcpy(sum, s.sums[0], n * sizeof *sum);
    return true;
}

/* Whether the members' data are nodes of the tree of grains. */
static bool has_nodes(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (dpti_shows(&a->members[r]) && a->members[r].contributes && a->members[r].n_grains > 0)
            return true;
    return false;
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
                memcpy(a->members[r].view.host + begin, sum, n * sizeof *sum);
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
    r->next = end;
    r->n_summing++;
    pthread_mutex_unlock(&a->mutex);
    size_t n_flawed;
    const bool finite = dpti_allreduce_reduce(a, (dpti_range){begin, end}, &n_flawed);
    pthread_mutex_lock(&a->mutex);
    r->not_finite = r->not_finite || !finite;
    r->n_flawed += n_flawed;
    if (--r->n_summing == 0) pthread_cond_broadcast(&a->changed);
    return true;
}

/* ---- Nodes over processes -------------------------------------------------------------------- */

bool dpti_allreduce_has_nodes(const dpti_contribution *who)
{
    return who->n_grains > 0;
}

/* The nodes of all processes, and a table of the sums of one piece: (nodes, MOST_PIECE). */
typedef struct shared_nodes {
    size_t n_grains, n_processes, n;
    dpti_grain_node *nodes;
    size_t *firsts; /* (processes + 1) the nodes of each process */
    size_t *begins; /* (processes + 1) bytes in the table */
    float *table;
} shared_nodes;

static void free_shared(shared_nodes *s)
{
    free(s->table);
    free(s->begins);
    free(s->firsts);
    free(s->nodes);
}

static bool make_shared(const dpti_allreduce *a, const dpti_contribution *who, shared_nodes *s)
{
    const size_t n = dpti_processes_count(a->processes);
    *s = (shared_nodes){.n_grains = who->n_grains, .n_processes = n};
    s->nodes = calloc(n * DPTI_GRAIN_NODES, sizeof *s->nodes);
    s->firsts = calloc(n + 1, sizeof *s->firsts);
    s->begins = calloc(n + 1, sizeof *s->begins);
    if (!s->nodes || !s->firsts || !s->begins) return false;
    for (size_t p = 0; p < n; p++) {
        dpti_grain_list list = {.n = 0};
        if (who->borders[p] < who->borders[p + 1])
            dpti_grains_plan(&list, (dpti_grain_node){who->borders[p], who->borders[p + 1]},
                             who->n_grains, NULL);
        memcpy(s->nodes + s->n, list.nodes, list.n * sizeof *list.nodes);
        s->n += list.n;
        s->firsts[p + 1] = s->n;
    }
    s->table = calloc(s->n * (size_t)MOST_PIECE, sizeof *s->table);
    return s->table != NULL;
}

/* Where the sum of node k has the element `at` of a piece of n elements. */
static float *entry(const shared_nodes *s, size_t k, size_t n, size_t at)
{
    return s->table + k * n + at;
}

/* Sums a block of a piece of n_piece elements along the tree, from the table. */
static void sum_table(const shared_nodes *s, size_t n_piece, dpti_range block, float *to)
{
    const size_t n = block.end - block.begin;
    summed_nodes sums;
    sums.list.n = 0;
    sums.n_grains = s->n_grains;
    for (size_t k = 0; k < s->n; k++)
        append_node(&sums, &s->nodes[k], entry(s, k, n_piece, block.begin), n);
    if (s->n > 0)
        memcpy(to, sums.sums[0], n * sizeof *to);
    else
        memset(to, 0, n * sizeof *to);
}

/* Sums one piece over all processes, into the first member's data: block by block, with one message
   to each process. */
static dpt_status share_piece(const dpti_allreduce *a, const shared_nodes *s, dpti_range what,
                              dpt_status *verdict)
{
    const size_t own = s->firsts[dpti_processes_rank(a->processes)], n = what.end - what.begin;
    float *to = a->members[0].view.host + what.begin;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t size = n - at < BLOCK ? n - at : BLOCK;
        summed_nodes sums;
        sum_members(a, what.begin + at, size, &sums);
        for (size_t k = 0; k < sums.list.n; k++)
            memcpy(entry(s, own + k, n, at), sums.sums[k], size * sizeof(float));
    }
    for (size_t p = 0; p <= s->n_processes; p++)
        s->begins[p] = s->firsts[p] * n * sizeof(float);
    DPT_TRY(
        dpti_processes_share(a->processes, &(dpti_table){s->table, s->begins}, verdict, &error));
    for (size_t at = 0; at < n; at += BLOCK)
        sum_table(s, n, (dpti_range){at, n - at < BLOCK ? n : at + BLOCK}, to + at);
    if (a->wants_finite && !dpti_all_finite(to, n)) *verdict = DPT_E_NOT_FINITE;
    return DPT_OK;
}

dpt_status dpti_allreduce_share_nodes(dpti_allreduce *allreduce, const dpti_contribution *who,
                                      dpt_status *verdict)
{
    const dpti_allreduce *a = allreduce;
    shared_nodes s;
    dpt_status status = make_shared(a, who, &s) ? DPT_OK : DPT_E_NO_MEMORY;
    *verdict = status;
    if (status != DPT_OK) dpti_processes_give_up(a->processes); /* the others wait for this one */
    for (size_t begin = 0; status == DPT_OK && begin < a->count; begin += MOST_PIECE) {
        dpt_status piece = DPT_OK;
        const size_t left = a->count - begin;
        const size_t end = begin + (left < MOST_PIECE ? left : MOST_PIECE);
        status = share_piece(a, &s, (dpti_range){begin, end}, &piece);
        if (piece != DPT_OK) *verdict = piece;
    }
    free_shared(&s);
    return status;
}
