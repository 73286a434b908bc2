/* Host all-gather: one table that every rank writes its row of and reads whole. */
#include "collective/allgather.h"

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

dpt_status dpti_allgather_run(dpti_allgather *allgather, size_t rank, bool contributes,
                              const dpti_place *part, const dpti_place *parts, size_t count,
                              dpt_status *mine)
{
    dpti_allgather *a = allgather;
    float *table = a->tables[a->calls[rank]++ % TABLES];
    float *row = table + rank * count;
    if (!contributes)
        memset(row, 0, count * sizeof *row);
    else if (*mine == DPT_OK)
        *mine = fetch(row, part, count * sizeof *row);
    DPT_TRY(dpti_rendezvous_meet(a->rendezvous, rank, *mine));
    if (contributes)
        *mine = dpti_upload(parts->buffer, parts->offset_bytes, table,
                            a->n_ranks * count * sizeof *table);
    return DPT_OK;
}
