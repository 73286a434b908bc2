/* The self-test of a new island (island_test.h). */
#include "train/exchange/island_test.h"
#include "device/buffer.h"
#include "device/communicator.h"
#include "device/driver.h"
#include "device/side_stream.h"
#include "device/stream.h"

#include "base/floats.h"
#include "base/left_behind.h"
#include "dpt_error.h"
#include "train/exchange/looks.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/state/trainer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of elements of the sums: sizes for which libraries use different algorithms. */
enum { TRIED = 65536 + 3, N_TRIED = 3, LOOKS = 3 };
static const size_t tried_ends[N_TRIED] = {3, 1024, TRIED};

typedef struct self_test self_test;
typedef dpt_status phase(self_test *job);

struct self_test {
    dpti_worker *worker;
    dpti_island_slot island_slot;
    size_t rank, n; /* which rank of how many */
    phase *run;
    dpti_buffer data;
    float *values;
    dpt_status status;
    dpt_error error;
    uint64_t sums[LOOKS]; /* hashes of the results, one for each look */
    size_t n_looks;
    bool wrong;
};

/* ---- What is right --------------------------------------------------------------------------- */

/* What a rank contributes: small integers, whose sums are exact in any order, and between them
   numbers that are rounded. */
static float tried_value(size_t rank, size_t i)
{
    const uint32_t word = ((uint32_t)i * 0x9e3779b1u) ^ ((uint32_t)(rank + 1) * 0x85ebca6bu);
    const int integer = (int)((word ^ word >> 15) % 201) - 100;
    return i % 2 == 0 ? (float)integer : 1.37e-3f * (float)((int)(word >> 12 & 0xffff) - 30000);
}

static bool is_right(const self_test *job, size_t i, float sum)
{
    double expected = 0, magnitude = 0;
    for (size_t rank = 0; rank < job->n; rank++) {
        expected += (double)tried_value(rank, i);
        magnitude += fabs((double)tried_value(rank, i));
    }
    const double tolerance = i % 2 == 0 ? 0 : (double)job->n * FLT_EPSILON * magnitude;
    return fabs((double)sum - expected) <= tolerance;
}

/* ---- Phases: [driver] ------------------------------------------------------------------------ */

static dpt_status prepare(self_test *job)
{
    dpti_worker *w = job->worker;
    void *host;
    if (!w->exchange.side.device) DPT_TRY(dpti_side_stream_create(w->device, &w->exchange.side));
    DPT_TRY(dpti_looks_create(w));
    DPT_TRY(dpti_alloc(w->device, TRIED * sizeof *job->values, &job->data));
    DPT_TRY(dpti_host_alloc(w->device, TRIED * sizeof *job->values, &host));
    job->values = host;
    return DPT_OK;
}

static dpt_status upload(self_test *job)
{
    DPT_TRY(dpti_upload(&job->data, 0, job->values, TRIED * sizeof *job->values));
    return dpti_sync(job->worker->device);
}

static dpt_status call_for_sums(self_test *job)
{
    for (size_t i = 0; i < TRIED; i++)
        job->values[i] = tried_value(job->rank, i);
    DPT_TRY(upload(job));
    for (size_t k = 0, begin = 0; k < N_TRIED; begin = tried_ends[k++]) {
        const dpti_island_part part = {.data = &job->data, .begin = begin, .end = tried_ends[k]};
        DPT_TRY(dpti_island_reduce(&job->island_slot, &part));
    }
    return DPT_OK;
}

static dpt_status look(self_test *job, float sign)
{
    dpti_stopwatch stopwatch = dpti_stopwatch_start(NULL);
    DPT_TRY(dpti_island_wait(&job->island_slot, &stopwatch));
    DPT_TRY(dpti_download(job->values, &job->data, 0, TRIED * sizeof *job->values));
    DPT_TRY(dpti_sync(job->worker->device));
    for (size_t i = 0; i < TRIED; i++)
        if (!is_right(job, i, sign * job->values[i])) job->wrong = true;
    job->sums[job->n_looks++] = dpti_hash_floats(job->values, TRIED, 0);
    return DPT_OK;
}

static dpt_status look_at_sums(self_test *job)
{
    return look(job, 1);
}

/* Broadcasts the sums of rank 0, with a sign that no other rank has. */
static dpt_status hand_out(self_test *job)
{
    for (size_t i = 0; i < TRIED; i++)
        job->values[i] = job->rank == 0 ? -job->values[i] : 0;
    DPT_TRY(upload(job));
    return dpti_island_hand_out(&job->island_slot, &job->data, TRIED);
}

static dpt_status look_at_handed(self_test *job)
{
    return look(job, -1);
}

static void release(dpti_device *device, void *argument)
{
    self_test *job = argument;
    const dpt_error error = device->base.error;
    /* After a failure too, when the island was aborted: a side stream that still waits for others
       may read what is freed here, and by whoever closes the island. */
    if (!device->lost && job->worker->exchange.side.device)
        (void)!dpti_side_stream_sync(&job->worker->exchange.side);
    dpti_host_free(device, job->values);
    dpti_free(&job->data);
    device->base.error = error;
}

/* Sums twice: the same numbers come out each time. */
static phase *const phases[] = {prepare,      call_for_sums, look_at_sums,  call_for_sums,
                                look_at_sums, hand_out,      look_at_handed};

/* A member that fails makes no more calls, for which the others would wait. */
static void run_phase(dpti_device *device, void *argument)
{
    self_test *job = argument;
    job->status = job->run(job);
    if (job->status == DPT_OK) return;
    job->error = device->base.error;
    dpti_island_abort(job->island_slot.island);
}

/* ---- What all think of it -------------------------------------------------------------------- */

dpt_status dpti_island_test_agree(const dpt_trainer *trainer, const dpti_island *island,
                                  dpt_status mine, dpt_error *error)
{
    if (!dpti_island_is_wide(island)) return mine;
    return dpti_processes_agree(trainer->processes, mine, error);
}

static bool is_wrong(const self_test *job)
{
    return job->wrong || (job->n_looks > 1 && job->sums[1] != job->sums[0]);
}

/* The status of this process's members so far. */
static dpt_status judge(const self_test *jobs, size_t n, dpt_error *error)
{
    const dpt_error failure = dpti_island_failure(jobs->island_slot.island);
    for (size_t i = 0; i < n; i++)
        if (jobs[i].status != DPT_OK && jobs[i].status != DPT_E_CANCELLED) {
            *error = jobs[i].error;
            return jobs[i].status;
        }
    for (size_t i = 0; i < n; i++)
        if (jobs[i].status != DPT_OK) {
            *error = failure;
            return jobs[i].status;
        }
    for (size_t i = 0; i < n; i++) {
        const bool same = memcmp(jobs[i].sums, jobs[0].sums, sizeof jobs[i].sums) == 0;
        if (is_wrong(&jobs[i]) || !same)
            return DPT_FAIL(error, DPT_E_DEVICE, "sums that were tried %s%s",
                            is_wrong(&jobs[i]) ? "came out wrong at "
                                               : "were not those of others at ",
                            jobs[i].worker->device->id);
    }
    return DPT_OK;
}

/* Whether the members of the first process have got the same sums. */
static dpt_status compare(dpt_trainer *t, const self_test *job, dpt_error *error)
{
    dpti_gathered all = {.data = NULL};
    if (!dpti_island_is_wide(job->island_slot.island)) return DPT_OK;
    DPT_TRY(dpti_processes_gather(t->processes, (dpti_bytes){job->sums, sizeof job->sums}, &all,
                                  error));
    const bool same = memcmp(all.data, job->sums, sizeof job->sums) == 0;
    dpti_gathered_free(&all);
    return dpti_island_test_agree(
        t, job->island_slot.island,
        same ? DPT_OK
             : DPT_FAIL(error, DPT_E_DEVICE, "sums that were tried were not those of others"),
        error);
}

/* ---- The test -------------------------------------------------------------------------------- */

/* Runs a phase on all members.  false: one hangs. */
static bool run_all(dpt_trainer *t, self_test *jobs, size_t n, phase *run)
{
    uint64_t tickets[DPTI_SPLIT_MAX_DEVICES];
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        jobs[i].run = run;
        tickets[i] = dpti_driver_post(jobs[i].worker->device, run_phase, &jobs[i]);
    }
    for (size_t i = 0; i < n; i++)
        all = dpti_trainer_await(t, jobs[i].worker->rank, tickets[i]) && all;
    return all;
}

static dpt_status run_phases(dpt_trainer *t, self_test *jobs, size_t n, dpt_error *error)
{
    dpti_island *island = jobs->island_slot.island;
    for (size_t k = 0; k < sizeof phases / sizeof *phases; k++) {
        const dpt_status mine =
            run_all(t, jobs, n, phases[k])
                ? judge(jobs, n, error)
                : DPT_FAIL(error, DPT_E_DEVICE, "a device did not answer when it was tried");
        DPT_TRY(dpti_island_test_agree(t, island, mine, error));
    }
    return compare(t, jobs, error);
}

/* Releases what the test used.  A member that hangs keeps what it may still use. */
static void end(dpt_trainer *t, self_test *jobs, size_t n)
{
    bool hangs = false;
    for (size_t i = 0; i < n; i++) {
        const dpti_worker *w = jobs[i].worker;
        if (dpti_is_hung(w) || !dpti_trainer_call(t, w->rank, release, &jobs[i])) hangs = true;
    }
    if (hangs)
        dpti_leave_behind(jobs);
    else
        free(jobs);
}

dpt_status dpti_island_test_run(dpt_trainer *trainer, dpti_island *island, const size_t *ranks,
                                dpt_error *error)
{
    const dpti_group *g = dpti_island_group(island);
    self_test *jobs = calloc(g->n, sizeof *jobs);
    const dpt_status made = jobs ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to try it");
    dpt_status status = dpti_island_test_agree(trainer, island, made, error);
    for (size_t i = 0; jobs && i < g->n; i++) {
        dpti_worker *w = &trainer->workers[ranks[i]];
        jobs[i] = (self_test){.worker = w,
                              .island_slot = {island, i, &w->exchange.side},
                              .rank = g->first_rank + i,
                              .n = g->n_ranks};
    }
    if (status == DPT_OK) status = run_phases(trainer, jobs, g->n, error);
    if (status != DPT_OK) dpti_island_abort(island);
    if (jobs) end(trainer, jobs, g->n);
    return status;
}
