/* Processes that die, and processes that come (processes.h). */
#include "collective/processes_state.h"

#include "dpt_error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool dpti_processes_survive(const dpti_processes *processes)
{
    return processes->survives;
}

double dpti_processes_timeout(const dpti_processes *processes)
{
    return processes->timeout;
}

bool dpti_processes_cut_off(dpti_processes *processes)
{
    dpti_processes *p = processes;
    pthread_mutex_lock(&p->mutex);
    const bool transport = p->failed && p->first_failure.status != DPT_OK;
    pthread_mutex_unlock(&p->mutex);
    return transport;
}

bool dpti_processes_to_mend(dpti_processes *processes)
{
    return processes->survives && !processes->lost && dpti_processes_cut_off(processes);
}

static dpt_status run_settle(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    const dpt_status status = dpti_link_settle(&p->link, error);
    if (status != DPT_OK) dpti_processes_end_in_flight(p);
    return status;
}

dpt_status dpti_processes_settle(dpti_processes *processes, dpt_error *error)
{
    return processes->survives ? dpti_processes_together(processes, run_settle, NULL, error)
                               : DPT_OK;
}

static dpt_status run_mend(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    DPT_TRY(dpti_link_mend(&p->link, error));
    dpti_processes_free_room(p);
    p->broken = false;
    return dpti_processes_make_room(p, error);
}

/* Tells all processes which ranks they had at the start. */
static dpt_status tell_firsts(dpti_processes *p, dpt_error *error)
{
    dpti_gathered all = {.data = NULL};
    const uint64_t mine = p->first;
    DPT_TRY(dpti_processes_gather(p, (dpti_bytes){&mine, sizeof mine}, &all, error));
    size_t *firsts = calloc(p->link.n, sizeof *firsts);
    for (size_t r = 0; firsts && r < p->link.n; r++) {
        uint64_t first;
        memcpy(&first, all.data + r * sizeof first, sizeof first);
        firsts[r] = (size_t)first;
    }
    dpti_gathered_free(&all);
    if (!firsts) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with processes");
    free(p->firsts);
    p->firsts = firsts;
    /* One process comes at a time, and its place is above all others. */
    const size_t newest = firsts[p->link.n - 1];
    if (newest > p->last) p->arrival = p->last = newest;
    return DPT_OK;
}

static dpt_status mend_once(dpti_processes *p, dpt_error *error)
{
    const dpt_status status = dpti_processes_call(p, run_mend, NULL, error);
    p->lost = status != DPT_OK;
    DPT_TRY(status);
    p->comes = false;
    pthread_mutex_lock(&p->mutex);
    p->failed = false;
    p->first_failure = (dpt_error){.status = DPT_OK};
    p->n_started = p->n_over = 0;
    p->agreed = false;
    pthread_mutex_unlock(&p->mutex);
    DPT_TRY(tell_firsts(p, error));
    return dpti_processes_tell_delays(p, error);
}

dpt_status dpti_processes_mend(dpti_processes *processes, dpt_error *error)
{
    dpti_processes *p = processes;
    if (!dpti_processes_to_mend(p))
        return DPT_FAIL(error, DPT_E_STATE, "there is no failure between processes to go on from");
    dpt_status status = mend_once(p, error);
    while (status != DPT_OK && dpti_processes_to_mend(p)) /* another one has died meanwhile */
        status = mend_once(p, error);
    return status;
}

const dpti_link *dpti_processes_link(const dpti_processes *processes)
{
    return &processes->link;
}

bool dpti_processes_come(const dpti_processes *processes)
{
    return processes->comes;
}

static dpt_status run_let_in(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    p->link.admits = true;
    dpti_processes_end_in_flight(p);
    return DPT_FAIL(error, DPT_E_STATE, "another process joins");
}

void dpti_processes_let_in(dpti_processes *processes)
{
    dpt_error error = {.status = DPT_OK};
    (void)dpti_processes_together(processes, run_let_in, NULL, &error);
}

bool dpti_processes_is_new(const dpti_processes *processes, size_t rank)
{
    return dpti_processes_first(processes, rank) == processes->arrival;
}

void dpti_processes_have_arrived(dpti_processes *processes)
{
    processes->arrival = SIZE_MAX;
}

bool dpti_processes_end_alone(dpti_processes *processes, dpt_status mine, const dpt_error *why)
{
    dpti_processes *p = processes;
    if (mine == DPT_OK || !dpti_processes_is_new(p, p->link.rank) || dpti_processes_has_failed(p))
        return false;
    p->lost = true;
    pthread_mutex_lock(&p->mutex);
    p->first_failure = *why;
    p->first_failure.status = mine;
    pthread_mutex_unlock(&p->mutex);
    dpti_processes_abandon(p);
    return true;
}

size_t dpti_processes_first(const dpti_processes *processes, size_t rank)
{
    return processes->firsts ? processes->firsts[rank] : rank;
}

size_t dpti_processes_first_count(const dpti_processes *processes)
{
    return processes->n_first;
}

bool dpti_processes_live(const dpti_processes *processes, size_t first)
{
    for (size_t r = 0; r < processes->link.n; r++)
        if (dpti_processes_first(processes, r) == first) return true;
    return false;
}
