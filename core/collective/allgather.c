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
};

dpti_allgather *dpti_allgather_create(size_t n_ranks, size_t max_count)
{
    dpti_allgather *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->n_ranks = n_ranks;
    a->rendezvous = dpti_rendezvous_create(n_ranks);
    a->calls = calloc(n_ranks, sizeof *a->calls);
    bool complete = a->rendezvous && a->calls;
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
    free(allgather->calls);
    dpti_rendezvous_destroy(allgather->rendezvous);
    free(allgather);
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
