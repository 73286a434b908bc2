/* Tests the training loop: the learning rate of each step, the best epoch, the end by patience,
   and what is refused before the first step. */
#include "harness.h"
#include "train/components/schedule.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A linear classifier of images that are a class's pattern and noise. */
enum { COUNT = 50, BATCH = 16, STEPS_PER_EPOCH = 4, PIXELS = 16, CLASSES = 3, WEIGHTS = 48 };

static const float base_lr = 0.25f;

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data, *other_labels, *wide; /* other_labels: the same images, wrongly labelled */
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static dpt_status make_data(dpt_context *context, uint8_t label_shift, size_t width,
                            dpt_dataset **out)
{
    test_random random = {5};
    float images[COUNT * PIXELS * 2];
    uint8_t labels[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        const size_t class = i % CLASSES;
        labels[i] = (uint8_t)((class + label_shift) % CLASSES);
        for (size_t k = 0; k < 4 * width; k++)
            images[i * 4 * width + k] =
                (float)((k % CLASSES == class) + 0.3 * test_random_normal(&random));
    }
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = 4,
                                       .width = width,
                                       .channels = 1,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = images,
                                       .labels = labels};
    return dpt_dataset_from_memory(context, &memory, out);
}

static dpt_status open_all(setting *s)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = base_lr,
                                         .split = {DPT_SPLIT_EQUAL, NULL}};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(make_data(s->context, 0, 4, &s->data));
    DPT_TRY(make_data(s->context, 1, 4, &s->other_labels));
    DPT_TRY(make_data(s->context, 0, 8, &s->wide));
    DPT_TRY(dpt_device_set_open(s->context, "cpu:threads=1,cpu:threads=1", &s->devices));
    DPT_TRY(dpt_model_create(s->context, "tiny", &s->model));
    const dpt_value x = dpt_flatten(s->model, dpt_input(s->model, 4, 4, 1));
    const dpt_linear_options fc = {.size = sizeof fc, .out = CLASSES};
    DPT_TRY(dpt_model_finish(s->model, dpt_linear(s->model, x, "fc", &fc)));
    return dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer);
}

static void close_all(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->wide);
    dpt_dataset_destroy(s->other_labels);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static bool opened(test *t, setting *s)
{
    *s = (setting){0};
    if (CHECK_OK(open_all(s))) return true;
    FAIL("%s", s->context ? dpt_error_message(s->context) : "no context");
    close_all(s);
    return false;
}

static void weights(test *t, const setting *s, float *out)
{
    CHECK_OK(dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, "fc.weight", out, WEIGHTS));
}

/* What a run's progress told. */
typedef struct record {
    size_t n_steps, n_epochs;
    double lr[64], validation_loss[64];
} record;

static int note(const dpt_fit_progress *progress, void *user)
{
    record *r = user;
    if (progress->step && r->n_steps < 64) r->lr[r->n_steps++] = progress->step->lr;
    if (progress->epoch && r->n_epochs < 64)
        r->validation_loss[r->n_epochs++] = progress->epoch->validation_loss;
    return 0;
}

/* ---- Schedules ------------------------------------------------------------------------------- */

/* The same steps, one by one, each at the rate that the schedule's formula gives. */
static void step_by_hand(test *t, const setting *s, const dpt_schedule *options, size_t n_steps)
{
    dpti_schedule schedule = {.options = *options,
                              .lr = (double)base_lr,
                              .steps_per_epoch = STEPS_PER_EPOCH,
                              .total_steps = n_steps};
    CHECK_OK(dpti_schedule_check(&schedule, NULL));
    for (size_t i = 0; i < n_steps; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_set_lr(s->trainer, (float)dpti_schedule_lr(&schedule, i)));
        CHECK_OK(dpt_trainer_step(s->trainer, &m));
        CHECK_NEAR(m.lr, (double)(float)dpti_schedule_lr(&schedule, i), 0);
    }
}

static void every_step_has_its_rate(test *t)
{
    static const dpt_schedule schedules[] = {
        {.kind = DPT_SCHEDULE_CONSTANT},
        {.kind = DPT_SCHEDULE_CONSTANT, .warmup_steps = 6},
        {.kind = DPT_SCHEDULE_STEP, .every = 1, .factor = 0.5f},
        {.kind = DPT_SCHEDULE_COSINE, .warmup_steps = 3},
        {.kind = DPT_SCHEDULE_ONECYCLE},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        setting fitted, by_hand;
        float a[WEIGHTS], b[WEIGHTS];
        record seen = {0};
        dpt_fit_result r = {.size = sizeof r};
        if (!opened(t, &fitted)) return;
        if (!opened(t, &by_hand)) return;
        const dpt_fit_options fit = {.size = sizeof fit,
                                     .epochs = 3,
                                     .schedule = schedules[i],
                                     .progress = note,
                                     .user = &seen};
        CHECK_OK(dpt_fit(fitted.trainer, &fit, &r));
        CHECK_SIZE(seen.n_steps, 12);
        step_by_hand(t, &by_hand, &schedules[i], 12);
        weights(t, &fitted, a);
        weights(t, &by_hand, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        close_all(&by_hand);
        close_all(&fitted);
    }
}

/* A second call begins the schedule anew, at the same rate; max_steps ends it as epochs do. */
static void the_rate_is_back_afterwards(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    record first = {0}, second = {0};
    if (!opened(t, &s)) return;
    dpt_fit_options fit = {.size = sizeof fit,
                           .max_steps = 6,
                           .schedule = {.kind = DPT_SCHEDULE_COSINE},
                           .progress = note,
                           .user = &first};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    fit.user = &second;
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK_SIZE(first.n_steps, 6);
    CHECK_NEAR(first.lr[0], (double)base_lr, 0);
    CHECK_NEAR(first.lr[3], (double)base_lr / 2, 1e-8);
    CHECK(first.lr[5] < 0.1 * (double)base_lr);
    CHECK(memcmp(first.lr, second.lr, sizeof first.lr) == 0);
    close_all(&s);
}

/* A course that goes below what float32 holds ends at 0, and training goes on. */
static void a_rate_may_vanish(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    record seen = {0};
    if (!opened(t, &s)) return;
    const dpt_fit_options fit = {
        .size = sizeof fit,
        .epochs = 8,
        .schedule = {.kind = DPT_SCHEDULE_STEP, .every = 1, .factor = 1e-10f},
        .progress = note,
        .user = &seen};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK_SIZE(r.steps, 32);
    CHECK_NEAR(seen.lr[31], 0, 0);
    close_all(&s);
}

/* ---- Validation ------------------------------------------------------------------------------ */

/* Training on the right labels makes the loss on wrong ones rise. */
static void patience_ends_training(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    dpt_evaluation best = {.size = sizeof best}, last = {.size = sizeof last};
    record seen = {0};
    if (!opened(t, &s)) return;
    const dpt_fit_options fit = {.size = sizeof fit,
                                 .epochs = 9,
                                 .validation = s.other_labels,
                                 .patience = 2,
                                 .checkpoint = "patience",
                                 .progress = note,
                                 .user = &seen};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK(r.no_patience && !r.stopped);
    CHECK_SIZE(r.epochs, 3);
    CHECK_SIZE(r.best_epoch, 1);
    CHECK_SIZE(seen.n_epochs, 3);
    CHECK(seen.validation_loss[0] < seen.validation_loss[1]);
    CHECK_NEAR(r.best_validation_loss, seen.validation_loss[0], 0);
    CHECK_OK(dpt_trainer_load(s.trainer, "patience/best.safetensors"));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.other_labels, &best));
    CHECK_NEAR(best.loss, seen.validation_loss[0], 0);
    CHECK_OK(dpt_trainer_load(s.trainer, "patience/model.safetensors"));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.other_labels, &last));
    CHECK_NEAR(last.loss, seen.validation_loss[2], 0);
    close_all(&s);
}

static void the_best_epoch_may_be_the_last(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    dpt_evaluation e = {.size = sizeof e};
    record seen = {0};
    if (!opened(t, &s)) return;
    const dpt_fit_options fit = {.size = sizeof fit,
                                 .epochs = 4,
                                 .validation = s.data,
                                 .test = s.other_labels,
                                 .patience = 1,
                                 .checkpoint = "last",
                                 .progress = note,
                                 .user = &seen};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK(!r.no_patience);
    CHECK_SIZE(r.epochs, 4);
    CHECK_SIZE(r.best_epoch, 4);
    CHECK_NEAR(r.best_validation_loss, seen.validation_loss[3], 0);
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.other_labels, &e));
    CHECK_NEAR(r.test_loss, e.loss, 0);
    CHECK_OK(dpt_trainer_load(s.trainer, "last/best.safetensors"));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
    CHECK_NEAR(e.loss, r.best_validation_loss, 0);
    close_all(&s);
}

/* Less than an epoch is validated too, so that there is a best epoch in any case. */
static void a_part_of_an_epoch_is_validated(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    if (!opened(t, &s)) return;
    const dpt_fit_options fit = {
        .size = sizeof fit, .max_steps = 2, .validation = s.data, .checkpoint = "part"};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK_SIZE(r.epochs, 0);
    CHECK_SIZE(r.best_epoch, 1);
    CHECK(isfinite(r.best_validation_loss));
    CHECK(access("part/best.safetensors", R_OK) == 0);
    CHECK_OK(dpt_fit(s.trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .max_steps = 2},
                     &r));
    CHECK_SIZE(r.best_epoch, 0);
    CHECK(isnan(r.best_validation_loss));
    close_all(&s);
}

/* Without options it is one epoch, and single steps may have begun it. */
static void an_epoch_that_is_begun_counts(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_fit_result r = {.size = sizeof r};
    if (!opened(t, &s)) return;
    CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_OK(dpt_fit(s.trainer, NULL, &r));
    CHECK_SIZE(r.steps, STEPS_PER_EPOCH - 1);
    CHECK_SIZE(r.epochs, 1);
    CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_SIZE(m.epoch, 2);
    CHECK_OK(
        dpt_fit(s.trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 2}, &r));
    CHECK_SIZE(r.steps, 2 * STEPS_PER_EPOCH - 1);
    CHECK_SIZE(r.epochs, 2);
    close_all(&s);
}

/* ---- Calls from callbacks -------------------------------------------------------------------- */

typedef struct caller {
    test *t;
    setting *s;
    size_t n_steps, n_epochs, n_notices;
} caller;

/* What would disturb the training that calls. */
static void is_refused_training(const caller *c)
{
    test *t = c->t;
    dpt_trainer *trainer = c->s->trainer;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_fit_result r = {.size = sizeof r};
    float values[WEIGHTS] = {0};
    const size_t in_flight = dpt_trainer_in_flight(trainer);
    CHECK_STATUS(dpt_trainer_step(trainer, &m), DPT_E_STATE);
    CHECK_CONTAINS(dpt_error_message(c->s->context), "dpt_trainer_step in a callback of dpt_fit");
    CHECK_STATUS(dpt_trainer_submit(trainer), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_collect(trainer, &m), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_set_lr(trainer, 0.5f), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.weight", values, WEIGHTS),
                 DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_load(trainer, "called.safetensors"), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_load_state(trainer, "called.safetensors"), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_save_state(trainer, "called.safetensors"), DPT_E_STATE);
    CHECK_STATUS(
        dpt_fit(trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 1}, &r),
        DPT_E_STATE);
    CHECK_SIZE(dpt_trainer_in_flight(trainer), in_flight);
}

/* What reads what devices hold. */
static void reads(const caller *c, dpt_status expected)
{
    test *t = c->t;
    setting *s = c->s;
    dpt_evaluation e = {.size = sizeof e};
    float values[WEIGHTS], outputs[CLASSES];
    CHECK_STATUS(dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, "fc.weight", values, WEIGHTS),
                 expected);
    CHECK_STATUS(dpt_trainer_evaluate(s->trainer, s->data, &e), expected);
    CHECK_STATUS(dpt_trainer_predict(s->trainer, s->data, 0, 1, outputs), expected);
    CHECK_STATUS(dpt_trainer_save(s->trainer, "called.safetensors"), expected);
}

static int call_in_progress(const dpt_fit_progress *progress, void *user)
{
    caller *c = user;
    test *t = c->t;
    dpt_device_plan plan = {.size = sizeof plan};
    c->n_steps += progress->step != NULL;
    c->n_epochs += progress->epoch != NULL;
    is_refused_training(c);
    reads(c, progress->epoch ? DPT_OK : DPT_E_STATE);
    CHECK_OK(dpt_trainer_plan(c->s->trainer, 0, &plan));
    if (progress->step) CHECK(dpt_trainer_steps(c->s->trainer) >= progress->step->step);
    return 0;
}

static void call_in_notice(dpt_notice kind, const char *text, void *user)
{
    caller *c = user;
    (void)kind;
    (void)text;
    c->n_notices++;
    is_refused_training(c);
    reads(c, DPT_E_STATE);
}

/* The training is the same as one whose callbacks call nothing. */
static void callbacks_may_read(test *t)
{
    float w[2][WEIGHTS];
    for (size_t i = 0; i < 2; i++) {
        setting s;
        dpt_fit_result r = {.size = sizeof r};
        caller c = {.t = t, .s = &s};
        dpt_fit_options fit = {
            .size = sizeof fit, .epochs = 2, .checkpoint = "called", .resume = true};
        REQUIRE(forget_checkpoints(t, "called", 0) == 0);
        if (!opened(t, &s)) return;
        if (i > 0) {
            fit.progress = call_in_progress;
            fit.notice = call_in_notice;
            fit.user = &c;
        }
        CHECK_OK(dpt_fit(s.trainer, &fit, &r));
        CHECK_SIZE(r.steps, 2 * STEPS_PER_EPOCH);
        weights(t, &s, w[i]);
        if (i > 0) CHECK(c.n_steps == r.steps && c.n_epochs == 2 && c.n_notices > 0);
        CHECK_STATUS(dpt_trainer_set_lr(s.trainer, 0.5f), DPT_OK); /* as before, afterwards */
        close_all(&s);
    }
    CHECK(memcmp(w[0], w[1], sizeof w[0]) == 0);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuses_before_the_first_step(test *t)
{
    setting s;
    if (!opened(t, &s)) return;
    const struct {
        dpt_fit_options options;
        const char *words;
    } cases[] = {
        {{.size = sizeof(dpt_fit_options), .patience = 3}, "patience needs validation data"},
        {{.size = sizeof(dpt_fit_options), .max_seconds = -1}, "a time limit of -1 s"},
        {{.size = sizeof(dpt_fit_options), .max_seconds = NAN}, "a time limit of nan s"},
        {{.size = sizeof(dpt_fit_options), .checkpoint_every = {.seconds = -0.5}},
         "an interval of checkpoints of -0.5 s"},
        {{.size = sizeof(dpt_fit_options), .checkpoint_every = {.seconds = NAN}},
         "an interval of checkpoints of nan s"},
        {{.size = sizeof(dpt_fit_options),
          .max_seconds = 5,
          .schedule = {.kind = DPT_SCHEDULE_COSINE}},
         "the cosine schedule must know how many steps"},
        {{.size = sizeof(dpt_fit_options),
          .max_seconds = 5,
          .schedule = {.kind = DPT_SCHEDULE_ONECYCLE}},
         "the onecycle schedule must know how many steps"},
        {{.size = sizeof(dpt_fit_options), .schedule = {.kind = DPT_SCHEDULE_STEP, .factor = 2}},
         "a schedule's factor of 2"},
        {{.size = sizeof(dpt_fit_options), .validation = s.wide}, "4x8x1"},
        {{.size = sizeof(dpt_fit_options), .test = s.wide}, "4x8x1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpt_fit_options options = cases[i].options;
        dpt_fit_result r = {.size = sizeof r};
        options.log = "refused.jsonl";
        CHECK_STATUS(dpt_fit(s.trainer, &options, &r), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), cases[i].words);
        CHECK_SIZE(dpt_trainer_steps(s.trainer), 0);
        CHECK(access("refused.jsonl", F_OK) != 0);
    }
    close_all(&s);
}

static void null_pointers_are_refused(test *t)
{
    setting s;
    dpt_evaluation e = {.size = sizeof e};
    dpt_step_metrics m = {.size = sizeof m};
    dpt_trainer *trainer = NULL;
    float outputs[CLASSES];
    if (!opened(t, &s)) return;
    CHECK_STATUS(dpt_trainer_create(NULL, s.model, s.data, NULL, &trainer), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_create(s.devices, NULL, s.data, NULL, &trainer), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_create(s.devices, s.model, NULL, NULL, &trainer), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_create(s.devices, s.model, s.data, NULL, NULL), DPT_E_INVALID);
    CHECK(trainer == NULL);
    CHECK_STATUS(dpt_trainer_step(s.trainer, NULL), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "dpt_trainer_step needs its argument out");
    CHECK_STATUS(dpt_fit(s.trainer, NULL, NULL), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_evaluate(s.trainer, NULL, &e), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_evaluate(s.trainer, s.data, NULL), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_predict(s.trainer, NULL, 0, 1, outputs), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_predict(s.trainer, s.data, 0, 1, NULL), DPT_E_INVALID);
    CHECK_OK(dpt_trainer_predict(s.trainer, s.data, 0, 0, NULL));
    CHECK_SIZE(dpt_trainer_steps(s.trainer), 0);
    CHECK_OK(dpt_trainer_submit(s.trainer));
    CHECK_STATUS(dpt_trainer_collect(s.trainer, NULL), DPT_E_INVALID);
    CHECK_OK(dpt_trainer_collect(s.trainer, &m)); /* it is there still */
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"every step has its rate", every_step_has_its_rate},
        {"the rate is back afterwards", the_rate_is_back_afterwards},
        {"a rate may vanish", a_rate_may_vanish},
        {"patience ends training", patience_ends_training},
        {"the best epoch may be the last", the_best_epoch_may_be_the_last},
        {"a part of an epoch is validated", a_part_of_an_epoch_is_validated},
        {"callbacks may read", callbacks_may_read},
        {"null pointers are refused", null_pointers_are_refused},
        {"an epoch that is begun counts", an_epoch_that_is_begun_counts},
        {"refuses before the first step", refuses_before_the_first_step},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
