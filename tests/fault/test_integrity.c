/* What silently goes wrong: gradients that are not finite are caught before the step and their
   device named.  test-fault-integrity fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, COUNT = 36, CLASSES = 3, BATCH = 12 };

static const char log_path[] = "integrity.jsonl";
static const char folder[] = "integrity";

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
    char devices[256];
} training;

/* ---- Building -------------------------------------------------------------------------------- */

/* With what has a state of its own: weights, running statistics, velocity. */
static dpt_status build(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, SIDE, SIDE, 1);
    x = dpt_conv2d(m, x, "conv",
                   &(dpt_conv2d_options){.out_channels = 4, .kernel = {3, 3}, .padding = {1, 1}});
    x = dpt_batch_norm(m, x, "norm", &(dpt_norm_options){.activation = DPT_ACT_RELU});
    x = dpt_linear(m, dpt_flatten(m, x), "fc1",
                   &(dpt_linear_options){.out = 40, .activation = DPT_ACT_RELU});
    x = dpt_linear(m, x, "fc2", &(dpt_linear_options){.out = CLASSES});
    return dpt_model_finish(m, x);
}

/* Every "@" of the list is the backend under test. */
static bool begin(test *t, const char *devices, dpt_trainer_options options, training *w)
{
    const char *backend = ((plant *)t->user)->backend;
    size_t n = 0;
    *w = (training){.context = NULL};
    for (const char *c = devices; *c && n + strlen(backend) + 1 < sizeof w->devices; c++) {
        if (*c == '@')
            n += (size_t)sprintf(w->devices + n, "%s", backend);
        else
            w->devices[n++] = *c;
    }
    w->devices[n] = '\0';
    options.batch_size = BATCH;
    options.lr = 0.05f;
    options.seed = 3;
    if (!options.split) options.split = "equal";
    if (options.optimizer == DPT_OPTIMIZER_SGD) options.momentum = 0.9f;
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    return CHECK_OK(dpt_context_create(&w->context)) &&
           CHECK_OK(dpt_devices_open(w->context, w->devices, &w->set)) &&
           CHECK_OK(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data)) &&
           CHECK_OK(build(w->context, &w->model)) &&
           CHECK_OK(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_devices_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static void steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m;
    for (size_t i = 0; i < n; i++)
        if (!CHECK_OK(dpt_trainer_step(w->trainer, &m)))
            FAIL("%s: %s", w->devices, dpt_error_message(w->context));
}

/* What lasts of one replica, to be freed: `size` floats. */
static float *read_state(test *t, const training *w, size_t device, size_t *size)
{
    size_t total = 0;
    dpt_parameter_info info;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        total += 2 * info.size;
    }
    float *values = calloc(total, sizeof *values), *at = values;
    if (!CHECK(values)) return NULL;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        CHECK_OK(dpt_trainer_get(w->trainer, device, DPT_PARAMETER, info.name, at, info.size));
        at += info.size;
        if (!info.trained) continue;
        CHECK_OK(dpt_trainer_get(w->trainer, device, DPT_VELOCITY, info.name, at, info.size));
        at += info.size;
    }
    *size = total * sizeof *values;
    return values;
}

static bool same_state(test *t, const training *a, size_t of_a, const training *b, size_t of_b)
{
    size_t n = 0, n_b = 0;
    float *x = read_state(t, a, of_a, &n), *y = read_state(t, b, of_b, &n_b);
    const bool same = x && y && n == n_b && memcmp(x, y, n) == 0;
    free(y);
    free(x);
    return same;
}

/* ---- Not finite ------------------------------------------------------------------------------ */

typedef struct poisoned {
    const char *devices, *sound; /* the same without the poison */
    size_t n_devices;
    size_t culprit; /* the device to be named; n_devices: none */
    bool local;     /* batch-norm */
    const char *what;
} poisoned;

/* Step 2 fails; nothing of it has changed anything. */
static void fails_in_step_2(test *t, const poisoned *p)
{
    training w, sound;
    dpt_step_metrics m;
    dpt_device_event event;
    const dpt_trainer_options options = {.batch_norm =
                                             p->local ? DPT_BATCH_NORM_LOCAL : DPT_BATCH_NORM_SYNC};
    if (begin(t, p->devices, options, &w) && begin(t, p->sound, options, &sound)) {
        steps(t, &w, 1);
        steps(t, &sound, 1);
        CHECK_STATUS(dpt_trainer_step(w.trainer, &m), DPT_E_NOT_FINITE);
        const char *message = dpt_error_message(w.context);
        CHECK_CONTAINS(message, "step 2");
        CHECK_CONTAINS(message, p->what);
        CHECK_CONTAINS(message, "lower the learning rate (now 0.05)");
        const bool told = dpt_trainer_next_event(w.trainer, &event);
        if (p->culprit < p->n_devices) {
            dpt_device_description d;
            CHECK_OK(dpt_trainer_device(w.trainer, p->culprit, &d));
            CHECK_CONTAINS(message, d.id);
            CHECK_CONTAINS(message, "leave it out");
            if (CHECK(told)) {
                CHECK(event.kind == DPT_DEVICE_NOT_FINITE);
                CHECK_SIZE(event.device, p->culprit);
                CHECK_SIZE(event.step, 2);
            }
        } else {
            CHECK(!told);
            CHECK_CONTAINS(message, "training diverges");
        }
        CHECK(!dpt_trainer_next_event(w.trainer, &event));
        CHECK_SIZE(dpt_trainer_steps(w.trainer), 1);
        for (size_t i = 0; i < p->n_devices; i++)
            if (!CHECK(same_state(t, &w, i, &sound, 0)))
                FAIL("%s: device %zu has changed", w.devices, i);
        end(&sound);
    }
    end(&w);
}

static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";

static void one_of_several(test *t)
{
    const char *const lists[] = {"@:threads=1:poison=2,cpu:threads=1,cpu:threads=1",
                                 "cpu:threads=1,@:threads=1:poison=2,cpu:threads=1",
                                 "cpu:threads=1,cpu:threads=1,@:threads=1:poison=2"};
    for (size_t i = 0; i < 3; i++)
        fails_in_step_2(t, &(poisoned){lists[i], three, 3, i, i == 1, "gradients"});
}

static void all_of_them(test *t)
{
    fails_in_step_2(t, &(poisoned){"@:threads=1:poison=2,@:threads=1:poison=2",
                                   "cpu:threads=1,cpu:threads=1", 2, 2, false, "gradients"});
    fails_in_step_2(t,
                    &(poisoned){"@:threads=1:poison=2", "cpu:threads=1", 1, 1, false, "gradients"});
    /* Each finite, the sum not. */
    fails_in_step_2(t, &(poisoned){"@:threads=1:huge=2,@:threads=1:huge=2",
                                   "cpu:threads=1,cpu:threads=1", 2, 2, false, "gradients"});
}

/* It would reach the other devices through their statistics. */
static void parts_of_batch_norm(test *t)
{
    fails_in_step_2(t, &(poisoned){"cpu:threads=1,@:threads=1:smudge=2,cpu:threads=1", three, 3, 1,
                                   false, "statistics"});
    fails_in_step_2(t, &(poisoned){"@:threads=1:smudge=2", "cpu:threads=1", 1, 1, false, "loss"});
}

/* In the last elements, behind whole rows, and where others have been lost. */
static void the_only_one_left(test *t)
{
    training w;
    dpt_step_metrics m;
    if (begin(t, "@:threads=1:poison=3,fault:threads=1:after=1:lost=2",
              (dpt_trainer_options){.seed = 0}, &w)) {
        steps(t, &w, 2);
        CHECK_STATUS(dpt_trainer_step(w.trainer, &m), DPT_E_NOT_FINITE);
        CHECK_SIZE(dpt_trainer_steps(w.trainer), 2);
    }
    end(&w);
}

static bool log_has(const char *words)
{
    char line[4096];
    bool found = false;
    FILE *file = fopen(log_path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, words) != NULL;
    if (file) fclose(file);
    return found;
}

static void clear_folder(void)
{
    char path[64];
    for (unsigned step = 0; step <= 40; step++) {
        snprintf(path, sizeof path, "%s/checkpoint-%09u.safetensors", folder, step);
        (void)remove(path);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    (void)remove(path);
}

/* What was kept before is what it was; the log names the device. */
static void checkpoints_stay_good(test *t)
{
    training w, sound;
    dpt_fit_result result;
    const dpt_fit_options options = {
        .max_steps = 6, .checkpoint = folder, .checkpoint_every = {.steps = 1}, .log = log_path};
    clear_folder();
    if (begin(t, "cpu:threads=1,@:threads=1:poison=4", (dpt_trainer_options){.seed = 0}, &w))
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_NOT_FINITE);
    end(&w);
    CHECK(log_has("\"event\":\"device_not_finite\",\"step\":4,\"device\":1"));
    CHECK(!log_has("\"event\":\"step\",\"step\":4"));
    const dpt_fit_options again = {.max_steps = 6, .checkpoint = folder, .resume = true};
    const dpt_fit_options whole = {.max_steps = 6};
    if (begin(t, "cpu:threads=1,cpu:threads=1", (dpt_trainer_options){.seed = 0}, &w) &&
        begin(t, "cpu:threads=1,cpu:threads=1", (dpt_trainer_options){.seed = 0}, &sound)) {
        CHECK_OK(dpt_fit(w.trainer, &again, &result));
        CHECK_SIZE(result.steps, 6);
        CHECK_OK(dpt_fit(sound.trainer, &whole, &result));
        CHECK(same_state(t, &w, 0, &sound, 0));
        end(&sound);
    }
    end(&w);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"not finite: one of several", one_of_several},
        {"not finite: all of them", all_of_them},
        {"not finite: parts of batch-norm", parts_of_batch_norm},
        {"not finite: the only one left", the_only_one_left},
        {"not finite: checkpoints stay good", checkpoints_stay_good},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-integrity fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
