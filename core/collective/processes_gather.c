/* What all processes gather, with a vote, and what goes to the first one and from it
   (processes.h). */
#include "collective/processes_state.h"

#include "dpt_error.h"
#include "dptrain.h" /* dpt_status_words */

#include <stdlib.h>
#include <string.h>

/* ---- All-gather with a vote ------------------------------------------------------------------ */

/* Adds the messages of an all-gather: this process sends its bytes of `base`, [begins[rank],
   begins[rank + 1]), to every other process and receives theirs. */
static void add_all_gather(const dpti_processes *p, uint8_t *base, const size_t *begins,
                           size_t *n_messages)
{
    for (size_t r = 0; r < p->link.n; r++) {
        if (r == p->link.rank) continue;
        dpti_processes_add(
            p->messages, n_messages,
            &(dpt_message){.peer = r,
                           .data = base + begins[p->link.rank],
                           .n_bytes = begins[p->link.rank + 1] - begins[p->link.rank]});
        dpti_processes_add(p->messages, n_messages,
                           &(dpt_message){.receive = true,
                                          .peer = r,
                                          .data = base + begins[r],
                                          .n_bytes = begins[r + 1] - begins[r]});
    }
}

typedef struct shard_job {
    const dpti_table *table;
    dpt_status *brought; /* (n) */
} shard_job;

static dpt_status run_shard(dpti_processes *p, void *argument, dpt_error *error)
{
    const shard_job *job = argument;
    size_t n_messages = 0;
    for (size_t r = 0; r < p->link.n; r++) {
        if (r == p->link.rank) continue;
        dpti_processes_add(p->messages, &n_messages,
                           &(dpt_message){.peer = r,
                                          .data = &job->brought[p->link.rank],
                                          .n_bytes = sizeof *job->brought});
        dpti_processes_add(p->messages, &n_messages,
                           &(dpt_message){.receive = true,
                                          .peer = r,
                                          .data = &job->brought[r],
                                          .n_bytes = sizeof *job->brought});
    }
    add_all_gather(p, job->table->data, job->table->begins, &n_messages);
    return dpti_processes_exchange(p, n_messages, error);
}

static dpt_status first_failure(const dpt_status *brought, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (brought[i] != DPT_OK) return brought[i];
    return DPT_OK;
}

dpt_status dpti_processes_share(dpti_processes *processes, const dpti_table *table,
                                dpt_status *verdict, dpt_error *error)
{
    dpti_processes *p = processes;
    dpt_status *brought = calloc(p->link.n, sizeof *brought);
    shard_job job = {.table = table, .brought = brought};
    if (!brought) {
        dpti_processes_abandon(p);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with other processes");
    }
    brought[p->link.rank] = *verdict;
    const dpt_status status = dpti_processes_together(p, run_shard, &job, error);
    if (status == DPT_OK) *verdict = first_failure(brought, p->link.n);
    free(brought);
    return status;
}

/* ---- Gathering what has any size ------------------------------------------------------------- */

void dpti_gathered_free(dpti_gathered *gathered)
{
    free(gathered->data);
    free(gathered->begins);
    *gathered = (dpti_gathered){.data = NULL};
}

/* Gathers the sizes first, then the bytes. */
static dpt_status gather(dpti_processes *p, dpti_bytes mine, dpti_gathered *g, dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    uint64_t *sizes = calloc(p->link.n, sizeof *sizes);
    g->begins = calloc(p->link.n + 1, sizeof *g->begins);
    dpt_status status = DPT_E_NO_MEMORY;
    if (!sizes || !g->begins) goto end;
    for (size_t r = 0; r <= p->link.n; r++)
        g->begins[r] = r * sizeof *sizes;
    sizes[p->link.rank] = mine.n_bytes;
    status = dpti_processes_share(p, &(dpti_table){sizes, g->begins}, &verdict, error);
    if (status != DPT_OK) goto end;
    g->begins[0] = 0;
    for (size_t r = 0; r < p->link.n; r++)
        g->begins[r + 1] = g->begins[r] + (size_t)sizes[r];
    g->data = calloc(g->begins[p->link.n] + 1, 1);
    status = DPT_E_NO_MEMORY;
    if (!g->data) goto end;
    if (mine.n_bytes > 0) memcpy(g->data + g->begins[p->link.rank], mine.data, mine.n_bytes);
    verdict = DPT_OK;
    status = dpti_processes_share(p, &(dpti_table){g->data, g->begins}, &verdict, error);
end:
    if (status == DPT_E_NO_MEMORY && !dpti_processes_has_failed(p)) {
        dpti_processes_abandon(p);
        (void)DPT_FAIL(error, status, "no memory to exchange with other processes");
    }
    free(sizes);
    return status;
}

dpt_status dpti_processes_gather(dpti_processes *processes, dpti_bytes mine, dpti_gathered *out,
                                 dpt_error *error)
{
    dpti_gathered g = {.data = NULL};
    const dpt_status status = gather(processes, mine, &g, error);
    if (status == DPT_OK && out)
        *out = g;
    else
        dpti_gathered_free(&g);
    return status;
}

dpt_status dpti_processes_tell_delays(dpti_processes *processes, dpt_error *error)
{
    dpti_processes *p = processes;
    dpti_gathered all = {.data = NULL};
    DPT_TRY(
        dpti_processes_gather(p, (dpti_bytes){&p->link.delay, sizeof p->link.delay}, &all, error));
    memcpy(p->delays, all.data, p->link.n * sizeof *p->delays);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* Returns the first failure among the n reports, or NULL.  *alike says whether all reports are the
   same. */
static const dpt_error *find_failure(const dpt_error *reports, size_t n, size_t *rank, bool *alike)
{
    const dpt_error *found = NULL;
    *alike = true;
    for (size_t r = n; r-- > 0;) {
        *alike = *alike && reports[r].status == reports[0].status &&
                 strcmp(reports[r].message, reports[0].message) == 0;
        if (reports[r].status == DPT_OK) continue;
        found = &reports[r];
        *rank = r;
    }
    return found;
}

dpt_status dpti_processes_agree(dpti_processes *processes, dpt_status mine, dpt_error *error)
{
    dpti_processes *p = processes;
    dpti_gathered reports = {.data = NULL};
    dpt_error report = {.status = mine};
    size_t rank = 0;
    bool alike;
    if (mine != DPT_OK) {
        report = *error;
        report.status = mine;
        report.file = NULL; /* an address of this process */
    }
    DPT_TRY(dpti_processes_gather(p, (dpti_bytes){&report, sizeof report}, &reports, error));
    const dpt_error *found =
        find_failure((const dpt_error *)(const void *)reports.data, p->link.n, &rank, &alike);
    p->agreed = found != NULL;
    if (found && alike)
        *error = *found;
    else if (found)
        (void)DPT_FAIL_NATIVE(error, found->status, found->native, "process %zu: %.480s", rank,
                              found->message[0] ? found->message : dpt_status_words(found->status));
    const dpt_status status = found ? found->status : DPT_OK;
    dpti_gathered_free(&reports);
    return status;
}

/* ---- To the first process, and from it ------------------------------------------------------- */

typedef struct rooted_job {
    bool to_first;
    uint8_t *mine, *all;
    size_t n_bytes;
} rooted_job;

static dpt_status run_rooted(dpti_processes *p, void *argument, dpt_error *error)
{
    const rooted_job *job = argument;
    const bool is_first = p->link.rank == 0;
    size_t n_messages = 0;
    for (size_t r = 1; r < p->link.n; r++) {
        dpt_message m = {.receive = is_first == job->to_first, .n_bytes = job->n_bytes};
        if (!is_first && r != p->link.rank) continue;
        m.peer = is_first ? r : 0;
        m.data = is_first ? job->all + r * job->n_bytes : job->mine;
        dpti_processes_add(p->messages, &n_messages, &m);
    }
    return dpti_processes_exchange(p, n_messages, error);
}

dpt_status dpti_processes_collect(dpti_processes *processes, const dpti_rooted *what,
                                  dpt_error *error)
{
    rooted_job job = {
        .to_first = true, .mine = what->mine, .all = what->all, .n_bytes = what->n_bytes};
    if (processes->link.rank == 0) memcpy(what->all, what->mine, what->n_bytes);
    return dpti_processes_together(processes, run_rooted, &job, error);
}

dpt_status dpti_processes_deal(dpti_processes *processes, const dpti_rooted *what, dpt_error *error)
{
    rooted_job job = {.mine = what->mine, .all = what->all, .n_bytes = what->n_bytes};
    if (processes->link.rank == 0) memcpy(what->mine, what->all, what->n_bytes);
    return dpti_processes_together(processes, run_rooted, &job, error);
}
