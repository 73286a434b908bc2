/* Trainings with local steps (local.h). */
#include "train/local.h"

#include "train/exchange/exchange.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state.h"
#include "train/rounds/rounds.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

local_course local_with(const char *devices, size_t local_steps)
{
    return (local_course){.devices = devices,
                          .split = "equal",
                          .count = FLAT_COUNT,
                          .steps = LOCAL_STEPS,
                          .options = {.size = sizeof(dpt_trainer_options),
                                      .batch_size = FLAT_BATCH,
                                      .lr = FLAT_RATE,
                                      .momentum = FLAT_MOMENTUM,
                                      .weight_decay = FLAT_DECAY,
                                      .local_steps = local_steps,
                                      .seed = 1,
                                      .no_shuffle = true}};
}

void local_forget(local_course *course)
{
    for (size_t r = 0; r < LOCAL_MOST; r++)
        local_forget_state(&course->states[r]);
}

/* ---- States ---------------------------------------------------------------------------------- */

/* A copy of the first n of flat_size elements; NULL if there is no memory. */
static float *copy_flat(dpt_trainer *trainer, const float *from, size_t n)
{
    float *copy = dpti_trainer_make_flat(trainer);
    if (copy) memcpy(copy, from, n * sizeof *copy);
    return copy;
}

dpt_status local_note_state(dpt_trainer *trainer, local_state *out)
{
    size_t n_owed;
    const float *velocity = dpti_rounds_velocity(trainer);
    const float *residual = dpti_exchange_feedback(trainer, &n_owed);
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(trainer); k++) {
        out->flats[k] = dpti_trainer_make_flat(trainer);
        if (!out->flats[k]) return DPT_E_NO_MEMORY;
        DPT_TRY(dpti_trainer_read(trainer, 0, dpti_state_buffer_kind(k), out->flats[k]));
    }
    if (residual) out->residual = copy_flat(trainer, residual, n_owed);
    if (residual && !out->residual) return DPT_E_NO_MEMORY;
    if (!velocity) return DPT_OK;
    out->velocity = copy_flat(trainer, velocity, trainer->model->flat_gradients);
    return out->velocity ? DPT_OK : DPT_E_NO_MEMORY;
}

void local_forget_state(local_state *state)
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++)
        free(state->flats[k]);
    free(state->velocity);
    free(state->residual);
    *state = (local_state){.velocity = NULL};
}

/* The elements of a flat buffer. */
static size_t count_elements(void)
{
    dpt_context *context = NULL;
    dpt_model *model = NULL;
    const bool made =
        dpt_context_create(&context) == DPT_OK && flat_residual(context, &model) == DPT_OK;
    const size_t n = made ? model->flat_size : 0;
    dpt_model_destroy(model);
    dpt_context_destroy(context);
    return n;
}

static size_t count_differences(const float *a, const float *b)
{
    const size_t n = count_elements();
    size_t differing = n == 0;
    for (size_t i = 0; i < n; i++)
        differing += !(a[i] == b[i]);
    return differing;
}

size_t local_count_differences(const local_state *a, const local_state *b)
{
    return count_differences(a->flats[0], b->flats[0]);
}

static void check_buffers(test *t, const float *a, const float *b)
{
    CHECK(!a == !b);
    if (a && b) CHECK_SIZE(count_differences(a, b), 0);
}

void local_check_same(test *t, const local_state *a, const local_state *b)
{
    CHECK(a->flats[0] && b->flats[0]);
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++)
        check_buffers(t, a->flats[k], b->flats[k]);
    check_buffers(t, a->velocity, b->velocity);
}

void local_check_processes_agree(test *t, const local_course *course)
{
    for (size_t r = 1; r < stand_ins_count(course->devices); r++)
        local_check_same(t, &course->states[0], &course->states[r]);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void note_step(local_course *c, const dpt_step_metrics *m)
{
    if (m->step > LOCAL_STEPS || m->n_devices > LOCAL_DEVICES) return;
    c->losses[m->step - 1] = m->loss;
    c->round_seconds[m->step - 1] = m->round_seconds;
    memcpy(c->shards[m->step - 1], m->shards, m->n_devices * sizeof *m->shards);
}

static bool may_submit(const local_course *c, const dpt_trainer *t)
{
    const dpti_cursor *next = dpti_steps_next(t);
    const size_t n = dpt_trainer_in_flight(t);
    return next->step < c->steps && n < DPTI_MAX_IN_FLIGHT &&
           (n == 0 || !dpti_rounds_stops(t, next));
}

static dpt_status make_steps(local_course *c, dpt_trainer *t)
{
    dpt_step_metrics m = {.size = sizeof m};
    while (dpt_trainer_steps(t) < c->steps) {
        while (may_submit(c, t)) {
            if (c->before) DPT_TRY(c->before(t, dpti_steps_next(t)->step + 1));
            DPT_TRY(dpt_trainer_submit(t));
        }
        DPT_TRY(dpt_trainer_collect(t, &m));
        if (dpt_process_rank(t->context) == 0) note_step(c, &m);
    }
    return dpt_trainer_end_round(t);
}

/* What a process of dpt_fit's listens with. */
typedef struct listener {
    local_course *c;
    size_t rank;
} listener;

static int listen(const dpt_fit_progress *progress, void *user)
{
    const listener *l = user;
    if (!progress->step) return 0;
    if (l->rank == 0) note_step(l->c, progress->step);
    return l->rank == l->c->stopper && progress->step->step == l->c->stops;
}

static dpt_status fit(local_course *c, dpt_trainer *t, size_t rank)
{
    listener l = {c, rank};
    dpt_fit_options options = {.max_steps = c->steps};
    if (c->limits) options = *c->limits;
    options.size = sizeof options;
    options.checkpoint = "kept";
    options.log = "kept.jsonl";
    options.resume = c->resumes;
    options.progress = listen;
    options.user = &l;
    c->results[rank].size = sizeof c->results[rank];
    return dpt_fit(t, &options, &c->results[rank]);
}

static dpt_status train_in(local_course *c, dpt_context *context, size_t rank)
{
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_trainer_options options = c->options;
    options.split = dpt_split_from(c->split);
    stand_ins_devices(c->devices, rank, list);
    dpt_status status = flat_data(context, c->count, 0, &data);
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = flat_residual(context, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK) status = c->fits ? fit(c, trainer, rank) : make_steps(c, trainer);
    if (status == DPT_OK) status = local_note_state(trainer, &c->states[rank]);
    if (status == DPT_OK && rank == 0) c->n_steps = dpt_trainer_steps(trainer);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    local_course *c = user;
    c->statuses[rank] = train_in(c, context, rank);
    snprintf(c->messages[rank], sizeof c->messages[rank], "%s", dpt_error_message(context));
    return c->statuses[rank];
}

dpt_status local_train(local_course *course)
{
    char message[512] = "";
    (void)alarm(240); /* nothing may wait for ever */
    const dpt_status status =
        stand_ins_run(stand_ins_count(course->devices), part, course, message);
    (void)alarm(0);
    return status;
}

bool local_trains(test *t, local_course *course)
{
    if (CHECK_OK(local_train(course))) return true;
    FAIL("%s: %s, %s", course->devices, course->messages[0], course->messages[1]);
    return false;
}
