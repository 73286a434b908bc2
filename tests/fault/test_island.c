/* Tests islands: an island that must not be used is not used, training goes on without an island
   that fails, and the weights are those of the same devices that sum through the host.

   test-fault-island fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, COUNT = 40, CLASSES = 3, BATCH = 12, STEPS = 6 };

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
    char devices[256];
    size_t n_devices, n_lost, n_islands_lost;
    char told[256]; /* of the last island */
} training;

/* ---- Building -------------------------------------------------------------------------------- */

/* Every "@" of the list is the backend under test. */
static dpt_status begin(test *t, const char *devices, dpt_trainer_options options, training *w)
{
    *w = (training){.context = NULL, .n_devices = 1};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    for (const char *c = w->devices; *c; c++)
        w->n_devices += *c == ',';
    options.batch_size = BATCH;
    options.bucket_bytes = 1; /* as many buckets as can be */
    options.lr = 0.05f;
    options.size = sizeof options;
    options.momentum = 0.9f;
    options.seed = 3;
    if (options.split.kind == DPT_SPLIT_MEASURED) options.split = dpt_split_from("equal");
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer);
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

static void take_events(test *t, training *w)
{
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(w->trainer, &event)) {
        if (event.kind == DPT_REPLICA_RESTORED && strstr(w->devices, "full=")) continue;
        CHECK(event.kind == DPT_ISLAND_LOST || event.kind == DPT_DEVICE_LOST);
        w->n_lost += event.kind == DPT_DEVICE_LOST;
        w->n_islands_lost += event.kind == DPT_ISLAND_LOST;
        if (event.kind == DPT_ISLAND_LOST) snprintf(w->told, sizeof w->told, "%s", event.message);
    }
}

static void steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < n; i++) {
        const dpt_status status = dpt_trainer_step(w->trainer, &m);
        /* One that has no samples, and no memory either, is to be left out. */
        if (status == DPT_E_NO_MEMORY && strstr(w->devices, "full=")) continue;
        if (!CHECK_OK(status)) FAIL("%s: %s", w->devices, dpt_error_message(w->context));
        take_events(t, w);
    }
}

/* What lasts of one replica, to be freed; NULL: it cannot be read. */
static float *read_state(const training *w, size_t device, size_t *n_bytes)
{
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY};
    dpt_parameter_info info = {.size = sizeof info};
    size_t total = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i, &info);
        total += 2 * info.elements;
    }
    float *values = calloc(total, sizeof *values), *at = values;
    for (size_t i = 0; values && i < 2 * dpt_model_tensor_count(w->model); i++) {
        dpt_model_tensor(w->model, i / 2, &info);
        if (i % 2 == 1 && !info.trained) continue;
        if (dpt_trainer_get(w->trainer, device, kinds[i % 2], info.name, at, info.elements) !=
            DPT_OK) {
            free(values);
            return NULL;
        }
        at += info.elements;
    }
    *n_bytes = total * sizeof *values;
    return values;
}

static bool same_state(const training *a, size_t of_a, const training *b, size_t of_b)
{
    size_t n = 0, n_b = 0;
    float *x = read_state(a, of_a, &n), *y = read_state(b, of_b, &n_b);
    const bool same = x && y && n == n_b && memcmp(x, y, n) == 0;
    free(y);
    free(x);
    return same;
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* The same list with ordinary devices: ends with these weights. */
static void same_as(test *t, const training *w, const char *plain, dpt_trainer_options options)
{
    training p;
    if (CHECK_OK(begin(t, plain, options, &p))) {
        steps(t, &p, STEPS);
        for (size_t i = 0; i < w->n_devices; i++)
            if (!CHECK(same_state(w, i, &p, 0)))
                FAIL("%s: replica %zu is another than that of %s", w->devices, i, plain);
    }
    end(&p);
}

static void rules_were_kept(test *t, const training *w)
{
    if (plant_count("order") > 0) FAIL("%s: rules were broken", w->devices);
    if (plant_count("touched") > 0) FAIL("%s: a lost device was touched", w->devices);
    CHECK_SIZE(plant_count("parted"), plant_count("joined"));
}

typedef struct expected {
    const char *devices, *plain;
    dpt_trainer_options options;
    size_t n_joined;         /* communicators */
    const char *island_lost; /* why; NULL: it is not */
} expected;

/* What is shown of it: the devices that are in one. */
static void check_described(test *t, const training *w, bool forms)
{
    for (size_t i = 0; i < w->n_devices; i++) {
        dpt_device_info d = {.size = sizeof d};
        if (CHECK_OK(dpt_trainer_device(w->trainer, i, &d)))
            CHECK_SIZE(d.island, forms && strstr(d.id, "island=") ? 1 : 0);
    }
}

static void trains(test *t, const expected *e)
{
    training w;
    if (!CHECK_OK(begin(t, e->devices, e->options, &w))) {
        end(&w);
        return;
    }
    steps(t, &w, STEPS);
    check_described(t, &w, e->n_joined > 0 && !e->island_lost);
    CHECK_SIZE(w.n_lost, 0);
    CHECK_SIZE(w.n_islands_lost, e->island_lost != NULL);
    if (e->island_lost) CHECK_CONTAINS(w.told, e->island_lost);
    if (!CHECK_SIZE(plant_count("joined"), e->n_joined)) FAIL("%s", w.devices);
    /* A report is of one training. */
    (void)rename("fault-report.txt", "kept-report.txt");
    same_as(t, &w, e->plain, e->options);
    (void)rename("kept-report.txt", "fault-report.txt");
    dpt_trainer_destroy(w.trainer);
    w.trainer = NULL;
    rules_were_kept(t, &w);
    end(&w);
}

static const char two[] = "cpu:threads=1,cpu:threads=1";
static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
static const char pair[] = "@:threads=1:island=1,@:threads=1:island=1";
static const char pair_and_cpu[] = "@:threads=1:island=1,@:threads=1:island=1,cpu:threads=1";

/* ---- Cases ----------------------------------------------------------------------------------- */

/* In the order of members the sums are those of the host, to the bit. */
static void the_same_bits(test *t)
{
    trains(t, &(expected){pair, two, {.seed = 0}, 1, NULL});
    trains(t, &(expected){pair_and_cpu, three, {.seed = 0}, 1, NULL});
    trains(t,
           &(expected){pair_and_cpu, three, {.split = {DPT_SPLIT_PROPORTIONS, "1:0:2"}}, 1, NULL});
    trains(t,
           &(expected){pair_and_cpu, three, {.split = {DPT_SPLIT_PROPORTIONS, "0:0:1"}}, 1, NULL});
    trains(t, &(expected){pair_and_cpu,
                          three,
                          {.split = {DPT_SPLIT_PROPORTIONS, "3:2:1"}, .accumulate = 2},
                          1,
                          NULL});
    trains(t, &(expected){pair_and_cpu, three, {.verify_replicas = 1, .clip_norm = 0.5f}, 1, NULL});
    trains(t, &(expected){pair, two, {.micro_batch = 2}, 1, NULL});
}

/* Those with other numbers, or none, are no island, and nobody is told. */
static void unsupported(test *t)
{
    trains(t, &(expected){"@:threads=1:island=1,@:threads=1:island=2", two, {.seed = 0}, 0, NULL});
    trains(t, &(expected){"@:threads=1:island=1,@:threads=1", two, {.seed = 0}, 0, NULL});
    trains(t, &(expected){"@:threads=1,@:threads=1:island=1", two, {.seed = 0}, 0, NULL});
    trains(t, &(expected){"@:threads=1:island=1,cpu:threads=1", two, {.seed = 0}, 0, NULL});
}

/* A sum that is wrong, another one at another device, or another one each time. */
static void wrong_sums(test *t)
{
    const char *const bugs[] = {"sum", "apart", "shaky"};
    for (size_t i = 0; i < 3; i++) {
        char list[128];
        snprintf(list, sizeof list,
                 "@:threads=1:island=1,@:threads=1:island=1:bug=%s,cpu:threads=1", bugs[i]);
        trains(t, &(expected){list, three, {.seed = 0}, 1, "sums that were tried"});
    }
}

/* Nobody's failure: at the trial, and in steps. */
static void does_not_end(test *t)
{
    for (size_t n = 2; n < 32; n += 6) {
        char list[128];
        snprintf(list, sizeof list,
                 "@:threads=1:island=1,@:threads=1:island=1:stick=%zu,cpu:threads=1", n);
        trains(t, &(expected){list, three, {.device_timeout = 0.3}, 1, "did not end"});
    }
}

/* Whatever call fails from the first on: the trainer is not made, for that reason, or trains, with
   this device or without it. */
static void from_the_start(test *t)
{
    const char *const hows[] = {"fail", "lost", "full"};
    for (size_t n = 1; t->n_failures == 0; n++) {
        char list[160];
        training w;
        dpt_evaluation evaluation = {.size = sizeof evaluation};
        snprintf(list, sizeof list,
                 "@:threads=1:island=1,@:threads=1:island=1:%s=%zu,cpu:threads=1", hows[n % 3], n);
        /* Where memory is short only what is measured can give a device less. */
        const dpt_trainer_options options = {
            .size = sizeof options, .split = dpt_split_from(n % 3 == 2 ? "measured" : "equal")};
        const dpt_status status = begin(t, list, options, &w);
        if (status == DPT_OK) {
            steps(t, &w, STEPS);
            const dpt_status repaired = dpt_trainer_evaluate(w.trainer, w.data, &evaluation);
            if (n % 3 != 2) CHECK_OK(repaired);
            CHECK(w.n_lost <= 1 && w.n_islands_lost <= 1);
            if (!CHECK(same_state(&w, 0, &w, 2))) FAIL("%s: replicas differ", w.devices);
        } else if (!CHECK(plant_fired())) {
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        }
        const bool fired = plant_fired();
        dpt_trainer_destroy(w.trainer);
        w.trainer = NULL;
        rules_were_kept(t, &w);
        end(&w);
        if (!fired) {
            printf("  %zu calls failed in turn\n", n - 1);
            CHECK(n > 100);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the same bits", the_same_bits},   {"unsupported", unsupported},
        {"wrong sums", wrong_sums},         {"does not end", does_not_end},
        {"from the start", from_the_start},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-island fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
