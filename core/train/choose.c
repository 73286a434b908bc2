/* Creating a trainer that may have to save memory: choosing what it saves (DPT_SHARD_AUTO), or
   saying what would make it fit. */
#include "collective/processes.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/rehearsal.h"
#include "device/set.h"
#include "train/create.h"
#include "train/least_memory.h"
#include "train/membership/presence.h"
#include "train/options.h"
#include "train/replicas/state_parts.h"
#include "train/state/trainer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What makes a training take less memory.  Micro-batches are none: devices take them by themselves.
 */
typedef struct combination {
    dpt_shard shard;
    bool offload;
    bool recomputes; /* activations may be computed again */
    const char *options;
} combination;

/* The cheapest first: parts cost some of the exchange, recomputation a fifth of all operations.
   Parts of parameters are copied to each device twice in each micro-batch.  Parts on CPUs alone
   are copied from no other device to the host, and leave the memory of other devices to samples.
   Parts of parameters are better on the devices that need them. */
static const combination combinations[DPTI_MOST_CANDIDATES] = {
    {DPT_SHARD_NONE, false, false, "--shard none"},
    {DPT_SHARD_OPTIMIZER, true, false, "--offload"},
    {DPT_SHARD_OPTIMIZER, false, false, "--shard optimizer"},
    {DPT_SHARD_GRADIENTS, true, false, "--shard gradients --offload"},
    {DPT_SHARD_GRADIENTS, false, false, "--shard gradients"},
    {DPT_SHARD_NONE, false, true, "--recompute auto"},
    {DPT_SHARD_OPTIMIZER, true, true, "--offload --recompute auto"},
    {DPT_SHARD_OPTIMIZER, false, true, "--shard optimizer --recompute auto"},
    {DPT_SHARD_GRADIENTS, true, true, "--shard gradients --offload --recompute auto"},
    {DPT_SHARD_GRADIENTS, false, true, "--shard gradients --recompute auto"},
    {DPT_SHARD_PARAMETERS, false, false, "--shard parameters"},
    {DPT_SHARD_PARAMETERS, false, true, "--shard parameters --recompute auto"},
    {DPT_SHARD_PARAMETERS, true, false, "--shard parameters --offload"},
    {DPT_SHARD_PARAMETERS, true, true, "--shard parameters --offload --recompute auto"},
};

/* What is to be created.  `given`: the caller's options; `of` has those of a combination. */
typedef struct task {
    const dpt_trainer_options *given;
    dpt_trainer_options options;
    dpti_creation of;
} task;

static dpt_context *context_of(const task *t)
{
    return t->of.devices->context;
}

/* Makes the options of a combination.  Where the caller leaves it to the trainer whether values are
   computed again, a combination without that is tried for itself. */
static void take(task *t, const combination *c)
{
    const dpt_recompute given = t->given->recompute;
    t->options = *t->given;
    t->options.shard = c->shard;
    t->options.offload = c->offload;
    if (c->recomputes)
        t->options.recompute = DPT_RECOMPUTE_AUTO;
    else if (given == DPT_RECOMPUTE_AUTO)
        t->options.recompute = DPT_RECOMPUTE_OFF;
    t->of.options = &t->options;
    t->of.divides = true;
}

/* ---- What would do --------------------------------------------------------------------------- */

/* Limits, and the combination that fits within them; NULL: none was found. */
typedef struct least {
    const combination *with;
    dpti_limits limits;
} least;

/* Whether the combination differs from others: values are not computed again in more than one way.
 */
static bool is_own(const task *t, const combination *c)
{
    return !c->recomputes || t->given->recompute != DPT_RECOMPUTE_ON;
}

/* Finds the combination that needs least; of several the cheapest.  Those that the caller has ruled
   out are looked at if `any`. */
static void find_least(task *t, bool any, least *out)
{
    dpti_limits limits;
    *out = (least){.with = NULL};
    for (size_t i = DPTI_MOST_CANDIDATES; i-- > 0;) {
        const combination *c = &combinations[i];
        const bool ruled_out = c->recomputes && t->given->recompute == DPT_RECOMPUTE_OFF;
        if (!is_own(t, c) || (ruled_out && !any)) continue;
        take(t, c);
        if (!dpti_find_least_memory(&t->of, out->with ? out->limits.more : SIZE_MAX, &limits))
            continue;
        out->with = c;
        out->limits = limits;
    }
}

/* A text that grows, and is cut at its end. */
typedef struct text {
    char *out;
    size_t size, n;
} text;

DPT_PRINTF(2, 3) static void put(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->out + t->n, t->size - t->n, format, args);
    va_end(args);
    if (n > 0) t->n += (size_t)n < t->size - t->n ? (size_t)n : t->size - t->n - 1;
}

/* How many devices from i on have the same name and the same limit. */
static size_t count_alike(const task *t, const dpti_limits *l, size_t i)
{
    dpti_device *const *devices = t->of.devices->devices;
    size_t n = 1;
    while (i + n < l->n && l->least[i + n] == l->least[i] &&
           strcmp(devices[i + n]->id, devices[i]->id) == 0)
        n++;
    return n;
}

static void put_limits(const task *t, const dpti_limits *l, text *out)
{
    const char *separator = "";
    for (size_t i = 0; i < l->n;) {
        const size_t alike = count_alike(t, l, i);
        const char *id = t->of.devices->devices[i]->id;
        if (l->least[i] > l->now[i] && alike == 1)
            put(out, "%smemory=%zu for %s", separator, l->least[i], id);
        else if (l->least[i] > l->now[i])
            put(out, "%smemory=%zu for each of the %zu devices %s", separator, l->least[i], alike,
                id);
        if (l->least[i] > l->now[i]) separator = " and ";
        i += alike;
    }
}

/* Whether the combination takes no less memory than what was given. */
static bool is_given(const task *t, const combination *c)
{
    const dpt_trainer_options *g = t->given;
    return c->shard == g->shard && c->offload == g->offload &&
           (!c->recomputes || g->recompute != DPT_RECOMPUTE_OFF);
}

/* Nothing fits.  Adds to the first error what memory would do. */
static dpt_status refuse(task *t, bool any, const dpt_error *first)
{
    char words[256] = "";
    text out = {words, sizeof words, 0};
    least best;
    dpt_error error = *first;
    if (first->status == DPT_E_NO_MEMORY) {
        find_least(t, any, &best);
        if (best.with) put_limits(t, &best.limits, &out);
        if (best.with && !is_given(t, best.with)) put(&out, ", with %s", best.with->options);
        if (best.with)
            (void)DPT_FAIL(&error, error.status,
                           "%.240s; no choice of --shard, --offload and --recompute fits: the "
                           "least that would do is %s",
                           first->message, words);
    }
    return dpti_context_fail(context_of(t), NULL, &error);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Notes a combination that does not fit, with the device that lacks most. */
static void note_refused(task *t, const combination *c, dpt_candidate *out)
{
    dpti_limits limits;
    size_t most = 0;
    *out = (dpt_candidate){.size = sizeof *out,
                           .shard = c->shard,
                           .offload = c->offload,
                           .recompute = t->options.recompute,
                           .options = c->options,
                           .device = t->of.devices->n_devices};
    if (!dpti_find_least_memory(&t->of, SIZE_MAX, &limits)) return;
    for (size_t i = 0; i < limits.n; i++) {
        if (limits.least[i] - limits.now[i] <= most) continue;
        most = limits.least[i] - limits.now[i];
        out->device = i;
        out->need_bytes = limits.least[i];
        out->limit_bytes = limits.now[i];
    }
}

/* The trainer that was made with this combination keeps what led to it, and may later save as much
   as the caller allows: when devices are lost, others take their part. */
static void note_chosen(const task *t, const combination *c, dpti_candidates *tried,
                        dpt_trainer *trainer)
{
    tried->list[tried->n++] = (dpt_candidate){.size = sizeof(dpt_candidate),
                                              .shard = c->shard,
                                              .offload = c->offload,
                                              .recompute = t->options.recompute,
                                              .options = c->options,
                                              .fits = true,
                                              .device = t->of.devices->n_devices};
    trainer->candidates = *tried;
    trainer->recompute = t->given->recompute;
}

static dpt_status choose(task *t, dpt_trainer **out)
{
    dpti_candidates tried = {.n = 0};
    dpt_error first = {.status = DPT_OK};
    for (size_t i = 0; i < DPTI_MOST_CANDIDATES; i++) {
        const combination *c = &combinations[i];
        dpti_obstacle obstacle;
        if (c->recomputes && t->given->recompute != DPT_RECOMPUTE_AUTO) continue;
        take(t, c);
        const dpt_status status = dpti_trainer_make(&t->of, &obstacle, out);
        if (status == DPT_OK) {
            note_chosen(t, c, &tried, *out);
            return DPT_OK;
        }
        if (obstacle.kind == DPTI_OBSTACLE_DIVISION) continue;
        if (obstacle.kind != DPTI_OBSTACLE_MEMORY) return status;
        if (tried.n == 0) first = context_of(t)->error;
        note_refused(t, c, &tried.list[tried.n++]);
    }
    return refuse(t, false, &first);
}

/* ---- Advising -------------------------------------------------------------------------------- */

/* The bytes that are copied to the device that gets most, and the operations. */
typedef struct cost {
    size_t gathered; /* in a micro-batch */
    size_t update;   /* behind the update, in either direction */
    double again, all;
} cost;

static cost find_cost(const dpt_trainer *t)
{
    cost c = {.gathered = 0};
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        if (dpti_is_lost(w)) continue;
        const size_t gathered = dpti_fetches_bytes(&w->train);
        const size_t update = dpti_state_parts_update_bytes(w);
        if (gathered > c.gathered) c.gathered = gathered;
        if (update > c.update) c.update = update;
        c.all += dpti_executable_flops(&w->train, 1, false);
        c.again += dpti_executable_flops(&w->train, 1, true);
    }
    return c;
}

/* What the combination costs, of which a trainer was made; `out` is "" where it is part of an
   exchange that there is anyway. */
static void tell_cost(const dpt_trainer *t, const combination *with, char *out, size_t n_bytes)
{
    const cost c = find_cost(t);
    const double percents = 100.0 * c.again / c.all;
    char copies[80] = "";
    if (c.gathered > 0)
        snprintf(copies, sizeof copies, "each micro-batch copies %.1f MiB to a device",
                 (double)c.gathered / 1048576.0);
    else if (with->offload)
        snprintf(copies, sizeof copies, "each step copies %.1f MiB between a device and the host",
                 (double)c.update / 1048576.0);
    out[0] = '\0';
    if (*copies && c.again > 0)
        snprintf(out, n_bytes, " (%s, and %.0f %% of the operations are done again)", copies,
                 percents);
    else if (*copies)
        snprintf(out, n_bytes, " (%s)", copies);
    else if (c.again > 0)
        snprintf(out, n_bytes, " (%.0f %% of the operations are done again)", percents);
}

/* Makes the error of a training that does not fit, and fits with a combination of which a trainer
   was made. */
static void tell_fitting(const task *t, const combination *c, const dpt_trainer *trainer,
                         dpt_error *error)
{
    const dpt_error first = *error;
    const dpt_trainer_options *g = t->given;
    const bool chosen =
        !context_of(t)->processes && (!c->recomputes || g->recompute == DPT_RECOMPUTE_AUTO);
    const bool keeps_parts = c->shard == DPT_SHARD_NONE && c->recomputes;
    char costs[160];
    tell_cost(trainer, c, costs, sizeof costs);
    (void)DPT_FAIL(error, error->status, "%.300s; the training fits with %s%s%s%s%s", first.message,
                   keeps_parts && g->shard != DPT_SHARD_NONE ? "--shard none " : "", c->options,
                   g->offload && !c->offload ? " and without --offload" : "", costs,
                   chosen ? ", which --shard auto chooses" : "");
}

/* Fails as all processes do. */
static dpt_status fail_together(const task *t, const dpt_error *error)
{
    dpti_processes *processes = context_of(t)->processes;
    if (processes) dpti_processes_know(processes);
    return dpti_context_fail(context_of(t), NULL, error);
}

/* Memory is short, as all processes know.  Says with which options the training fits. */
static dpt_status advise(task *t)
{
    const bool alone = !context_of(t)->processes;
    dpt_error error = context_of(t)->error;
    for (size_t i = 0; i < DPTI_MOST_CANDIDATES; i++) {
        const combination *c = &combinations[i];
        dpti_obstacle obstacle;
        dpt_trainer *trainer = NULL;
        if (!is_own(t, c) || is_given(t, c) || (c->offload && !alone)) continue;
        take(t, c);
        const dpt_status status = dpti_trainer_make(&t->of, &obstacle, &trainer);
        if (status == DPT_E_IO) return status; /* the transport has failed */
        if (status != DPT_OK) continue;
        tell_fitting(t, c, trainer, &error);
        dpt_trainer_destroy(trainer);
        return fail_together(t, &error);
    }
    return alone ? refuse(t, true, &error) : fail_together(t, &error);
}

/* ---- Creating -------------------------------------------------------------------------------- */

static dpt_status create(const dpti_creation *of, dpt_trainer **out)
{
    dpti_obstacle obstacle;
    task t = {.given = of->options, .of = *of};
    const bool alone = !of->devices->context->processes;
    if (of->options->shard == DPT_SHARD_AUTO && of->options->offload)
        return dpt_fail(of->devices->context, DPT_E_INVALID,
                        "shard auto chooses whether CPUs hold the parts: leave offload out");
    if (of->options->shard == DPT_SHARD_AUTO && alone) return choose(&t, out);
    const dpt_status status = dpti_trainer_make(of, &obstacle, out);
    if (status != DPT_E_NO_MEMORY || obstacle.kind != DPTI_OBSTACLE_MEMORY) return status;
    return advise(&t);
}

dpt_status dpt_trainer_create(dpt_device_set *devices, const dpt_model *model,
                              const dpt_dataset *data, const dpt_trainer_options *options,
                              dpt_trainer **out)
{
    if (!devices) return DPT_E_INVALID; /* there is no context that could tell why */
    if (!model || !data || !out)
        return dpt_fail(devices->context, DPT_E_INVALID,
                        "a trainer needs a model and data, and a place where it is returned");
    dpt_trainer_options o;
    DPT_TRY(dpti_take_sized(devices->context,
                            &(dpti_sized){"dpt_trainer_options", options, sizeof o}, &o));
    dpti_trainer_resolve(&o, data->count);
    const dpti_creation of = {.devices = devices, .model = model, .data = data, .options = &o};
    return create(&of, out);
}
