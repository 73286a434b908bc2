/* The all-gather: one table in host memory, of which every rank writes its row and reads all rows.
 */
#include "collective/allgather.h"
#include "device/buffer.h"
#include "device/operator.h"
#include "device/stream.h"

#include "base/clock.h"
#include "base/floats.h"
#include "collective/rendezvous.h"

#include <stdlib.h>
#include <string.h>

/* Two tables are used in turns.  A rank that comes to the next all-gather has read the table of
   this one, so the all-gather after the next may overwrite it.  One meeting per all-gather is
   enough. */
enum { TABLES = 2 };

struct dpti_allgather {
    dpti_gatherers who;
    size_t n_rows, first_row; /* of all processes; of this one */
    dpti_rendezvous *rendezvous;
    float *tables[TABLES]; /* (n_rows, max_count) */
    size_t *calls;         /* (n_ranks) how often each has taken parts away */
    bool *absent;          /* (n_ranks) */
    size_t *begins;        /* (processes + 1) bytes of their rows in a table */
};

dpti_allgather *dpti_allgather_create(const dpti_gatherers *who, size_t max_count)
{
    const size_t n_processes = who->processes ? dpti_processes_count(who->processes) : 0;
    dpti_allgather *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->who = *who;
    a->n_rows = who->n_rows      ? who->n_rows
                : who->processes ? who->firsts[n_processes]
                                 : who->n_ranks;
    a->first_row = who->processes ? who->firsts[dpti_processes_rank(who->processes)] : 0;
    a->rendezvous = dpti_rendezvous_create(who->n_ranks);
    a->calls = calloc(who->n_ranks, sizeof *a->calls);
    a->absent = calloc(who->n_ranks, sizeof *a->absent);
    a->begins = calloc(n_processes + 1, sizeof *a->begins);
    bool complete = a->rendezvous && a->calls && a->absent && a->begins;
    for (size_t i = 0; i < TABLES; i++) {
        a->tables[i] = calloc(a->n_rows * max_count, sizeof(float));
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
    free(allgather->begins);
    free(allgather->calls);
    dpti_rendezvous_destroy(allgather->rendezvous);
    free(allgather);
}

/* Returns the first rank that is present. */
static size_t first_present(const dpti_allgather *a)
{
    size_t rank = 0;
    while (rank + 1 < a->who.n_ranks && a->absent[rank])
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
    /* A rank that was sent away before it came has missed a call. */
    for (size_t r = 0; r < a->who.n_ranks; r++)
        a->calls[r] = 0;
    dpti_rendezvous_mend(a->rendezvous);
}

/* Returns the elements of a row of the table: all parts of a rank. */
static size_t row_size(const dpti_gather *what)
{
    size_t n = 0;
    for (size_t i = 0; i < what->n; i++)
        n += what->items[i].count;
    return n;
}

/* The rows of the table that are a rank's. */
static dpti_gather_rows rows_of(const dpti_allgather *a, const dpti_gather *what)
{
    if (a->who.n_rows) return what->rows;
    return (dpti_gather_rows){.first = a->first_row + what->rank, .n = 1, .n_all = a->n_rows};
}

/* Sets the rows of absent ranks to zero, or those that no rank has; one present rank does this. */
static void clear_absent(const dpti_allgather *a, const dpti_gather *what, float *table,
                         size_t size)
{
    if (a->who.n_rows) {
        const size_t n = what->rows.n_all;
        memset(table + n * size, 0, (a->n_rows - n) * size * sizeof *table);
        return;
    }
    for (size_t r = 0; r < a->who.n_ranks; r++)
        if (a->absent[r]) memset(table + (a->first_row + r) * size, 0, size * sizeof *table);
}

dpt_status dpti_allgather_fetch(const dpti_gather *what)
{
    float *to = what->staging;
    for (size_t i = 0; i < what->n; i++) {
        const dpti_gather_part *item = &what->items[i];
        const size_t n = (what->rows.n > 0 ? what->rows.n : 1) * item->count;
        DPT_TRY(dpti_download(to, item->part.buffer, item->part.offset_bytes, n * sizeof *to));
        to += n;
    }
    return DPT_OK;
}

/* Copies what was downloaded, part by part, into the rows of the table. */
static dpt_status put_rows(float *rows, size_t n_rows, const dpti_gather *what)
{
    dpti_device *device = what->items[0].part.buffer->device;
    const size_t size = row_size(what);
    const float *from = what->staging;
    for (size_t i = 0, begin = 0; i < what->n; begin += what->items[i++].count)
        for (size_t r = 0; r < n_rows; r++, from += what->items[i].count)
            memcpy(rows + r * size + begin, from, what->items[i].count * sizeof *rows);
    if (dpti_all_finite(rows, n_rows * size)) return DPT_OK;
    return DPT_FAIL(&device->base.error, DPT_E_NOT_FINITE, "a part is not finite");
}

/* One part of the rows of a table. */
typedef struct table_part {
    const float *first; /* the part in the first row */
    size_t row_size;    /* elements from one row to the next */
} table_part;

/* Copies one part of every row through its place in the staging memory to the device. */
static dpt_status take_away(const dpti_allgather *a, const dpti_gather_part *item, table_part from,
                            float *staging)
{
    const dpti_place *to = &item->parts;
    for (size_t r = 0; r < a->n_rows; r++)
        memcpy(staging + r * item->count, from.first + r * from.row_size,
               item->count * sizeof *staging);
    return dpti_upload(to->buffer, to->offset_bytes, staging,
                       a->n_rows * item->count * sizeof *staging);
}

static dpt_status take_all(const dpti_allgather *a, const dpti_gather *what, const float *table)
{
    const size_t size = row_size(what);
    size_t begin = 0;
    DPT_TRY(dpti_event_record(what->items[0].parts.buffer->device, what->moving));
    for (size_t i = 0; i < what->n; begin += what->items[i++].count)
        DPT_TRY(take_away(a, &what->items[i], (table_part){table + begin, size},
                          what->staging + begin * a->n_rows));
    return DPT_OK;
}

/* One rank exchanges the rows and the votes of this process for those of the other processes.  The
   meeting after that tells the other ranks of this process. */
static dpt_status over_processes(dpti_allgather *a, const dpti_gather *what, dpt_status verdict,
                                 float *table)
{
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    dpt_status shared = DPT_OK;
    if (!a->who.processes) return verdict;
    if (what->rank == 0) {
        const size_t *rows = a->who.n_rows ? what->rows.borders : a->who.firsts;
        for (size_t p = 0; p <= dpti_processes_count(a->who.processes); p++)
            a->begins[p] = rows[p] * row_size(what) * sizeof *table;
        shared = dpti_processes_share(a->who.processes, &(dpti_table){table, a->begins}, &verdict,
                                      &error);
        if (shared == DPT_OK) shared = verdict;
    }
    return dpti_rendezvous_meet(a->rendezvous, what->rank, shared);
}

void dpti_allgather_contribute(dpti_allgather *allgather, const dpti_gather *what, dpt_status *mine,
                               dpti_times *times)
{
    dpti_allgather *a = allgather;
    const size_t size = row_size(what);
    float *table = a->tables[a->calls[what->rank] % TABLES];
    const dpti_gather_rows rows = rows_of(a, what);
    float *first = table + rows.first * size;
    const double began = dpti_seconds();
    if (what->rank == first_present(a)) clear_absent(a, what, table, size);
    if (!what->contributes && !a->who.n_rows)
        memset(first, 0, size * sizeof *first);
    else if (what->contributes && *mine == DPT_OK)
        *mine = put_rows(first, rows.n, what);
    (void)dpti_times_add_since(times, DPTI_SPAN_EXCHANGE, began);
    dpti_rendezvous_come(a->rendezvous, what->rank, *mine);
}

dpt_status dpti_allgather_take(dpti_allgather *allgather, const dpti_gather *what, dpt_status *mine,
                               dpti_times *times)
{
    dpti_allgather *a = allgather;
    float *table = a->tables[a->calls[what->rank]++ % TABLES];
    const double began = dpti_seconds();
    dpt_status verdict = dpti_rendezvous_wait(a->rendezvous, what->rank);
    verdict = over_processes(a, what, verdict, table);
    (void)dpti_times_add_since(times, DPTI_SPAN_WAITING, began);
    DPT_TRY(verdict);
    if (what->contributes && *mine == DPT_OK) *mine = take_all(a, what, table);
    return DPT_OK;
}
