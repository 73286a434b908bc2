/* The choice among the alternatives of an operator: which ones are considered, and the scratch
   tensors with which they are timed. */
#include "alternatives.h"

#include "tuning.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ALTERNATIVES = 64, KEY_BYTES = 256 };

/* A call of fewer operations takes the first alternative, because the alternatives differ too
   little.  On a GPU the limit is low: one launch or two make a difference there. */
static const double least_work_cpu = 2e7, least_work = 2e5;
/* Operations of one timed run.  They take a CPU some ten milliseconds.  They take a GPU's unit 0.3
   to 3 ms.  With much fewer samples than in training, the incomplete tiles at the end decide: on an
   H200, 512 samples of ResNet-18's convolutions chose other alternatives than 1024. */
static const double enough_work_cpu = 4e9, enough_work_unit = 1.5e9;
static const double budget_seconds = 0.02; /* of one alternative's timing */
/* An alternative that takes so many times as long as the best one is timed for a shorter time
   (dpt_budget).  Most of cuDNN's algorithms are that slow. */
static const double hopeless = 1.5;

/* ---- The shortlist --------------------------------------------------------------------------- */

/* Alternatives that are considered, in order. */
typedef struct shortlist {
    const dpt_alternative *items[MAX_ALTERNATIVES];
    const char *names[MAX_ALTERNATIVES];
    size_t n;
} shortlist;

static bool begins_with(const char *name, const char *beginning)
{
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

/* The alternatives whose names have this beginning, also those that do not suit the device.  NULL:
   the alternatives that suit the device. */
static shortlist select_items(const dpt_device *device, const dpt_alternatives *choice,
                              const char *beginning)
{
    shortlist list = {.n = 0};
    for (size_t i = 0; i < choice->n_items && list.n < MAX_ALTERNATIVES; i++) {
        const dpt_alternative *item = &choice->items[i];
        if (beginning ? !begins_with(item->name, beginning)
                      : !dpt_tuner_of(device)->suits(device, item->name))
            continue;
        list.items[list.n] = item;
        list.names[list.n++] = item->name;
    }
    return list;
}

static dpt_status prepare_one(dpt_op *op, const dpt_alternative *item)
{
    op->plan = (dpt_op_plan){0};
    const dpt_status status = item->prepare(op, item->parameters);
    if (status != DPT_OK) {
        dpt_op_plan_clear(&op->plan);
        return status;
    }
    op->plan.algorithm = item->name;
    return DPT_OK;
}

static dpt_status prepare_first(dpt_op *op, const shortlist *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const dpt_status status = prepare_one(op, list->items[i]);
        if (status != DPT_E_UNSUPPORTED) return status;
    }
    return DPT_E_UNSUPPORTED;
}

/* ---- Timing ---------------------------------------------------------------------------------- */

/* A measurement of all alternatives of a shortlist. */
typedef struct measurement {
    const dpt_op *op; /* the description */
    const dpt_alternatives *choice;
    const shortlist *list;
    size_t n_samples;
    /* The shortest time so far, for n_samples of this measurement's start and with the handicap;
       0: none yet. */
    double *best_seconds;
} measurement;

/* One alternative, prepared, with scratch tensors. */
typedef struct setting {
    dpt_op op; /* its max_samples is the measurement's n_samples */
    dpt_op_args args;
} setting;

static dpt_status allocate(dpt_stream *stream, size_t n_bytes, dpt_location *out)
{
    const uint32_t pattern = 0x3c233c23; /* about 0.01, as float32 and as two bfloat16 */
    if (n_bytes == 0) return DPT_OK;
    dpt_device *device = dpt_stream_device(stream);
    const dpt_memory_ops *memory = device->backend->memory;
    const size_t whole = dpt_size_mul(dpt_ceil_div(n_bytes, sizeof pattern), sizeof pattern);
    DPT_TRY(memory->alloc(device, whole, &out->buffer));
    return memory->fill(stream, *out, pattern, whole);
}

static size_t extent_bytes(const dpt_extent *extent, size_t n_samples)
{
    return dpt_size_add(extent->fixed_bytes, dpt_size_mul(extent->sample_bytes, n_samples));
}

static dpt_status set_up(const measurement *t, const dpt_alternative *item, dpt_stream *stream,
                         setting *s)
{
    s->op = (dpt_op){.device = t->op->device, .desc = t->op->desc, .max_samples = t->n_samples};
    DPT_TRY(prepare_one(&s->op, item));
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        DPT_TRY(allocate(stream, extent_bytes(&t->choice->in[i], t->n_samples), &s->args.in[i]));
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        DPT_TRY(allocate(stream, extent_bytes(&t->choice->out[i], t->n_samples), &s->args.out[i]));
    return allocate(stream, s->op.plan.workspace_bytes, &s->args.workspace);
}

static void tear_down(dpt_device *device, setting *s)
{
    const dpt_memory_ops *memory = device->backend->memory;
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        memory->free(device, s->args.in[i].buffer);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        memory->free(device, s->args.out[i].buffer);
    memory->free(device, s->args.workspace.buffer);
    dpt_op_plan_clear(&s->op.plan);
}

static dpt_status enqueue(void *argument, dpt_stream *stream)
{
    const setting *s = argument;
    const dpt_call call = {
        .stream = stream, .op = &s->op, .n_samples = s->op.max_samples, .args = &s->args};
    return s->op.plan.run(&call);
}

static dpt_status time_item(const measurement *t, const dpt_alternative *item, double *seconds)
{
    dpt_device *device = t->op->device;
    dpt_tuner *tuner = dpt_tuner_of(device);
    setting s = {0};
    const dpt_budget budget = {.seconds = budget_seconds,
                               .hopeless_seconds = hopeless * *t->best_seconds};
    tuner->trying = true;
    dpt_status status = set_up(t, item, tuner->stream, &s);
    tuner->trying = false;
    if (status == DPT_OK)
        status = dpt_measure(device, &budget, &(const dpt_timed_work){enqueue, &s}, seconds);
    /* The device may still use the tensors after a failure: wait before they are freed. */
    if (status != DPT_OK && status != DPT_E_DEVICE_LOST) {
        const dpt_error first = device->error;
        if (tuner->finish(tuner->stream) != DPT_OK) status = first.status;
        device->error = first;
    }
    tear_down(device, &s);
    return status;
}

/* A dpt_choice_time. */
static dpt_status time_candidate(void *argument, const char *candidate, double *seconds)
{
    const measurement *t = argument;
    for (size_t i = 0; i < t->list->n; i++) {
        if (strcmp(t->list->names[i], candidate) != 0) continue;
        measurement smaller = *t;
        dpt_status status = time_item(&smaller, t->list->items[i], seconds);
        while (status == DPT_E_NO_MEMORY && smaller.n_samples > 1) {
            smaller.n_samples /= 2;
            status = time_item(&smaller, t->list->items[i], seconds);
        }
        /* Scale the time of fewer samples to the number of samples of the other alternatives. */
        if (status == DPT_OK)
            *seconds *= (1.0 + t->list->items[i]->handicap) * (double)t->n_samples /
                        (double)smaller.n_samples;
        if (status == DPT_OK && !(*t->best_seconds > 0.0 && *t->best_seconds <= *seconds))
            *t->best_seconds = *seconds;
        return status;
    }
    return DPT_FAIL(&t->op->device->error, DPT_E_INTERNAL, "no alternative %s", candidate);
}

/* The number of samples that are timed: a power of two, or max_samples.  Shards of similar size
   therefore share a choice. */
static size_t samples_to_time(const dpt_op *op, const dpt_alternatives *choice)
{
    const dpt_traits *traits = dpt_traits_of(op->device);
    const double enough =
        traits->is_cpu ? enough_work_cpu : enough_work_unit * (double)traits->n_units;
    size_t n = 1;
    while (n < op->max_samples && (double)n * choice->work < enough)
        n *= 2;
    return n < op->max_samples ? n : op->max_samples;
}

static dpt_status prepare_fastest(dpt_op *op, const dpt_alternatives *choice, const shortlist *list)
{
    double best_seconds = 0.0;
    measurement t = {.op = op,
                     .choice = choice,
                     .list = list,
                     .n_samples = samples_to_time(op, choice),
                     .best_seconds = &best_seconds};
    size_t rounded = 1;
    while (rounded < t.n_samples)
        rounded *= 2;
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s n%zu", choice->key, rounded);
    const dpt_choice measured = {.key = key,
                                 .candidates = list->names,
                                 .n_candidates = list->n,
                                 .time = time_candidate,
                                 .argument = &t,
                                 .measured = op->measured};
    size_t best;
    DPT_TRY(dpt_choose(op->device, &measured, &best));
    return prepare_one(op, list->items[best]);
}

static dpt_status prepare_among(dpt_op *op, const dpt_alternatives *choice, const shortlist *list)
{
    const double least = dpt_traits_of(op->device)->is_cpu ? least_work_cpu : least_work;
    const bool worth_it = choice->work * (double)op->max_samples >= least;
    if (list->n > 1 && worth_it) {
        const dpt_status status = prepare_fastest(op, choice, list);
        if (status != DPT_E_UNSUPPORTED && status != DPT_E_NO_MEMORY) return status;
    }
    return prepare_first(op, list);
}

/* algorithm=any: one of the alternatives that apply, drawn by the description and the number of
   samples. */
static const char any[] = "any";

static dpt_status prepare_any(dpt_op *op, const dpt_alternatives *choice, shortlist *list)
{
    const uint64_t n_samples = op->max_samples;
    dpt_hash hash = dpt_hash_add(dpt_hash_begin(), &n_samples, sizeof n_samples);
    hash = dpt_hash_text(hash, choice->key);
    uint64_t random = hash.word[0] ^ hash.word[1];
    for (size_t left = list->n; left > 1; left--) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const size_t drawn = (size_t)((random >> 33) % left);
        const dpt_alternative *item = list->items[drawn];
        list->items[drawn] = list->items[left - 1];
        list->items[left - 1] = item;
    }
    return prepare_first(op, list);
}

static dpt_status prepare_wanted(dpt_op *op, const dpt_alternatives *choice)
{
    for (size_t i = 0; i < choice->n_items; i++)
        if (strcmp(choice->items[i].name, op->wanted) == 0)
            return prepare_one(op, &choice->items[i]);
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "'%s' cannot be had on this device",
                    op->wanted);
}

dpt_status dpt_prepare_best(dpt_op *op, const dpt_alternatives *choice)
{
    if (op->wanted) return prepare_wanted(op, choice);
    const char *algorithm = dpt_tuner_of(op->device)->algorithm;
    shortlist list = select_items(op->device, choice, NULL);
    if (algorithm && strcmp(algorithm, any) == 0 && list.n > 0) {
        return prepare_any(op, choice, &list);
    } else if (algorithm) {
        const shortlist named = select_items(op->device, choice, algorithm);
        dpt_status status = named.n > 0 ? prepare_among(op, choice, &named) : DPT_E_UNSUPPORTED;
        if (status == DPT_E_UNSUPPORTED) status = prepare_first(op, &list);
        if (status != DPT_E_UNSUPPORTED) return status;
    } else if (list.n > 0) {
        return prepare_among(op, choice, &list);
    }
    const shortlist all = select_items(op->device, choice, "");
    return prepare_first(op, &all);
}
