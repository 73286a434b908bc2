/* Tests failover: whichever call of whichever device fails, the result of the step is that of a
   run without failures in which the remaining devices have the same shards.

   test-fault-failover fault|faultstaged [CASE...] */
#include "dptrain_models.h"
#include "fault/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 28, COUNT = 20, CLASSES = 10, BATCH = 12, STEPS = 3, DEVICES = 3 };

static const char log_path[] = "survive.jsonl";
static const char healthy_devices[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";

/* What a run is told, and what is seen of it. */
typedef struct scene {
    const char *split;
    bool equal; /* shares are to be equal over those that are left */
    double timeout;
    size_t n_planned; /* devices that are to be lost at once, where one is; 0: who fails */
    bool island;      /* the failing device is in one */
    /* Seen: */
    test *t;
    size_t n_lost, n_steps, n_samples, n_islands_lost, n_fired;
    bool gone[DEVICES];
    size_t without[DEVICES]; /* the first step that is done without it */
} scene;

typedef struct training {
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
} training;

static scene *scene_of(const run *r)
{
    return ((const plant *)r->t->user)->fixture;
}

/* ---- Building -------------------------------------------------------------------------------- */

static dpt_status create(dpt_context *context, dpt_device_set *set, const char *split,
                         double timeout, training *w)
{
    const dpt_model_shape shape = {
        .height = SIDE, .width = SIDE, .channels = 1, .classes = CLASSES};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .bucket_bytes = 1, /* as many buckets as can be */
                                         .split = dpt_split_from(split),
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .seed = 5,
                                         .device_timeout = timeout};
    DPT_TRY(plant_data(context, COUNT, SIDE, CLASSES, &w->data));
    DPT_TRY(dpt_model_by_name(context, "lenet", &shape, &w->model));
    return dpt_trainer_create(set, w->model, w->data, &options, &w->trainer);
}

static void destroy(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
}

static dpt_status fit(const training *w, const char *log, scene *s,
                      int (*progress)(const dpt_fit_progress *progress, void *user))
{
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = STEPS,
                                     .test = w->data,
                                     .log = log,
                                     .progress = progress,
                                     .user = s};
    return dpt_fit(w->trainer, &options, &result);
}

/* All parameters of one replica, to be freed; NULL if they cannot be read. */
static float *read_weights(const training *w, size_t device, size_t *n)
{
    size_t total = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(w->model, i, &info);
        total += info.elements;
    }
    float *values = malloc(total * sizeof *values);
    *n = 0;
    for (size_t i = 0; values && i < dpt_model_tensor_count(w->model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(w->model, i, &info);
        if (dpt_trainer_get(w->trainer, device, DPT_PARAMETER, info.name, values + *n,
                            info.elements) != DPT_OK) {
            free(values);
            return NULL;
        }
        *n += info.elements;
    }
    return values;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void watch_shards(scene *s, const dpt_step_metrics *m)
{
    test *t = s->t;
    size_t sum = 0, n_left = 0;
    for (size_t i = 0; i < m->n_devices; i++) {
        const bool gone = s->gone[i] && m->step >= s->without[i];
        sum += m->shards[i];
        n_left += !gone;
        if (gone) CHECK_SIZE(m->shards[i], 0);
    }
    CHECK_SIZE(sum, m->samples);
    CHECK_SIZE(m->n_lost, s->n_lost);
    CHECK_SIZE(m->step, s->n_steps + 1);
    const size_t chunk = (m->samples + n_left - 1) / n_left;
    for (size_t i = 0; s->equal && i < m->n_devices; i++)
        CHECK(m->shards[i] <= chunk);
    s->n_steps++;
    s->n_samples += m->samples;
}

static int watch(const dpt_fit_progress *progress, void *user)
{
    scene *s = user;
    test *t = s->t;
    if (progress->event && progress->event->kind == DPT_ISLAND_LOST) {
        s->n_islands_lost++;
    } else if (progress->event) {
        CHECK(progress->event->kind == DPT_DEVICE_LOST);
        CHECK(progress->event->device < DEVICES && !s->gone[progress->event->device]);
        s->gone[progress->event->device] = true;
        s->without[progress->event->device] = progress->event->step;
        CHECK(progress->event->step == s->n_steps + 1 || progress->event->step == s->n_steps + 2);
        s->n_lost++;
    }
    if (progress->step) watch_shards(s, progress->step);
    return 0;
}

/* A run without failures that replays the log. */
static float *replay(const run *r, size_t *n)
{
    test *t = r->t;
    char split[64];
    training w = {.model = NULL};
    dpt_device_set *set = NULL;
    float *values = NULL;
    snprintf(split, sizeof split, "replay:%s", log_path);
    if (CHECK_OK(dpt_device_set_open(r->context, healthy_devices, &set)) &&
        CHECK_OK(create(r->context, set, split, 0, &w)) && CHECK_OK(fit(&w, NULL, NULL, NULL)))
        values = read_weights(&w, 0, n);
    destroy(&w);
    dpt_device_set_close(set);
    return values;
}

static void compare(run *r, const training *w)
{
    test *t = r->t;
    const scene *s = scene_of(r);
    size_t n = 0, n_now = 0;
    float *expected = replay(r, &n);
    if (!CHECK(expected)) return;
    for (size_t i = 0; i < DEVICES; i++) {
        float *now = read_weights(w, i, &n_now);
        if (s->gone[i])
            CHECK(!now);
        else if (CHECK(now && n == n_now) && !CHECK(memcmp(now, expected, n * sizeof *now) == 0))
            FAIL("%s: replica %zu has other weights than a run without failures", r->devices, i);
        free(now);
    }
    free(expected);
}

/* Whose failure is the island's. */
static bool fired_in_collective(void)
{
    return plant_fired_in("all_reduce") || plant_fired_in("broadcast") ||
           plant_fired_in("invite") || plant_fired_in("create");
}

static void body(run *r)
{
    test *t = r->t;
    scene *s = scene_of(r);
    training w = {.model = NULL};
    *s = (scene){.t = t,
                 .split = s->split,
                 .equal = s->equal,
                 .timeout = s->timeout,
                 .n_planned = s->n_planned,
                 .island = s->island};
    if (CHECK_OK(create(r->context, r->set, s->split, s->timeout, &w))) {
        if (!CHECK_OK(fit(&w, log_path, s, watch)))
            FAIL("%s: %s", r->devices, dpt_error_message(r->context));
        CHECK_SIZE(s->n_steps, STEPS);
        CHECK_SIZE(s->n_samples, COUNT + BATCH);
        const bool spared = s->island && !r->lost && fired_in_collective();
        s->n_fired = plant_count("fired");
        const bool both = s->n_planned == 0 && s->n_fired > 1;
        const size_t n_planned = s->n_planned > 0 ? s->n_planned : both ? 2 : 1;
        if (plant_fired() && s->n_lost != (spared ? 0 : n_planned))
            FAIL("%s: %zu devices are lost", r->devices, s->n_lost);
        if (s->n_islands_lost != spared)
            FAIL("%s: %zu islands are lost", r->devices, s->n_islands_lost);
        if (s->island) CHECK(plant_count("joined") > 0);
        if (plant_fired() && (s->n_planned > 0 || both)) compare(r, &w);
    }
    destroy(&w);
}

/* ---- Several at once ------------------------------------------------------------------------- */

static void run_once(test *t, const char *devices, size_t n_planned)
{
    scene *s = ((plant *)t->user)->fixture;
    *s = (scene){.split = "equal", .equal = true, .n_planned = n_planned};
    for (size_t n = 1; n < 30 && t->n_failures == 0; n += 4)
        CHECK(plant_once(t, &(plant_list){.format = devices, .survivor = 2}, n, body));
}

/* What shares a fault domain with a lost device is lost, too. */
static void fault_domain(test *t)
{
    char devices[160];
    for (int other = 1; other <= 2; other++) {
        snprintf(devices, sizeof devices,
                 "%%s:threads=1:after=1:domain=1:fail=%%zu,%s:threads=1:domain=%d,cpu:threads=1",
                 ((plant *)t->user)->backend, other);
        run_once(t, devices, other == 1 ? 2 : 1);
    }
}

static void two_fail(test *t)
{
    run_once(t, "%s:threads=1:after=1:fail=%zu,fault:threads=1:after=1:fail=5,cpu:threads=1", 2);
    run_once(t, "%s:threads=1:after=1:lost=%zu,cpu:threads=1,fault:threads=1:after=1:lost=9", 2);
}

/* ---- Calls that do not return ---------------------------------------------------------------- */

static const double timeout = 1;

/* The call returns after its device was given up: it must find what it was given, and its thread
   must end. */
static void hangs(test *t, const char *format, size_t stride)
{
    scene *s = ((plant *)t->user)->fixture;
    *s = (scene){.split = "equal",
                 .equal = true,
                 .timeout = timeout,
                 .n_planned = 1,
                 .island = strstr(format, "island=") != NULL};
    size_t n = 1, n_fired = 0;
    for (; t->n_failures == 0 && plant_once(t, &(plant_list){.format = format}, n, body); n_fired++)
        n += stride * test_stride();
    printf("  %zu calls did not return in turn\n", n_fired);
    CHECK(n > 2 * stride);
}

static void does_not_answer(test *t)
{
    hangs(t, "cpu:threads=1,%s:threads=1:after=1:hang=%zu:stall=2500,cpu:threads=1", 11);
}

/* While the others go on, the trainer, the data and the devices end, and only then it returns. */
static void answers_too_late(test *t)
{
    hangs(t, "%s:threads=1:after=1:hang=%zu:stall=4000,cpu:threads=1,cpu:threads=1", 40);
    usleep(4000000);
}

/* ---- Those that are left are prepared anew --------------------------------------------------- */

/* Another one is lost in the second step, for which fixed shares grow. */
static void rebuilt_list(char *out, size_t n_bytes, const char *how)
{
    snprintf(out, n_bytes,
             "fault:threads=1:after=1:entry=upload:lost=1,%%s:threads=1:after=1:%s,cpu:threads=1",
             how);
}

/* A device hangs at that, in one of the calls that are made then and at no other time; it returns
   when all has ended, or never. */
static void hangs_when_rebuilt(test *t)
{
    static const char *const entries[] = {"alloc",   "event_create", "host_alloc", "fill",
                                          "prepare", "free",         "host_free",  "release"};
    scene *s = ((plant *)t->user)->fixture;
    for (size_t i = 0; i < sizeof entries / sizeof *entries && t->n_failures == 0; i++) {
        char how[64], format[192];
        /* Names of devices have a limit. */
        const char *backend = ((plant *)t->user)->backend;
        const bool returns = i % 4 != 3 && strlen(backend) + strlen(entries[i]) <= 20;
        snprintf(how, sizeof how, "entry=%s:hang=%%zu%s", entries[i], returns ? ":stall=5600" : "");
        rebuilt_list(format, sizeof format, how);
        *s = (scene){.split = "equal", .equal = true, .timeout = 0.5, .n_planned = 2};
        if (!CHECK(plant_once(t, &(plant_list){.format = format}, i + 1, body)))
            FAIL("%s: nothing hung", format);
        CHECK(plant_fired_in("upload") && plant_count("fired") == 2);
    }
    usleep(1000000);
}

/* A device fails at that, or before it, in any call; there are more of them then. */
static void fails_when_rebuilt(test *t)
{
    static const char *const hows[] = {"fail=%zu", "lost=%zu", "entry=alloc:full=%zu:for=100000"};
    static const char *const splits[] = {"equal", "2:3:1", "equal"};
    scene *s = ((plant *)t->user)->fixture;
    for (size_t i = 0; i < 3; i++) {
        char format[192];
        rebuilt_list(format, sizeof format, hows[i]);
        *s = (scene){.split = splits[i], .equal = i != 1};
        size_t n = i + 1, n_fired = 0;
        do {
            CHECK(plant_once(t, &(plant_list){.format = format}, n, body));
            n += (i == 2 ? 1 : 7) * test_stride();
            n_fired++;
        } while (t->n_failures == 0 && s->n_fired > 1);
        printf("  %s: %zu calls failed in turn\n", format, n_fired - 1);
        CHECK(n_fired > (i == 2 ? 5 : 25) / test_stride());
    }
}

/* A device that is lost before the first step: the others train. */
static void lost_when_created(test *t)
{
    static const char *const lists[] = {
        "%s:threads=1:entry=prepare:lost=%zu,cpu:threads=1,cpu:threads=1",
        "cpu:threads=1,%s:threads=1:entry=prepare:lost=%zu,cpu:threads=1",
        "cpu:threads=1,cpu:threads=1,%s:threads=1:entry=alloc:lost=%zu",
    };
    static const char *const splits[] = {"equal", "2:3:1", NULL};
    scene *s = ((plant *)t->user)->fixture;
    for (size_t i = 0; i < 3 && t->n_failures == 0; i++) {
        *s = (scene){.split = splits[i], .equal = i == 0, .n_planned = 1};
        for (size_t n = i == 2 ? 6 : 1; n < 16 && t->n_failures == 0; n += i == 2 ? 100 : 7) {
            if (!CHECK(plant_once(t, &(plant_list){.format = lists[i]}, n, body)))
                FAIL("%s: nothing was lost", lists[i]);
            for (size_t d = 0; d < DEVICES; d++)
                if (s->gone[d]) CHECK_SIZE(s->without[d], 1);
        }
    }
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Nobody is left: the call fails, and what was learned is in the checkpoint's folder. */
static void all_body(run *r)
{
    test *t = r->t;
    training w = {.model = NULL};
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = 20, .checkpoint = "left"};
    (void)remove("left/model.safetensors");
    for (unsigned step = 0; step <= 20; step++) { /* an interrupted training is not begun anew */
        char path[64];
        snprintf(path, sizeof path, "left/checkpoint-%09u.safetensors", step);
        (void)remove(path);
    }
    if (CHECK_OK(create(r->context, r->set, "equal", 0, &w))) {
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_DEVICE_LOST);
        CHECK_CONTAINS(dpt_error_message(r->context), r->backend);
        CHECK(exists("left/model.safetensors"));
    }
    destroy(&w);
}

static void all_lost(test *t)
{
    const char *format = "%s:threads=1:after=2:lost=%zu,fault:threads=1:after=1:lost=3";
    if (strcmp(((plant *)t->user)->backend, "fault") != 0) {
        SKIP("its memory is not the host's: nothing could be read");
    }
    /* Not in the update itself, after which no replica could be trusted. */
    for (size_t n = 5; n < 15 && t->n_failures == 0; n += 3)
        CHECK(plant_once(t, &(plant_list){.format = format}, n, all_body));
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* A device's calls are alike in every case: each case takes another tenth of them, and with
   DPTRAIN_TEST_THOROUGH set all. */
enum { FEWER = 10, FEWER_OF_ISLANDS = 23 };

static bool thorough(void)
{
    const char *text = getenv("DPTRAIN_TEST_THOROUGH");
    return text && *text;
}

static void every(test *t, const char *split, const char *format, size_t first, size_t stride)
{
    scene *s = ((plant *)t->user)->fixture;
    *s = (scene){.split = split,
                 .equal = strcmp(split, "equal") == 0,
                 .n_planned = 1,
                 .island = strstr(format, "island=") != NULL};
    plant_every(t, &(plant_list){.format = format}, thorough() ? 1 : first, thorough() ? 1 : stride,
                body);
}

static void everywhere(test *t, const char *split, const char *format, size_t first)
{
    every(t, split, format, first, FEWER);
}

static void first_fails(test *t)
{
    everywhere(t, "equal", "%s:threads=1:after=1:fail=%zu,cpu:threads=1,cpu:threads=1", 1);
}

static void second_fails(test *t)
{
    everywhere(t, "equal", "cpu:threads=1,%s:threads=1:after=1:fail=%zu,cpu:threads=1", 2);
}

static void third_fails(test *t)
{
    everywhere(t, "equal", "cpu:threads=1,cpu:threads=1,%s:threads=1:after=1:fail=%zu", 3);
}

static void first_is_lost(test *t)
{
    everywhere(t, "2:3:1", "%s:threads=1:after=1:lost=%zu,cpu:threads=1,cpu:threads=1", 4);
}

static void measured_fails(test *t)
{
    everywhere(t, "measured", "cpu:threads=1,%s:threads=1:after=1:fail=%zu,cpu:threads=1", 5);
}

/* Those that are left had nothing. */
static void only_one_had_samples(test *t)
{
    everywhere(t, "0:1:0", "cpu:threads=1,%s:threads=1:after=1:lost=%zu,cpu:threads=1", 3);
}

/* ---- Islands --------------------------------------------------------------------------------- */

/* Every "@" of the list is the backend, "#" the device that fails so. */
static void island_list(const test *t, const char *list, const char *how, char *out, size_t n_bytes)
{
    const char *backend = ((const plant *)t->user)->backend;
    size_t n = 0;
    for (; *list && n < n_bytes; list++) {
        if (*list == '@' || *list == '#')
            n += (size_t)snprintf(out + n, n_bytes - n, "%s:threads=1:island=1%s",
                                  *list == '@' ? backend : "%s", *list == '@' ? "" : how);
        else
            n += (size_t)snprintf(out + n, n_bytes - n, "%c", *list);
    }
}

static void island_everywhere(test *t, const char *split, const char *list, const char *how,
                              size_t first)
{
    char format[192];
    island_list(t, list, how, format, sizeof format);
    every(t, split, format, first, FEWER_OF_ISLANDS);
}

static void island_first_fails(test *t)
{
    island_everywhere(t, "equal", "#,@,cpu:threads=1", ":after=1:fail=%zu", 1);
}

static void island_second_fails(test *t)
{
    island_everywhere(t, "equal", "@,#,cpu:threads=1", ":after=1:fail=%zu", 3);
}

static void island_is_lost(test *t)
{
    island_everywhere(t, "2:3:1", "@,#,cpu:threads=1", ":after=1:lost=%zu", 5);
}

/* With nobody else, and two that are left. */
static void island_alone(test *t)
{
    island_everywhere(t, "equal", "@,@,#", ":after=1:fail=%zu", 7);
    island_everywhere(t, "equal", "#,@,@", ":after=1:lost=%zu", 9);
}

static void island_without_samples(test *t)
{
    island_everywhere(t, "1:0:1", "@,#,cpu:threads=1", ":after=1:fail=%zu", 2);
}

static void island_does_not_answer(test *t)
{
    char format[192];
    /* The first one owns what both read of the data; the second one reads it. */
    island_list(t, "#,@,cpu:threads=1", ":after=1:hang=%zu:stall=2500", format, sizeof format);
    hangs(t, format, 16);
    island_list(t, "@,#,cpu:threads=1", ":after=1:hang=%zu:stall=2500", format, sizeof format);
    hangs(t, format, 9);
    island_list(t, "#,@,@", ":after=1:hang=%zu:stall=2500", format, sizeof format);
    hangs(t, format, 23);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"first_fails", first_fails},
        {"second_fails", second_fails},
        {"third_fails", third_fails},
        {"first_is_lost", first_is_lost},
        {"measured_fails", measured_fails},
        {"only_one_had_samples", only_one_had_samples},
        {"fault_domain", fault_domain},
        {"two_fail", two_fail},
        {"all_lost", all_lost},
        {"does_not_answer", does_not_answer},
        {"answers_too_late", answers_too_late},
        {"hangs_when_rebuilt", hangs_when_rebuilt},
        {"fails_when_rebuilt", fails_when_rebuilt},
        {"lost_when_created", lost_when_created},
        {"island_first_fails", island_first_fails},
        {"island_second_fails", island_second_fails},
        {"island_is_lost", island_is_lost},
        {"island_alone", island_alone},
        {"island_without_samples", island_without_samples},
        {"island_does_not_answer", island_does_not_answer},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-failover fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    scene s = {.split = NULL};
    plant p = {.backend = argv[1], .fixture = &s};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
