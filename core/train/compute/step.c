/* What a device's driver thread does in one step (step.h): upload, the segments of forward and
   backward with the exchanges between them, the rest of the all-reduce with the vote, the update.
 */
#include "train/compute/step.h"

#include "base/clock.h"
#include "base/times.h"
#include "device/stream.h"
#include "device/throttle.h"
#include "dpt_error.h"
#include "train/components/membership.h"
#include "train/components/outcome.h"
#include "train/compute/finite.h"
#include "train/compute/shard.h"
#include "train/compute/single_launch.h"
#include "train/compute/window.h"
#include "train/exchange/exchange.h"
#include "train/feeding/feeding.h"
#include "train/membership/presence.h"
#include "train/peers/outcomes.h"
#include "train/plan/micro_batches.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state_parts.h"
#include "train/replicas/verify.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <string.h>

void dpti_stage(uint8_t *staging, const dpt_step_block *block, const uint32_t *records,
                size_t n_samples)
{
    memset(staging, 0, DPTI_STEP_INDEX_OFFSET);
    memcpy(staging, block, sizeof *block);
    if (n_samples > 0)
        memcpy(staging + DPTI_STEP_INDEX_OFFSET, records, n_samples * sizeof *records);
}

/* ---- Running a segment ----------------------------------------------------------------------- */

static dpt_status fetch_parts(const dpti_worker *worker, const dpti_gather *parts)
{
    DPT_TRY(dpti_allgather_fetch(parts));
    return dpti_event_record(worker->device, worker->replica.fetched);
}

/* Enqueues the segment, with what is fetched and downloaded behind it, and waits. */
static dpt_status enqueue(dpti_worker *w, const dpti_segment_run *what)
{
    dpti_executable *executable = what->executable;
    const size_t segment = what->segment, n = what->n_samples;
    DPT_TRY(dpti_event_record(w->device, w->replica.start));
    DPT_TRY(dpti_executable_run(executable, segment, n, what->run));
    w->compute.driver.first_run = w->compute.driver.first_run || executable->first_run;
    DPT_TRY(dpti_event_record(w->device, w->replica.end));
    if (what->contributes) DPT_TRY(fetch_parts(w, what->contributes));
    DPT_TRY(dpti_executable_record(executable, segment, n, what->run));
    if (what->result) DPT_TRY(dpti_executable_result(executable, n, what->result));
    if (what->looks) DPT_TRY(dpti_worker_look(w, segment));
    DPT_TRY(dpti_sync(w->device));
    if (what->result) dpti_executable_widen(executable, n, what->result);
    return DPT_OK;
}

dpt_status dpti_worker_run(dpti_worker *worker, const dpti_segment_run *what)
{
    dpti_device *device = worker->device;
    const dpti_replica *replica = &worker->replica;
    dpti_driver_state *driver = &worker->compute.driver;
    const bool moves = driver->pending != DPTI_PENDING_NONE;
    double busy = 0, moved = 0, fetched = 0;
    DPT_TRY(enqueue(worker, what));
    DPT_TRY(dpti_event_elapsed(device, replica->start, replica->end, &busy));
    if (moves) DPT_TRY(dpti_event_elapsed(device, replica->moving, replica->start, &moved));
    if (what->contributes)
        DPT_TRY(dpti_event_elapsed(device, replica->end, replica->fetched, &fetched));
    /* The device's durations, on the host's clock: its work ended now. */
    const double began = dpti_seconds() - fetched - busy, throttled = busy * device->throttle;
    dpti_device_throttle(device, busy);
    if (moves)
        dpti_times_add(what->times,
                       driver->pending == DPTI_PENDING_UPLOAD ? DPTI_SPAN_UPLOAD
                                                              : DPTI_SPAN_EXCHANGE,
                       began - moved, moved);
    dpti_times_add(what->times, DPTI_SPAN_COMPUTE, began, throttled);
    if (what->contributes)
        dpti_times_add(what->times, DPTI_SPAN_EXCHANGE, began + throttled, fetched);
    driver->pending = DPTI_PENDING_NONE;
    return DPT_OK;
}

/* ---- Uploading ------------------------------------------------------------------------------- */

/* Uploads samples [first, first + n) of the shard.  Without samples nothing is computed soon, and a
   time until then would be a time of waiting. */
static dpt_status upload(const dpti_shard *shard, size_t first, size_t n)
{
    dpti_worker *w = shard->worker;
    if (n > 0) DPT_TRY(dpti_event_record(w->device, w->replica.moving));
    DPT_TRY(dpti_worker_upload(w, shard->staging, first, n));
    DPT_TRY(dpti_feeding_upload(shard, first, n));
    if (n > 0) w->compute.driver.pending = DPTI_PENDING_UPLOAD;
    return DPT_OK;
}

static dpt_status check_stale(const dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    if (!dpti_is_stale(w)) return DPT_OK;
    return DPT_FAIL(&w->device->base.error, DPT_E_DEVICE, "its replica missed an update");
}

static dpt_status check_read(dpti_shard *shard)
{
    if (!shard->unread) return DPT_OK;
    shard->flaw = DPTI_FLAW_UNREAD;
    return DPT_FAIL(&shard->worker->device->base.error, shard->unread->status, "%s",
                    shard->unread->message);
}

/* Whether the shard is computed in several micro-batches, whose gradients add up. */
static bool has_several_micro_batches(const dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    return dpti_has_micro_batches(w) || w->trainer->accumulate > 1;
}

/* A micro-batch: the samples of the shard, within a batch, that the device computes at once. */
typedef struct micro_batch {
    size_t first, n_samples; /* of the shard */
    bool opens;              /* it begins the shard */
    bool ends;               /* it ends its batch */
    bool last;               /* it ends the shard */
    /* Deterministic training: its grains, and the nodes that the device has behind it. */
    dpti_grain_run run;
    dpti_grain_list nodes;
} micro_batch;

/* The micro-batch behind the first `done` samples of a batch.  A device takes at least one in each
   batch, without samples if need be, since all devices take part in the exchanges within backward.
   */
static micro_batch samples_at(const dpti_shard *shard, size_t batch, size_t first, size_t done)
{
    const size_t most = shard->worker->replica.capacity, left = shard->of_batch[batch] - done;
    return (micro_batch){.first = first,
                         .n_samples = dpti_next_micro_batch(left, most),
                         .ends = left <= most,
                         .last = left <= most && batch + 1 == shard->n_batches};
}

static size_t count_grains(size_t n_samples, size_t size)
{
    return n_samples / size + (n_samples % size != 0);
}

/* The same in deterministic training: whole grains, whose nodes follow those of the micro-batch
   `before`. */
static micro_batch grains_at(const dpti_shard *shard, const micro_batch *before)
{
    const dpti_grains *g = &shard->grains;
    const size_t done = before->first + before->n_samples, left = shard->n_samples - done;
    const size_t begin = dpti_grain_begin(g, shard->first_grain) + done, first = begin / g->size;
    const size_t n_left = count_grains(left, g->size);
    const size_t n = dpti_next_grains(g, (dpti_grain_node){first, first + n_left},
                                      shard->worker->replica.capacity);
    micro_batch p = {.first = done,
                     .n_samples = dpti_grain_begin(g, first + n) - begin,
                     .ends = n == n_left,
                     .last = n == n_left,
                     .run = {.grains = *g, .first = first, .before = before->nodes},
                     .nodes = before->nodes};
    (void)dpti_grains_plan(&p.nodes, (dpti_grain_node){first, first + n}, g->n, NULL);
    return p;
}

/* The most nodes that the device has at once in the step. */
static size_t most_nodes(const dpti_shard *shard)
{
    const dpti_grains *g = &shard->grains;
    if (g->n == 0) return 0;
    const size_t n = count_grains(shard->n_samples, g->size), first = shard->first_grain;
    return dpti_most_nodes(g, (dpti_grain_node){first, first + n}, shard->worker->replica.capacity);
}

static micro_batch micro_batch_behind(const dpti_shard *shard, size_t batch,
                                      const micro_batch *before, size_t done)
{
    if (shard->grains.n > 0 && shard->n_samples > 0) return grains_at(shard, before);
    return samples_at(shard, batch, before->first + before->n_samples, done);
}

/* The grains of a micro-batch; NULL: training is not deterministic. */
static const dpti_grain_run *run_of(const micro_batch *p)
{
    return p->run.grains.n > 0 ? &p->run : NULL;
}

static dpt_status begin(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    const bool several = has_several_micro_batches(shard);
    const size_t n_nodes = most_nodes(shard);
    if (n_nodes > 1) DPT_TRY(dpti_exchange_hold_nodes(w, n_nodes - 1));
    DPT_TRY(dpti_window_hold(w, n_nodes));
    /* Of several micro-batches each uploads its own samples, and adds its gradients. */
    DPT_TRY(upload(shard, 0, several ? 0 : shard->n_samples));
    if (several && shard->grains.n == 0) w->compute.driver.left |= DPTI_LEFT_GRADIENTS;
    return dpti_worker_clean(w);
}

/* The rows of a micro-batch in a table that has a row for each grain. */
static dpti_gather_rows rows_of(const dpti_shard *shard, const micro_batch *p)
{
    return (dpti_gather_rows){.first = p->run.first,
                              .n = run_of(p) ? count_grains(p->n_samples, p->run.grains.size) : 0,
                              .n_all = shard->grains.n,
                              .borders = shard->grain_borders};
}

/* What the device contributes, or takes, behind a segment; `items` has room for DPTI_MOST_PARTS. */
static dpti_gather parts_of(const dpti_shard *shard, size_t segment, const micro_batch *p,
                            dpti_gather_part *items)
{
    const dpti_worker *w = shard->worker;
    const dpti_segment *s = &w->train.program.segments[segment];
    const dpti_exchange_places *places = w->train.exchanges[segment];
    for (size_t i = 0; i < s->n_parts; i++)
        items[i] = (dpti_gather_part){places[i].part, places[i].parts, s->parts[i].count};
    return (dpti_gather){.rank = w->rank,
                         .contributes = p->n_samples > 0,
                         .items = items,
                         .n = s->n_parts,
                         .rows = rows_of(shard, p),
                         .staging = dpti_exchange_parts(w),
                         .moving = w->replica.moving};
}

/* Runs a segment that commits nothing.  A device without samples computes nothing in it.  If the
   segment is empty, since parts are taken that were contributed just now, no device does. */
static dpt_status compute(dpti_shard *shard, size_t segment, const micro_batch *p)
{
    dpti_worker *w = shard->worker;
    const dpti_segment *s = &w->train.program.segments[segment];
    const bool ends = s->exchange == DPTI_EXCHANGE_GRADIENTS;
    if (p->n_samples == 0 || (s->exchange == DPTI_EXCHANGE_TAKE && s->first == s->last))
        return DPT_OK;
    dpti_gather_part items[DPTI_MOST_PARTS];
    const dpti_gather parts = parts_of(shard, segment, p, items);
    const dpti_segment_run run = {.executable = &w->train,
                                  .segment = segment,
                                  .n_samples = p->n_samples,
                                  .result = ends ? shard->result + 2 * p->first : NULL,
                                  .times = &shard->times,
                                  .looks = p->last,
                                  .run = run_of(p),
                                  .contributes =
                                      s->exchange == DPTI_EXCHANGE_CONTRIBUTE ? &parts : NULL};
    const dpt_status status = dpti_worker_run(w, &run);
    if (status == DPT_E_CALLBACK) shard->flaw = DPTI_FLAW_CALLBACK;
    DPT_TRY(status);
    if (!p->last) return DPT_OK;
    if (ends) DPT_TRY(dpti_shard_add_results(shard));
    return dpti_worker_saw_finite(w, segment) ? DPT_OK : dpti_shard_not_finite(shard, "gradients");
}

/* Checks the sum, where an island makes the sum and no host sees it. */
static dpt_status look_at_sum(void *user)
{
    const dpti_worker *w = user;
    DPT_TRY(dpti_finite_enqueue(&w->compute.finite));
    DPT_TRY(dpti_sync(w->device));
    return dpti_finite_all(&w->compute.finite) ? DPT_OK : DPT_E_NOT_FINITE;
}

static void contribute_parts(dpti_shard *shard, size_t segment, const micro_batch *p,
                             dpt_status *mine)
{
    const dpti_worker *w = shard->worker;
    dpti_gather_part items[DPTI_MOST_PARTS];
    const dpti_gather what = parts_of(shard, segment, p, items);
    const bool sound = *mine == DPT_OK;
    dpti_allgather_contribute(dpti_exchange_allgather(w->trainer), &what, mine, &shard->times);
    if (sound && *mine == DPT_E_NOT_FINITE) *mine = dpti_shard_not_finite(shard, "statistics");
}

static dpt_status take_parts(dpti_shard *shard, size_t segment, const micro_batch *p,
                             dpt_status *mine)
{
    dpti_worker *w = shard->worker;
    dpti_gather_part items[DPTI_MOST_PARTS];
    const dpti_gather what = parts_of(shard, segment, p, items);
    DPT_TRY(dpti_allgather_take(dpti_exchange_allgather(w->trainer), &what, mine, &shard->times));
    if (what.contributes && *mine == DPT_OK) w->compute.driver.pending = DPTI_PENDING_EXCHANGE;
    return DPT_OK;
}

/* Behind a check of this device's gradients, or of the sum. */
static void look_at_gradients(dpti_shard *shard, dpt_status verdict, dpt_status *mine)
{
    const dpti_worker *w = shard->worker;
    const dpti_blame blame = dpti_allreduce_blame(dpti_exchange_allreduce(w->trainer), w->rank);
    if (verdict != DPT_E_NOT_FINITE) return;
    if ((blame == DPTI_BLAME_OWN || blame == DPTI_BLAME_SUM) && shard->n_samples > 0)
        *mine = dpti_shard_not_finite(shard, "gradients");
    else if (blame != DPTI_BLAME_OWN && *mine == DPT_E_NOT_FINITE)
        *mine = DPT_OK; /* what it saw was the sum of others */
}

static void contribute(dpti_shard *shard, const dpti_contribution *who, size_t segment,
                       dpt_status *mine)
{
    const dpti_worker *w = shard->worker;
    const dpti_segment *s = &w->train.program.segments[segment];
    const bool sound = *mine == DPT_OK;
    dpti_exchange_context x = {.who = who, .mine = mine, .stopwatch = {.times = &shard->times}};
    dpti_allreduce_contribute(dpti_exchange_allreduce(w->trainer), &x,
                              (dpti_range){s->begin, s->end});
    if (sound) look_at_gradients(shard, *mine, mine);
}

/* Waits behind a bucket until the next one may take the places of others (graph/grain_nodes.h).  A
   device without samples writes none, and one that has failed does not go on.  But sums of several
   processes are written to windows by themselves. */
static void await_places(dpti_shard *shard, size_t segment, const micro_batch *p, dpt_status *mine)
{
    const dpti_worker *w = shard->worker;
    const double began = dpti_seconds();
    const bool written = w->replica.windowed && dpti_step_processes(w->trainer);
    if ((p->nodes.n < 2 && !w->replica.windowed) ||
        ((shard->n_samples == 0 || *mine != DPT_OK) && !written))
        return;
    const dpt_status status = dpti_allreduce_await(dpti_exchange_allreduce(w->trainer), w->rank,
                                                   dpti_grain_nodes_after(&w->train, segment));
    if (*mine == DPT_OK) *mine = status;
    (void)dpti_times_add_since(&shard->times, DPTI_SPAN_WAITING, began);
}

static dpt_status reduce(dpti_shard *shard, const dpti_contribution *who, dpt_status *mine)
{
    const bool sound = *mine == DPT_OK;
    dpti_exchange_context x = {.who = who, .mine = mine, .stopwatch = {.times = &shard->times}};
    const dpt_status verdict =
        dpti_allreduce_run(dpti_exchange_allreduce(shard->worker->trainer), &x);
    if (sound) look_at_gradients(shard, verdict, mine);
    return verdict;
}

/* What devices do together behind a segment.  *mine is the status that this device contributes, and
   becomes its own failure.  All devices get the same verdict.  Gradients are exchanged when all
   micro-batches have added theirs. */
static dpt_status exchange(dpti_shard *shard, size_t segment, const micro_batch *p,
                           dpt_status *mine)
{
    dpti_worker *w = shard->worker;
    const dpti_segment *s = &w->train.program.segments[segment];
    const dpti_contribution who = {.rank = w->rank,
                                   .contributes = shard->n_samples > 0,
                                   .late = shard->late,
                                   .processes = shard->contributing,
                                   .look = look_at_sum,
                                   .user = w,
                                   .n_grains = shard->grains.n,
                                   .nodes = run_of(p) ? &p->nodes : NULL,
                                   .borders = shard->grain_borders};
    switch (s->exchange) {
    case DPTI_EXCHANGE_CONTRIBUTE: contribute_parts(shard, segment, p, mine); return DPT_OK;
    case DPTI_EXCHANGE_TAKE: return take_parts(shard, segment, p, mine);
    case DPTI_EXCHANGE_BUCKET:
        if (!p->last && *mine == DPT_OK && shard->n_samples > 0)
            *mine = dpti_window_keep(shard, segment, run_of(p) ? p->nodes.n : 1);
        if (!p->last) return DPT_OK;
        contribute(shard, &who, segment, mine);
        await_places(shard, segment, p, mine);
        return DPT_OK;
    case DPTI_EXCHANGE_GRADIENTS: return p->last ? reduce(shard, &who, mine) : DPT_OK;
    case DPTI_EXCHANGE_NONE: break;
    }
    return *mine;
}

/* Runs the segments up to the commit. */
static dpt_status run_micro_batch(dpti_shard *shard, const micro_batch *p, dpt_status *mine)
{
    const dpti_program *program = &shard->worker->train.program;
    if (*mine == DPT_OK && has_several_micro_batches(shard) && p->n_samples > 0)
        *mine = upload(shard, p->first, p->n_samples);
    for (size_t i = 0; !program->segments[i].commits; i++) {
        if (*mine == DPT_OK && shard->n_samples > 0)
            *mine = dpti_window_restore(shard->worker, i, run_of(p) ? p->run.before.n : !p->opens);
        if (*mine == DPT_OK) *mine = compute(shard, i, p);
        DPT_TRY(exchange(shard, i, p, mine));
    }
    return DPT_OK;
}

/* Does everything up to the commit.  A device that fails goes on to the next rendezvous, where all
   devices learn of it and stop. */
static dpt_status propose(dpti_shard *shard, dpt_status *mine)
{
    micro_batch p = {.n_samples = 0};
    *mine = check_stale(shard);
    if (*mine == DPT_OK) *mine = check_read(shard);
    DPT_TRY(dpti_verify_run(shard, mine));
    if (*mine == DPT_OK) *mine = begin(shard);
    for (size_t b = 0; b < shard->n_batches; b++) {
        p.ends = false;
        for (size_t done = 0; !p.ends; done += p.n_samples) {
            p = micro_batch_behind(shard, b, &p, done);
            p.opens = b == 0 && done == 0;
            DPT_TRY(run_micro_batch(shard, &p, mine));
        }
    }
    return DPT_OK;
}

/* A device that has no memory for two updates in a row is lost. */
static dpt_status judge_update(dpti_worker *w, dpt_status mine)
{
    dpti_driver_state *driver = &w->compute.driver;
    const bool short_before = (driver->left & DPTI_LEFT_SHORT_UPDATE) != 0;
    driver->left &= ~(unsigned)DPTI_LEFT_SHORT_UPDATE;
    if (mine != DPT_E_NO_MEMORY) return mine;
    driver->left |= DPTI_LEFT_SHORT_UPDATE;
    driver->first_run = true; /* the times are not complete */
    if (!short_before) return mine;
    const dpt_error error = w->device->base.error;
    return DPT_FAIL(&w->device->base.error, DPT_E_DEVICE,
                    "no memory for two updates, one after the other: %.300s", error.message);
}

/* Computes the gradients that follow from the sums of all devices (graph/deferred.c).  Every device
   has the same sums, and so the same verdict: DPT_E_NOT_FINITE if a gradient is not finite. */
static dpt_status run_deferred(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    const size_t segment = w->train.program.n_segments - 2;
    const dpti_segment_run deferred = {
        .executable = &w->train, .segment = segment, .times = &shard->times};
    if (!w->train.program.segments[segment].commits) return DPT_OK;
    DPT_TRY(dpti_worker_run(w, &deferred));
    return look_at_sum(w);
}

/* Before it returns DPT_OK, nothing has changed the training state. */
static dpt_status prepare_update(dpti_shard *shard, dpt_status *mine)
{
    dpti_worker *w = shard->worker;
    if (propose(shard, mine) != DPT_OK) {
        *mine = dpti_allreduce_settle(dpti_exchange_allreduce(w->trainer), w->rank, *mine);
        return *mine == DPT_OK ? DPT_E_CANCELLED : *mine;
    }
    *mine = run_deferred(shard);
    if (*mine != DPT_E_NOT_FINITE) return DPT_OK;
    *mine = shard->n_samples > 0 ? dpti_shard_not_finite(shard, "gradients") : DPT_E_CANCELLED;
    return *mine;
}

static dpt_status run_update(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    const dpti_segment_run update = {.executable = &w->train,
                                     .segment = w->train.program.n_segments - 1,
                                     .times = &shard->times};
    return dpti_worker_run(w, &update);
}

/* The update of the own part.  A device that has no memory for it is lost: its part cannot wait. */
static dpt_status update_part(dpti_shard *shard)
{
    dpt_status status = run_update(shard);
    if (status == DPT_OK) status = dpti_state_parts_fetch(shard);
    if (status != DPT_E_NO_MEMORY) return status;
    dpt_error *error = &shard->worker->device->base.error;
    const dpt_error first = *error;
    return DPT_FAIL(error, DPT_E_DEVICE, "no memory for its part of the update: %.300s",
                    first.message);
}

/* The end of a step where the optimizer's state is in parts (replicas/state_parts.h). */
static void run_parts(dpti_shard *shard, dpt_status mine)
{
    dpti_worker *w = shard->worker;
    if (mine == DPT_OK) mine = update_part(shard);
    if (dpti_state_parts_vote(shard, mine) != DPT_OK) {
        dpti_change_replica(w, DPTI_REPLICA_TEAR);
        dpti_shard_fail(shard, mine);
        return;
    }
    shard->committed = true; /* in case the next call never returns */
    mine = dpti_state_parts_share(shard);
    if (mine != DPT_OK) dpti_change_replica(w, DPTI_REPLICA_MISS);
    dpti_shard_commit(shard, judge_update(w, mine));
}

static void run(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    dpt_status mine = DPT_OK;
    if (shard->idle) {
        dpti_shard_commit(shard, DPT_OK);
        return;
    }
    if (prepare_update(shard, &mine) != DPT_OK) {
        dpti_state_parts_decline(shard);
        dpti_shard_fail(shard, mine);
        return;
    }
    if (dpti_state_parts_on(w->trainer)) {
        run_parts(shard, mine);
        return;
    }
    shard->committed = true; /* in case the next call never returns */
    if (mine == DPT_OK) mine = run_update(shard);
    if (mine != DPT_OK) dpti_change_replica(w, DPTI_REPLICA_MISS);
    dpti_shard_commit(shard, w->trainer->processes ? mine : judge_update(w, mine));
}

void dpti_step_job(dpti_device *device, void *argument)
{
    dpti_shard *shard = argument;
    dpti_worker *w = shard->worker;
    (void)device;
    shard->committed = shard->under_way = false;
    shard->flaw = NULL;
    shard->diverged = shard->spoilt = false;
    shard->loss = 0;
    shard->exact_loss = (dpti_exact_sum){.n_not_finite = 0};
    shard->hits = 0;
    w->compute.driver.pending = DPTI_PENDING_NONE;
    w->compute.driver.first_run = shard->first_run = false;
    dpti_times_begin(&shard->times, dpti_steps_traced(w->trainer));
    shard->status = DPT_E_CANCELLED;
    shard->finished = dpti_seconds();
    if (w->compute.driver.halted_step > 0) return;
    if (w->compute.single.program) {
        dpti_single_launch_begin(shard);
        return;
    }
    run(shard);
    shard->first_run = w->compute.driver.first_run;
    dpti_peers_finish(shard);
    shard->finished = dpti_seconds();
}
