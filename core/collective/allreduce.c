/* The all-reduce: who takes part, and its runs, in one process and over several. */
#include "collective/allreduce.h"

#include "base/clock.h"
#include "collective/allreduce_state.h"
#include "collective/low_rank_sum.h"
#include "device/buffer.h"
#include "device/communicator.h"

#include <stdlib.h>
#include <string.h>

dpti_allreduce *dpti_allreduce_create(size_t n_ranks, size_t count, dpti_processes *processes)
{
    const size_t n_processes = processes ? dpti_processes_count(processes) : 0;
    dpti_allreduce *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->changed, NULL);
    a->n_ranks = n_ranks;
    a->count = count;
    a->rendezvous = dpti_rendezvous_create(n_ranks);
    a->members = calloc(n_ranks, sizeof *a->members);
    a->brought = calloc(n_ranks, sizeof *a->brought);
    a->processes = processes;
    a->finite = true;
    a->all_contribute = calloc(n_processes + 1, sizeof *a->all_contribute);
    a->nothing = calloc(n_processes + 1, sizeof *a->nothing);
    a->tree.firsts = calloc(n_processes + 1, sizeof *a->tree.firsts);
    if (!a->rendezvous || !a->members || !a->brought || !a->all_contribute || !a->nothing ||
        !a->tree.firsts) {
        dpti_allreduce_destroy(a);
        return NULL;
    }
    for (size_t i = 0; i < n_processes; i++)
        a->all_contribute[i] = true;
    return a;
}

void dpti_allreduce_destroy(dpti_allreduce *allreduce)
{
    if (!allreduce) return;
    free(allreduce->tree.firsts);
    free(allreduce->nothing);
    free(allreduce->clipping.begins);
    free(allreduce->clipping.squares);
    free(allreduce->all_contribute);
    free(allreduce->brought);
    free(allreduce->members);
    dpti_rendezvous_destroy(allreduce->rendezvous);
    pthread_cond_destroy(&allreduce->changed);
    pthread_mutex_destroy(&allreduce->mutex);
    free(allreduce);
}

dpt_status dpti_allreduce_join(dpti_allreduce *allreduce, size_t rank, const dpti_buffer *data)
{
    return dpti_view_open(data, allreduce->count, &allreduce->members[rank].view);
}

dpt_status dpti_allreduce_join_nodes(dpti_allreduce *allreduce, size_t rank,
                                     const dpti_node_buffers *nodes)
{
    dpti_member *m = &allreduce->members[rank];
    m->places = nodes->places;
    for (size_t k = 0; k < nodes->n; k++)
        if (!m->node_views[k].buffer)
            DPT_TRY(dpti_view_open(&nodes->items[k], m->places->n_elements, &m->node_views[k]));
    return DPT_OK;
}

void dpti_allreduce_leave(dpti_allreduce *allreduce, size_t rank)
{
    dpti_member *m = &allreduce->members[rank];
    for (size_t k = 0; k < DPTI_GRAIN_HELD - 1; k++)
        if (m->node_views[k].buffer) dpti_view_close(&m->node_views[k]);
    dpti_view_close(&m->sums);
    dpti_view_close(&m->view);
    m->windowed = false;
}

static void forget_runs(dpti_allreduce *a)
{
    pthread_mutex_lock(&a->mutex);
    memset(a->rounds, 0, sizeof a->rounds);
    a->finite = true;
    a->tree.n_grains = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        a->members[r].n_runs = a->members[r].n_brought = a->members[r].n_shown = 0;
        atomic_store(&a->members[r].flawed, false);
    }
    pthread_mutex_unlock(&a->mutex);
}

void dpti_allreduce_want_finite(dpti_allreduce *allreduce)
{
    allreduce->wants_finite = true;
}

void dpti_allreduce_pack(dpti_allreduce *allreduce, dpti_feedback *feedback)
{
    allreduce->feedback = feedback;
}

dpti_blame dpti_allreduce_blame(const dpti_allreduce *allreduce, size_t rank)
{
    return allreduce->members[rank].blame;
}

void dpti_allreduce_set_present(dpti_allreduce *allreduce, size_t rank, bool present)
{
    allreduce->members[rank].absent = !present;
    if (present) forget_runs(allreduce); /* this one has missed some */
    dpti_rendezvous_set_present(allreduce->rendezvous, rank, present);
}

void dpti_allreduce_set_island_slot(dpti_allreduce *allreduce, size_t rank,
                                    const dpti_island_slot *island_slot)
{
    dpti_member *m = &allreduce->members[rank];
    m->island_slot = *island_slot;
    m->hidden = island_slot->island && island_slot->place > 0;
}

void dpti_allreduce_break(dpti_allreduce *allreduce)
{
    dpti_allreduce *a = allreduce;
    pthread_mutex_lock(&a->mutex);
    a->broken = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
    dpti_rendezvous_break(a->rendezvous);
}

void dpti_allreduce_mend(dpti_allreduce *allreduce)
{
    allreduce->broken = false;
    dpti_allreduce_reset(allreduce);
    dpti_rendezvous_mend(allreduce->rendezvous);
}

void dpti_allreduce_reset(dpti_allreduce *allreduce)
{
    dpti_allreduce *a = allreduce;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    if (a->processes && dpti_processes_finish_collectives(a->processes, &error) != DPT_OK)
        error.status = DPT_OK;
    forget_runs(a);
}

/* ---- Who takes part -------------------------------------------------------------------------- */

size_t dpti_allreduce_count_present(const dpti_allreduce *allreduce, size_t rank)
{
    size_t n = 0;
    for (size_t r = 0; r < rank; r++)
        n += !allreduce->members[r].absent;
    return n;
}

bool dpti_allreduce_is_alone(const dpti_allreduce *allreduce)
{
    return dpti_allreduce_count_present(allreduce, allreduce->n_ranks) == 1 &&
           !allreduce->processes;
}

size_t dpti_allreduce_count_showing(const dpti_allreduce *allreduce)
{
    size_t n = 0;
    for (size_t r = 0; r < allreduce->n_ranks; r++)
        n += dpti_shows(&allreduce->members[r]);
    return n;
}

bool dpti_allreduce_is_all(const dpti_allreduce *allreduce, const dpti_member *member)
{
    const dpti_island *island = member->island_slot.island;
    return island && (!allreduce->processes || dpti_island_is_wide(island)) &&
           dpti_allreduce_count_showing(allreduce) == 1;
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Returns whether any rank has to copy the sums out of host memory. */
static bool any_away(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++) {
        const dpti_member *m = &a->members[r];
        const bool staged = m->windowed ? m->sums.staged : m->view.staged;
        if (!m->absent && !dpti_allreduce_is_all(a, m) && (staged || m->island_slot.island))
            return true;
    }
    return false;
}

dpt_status dpti_allreduce_meet(const dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                               dpt_status mine)
{
    dpti_exchange_context *x = exchange;
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_EXCHANGE);
    const dpt_status verdict = dpti_rendezvous_meet(allreduce->rendezvous, x->who->rank, mine);
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_WAITING);
    return verdict;
}

/* Copies the sums to where they belong; all agree that this has been done. */
static dpt_status take_away(dpti_allreduce *a, dpti_exchange_context *x)
{
    const dpti_member *m = &a->members[x->who->rank];
    dpt_status *mine = x->mine;
    if (!any_away(a)) return DPT_OK;
    if (m->windowed)
        *mine = dpti_view_upload(&m->sums, 0, dpti_window_count(a, m));
    else if (!m->hidden)
        *mine = dpti_view_upload(&m->view, 0, a->count);
    if (m->island_slot.island) {
        if (*mine == DPT_OK)
            *mine = dpti_island_hand_out(&m->island_slot, m->view.buffer, a->count);
        if (*mine == DPT_OK) *mine = dpti_island_wait(&m->island_slot, &x->stopwatch);
        if (*mine != DPT_OK) dpti_island_abort(m->island_slot.island);
    }
    return dpti_allreduce_meet(a, x, *mine);
}

/* ---- In one process -------------------------------------------------------------------------- */

static dpt_status first_failure(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (!a->members[r].absent && a->brought[r] != DPT_OK) return a->brought[r];
    return DPT_OK;
}

/* Called with the mutex locked.  Comes to the run, and sums pieces of complete buckets until all
   ranks have come. */
static dpt_status come(dpti_allreduce *a, const dpti_exchange_context *x,
                       const dpti_range rest[DPTI_REST])
{
    const dpti_contribution *who = x->who;
    const dpti_member *m = &a->members[who->rank];
    dpti_round *r = &a->rounds[m->n_runs % 2];
    if (a->broken) return DPT_E_CANCELLED;
    for (size_t i = 0; i < DPTI_REST && dpti_shows(m) && !dpti_allreduce_is_all(a, m); i++)
        dpti_allreduce_hand_on(a, who, rest[i]);
    a->brought[who->rank] = *x->mine;
    if (++r->n_here == dpti_allreduce_count_present(a, a->n_ranks)) {
        r->verdict = first_failure(a);
        r->all_here = true;
        a->rounds[(m->n_runs + 1) % 2] = (dpti_round){.n_complete = 0};
        pthread_cond_broadcast(&a->changed);
    }
    while (!r->all_here && !a->broken)
        if (!dpti_allreduce_sum_piece(a, r)) pthread_cond_wait(&a->changed, &a->mutex);
    return r->all_here ? r->verdict : DPT_E_CANCELLED;
}

/* Returns whether a rank came with a failure of its own, which may be the reason why its island's
   sum is not finite. */
static bool any_fault(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++) {
        const dpti_member *m = &a->members[r];
        if (!m->absent && a->brought[r] != DPT_OK && m->blame != DPTI_BLAME_SUM) return true;
    }
    return false;
}

/* Called with the mutex locked, when all pieces are summed.  Returns the status of the run and sets
   the member's blame.  No rank sums for the next run before all have left this one. */
static dpt_status judge(const dpti_allreduce *a, const dpti_round *r, dpti_member *m,
                        dpt_status verdict)
{
    const bool flawed = atomic_exchange(&m->flawed, false);
    if (m->blame == DPTI_BLAME_SUM && any_fault(a)) m->blame = DPTI_BLAME_NOBODY;
    if (verdict != DPT_OK || !r->not_finite) return verdict;
    m->blame = flawed ? DPTI_BLAME_OWN : r->n_flawed > 0 ? DPTI_BLAME_OTHERS : DPTI_BLAME_SUM;
    return DPT_E_NOT_FINITE;
}

static dpt_status run_alone(dpti_allreduce *a, dpti_exchange_context *x,
                            const dpti_range rest[DPTI_REST])
{
    dpti_member *m = &a->members[x->who->rank];
    dpti_round *r = &a->rounds[m->n_runs % 2];
    pthread_mutex_lock(&a->mutex);
    const dpt_status verdict = come(a, x, rest);
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_WAITING);
    while (verdict == DPT_OK && dpti_allreduce_sum_piece(a, r)) {
    }
    while (r->n_summing > 0)
        pthread_cond_wait(&a->changed, &a->mutex);
    const dpt_status summed = judge(a, r, m, verdict);
    m->n_runs++;
    m->n_brought = m->n_shown = 0;
    pthread_mutex_unlock(&a->mutex);
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_EXCHANGE);
    DPT_TRY(summed);
    if (m->windowed) DPT_TRY(dpti_windows_clip(a, x));
    return take_away(a, x);
}

/* ---- Over processes -------------------------------------------------------------------------- */

/* Returns the verdict of all processes. */
static dpt_status vote(dpti_allreduce *a, dpt_status mine)
{
    dpt_status verdict = mine;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    DPT_TRY(dpti_processes_share(a->processes, &(dpti_table){a->nothing, a->nothing}, &verdict,
                                 &error));
    return verdict;
}

/* Waits for the sums over processes.  All processes see alike whether the sums are finite. */
static dpt_status finish_reductions(dpti_allreduce *a)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_processes_finish_collectives(a->processes, &error);
    const bool finite = a->finite;
    a->finite = true;
    a->tree.n_grains = 0;
    if (status != DPT_OK) return status;
    return finite ? DPT_OK : DPT_E_NOT_FINITE;
}

/* Votes over processes; one member of each process votes for the whole process.  After a failure
   the buckets in flight are waited for, because their memory may be used again. */
static dpt_status vote_over_processes(dpti_allreduce *a, dpti_exchange_context *x,
                                      dpt_status verdict)
{
    const size_t rank = x->who->rank;
    if (rank == 0) {
        verdict = vote(a, verdict);
        const dpt_status status = verdict != DPT_OK ? finish_reductions(a) : DPT_OK;
        if (status != DPT_OK && status != DPT_E_NOT_FINITE) verdict = status;
    } else {
        verdict = DPT_OK;
    }
    verdict = dpti_rendezvous_meet(a->rendezvous, rank, verdict);
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_WAITING);
    return verdict;
}

/* Returns the part of a range that this rank sums, or copies. */
static dpti_range slice_of(const dpti_allreduce *a, dpti_range whole, size_t rank)
{
    const size_t count = whole.end - whole.begin, n = a->n_ranks;
    const size_t lines = (count + DPTI_LINE - 1) / DPTI_LINE;
    size_t begin = lines * rank / n * DPTI_LINE, end = lines * (rank + 1) / n * DPTI_LINE;
    if (end > count) end = count;
    if (begin > end) begin = end;
    return (dpti_range){whole.begin + begin, whole.begin + end};
}

/* Sums factors of low rank, and beside them what travels as it is. */
static dpt_status sum_low_rank(dpti_allreduce *a, const dpti_contribution *who)
{
    const dpti_low_rank_sum sum = {.feedback = a->feedback,
                                   .contributes =
                                       who->processes ? who->processes : a->all_contribute,
                                   .data = a->members[0].view.host,
                                   .finite = &a->finite};
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    const dpti_range others = {a->feedback->count, a->count};
    dpti_low_rank_sum_start(a->processes, &sum);
    (void)dpti_allreduce_start_reduction(a, who, others, true);
    DPT_TRY(finish_reductions(a));
    DPT_TRY(dpti_low_rank_sum_finish(a->processes, &sum, &error));
    return finish_reductions(a);
}

static dpt_status sum_all(dpti_allreduce *a, const dpti_contribution *who,
                          const dpti_range rest[DPTI_REST])
{
    for (size_t i = 0; i < DPTI_REST; i++)
        (void)dpti_allreduce_start_reduction(a, who, rest[i], !dpti_allreduce_has_nodes(who));
    return finish_reductions(a);
}

/* Reduces the sum of this process, which the first member has, over all processes, and copies the
   result to all members. */
static dpt_status reduce_over_processes(dpti_allreduce *a, dpti_exchange_context *x,
                                        const dpti_range rest[DPTI_REST])
{
    const size_t rank = x->who->rank;
    dpt_status mine = DPT_OK;
    const bool low_rank = a->feedback && a->feedback->low_rank;
    if (rank == 0) mine = low_rank ? sum_low_rank(a, x->who) : sum_all(a, x->who, rest);
    mine = dpti_rendezvous_meet(a->rendezvous, rank, mine);
    if (mine == DPT_E_NOT_FINITE) a->members[rank].blame = DPTI_BLAME_SUM;
    /* The time counts for every member, although one does the work: else the first member would
       look slow. */
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_EXCHANGE);
    if (mine == DPT_OK && a->members[rank].windowed) return dpti_windows_clip(a, x);
    if (mine != DPT_OK || a->n_ranks == 1) return mine;
    const dpti_range slice = slice_of(a, (dpti_range){0, a->count}, rank);
    for (size_t r = 1; r < a->n_ranks; r++)
        if (dpti_shows(&a->members[r]))
            memcpy(a->members[r].view.host + slice.begin, a->members[0].view.host + slice.begin,
                   (slice.end - slice.begin) * sizeof(float));
    return dpti_allreduce_meet(a, x, DPT_OK);
}

/* Ends a run in a wide island.  All ranks of all processes have made their calls, so the sums
   arrive, or all ranks learn that they do not. */
static dpt_status end_in_wide_island(dpti_allreduce *a, dpti_exchange_context *x)
{
    dpti_member *m = &a->members[x->who->rank];
    m->n_brought = m->n_shown = 0;
    dpti_allreduce_await_island(a, x);
    return vote_over_processes(a, x, dpti_allreduce_meet(a, x, *x->mine));
}

static dpt_status run_together(dpti_allreduce *a, dpti_exchange_context *x,
                               const dpti_range rest[DPTI_REST])
{
    const size_t rank = x->who->rank;
    dpti_member *m = &a->members[rank];
    DPT_TRY(vote_over_processes(a, x, dpti_allreduce_meet(a, x, *x->mine)));
    if (dpti_allreduce_is_all(a, m)) return end_in_wide_island(a, x);
    /* All ranks have contributed their buckets, and none contributes more before the next meeting.
     */
    if (rank == 0) a->rounds[m->n_runs % 2] = (dpti_round){.n_complete = 0};
    for (size_t i = 0; i < DPTI_REST && a->n_ranks > 1 && !dpti_allreduce_has_nodes(x->who); i++) {
        const dpti_range slice = slice_of(a, rest[i], rank);
        size_t n_flawed;
        (void)dpti_allreduce_reduce(a, slice, &n_flawed);
    }
    m->n_brought = m->n_shown = 0;
    DPT_TRY(dpti_allreduce_meet(a, x, DPT_OK));
    DPT_TRY(reduce_over_processes(a, x, rest));
    DPT_TRY(take_away(a, x));
    /* No reduction of the next run starts before this rank has contributed to it. */
    if (rank == 0 && a->feedback && !a->divided) dpti_feedback_commit(a->feedback);
    return DPT_OK;
}

/* ---- Waiting for buckets --------------------------------------------------------------------- */

static bool are_summed(const dpti_round *r, size_t n_buckets)
{
    for (size_t k = 0; k < n_buckets; k++)
        if (k >= r->n_complete || r->n_summed[k] < dpti_range_size(r->buckets[k])) return false;
    return true;
}

/* Called with the mutex locked.  All ranks of this process have contributed the buckets. */
static dpt_status await_collectives(dpti_allreduce *a, const dpti_round *r, size_t n_buckets)
{
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    const size_t n_collectives = r->n_started[n_buckets - 1];
    pthread_mutex_unlock(&a->mutex);
    const dpt_status status = dpti_processes_await_collectives(a->processes, n_collectives, &error);
    pthread_mutex_lock(&a->mutex);
    return status;
}

dpt_status dpti_allreduce_await(dpti_allreduce *allreduce, size_t rank, size_t n_buckets)
{
    dpti_allreduce *a = allreduce;
    dpt_status status = DPT_OK;
    if (n_buckets == 0 || dpti_allreduce_is_alone(a)) return DPT_OK;
    pthread_mutex_lock(&a->mutex);
    dpti_round *r = &a->rounds[a->members[rank].n_runs % 2];
    if (a->processes) {
        while (!a->broken && r->n_complete < n_buckets)
            pthread_cond_wait(&a->changed, &a->mutex);
        if (!a->broken) status = await_collectives(a, r, n_buckets);
    } else {
        while (!a->broken && !are_summed(r, n_buckets))
            if (!dpti_allreduce_sum_piece(a, r)) pthread_cond_wait(&a->changed, &a->mutex);
    }
    if (a->broken || status != DPT_OK) status = DPT_E_CANCELLED; /* the run will tell */
    pthread_mutex_unlock(&a->mutex);
    return status;
}

/* ---- Running --------------------------------------------------------------------------------- */

dpt_status dpti_allreduce_run(dpti_allreduce *allreduce, dpti_exchange_context *exchange)
{
    dpti_allreduce *a = allreduce;
    dpti_exchange_context *x = exchange;
    dpti_range rest[DPTI_REST];
    if (dpti_allreduce_is_alone(a)) return *x->mine;
    x->stopwatch.since = dpti_seconds();
    dpti_allreduce_contribute_remaining(a, x, rest);
    dpti_stopwatch_lap(&x->stopwatch, DPTI_SPAN_EXCHANGE);
    return a->processes ? run_together(a, x, rest) : run_alone(a, x, rest);
}
