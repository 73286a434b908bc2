/* Tests predictors whose devices fail: at every call the other device computes the samples of a
   lost or hanging one, a device without memory computes fewer at once, and a call fails only if no
   device is left.

   test-fault-predictor fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 6, COUNT = 37, CLASSES = 3, OUTPUTS = COUNT * CLASSES, LIST_BYTES = 256, CALLS = 3 };

static const char weights_path[] = "fault-predictor.safetensors";

typedef struct prediction {
    char devices[LIST_BYTES];
    dpt_context *context;
    dpt_device_set *set;
    dpt_dataset *data;
    dpt_model *model;
    dpt_predictor *predictor;
} prediction;

static dpt_status write_weights(const prediction *w)
{
    dpt_trainer *trainer = NULL;
    DPT_TRY(dpt_trainer_create(w->set, w->model, w->data, NULL, &trainer));
    const dpt_status status = dpt_trainer_save(trainer, weights_path);
    dpt_trainer_destroy(trainer);
    return status;
}

static dpt_status begin(test *t, const char *devices, prediction *w)
{
    *w = (prediction){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    if (strcmp(devices, "cpu:threads=1") == 0) DPT_TRY(write_weights(w));
    const dpt_predictor_options options = {.size = sizeof options,
                                           .weights = weights_path,
                                           .micro_batch = 5,
                                           .like = w->data,
                                           .split = {DPT_SPLIT_EQUAL, NULL},
                                           .device_timeout = strstr(devices, "hang=") ? 0.2 : 0};
    return dpt_predictor_create(w->set, w->model, &options, &w->predictor);
}

static void end(prediction *w)
{
    dpt_predictor_destroy(w->predictor);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static const float *find_reference(test *t)
{
    static float outputs[OUTPUTS];
    static bool made;
    prediction w;
    if (made) return outputs;
    made = CHECK_OK(begin(t, "cpu:threads=1", &w)) &&
           CHECK_OK(dpt_predictor_run_data(w.predictor, w.data, 0, COUNT, outputs, NULL));
    end(&w);
    return outputs;
}

static void check_outputs(test *t, const prediction *w, const float *outputs)
{
    const float *wanted = find_reference(t);
    for (size_t i = 0; i < OUTPUTS; i++)
        if (!(fabsf(outputs[i] - wanted[i]) <= 1e-5f)) {
            FAIL("%s: output %zu is %g, not %g", w->devices, i, (double)outputs[i],
                 (double)wanted[i]);
            return;
        }
}

/* `format` has a place for the number of the call, which happens at least `least` times. */
static void at_every_call(test *t, const char *format, size_t least, size_t n_lost)
{
    static float outputs[OUTPUTS];
    size_t n_fired = 0;
    (void)find_reference(t);
    for (size_t n = 1; n < 200; n += n < 40 ? 3 : 11) {
        char devices[LIST_BYTES], why[DPT_WHY_BYTES] = "";
        prediction w;
        snprintf(devices, sizeof devices, format, n);
        const dpt_status status = begin(t, devices, &w);
        if (!w.set) { /* the failure was in opening the devices */
            end(&w);
            continue;
        }
        if (CHECK_OK(status)) {
            for (size_t i = 0; i < CALLS; i++) {
                memset(outputs, 0, sizeof outputs);
                if (CHECK_OK(dpt_predictor_run_data(w.predictor, w.data, 0, COUNT, outputs, why)))
                    check_outputs(t, &w, outputs);
                else
                    printf("  %s: %s\n", w.devices, why);
            }
            n_fired += plant_fired();
            CHECK_SIZE(dpt_predictor_lost(w.predictor), plant_fired() ? n_lost : 0);
        } else {
            printf("  %s: %s\n", w.devices, dpt_error_message(w.context));
        }
        end(&w);
    }
    CHECK(n_fired >= least);
}

static void a_device_is_lost(test *t)
{
    at_every_call(t, "@:threads=1:lost=%zu,cpu:threads=1", 12, 1);
    at_every_call(t, "cpu:threads=1,@:threads=1:lost=%zu,@:threads=1", 12, 1);
}

static void a_device_hangs(test *t)
{
    at_every_call(t, "@:threads=1:entry=upload:hang=%zu,cpu:threads=1", 4, 1);
}

static void memory_is_short(test *t)
{
    at_every_call(t, "@:threads=1:full=%zu,cpu:threads=1", 1, 0);
}

/* A device that never has memory for more than two samples at once is not lost. */
static void room_is_small(test *t)
{
    static float outputs[OUTPUTS];
    char why[DPT_WHY_BYTES] = "";
    prediction w;
    (void)find_reference(t);
    if (CHECK_OK(begin(t, "@:threads=1:room=2,cpu:threads=1", &w)) &&
        CHECK_OK(dpt_predictor_run_data(w.predictor, w.data, 0, COUNT, outputs, why)))
        check_outputs(t, &w, outputs);
    CHECK(plant_fired());
    CHECK_SIZE(dpt_predictor_lost(w.predictor), 0);
    end(&w);
}

static void nobody_is_left(test *t)
{
    static float outputs[OUTPUTS];
    size_t n_failed = 0;
    (void)find_reference(t);
    for (size_t n = 1; n < 120; n += 7) {
        char devices[LIST_BYTES], why[DPT_WHY_BYTES] = "";
        prediction w;
        snprintf(devices, sizeof devices, "@:threads=1:lost=%zu", n);
        const dpt_status made = begin(t, devices, &w);
        if (made == DPT_OK) {
            const dpt_status status =
                dpt_predictor_run_data(w.predictor, w.data, 0, COUNT, outputs, why);
            CHECK(status == DPT_OK || status == DPT_E_DEVICE_LOST);
            if (status != DPT_OK) {
                n_failed++;
                CHECK(why[0] != '\0');
                CHECK_STATUS(dpt_predictor_run_data(w.predictor, w.data, 0, 1, outputs, why),
                             DPT_E_DEVICE_LOST);
            }
        } else {
            CHECK_STATUS(made, DPT_E_DEVICE_LOST);
            CHECK_CONTAINS(dpt_error_message(w.context), ((plant *)t->user)->backend);
        }
        end(&w);
    }
    CHECK(n_failed > 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a_device_is_lost", a_device_is_lost}, {"a_device_hangs", a_device_hangs},
        {"memory_is_short", memory_is_short},   {"room_is_small", room_is_small},
        {"nobody_is_left", nobody_is_left},
    };
    plant p = {.backend = argc > 1 ? argv[1] : "fault"};
    if (!plant_setup()) return 1;
    return test_main(argc - (argc > 1), argv + (argc > 1), cases, sizeof cases / sizeof *cases, &p);
}
