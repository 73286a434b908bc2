/* Forming islands, trying them, and giving them up (islands.h). */
#include "train/islands.h"

#include "base/base.h"
#include "train/trainer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Cards of one machine find each other in a second or two; a sum takes milliseconds. */
static const double join_seconds = 60, sum_seconds = 60;

/* ---- Trying a new one ------------------------------------------------------------------------ */

/* Sums of so many elements are tried: sizes for which libraries take other ways. */
enum { TRIED = 65536 + 3, N_TRIED = 3 };
static const size_t tried_ends[N_TRIED] = {3, 1024, TRIED};

typedef struct trial {
    dpti_worker *worker;
    dpti_berth berth;
    size_t n;
    dpt_status status;
    uint64_t sums; /* a hash of what came out */
    bool wrong;
} trial;

/* What member `place` brings: small integers, whose sums are exact in any order, and between them
   numbers that are rounded. */
static float tried_value(size_t place, size_t i)
{
    const uint32_t word = ((uint32_t)i * 0x9e3779b1u) ^ ((uint32_t)(place + 1) * 0x85ebca6bu);
    const int integer = (int)((word ^ word >> 15) % 201) - 100;
    return i % 2 == 0 ? (float)integer : 1.37e-3f * (float)((int)(word >> 12 & 0xffff) - 30000);
}

static bool is_right(const trial *job, size_t i, float sum)
{
    double expected = 0, magnitude = 0;
    for (size_t place = 0; place < job->n; place++) {
        expected += (double)tried_value(place, i);
        magnitude += fabs((double)tried_value(place, i));
    }
    const double tolerance = i % 2 == 0 ? 0 : (double)job->n * FLT_EPSILON * magnitude;
    return fabs((double)sum - expected) <= tolerance;
}

static dpt_status bring_back(const dpti_berth *berth, const dpti_buffer *data, float *values)
{
    double clock = dpti_seconds();
    DPT_TRY(dpti_island_wait(berth, &clock, NULL));
    DPT_TRY(dpti_download(values, data, 0, TRIED * sizeof *values));
    return dpti_sync(data->device);
}

static dpt_status try_sum(trial *job, const dpti_buffer *data, float *values)
{
    for (size_t i = 0; i < TRIED; i++)
        values[i] = tried_value(job->berth.place, i);
    DPT_TRY(dpti_upload(data, 0, values, TRIED * sizeof *values));
    DPT_TRY(dpti_sync(data->device));
    for (size_t k = 0, begin = 0; k < N_TRIED; begin = tried_ends[k++]) {
        const dpti_island_part part = {.data = data, .begin = begin, .end = tried_ends[k]};
        DPT_TRY(dpti_island_reduce(&job->berth, &part));
    }
    DPT_TRY(bring_back(&job->berth, data, values));
    for (size_t i = 0; i < TRIED; i++)
        if (!is_right(job, i, values[i])) job->wrong = true;
    job->sums = dpti_hash_floats(values, TRIED, job->sums);
    return DPT_OK;
}

/* Twice: the same numbers come out each time.  Then the first one's sums, with a sign that nobody
   else has, go to all. */
static dpt_status try_all(trial *job, const dpti_buffer *data, float *values)
{
    const bool is_first = job->berth.place == 0;
    uint64_t once = 0;
    for (int turn = 0; turn < 2; turn++) {
        job->sums = 0;
        DPT_TRY(try_sum(job, data, values));
        if (turn > 0 && job->sums != once) job->wrong = true;
        once = job->sums;
    }
    for (size_t i = 0; i < TRIED; i++)
        values[i] = is_first ? -values[i] : 0;
    DPT_TRY(dpti_upload(data, 0, values, TRIED * sizeof *values));
    DPT_TRY(dpti_sync(data->device));
    DPT_TRY(dpti_island_hand_out(&job->berth, data, TRIED));
    DPT_TRY(bring_back(&job->berth, data, values));
    for (size_t i = 0; i < TRIED; i++)
        if (!is_right(job, i, -values[i])) job->wrong = true;
    job->sums = dpti_hash_floats(values, TRIED, job->sums);
    return DPT_OK;
}

/* What its member needs, and the trial. */
static void run_trial(dpti_device *device, void *argument)
{
    trial *job = argument;
    dpti_worker *w = job->worker;
    dpti_buffer data = {.device = NULL};
    float *values = NULL;
    void *host = NULL;
    dpt_status status = w->lane.device ? DPT_OK : dpti_lane_create(device, &w->lane);
    if (status == DPT_OK) status = dpti_looks_create(w);
    if (status == DPT_OK) status = dpti_alloc(device, TRIED * sizeof *values, &data);
    if (status == DPT_OK) status = dpti_host_alloc(device, TRIED * sizeof *values, &host);
    values = host;
    if (status == DPT_OK) status = try_all(job, &data, values);
    /* The others would wait for it. */
    if (status != DPT_OK) dpti_island_abort(job->berth.island);
    const dpt_error error = device->base.error;
    dpti_host_free(device, host);
    dpti_free(&data);
    device->base.error = error;
    job->status = status;
}

/* ---- The trainer's --------------------------------------------------------------------------- */

static void set_berth(dpt_trainer *t, size_t rank, const dpti_berth *berth)
{
    t->workers[rank].berth = *berth;
    dpti_allreduce_set_berth(t->allreduce, rank, berth);
}

/* Its members, in the order of ranks, are the workers whose devices it has. */
static size_t rank_of(const dpt_trainer *t, const dpti_island *island, size_t place)
{
    size_t rank = 0;
    while (t->workers[rank].device != dpti_island_device(island, place))
        rank++;
    return rank;
}

/* Whether all of its members can be called, and whether one is in a call that does not return. */
typedef struct condition {
    bool whole, hangs;
} condition;

static condition look_at(const dpt_trainer *t, const dpti_island *island)
{
    condition c = {.whole = true};
    for (size_t place = 0; place < dpti_island_size(island); place++) {
        const dpti_worker *w = &t->workers[rank_of(t, island, place)];
        c.hangs = c.hangs || w->hung;
        c.whole = c.whole && !w->gone && !w->hung && !w->device->lost;
    }
    return c;
}

static void run_close(dpti_device *device, void *argument)
{
    dpti_island_close(argument, device);
}

/* One whose member hangs is left to it. */
static void dissolve(dpt_trainer *t, dpti_island *island)
{
    const condition c = look_at(t, island);
    const size_t first = rank_of(t, island, 0);
    for (size_t place = 0; place < dpti_island_size(island); place++)
        set_berth(t, rank_of(t, island, place), &(dpti_berth){.island = NULL});
    for (size_t i = 0; i < t->islands.n; i++)
        if (t->islands.items[i] == island) t->islands.items[i] = t->islands.items[--t->islands.n];
    if (!c.whole) dpti_island_abort(island);
    if (c.hangs) {
        dpti_leave_behind(island);
        return;
    }
    if (dpti_island_is_sound(island))
        dpti_driver_call(t->workers[first].device, run_close, island);
    else
        dpti_island_close(island, t->workers[first].device);
    dpti_island_destroy(island);
}

/* As many of the names as fit. */
static void list_names(const dpti_island *island, char *out, size_t n_bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < dpti_island_size(island) && length < n_bytes; i++) {
        const int more = snprintf(out + length, n_bytes - length, "%s%s", i ? ", " : "",
                                  dpti_island_device(island, i)->id);
        length += more > 0 ? (size_t)more : 0;
    }
}

void dpti_islands_words(const dpt_trainer *trainer, size_t i, char *out, size_t n_bytes)
{
    char names[200];
    list_names(trainer->islands.items[i], names, sizeof names);
    snprintf(out, n_bytes, "%s sum gradients among themselves", names);
}

static void tell(dpt_trainer *t, const dpti_island *island, const dpt_error *why)
{
    char names[200];
    dpt_error error = {.status = why->status};
    list_names(island, names, sizeof names);
    (void)DPT_FAIL(&error, why->status,
                   "%s sum gradients through the host, not among themselves: %.250s", names,
                   why->message);
    dpti_trainer_note_event(t, DPT_ISLAND_LOST, rank_of(t, island, 0), &error);
}

/* ---- Forming --------------------------------------------------------------------------------- */

typedef struct open_job {
    dpti_island *island;
    dpt_status status;
} open_job;

static void run_open(dpti_device *device, void *argument)
{
    open_job *job = argument;
    (void)device;
    job->status = dpti_island_open(job->island, join_seconds);
}

/* The devices of a group that is to be formed. */
typedef struct group {
    size_t n, ranks[DPTI_SPLIT_MAX_DEVICES];
    dpti_device *devices[DPTI_SPLIT_MAX_DEVICES];
} group;

/* What was wrong with the sums, in the status and in *error. */
static dpt_status judge(const dpt_trainer *t, const group *g, const trial *trials, dpt_error *error)
{
    for (size_t i = 0; i < g->n; i++)
        if (trials[i].status != DPT_OK && trials[i].status != DPT_E_CANCELLED) {
            *error = *dpti_device_error(t->workers[g->ranks[i]].device);
            return trials[i].status;
        }
    for (size_t i = 0; i < g->n; i++)
        if (trials[i].status != DPT_OK) {
            *error = dpti_island_failure(trials[i].berth.island);
            return trials[i].status;
        }
    for (size_t i = 0; i < g->n; i++)
        if (trials[i].wrong || trials[i].sums != trials[0].sums)
            return DPT_FAIL(error, DPT_E_DEVICE, "sums that were tried %s%s",
                            trials[i].wrong ? "came out wrong at " : "were not those of others at ",
                            t->workers[g->ranks[i]].device->id);
    return DPT_OK;
}

/* false: one hangs, and the trials are left to it. */
static bool run_trials(dpt_trainer *t, const group *g, trial *trials)
{
    uint64_t tickets[DPTI_SPLIT_MAX_DEVICES];
    bool all = true;
    for (size_t i = 0; i < g->n; i++)
        tickets[i] = dpti_driver_post(g->devices[i], run_trial, &trials[i]);
    for (size_t i = 0; i < g->n; i++)
        all = dpti_trainer_await(t, g->ranks[i], tickets[i]) && all;
    if (!all) dpti_leave_behind(trials);
    return all;
}

static dpt_status try_island(dpt_trainer *t, const group *g, dpti_island *island, dpt_error *error)
{
    trial *trials = calloc(g->n, sizeof *trials);
    if (!trials) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to try it");
    for (size_t i = 0; i < g->n; i++) {
        dpti_worker *w = &t->workers[g->ranks[i]];
        trials[i] = (trial){.worker = w, .berth = {island, i, &w->lane}, .n = g->n};
    }
    if (!run_trials(t, g, trials))
        return DPT_FAIL(error, DPT_E_DEVICE, "a device did not answer when it was tried");
    const dpt_status status = judge(t, g, trials, error);
    for (size_t i = 0; status == DPT_OK && i < g->n; i++)
        set_berth(t, g->ranks[i], &trials[i].berth);
    free(trials);
    return status;
}

/* DPT_E_UNSUPPORTED: there is nothing to tell. */
static dpt_status open_island(dpt_trainer *t, const group *g, dpti_island *island, dpt_error *error)
{
    open_job job = {.island = island};
    if (!dpti_trainer_call(t, g->ranks[0], run_open, &job))
        return DPT_FAIL(error, DPT_E_DEVICE, "%s did not answer", g->devices[0]->id);
    if (job.status != DPT_OK) *error = *dpti_device_error(g->devices[0]);
    return job.status;
}

static void form_group(dpt_trainer *t, const group *g)
{
    dpt_error error = {.status = DPT_OK};
    dpti_island *island =
        dpti_island_create(&(dpti_island_options){g->devices, g->n, t->processes != NULL});
    if (!island) return;
    t->islands.items[t->islands.n++] = island;
    dpt_status status = open_island(t, g, island, &error);
    if (status == DPT_OK) status = try_island(t, g, island, &error);
    if (status == DPT_OK) return;
    if (status != DPT_E_UNSUPPORTED) tell(t, island, &error);
    dissolve(t, island);
    dpti_trainer_mend(t); /* where one hangs, nobody is at a meeting */
}

/* All devices of the first one's backend that are there. */
static void find_group(const dpt_trainer *t, size_t first, group *out)
{
    const dpt_backend *backend = t->workers[first].device->base.backend;
    out->n = 0;
    for (size_t i = first; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (w->gone || w->hung || w->device->base.backend != backend) continue;
        out->ranks[out->n] = i;
        out->devices[out->n++] = w->device;
    }
}

/* Whether a worker of a lower rank stands for its backend. */
static bool comes_first(const dpt_trainer *t, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        if (!t->workers[i].gone && !t->workers[i].hung &&
            t->workers[i].device->base.backend == t->workers[rank].device->base.backend)
            return false;
    return true;
}

static void form_all(dpt_trainer *t)
{
    group g;
    dpti_islands_end(t);
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (w->gone || w->hung || !dpti_has_collectives(w->device) || !comes_first(t, i)) continue;
        find_group(t, i, &g);
        if (g.n > 1) form_group(t, &g);
    }
    for (size_t i = 0; i < t->n_workers; i++)
        if (t->workers[i].hung && !t->workers[i].gone) t->islands.due = true;
}

/* One that ended for a reason of its own is not formed again. */
static void give_up(dpt_trainer *t, dpti_island *island)
{
    const dpt_error failure = dpti_island_failure(island);
    if (failure.status == DPT_OK)
        t->islands.due = true;
    else
        tell(t, island, &failure);
    dissolve(t, island);
}

void dpti_islands_form(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = t->islands.n; i-- > 0;)
        if (!dpti_island_is_sound(t->islands.items[i])) give_up(t, t->islands.items[i]);
    if (!t->islands.due) return;
    t->islands.due = false;
    form_all(t);
}

void dpti_islands_leave(dpt_trainer *trainer, size_t rank)
{
    const dpti_berth berth = trainer->workers[rank].berth;
    if (berth.island) dissolve(trainer, berth.island);
    trainer->islands.due = true;
}

void dpti_islands_end(dpt_trainer *trainer)
{
    while (trainer->islands.n > 0)
        dissolve(trainer, trainer->islands.items[0]);
}

bool dpti_islands_failed(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->islands.n; i++)
        if (!dpti_island_is_sound(trainer->islands.items[i])) return true;
    return false;
}

size_t dpti_islands_number(const dpt_trainer *trainer, size_t device)
{
    const size_t rank = device - trainer->first_device;
    if (device < trainer->first_device || rank >= trainer->n_workers) return 0;
    const dpti_island *island = trainer->workers[rank].berth.island;
    for (size_t i = 0; i < trainer->islands.n; i++)
        if (trainer->islands.items[i] == island) return i + 1;
    return 0;
}

void dpti_islands_abort(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->islands.n; i++)
        dpti_island_abort(trainer->islands.items[i]);
}

void dpti_islands_watch(const dpt_trainer *trainer, double seconds)
{
    const double limit = trainer->device_timeout > 0 ? trainer->device_timeout : sum_seconds;
    for (size_t i = 0; i < trainer->islands.n; i++)
        dpti_island_watch(trainer->islands.items[i], seconds, limit);
}
