/* Host all-gather: one table that every rank writes its row of and reads whole. */
#include "collective/allgather.h"

#include "base/base.h"
#include "collective/rendezvous.h"

#include <stdlib.h>
#include <string.h>

/* Two tables in turn: whoever comes to the meeting after this one has read this one's table, so the
   meeting after that may overwrite it, and one meeting a call is enough. */
enum { TABLES = 2 };

struct dpti_allgather {
    size_t n_ranks;
    dpti_rendezvous *rendezvous;
    float *tables[TABLES]; /* (n_ranks, max_count) */
    size_t *calls;         /* (n_ranks) how often each has been here */
    bool *absent;          /* (n_ranks) */
};

dpti_allgather *dpti_allgather_create(size_t n_ranks, size_t max_count)
{
    dpti_allgather *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->n_ranks = n_ranks;
    a->rendezvous = dpti_rendezvous_create(n_ranks);
    a->calls = calloc(n_ranks, sizeof *a->calls);
    a->absent = calloc(n_ranks, sizeof *a->absent);
    bool complete = a->rendezvous && a->calls && a->absent;
    for (size_t i = 0; i < TABLES; i++) {
        a->tables[i] = calloc(n_ranks * max_count, sizeof(float));
        complete = complete && a->tables[i];
    }
    if (complete) return a;
    dpti_allgather_destroy(a);
    return NULL;
}

void dpti_allgather_destroy(dpti_allgather *allgather)
{
    if (!allgather) return;
    for (size_t i = 0; i < TABLES; i++)
        free(allgather->tables[i]);
    free(allgather->absent);
    free(allgather->calls);
    dpti_rendezvous_destroy(allgather->rendezvous);
    free(allgather);
}

/* The first rank that is present. */
static size_t first_present(const dpti_allgather *a)
{
    size_t rank = 0;
    while (rank + 1 < a->n_ranks && a->absent[rank])
        rank++;
    return rank;
}

void dpti_allgather_set_present(dpti_allgather *allgather, size_t rank, bool present)
{
    dpti_allgather *a = allgather;
    if (present && a->absent[rank]) a->calls[rank] = a->calls[first_present(a)];
    a->absent[rank] = !present;
    dpti_rendezvous_set_present(a->rendezvous, rank, present);
}

void dpti_allgather_break(dpti_allgather *allgather)
{
    dpti_rendezvous_break(allgather->rendezvous);
}

void dpti_allgather_mend(dpti_allgather *allgather)
{
    dpti_allgather *a = allgather;
    /* One that was sent away before it came has missed a call. */
    for (size_t r = 0; r < a->n_ranks; r++)
        a->calls[r] = 0;
    dpti_rendezvous_mend(a->rendezvous);
}

/* The rows of those who are not there, by one who is. */
static void clear_absent(const dpti_allgather *a, float *table, size_t count)
{
    for (size_t r = 0; r < a->n_ranks; r++)
        if (a->absent[r]) memset(table + r * count, 0, count * sizeof *table);
}

static dpt_status fetch(float *row, const dpti_place *part, size_t n_bytes)
{
    DPT_TRY(dpti_download(row, part->buffer, part->offset_bytes, n_bytes));
    return dpti_sync(part->buffer->device);
}

static dpt_status take_away(const dpti_allgather *a, const dpti_gather *what, const float *table)
{
    DPT_TRY(dpti_event_record(what->parts.buffer->device, what->moving));
    return dpti_upload(what->parts.buffer, what->parts.offset_bytes, table,
                       a->n_ranks * what->count * sizeof *table);
}

dpt_status dpti_allgather_run(dpti_allgather *allgather, const dpti_gather *what, dpt_status *mine,
                              dpti_times *times)
{
    dpti_allgather *a = allgather;
    const size_t n_bytes = what->count * sizeof(float);
    float *table = a->tables[a->calls[what->rank]++ % TABLES];
    float *row = table + what->rank * what->count;
    double clock = dpti_seconds();
    if (what->rank == first_present(a)) clear_absent(a, table, what->count);
    if (!what->contributes)
        memset(row, 0, n_bytes);
    else if (*mine == DPT_OK)
        *mine = fetch(row, &what->part, n_bytes);
    clock = dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, clock);
    const dpt_status verdict = dpti_rendezvous_meet(a->rendezvous, what->rank, *mine);
    (void)dpti_times_add_since(times, DPTI_SPAN_WAITING, clock);
    DPT_TRY(verdict);
    if (what->contributes) *mine = take_away(a, what, table);
    return DPT_OK;
}
