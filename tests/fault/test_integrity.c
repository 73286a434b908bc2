/* Tests silent errors: gradients that are not finite are detected before the update and their
   device is named; diverged replicas are found and restored.  Also tests what is left after all
   devices are lost.

   test-fault-integrity fault|faultstaged [CASE...] */
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

/* Every "@" of the list is the backend under test. */
static bool begin(test *t, const char *devices, dpt_trainer_options options, training *w)
{
    const char *backend = ((plant *)t->user)->backend;
    *w = (training){.context = NULL};
    plant_devices(devices, backend, w->devices, sizeof w->devices);
    options.batch_size = BATCH;
    options.lr = 0.05f;
    options.seed = 3;
    if (options.split.kind == DPT_SPLIT_MEASURED) options.split = dpt_split_from("equal");
    if (options.optimizer == DPT_OPTIMIZER_SGD) options.momentum = 0.9f;
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    return CHECK_OK(dpt_context_create(&w->context)) &&
           CHECK_OK(dpt_device_set_open(w->context, w->devices, &w->set)) &&
           CHECK_OK(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data)) &&
           CHECK_OK(plant_network(w->context, SIDE, CLASSES, &w->model)) &&
           CHECK_OK(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static void steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < n; i++)
        if (!CHECK_OK(dpt_trainer_step(w->trainer, &m)))
            FAIL("%s: %s", w->devices, dpt_error_message(w->context));
}

/* What lasts of one replica, to be freed: `size` floats. */
static float *read_state(test *t, const training *w, size_t device, size_t *size)
{
    size_t total = 0;
    dpt_parameter_info info = {.size = sizeof info};
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        total += 2 * info.elements;
    }
    float *values = calloc(total, sizeof *values), *at = values;
    if (!CHECK(values)) return NULL;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        CHECK_OK(dpt_trainer_get(w->trainer, device, DPT_PARAMETER, info.name, at, info.elements));
        at += info.elements;
        if (!info.trained) continue;
        CHECK_OK(dpt_trainer_get(w->trainer, device, DPT_VELOCITY, info.name, at, info.elements));
        at += info.elements;
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
    size_t failing; /* the device to be named; n_devices: none */
    bool local;     /* batch-norm */
    const char *what;
} poisoned;

/* Step 2 fails; nothing of it has changed anything. */
static void fails_with(test *t, const poisoned *p, dpt_shard shard)
{
    training w, sound;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_event event = {.size = sizeof event};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .shard = shard,
                                         .bucket_bytes = 1,
                                         .batch_norm =
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
        if (p->failing < p->n_devices) {
            dpt_device_info d = {.size = sizeof d};
            CHECK_OK(dpt_trainer_device(w.trainer, p->failing, &d));
            CHECK_CONTAINS(message, d.id);
            CHECK_CONTAINS(message, "leave it out");
            if (CHECK(told)) {
                CHECK(event.kind == DPT_DEVICE_NOT_FINITE);
                CHECK_SIZE(event.device, p->failing);
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

static void fails_in_step_2(test *t, const poisoned *p)
{
    fails_with(t, p, DPT_SHARD_NONE);
}

/* The same however gradients are divided. */
static void fails_in_any_parts(test *t, const poisoned *p)
{
    for (dpt_shard shard = DPT_SHARD_NONE; shard <= DPT_SHARD_PARAMETERS; shard++)
        fails_with(t, p, shard);
}

static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";

static void one_of_several(test *t)
{
    const char *const lists[] = {"@:threads=1:poison=2,cpu:threads=1,cpu:threads=1",
                                 "cpu:threads=1,@:threads=1:poison=2,cpu:threads=1",
                                 "cpu:threads=1,cpu:threads=1,@:threads=1:poison=2"};
    for (size_t i = 0; i < 3; i++)
        fails_in_any_parts(t, &(poisoned){lists[i], three, 3, i, i == 1, "gradients"});
}

static void all_of_them(test *t)
{
    fails_in_step_2(t, &(poisoned){"@:threads=1:poison=2,@:threads=1:poison=2",
                                   "cpu:threads=1,cpu:threads=1", 2, 2, false, "gradients"});
    fails_in_step_2(t,
                    &(poisoned){"@:threads=1:poison=2", "cpu:threads=1", 1, 1, false, "gradients"});
    /* Each finite, the sum not. */
    fails_in_any_parts(t, &(poisoned){"@:threads=1:huge=2,@:threads=1:huge=2",
                                      "cpu:threads=1,cpu:threads=1", 2, 2, false, "gradients"});
}

/* Where the backend sums, and nobody sees the parts. */
static void in_an_island(test *t)
{
    const char *const lists[] = {"@:threads=1:island=1:poison=2,@:threads=1:island=1,cpu:threads=1",
                                 "@:threads=1:island=1,@:threads=1:island=1:poison=2,cpu:threads=1",
                                 "@:threads=1:island=1,@:threads=1:island=1,cpu:threads=1"};
    for (size_t i = 0; i < 2; i++)
        fails_in_step_2(t, &(poisoned){lists[i], lists[2], 3, i, i == 1, "gradients"});
    const char *const pairs[] = {
        "@:threads=1:island=1,@:threads=1:island=1",
        "@:threads=1:island=1:poison=2,@:threads=1:island=1",
        "@:threads=1:island=1:poison=2,@:threads=1:island=1:poison=2",
        "@:threads=1:island=1:huge=2,@:threads=1:island=1:huge=2",
        "@:threads=1:island=1:smudge=2,@:threads=1:island=1",
        "@:threads=1:island=1:huge=2,@:threads=1:island=1:huge=2,cpu:threads=1",
        "@:threads=1:island=1,@:threads=1:island=1,@:threads=1:poison=2:island=1,cpu:threads=1"};
    fails_in_step_2(t, &(poisoned){pairs[1], pairs[0], 2, 0, false, "gradients"});
    fails_in_step_2(t, &(poisoned){pairs[2], pairs[0], 2, 2, false, "gradients"});
    fails_in_step_2(t, &(poisoned){pairs[3], pairs[0], 2, 2, false, "gradients"});
    fails_in_step_2(t, &(poisoned){pairs[4], pairs[0], 2, 0, false, "statistics"});
    fails_in_step_2(t, &(poisoned){pairs[5], lists[2], 3, 3, false, "gradients"});
    /* The only other device that nobody looks at itself. */
    fails_in_step_2(t, &(poisoned){"@:threads=1:island=1,@:threads=1:island=1,cpu:threads=1,"
                                   "fault:threads=1:poison=2",
                                   "@:threads=1:island=1,@:threads=1:island=1,cpu:threads=1,"
                                   "cpu:threads=1",
                                   4, 3, false, "gradients"});
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
    dpt_step_metrics m = {.size = sizeof m};
    if (begin(t, "@:threads=1:poison=3,fault:threads=1:after=1:lost=2",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &w)) {
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
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = 6,
                                     .checkpoint = folder,
                                     .checkpoint_every = {.steps = 1},
                                     .log = log_path};
    clear_folder();
    if (begin(t, "cpu:threads=1,@:threads=1:poison=4",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &w))
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_NOT_FINITE);
    end(&w);
    CHECK(log_has("\"event\":\"device_not_finite\",\"step\":4,\"device\":1"));
    CHECK(!log_has("\"event\":\"step\",\"step\":4"));
    const dpt_fit_options again = {
        .size = sizeof again, .max_steps = 6, .checkpoint = folder, .resume = true};
    const dpt_fit_options whole = {.size = sizeof whole, .max_steps = 6};
    if (begin(t, "cpu:threads=1,cpu:threads=1",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &w) &&
        begin(t, "cpu:threads=1,cpu:threads=1",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &sound)) {
        CHECK_OK(dpt_fit(w.trainer, &again, &result));
        CHECK_SIZE(result.steps, 6);
        CHECK_OK(dpt_fit(sound.trainer, &whole, &result));
        CHECK(same_state(t, &w, 0, &sound, 0));
        end(&sound);
    }
    end(&w);
}

/* ---- Replicas -------------------------------------------------------------------------------- */

enum { STEPS = 7 };

/* One training in which a bit of a replica is another one from a step on. */
typedef struct flipped {
    const char *devices;
    size_t n_devices, every;
    size_t step; /* before which it is found; 0: never */
    size_t n_restored;
    size_t restored[3]; /* which; of several the first ones */
    const char *says;   /* of the first */
    bool same;          /* the training is the one without the flip */
    dpt_optimizer optimizer;
} flipped;

static void watch_events(test *t, training *w, const flipped *f)
{
    dpt_device_event event = {.size = sizeof event};
    size_t n = 0;
    while (dpt_trainer_next_event(w->trainer, &event)) {
        CHECK(event.kind == DPT_REPLICA_RESTORED);
        CHECK_SIZE(event.step, f->step);
        if (n < f->n_restored) CHECK_SIZE(event.device, f->restored[n]);
        if (n == 0) CHECK_CONTAINS(event.message, f->says);
        n++;
    }
    CHECK_SIZE(n, f->n_restored);
}

static void flips(test *t, const flipped *f)
{
    training w, sound;
    const dpt_trainer_options options = {
        .size = sizeof options, .verify_replicas = f->every, .optimizer = f->optimizer};
    if (begin(t, f->devices, options, &w) &&
        begin(t, f->n_devices == 3 ? three : "cpu:threads=1,cpu:threads=1", options, &sound)) {
        steps(t, &sound, STEPS);
        steps(t, &w, STEPS);
        CHECK(plant_fired());
        watch_events(t, &w, f);
        for (size_t i = 0; i < f->n_devices; i++)
            if (!CHECK(same_state(t, &w, i, &sound, 0) == f->same))
                FAIL("%s: device %zu %s", w.devices, i, f->same ? "differs" : "does not differ");
        for (size_t i = 1; f->n_restored > 0 && i < f->n_devices; i++)
            CHECK(same_state(t, &w, 0, &w, i));
        end(&sound);
    }
    end(&w);
}

/* Wherever it happens, and in whatever the optimizer keeps. */
static void found_before_it_spreads(test *t)
{
    const char *const majority = "differs from 2 of 3 that are alike; restored from ";
    const char *const lists[] = {"@:threads=1:flip=3,cpu:threads=1,cpu:threads=1",
                                 "cpu:threads=1,@:threads=1:flip=3,cpu:threads=1",
                                 "cpu:threads=1,cpu:threads=1,@:threads=1:flip=3:place=2"};
    for (size_t i = 0; i < 3; i++)
        flips(t, &(flipped){lists[i], 3, 1, 4, 1, {i}, majority, true, DPT_OPTIMIZER_SGD});
    flips(t, &(flipped){"@:threads=1,@:threads=1:flip=3:place=3,@:threads=1",
                        3,
                        3,
                        4,
                        1,
                        {1},
                        majority,
                        true,
                        DPT_OPTIMIZER_ADAMW});
}

/* It has spread by then; but the replicas are alike again. */
static void found_later(test *t)
{
    flips(t, &(flipped){"cpu:threads=1,@:threads=1:flip=2,cpu:threads=1",
                        3,
                        5,
                        6,
                        1,
                        {1},
                        "restored from cpu",
                        false,
                        DPT_OPTIMIZER_SGD});
}

static void not_looked_for(test *t)
{
    flips(t, &(flipped){"cpu:threads=1,@:threads=1:flip=2,cpu:threads=1",
                        3,
                        0,
                        0,
                        0,
                        {0},
                        "",
                        false,
                        DPT_OPTIMIZER_SGD});
}

/* The first is kept, unless it holds what is no number. */
static void of_two(test *t)
{
    flips(t, &(flipped){"cpu:threads=1,@:threads=1:flip=3",
                        2,
                        1,
                        4,
                        1,
                        {1},
                        "no majority",
                        true,
                        DPT_OPTIMIZER_SGD});
    flips(t, &(flipped){"@:threads=1:flip=3,cpu:threads=1",
                        2,
                        1,
                        4,
                        1,
                        {1},
                        "no majority",
                        false,
                        DPT_OPTIMIZER_SGD});
    flips(t, &(flipped){"@:threads=1:wreck=3,cpu:threads=1",
                        2,
                        1,
                        4,
                        1,
                        {0},
                        "no majority",
                        true,
                        DPT_OPTIMIZER_SGD});
}

static size_t count_in_log(const char *words)
{
    char line[4096];
    size_t n = 0;
    FILE *file = fopen(log_path, "r");
    while (file && fgets(line, sizeof line, file))
        n += strstr(line, words) != NULL;
    if (file) fclose(file);
    return n;
}

/* With two steps in flight, tests between them, and what shares follow. */
static void in_a_fit(test *t)
{
    training w, again;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_trainer_options options = {
        .size = sizeof options, .split = {DPT_SPLIT_MEASURED, NULL}, .verify_replicas = 1};
    if (begin(t, "cpu:threads=1,@:threads=1:flip=4,cpu:threads=1", options, &w)) {
        const dpt_fit_options fit = {
            .size = sizeof fit, .epochs = 3, .test = w.data, .log = log_path};
        CHECK_OK(dpt_fit(w.trainer, &fit, &result));
        CHECK_SIZE(result.steps, 9);
        CHECK(log_has("\"event\":\"replica_restored\",\"step\":5,\"device\":1"));
        CHECK_SIZE(count_in_log("replica_restored"), 1);
        CHECK_SIZE(count_in_log("\"event\":\"step\""), 9);
        const dpt_trainer_options replay = {.size = sizeof replay,
                                            .split = {DPT_SPLIT_REPLAY, "integrity.jsonl"}};
        const dpt_fit_options bare = {.size = sizeof bare, .epochs = 3};
        if (begin(t, three, replay, &again)) {
            CHECK_OK(dpt_fit(again.trainer, &bare, &result));
            CHECK(same_state(t, &w, 1, &again, 0));
        }
        end(&again);
    }
    end(&w);
}

/* A device that is lost while replicas are compared. */
static void lost_meanwhile(test *t)
{
    training w;
    dpt_device_event event = {.size = sizeof event};
    for (size_t call = 1; call < 12; call++) {
        char devices[128];
        snprintf(devices, sizeof devices,
                 "cpu:threads=1,@:threads=1:after=1:entry=%s:fail=%zu,cpu:threads=1",
                 call % 2 ? "download" : "sync", (call + 1) / 2);
        if (begin(t, devices,
                  (dpt_trainer_options){.size = sizeof(dpt_trainer_options), .verify_replicas = 1},
                  &w)) {
            steps(t, &w, STEPS);
            if (plant_fired() && CHECK(dpt_trainer_next_event(w.trainer, &event)))
                CHECK(event.kind == DPT_DEVICE_LOST);
            CHECK(same_state(t, &w, 0, &w, 2));
        }
        end(&w);
    }
}

/* ---- Nobody left ----------------------------------------------------------------------------- */

enum { COURSE = 9 };

/* The step that a training was resumed after; 0: it began anew. */
static void note_resumed(dpt_notice kind, const char *text, void *user)
{
    const char *found = strstr(text, "after step ");
    (void)kind;
    if (found) *(size_t *)user = strtoul(found + strlen("after step "), NULL, 10);
}

enum { DONE = 4 };

/* All devices are lost; the training that is resumed on others, after step `least` at least, is the
   one without that. */
static void all_lost_on(test *t, const char *devices, size_t copy, size_t least,
                        const training *sound)
{
    training w;
    dpt_fit_result result = {.size = sizeof result};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    dpt_step_metrics m = {.size = sizeof m};
    size_t resumed = 0;
    dpt_fit_options options = {.size = sizeof options,
                               .max_steps = COURSE,
                               .checkpoint = folder,
                               .checkpoint_every = {.epochs = 100},
                               .host_copy = copy};
    clear_folder();
    if (begin(t, devices,
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                    .device_timeout = strstr(devices, "hang") ? 0.3 : 0},
              &w)) {
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_DEVICE_LOST);
        CHECK_CONTAINS(dpt_error_message(w.context),
                       strstr(devices, "hang") ? "no answer within" : "planted");
        CHECK(dpt_trainer_evaluate(w.trainer, w.data, &evaluation) != DPT_OK);
        CHECK(dpt_trainer_step(w.trainer, &m) != DPT_OK);
    }
    end(&w);
    options.host_copy = 0;
    options.resume = true;
    options.notice = note_resumed;
    options.user = &resumed;
    if (begin(t, "cpu:threads=1,cpu:threads=1",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &w)) {
        CHECK_OK(dpt_fit(w.trainer, &options, &result));
        CHECK_SIZE(result.steps, COURSE);
        if (!CHECK(resumed >= least))
            FAIL("%s, copy %zu: resumed after step %zu", devices, copy, resumed);
        CHECK(same_state(t, &w, 0, sound, 0));
    }
    end(&w);
}

/* From call n behind an update on, or the first one so many later. */
static void all_lost_at(test *t, const size_t n[2], size_t copy, size_t least,
                        const training *sound)
{
    char devices[128];
    snprintf(devices, sizeof devices, "@:threads=1:after=%d:lost=%zu,@:threads=1:after=%d:lost=%zu",
             DONE, n[0], DONE, n[1]);
    all_lost_on(t, devices, copy, least, sound);
}

static void all_lost(test *t)
{
    const bool staged = strcmp(((plant *)t->user)->backend, "faultstaged") == 0;
    training sound;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = COURSE};
    if (begin(t, "cpu:threads=1,cpu:threads=1",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &sound)) {
        CHECK_OK(dpt_fit(sound.trainer, &options, &result));
        for (size_t n = 7; n < 20 && t->n_failures == 0; n += 4) {
            const size_t calls[] = {n + 3, n};
            if (!staged) all_lost_at(t, calls, 0, DONE, &sound); /* its memory is the host's */
            all_lost_at(t, calls, 1, DONE, &sound);
            all_lost_at(t, calls, 3, 3, &sound);
        }
        /* While the copy is taken, too: the one before is whole. */
        for (size_t n = 7; n < 45 && t->n_failures == 0; n++)
            all_lost_at(t, (const size_t[]){n, n}, 1, DONE - 1, &sound);
        /* In the update itself, after which no replica can be trusted. */
        all_lost_at(t, (const size_t[]){4, 1}, 1, DONE - 1, &sound);
    }
    end(&sound);
}

/* One is lost, and the other one fails or hangs when it is prepared anew for the whole batch: what
   lasts is in the host's memory then, and nowhere else. */
static void all_lost_anew(test *t)
{
    static const char *const hows[] = {"entry=alloc:lost=1", "entry=prepare:lost=2",
                                       "entry=host_alloc:lost=3", "entry=free:hang=2",
                                       "entry=alloc:hang=1"};
    training sound;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = COURSE};
    if (begin(t, "cpu:threads=1,cpu:threads=1",
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &sound) &&
        CHECK_OK(dpt_fit(sound.trainer, &options, &result)))
        for (size_t i = 0; i < sizeof hows / sizeof *hows && t->n_failures == 0; i++) {
            char devices[160];
            snprintf(devices, sizeof devices,
                     "@:threads=1:after=%d:entry=download:fail=1,@:threads=1:after=%d:%s", DONE,
                     DONE, hows[i]);
            all_lost_on(t, devices, 0, DONE, &sound);
        }
    end(&sound);
}

static void copies_need_a_folder(test *t)
{
    training w;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = 2, .host_copy = 1};
    if (begin(t, "cpu:threads=1", (dpt_trainer_options){.size = sizeof(dpt_trainer_options)}, &w)) {
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(w.context), "checkpoint");
    }
    end(&w);
}

/* A device that fails, or does not answer, while a checkpoint or a copy is read from it is lost
   like in any other place; the training is the one that replays its log. */
static bool lost_while_read(test *t, const char *how, size_t n)
{
    training w, again;
    dpt_fit_result result = {.size = sizeof result};
    bool fired = false;
    char devices[128];
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = 5,
                                     .host_copy = 1,
                                     .checkpoint = folder,
                                     .checkpoint_every = {.steps = 1},
                                     .log = log_path};
    clear_folder();
    snprintf(devices, sizeof devices, "@:threads=1:%s=%zu:entry=download,cpu:threads=1", how, n);
    if (begin(t, devices,
              (dpt_trainer_options){.size = sizeof(dpt_trainer_options), .device_timeout = 0.5},
              &w)) {
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        fired = plant_fired();
        CHECK(count_in_log("\"event\":\"device_lost\"") == (fired ? 1 : 0));
        if (begin(t, "cpu:threads=1,cpu:threads=1",
                  (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                        .split = {DPT_SPLIT_REPLAY, "integrity.jsonl"}},
                  &again)) {
            CHECK_OK(dpt_fit(again.trainer,
                             &(dpt_fit_options){.size = sizeof(dpt_fit_options), .max_steps = 5},
                             &result));
            if (!CHECK(same_state(t, &w, 1, &again, 1))) FAIL("%s", w.devices);
        }
        end(&again);
    }
    end(&w);
    return fired;
}

static void read_while_it_dies(test *t)
{
    size_t n = 1;
    while (t->n_failures == 0 && lost_while_read(t, "fail", n))
        n++;
    CHECK(n > 15); /* each step's results, copy and checkpoint */
    for (n = 1; t->n_failures == 0 && n < 12; n++)
        (void)lost_while_read(t, "stall=3000:hang", n);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"in an island", in_an_island},
        {"not finite: one of several", one_of_several},
        {"not finite: all of them", all_of_them},
        {"not finite: parts of batch-norm", parts_of_batch_norm},
        {"not finite: the only one left", the_only_one_left},
        {"not finite: checkpoints stay good", checkpoints_stay_good},
        {"replicas: found before it spreads", found_before_it_spreads},
        {"replicas: found later", found_later},
        {"replicas: not looked for", not_looked_for},
        {"replicas: of two", of_two},
        {"replicas: in a fit", in_a_fit},
        {"replicas: lost meanwhile", lost_meanwhile},
        {"nobody left: resumed from what is left", all_lost},
        {"nobody left: when it is prepared anew", all_lost_anew},
        {"copies: read while it dies", read_while_it_dies},
        {"nobody left: copies need a folder", copies_need_a_folder},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-integrity fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
