/* Forming islands, testing them, and giving them up (form_islands.h). */
#include "train/exchange/form_islands.h"

#include "base/left_behind.h"
#include "device/communicator.h"
#include "dpt_error.h"
#include "train/exchange/exchange.h"
#include "train/exchange/island_test.h"
#include "train/exchange/islands.h"
#include "train/membership/deadline.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Devices of a communicator find each other in a second or two, those of several machines too. */
static const double join_seconds = 60;

/* ---- The trainer's --------------------------------------------------------------------------- */

static void set_island_slot(dpt_trainer *t, size_t rank, const dpti_island_slot *island_slot)
{
    t->workers[rank].exchange.island_slot = *island_slot;
    dpti_allreduce_set_island_slot(t->exchange.allreduce, rank, island_slot);
}

/* The rank of an island's member. */
static size_t rank_of(const dpt_trainer *t, const dpti_island *island, size_t place)
{
    size_t rank = 0;
    while (t->workers[rank].device != dpti_island_device(island, place))
        rank++;
    return rank;
}

/* Whether all of its members can be called, and whether one is in a call that does not return. */
typedef struct condition {
    bool callable, hangs;
} condition;

static condition look_at(const dpt_trainer *t, const dpti_island *island)
{
    condition c = {.callable = true};
    for (size_t place = 0; place < dpti_island_size(island); place++) {
        const dpti_worker *w = &t->workers[rank_of(t, island, place)];
        c.hangs = c.hangs || dpti_is_hung(w);
        c.callable = c.callable && !dpti_is_lost(w) && !dpti_is_hung(w) && !w->device->lost;
    }
    return c;
}

static void run_close(dpti_device *device, void *argument)
{
    dpti_island_close(argument, device);
}

/* Ends an island.  If a member hangs the island is left behind for it. */
static void dissolve(dpt_trainer *t, dpti_island *island)
{
    const condition c = look_at(t, island);
    const size_t first = rank_of(t, island, 0);
    for (size_t place = 0; place < dpti_island_size(island); place++)
        set_island_slot(t, rank_of(t, island, place), &(dpti_island_slot){.island = NULL});
    for (size_t i = 0; i < t->exchange.islands.n; i++)
        if (t->exchange.islands.items[i] == island)
            t->exchange.islands.items[i] = t->exchange.islands.items[--t->exchange.islands.n];
    if (!c.callable) dpti_island_abort(island);
    if (c.hangs) {
        dpti_leave_behind(island);
        return;
    }
    if (!dpti_island_is_sound(island))
        dpti_island_close(island, t->workers[first].device);
    else if (!dpti_trainer_release(t, first, run_close, island)) {
        dpti_leave_behind(island);
        return;
    }
    dpti_island_destroy(island);
}

static void tell(dpt_trainer *t, const dpti_island *island, const dpt_error *why)
{
    char names[200];
    dpt_error error = {.status = why->status};
    if (dpti_island_is_wide(island) && dpti_processes_rank(t->processes) > 0)
        return; /* the first process tells */
    const char *way =
        dpti_island_is_wide(island) ? dpti_processes_transport(t->processes) : "the host";
    dpti_islands_name(t, island, names, sizeof names);
    (void)DPT_FAIL(&error, why->status, "%s sum gradients through %s, not among themselves: %.250s",
                   names, way, why->message[0] ? why->message : dpt_status_words(why->status));
    dpti_trainer_note_event(t, DPT_ISLAND_LOST, t->first_device + rank_of(t, island, 0), &error);
}

/* ---- Forming --------------------------------------------------------------------------------- */

/* The limit for joining a communicator.  A device that waits for others in vain has not hung
   itself. */
static double join_limit(const dpt_trainer *t)
{
    return t->device_timeout > 0 ? fmin(join_seconds, t->device_timeout / 2) : join_seconds;
}

/* The devices of a group that is to be formed, which are ranks first_rank, ... of its n_ranks. */
typedef struct group {
    size_t n, first_rank, n_ranks, ranks[DPTI_SPLIT_MAX_DEVICES];
    dpti_device *devices[DPTI_SPLIT_MAX_DEVICES];
} group;

/* What the driver thread of the group's first device does for all members. */
typedef struct open_job open_job;
struct open_job {
    dpti_island *island;
    double join_seconds;
    dpt_status (*run)(open_job *job);
    dpt_invitation invitation;
    dpt_status status;
};

static dpt_status run_check(open_job *job)
{
    return dpti_island_check(job->island);
}

static dpt_status run_invite(open_job *job)
{
    return dpti_island_invite(job->island, &job->invitation);
}

static dpt_status run_create(open_job *job)
{
    return dpti_island_open(job->island, &job->invitation, job->join_seconds);
}

static void run_job(dpti_device *device, void *argument)
{
    open_job *job = argument;
    (void)device;
    job->status = job->run(job);
}

static dpt_status call_first(dpt_trainer *t, const group *g, open_job *job, dpt_error *error)
{
    if (!dpti_trainer_call(t, g->ranks[0], run_job, job))
        return DPT_FAIL(error, DPT_E_DEVICE, "%s did not answer", g->devices[0]->id);
    if (job->status != DPT_OK) *error = *dpti_device_error(g->devices[0]);
    return job->status;
}

/* The first process invites the others to the communicator. */
static dpt_status invite(dpt_trainer *t, const group *g, open_job *job, dpt_error *error)
{
    dpti_gathered all = {.data = NULL};
    const bool invites = g->first_rank == 0;
    job->run = run_invite;
    const dpt_status mine = invites ? call_first(t, g, job, error) : DPT_OK;
    if (!dpti_island_is_wide(job->island)) return mine;
    DPT_TRY(dpti_processes_agree(t->processes, mine, error));
    const dpti_bytes own = {&job->invitation, invites ? sizeof job->invitation : 0};
    DPT_TRY(dpti_processes_gather(t->processes, own, &all, error));
    memcpy(&job->invitation, all.data, sizeof job->invitation);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* DPT_E_UNSUPPORTED: the backend forms no islands, and the caller is not told. */
static dpt_status open_island(dpt_trainer *t, const group *g, open_job *job, dpt_error *error)
{
    job->run = run_check;
    dpt_status mine = call_first(t, g, job, error);
    DPT_TRY(dpti_island_test_agree(t, job->island, mine, error));
    DPT_TRY(invite(t, g, job, error));
    job->run = run_create;
    mine = call_first(t, g, job, error);
    return dpti_island_test_agree(t, job->island, mine, error);
}

/* Tests the island; if it may be used, its members are in it afterwards. */
static dpt_status open_and_try(dpt_trainer *t, const group *g, open_job *job, dpt_error *error)
{
    DPT_TRY(open_island(t, g, job, error));
    DPT_TRY(dpti_island_test_run(t, job->island, g->ranks, error));
    for (size_t i = 0; i < g->n; i++) {
        const dpti_island_slot island_slot = {job->island, i,
                                              &t->workers[g->ranks[i]].exchange.side};
        set_island_slot(t, g->ranks[i], &island_slot);
    }
    return DPT_OK;
}

/* Whether there is an island from now on: in all of its processes, or in none. */
static bool form_group(dpt_trainer *t, const group *g)
{
    dpt_error error = {.status = DPT_OK};
    const dpti_island_options options = {.group = {g->devices, g->n, g->first_rank, g->n_ranks},
                                         .blames_devices = t->processes != NULL};
    open_job *job = calloc(1, sizeof *job);
    dpti_island *island = job ? dpti_island_create(&options) : NULL;
    if (!island) {
        if (g->n_ranks > g->n) dpti_processes_give_up(t->processes);
        free(job);
        return false;
    }
    job->join_seconds = join_limit(t);
    job->island = t->exchange.islands.items[t->exchange.islands.n++] = island;
    const dpt_status status = open_and_try(t, g, job, &error);
    if (look_at(t, island).hangs)
        dpti_leave_behind(job);
    else
        free(job);
    if (status == DPT_OK) return true;
    if (status != DPT_E_UNSUPPORTED) tell(t, island, &error);
    if (dpti_island_is_wide(island)) dpti_processes_go_on(t->processes);
    dissolve(t, island);
    dpti_trainer_mend(t); /* if a device hangs, no thread waits for it any more */
    return false;
}

/* All devices of the first one's backend that take part in steps. */
static void find_group(const dpt_trainer *t, size_t first, group *out)
{
    const dpt_backend *backend = t->workers[first].device->base.backend;
    *out = (group){.n = 0};
    for (size_t i = first; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_sits_out(w) || dpti_is_hung(w) || w->device->base.backend != backend) continue;
        out->ranks[out->n] = i;
        out->devices[out->n++] = w->device;
    }
    out->n_ranks = out->n;
}

/* Whether no worker of a lower rank forms the island of this backend. */
static bool comes_first(const dpt_trainer *t, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        if (!dpti_sits_out(&t->workers[i]) && !dpti_is_hung(&t->workers[i]) &&
            t->workers[i].device->base.backend == t->workers[rank].device->base.backend)
            return false;
    return true;
}

/* An island of all devices of all processes, which find the same here.  Compressed sums do not go
   through a backend. */
static bool form_wide(dpt_trainer *t)
{
    group g;
    if (!dpti_step_processes(t) || dpti_packs(t) || !dpti_peers_are_alike(t)) return false;
    find_group(t, 0, &g);
    if (g.n < t->n_workers) return false; /* the job is about to end */
    g.first_rank = t->first_device;
    g.n_ranks = t->n_devices;
    return form_group(t, &g);
}

static void form_narrow(dpt_trainer *t)
{
    group g;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_sits_out(w) || dpti_is_hung(w) || !dpti_has_collectives(w->device) ||
            !comes_first(t, i))
            continue;
        find_group(t, i, &g);
        if (g.n > 1) (void)form_group(t, &g);
    }
}

static void form_all(dpt_trainer *t)
{
    dpti_islands_end(t);
    dpti_exchange_unsettle(t);
    if (t->program.deterministic) return; /* a backend's sum does not follow the tree of grains */
    for (size_t i = 0; i < t->n_workers; i++)
        if (t->workers[i].replica.windowed) return; /* a backend sums gradients as a whole */
    if (!form_wide(t)) form_narrow(t);
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_is_hung(&t->workers[i]) && !dpti_is_lost(&t->workers[i]))
            t->exchange.islands.due = true;
}

/* An island that failed by itself, in any process, is not formed again. */
static void give_up(dpt_trainer *t, dpti_island *island)
{
    dpt_error failure = dpti_island_failure(island);
    if (dpti_island_test_agree(t, island, failure.status, &failure) == DPT_OK)
        t->exchange.islands.due = true;
    else
        tell(t, island, &failure);
    if (dpti_island_is_wide(island)) dpti_processes_go_on(t->processes);
    dissolve(t, island);
}

bool dpti_islands_form(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = t->exchange.islands.n; i-- > 0;)
        if (!dpti_island_is_sound(t->exchange.islands.items[i]))
            give_up(t, t->exchange.islands.items[i]);
    if (!t->exchange.islands.due) return true;
    t->exchange.islands.due = false;
    form_all(t);
    return !t->exchange.islands.due;
}

void dpti_islands_leave(dpt_trainer *trainer, size_t rank)
{
    const dpti_island_slot island_slot = trainer->workers[rank].exchange.island_slot;
    if (island_slot.island) dissolve(trainer, island_slot.island);
    trainer->exchange.islands.due = true;
}

void dpti_islands_end(dpt_trainer *trainer)
{
    while (trainer->exchange.islands.n > 0)
        dissolve(trainer, trainer->exchange.islands.items[0]);
}
