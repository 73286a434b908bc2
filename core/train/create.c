/* Making and destroying a trainer (create.h): its options (options.c), its concerns' parts and its
   workers (programs/worker.c). */
#include "train/create.h"

#include "base/left_behind.h"
#include "base/recorded.h"
#include "collective/arrivals.h"
#include "context/context.h"
#include "device/set.h"
#include "train/algorithms.h"
#include "train/components/feed.h"
#include "train/compute/finite.h"
#include "train/exchange/exchange.h"
#include "train/exchange/form_islands.h"
#include "train/exchange/link_probe.h"
#include "train/feeding/feeding.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/options.h"
#include "train/peers/header_check.h"
#include "train/peers/peers.h"
#include "train/pipeline/drain.h"
#include "train/pipeline/steps.h"
#include "train/plan/shards.h"
#include "train/programs/bound.h"
#include "train/programs/worker.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/failover.h"
#include "train/recovery/readmit.h"
#include "train/rendezvous_table.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/replicas/verify.h"
#include "train/rounds/rounds.h"
#include "train/standby/standby.h"
#include "train/state/trainer.h"

#include <stdlib.h>

/* ---- Creating -------------------------------------------------------------------------------- */

static dpt_status no_memory(dpt_trainer *t)
{
    return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
}

/* All that takes host memory alone. */
static dpt_status allocate(dpt_trainer *t, const dpt_trainer_options *options)
{
    t->workers = calloc(t->n_workers, sizeof *t->workers);
    if (!t->workers || dpti_steps_create(t) != DPT_OK || dpti_plan_create(t) != DPT_OK ||
        dpti_exchange_create(t) != DPT_OK || dpti_rounds_create(t) != DPT_OK ||
        dpti_verify_begin(t, options->verify_replicas) != DPT_OK ||
        (dpti_state_parts_possible(t, options->shard) &&
         dpti_state_parts_begin(t, options->shard, options->offload) != DPT_OK))
        return no_memory(t);
    DPT_TRY(dpti_feeding_create(t));
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i] = (dpti_worker){.trainer = t, .device = t->devices->devices[i], .rank = i};
    return DPT_OK;
}

/* Returns whether training can begin without the device: the device is lost and its calls return. A
   device that is hung is an error, because its call may go on for long.  So is a lost device with
   stop_on_loss, which several processes imply. */
static bool lost_in_creation(const dpt_trainer *t, const dpti_failing_rank *failing,
                             dpt_status status)
{
    return status == DPT_E_DEVICE_LOST && !t->stop_on_loss && failing->rank < t->n_workers &&
           !dpti_is_hung(&t->workers[failing->rank]);
}

/* A device that is lost while its worker is created, such as a device whose compiler has crashed,
   is lost as in a step: the workers of the others are created for its shard, too. */
static dpt_status create_left(dpt_trainer *t, dpti_begin begin, dpti_failing_rank *failing)
{
    dpt_status status = dpti_trainer_create_workers(t, begin, failing);
    while (lost_in_creation(t, failing, status)) {
        dpti_trainer_destroy_workers(t);
        DPT_TRY(dpti_trainer_lose_unmade(t, failing));
        status = dpti_trainer_create_workers(t, begin, failing);
    }
    return status;
}

static void note_shortage(size_t rank, dpti_obstacle *obstacle)
{
    *obstacle = (dpti_obstacle){.kind = DPTI_OBSTACLE_MEMORY, .rank = rank};
}

/* Too few samples at once (DPT_E_INVALID) may be too little memory, too. */
static dpt_status create_workers(dpt_trainer *t, const dpti_creation *of, dpti_obstacle *obstacle)
{
    dpt_error error = {0};
    dpti_failing_rank failing = {.rank = t->n_workers};
    t->init = of->options->init;
    if (dpti_check_initial(&(dpti_initial){t->init, t->seed}, &error) != DPT_OK)
        return dpti_peers_agree(t, dpti_context_fail(t->context, NULL, &error));
    const dpt_status status =
        create_left(t, of->rehearsed ? DPTI_BEGIN_EMPTY : DPTI_BEGIN_INITIAL, &failing);
    if (status == DPT_E_NO_MEMORY || status == DPT_E_INVALID) note_shortage(failing.rank, obstacle);
    return status;
}

/* Refuses what cannot be divided. */
static dpt_status check_parts(dpt_trainer *t, dpt_shard what)
{
    const char *hindrance = dpti_state_parts_hindrance(t);
    if (what < DPT_SHARD_GRADIENTS || !dpti_state_parts_possible(t, what) || !hindrance)
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "%s cannot be divided with %s; divide the optimizer's state alone",
                    what == DPT_SHARD_PARAMETERS ? "parameters and gradients" : "gradients",
                    hindrance);
}

/* Refuses what has no meaning if processes may come, and a process for which the batch is too
   small. */
static dpt_status check_arrivals(dpt_trainer *t, const dpt_trainer_options *options)
{
    const dpti_processes *p = t->processes;
    if (!p || dpti_arrivals_most(p) == dpti_processes_first_count(p)) return DPT_OK;
    if (options->split.kind == DPT_SPLIT_PROPORTIONS || options->split.kind == DPT_SPLIT_REPLAY)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "processes may come (DPTRAIN_JOINERS), and a split of numbers or of a log "
                        "has no shares for them; take equal or measured shares");
    if (options->local_steps > 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "processes may come (DPTRAIN_JOINERS), and with local steps none can be "
                        "let in; leave one of the two out");
    if (!dpti_processes_is_new(p, dpti_processes_rank(p)) || t->n_devices <= options->batch_size)
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "a batch of %zu has no samples for all of the %zu devices that the job would "
                    "have with those of this process",
                    options->batch_size, t->n_devices);
}

/* Refuses an offload for which something is missing. */
static dpt_status check_offload(dpt_trainer *t, const dpt_trainer_options *options)
{
    const char *lack =
        options->offload ? dpti_state_parts_lack_of_offload(t, options->shard) : NULL;
    if (!lack) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "offload needs %s, or leave offload out", lack);
}

/* Refuses what cannot be divided as the options say. */
static dpt_status check_division(dpt_trainer *t, const dpti_creation *of)
{
    const dpt_shard what = of->options->shard;
    DPT_TRY(check_parts(t, what));
    DPT_TRY(check_offload(t, of->options));
    if (!of->divides || what == DPT_SHARD_NONE || dpti_state_parts_possible(t, what)) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "there is nothing to divide");
}

static dpt_status prepare(dpt_trainer *t, const dpti_creation *of, dpti_obstacle *obstacle)
{
    const dpt_trainer_options *options = of->options;
    DPT_TRY(check_arrivals(t, options));
    DPT_TRY(dpti_trainer_take_options(t, options));
    obstacle->kind = DPTI_OBSTACLE_DIVISION;
    DPT_TRY(check_division(t, of));
    obstacle->kind = DPTI_OBSTACLE_OTHER;
    DPT_TRY(allocate(t, options));
    DPT_TRY(dpti_trainer_take_split(t, options->split));
    /* A device on standby would leave its part of the optimizer's state behind. */
    if (dpti_standby_create(t, !options->no_standby && !dpti_state_parts_on(t)) != DPT_OK)
        return no_memory(t);
    DPT_TRY(dpti_trainer_find_capacities(t));
    return dpti_feeding_place(t);
}

static dpt_status make_mirror(dpt_trainer *t)
{
    const dpt_status made = dpti_state_parts_make_mirror(t);
    return dpti_state_parts_on(t) ? dpti_peers_agree(t, made) : made;
}

static dpt_status begin(dpt_trainer *t)
{
    DPT_TRY(dpti_trainer_start_balance(t));
    return dpti_trainer_check_shards(t);
}

/* What fails in one process fails in all of them, where they next agree. */
static dpt_status build(dpt_trainer *t, const dpti_creation *of, dpti_obstacle *obstacle)
{
    DPT_TRY(dpti_peers_meet(t));
    DPT_TRY(dpti_header_check_trainer(t, of->options));
    DPT_TRY(dpti_peers_agree(t, prepare(t, of, obstacle)));
    DPT_TRY(dpti_link_probe_processes(t, dpti_trainer_chooses_buckets(of->options)));
    DPT_TRY(create_workers(t, of, obstacle));
    if (!of->rehearsed) DPT_TRY(make_mirror(t));
    const dpt_status status = begin(t);
    if (status == DPT_E_INVALID) note_shortage(t->n_workers, obstacle);
    return dpti_algorithms_gather(t, status);
}

dpt_status dpti_trainer_make(const dpti_creation *of, dpti_obstacle *obstacle, dpt_trainer **out)
{
    dpt_device_set *devices = of->devices;
    const dpt_trainer_options *o = of->options;
    *obstacle = (dpti_obstacle){.kind = DPTI_OBSTACLE_OTHER};
    dpt_trainer *t = calloc(1, sizeof *t);
    if (!t) return dpt_fail(devices->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    t->context = devices->context;
    /* Within a round processes have different weights: none could take another one's. */
    if (o->local_steps > 0) t->context->begun = true;
    t->devices = devices;
    t->processes = devices->context->processes;
    t->n_workers = devices->n_devices;
    t->model = of->model;
    t->data = of->data;
    t->shuffle = !o->no_shuffle;
    /* Failover is within one process. */
    t->stop_on_loss = o->stop_on_loss || devices->context->processes != NULL;
    t->device_timeout = o->device_timeout;
    dpti_rendezvous_set_table(t, &dpti_trainer_rendezvous);
    dpti_steps_set_catch_up(t, dpti_steps_catch_up);
    const dpt_status status = build(t, of, obstacle);
    for (size_t i = 0; i < t->n_workers; i++)
        atomic_fetch_add(&devices->devices[i]->n_holders, 1);
    if (status == DPT_OK)
        *out = t;
    else
        dpt_trainer_destroy(t);
    return status;
}

/* ---- Destroying ------------------------------------------------------------------------------ */

/* A device that hangs may still read the algorithms that it was to choose. */
static void free_choices(dpt_trainer *t)
{
    bool hangs = false;
    for (size_t i = 0; t->workers && i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        hangs = hangs || (dpti_is_lost(w) && dpti_is_hung(w));
        if (!dpti_is_lost(w) || !dpti_is_hung(w)) dpti_recorded_choices_free(&w->kept);
    }
    if (!hangs) {
        dpti_replay_free(&t->replay);
        return;
    }
    dpti_replay *left = malloc(sizeof *left);
    if (!left) return;
    *left = t->replay;
    dpti_leave_behind(left);
}

void dpt_trainer_destroy(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    if (!t) return;
    dpti_trainer_drain(t);
    dpti_readmit_end(t);
    dpti_islands_end(t);
    for (size_t i = 0; i < t->n_workers; i++)
        atomic_fetch_sub(&t->devices->devices[i]->n_holders, 1);
    dpti_trainer_destroy_workers(t);
    dpti_trainer_tidy_lost(t);
    dpti_evaluation_destroy(t);
    dpti_feeding_destroy(t);
    dpti_steps_destroy(t);
    dpti_plan_destroy(t);
    dpti_rounds_destroy(t); /* before the residual, which an exchange in flight reads and writes */
    dpti_exchange_destroy(t);
    dpti_standby_destroy(t);
    dpti_verify_end(t);
    dpti_state_parts_end(t);
    dpti_events_free(t);
    dpti_algorithms_free(t);
    dpti_state_free(t);
    dpti_peers_free(t);
    free_choices(t);
    free(t->class_weights);
    free(t->rules);
    dpti_model_free_arranged(t->arranged);
    free(t->workers);
    free(t);
}

/* ---- Small calls ----------------------------------------------------------------------------- */

dpt_status dpt_trainer_set_lr(dpt_trainer *trainer, float lr)
{
    DPT_TRY(dpti_trainer_outside_fit(trainer, "dpt_trainer_set_lr"));
    if (!(lr > 0 && lr <= 1e6f))
        return dpt_fail(trainer->context, DPT_E_INVALID, "a learning rate of %g is not in (0, 1e6]",
                        (double)lr);
    trainer->lr = lr;
    return DPT_OK;
}

size_t dpt_trainer_device_bytes(const dpt_trainer *trainer, size_t device)
{
    if (!dpti_peers_is_own(trainer, device)) return 0;
    const dpti_worker *w = &trainer->workers[device - trainer->first_device];
    if (dpti_is_lost(w)) return 0;
    return dpti_replica_bytes(&w->replica) + w->train.arena.n_bytes +
           dpti_grain_sums_bytes(w->train.sums) + dpti_worker_finite_bytes(w) +
           dpti_feed_bytes(dpti_feeding_feed(w)) + dpti_evaluation_bytes(w);
}
