/* Making, using and destroying a generator (dptrain/generate.h). */
#include "dptrain/generate.h"

#include "base/left_behind.h"
#include "checkpoint/tensor_source.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/call_limit.h"
#include "dpt_error.h"
#include "generate/generator.h"
#include "graph/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds that a device may take for one call if the options do not tell. */
static const double default_timeout = 600;

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* What a driver thread does for a generator.  Allocated on its own, since a thread that hangs keeps
   it. */
typedef struct job {
    dpt_generator *generator;
    dpti_stepper *stepper;
    dpti_stepper_source source;
    dpt_status status;
    dpt_error error;
    size_t n;
    int32_t ids[];
} job;

static void run_create(dpti_device *device, void *argument)
{
    job *j = argument;
    j->status = dpti_stepper_create(device, &j->source, j->stepper, &j->error);
}

static void run_read(dpti_device *device, void *argument)
{
    job *j = argument;
    j->status = dpti_generator_advance(j->generator, j->ids, j->n);
    if (j->status != DPT_OK) j->error = *dpti_device_error(device);
}

static void run_clear(dpti_device *device, void *argument)
{
    job *j = argument;
    j->status = dpti_generator_clear(j->generator);
    if (j->status != DPT_OK) j->error = *dpti_device_error(device);
}

static void run_release(dpti_device *device, void *argument)
{
    dpt_generator *g = argument;
    dpti_stepper_release(device, &g->many);
    dpti_stepper_release(device, &g->one);
}

static job *new_job(dpt_generator *g, size_t n)
{
    job *j = calloc(1, sizeof *j + n * sizeof *j->ids);
    if (!j) {
        (void)dpt_fail(g->context, DPT_E_NO_MEMORY, "no memory for a generator");
        return NULL;
    }
    j->generator = g;
    j->n = n;
    return j;
}

/* Runs a job and frees it.  The context gets the errors. */
static dpt_status perform(dpt_generator *g, dpti_job *run, job *j, const dpti_limit *limit)
{
    char prefix[DPTI_ID_BYTES + 16];
    dpti_device *device = g->device;
    dpt_error error;
    if (dpti_driver_is_running(device) && dpti_driver_call_within(device, run, j, limit)) {
        error = j->error;
        error.status = j->status;
        free(j);
    } else {
        dpti_leave_behind(j);
        error = device->given_up;
        error.status = DPT_E_DEVICE_LOST;
    }
    if (error.status == DPT_OK) return DPT_OK;
    g->lost = true;
    snprintf(prefix, sizeof prefix, "device %s", device->id);
    return dpti_context_fail(g->context, prefix, &error);
}

static dpti_limit working_limit(const dpt_generator *g)
{
    return (dpti_limit){.seconds = g->device_timeout > 0 ? g->device_timeout : default_timeout,
                        .words = "(dpt_generator_options.device_timeout sets the limit)"};
}

static dpt_status prepare(dpt_generator *g, dpti_stepper *stepper,
                          const dpti_stepper_source *source)
{
    dpti_limit limit = dpti_preparing_limit(g->context, "while it was prepared");
    if (g->device_timeout > 0) limit.seconds = dpti_preparing_seconds(g->device_timeout);
    job *j = new_job(g, 0);
    if (!j) return DPT_E_NO_MEMORY;
    j->stepper = stepper;
    j->source = *source;
    return perform(g, run_create, j, &limit);
}

/* ---- Creating -------------------------------------------------------------------------------- */

static bool has_states(const dpti_steps *s)
{
    for (size_t i = 0; i < s->n_kept; i++)
        if (!s->kept[i].by_place) return true;
    return false;
}

static dpt_status take_options(dpt_generator *g, const dpt_generator_options *o)
{
    const size_t most = g->model->recipe.context;
    if (!(o->device_timeout >= 0 && o->device_timeout <= 1e9))
        return dpt_fail(g->context, DPT_E_INVALID,
                        "dpt_generator_options.device_timeout is not a number of seconds");
    if (!g->model->recipe.build)
        return dpt_fail(g->context, DPT_E_INVALID,
                        "model %s is no language model whose tokens can be generated: use one of "
                        "gpt, llama or lstm, or give the model a recipe (dpt_model_set_recipe)",
                        g->model->name);
    if (!o->weights)
        return dpt_fail(g->context, DPT_E_INVALID,
                        "model %s has no weights yet: name a file in "
                        "dpt_generator_options.weights",
                        g->model->name);
    g->device_timeout = o->device_timeout;
    g->deterministic = o->deterministic;
    g->vocabulary = dpt_model_outputs(g->model);
    g->bounded = most > 0;
    g->capacity = most == 0 ? 1 : o->context > 0 && o->context < most ? o->context : most;
    return DPT_OK;
}

static dpt_status create(dpt_generator *g, const dpt_generator_options *o)
{
    DPT_TRY(take_options(g, o));
    DPT_TRY(dpti_stepper_build(g, 1, &g->one));
    g->has_states = has_states(g->one.model->steps);
    if (dpt_model_outputs(g->one.model) != g->one.fresh + g->vocabulary)
        return dpt_fail(g->context, DPT_E_INVALID,
                        "the recipe of model %s does not add the layers of the model",
                        g->model->name);
    g->logits = calloc(g->vocabulary, sizeof *g->logits);
    float *flat = calloc(g->model->flat_size + 1, sizeof *flat);
    dpt_status status = DPT_OK;
    if (!g->logits || !flat)
        status = dpt_fail(g->context, DPT_E_NO_MEMORY, "no memory for a generator");
    if (status == DPT_OK) status = dpti_weights_load(g->context, g->model, o->weights, flat);
    if (status == DPT_OK)
        status = prepare(g, &g->one,
                         &(dpti_stepper_source){
                             .model = g->model, .flat = flat, .deterministic = g->deterministic});
    if (status == DPT_E_DEVICE_LOST)
        dpti_leave_behind(flat); /* a thread that hangs may read it */
    else
        free(flat);
    return status;
}

dpt_status dpt_generator_create(dpt_device_set *devices, const dpt_model *model,
                                const dpt_generator_options *options, dpt_generator **out)
{
    dpt_generator_options o;
    if (!devices) return DPT_E_INVALID; /* there is no context that could tell why */
    if (!model || !out || !model->finished)
        return dpt_fail(devices->context, DPT_E_INVALID,
                        "a generator needs a finished model, and a place where it is returned");
    DPT_TRY(dpti_take_sized(devices->context,
                            &(dpti_sized){"dpt_generator_options", options, sizeof o}, &o));
    dpt_generator *g = calloc(1, sizeof *g);
    if (!g) return dpt_fail(devices->context, DPT_E_NO_MEMORY, "no memory for a generator");
    g->context = devices->context;
    g->model = model;
    g->device = devices->devices[0];
    atomic_fetch_add(&g->device->n_holders, 1);
    const dpt_status status = create(g, &o);
    if (status == DPT_OK)
        *out = g;
    else
        dpt_generator_destroy(g);
    return status;
}

void dpt_generator_destroy(dpt_generator *generator)
{
    dpt_generator *g = generator;
    if (!g) return;
    dpti_device *device = g->device;
    if (dpti_driver_is_running(device) && dpti_driver_finish(device, run_release, g)) {
        dpt_model_destroy(g->many.model);
        dpt_model_destroy(g->one.model);
        free(g->logits);
        free(g);
    } else {
        dpti_leave_behind(g); /* what a hung device has of it stays with the device for ever */
    }
    atomic_fetch_sub(&device->n_holders, 1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

size_t dpt_generator_vocabulary(const dpt_generator *generator)
{
    return generator->vocabulary;
}

size_t dpt_generator_context(const dpt_generator *generator)
{
    return generator->bounded ? generator->capacity : 0;
}

size_t dpt_generator_tokens(const dpt_generator *generator)
{
    return generator->n_tokens;
}

const float *dpt_generator_logits(const dpt_generator *generator)
{
    return generator->n_tokens > 0 && !generator->lost ? generator->logits : NULL;
}

static dpt_status check_tokens(const dpt_generator *g, const int32_t *ids, size_t n)
{
    if (!ids || n == 0) return dpt_fail(g->context, DPT_E_INVALID, "there are no tokens to read");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= g->vocabulary)
            return dpt_fail(g->context, DPT_E_INVALID,
                            "token %zu has the id %d, and model %s has a vocabulary of %zu: is the "
                            "tokenizer that of another model?",
                            i, (int)ids[i], g->model->name, g->vocabulary);
    if (g->bounded && n > g->capacity - g->n_tokens)
        return dpt_fail(g->context, DPT_E_INVALID,
                        "%zu tokens behind %zu others are more than the context of model %s holds, "
                        "%zu: use a shorter text",
                        n, g->n_tokens, g->model->name, g->capacity);
    if (g->lost)
        return dpt_fail(g->context, DPT_E_STATE, "the device of the generator has failed before");
    return DPT_OK;
}

/* A program for many tokens is made when there are many for the first time. */
static dpt_status make_many(dpt_generator *g)
{
    const size_t length =
        g->bounded && g->capacity < DPTI_MANY_TOKENS ? g->capacity : DPTI_MANY_TOKENS;
    dpti_stepper many;
    DPT_TRY(dpti_stepper_build(g, length, &many));
    g->many = many;
    return prepare(g, &g->many,
                   &(dpti_stepper_source){.lender = &g->one, .deterministic = g->deterministic});
}

dpt_status dpt_generator_read(dpt_generator *generator, const int32_t *ids, size_t n)
{
    enum { MANY = 16 };
    dpt_generator *g = generator;
    DPT_TRY(check_tokens(g, ids, n));
    if (n > (g->has_states ? DPTI_MANY_TOKENS : MANY) && !g->many.model) DPT_TRY(make_many(g));
    const dpti_limit limit = working_limit(g);
    job *j = new_job(g, n);
    if (!j) return DPT_E_NO_MEMORY;
    memcpy(j->ids, ids, n * sizeof *ids);
    return perform(g, run_read, j, &limit);
}

dpt_status dpt_generator_forget(dpt_generator *generator)
{
    dpt_generator *g = generator;
    const dpti_limit limit = working_limit(g);
    if (g->lost)
        return dpt_fail(g->context, DPT_E_STATE, "the device of the generator has failed before");
    job *j = new_job(g, 0);
    if (!j) return DPT_E_NO_MEMORY;
    g->n_tokens = 0;
    return perform(g, run_clear, j, &limit);
}
