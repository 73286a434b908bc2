/* Going on when a process has died: the training state of this process stays in host memory, the
   processes that are left choose one of their states, and a trainer of their devices takes it
   (fit.h). */

#include "fit/fit.h"

#include "base/text.h"
#include "collective/processes.h"
#include "context/context.h"
#include "io/log.h"
#include "train/components/membership.h"
#include "train/components/outcome.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"

#include <stdlib.h>
#include <string.h>

/* A device of the trainer that had the state. */
typedef struct carried_device {
    dpti_peer is;
    size_t first; /* the rank of its process at the start */
} carried_device;

typedef struct carried {
    bool whole; /* false: only devices are known, for the algorithms in another process's state */
    dpti_checkpoint state;
    dpti_last_steps recent;
    dpt_epoch_metrics last_epoch;
    bool counted; /* the results of all of its steps are known */
    size_t n_devices;
    carried_device *devices; /* (n_devices) */
} carried;

static carried *carried_of(const dpt_context *context)
{
    return context->carried.object;
}

bool dpti_carried_any(const dpt_context *context)
{
    const carried *c = carried_of(context);
    return c && c->whole;
}

static void destroy(void *object)
{
    carried *c = object;
    dpti_checkpoint_close(&c->state);
    dpti_last_steps_free(&c->recent);
    free(c->devices);
    free(c);
}

void dpti_carried_drop(dpt_context *context)
{
    if (context->carried.object) context->carried.destroy(context->carried.object);
    context->carried.object = NULL;
    context->goes_on = false;
}

static void set_carried(dpt_context *context, carried *c)
{
    dpti_carried_drop(context);
    context->carried = (dpti_carried_object){.object = c, .destroy = destroy};
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* Step `done` is committed here, but its results are not collected.  A device that has not
   committed it has the weights of before. */
static void miss_uncommitted(const dpt_trainer *t, const dpti_in_flight_step *step)
{
    for (size_t i = 0; i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i]) && !step->jobs[i].committed)
            dpti_change_replica(&t->workers[i], DPTI_REPLICA_MISS);
}

/* Counts a step whose results in other processes are not known: the mean of this process's samples
   stands for that of all samples. */
static void count_by_own(dpti_fit *f, const dpti_in_flight_step *step)
{
    const dpt_trainer *t = f->trainer;
    double loss = 0;
    size_t hits = 0, n = 0;
    for (size_t i = 0; i < t->n_workers; i++) {
        loss += step->jobs[i].loss;
        hits += step->jobs[i].hits;
        n += step->jobs[i].n_samples;
    }
    const double all = n > 0 ? (double)step->n_samples / (double)n : 0;
    const dpt_step_metrics m = {.size = sizeof m,
                                .step = step->cursor.step + 1,
                                .epoch = step->cursor.epoch,
                                .samples = step->n_samples,
                                .labels = step->n_labels,
                                .loss = all * loss / step->weight,
                                .hits = (size_t)(all * (double)hits),
                                .lr = (double)step->lr,
                                .last_of_epoch = step->last_of_epoch,
                                .n_devices = t->n_devices,
                                .shards = step->shards};
    dpti_fit_count(f, &m);
    dpti_last_steps_add(&f->recent, &m);
}

static bool note_devices(const dpt_trainer *t, carried *c)
{
    c->n_devices = t->n_devices;
    c->devices = calloc(t->n_devices, sizeof *c->devices);
    if (!c->devices) return false;
    for (size_t i = 0; i < t->n_devices; i++) {
        c->devices[i].is = *dpti_peers_device(t, i);
        c->devices[i].first = dpti_processes_first(t->processes, c->devices[i].is.process);
    }
    return true;
}

bool dpti_carried_take(dpti_fit *f)
{
    dpt_trainer *t = f->trainer;
    char name[64];
    if (!t->processes || !dpti_processes_to_mend(t->processes)) return false;
    if (t->local_steps > 0) return false; /* within a round processes have different weights */
    carried *c = calloc(1, sizeof *c);
    if (!c) return false;
    const size_t counted = f->course.first.step + f->course.result.steps;
    c->counted = dpti_steps_done(t)->step == counted;
    if (!c->counted) {
        const dpti_in_flight_step *step = dpti_steps_step(t, counted + 1);
        miss_uncommitted(t, step);
        count_by_own(f, step);
    }
    snprintf(name, sizeof name, "the memory of process %zu", dpti_processes_rank(t->processes));
    dpti_run_state *course = dpti_fit_describe(f, false);
    const bool taken =
        course && note_devices(t, c) && dpti_checkpoint_take(t, course, name, &c->state) == DPT_OK;
    free(course);
    if (!taken) {
        destroy(c);
        return false;
    }
    c->whole = true;
    c->recent = f->recent;
    f->recent = (dpti_last_steps){.n = 0};
    c->last_epoch = f->last_epoch;
    set_carried(f->context, c);
    return true;
}

/* ---- Between two trainers -------------------------------------------------------------------- */

bool dpt_process_can_go_on(const dpt_context *context)
{
    /* A process that was let in and has no state yet goes on as the others do. */
    return context->processes && (dpti_carried_any(context) || !context->begun) &&
           dpti_processes_to_mend(context->processes);
}

bool dpt_process_has_state(const dpt_context *context)
{
    return context->goes_on;
}

/* A process that was about to begin has no state, while another one had begun. */
static dpt_status find_state(dpt_context *context, dpt_error *error)
{
    const uint8_t mine = dpti_carried_any(context);
    dpti_gathered all = {.data = NULL};
    DPT_TRY(
        dpti_processes_gather(context->processes, (dpti_bytes){&mine, sizeof mine}, &all, error));
    const dpti_processes *p = context->processes;
    context->goes_on = memchr(all.data, true, dpti_processes_count(p)) != NULL;
    dpti_gathered_free(&all);
    if (context->goes_on || !dpti_processes_is_new(p, dpti_processes_rank(p))) return DPT_OK;
    dpti_processes_give_up(context->processes);
    return DPT_FAIL(error, DPT_E_IO,
                    "all processes that had the training state have ended: --resume continues from "
                    "the last checkpoint");
}

dpt_status dpt_process_go_on(dpt_context *context)
{
    dpt_error error = {.status = DPT_OK};
    if (!dpt_process_can_go_on(context))
        return dpt_fail(context, DPT_E_STATE, "no process has died in a training");
    if (dpti_processes_mend(context->processes, &error) != DPT_OK ||
        find_state(context, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    context->process_name.rank = dpti_processes_rank(context->processes);
    context->process_name.rank_known = true;
    return DPT_OK;
}

/* ---- Going on -------------------------------------------------------------------------------- */

/* What processes tell each other about their states. */
typedef struct offer {
    uint64_t step;
    bool whole, counted;
    size_t n_recent, n_devices; /* of dpti_last_steps */
    dpt_epoch_metrics last_epoch;
} offer;

static bool lives(const dpt_context *context, const carried_device *device)
{
    return dpti_processes_live(context->processes, device->first);
}

/* Returns the process whose state all take. */
static size_t choose(const offer *offers, size_t n)
{
    size_t found = n, any = n;
    for (size_t r = 0; r < n; r++) {
        if (!offers[r].whole) continue;
        if (any == n) any = r;
        if (!offers[r].counted) continue;
        /* The log of process 0 ends there. */
        if (r == 0 || (offers[0].whole && offers[r].step + 1 == offers[0].step)) return r;
        if (found == n) found = r;
    }
    return found < n ? found : any;
}

/* Returns what this process has, which may be nothing.  NULL: no memory. */
static carried *find_own(dpt_context *context)
{
    if (!carried_of(context)) {
        const bool goes_on = context->goes_on;
        carried *c = calloc(1, sizeof *c);
        if (!c) return NULL;
        set_carried(context, c);
        context->goes_on = goes_on;
    }
    return carried_of(context);
}

/* Leaves the algorithms of the devices that are left, which are the trainer's in their order. */
static void keep_algorithms(const dpt_context *context, const carried *c,
                            dpti_recorded_devices *algorithms)
{
    size_t n = 0;
    if (algorithms->n != c->n_devices) return;
    for (size_t i = 0; i < c->n_devices; i++) {
        if (!lives(context, &c->devices[i]))
            dpti_recorded_choices_free(&algorithms->items[i].choices);
        else
            algorithms->items[n++] = algorithms->items[i];
    }
    algorithms->n = n;
}

/* Every process gets the devices of the trainer that had the state of process `from`: processes may
   have states of different trainers, if another one has died in between. */
static dpt_status hand_out_devices(dpti_fit *f, size_t from)
{
    dpt_trainer *t = f->trainer;
    carried *c = carried_of(f->context);
    dpti_gathered all = {.data = NULL};
    dpti_bytes mine = {NULL, 0};
    if (dpti_processes_rank(t->processes) == from)
        mine = (dpti_bytes){c->devices, c->n_devices * sizeof *c->devices};
    DPT_TRY(dpti_peers_all_gather(t, DPT_OK, mine, &all));
    free(c->devices);
    c->n_devices = all.begins[dpti_processes_count(t->processes)] / sizeof *c->devices;
    c->devices = (carried_device *)(void *)all.data;
    all.data = NULL;
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* Every process gets the state of process `from`. */
static dpt_status hand_out(dpti_fit *f, size_t from, dpti_checkpoint *out)
{
    dpt_trainer *t = f->trainer;
    const bool gives = dpti_processes_rank(t->processes) == from;
    size_t n = 0;
    dpti_gathered all = {.data = NULL};
    uint8_t *bytes = gives ? dpti_checkpoint_pack(t, &carried_of(f->context)->state, &n) : NULL;
    dpt_status status = gives && !bytes ? dpti_fit_no_memory(f) : DPT_OK;
    status = dpti_peers_all_gather(t, status, (dpti_bytes){bytes, n}, &all);
    free(bytes);
    if (status == DPT_OK && !dpti_checkpoint_unpack(t, all.data, out))
        status = dpti_fit_no_memory(f);
    dpti_gathered_free(&all);
    return status;
}

/* Every process gets the last steps of process `from`, which describes them in *offered. */
static dpt_status hand_out_recent(dpti_fit *f, size_t from, const offer *offered)
{
    dpt_trainer *t = f->trainer;
    const dpti_last_steps *own = &carried_of(f->context)->recent;
    const bool gives = dpti_processes_rank(t->processes) == from;
    dpti_gathered all = {.data = NULL};
    const dpti_bytes bytes = {gives ? own->records : NULL, gives ? dpti_last_steps_bytes(own) : 0};
    DPT_TRY(dpti_peers_all_gather(t, DPT_OK, bytes, &all));
    const dpti_last_steps given = {
        .n_devices = offered->n_devices, .n = offered->n_recent, .records = all.data};
    for (size_t i = 0; i < given.n; i++) {
        const dpt_step_metrics m = dpti_last_steps_step(&given, i);
        dpti_last_steps_add(&f->recent, &m);
    }
    dpti_gathered_free(&all);
    return DPT_OK;
}

dpt_status dpti_carried_open(dpti_fit *f, dpti_checkpoint *out)
{
    dpt_trainer *t = f->trainer;
    carried *c = find_own(f->context);
    DPT_TRY(dpti_peers_agree(t, c ? DPT_OK : dpti_fit_no_memory(f)));
    const offer mine = {.step = c->state.state.done.step,
                        .whole = c->whole,
                        .counted = c->counted,
                        .n_recent = c->recent.n,
                        .n_devices = c->recent.n_devices,
                        .last_epoch = c->last_epoch};
    dpti_gathered all = {.data = NULL};
    DPT_TRY(dpti_peers_all_gather(t, DPT_OK, (dpti_bytes){&mine, sizeof mine}, &all));
    const size_t from =
        choose((const offer *)(const void *)all.data, dpti_processes_count(t->processes));
    offer chosen;
    memcpy(&chosen, all.data + from * sizeof chosen, sizeof chosen);
    dpti_gathered_free(&all);
    f->last_epoch = chosen.last_epoch;
    DPT_TRY(hand_out_devices(f, from));
    DPT_TRY(hand_out_recent(f, from, &chosen));
    DPT_TRY(dpti_peers_agree(t, hand_out(f, from, out)));
    keep_algorithms(f->context, c, &out->state.algorithms);
    return DPT_OK;
}

/* Of a process that died before the first step there is no device in the log. */
static void tell_untold(const dpti_fit *f)
{
    const dpti_processes *p = f->context->processes;
    char text[128];
    const size_t n = p ? dpti_processes_first_count(p) : 0;
    if (!p || f->carried || dpti_processes_count(p) == n) return;
    const size_t n_dead = n - dpti_processes_count(p);
    snprintf(text, sizeof text, "%zu of %zu processes %s died before the first step", n_dead, n,
             n_dead == 1 ? "has" : "have");
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
}

dpt_status dpti_carried_tell_lost(dpti_fit *f)
{
    const carried *c = carried_of(f->context);
    char text[2 * DPTI_ID_BYTES];
    dpt_error error = {0};
    tell_untold(f);
    if (!f->carried || dpt_process_rank(f->context) > 0) return DPT_OK;
    for (size_t i = 0; i < c->n_devices; i++) {
        const dpti_peer *device = &c->devices[i].is;
        if (lives(f->context, &c->devices[i])) continue;
        snprintf(text, sizeof text, "process %zu (%s) has died", device->process, device->host);
        const dpt_device_event event = {.size = sizeof event,
                                        .kind = DPT_DEVICE_LOST,
                                        .device = i,
                                        .id = device->id,
                                        .step = dpt_trainer_steps(f->trainer) + 1,
                                        .status = DPT_E_DEVICE_LOST,
                                        .message = text};
        dpti_fit_tell_device(f, &event);
        if (f->log && dpti_log_write_device_event(f->log, &event, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
    }
    return DPT_OK;
}
