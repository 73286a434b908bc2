/* Host all-reduce: reduce-scatter and all-gather in one pass over the slices. */
#include "collective/allreduce.h"

#include "base/base.h"
#include "collective/rendezvous.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE_ALIGNMENT = 16, BLOCK = 4096 }; /* elements: a cache line; 16 KiB, which stays in L1 */

typedef struct member {
    const dpti_buffer *data;
    float *view; /* host memory: the data themselves, or staging */
    bool staged;
    bool contributes;
    bool absent;
} member;

struct dpti_allreduce {
    size_t n_ranks, count;
    dpti_rendezvous *rendezvous;
    member *members;
    dpti_processes *processes; /* NULL: this one alone */
    bool *contributing;        /* (processes) which of them bring a sum */
    size_t *places;            /* (processes + 1) 0, 1, ... */
};

dpti_allreduce *dpti_allreduce_create(size_t n_ranks, size_t count, dpti_processes *processes)
{
    const size_t n_processes = processes ? dpti_processes_count(processes) : 0;
    dpti_allreduce *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->n_ranks = n_ranks;
    a->count = count;
    a->rendezvous = dpti_rendezvous_create(n_ranks);
    a->members = calloc(n_ranks, sizeof *a->members);
    a->processes = processes;
    a->contributing = calloc(n_processes + 1, sizeof *a->contributing);
    a->places = calloc(n_processes + 1, sizeof *a->places);
    if (!a->rendezvous || !a->members || !a->contributing || !a->places) {
        dpti_allreduce_destroy(a);
        return NULL;
    }
    for (size_t i = 0; i <= n_processes; i++)
        a->places[i] = i * sizeof *a->contributing;
    return a;
}

void dpti_allreduce_destroy(dpti_allreduce *allreduce)
{
    if (!allreduce) return;
    free(allreduce->places);
    free(allreduce->contributing);
    free(allreduce->members);
    dpti_rendezvous_destroy(allreduce->rendezvous);
    free(allreduce);
}

dpt_status dpti_allreduce_join(dpti_allreduce *allreduce, size_t rank, const dpti_buffer *data)
{
    member *m = &allreduce->members[rank];
    const size_t n_bytes = allreduce->count * sizeof(float);
    void *view = dpti_host_pointer(data);
    const bool staged = view == NULL;
    if (staged) DPT_TRY(dpti_host_alloc(data->device, n_bytes, &view));
    *m = (member){.data = data, .view = view, .staged = staged, .absent = m->absent};
    return DPT_OK;
}

void dpti_allreduce_leave(dpti_allreduce *allreduce, size_t rank)
{
    member *m = &allreduce->members[rank];
    if (m->staged) dpti_host_free(m->data->device, m->view);
    *m = (member){.absent = m->absent};
}

void dpti_allreduce_set_present(dpti_allreduce *allreduce, size_t rank, bool present)
{
    allreduce->members[rank].absent = !present;
    dpti_rendezvous_set_present(allreduce->rendezvous, rank, present);
}

void dpti_allreduce_break(dpti_allreduce *allreduce)
{
    dpti_rendezvous_break(allreduce->rendezvous);
}

void dpti_allreduce_mend(dpti_allreduce *allreduce)
{
    dpti_rendezvous_mend(allreduce->rendezvous);
}

/* Of the ranks below `rank`. */
static size_t count_present(const dpti_allreduce *a, size_t rank)
{
    size_t n = 0;
    for (size_t r = 0; r < rank; r++)
        n += !a->members[r].absent;
    return n;
}

/* Sums elements [first, last) over the contributing members and writes the sum to every member; to
   the first one only, if it is not the whole sum yet. */
static void reduce_slice(const dpti_allreduce *a, size_t first, size_t last)
{
    const size_t n_written = a->processes ? 1 : a->n_ranks;
    float sum[BLOCK];
    for (size_t begin = first; begin < last; begin += BLOCK) {
        const size_t n = last - begin < BLOCK ? last - begin : BLOCK;
        bool empty = true;
        /* Fixed order: float addition is not associative, and replicas must agree to the bit. */
        for (size_t r = 0; r < a->n_ranks; r++) {
            if (a->members[r].absent || !a->members[r].contributes) continue;
            const float *from = a->members[r].view + begin;
            if (empty)
                memcpy(sum, from, n * sizeof *sum);
            else
                for (size_t i = 0; i < n; i++)
                    sum[i] += from[i];
            empty = false;
        }
        if (empty) memset(sum, 0, n * sizeof *sum);
        for (size_t r = 0; r < n_written; r++)
            if (!a->members[r].absent) memcpy(a->members[r].view + begin, sum, n * sizeof *sum);
    }
}

/* Of the present rank at this place among them. */
static size_t slice_begin(const dpti_allreduce *a, size_t place)
{
    const size_t lines = (a->count + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT;
    const size_t begin = lines * place / count_present(a, a->n_ranks) * SLICE_ALIGNMENT;
    return begin < a->count ? begin : a->count;
}

static bool any_staged(const dpti_allreduce *a)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (a->members[r].staged && !a->members[r].absent) return true;
    return false;
}

static dpt_status transfer(const dpti_allreduce *a, const member *m, bool upload)
{
    const size_t n_bytes = a->count * sizeof(float);
    if (!m->staged) return DPT_OK;
    if (upload)
        DPT_TRY(dpti_upload(m->data, 0, m->view, n_bytes));
    else
        DPT_TRY(dpti_download(m->view, m->data, 0, n_bytes));
    return dpti_sync(m->data->device);
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

/* ---- Over processes -------------------------------------------------------------------------- */

/* What all processes think of the step, and which of them bring anything. */
static dpt_status vote(dpti_allreduce *a, dpt_status mine)
{
    dpt_status verdict = DPT_OK;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    bool any = false;
    for (size_t r = 0; r < a->n_ranks; r++)
        any = any || a->members[r].contributes;
    a->contributing[dpti_processes_rank(a->processes)] = any;
    DPT_TRY(dpti_processes_share(a->processes, &(dpti_table){a->contributing, a->places}, mine,
                                 &verdict, &error));
    return verdict;
}

/* One member of each process votes for all of it. */
static dpt_status vote_over_processes(dpti_allreduce *a, size_t rank, dpt_status verdict,
                                      double *clock, dpti_times *times)
{
    if (!a->processes) return verdict;
    verdict = rank == 0 ? vote(a, verdict) : DPT_OK;
    verdict = dpti_rendezvous_meet(a->rendezvous, rank, verdict);
    *clock = dpti_times_add_since(times, DPTI_SPAN_WAITING, *clock);
    return verdict;
}

/* The sum of this process, which the first member has, becomes that of all, for all members. */
static dpt_status reduce_over_processes(dpti_allreduce *a, size_t rank, double *clock,
                                        dpti_times *times)
{
    dpt_error error = {.status = DPT_OK};
    dpt_status mine = DPT_OK;
    if (!a->processes) return DPT_OK;
    if (rank == 0)
        mine = dpti_processes_reduce(a->processes, a->members[0].view, a->count, a->contributing,
                                     &error);
    mine = dpti_rendezvous_meet(a->rendezvous, rank, mine);
    /* Every member's, whoever does it: else the first one would look slow. */
    *clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, *clock);
    if (mine != DPT_OK || a->n_ranks == 1) return mine;
    const size_t first = slice_begin(a, rank), n = slice_begin(a, rank + 1) - first;
    for (size_t r = 1; r < a->n_ranks; r++)
        memcpy(a->members[r].view + first, a->members[0].view + first, n * sizeof(float));
    return meet(a, rank, DPT_OK, clock, times);
}

dpt_status dpti_allreduce_run(dpti_allreduce *allreduce, size_t rank, bool contributes,
                              dpt_status *mine, dpti_times *times)
{
    dpti_allreduce *a = allreduce;
    member *m = &a->members[rank];
    if (count_present(a, a->n_ranks) == 1 && !a->processes) return *mine;
    double clock = dpti_seconds();
    m->contributes = contributes;
    if (*mine == DPT_OK && contributes) *mine = transfer(a, m, false);
    const dpt_status verdict = meet(a, rank, *mine, &clock, times);
    DPT_TRY(vote_over_processes(a, rank, verdict, &clock, times));

    const size_t place = count_present(a, rank);
    if (a->n_ranks > 1) reduce_slice(a, slice_begin(a, place), slice_begin(a, place + 1));
    DPT_TRY(meet(a, rank, DPT_OK, &clock, times));
    DPT_TRY(reduce_over_processes(a, rank, &clock, times));
    if (!any_staged(a)) return DPT_OK;
    *mine = transfer(a, m, true);
    return meet(a, rank, *mine, &clock, times);
}
