/* How ranks contribute to a sum: into host memory, or to their island, one of whose members shows
   the island's sum in host memory; and from there to the other processes. */
#include "base/clock.h"
#include "base/floats.h"
#include "collective/allreduce.h"
#include "collective/allreduce_state.h"
#include "device/communicator.h"
#include "dpt_error.h"

/* ---- Contributions --------------------------------------------------------------------------- */

/* With several processes each rank checks its own contribution, because other processes see sums
   only and cannot tell which rank's values are not finite. */
static void look_at_own(const dpti_allreduce *a, dpti_member *m, dpti_range what, dpt_status *mine)
{
    if (!a->processes || !a->wants_finite || !m->contributes || *mine != DPT_OK) return;
    if (dpti_allreduce_is_finite(m, what)) return;
    m->blame = DPTI_BLAME_OWN;
    *mine = DPT_E_NOT_FINITE;
}

/* The elements that stand at a place in the data of a reduction. */
static dpti_range elements_at(const dpti_reduction *r, const float *data, size_t count)
{
    const size_t first = r->what.begin + (size_t)(data - r->data);
    return (dpti_range){first, first + count};
}

/* Computes this process's sum of elements that its communication thread is about to send. */
static void prepare_sum(void *user, float *data, size_t count)
{
    const dpti_reduction *r = user;
    size_t n_flawed;
    (void)dpti_allreduce_reduce(r->allreduce, elements_at(r, data, count), &n_flawed);
}

/* Adds up this process's nodes of such elements. */
static void prepare_nodes(void *user, float *data, size_t count)
{
    const dpti_reduction *r = user;
    dpti_node_sums sums;
    dpti_allreduce_join_members(r->allreduce, elements_at(r, data, count), true, &sums);
}

/* Gives the sums to windows: their places are used again. */
static void take_sums(void *user)
{
    const dpti_reduction *r = user;
    dpti_windows_take(r->allreduce, r->what, r->data);
}

/* Finds the nodes of all processes.  They stay until all reductions of the run are over. */
static void find_tree(dpti_allreduce *a, const dpti_contribution *who)
{
    dpti_collective_tree *tree = &a->tree;
    if (tree->n_grains > 0) return;
    tree->n_grains = who->n_grains;
    tree->n_nodes = 0;
    for (size_t p = 0; p < dpti_processes_count(a->processes); p++) {
        dpti_grain_list list = {.n = 0};
        (void)dpti_grains_plan(&list, (dpti_grain_node){who->borders[p], who->borders[p + 1]},
                               who->n_grains, NULL);
        for (size_t k = 0; k < list.n; k++)
            tree->nodes[tree->n_nodes++] = list.nodes[k];
        tree->firsts[p + 1] = tree->n_nodes;
    }
}

/* Starts the reduction of a part of the data: `shape` is the reduction of all of them. */
static void start_part(dpti_allreduce *a, const dpti_collective *shape, dpti_range what,
                       const dpti_feedback *feedback)
{
    dpti_node_sums own = {.list = {.n = 0}};
    if (what.begin >= what.end) return;
    dpti_collective reduction = *shape;
    if (shape->tree) dpti_allreduce_join_members(a, what, false, &own);
    for (size_t k = 0; k < own.list.n; k++)
        reduction.own[k] = own.sums[k];
    const size_t n_most = sizeof a->reductions / sizeof *a->reductions;
    dpti_reduction *r = &a->reductions[a->n_reductions++ % n_most];
    *r = (dpti_reduction){a, what, dpti_member_data(&a->members[0], what.begin)};
    reduction.user = r;
    reduction.data = r->data;
    reduction.count = what.end - what.begin;
    reduction.packing = feedback ? feedback->packing : NULL;
    reduction.residual = feedback ? feedback->residual + what.begin : NULL;
    reduction.owes = feedback ? feedback->owes + what.begin : NULL;
    dpti_processes_start_collective(a->processes, &reduction);
}

size_t dpti_allreduce_start_reduction(dpti_allreduce *allreduce, const dpti_contribution *who,
                                      dpti_range what, bool summed)
{
    dpti_allreduce *a = allreduce;
    const bool nodes = dpti_allreduce_has_nodes(who), prepares = a->n_ranks > 1 && !summed;
    const size_t packed = a->feedback ? a->feedback->count : 0;
    const dpti_range first = {what.begin, what.end < packed ? what.end : packed};
    const dpti_range second = {what.begin > packed ? what.begin : packed, what.end};
    const dpti_collective shape = {.kind = DPTI_ALL_REDUCE,
                                   .contributes =
                                       who->processes ? who->processes : a->all_contribute,
                                   .tree = nodes ? &a->tree : NULL,
                                   .prepare = prepares ? nodes ? prepare_nodes : prepare_sum : NULL,
                                   .finish = a->members[0].windowed ? take_sums : NULL,
                                   .finite = a->wants_finite ? &a->finite : NULL};
    if (nodes) find_tree(a, who);
    start_part(a, &shape, first, a->feedback);
    start_part(a, &shape, second, NULL);
    return dpti_processes_count_collectives(a->processes);
}

void dpti_allreduce_hand_on(dpti_allreduce *allreduce, const dpti_contribution *who,
                            dpti_range what)
{
    dpti_allreduce *a = allreduce;
    dpti_member *m = &a->members[who->rank];
    dpti_round *r = &a->rounds[m->n_runs % 2];
    const size_t k = m->n_shown++;
    r->buckets[k] = what;
    if (++r->n_contributing[k] < dpti_allreduce_count_showing(a)) return;
    r->n_complete = k + 1;
    /* Started with the mutex locked, so that all processes start reductions in the same order. */
    if (a->processes) r->n_started[k] = dpti_allreduce_start_reduction(a, who, what, false);
    pthread_cond_broadcast(&a->changed);
}

/* Marks the next bucket of the rank as shown in host memory. */
static void show(dpti_allreduce *a, const dpti_contribution *who)
{
    const dpti_member *m = &a->members[who->rank];
    pthread_mutex_lock(&a->mutex);
    dpti_allreduce_hand_on(a, who, m->brought[m->n_shown]);
    pthread_mutex_unlock(&a->mutex);
}

static void begin_contributing(dpti_member *m, const dpti_contribution *who, size_t end)
{
    m->n_grains = who->nodes ? who->n_grains : 0;
    m->nodes = who->nodes ? *who->nodes : (dpti_grain_list){.n = 0};
    m->contributes = who->contributes || m->island_slot.island; /* the others may */
    m->blame = DPTI_BLAME_NOBODY;
    m->high = end;
}

/* ---- In an island ---------------------------------------------------------------------------- */

/* Records the result of a call.  If the rank has failed before, a later failure is a consequence:
   it is dropped, and the device's record is restored. */
static void note(dpti_member *m, const dpt_error *before, dpt_status status, dpt_status *mine)
{
    if (*mine != DPT_OK)
        m->view.buffer->device->base.error = *before;
    else
        *mine = status;
}

/* Enqueues the rank's part of its island's sum, and marks this point of the side stream behind it.
 */
static void add_to_island(const dpti_allreduce *a, dpti_exchange_context *x, dpti_range what,
                          size_t point)
{
    dpti_member *m = &a->members[x->who->rank];
    const dpt_error before = m->view.buffer->device->base.error;
    const dpti_island_part part = {
        .data = m->view.buffer,
        .begin = what.begin,
        .end = what.end,
        .empty = !x->who->contributes,
        .host = dpti_shows(m) && !dpti_allreduce_is_all(a, m) ? m->view.host : NULL,
        .point = point};
    note(m, &before, dpti_island_reduce(&m->island_slot, &part), x->mine);
}

/* Shows the island's sums that have arrived, bucket by bucket in order. */
static void show_arrived(dpti_allreduce *a, dpti_exchange_context *x)
{
    dpti_member *m = &a->members[x->who->rank];
    dpt_status *mine = x->mine;
    if (m->hidden || dpti_allreduce_is_all(a, m)) return;
    while (*mine == DPT_OK && m->n_shown < m->n_brought) {
        bool arrived = false;
        *mine = dpti_island_arrived(&m->island_slot, m->n_shown, &arrived);
        if (!arrived) return;
        look_at_own(a, m, m->brought[m->n_shown], mine);
        show(a, x->who);
    }
}

void dpti_allreduce_await_island(dpti_allreduce *allreduce, dpti_exchange_context *exchange)
{
    const dpti_contribution *who = exchange->who;
    dpt_status *mine = exchange->mine;
    dpti_member *m = &allreduce->members[who->rank];
    const dpt_error before = m->view.buffer->device->base.error;
    note(m, &before, dpti_island_wait(&m->island_slot, &exchange->stopwatch), mine);
    if (!dpti_allreduce_is_all(allreduce, m) || *mine != DPT_OK || !who->look) return;
    *mine = who->look(who->user);
    if (*mine == DPT_E_NOT_FINITE) m->blame = DPTI_BLAME_SUM; /* as all members do */
}

/* Enqueues the buckets of a late member, which were only remembered when they were contributed. */
static void catch_up(const dpti_allreduce *a, dpti_exchange_context *x)
{
    const dpti_member *m = &a->members[x->who->rank];
    dpti_island_meet(&m->island_slot, &x->stopwatch);
    for (size_t k = 0; k < m->n_brought; k++)
        add_to_island(a, x, m->brought[k], k);
}

/* Enqueues the remaining ranges, and waits for the sums that others are to see. */
static void finish_in_island(dpti_allreduce *a, dpti_exchange_context *x,
                             const dpti_range rest[DPTI_REST])
{
    dpti_member *m = &a->members[x->who->rank];
    const bool whole = dpti_allreduce_is_all(a, m);
    const size_t n_buckets = m->n_brought;
    if (x->who->late) catch_up(a, x);
    for (size_t i = 0; i < DPTI_REST; i++)
        add_to_island(a, x, rest[i], n_buckets + i);
    if ((m->hidden && !whole) || dpti_island_is_wide(m->island_slot.island)) return;
    dpti_allreduce_await_island(a, x);
    for (size_t k = m->n_shown; !whole && k < n_buckets; k++) {
        look_at_own(a, m, m->brought[k], x->mine);
        show(a, x->who);
    }
}

dpt_status dpti_allreduce_settle(dpti_allreduce *allreduce, size_t rank, dpt_status mine)
{
    dpti_member *m = &allreduce->members[rank];
    dpti_stopwatch stopwatch = dpti_stopwatch_start(NULL);
    if (!m->island_slot.island) return mine;
    /* The other processes abort the island too, whatever they have enqueued. */
    if (dpti_island_is_wide(m->island_slot.island)) dpti_island_abort(m->island_slot.island);
    const dpt_error before = m->view.buffer->device->base.error;
    const dpt_status status = dpti_island_wait(&m->island_slot, &stopwatch);
    const bool own = mine != DPT_OK && mine != DPT_E_CANCELLED;
    if (!own && status != DPT_OK && status != DPT_E_CANCELLED) return status;
    m->view.buffer->device->base.error = before;
    return mine;
}

/* ---- Contributing ---------------------------------------------------------------------------- */

/* Brings a range of the member's data into host memory: of all its nodes, if it has nodes. */
static dpt_status download(const dpti_member *m, dpti_range what)
{
    const size_t first = m->windowed ? dpti_node_place(m->places, what.begin) : what.begin;
    if (what.begin >= what.end) return DPT_OK;
    DPT_TRY(dpti_view_download(&m->view, first, first + dpti_range_size(what)));
    for (size_t k = 1; k < m->nodes.n; k++) {
        const size_t begin = dpti_node_place(m->places, what.begin);
        DPT_TRY(dpti_view_download(&m->node_views[k - 1], begin, begin + dpti_range_size(what)));
    }
    return DPT_OK;
}

void dpti_allreduce_contribute(dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                               dpti_range what)
{
    dpti_allreduce *a = allreduce;
    const dpti_contribution *who = exchange->who;
    dpt_status *mine = exchange->mine;
    dpti_member *m = &a->members[who->rank];
    exchange->stopwatch.since = dpti_seconds();
    if (dpti_allreduce_is_alone(a) || m->n_brought == DPTI_BUCKETS) return;
    if (m->n_brought == 0) begin_contributing(m, who, what.end);
    m->low = what.begin;
    m->brought[m->n_brought++] = what;
    if (m->island_slot.island && !who->late) {
        add_to_island(a, exchange, what, m->n_brought - 1);
        show_arrived(a, exchange);
    } else if (!m->island_slot.island) {
        if (*mine == DPT_OK && who->contributes) *mine = download(m, what);
        look_at_own(a, m, what, mine);
        show(a, who);
    }
    dpti_stopwatch_lap(&exchange->stopwatch, DPTI_SPAN_EXCHANGE);
}

/* ---- The rest, in the run -------------------------------------------------------------------- */

/* Finds the ranges that a rank has not contributed yet. */
static void find_rest(const dpti_allreduce *a, const dpti_member *m, dpti_range rest[DPTI_REST])
{
    const bool any = m->n_brought > 0;
    rest[0] = (dpti_range){0, any ? m->low : a->count};
    rest[1] = (dpti_range){any ? m->high : a->count, a->count};
}

static dpt_status transfer_rest(const dpti_member *m, const dpti_range rest[DPTI_REST])
{
    for (size_t i = 0; i < DPTI_REST; i++)
        DPT_TRY(download(m, rest[i]));
    return DPT_OK;
}

void dpti_allreduce_contribute_remaining(dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                                         dpti_range remaining[DPTI_REST])
{
    dpti_allreduce *a = allreduce;
    const dpti_contribution *who = exchange->who;
    dpt_status *mine = exchange->mine;
    dpti_member *m = &a->members[who->rank];
    find_rest(a, m, remaining);
    if (m->n_brought == 0) begin_contributing(m, who, 0);
    if (m->island_slot.island)
        finish_in_island(a, exchange, remaining);
    else if (*mine == DPT_OK && who->contributes)
        *mine = transfer_rest(m, remaining);
    for (size_t i = 0; i < DPTI_REST && dpti_shows(m) && !dpti_allreduce_is_all(a, m); i++)
        look_at_own(a, m, remaining[i], mine);
}
