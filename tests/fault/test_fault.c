/* Fails the n-th call of a device, for every n: the status comes back with a message that names the
   device, what lasts has not changed, nothing hangs, nothing leaks, and a step that failed can be
   repeated as if nothing had been.

   test-fault BACKEND arrays|trainer, BACKEND being fault or faultstaged. */
#include "dptrain.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CALLS = 20000, SECONDS_A_RUN = 120, REPORT_BYTES = 256 };

static const char report_path[] = "fault-report.txt";

/* ---- One run with one planted failure -------------------------------------------------------- */

typedef struct run {
    test *t;
    const char *devices; /* the list that was opened */
    const char *backend; /* the failing device's */
    size_t survivor;     /* the position of the device that does not fail */
    bool lost;           /* the failure is a loss */
    dpt_context *context;
    dpt_device_set *set;
    bool failed; /* a call has failed */
    dpt_status status;
} run;

/* What the plug-in has reported so far in this run. */
static bool report_contains(const char *word, char *line, size_t n_bytes)
{
    FILE *file = fopen(report_path, "r");
    bool found = false;
    while (file && !found && fgets(line, (int)n_bytes, file))
        found = strncmp(line, word, strlen(word)) == 0;
    if (file) fclose(file);
    return found;
}

static bool fired(void)
{
    char line[REPORT_BYTES];
    return report_contains("fired", line, sizeof line);
}

/* Looks at the result of a call: it fails if and only if the planted failure happened in it. */
static bool succeeded(run *r, dpt_status status, const char *what)
{
    test *t = r->t;
    const bool happened = fired();
    const char *message = dpt_error_message(r->context);
    if (status == DPT_OK) {
        if (happened && !r->failed) FAIL("%s: %s hid the failure", r->devices, what);
        if (happened && r->failed && r->lost)
            FAIL("%s: %s succeeds on a device that is lost", r->devices, what);
        r->failed = r->failed || happened;
        return CHECK(r->context);
    }
    if (!happened) FAIL("%s: %s fails by itself: %s", r->devices, what, message);
    if (!CHECK(status == DPT_E_DEVICE || status == DPT_E_DEVICE_LOST))
        FAIL("%s: %s gives %s: %s", r->devices, what, dpt_status_name(status), message);
    if (!strstr(message, r->backend) || strchr(message, '\n'))
        FAIL("%s: %s gives a message that does not name the device in one line: \"%s\"", r->devices,
             what, message);
    r->failed = true;
    r->status = status;
    return false;
}

/* A loop over all calls: body is run with the failure planted at call 1, 2, ... until it does not
   happen any more. */
typedef void run_body(run *r);

static void check_closed(run *r, bool was_lost)
{
    test *t = r->t;
    char line[REPORT_BYTES];
    size_t n_calls = 0, n_left = 0;
    if (!report_contains("closed", line, sizeof line)) return; /* it was never opened */
    if (CHECK(sscanf(line, "closed %zu %zu", &n_calls, &n_left) == 2) && !was_lost && n_left > 0)
        FAIL("%s: %zu objects were not released", r->devices, n_left);
}

/* True if the planted failure happened. */
static bool run_planted(test *t, const char *format, const char *backend, size_t n, size_t survivor,
                        run_body *body)
{
    char devices[128];
    (void)remove(report_path);
    snprintf(devices, sizeof devices, format, backend, n);
    run r = {.t = t,
             .devices = devices,
             .backend = backend,
             .survivor = survivor,
             .lost = strstr(format, "lost=") != NULL};
    (void)alarm(SECONDS_A_RUN); /* nothing may hang */
    if (!CHECK_OK(dpt_context_create(&r.context))) return false;
    if (succeeded(&r, dpt_devices_open(r.context, devices, &r.set), "dpt_devices_open")) body(&r);
    dpt_devices_close(r.set);
    dpt_context_destroy(r.context);
    (void)alarm(0);
    check_closed(&r, r.lost && r.failed);
    return fired();
}

static void plant_everywhere(test *t, const char *format, size_t survivor, run_body *body)
{
    const char *backend = t->user;
    size_t n = 1;
    while (n < MAX_CALLS && t->n_failures < 5 && run_planted(t, format, backend, n, survivor, body))
        n++;
    printf("  %s: %zu calls failed in turn\n", format, n - 1);
    if (t->n_failures == 0) CHECK(n > 10 && n < MAX_CALLS);
}

/* ---- (a) Arrays ------------------------------------------------------------------------------ */

enum { ROWS = 4, COLUMNS = 5, CELLS = ROWS * COLUMNS };

typedef struct array_work {
    dpt_array *a, *b, *c, *parts[2];
} array_work;

static dpt_status compute(run *r, array_work *w)
{
    const size_t shape[] = {ROWS, COLUMNS};
    dpt_device *device = dpt_devices_get(r->set, 1 - r->survivor);
    float values[CELLS];
    for (size_t i = 0; i < CELLS; i++)
        values[i] = (float)i;
    DPT_TRY(dpt_array_create(device, shape, 2, &w->a));
    DPT_TRY(dpt_array_create(device, shape, 2, &w->b));
    DPT_TRY(dpt_array_create(device, shape, 2, &w->c));
    DPT_TRY(dpt_array_set(w->a, values));
    DPT_TRY(dpt_array_set(w->b, values));
    DPT_TRY(dpt_array_multiply(w->a, w->b, w->c));
    DPT_TRY(dpt_array_affine(w->c, 2.0f, 1.0f, w->c));
    DPT_TRY(dpt_array_add(w->c, w->a, w->c));
    DPT_TRY(dpt_array_wait(w->c));
    return dpt_array_get(w->c, values);
}

static dpt_status reduce(run *r, array_work *w, float *sum)
{
    const size_t rows[] = {2, 2};
    float values[CELLS];
    for (size_t i = 0; i < CELLS; i++)
        values[i] = (float)i;
    DPT_TRY(dpt_scatter(r->set, values, ROWS, COLUMNS, rows, w->parts));
    DPT_TRY(dpt_all_reduce(w->parts, 2));
    DPT_TRY(dpt_array_get(w->parts[1 - r->survivor], sum));
    return dpt_devices_wait(r->set);
}

static void array_body(run *r)
{
    test *t = r->t;
    array_work w = {.a = NULL};
    float values[CELLS], sum[CELLS] = {0};
    if (succeeded(r, compute(r, &w), "computing with arrays") &&
        succeeded(r, reduce(r, &w, sum), "reducing arrays") &&
        succeeded(r, dpt_array_get(w.c, values), "dpt_array_get")) {
        for (size_t i = 0; i < CELLS; i++)
            CHECK_NEAR((double)values[i], (double)(2 * i * i + 1 + i), 0.0);
        for (size_t i = 0; i < CELLS / 2; i++)
            CHECK_NEAR((double)sum[i], (double)(i + i + CELLS / 2), 0.0);
    }
    dpt_array_destroy(w.parts[0]);
    dpt_array_destroy(w.parts[1]);
    dpt_array_destroy(w.c);
    dpt_array_destroy(w.b);
    dpt_array_destroy(w.a);
}

static void arrays_fail(test *t)
{
    plant_everywhere(t, "%s:threads=1:fail=%zu,cpu:threads=1", 1, array_body);
}

static void arrays_fail_second(test *t)
{
    plant_everywhere(t, "cpu:threads=1,%s:threads=1:fail=%zu", 0, array_body);
}

static void arrays_lost(test *t)
{
    plant_everywhere(t, "%s:threads=1:lost=%zu,cpu:threads=1", 1, array_body);
}

/* ---- (b) Training ---------------------------------------------------------------------------- */

enum { SIDE = 6, COUNT = 22, CLASSES = 3, BATCH = 10, STEPS = 3, MAX_WEIGHTS = 512 };

typedef struct weights {
    size_t n;
    float values[MAX_WEIGHTS];
} weights;

typedef struct training {
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
} training;

/* Images whose class shows, without a random number. */
static dpt_status make_data(run *r, dpt_dataset **out)
{
    uint8_t images[COUNT * SIDE * SIDE], labels[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        labels[i] = (uint8_t)(i % CLASSES);
        for (size_t e = 0; e < SIDE * SIDE; e++)
            images[i * SIDE * SIDE + e] = (uint8_t)((i * 37 + e * 11) % 90 + labels[i] * 80);
    }
    const dpt_dataset_memory memory = {.count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = 1,
                                       .classes = CLASSES,
                                       .dtype = DPT_U8,
                                       .images = images,
                                       .labels = labels,
                                       .mean = {0.5f},
                                       .deviation = {0.5f}};
    return dpt_dataset_from_memory(r->context, &memory, out);
}

static dpt_status make_model(run *r, dpt_model **out)
{
    DPT_TRY(dpt_model_create(r->context, "small", out));
    dpt_value x = dpt_input(*out, SIDE, SIDE, 1);
    x = dpt_conv2d(
        *out, x, "conv",
        &(dpt_conv2d_options){.out_channels = 4, .kernel = {3, 3}, .activation = DPT_ACT_RELU});
    x = dpt_pool2d(*out, x, &(dpt_pool2d_options){.kind = DPT_POOL_MAX, .kernel = {2, 2}});
    x = dpt_linear(*out, dpt_flatten(*out, x), "fc", &(dpt_linear_options){.out = CLASSES});
    return dpt_model_finish(*out, x);
}

/* All parameters of one replica. */
static dpt_status read_weights(const training *w, size_t device, weights *out)
{
    out->n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
        dpt_parameter_info info;
        dpt_model_tensor(w->model, i, &info);
        if (info.size > MAX_WEIGHTS - out->n) return DPT_E_INTERNAL;
        DPT_TRY(dpt_trainer_get(w->trainer, device, DPT_PARAMETER, info.name, out->values + out->n,
                                info.size));
        out->n += info.size;
    }
    return DPT_OK;
}

static bool same_weights(const weights *a, const weights *b)
{
    return a->n == b->n && a->n > 0 && memcmp(a->values, b->values, a->n * sizeof(float)) == 0;
}

/* The weights after STEPS steps with no failure, from a run on healthy devices. */
static void check_healthy(run *r, const weights *end)
{
    test *t = r->t;
    weights *healthy = r->t->user ? calloc(1, sizeof *healthy) : NULL;
    REQUIRE(healthy);
    FILE *file = fopen("healthy.bin", "rb");
    if (!file) { /* the first run that gets here sets it */
        file = fopen("healthy.bin", "wb");
        CHECK(file && fwrite(end, sizeof *end, 1, file) == 1);
    } else if (CHECK(fread(healthy, sizeof *healthy, 1, file) == 1) &&
               !CHECK(same_weights(healthy, end))) {
        FAIL("%s: a repeated step leads to other weights", r->devices);
    }
    if (file) fclose(file);
    free(healthy);
}

/* One step; a failed one is repeated, which succeeds unless the device is gone. */
static bool step(run *r, training *w)
{
    test *t = r->t;
    dpt_step_metrics metrics;
    weights before, after;
    if (!CHECK_OK(read_weights(w, r->survivor, &before))) return false;
    if (succeeded(r, dpt_trainer_step(w->trainer, &metrics), "dpt_trainer_step")) return true;
    CHECK_SIZE(dpt_trainer_in_flight(w->trainer), 0);
    if (CHECK_OK(read_weights(w, r->survivor, &after)) && !CHECK(same_weights(&before, &after)))
        FAIL("%s: a failed step changed the weights of the other replica", r->devices);
    return succeeded(r, dpt_trainer_step(w->trainer, &metrics), "repeating dpt_trainer_step");
}

/* Everything that follows on training: evaluation, saving, loading, reading both replicas. */
static void use(run *r, training *w)
{
    test *t = r->t;
    dpt_evaluation evaluation;
    weights trained, now;
    if (!CHECK_OK(read_weights(w, r->survivor, &trained))) return;
    const bool evaluated =
        succeeded(r, dpt_trainer_evaluate(w->trainer, w->data, &evaluation), "evaluation");
    if (evaluated) CHECK(evaluation.samples == COUNT && isfinite(evaluation.loss));
    const bool saved = succeeded(r, dpt_trainer_save(w->trainer, "model.safetensors"), "saving");
    if (saved && access("model.safetensors", R_OK) == 0)
        (void)succeeded(r, dpt_trainer_load(w->trainer, "model.safetensors"), "loading");
    if (succeeded(r, read_weights(w, 1 - r->survivor, &now), "dpt_trainer_get"))
        CHECK(same_weights(&trained, &now));
    if (CHECK_OK(read_weights(w, r->survivor, &now))) CHECK(same_weights(&trained, &now));
}

static void train(run *r, training *w)
{
    test *t = r->t;
    const dpt_trainer_options options = {
        .batch_size = BATCH, .split = "1:1", .lr = 0.1f, .momentum = 0.9f, .seed = 5};
    weights end;
    if (!succeeded(r, dpt_trainer_create(r->set, w->model, w->data, &options, &w->trainer),
                   "dpt_trainer_create"))
        return;
    for (int i = 0; i < STEPS; i++) {
        if (!step(r, w)) return;
    }
    if (CHECK_OK(read_weights(w, r->survivor, &end))) check_healthy(r, &end);
    use(r, w);
}

static void trainer_body(run *r)
{
    test *t = r->t;
    training w = {.model = NULL};
    if (CHECK_OK(make_data(r, &w.data)) && CHECK_OK(make_model(r, &w.model))) train(r, &w);
    dpt_trainer_destroy(w.trainer);
    dpt_model_destroy(w.model);
    dpt_dataset_destroy(w.data);
}

/* What the runs with failures are compared with. */
static void trainer_healthy(test *t)
{
    (void)remove("healthy.bin");
    CHECK(!run_planted(t, "%s:threads=1:fail=%zu,cpu:threads=1", t->user, MAX_CALLS, 1,
                       trainer_body));
    CHECK(access("healthy.bin", R_OK) == 0);
}

static void trainer_fail(test *t)
{
    plant_everywhere(t, "%s:threads=1:fail=%zu,cpu:threads=1", 1, trainer_body);
}

static void trainer_fail_second(test *t)
{
    plant_everywhere(t, "cpu:threads=1,%s:threads=1:fail=%zu", 0, trainer_body);
}

static void trainer_lost(test *t)
{
    plant_everywhere(t, "%s:threads=1:lost=%zu,cpu:threads=1", 1, trainer_body);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"arrays_fail", arrays_fail},   {"arrays_fail_second", arrays_fail_second},
        {"arrays_lost", arrays_lost},   {"trainer_healthy", trainer_healthy},
        {"trainer_fail", trainer_fail}, {"trainer_fail_second", trainer_fail_second},
        {"trainer_lost", trainer_lost},
    };
    const char *real = getenv("DPTRAIN_BACKEND_PATH"), *fault = getenv("DPTRAIN_TEST_FAULT_PATH");
    char path[8192];
    if (argc < 2) {
        fputs("usage: test-fault fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    snprintf(path, sizeof path, "%s:%s", real ? real : "", fault ? fault : "");
    if (setenv("DPTRAIN_BACKEND_PATH", path, 1) != 0 ||
        setenv("DPTRAIN_FAULT_REPORT", report_path, 1) != 0)
        return 1;
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, argv[1]);
}
