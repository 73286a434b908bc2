/* A training with devices on standby. */
#include "fault/standby_support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Building -------------------------------------------------------------------------------- */

dpt_status standby_begin_on(test *t, const char *devices, size_t count, training *w)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .seed = 3,
                                         .bucket_bytes = 1,
                                         .verify_replicas = 3,
                                         .device_timeout = strstr(devices, "hang=") ? 0.3 : 0};
    *w = (training){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, count, SIDE, CLASSES, &w->data));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    DPT_TRY(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
    w->trainer->standby.allowed = false; /* no clock says so */
    return DPT_OK;
}

dpt_status standby_begin(test *t, const char *devices, training *w)
{
    return standby_begin_on(t, devices, COUNT, w);
}

void standby_end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static size_t standby_which(const training *w)
{
    return w->rests > 0 ? w->rests : 1;
}

/* As if this had been measured: that device rests, or wakes up. */
void standby_change(training *w)
{
    dpti_standby *r = &w->trainer->standby;
    memset(r->chosen, 0, w->trainer->n_workers * sizeof *r->chosen);
    r->chosen[standby_which(w)] = true;
    r->changes = true;
}

void standby_plan(test *t, training *w, size_t done)
{
    if (done == REST || (done == WAKE && w->wakes && w->n_lost == 0)) standby_change(w);
    CHECK_OK(dpt_trainer_set_lr(w->trainer, 0.05f - 0.002f * (float)done));
}

bool standby_is_due(const training *w, size_t step)
{
    const bool woken = (w->wakes && step > WAKE) || (w->woken > 0 && step >= w->woken);
    return step > REST && !woken && w->n_lost == 0;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void standby_take_events(test *t, training *w)
{
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(w->trainer, &event)) {
        CHECK(event.kind == DPT_DEVICE_LOST);
        w->n_lost++;
    }
}

void standby_steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < n; i++) {
        standby_plan(t, w, w->n_steps);
        if (!CHECK_OK(dpt_trainer_step(w->trainer, &m)))
            FAIL("%s: %s", w->devices, dpt_error_message(w->context));
        standby_take_events(t, w);
        CHECK_SIZE(m.step, ++w->n_steps);
        if (standby_is_due(w, m.step)) CHECK_SIZE(m.shards[standby_which(w)], 0);
    }
    CHECK_SIZE(dpt_trainer_steps(w->trainer), w->n_steps);
}

/* What one healthy device comes to. */
static bool find_reference(test *t, plant_weights *out)
{
    training w;
    bool done = false;
    if (CHECK_OK(standby_begin(t, "cpu:threads=1", &w))) {
        dpt_step_metrics m = {.size = sizeof m};
        for (size_t i = 0; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
        }
        done = CHECK_OK(plant_read_weights(w.model, w.trainer, 0, out));
    }
    standby_end(&w);
    return done;
}

/* A replica of the training has these weights, as far as rounding lets it. */
void standby_check_weights(test *t, training *w, size_t device)
{
    static plant_weights found, wanted;
    if (!find_reference(t, &wanted)) return;
    (void)alarm(120);
    if (!CHECK_OK(plant_read_weights(w->model, w->trainer, device, &found)) ||
        !CHECK(plant_near_weights(&found, &wanted)))
        FAIL("%s: device %zu has other weights", w->devices, device);
}
