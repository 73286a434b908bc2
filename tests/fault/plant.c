/* Plants one failure at a time (plant.h). */
#include "fault/plant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS_A_RUN = 120, REPORT_BYTES = 256 };

/* For the search for leaks: a thread that hung while it made a program, and ends when it comes
   back, takes with it what it had begun. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:^run_bind$\nleak:^run_create_worker$\nleak:^create_alone$\n"
           "leak:^run_create_predictor$\n";
}

static const char report_path[] = "fault-report.txt";

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

bool plant_fired(void)
{
    char line[REPORT_BYTES];
    return report_contains("fired", line, sizeof line);
}

bool plant_fired_in(const char *entry)
{
    char line[REPORT_BYTES], name[64] = "";
    return report_contains("fired", line, sizeof line) &&
           sscanf(line, "fired %*u %63s", name) == 1 && strcmp(name, entry) == 0;
}

size_t plant_count(const char *word)
{
    char line[REPORT_BYTES];
    size_t n = 0;
    FILE *file = fopen(report_path, "r");
    while (file && fgets(line, sizeof line, file))
        n += strncmp(line, word, strlen(word)) == 0;
    if (file) fclose(file);
    return n;
}

bool plant_succeeded(run *r, dpt_status status, const char *what)
{
    test *t = r->t;
    const bool happened = plant_fired();
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
    return false;
}

static void check_closed(run *r, bool was_lost)
{
    test *t = r->t;
    char line[REPORT_BYTES];
    size_t n_calls = 0, n_left = 0;
    if (report_contains("order", line, sizeof line))
        FAIL("%s: collectives were not called as they are to be: %s", r->devices, line);
    if (report_contains("touched", line, sizeof line))
        FAIL("%s: something of the lost device was released, not abandoned", r->devices);
    if (!report_contains("closed", line, sizeof line)) return; /* it was never opened */
    if (CHECK(sscanf(line, "closed %zu %zu", &n_calls, &n_left) == 2) && !was_lost && n_left > 0)
        FAIL("%s: %zu objects were not released", r->devices, n_left);
}

bool plant_once(test *t, const plant_list *list, size_t n, run_body *body)
{
    const plant *p = t->user;
    char devices[192];
    (void)remove(report_path);
    snprintf(devices, sizeof devices, list->format, p->backend, n);
    run r = {.t = t,
             .devices = devices,
             .backend = p->backend,
             .survivor = list->survivor,
             .lost = strstr(list->format, "lost=") || strstr(list->format, "hang=")};
    (void)alarm(SECONDS_A_RUN); /* nothing may hang */
    if (!CHECK_OK(dpt_context_create(&r.context))) return false;
    if (plant_succeeded(&r, dpt_device_set_open(r.context, devices, &r.set), "dpt_device_set_open"))
        body(&r);
    dpt_device_set_close(r.set);
    dpt_context_destroy(r.context);
    (void)alarm(0);
    check_closed(&r, r.lost && plant_fired());
    return plant_fired();
}

enum { MAX_CALLS = 20000, MAX_FAILURES = 5 };

void plant_everywhere(test *t, const plant_list *list, run_body *body)
{
    plant_every(t, list, 1, 1, body);
}

void plant_every(test *t, const plant_list *list, size_t first, size_t stride, run_body *body)
{
    size_t n = first, n_fired = 0;
    stride *= test_stride();
    while (n < MAX_CALLS && t->n_failures < MAX_FAILURES && plant_once(t, list, n, body)) {
        n += stride;
        n_fired++;
    }
    printf("  %s: %zu calls failed in turn\n", list->format, n_fired);
    if (t->n_failures == 0) CHECK(n_fired * stride > 10 && n < MAX_CALLS);
}

dpt_status plant_network(dpt_context *context, size_t side, size_t classes, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, side, side, 1);
    x = dpt_conv2d(m, x, "conv",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 4,
                                         .kernel = {3, 3},
                                         .padding = {1, 1}});
    x = dpt_batch_norm(
        m, x, "norm",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_linear(m, dpt_flatten(m, x), "fc1",
                   &(dpt_linear_options){
                       .size = sizeof(dpt_linear_options), .out = 40, .activation = DPT_ACT_RELU});
    x = dpt_linear(m, x, "fc2",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
    return dpt_model_finish(m, x);
}

/* Brighter by a step a class. */
dpt_status plant_data(dpt_context *context, size_t count, size_t side, size_t classes,
                      dpt_dataset **out)
{
    const size_t pixels = side * side, step = 160 / (classes - 1);
    uint8_t *images = malloc(count * (pixels + 1));
    if (!images) return DPT_E_NO_MEMORY;
    uint8_t *labels = images + count * pixels;
    for (size_t i = 0; i < count; i++) {
        labels[i] = (uint8_t)(i * 7 % classes);
        for (size_t e = 0; e < pixels; e++)
            images[i * pixels + e] = (uint8_t)((i * 37 + e * 11) % 90 + labels[i] * step);
    }
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = count,
                                       .height = side,
                                       .width = side,
                                       .channels = 1,
                                       .outputs = classes,
                                       .dtype = DPT_U8,
                                       .images = images,
                                       .labels = labels,
                                       .mean = {0.5f},
                                       .deviation = {0.5f}};
    const dpt_status status = dpt_dataset_from_memory(context, &memory, out);
    free(images);
    return status;
}

void plant_devices(const char *list, const char *backend, char *out, size_t n_bytes)
{
    size_t n = 0;
    for (const char *c = list; *c && n + strlen(backend) + 1 < n_bytes; c++) {
        if (*c == '@')
            n += (size_t)sprintf(out + n, "%s", backend);
        else
            out[n++] = *c;
    }
    out[n] = '\0';
}

bool plant_setup(void)
{
    const char *real = getenv("DPTRAIN_BACKEND_PATH"), *fault = getenv("DPTRAIN_TEST_FAULT_PATH");
    char path[8192];
    const int length = snprintf(path, sizeof path, "%s:%s", real ? real : "", fault ? fault : "");
    return length > 0 && (size_t)length < sizeof path &&
           setenv("DPTRAIN_BACKEND_PATH", path, 1) == 0 &&
           setenv("DPTRAIN_FAULT_REPORT", report_path, 1) == 0;
}

/* ---- Weights --------------------------------------------------------------------------------- */

dpt_status plant_read_weights(const dpt_model *model, dpt_trainer *trainer, size_t device,
                              plant_weights *out)
{
    const size_t most = sizeof out->values / sizeof *out->values;
    out->n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(model, i, &info);
        if (info.elements > most - out->n) return DPT_E_INTERNAL;
        DPT_TRY(dpt_trainer_get(trainer, device, DPT_PARAMETER, info.name, out->values + out->n,
                                info.elements));
        out->n += info.elements;
    }
    return DPT_OK;
}

bool plant_same_weights(const plant_weights *a, const plant_weights *b)
{
    return a->n == b->n && a->n > 0 && memcmp(a->values, b->values, a->n * sizeof(float)) == 0;
}

bool plant_near_weights(const plant_weights *a, const plant_weights *b)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < a->n; i++) {
        error += pow((double)a->values[i] - (double)b->values[i], 2);
        size += pow((double)b->values[i], 2);
    }
    return a->n == b->n && error <= 1e-6 * size;
}
