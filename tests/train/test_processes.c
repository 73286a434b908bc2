/* Tests what processes do together, except training (test_mix.c, test_batch_norm.c), collectives
   (test_process_sums.c) and steps that differ (test_process_steps.c): what must be equal in all
   processes, failures that all processes must get, evaluation. */
#include "base/floats.h"
#include "harness.h"
#include "train/processes.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 5, BATCH = 24, COUNT = 100 };

typedef struct setting {
    image_set data, other_data;
    /* Of one task. */
    const char *devices;
    size_t n_steps;
    uint64_t other_seed; /* of the last process, if not 0 */
    bool other_images;   /* likewise */
    bool evaluate;
    dpt_compression compress;
    bool load_late;    /* the last process changes its weights before dpt_fit */
    bool no_fit;       /* there is none: weights are only evaluated, */
    size_t fewer_data; /* by the last process on so many images less */
    /* What the last process has of another course: more steps, a schedule, other test data. */
    size_t other_steps, other_warmup;
    bool other_test;
    dpt_status statuses[MOST];
    char messages[MOST][512];
    size_t steps[MOST];
    dpt_evaluation evaluations[MOST];
    float outputs[MOST][COUNT * 10];
    bool finite[MOST]; /* its weights, at the end */
} setting;

/* Trains with tests, if there is any other course. */
static dpt_status fit(setting *s, dpt_context *context, bool last, dpt_trainer *trainer)
{
    const bool tests = s->other_test || s->other_steps > 0 || s->other_warmup > 0;
    dpt_fit_options options = {.size = sizeof options, .max_steps = s->n_steps};
    dpt_fit_result result = {.size = sizeof result};
    dpt_dataset *data = NULL;
    if (last) {
        options.max_steps += s->other_steps;
        options.schedule.warmup_steps = s->other_warmup;
    }
    if (tests)
        DPT_TRY(
            images_open(context, last && s->other_test ? &s->other_data : &s->data, COUNT, &data));
    options.test = data;
    const dpt_status status = dpt_fit(trainer, &options, &result);
    dpt_dataset_destroy(data);
    return status;
}

static bool has_finite_weights(dpt_trainer *trainer, size_t rank)
{
    dpt_device_info d = {.size = sizeof d, .process = SIZE_MAX};
    size_t own = 0;
    while (dpt_trainer_device(trainer, own, &d) == DPT_OK && d.process != rank)
        own++;
    static const char *const names[] = {"conv1.weight", "fc2.bias"};
    static const size_t sizes[] = {180, 10};
    float values[180];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dpt_trainer_get(trainer, own, DPT_PARAMETER, names[i], values, sizes[i]) != DPT_OK ||
            !dpti_all_finite(values, sizes[i]))
            return false;
    return true;
}

static dpt_status evaluate_some(setting *s, dpt_context *context, size_t rank, bool last,
                                dpt_trainer *trainer)
{
    dpt_dataset *data = NULL;
    DPT_TRY(images_open(context, &s->data, COUNT - (last ? s->fewer_data : 0), &data));
    dpt_status status = DPT_OK;
    s->evaluations[rank].size = sizeof s->evaluations[rank];
    for (size_t i = 0; status == DPT_OK && i < 2; i++)
        status = dpt_trainer_evaluate(trainer, data, &s->evaluations[rank]);
    if (status == DPT_OK) status = dpt_trainer_predict(trainer, data, 0, COUNT, s->outputs[rank]);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status use(setting *s, dpt_context *context, size_t rank, bool last,
                      dpt_trainer *trainer, const dpt_dataset *data)
{
    float bias[10] = {1, 2, 3};
    if (s->load_late && last)
        DPT_TRY(dpt_trainer_set(trainer, DPT_PARAMETER, "fc2.bias", bias, 10));
    if (s->no_fit) return evaluate_some(s, context, rank, last, trainer);
    const dpt_status status = fit(s, context, last, trainer);
    s->steps[rank] = dpt_trainer_steps(trainer);
    if (status == DPT_E_NOT_FINITE) {
        snprintf(s->messages[rank], sizeof s->messages[rank], "%s", dpt_error_message(context));
        s->finite[rank] = has_finite_weights(trainer, rank);
        return status;
    }
    DPT_TRY(status);
    if (!s->evaluate) return DPT_OK;
    s->evaluations[rank].size = sizeof s->evaluations[rank];
    DPT_TRY(dpt_trainer_evaluate(trainer, data, &s->evaluations[rank]));
    return dpt_trainer_predict(trainer, data, 0, data ? COUNT : 0, s->outputs[rank]);
}

static dpt_status train_in(setting *s, dpt_context *context, size_t rank)
{
    const bool last = rank + 1 == dpt_process_count(context);
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = BATCH,
        .split = {DPT_SPLIT_EQUAL, NULL},
        .compress = s->compress,
        .seed = last && s->other_seed ? s->other_seed : 1,
    };
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(s->devices, rank, list);
    dpt_status status =
        images_open(context, last && s->other_images ? &s->other_data : &s->data, COUNT, &data);
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = dpt_model_by_name(context, "lenet", &shape, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK) status = use(s, context, rank, last, trainer, data);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status train_part(dpt_context *context, size_t rank, void *user)
{
    setting *s = user;
    s->statuses[rank] = train_in(s, context, rank);
    if (s->statuses[rank] != DPT_E_NOT_FINITE)
        snprintf(s->messages[rank], sizeof s->messages[rank], "%s", dpt_error_message(context));
    return s->statuses[rank];
}

static setting *begin(test *t, const char *devices, size_t n_steps)
{
    setting *s = t->user;
    s->devices = devices;
    s->n_steps = n_steps;
    s->other_seed = 0;
    s->compress = DPT_COMPRESS_NONE;
    s->other_images = s->evaluate = s->load_late = s->other_test = false;
    s->no_fit = false;
    s->other_steps = s->other_warmup = s->fewer_data = 0;
    return s;
}

/* All processes fail alike, with these words. */
static void check_all_fail(test *t, setting *s, dpt_status status, const char *words)
{
    char message[512] = "";
    const size_t n = stand_ins_count(s->devices);
    CHECK(stand_ins_run(n, train_part, s, message) == status);
    check_all_failed(t, n, s->statuses, s->messages, status, words);
}

static void what_must_be_the_same(test *t)
{
    setting *s = begin(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1", 2);
    s->other_seed = 2;
    check_all_fail(t, s, DPT_E_INVALID, "seed differs: process 0 has 1, process 2 has 2");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_images = true;
    check_all_fail(t, s, DPT_E_INVALID, "checksum of the data differs");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->load_late = true;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 begins with other weights than process 0");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_test = true;
    check_all_fail(t, s, DPT_E_INVALID, "checksum of the test data differs");
    s = begin(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1", 2);
    s->other_steps = 3;
    check_all_fail(t, s, DPT_E_INVALID,
                   "number of steps differs: process 0 has 2, process 2 has 5");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_warmup = 1;
    check_all_fail(t, s, DPT_E_INVALID,
                   "warm-up differs: process 0 has 0 steps, process 1 has 1 steps");
}

static void what_evaluation_compares(test *t)
{
    char message[512] = "";
    setting *s = begin(t, "cpu:threads=1|cpu:threads=1,cpu:threads=1", 0);
    s->no_fit = true;
    if (!CHECK_OK(stand_ins_run(2, train_part, s, message))) FAIL("%s", message);
    s->load_late = true;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 begins with other weights than process 0");
    s->load_late = false;
    s->fewer_data = 1;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 evaluates 99 samples, and process 0 100");
}

/* A device of one process fails, at whatever call: that process tells it, and the others the same,
   unless it was before they trained together. */
static void a_device_fails(test *t)
{
    setting *s = begin(t, NULL, 3);
    size_t n_alike = 0, call = 1;
    for (; CHECK(call < 10000); call += call < 60 ? 1 : 17) {
        char devices[128], message[512] = "";
        snprintf(devices, sizeof devices,
                 "cpu:threads=1|cpu:threads=1,fault:threads=1:fail=%zu|cpu:threads=1", call);
        s->devices = devices;
        if (stand_ins_run(3, train_part, s, message) == DPT_OK) break;
        for (size_t r = 0; r < 3; r++) {
            const bool told = strstr(s->messages[r], "fault:threads=1:fail") != NULL;
            const bool cut = strstr(s->messages[r], "is cut") != NULL;
            if (!CHECK(s->statuses[r] != DPT_OK) || !CHECK(told || (r != 1 && cut)))
                FAIL("call %zu, process %zu: %s", call, r, s->messages[r]);
            CHECK_SIZE(s->steps[r], s->steps[0]);
        }
        n_alike += strcmp(s->messages[0], s->messages[1]) == 0 &&
                   strncmp(s->messages[0], "process 1", 9) == 0;
    }
    CHECK(call > 100);
    CHECK(n_alike > 20);
}

/* Numbers that are not finite, of one device or of the sum alone: all say the same, and the step
   has changed nothing. */
static void not_finite(test *t)
{
    static const struct {
        const char *devices, *words;
    } cases[] = {
        {"fault:threads=1:huge=2|fault:threads=1:huge=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"cpu:threads=1,fault:threads=1:huge=2|cpu:threads=1|fault:threads=1:huge=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"fault:threads=1:poison=2|fault:threads=1:poison=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"cpu:threads=1|cpu:threads=1,fault:threads=1:poison=2",
         "device fault:threads=1:poison=2 of process 1 ("},
        {"fault:threads=1:poison=2|cpu:threads=1|fault:threads=1:poison=2",
         "devices fault:threads=1:poison=2 of process 0 ("},
    };
    static const dpt_compression ways[] = {DPT_COMPRESS_NONE, DPT_COMPRESS_BF16,
                                           DPT_COMPRESS_LOWRANK};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            setting *s = begin(t, cases[i].devices, 3);
            s->compress = ways[way];
            check_all_fail(t, s, DPT_E_NOT_FINITE, cases[i].words);
            for (size_t r = 0; r < stand_ins_count(s->devices); r++) {
                CHECK_SIZE(s->steps[r], 1);
                CHECK(s->finite[r]);
                CHECK(strcmp(s->messages[r], s->messages[0]) == 0);
            }
        }
}

/* Whenever the transport of one process fails, every process ends with a failure. */
static void the_transport_fails_with(test *t, dpt_compression compress)
{
    size_t n_failed = 0;
    for (size_t after = 0; after < 200; after += after < 40 ? 1 : 13) {
        setting *s = begin(t, "cpu:threads=1|cpu:threads=1,cpu:threads=1", 3);
        char message[512] = "";
        s->evaluate = true;
        s->compress = compress;
        stand_ins_fail(1, after);
        const dpt_status status = stand_ins_run(2, train_part, s, message);
        stand_ins_fail(0, SIZE_MAX);
        if (status == DPT_OK) break;
        n_failed++;
        for (size_t r = 0; r < 2; r++)
            if (!CHECK(s->statuses[r] != DPT_OK) || !CHECK(strstr(s->messages[r], "is cut")))
                FAIL("after %zu, process %zu: %s", after, r, s->messages[r]);
    }
    CHECK(n_failed > 20);
}

static void the_transport_fails(test *t)
{
    the_transport_fails_with(t, DPT_COMPRESS_NONE);
    the_transport_fails_with(t, DPT_COMPRESS_LOWRANK);
}

static void evaluation(test *t)
{
    char message[512] = "";
    setting *s = begin(t, "cpu:threads=1", 3);
    s->evaluate = true;
    CHECK_OK(stand_ins_run(1, train_part, s, message));
    const dpt_evaluation one = s->evaluations[0];
    float *alone = malloc(sizeof s->outputs[0]);
    REQUIRE(alone);
    memcpy(alone, s->outputs[0], sizeof s->outputs[0]);
    s->devices = "cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1";
    if (!CHECK_OK(stand_ins_run(3, train_part, s, message))) FAIL("%s", message);
    for (size_t r = 0; r < 3; r++) {
        const dpt_evaluation *e = &s->evaluations[r];
        CHECK_SIZE(e->samples, one.samples);
        CHECK_NEAR(e->loss, one.loss, 1e-5);
        CHECK(e->loss == s->evaluations[0].loss && e->hits == s->evaluations[0].hits);
        CHECK(memcmp(s->outputs[r], s->outputs[0], sizeof s->outputs[0]) == 0);
        for (size_t i = 0; i < COUNT * 10; i++)
            CHECK_NEAR((double)s->outputs[r][i], (double)alone[i], 1e-4);
    }
    free(alone);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"what must be the same in all processes", what_must_be_the_same},
        {"what must be the same where weights are evaluated", what_evaluation_compares},
        {"a device of one process fails", a_device_fails},
        {"numbers that are not finite", not_finite},
        {"the transport fails", the_transport_fails},
        {"evaluation and prediction", evaluation},
    };
    static setting s;
    add_fault_plugins();
    if (!images_create(COUNT, 7, &s.data) || !images_create(COUNT, 8, &s.other_data)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    images_free(&s.data);
    images_free(&s.other_data);
    return code;
}
