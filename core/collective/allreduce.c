/* Host all-reduce: pieces of complete buckets, summed by whoever has time. */
#include "collective/allreduce.h"

#include "base/base.h"
#include "collective/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 16,         /* elements: a cache line */
    BLOCK = 4096,           /* elements that are summed at a time: 16 KiB, which stays in L1 */
    MOST_PIECE = 64 * 1024, /* elements that a rank takes upon itself at a time */
    MOST_BUCKETS = 64,      /* what is brought beyond waits for the run */
    REST = 2,               /* what a run brings lies before the buckets and behind them */
};

typedef struct range {
    size_t begin, end;
} range;

typedef struct member {
    const dpti_buffer *data;
    float *view; /* host memory: the data themselves, or staging */
    bool staged;
    bool contributes;
    bool absent;
    bool hidden;      /* another one shows its island's sum */
    dpti_berth berth; /* island NULL: it is in none */
    /* By its own driver: runs that it has been through; buckets of the one to come, which are
       elements [low, high), and where they are. */
    size_t n_runs, n_brought, low, high;
    range brought[MOST_BUCKETS];
    size_t n_shown; /* of these, what is handed on to the host */
    dpti_blame blame;
    atomic_bool flawed; /* what it has brought to this run is not finite */
} member;

/* A run to come or under way.  Guarded by the mutex. */
typedef struct round {
    range buckets[MOST_BUCKETS + REST];
    size_t n_bringing[MOST_BUCKETS + REST]; /* ranks that have brought it */
    size_t n_complete;                      /* the first so many have been brought by all */
    size_t bucket, next;                    /* the next piece: its bucket, and where it begins */
    size_t n_summing;                       /* pieces that are being summed */
    size_t n_here;                          /* ranks that have come to the run */
    bool all_here;
    bool not_finite; /* some sum is not, */
    size_t n_flawed; /* nor what so many ranks have brought to it */
    dpt_status verdict;
} round;

struct dpti_allreduce {
    size_t n_ranks, count;
    bool wants_finite;
    dpti_rendezvous *rendezvous;
    member *members;
    dpti_processes *processes; /* NULL: this one alone */
    dpti_feedback *feedback;   /* NULL: sums over processes are not packed */
    bool *all_contribute;      /* (processes) */
    size_t *nothing;           /* (processes + 1) zeros: a vote brings no more than itself */
    dpt_status *brought;       /* (n_ranks) */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool broken;
    /* In turns: who comes to the next run has left this one, so that the run after it may have this
       one's place. */
    round rounds[2];
};

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
    a->all_contribute = calloc(n_processes + 1, sizeof *a->all_contribute);
    a->nothing = calloc(n_processes + 1, sizeof *a->nothing);
    if (!a->rendezvous || !a->members || !a->brought || !a->all_contribute || !a->nothing) {
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
    free(allreduce->nothing);
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
    member *m = &allreduce->members[rank];
    const size_t n_bytes = allreduce->count * sizeof(float);
    void *view = dpti_host_pointer(data);
    const bool staged = view == NULL;
    if (staged) DPT_TRY(dpti_host_alloc(data->device, n_bytes, &view));
    m->data = data;
    m->view = view;
    m->staged = staged;
    return DPT_OK;
}

void dpti_allreduce_leave(dpti_allreduce *allreduce, size_t rank)
{
    member *m = &allreduce->members[rank];
    if (m->staged) dpti_host_free(m->data->device, m->view);
    m->data = NULL;
    m->view = NULL;
    m->staged = false;
}

static void forget_runs(dpti_allreduce *a)
{
    pthread_mutex_lock(&a->mutex);
    memset(a->rounds, 0, sizeof a->rounds);
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

void dpti_allreduce_set_berth(dpti_allreduce *allreduce, size_t rank, const dpti_berth *berth)
{
    member *m = &allreduce->members[rank];
    m->berth = *berth;
    m->hidden = berth->island && berth->place > 0;
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
    if (a->processes && dpti_processes_finish_reductions(a->processes, &error) != DPT_OK)
        error.status = DPT_OK;
    forget_runs(a);
}

/* Of the ranks below `rank`. */
static size_t count_present(const dpti_allreduce *a, size_t rank)
{
    size_t n = 0;
    for (size_t r = 0; r < rank; r++)
        n += !a->members[r].absent;
    return n;
}

static bool is_alone(const dpti_allreduce *a)
{
    return count_present(a, a->n_ranks) == 1 && !a->processes;
}

/* Whether the host sees what it holds. */
static bool shows(const member *m)
{
    return !m->absent && !m->hidden;
}

static size_t count_showing(const dpti_allreduce *a)
{
    size_t n = 0;
    for (size_t r = 0; r < a->n_ranks; r++)
        n += shows(&a->members[r]);
    return n;
}

/* Whether the sum of this one's island is the whole one. */
static bool is_all(const dpti_allreduce *a, const member *m)
{
    return m->berth.island && !a->processes && count_showing(a) == 1;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* A sum is not finite: how many members' parts are not, that were so far.  Those of an island have
   looked at theirs, and if what one shows is not it is for being their sum. */
static size_t blame(dpti_allreduce *a, size_t begin, size_t n)
{
    size_t n_more = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        member *m = &a->members[r];
        if (shows(m) && m->contributes && !m->berth.island && !dpti_all_finite(m->view + begin, n))
            n_more += !atomic_exchange(&m->flawed, true);
    }
    return n_more;
}

/* Sums elements [first, last) over the contributing members and writes the sum to every member; to
   the first one only, if it is not the whole sum yet.  Whether the sum is finite, where that is
   wanted: it is looked at while it is in the cache.  *n_flawed: as blame. */
static bool reduce_slice(dpti_allreduce *a, size_t first, size_t last, size_t *n_flawed)
{
    const size_t n_written = a->processes ? 1 : a->n_ranks;
    const bool looks = a->wants_finite && !a->processes; /* else each rank has */
    bool finite = true;
    float sum[BLOCK];
    *n_flawed = 0;
    for (size_t begin = first; begin < last; begin += BLOCK) {
        const size_t n = last - begin < BLOCK ? last - begin : BLOCK;
        bool empty = true;
        /* Fixed order: float addition is not associative, and replicas must agree to the bit. */
        for (size_t r = 0; r < a->n_ranks; r++) {
            if (!shows(&a->members[r]) || !a->members[r].contributes) continue;
            const float *from = a->members[r].view + begin;
            if (empty)
                memcpy(sum, from, n * sizeof *sum);
            else
                for (size_t i = 0; i < n; i++)
                    sum[i] += from[i];
            empty = false;
        }
        if (empty) memset(sum, 0, n * sizeof *sum);
        if (looks && !dpti_all_finite(sum, n)) {
            finite = false;
            *n_flawed += blame(a, begin, n);
        }
        for (size_t r = 0; r < n_written; r++)
            if (shows(&a->members[r])) memcpy(a->members[r].view + begin, sum, n * sizeof *sum);
    }
    return finite;
}

static size_t round_up_to_lines(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Under the mutex, which it gives up meanwhile: sums the next piece of what is complete.  false:
   there is none now. */
static bool sum_piece(dpti_allreduce *a, round *r)
{
    const range *bucket;
    for (;; r->bucket++) {
        if (r->bucket == r->n_complete) return false;
        bucket = &r->buckets[r->bucket];
        if (r->next < bucket->begin) r->next = bucket->begin;
        if (r->next < bucket->end) break;
        r->next = 0;
    }
    size_t n = round_up_to_lines((bucket->end - bucket->begin) / count_present(a, a->n_ranks) + 1);
    if (n > MOST_PIECE) n = MOST_PIECE;
    const size_t begin = r->next, end = bucket->end - begin < n ? bucket->end : begin + n;
    r->next = end;
    r->n_summing++;
    pthread_mutex_unlock(&a->mutex);
    size_t n_flawed;
    const bool finite = reduce_slice(a, begin, end, &n_flawed);
    pthread_mutex_lock(&a->mutex);
    r->not_finite = r->not_finite || !finite;
    r->n_flawed += n_flawed;
    if (--r->n_summing == 0) pthread_cond_broadcast(&a->changed);
    return true;
}

/* ---- What a rank holds ----------------------------------------------------------------------- */

static dpt_status transfer(const member *m, range what, bool upload)
{
    const size_t offset = what.begin * sizeof(float), n_bytes = (what.end - what.begin) * 4;
    if (!m->staged || n_bytes == 0) return DPT_OK;
    if (upload)
        DPT_TRY(dpti_upload(m->data, offset, m->view + what.begin, n_bytes));
    else
        DPT_TRY(dpti_download(m->view + what.begin, m->data, offset, n_bytes));
    return dpti_sync(m->data->device);
}

/* Over processes each rank looks at what it brings: their vote is out before all sums are. */
static void look_at_own(const dpti_allreduce *a, member *m, range what, dpt_status *mine)
{
    if (!a->processes || !a->wants_finite || !m->contributes || *mine != DPT_OK) return;
    if (dpti_all_finite(m->view + what.begin, what.end - what.begin)) return;
    m->blame = DPTI_BLAME_OWN;
    *mine = DPT_E_NOT_FINITE;
}

/* The sum over this process of what its communication thread is about to send. */
static void prepare_sum(void *user, float *data, size_t count)
{
    dpti_allreduce *a = user;
    const size_t first = (size_t)(data - a->members[0].view);
    size_t n_flawed;
    (void)reduce_slice(a, first, first + count, &n_flawed);
}

static void start_part(dpti_allreduce *a, const dpti_contribution *who, range what, bool summed,
                       const dpti_feedback *feedback)
{
    if (what.begin >= what.end) return;
    const dpti_reduction reduction = {.data = a->members[0].view + what.begin,
                                      .count = what.end - what.begin,
                                      .contributes =
                                          who->processes ? who->processes : a->all_contribute,
                                      .prepare = a->n_ranks > 1 && !summed ? prepare_sum : NULL,
                                      .user = a,
                                      .owed = feedback ? feedback->owed + what.begin : NULL,
                                      .owes = feedback ? feedback->owes + what.begin : NULL};
    dpti_processes_start_reduction(a->processes, &reduction);
}

static void start_reduction(dpti_allreduce *a, const dpti_contribution *who, range what,
                            bool summed)
{
    const size_t packed = a->feedback ? a->feedback->count : 0;
    const range first = {what.begin, what.end < packed ? what.end : packed};
    const range second = {what.begin > packed ? what.begin : packed, what.end};
    start_part(a, who, first, summed, a->feedback);
    start_part(a, who, second, summed, NULL);
}

/* Under the mutex. */
static void bring(dpti_allreduce *a, const dpti_contribution *who, range what)
{
    member *m = &a->members[who->rank];
    round *r = &a->rounds[m->n_runs % 2];
    const size_t k = m->n_shown++;
    r->buckets[k] = what;
    if (++r->n_bringing[k] < count_showing(a)) return;
    r->n_complete = k + 1;
    if (a->processes)
        start_reduction(a, who, what, false); /* here, so that all processes have one order */
    else
        pthread_cond_broadcast(&a->changed);
}

/* Hands the next of what it has brought on to the host. */
static void show(dpti_allreduce *a, const dpti_contribution *who)
{
    const member *m = &a->members[who->rank];
    pthread_mutex_lock(&a->mutex);
    bring(a, who, m->brought[m->n_shown]);
    pthread_mutex_unlock(&a->mutex);
}

static void begin_bringing(member *m, const dpti_contribution *who, size_t end)
{
    m->contributes = who->contributes || m->berth.island; /* the others may */
    m->blame = DPTI_BLAME_NOBODY;
    m->high = end;
}

/* ---- In an island ---------------------------------------------------------------------------- */

/* A later failure of one that has failed is none of its own, and is not told. */
static void note(member *m, const dpt_error *before, dpt_status status, dpt_status *mine)
{
    if (*mine != DPT_OK)
        m->data->device->base.error = *before;
    else
        *mine = status;
}

/* Brings elements to its island, behind whose sum this point of the lane is marked. */
static void add_to_island(const dpti_allreduce *a, const dpti_contribution *who, range what,
                          size_t point, dpt_status *mine)
{
    member *m = &a->members[who->rank];
    const dpt_error before = m->data->device->base.error;
    const dpti_island_part part = {.data = m->data,
                                   .begin = what.begin,
                                   .end = what.end,
                                   .empty = !who->contributes,
                                   .host = shows(m) && !is_all(a, m) ? m->view : NULL,
                                   .point = point};
    note(m, &before, dpti_island_reduce(&m->berth, &part), mine);
}

/* Hands on what has arrived of the island's sums: of buckets, in their order. */
static void show_arrived(dpti_allreduce *a, const dpti_contribution *who, dpt_status *mine)
{
    member *m = &a->members[who->rank];
    if (m->hidden || is_all(a, m)) return;
    while (*mine == DPT_OK && m->n_shown < m->n_brought) {
        bool arrived = false;
        *mine = dpti_island_arrived(&m->berth, m->n_shown, &arrived);
        if (!arrived) return;
        look_at_own(a, m, m->brought[m->n_shown], mine);
        show(a, who);
    }
}

/* Brings the rest, and waits until the sums are there whom others are to see. */
static void finish_in_island(dpti_allreduce *a, const dpti_contribution *who,
                             const range rest[REST], dpt_status *mine, double *clock,
                             dpti_times *times)
{
    member *m = &a->members[who->rank];
    const bool whole = is_all(a, m);
    const size_t n_buckets = m->n_brought;
    for (size_t i = 0; i < REST; i++)
        add_to_island(a, who, rest[i], n_buckets + i, mine);
    if (m->hidden && !whole) return;
    const dpt_error before = m->data->device->base.error;
    note(m, &before, dpti_island_wait(&m->berth, clock, times), mine);
    if (whole && *mine == DPT_OK && who->look) {
        *mine = who->look(who->user);
        if (*mine == DPT_E_NOT_FINITE) m->blame = DPTI_BLAME_SUM; /* as all members do */
    }
    for (size_t k = m->n_shown; !whole && k < n_buckets; k++) {
        look_at_own(a, m, m->brought[k], mine);
        show(a, who);
    }
}

dpt_status dpti_allreduce_settle(dpti_allreduce *allreduce, size_t rank, dpt_status mine)
{
    member *m = &allreduce->members[rank];
    double clock = dpti_seconds();
    if (!m->berth.island) return mine;
    const dpt_error before = m->data->device->base.error;
    const dpt_status status = dpti_island_wait(&m->berth, &clock, NULL);
    const bool own = mine != DPT_OK && mine != DPT_E_CANCELLED;
    if (!own && status != DPT_OK && status != DPT_E_CANCELLED) return status;
    m->data->device->base.error = before;
    return mine;
}

/* ---- Bringing -------------------------------------------------------------------------------- */

void dpti_allreduce_bring(dpti_allreduce *allreduce, const dpti_contribution *who, size_t begin,
                          size_t end, dpt_status *mine, dpti_times *times)
{
    dpti_allreduce *a = allreduce;
    member *m = &a->members[who->rank];
    const range what = {begin, end};
    const double clock = dpti_seconds();
    if (is_alone(a) || m->n_brought == MOST_BUCKETS) return;
    if (m->n_brought == 0) begin_bringing(m, who, end);
    m->low = begin;
    m->brought[m->n_brought++] = what;
    if (m->berth.island) {
        add_to_island(a, who, what, m->n_brought - 1, mine);
        show_arrived(a, who, mine);
    } else {
        if (*mine == DPT_OK && who->contributes) *mine = transfer(m, what, false);
        look_at_own(a, m, what, mine);
        show(a, who);
    }
    (void)dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, clock);
}

/* ---- The run --------------------------------------------------------------------------------- */

/* What a rank has not brought yet. */
static void find_rest(const dpti_allreduce *a, const member *m, range rest[REST])
{
    const bool any = m->n_brought > 0;
    rest[0] = (range){0, any ? m->low : a->count};
    rest[1] = (range){any ? m->high : a->count, a->count};
}

static dpt_status transfer_rest(const member *m, const range rest[REST])
{
    for (size_t i = 0; i < REST; i++)
        DPT_TRY(transfer(m, rest[i], false));
    return DPT_OK;
}

/* Whether sums have to be taken from where the host has made them. */
static bool any_away(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++) {
        const member *m = &a->members[r];
        if (!m->absent && !is_all(a, m) && (m->staged || m->berth.island)) return true;
    }
    return false;
}

/* What members do between two meetings ended now; the time at which the meeting is over. */
static dpt_status meet(const dpti_allreduce *a, size_t rank, dpt_status mine, double *clock,
                       dpti_times *times)
{
    *clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, *clock);
    const dpt_status verdict = dpti_rendezvous_meet(a->rendezvous, rank, mine);
    *clock = dpti_times_add_since(times, DPTI_SPAN_WAITING, *clock);
    return verdict;
}

/* Takes the sums to where they belong; all agree that this has been done. */
static dpt_status take_away(dpti_allreduce *a, size_t rank, dpt_status *mine, double *clock,
                            dpti_times *times)
{
    const member *m = &a->members[rank];
    if (!any_away(a)) return DPT_OK;
    if (!m->hidden) *mine = transfer(m, (range){0, a->count}, true);
    if (m->berth.island) {
        if (*mine == DPT_OK) *mine = dpti_island_hand_out(&m->berth, m->data, a->count);
        if (*mine == DPT_OK) *mine = dpti_island_wait(&m->berth, clock, times);
        if (*mine != DPT_OK) dpti_island_abort(m->berth.island);
    }
    return meet(a, rank, *mine, clock, times);
}

/* ---- In one process -------------------------------------------------------------------------- */

static dpt_status first_failure(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (!a->members[r].absent && a->brought[r] != DPT_OK) return a->brought[r];
    return DPT_OK;
}

/* Under the mutex: comes, and sums what others have brought until all are here. */
static dpt_status come(dpti_allreduce *a, const dpti_contribution *who, const range rest[REST],
                       dpt_status mine)
{
    const member *m = &a->members[who->rank];
    round *r = &a->rounds[m->n_runs % 2];
    if (a->broken) return DPT_E_CANCELLED;
    for (size_t i = 0; i < REST && shows(m) && !is_all(a, m); i++)
        bring(a, who, rest[i]);
    a->brought[who->rank] = mine;
    if (++r->n_here == count_present(a, a->n_ranks)) {
        r->verdict = first_failure(a);
        r->all_here = true;
        a->rounds[(m->n_runs + 1) % 2] = (round){.n_complete = 0};
        pthread_cond_broadcast(&a->changed);
    }
    while (!r->all_here && !a->broken)
        if (!sum_piece(a, r)) pthread_cond_wait(&a->changed, &a->mutex);
    return r->all_here ? r->verdict : DPT_E_CANCELLED;
}

/* Whether one came with a failure of its own, which may be why its island's sum is as it is. */
static bool any_fault(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++) {
        const member *m = &a->members[r];
        if (!m->absent && a->brought[r] != DPT_OK && m->blame != DPTI_BLAME_SUM) return true;
    }
    return false;
}

/* Under the mutex, when all pieces are summed: what comes of that, and this rank's part in it.
   Nobody sums for the next run before all have left this one. */
static dpt_status judge(const dpti_allreduce *a, const round *r, member *m, dpt_status verdict)
{
    const bool flawed = atomic_exchange(&m->flawed, false);
    if (m->blame == DPTI_BLAME_SUM && any_fault(a)) m->blame = DPTI_BLAME_NOBODY;
    if (verdict != DPT_OK || !r->not_finite) return verdict;
    m->blame = flawed ? DPTI_BLAME_OWN : r->n_flawed > 0 ? DPTI_BLAME_OTHERS : DPTI_BLAME_SUM;
    return DPT_E_NOT_FINITE;
}

static dpt_status run_alone(dpti_allreduce *a, const dpti_contribution *who, const range rest[REST],
                            dpt_status *mine, double *clock, dpti_times *times)
{
    member *m = &a->members[who->rank];
    round *r = &a->rounds[m->n_runs % 2];
    pthread_mutex_lock(&a->mutex);
    const dpt_status verdict = come(a, who, rest, *mine);
    *clock = dpti_times_add_since(times, DPTI_SPAN_WAITING, *clock);
    while (verdict == DPT_OK && sum_piece(a, r)) {
    }
    while (r->n_summing > 0)
        pthread_cond_wait(&a->changed, &a->mutex);
    const dpt_status summed = judge(a, r, m, verdict);
    m->n_runs++;
    m->n_brought = m->n_shown = 0;
    pthread_mutex_unlock(&a->mutex);
    *clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, *clock);
    DPT_TRY(summed);
    return take_away(a, who->rank, mine, clock, times);
}

/* ---- Over processes -------------------------------------------------------------------------- */

/* What all processes think of the step. */
static dpt_status vote(dpti_allreduce *a, dpt_status mine)
{
    dpt_status verdict = DPT_OK;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    DPT_TRY(dpti_processes_share(a->processes, &(dpti_table){a->nothing, a->nothing}, mine,
                                 &verdict, &error));
    return verdict;
}

/* One member of each process votes for all of it.  Buckets that are under way end in any case:
   their memory may be needed. */
static dpt_status vote_over_processes(dpti_allreduce *a, size_t rank, dpt_status verdict,
                                      double *clock, dpti_times *times)
{
    dpt_error error = {.status = DPT_OK};
    if (rank == 0) {
        verdict = vote(a, verdict);
        if (verdict != DPT_OK && dpti_processes_finish_reductions(a->processes, &error) != DPT_OK)
            verdict = error.status;
    } else {
        verdict = DPT_OK;
    }
    verdict = dpti_rendezvous_meet(a->rendezvous, rank, verdict);
    *clock = dpti_times_add_since(times, DPTI_SPAN_WAITING, *clock);
    return verdict;
}

/* The part of a range that the rank in this place sums, or copies. */
static range slice_of(const dpti_allreduce *a, range whole, size_t rank)
{
    const size_t count = whole.end - whole.begin, n = a->n_ranks;
    const size_t lines = (count + ALIGNMENT - 1) / ALIGNMENT;
    size_t begin = lines * rank / n * ALIGNMENT, end = lines * (rank + 1) / n * ALIGNMENT;
    if (end > count) end = count;
    if (begin > end) begin = end;
    return (range){whole.begin + begin, whole.begin + end};
}

/* The sum of this process, which the first member has, becomes that of all, for all members. */
static dpt_status reduce_over_processes(dpti_allreduce *a, const dpti_contribution *who,
                                        const range rest[REST], double *clock, dpti_times *times)
{
    const size_t rank = who->rank;
    dpt_error error = {.status = DPT_OK};
    dpt_status mine = DPT_OK;
    if (rank == 0) {
        for (size_t i = 0; i < REST; i++)
            start_reduction(a, who, rest[i], true);
        mine = dpti_processes_finish_reductions(a->processes, &error);
    }
    mine = dpti_rendezvous_meet(a->rendezvous, rank, mine);
    /* Every member's, whoever does it: else the first one would look slow. */
    *clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, *clock);
    if (mine != DPT_OK || a->n_ranks == 1) return mine;
    const range slice = slice_of(a, (range){0, a->count}, rank);
    for (size_t r = 1; r < a->n_ranks; r++)
        if (shows(&a->members[r]))
            memcpy(a->members[r].view + slice.begin, a->members[0].view + slice.begin,
                   (slice.end - slice.begin) * sizeof(float));
    return meet(a, rank, DPT_OK, clock, times);
}

static dpt_status run_together(dpti_allreduce *a, const dpti_contribution *who,
                               const range rest[REST], dpt_status *mine, double *clock,
                               dpti_times *times)
{
    const size_t rank = who->rank;
    member *m = &a->members[rank];
    const dpt_status verdict = meet(a, rank, *mine, clock, times);
    DPT_TRY(vote_over_processes(a, rank, verdict, clock, times));
    /* All have brought their buckets, and none will bring more before the next meeting. */
    if (rank == 0) a->rounds[m->n_runs % 2] = (round){.n_complete = 0};
    for (size_t i = 0; i < REST && a->n_ranks > 1; i++) {
        const range slice = slice_of(a, rest[i], rank);
        size_t n_flawed;
        (void)reduce_slice(a, slice.begin, slice.end, &n_flawed);
    }
    m->n_brought = m->n_shown = 0;
    DPT_TRY(meet(a, rank, DPT_OK, clock, times));
    DPT_TRY(reduce_over_processes(a, who, rest, clock, times));
    DPT_TRY(take_away(a, rank, mine, clock, times));
    /* Nobody starts anything for the next run before this rank has brought something to it. */
    if (rank == 0 && a->feedback) dpti_feedback_commit(a->feedback);
    return DPT_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

dpt_status dpti_allreduce_run(dpti_allreduce *allreduce, const dpti_contribution *who,
                              dpt_status *mine, dpti_times *times)
{
    dpti_allreduce *a = allreduce;
    member *m = &a->members[who->rank];
    range rest[REST];
    if (is_alone(a)) return *mine;
    double clock = dpti_seconds();
    find_rest(a, m, rest);
    if (m->n_brought == 0) begin_bringing(m, who, 0);
    if (m->berth.island)
        finish_in_island(a, who, rest, mine, &clock, times);
    else if (*mine == DPT_OK && who->contributes)
        *mine = transfer_rest(m, rest);
    for (size_t i = 0; i < REST && shows(m); i++)
        look_at_own(a, m, rest[i], mine);
    clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, clock);
    return a->processes ? run_together(a, who, rest, mine, &clock, times)
                        : run_alone(a, who, rest, mine, &clock, times);
}
