/* Tests readmission: whenever a device is lost, and however long it stays away, training equals a
   run without failures with the shards that the log records.

   test-fault-readmit fault|faultstaged [CASE...] */
#include "dptrain_models.h"
#include "fault/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 12, COUNT = 40, CLASSES = 4, BATCH = 12, MOST_STEPS = 20000, DEVICES = 3 };

static const char log_path[] = "readmit.jsonl";
static const char healthy[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
/* The first try may come with the next step. */
static const double at_once = 1e-4;

typedef struct scene {
    test *t;
    /* What is to happen. */
    const char *devices, *split;
    double after, timeout;
    size_t n_lost, n_back; /* events in all; training ends some steps behind the last */
    /* What has. */
    size_t lost, back, steps, samples;
    size_t steps_behind;
    const dpt_context *context;
    bool stuck;                /* a step was done while a thread was given up */
    size_t away_from[DEVICES]; /* the first step without it; 0: it is there */
    bool served[DEVICES];      /* it has had samples since it came back */
    bool returned[DEVICES];
} scene;

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data, *other;
    dpt_trainer *trainer;
    char devices[256];
} training;

/* ---- Building -------------------------------------------------------------------------------- */

static dpt_status build(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, SIDE, SIDE, 1);
    x = dpt_conv2d(m, x, "conv",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 3,
                                         .kernel = {3, 3},
                                         .padding = {1, 1}});
    x = dpt_batch_norm(
        m, x, "norm",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES});
    return dpt_model_finish(m, x);
}

static bool begin(test *t, const char *devices, const scene *s, const char *split, training *w)
{
    const char *backend = ((plant *)t->user)->backend;
    *w = (training){.context = NULL};
    plant_devices(devices, backend, w->devices, sizeof w->devices);
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = dpt_split_from(split),
                                         .lr = 0.01f,
                                         .optimizer = DPT_OPTIMIZER_ADAMW,
                                         .seed = 3,
                                         .readmit_after = s->after,
                                         .verify_replicas = s->after > 0 ? 1 : 0,
                                         .device_timeout = s->timeout};
    return CHECK_OK(dpt_context_create(&w->context)) &&
           CHECK_OK(dpt_device_set_open(w->context, w->devices, &w->set)) &&
           CHECK_OK(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data)) &&
           CHECK_OK(plant_data(w->context, COUNT - 7, SIDE, CLASSES, &w->other)) &&
           CHECK_OK(build(w->context, &w->model)) &&
           CHECK_OK(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->other);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
}

/* Weights, running statistics and moments of one replica, to be freed. */
static float *read_state(test *t, const training *w, size_t device, size_t *n_bytes)
{
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY, DPT_SQUARES};
    dpt_parameter_info info = {.size = sizeof info};
    size_t total = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        total += 3 * info.elements;
    }
    float *values = calloc(total, sizeof *values), *at = values;
    if (!CHECK(values)) return NULL;
    for (size_t i = 0; i < 3 * dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i / 3, &info);
        CHECK_OK(dpt_trainer_get(w->trainer, device, kinds[i % 3], info.name, at, info.elements));
        at += info.elements;
    }
    *n_bytes = total * sizeof *values;
    return values;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void watch_event(scene *s, const dpt_device_event *event)
{
    test *t = s->t;
    const size_t i = event->device;
    if (event->kind == DPT_DEVICE_LOST) {
        CHECK_SIZE(s->away_from[i], 0);
        s->away_from[i] = event->step;
        s->served[i] = false;
        s->lost++;
    } else if (CHECK(event->kind == DPT_DEVICE_READMITTED)) {
        CHECK(s->away_from[i] > 0 && event->step >= s->away_from[i]);
        CHECK(event->step == s->steps + 1 || event->step == s->steps + 2);
        CHECK_CONTAINS(event->message, "answers again");
        s->away_from[i] = 0;
        s->returned[i] = true;
        s->back++;
    }
}

static int watch(const dpt_fit_progress *progress, void *user)
{
    scene *s = user;
    test *t = s->t;
    const dpt_step_metrics *m = progress->step;
    if (progress->event) watch_event(s, progress->event);
    if (!m) return 0;
    s->stuck = s->stuck || dpt_context_abandoned(s->context) > 0;
    size_t sum = 0, n_away = 0;
    for (size_t i = 0; i < m->n_devices; i++) {
        const bool readmission = s->away_from[i] > 0 && m->step >= s->away_from[i];
        if (readmission) CHECK_SIZE(m->shards[i], 0);
        if (m->shards[i] > 0) s->served[i] = true;
        n_away += s->away_from[i] > 0;
        sum += m->shards[i];
    }
    CHECK_SIZE(sum, m->samples);
    CHECK_SIZE(m->n_lost, n_away);
    CHECK_SIZE(m->step, s->steps + 1);
    s->steps++;
    s->samples += m->samples;
    const bool done = s->lost >= s->n_lost && s->back >= s->n_back;
    s->steps_behind += done;
    usleep(done ? 0 : 200); /* pauses are of time */
    return s->steps_behind > 6;
}

static void replayed(scene *s, const training *w)
{
    test *t = s->t;
    training again;
    dpt_fit_result result = {.size = sizeof result};
    const scene plain = {.t = t};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = s->steps};
    if (begin(t, healthy, &plain, "replay:readmit.jsonl", &again) &&
        CHECK_OK(dpt_fit(again.trainer, &options, &result))) {
        size_t n = 0, n_now = 0;
        float *expected = read_state(t, &again, 0, &n);
        for (size_t i = 0; expected && i < DEVICES; i++) {
            if (s->away_from[i] > 0) continue;
            float *now = read_state(t, w, i, &n_now);
            if (!CHECK(now && n == n_now && memcmp(now, expected, n) == 0))
                FAIL("%s: replica %zu has other weights than a run without failures", w->devices,
                     i);
            free(now);
        }
        free(expected);
    }
    end(&again);
}

static bool log_has(const char *words)
{
    char line[8192];
    bool found = false;
    FILE *file = fopen(log_path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, words) != NULL;
    if (file) fclose(file);
    return found;
}

static void play(scene *s)
{
    test *t = s->t;
    training w;
    dpt_fit_result result = {.size = sizeof result};
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    if (begin(t, s->devices, s, s->split, &w)) {
        const dpt_fit_options options = {.size = sizeof options,
                                         .max_steps = MOST_STEPS,
                                         .test = w.other,
                                         .log = log_path,
                                         .progress = watch,
                                         .user = s};
        s->context = w.context;
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        CHECK_SIZE(result.steps, s->steps);
        CHECK_SIZE(s->samples, s->steps / 4 * COUNT + s->steps % 4 * BATCH);
        if (!CHECK(s->lost == s->n_lost && s->back == s->n_back))
            FAIL("%s: lost %zu times, back %zu times in %zu steps", w.devices, s->lost, s->back,
                 s->steps);
        if (s->n_back > 0) CHECK(log_has("\"event\":\"device_readmitted\""));
        if (s->n_back > 0) CHECK(log_has("\"reason\":\"device readmitted\""));
        /* What is measured may say that it would only be a brake. */
        for (size_t i = 0; i < DEVICES && strcmp(s->split, "measured") != 0; i++)
            if (s->returned[i] && s->away_from[i] == 0) CHECK(s->served[i]);
        replayed(s, &w);
    }
    end(&w);
    (void)alarm(0);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Lost to its backend, or not; at once or after tries in vain; with any division. */
static void comes_back(test *t)
{
    static const char *const splits[] = {"equal", "measured", "2:1:3"};
    static const char *const hows[] = {"fail=%zu:again=1", "lost=%zu:again=1", "lost=%zu:away=2"};
    for (size_t n = 3; n < 60 && t->n_failures == 0; n += 8) {
        char how[64], devices[192];
        snprintf(how, sizeof how, hows[n / 8 % 3], n);
        const size_t place = n / 8 % 3;
        snprintf(devices, sizeof devices, "%s@:threads=1:after=2:%s%s",
                 place == 0   ? ""
                 : place == 1 ? "cpu:threads=1,"
                              : "cpu:threads=1,cpu:threads=1,",
                 how,
                 place == 2   ? ""
                 : place == 1 ? ",cpu:threads=1"
                              : ",cpu:threads=1,cpu:threads=1");
        play(&(scene){.t = t,
                      .devices = devices,
                      .split = splits[n / 24 % 3],
                      .after = at_once,
                      .n_lost = 1,
                      .n_back = 1});
    }
}

/* And is lost again, several times. */
static void fails_again(test *t)
{
    static const char *const lists[] = {
        "cpu:threads=1,@:threads=1:after=1:lost=20:again=3,cpu:threads=1",
        "@:threads=1:after=1:fail=33:again=3,cpu:threads=1,cpu:threads=1"};
    for (size_t i = 0; i < 2; i++)
        play(&(scene){.t = t,
                      .devices = lists[i],
                      .split = i ? "equal" : "measured",
                      .after = at_once,
                      .n_lost = 3,
                      .n_back = 3});
}

/* What was lost with it comes back with it. */
static void fault_domain(test *t)
{
    play(&(scene){.t = t,
                  .devices = "@:threads=1:after=1:lost=9:domain=1:again=1,cpu:threads=1,"
                             "@:threads=1:domain=1",
                  .split = "equal",
                  .after = at_once,
                  .n_lost = 2,
                  .n_back = 2});
}

static void two_of_them(test *t)
{
    play(&(scene){.t = t,
                  .devices = "@:threads=1:after=1:fail=12:domain=1:again=1,cpu:threads=1,"
                             "@:threads=1:after=3:lost=20:away=3:domain=2",
                  .split = "measured",
                  .after = at_once,
                  .n_lost = 2,
                  .n_back = 2});
}

/* Others read its copy of the data: it is closed by nobody.  If its backend says that it is lost it
   stays so. */
static void shared_data(test *t)
{
    if (strcmp(((plant *)t->user)->backend, "fault") != 0) SKIP("its memory is its own");
    play(&(scene){.t = t,
                  .devices = "@:threads=1:after=1:fail=9:domain=1:again=1,@:threads=1:domain=2,"
                             "cpu:threads=1",
                  .split = "equal",
                  .after = at_once,
                  .n_lost = 1,
                  .n_back = 1});
    play(&(scene){.t = t,
                  .devices = "@:threads=1:after=1:lost=9:domain=1:again=1,@:threads=1:domain=2,"
                             "cpu:threads=1",
                  .split = "equal",
                  .after = at_once,
                  .n_lost = 1,
                  .n_back = 0});
}

/* A call that hangs comes back after a while, and only then its device does. */
static void hangs(test *t)
{
    play(&(scene){.t = t,
                  .devices =
                      "cpu:threads=1,@:threads=1:after=1:hang=9:stall=1500:again=1,cpu:threads=1",
                  .split = "equal",
                  .after = at_once,
                  .timeout = 0.5,
                  .n_lost = 1,
                  .n_back = 1});
}

/* One that was lost with another one hangs, or fails, while it is taken in, and comes back later:
   that is not told. */
static void hangs_when_taken_in(test *t)
{
    static const char *const hows[] = {"prepare:hang=1:stall=4500", "alloc:hang=2:stall=4500",
                                       "prepare:fail=1"};
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        char devices[192];
        snprintf(devices, sizeof devices,
                 "@:threads=1:domain=1:after=1:fail=9:again=1,@:domain=1:only=2:entry=%s,"
                 "cpu:threads=1",
                 hows[i]);
        scene s = {.t = t,
                   .devices = devices,
                   .split = i == 1 ? "2:1:3" : "equal",
                   .after = at_once,
                   .timeout = i < 2 ? 0.4 : 0,
                   .n_lost = 2,
                   .n_back = 2};
        play(&s);
        CHECK_SIZE(plant_count("fired"), 2);
        CHECK(s.stuck == (i < 2));
    }
}

/* The trainer ends while a device is tried, or waits to be. */
static void ends_meanwhile(test *t)
{
    for (size_t n_steps = 2; n_steps < 14; n_steps++) {
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        const scene s = {.t = t, .after = 1e-3};
        (void)remove("fault-report.txt");
        (void)alarm(60);
        if (begin(t, "@:threads=1:after=1:lost=5:away=3,cpu:threads=1,cpu:threads=1", &s, "equal",
                  &w))
            for (size_t i = 0; i < n_steps; i++)
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
        end(&w);
        (void)alarm(0);
    }
}

/* An island ends with its device, and is formed again with it. */
static void island(test *t)
{
    static const char *const hows[] = {"fail=9", "lost=9", "hang=9:stall=900"};
    for (size_t i = 0; i < 3; i++) {
        char devices[192];
        snprintf(devices, sizeof devices,
                 "@:threads=1:island=1,@:threads=1:after=1:%s:again=1:island=1,cpu:threads=1",
                 hows[i]);
        play(&(scene){.t = t,
                      .devices = devices,
                      .split = "equal",
                      .after = at_once,
                      .timeout = i == 2 ? 0.5 : 0,
                      .n_lost = 1,
                      .n_back = 1});
        CHECK_SIZE(plant_count("joined 2"), 2);
        CHECK_SIZE(plant_count("order"), 0);
    }
}

static void never(test *t)
{
    play(&(scene){.t = t,
                  .devices = "cpu:threads=1,@:threads=1:after=1:fail=9:again=1,cpu:threads=1",
                  .split = "equal",
                  .n_lost = 1,
                  .n_back = 0});
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"comes back", comes_back},
        {"fails again", fails_again},
        {"fault domain", fault_domain},
        {"two of them", two_of_them},
        {"shared data", shared_data},
        {"hangs", hangs},
        {"hangs when taken in", hangs_when_taken_in},
        {"ends meanwhile", ends_meanwhile},
        {"never", never},
        {"island", island},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-readmit fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
