/* Tests training with every call failing in turn: a failed step has changed nothing or counts, as
   dptrain.h says; the replicas agree; and continuing gives the weights of a run without failures.

   test-fault-trainer fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A failure in the last step's update costs one more step. */
enum { SIDE = 6, COUNT = 22, CLASSES = 3, BATCH = 10, STEPS = 3, MAX_STEPS = STEPS + 1 };

/* What is trained: with batch-norm there are exchanges in the middle of a step, in micro-batches
   there is more than one upload. */
typedef struct variant {
    bool batch_norm;
    size_t micro_batch;
    dpt_optimizer optimizer;
    float momentum, clip_norm;
    const char *split; /* default 1:1 */
} variant;

/* What a healthy run goes through. */
typedef struct trajectory {
    variant variant;
    plant_weights weights[MAX_STEPS + 1]; /* after so many steps */
    double loss[MAX_STEPS + 1];           /* of an evaluation then */
} trajectory;

typedef struct training {
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
} training;

static trajectory *healthy_of(const run *r)
{
    return ((const plant *)r->t->user)->fixture;
}

/* ---- Building -------------------------------------------------------------------------------- */

/* Images whose class shows, without a random number. */
static dpt_status make_data(const run *r, dpt_dataset **out)
{
    return plant_data(r->context, COUNT, SIDE, CLASSES, out);
}

static dpt_value residual_block(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_conv2d(m, x, "conv2",
                                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                                         .out_channels = 4,
                                                         .kernel = {3, 3},
                                                         .padding = {1, 1}});
    return dpt_activate(m, dpt_add(m, dpt_batch_norm(m, y, "bn2", NULL), x), DPT_ACT_RELU);
}

static dpt_status make_model(const run *r, dpt_model **out)
{
    const bool batch_norm = healthy_of(r)->variant.batch_norm;
    DPT_TRY(dpt_model_create(r->context, "small", out));
    dpt_value x = dpt_input(*out, SIDE, SIDE, 1);
    x = dpt_conv2d(*out, x, "conv",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 4,
                                         .kernel = {3, 3},
                                         .activation = batch_norm ? DPT_ACT_NONE : DPT_ACT_RELU});
    if (batch_norm)
        x = residual_block(*out,
                           dpt_batch_norm(*out, x, "bn1",
                                          &(dpt_norm_options){.size = sizeof(dpt_norm_options),
                                                              .activation = DPT_ACT_RELU}));
    x = dpt_pool2d(*out, x,
                   &(dpt_pool2d_options){
                       .size = sizeof(dpt_pool2d_options), .kind = DPT_POOL_MAX, .kernel = {2, 2}});
    x = dpt_linear(*out, dpt_flatten(*out, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES});
    return dpt_model_finish(*out, x);
}

static dpt_status make_trainer(const run *r, training *w)
{
    const variant *v = &healthy_of(r)->variant;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .bucket_bytes = 1, /* as many buckets as can be */
                                         .micro_batch = v->micro_batch,
                                         .split = dpt_split_from(v->split ? v->split : "1:1"),
                                         .optimizer = v->optimizer,
                                         .lr = 0.1f,
                                         .momentum = v->momentum,
                                         .clip_norm = v->clip_norm,
                                         .seed = 5,
                                         .stop_on_loss = true};
    return dpt_trainer_create(r->set, w->model, w->data, &options, &w->trainer);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* One replica holds the weights of the healthy run after the steps that count. */
static void check_weights(const run *r, const training *w, size_t device, const char *when)
{
    test *t = r->t;
    plant_weights now;
    const size_t steps = dpt_trainer_steps(w->trainer);
    REQUIRE(steps <= MAX_STEPS);
    REQUIRE_OK(plant_read_weights(w->model, w->trainer, device, &now));
    if (!CHECK(plant_same_weights(&now, &healthy_of(r)->weights[steps])))
        FAIL("%s: %s, replica %zu has other weights than %zu steps give", r->devices, when, device,
             steps);
}

/* Evaluation repairs what a failed update left, and sees the same weights everywhere. */
static void check_evaluation(run *r, const training *w, const char *when)
{
    test *t = r->t;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    const size_t steps = dpt_trainer_steps(w->trainer);
    REQUIRE(steps <= MAX_STEPS);
    if (!plant_succeeded(r, dpt_trainer_evaluate(w->trainer, w->data, &evaluation), when)) return;
    CHECK_SIZE(evaluation.samples, COUNT);
    if (!CHECK_NEAR(evaluation.loss, healthy_of(r)->loss[steps], 0.0))
        FAIL("%s: %s, the loss is not that of %zu steps", r->devices, when, steps);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* After a failed call: what is there is what dptrain.h promises. */
static void check_failed_step(run *r, training *w, size_t before)
{
    test *t = r->t;
    const size_t steps = dpt_trainer_steps(w->trainer);
    CHECK_SIZE(dpt_trainer_in_flight(w->trainer), 0);
    CHECK(steps == before || steps == before + 1);
    check_weights(r, w, r->survivor, "after a failed step");
    if (r->lost) return;
    check_evaluation(r, w, "evaluation after a failed step");
    check_weights(r, w, 1 - r->survivor, "after a failed step and an evaluation");
}

/* Trains until STEPS count and the last call was good.  False if the device is gone. */
static bool train_on(run *r, training *w)
{
    test *t = r->t;
    bool good = false;
    for (int attempts = 0; attempts < 2 * MAX_STEPS; attempts++) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        const size_t before = dpt_trainer_steps(w->trainer);
        if (good && before >= STEPS) return true;
        good = plant_succeeded(r, dpt_trainer_step(w->trainer, &metrics), "dpt_trainer_step");
        if (good) {
            CHECK_SIZE(metrics.step, before + 1);
            CHECK_SIZE(dpt_trainer_steps(w->trainer), before + 1);
            check_weights(r, w, r->survivor, "after a step");
        } else {
            check_failed_step(r, w, before);
            if (r->lost) return false;
        }
    }
    FAIL("%s: training does not go on", r->devices);
    return false;
}

/* What is in flight may fail in one call and be told of by a later one. */
static bool went_well(run *r, dpt_status status, const char *what)
{
    return status == DPT_OK || plant_succeeded(r, status, what);
}

/* The same with two steps in flight: what is behind a step that failed must not count either. */
static bool train_ahead(run *r, training *w)
{
    test *t = r->t;
    for (int attempts = 0; attempts < 2 * MAX_STEPS; attempts++) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        const size_t before = dpt_trainer_steps(w->trainer);
        if (before >= STEPS) return true;
        bool good = true;
        for (size_t n = dpt_trainer_in_flight(w->trainer); good && n < 2 && before + n < STEPS; n++)
            good = went_well(r, dpt_trainer_submit(w->trainer), "dpt_trainer_submit");
        if (good && went_well(r, dpt_trainer_collect(w->trainer, &metrics), "dpt_trainer_collect"))
            CHECK_SIZE(metrics.step, before + 1);
        else
            check_failed_step(r, w, before);
        if (r->lost && r->failed) return false;
    }
    FAIL("%s: training with steps in flight does not go on", r->devices);
    return false;
}

/* After a call that writes weights: the replicas agree, whether or not it failed, and the one that
   did not fail has the new ones if any was written to. */
static void check_agreement(run *r, training *w, const char *when)
{
    test *t = r->t;
    plant_weights first, second;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    if (!plant_succeeded(r, dpt_trainer_evaluate(w->trainer, w->data, &evaluation), when)) return;
    if (plant_succeeded(r, plant_read_weights(w->model, w->trainer, 1 - r->survivor, &first),
                        "dpt_trainer_get") &&
        CHECK_OK(plant_read_weights(w->model, w->trainer, r->survivor, &second)) &&
        !CHECK(plant_same_weights(&first, &second)))
        FAIL("%s: the replicas disagree after %s", r->devices, when);
}

static void write_tensor(run *r, training *w)
{
    test *t = r->t;
    const float ones[CLASSES] = {1, 1, 1};
    float seen[CLASSES] = {0};
    const bool written = plant_succeeded(
        r, dpt_trainer_set(w->trainer, DPT_PARAMETER, "fc.bias", ones, CLASSES), "dpt_trainer_set");
    if (!r->lost || written) check_agreement(r, w, "dpt_trainer_set");
    CHECK_OK(dpt_trainer_get(w->trainer, r->survivor, DPT_PARAMETER, "fc.bias", seen, CLASSES));
    if (written) CHECK(memcmp(seen, ones, sizeof ones) == 0);
}

static void load(run *r, training *w)
{
    test *t = r->t;
    plant_weights now;
    const bool loaded =
        plant_succeeded(r, dpt_trainer_load(w->trainer, "initial.safetensors"), "loading");
    if (!r->lost || loaded) check_agreement(r, w, "loading");
    if (CHECK_OK(plant_read_weights(w->model, w->trainer, r->survivor, &now)))
        CHECK(plant_same_weights(&now, &healthy_of(r)->weights[0]));
}

/* Everything else that one does with a trainer. */
static void use(run *r, training *w)
{
    test *t = r->t;
    check_evaluation(r, w, "evaluation");
    check_weights(r, w, r->survivor, "after an evaluation");
    const dpt_status saved = dpt_trainer_save(w->trainer, "trained.safetensors");
    if (r->lost)
        CHECK_OK(saved); /* from the other device */
    else
        (void)plant_succeeded(r, saved, "saving");
    check_weights(r, w, r->survivor, "after saving");
    write_tensor(r, w);
    load(r, w);
}

static void with_training(run *r, void (*work)(run *r, training *w))
{
    test *t = r->t;
    training w = {.model = NULL};
    if (CHECK_OK(make_data(r, &w.data)) && CHECK_OK(make_model(r, &w.model)) &&
        plant_succeeded(r, make_trainer(r, &w), "dpt_trainer_create"))
        work(r, &w);
    dpt_trainer_destroy(w.trainer);
    dpt_model_destroy(w.model);
    dpt_dataset_destroy(w.data);
}

/* What was learned outlives the device: it is saved from the other one. */
static void save_what_is_left(run *r, training *w)
{
    test *t = r->t;
    if (!CHECK_OK(dpt_trainer_save(w->trainer, "left.safetensors")))
        FAIL("%s: %s", r->devices, dpt_error_message(r->context));
    CHECK_STATUS(dpt_trainer_load(w->trainer, "initial.safetensors"), DPT_E_DEVICE_LOST);
    CHECK_STATUS(dpt_trainer_load(w->trainer, "left.safetensors"), DPT_E_DEVICE_LOST);
    check_weights(r, w, r->survivor, "after saving and loading without the lost device");
}

static void train_and_use(run *r, training *w)
{
    if (train_on(r, w))
        use(r, w);
    else if (r->lost)
        save_what_is_left(r, w);
}

static void ahead(run *r, training *w)
{
    if (train_ahead(r, w)) check_weights(r, w, r->survivor, "after steps in flight");
}

static void ahead_body(run *r)
{
    with_training(r, ahead);
}

static void trainer_body(run *r)
{
    with_training(r, train_and_use);
}

/* ---- Two of three devices fail --------------------------------------------------------------- */

/* The first is lost at a call, the second fails one `run`; the third stays well. */
typedef struct two_failures {
    size_t lost_call, failed_run;
    bool trained; /* it came to a step */
    bool missed;  /* the step counts, and a device has failed in it */
    bool well;    /* the last call was good */
} two_failures;

static void check_device_failure(const run *r, dpt_status status, const char *what)
{
    test *t = r->t;
    if (status != DPT_OK && status != DPT_E_DEVICE && status != DPT_E_DEVICE_LOST)
        FAIL("%s: %s gives %s: %s", r->devices, what, dpt_status_name(status),
             dpt_error_message(r->context));
}

/* A replica that has missed an update is repaired from one that is there, and what was learned can
   be saved, whoever else is lost. */
static void step_and_repair(run *r, const training *w, two_failures *f)
{
    test *t = r->t;
    dpt_step_metrics metrics = {.size = sizeof metrics};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    plant_weights second, third;
    dpt_status status = dpt_trainer_step(w->trainer, &metrics);
    check_device_failure(r, status, "dpt_trainer_step");
    f->trained = true;
    f->missed = status != DPT_OK && dpt_trainer_steps(w->trainer) == 1;
    for (int i = 0; i < 2; i++) {
        status = dpt_trainer_evaluate(w->trainer, w->data, &evaluation);
        check_device_failure(r, status, "dpt_trainer_evaluate");
    }
    f->well = status == DPT_OK;
    if (!CHECK_OK(plant_read_weights(w->model, w->trainer, 1, &second)) ||
        !CHECK_OK(plant_read_weights(w->model, w->trainer, 2, &third)))
        return;
    if (!CHECK(plant_same_weights(&second, &third)))
        FAIL("%s: the second replica is not repaired", r->devices);
    if (!CHECK_OK(dpt_trainer_save(w->trainer, "left.safetensors")))
        FAIL("%s: %s", r->devices, dpt_error_message(r->context));
}

static void fail_two(test *t, two_failures *f)
{
    const plant *p = t->user;
    char devices[160];
    snprintf(devices, sizeof devices,
             "%s:threads=1:lost=%zu,%s:threads=1:entry=run:fail=%zu,cpu:threads=1", p->backend,
             f->lost_call, p->backend, f->failed_run);
    run r = {.t = t, .devices = devices, .backend = p->backend, .survivor = 2, .lost = true};
    training w = {.model = NULL};
    f->trained = f->missed = f->well = false;
    (void)alarm(120); /* nothing may hang */
    REQUIRE_OK(dpt_context_create(&r.context));
    if (dpt_device_set_open(r.context, devices, &r.set) == DPT_OK &&
        CHECK_OK(make_data(&r, &w.data)) && CHECK_OK(make_model(&r, &w.model)) &&
        make_trainer(&r, &w) == DPT_OK)
        step_and_repair(&r, &w, f);
    dpt_trainer_destroy(w.trainer);
    dpt_model_destroy(w.model);
    dpt_dataset_destroy(w.data);
    dpt_device_set_close(r.set);
    dpt_context_destroy(r.context);
    (void)alarm(0);
}

/* First the run is looked for that makes the second device miss the update; then the first device
   is lost at each call in turn, before, within and after the repair. */
static void repaired_beside_a_lost_one(test *t)
{
    enum { NEVER = 1000000000, MAX_RUNS = 200, MAX_CALLS = 5000 };
    two_failures f = {.lost_call = NEVER, .failed_run = 1};
    ((trajectory *)((plant *)t->user)->fixture)->variant =
        (variant){.momentum = 0.9f, .split = "1:1:1"};
    for (; f.failed_run < MAX_RUNS && !f.missed && t->n_failures == 0; f.failed_run++)
        fail_two(t, &f);
    REQUIRE(f.missed);
    f.failed_run--;
    size_t n_trained = 0;
    f.well = false;
    for (f.lost_call = 1; f.lost_call < MAX_CALLS && !f.well && t->n_failures < 5; f.lost_call++) {
        fail_two(t, &f);
        n_trained += f.trained;
    }
    printf("  run %zu missed; lost at %zu calls in turn, %zu of them in training\n", f.failed_run,
           f.lost_call - 2, n_trained - 1);
    CHECK(f.well && n_trained > 20);
}

/* ---- What evaluation binds ------------------------------------------------------------------- */

static dpt_status evaluate_on(const training *w, const dpt_dataset *data, double *loss)
{
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    DPT_TRY(dpt_trainer_evaluate(w->trainer, data, &evaluation));
    *loss = evaluation.loss;
    return DPT_OK;
}

/* With the n-th `prepare` failing.  True if that is the first one after a trainer is made and two
   data sets are evaluated on: then they can be, in turn, as often as one likes, and nothing more is
   prepared until there is a third. */
static bool evaluate_in_turn(run *r, training *w, dpt_dataset *const data[3])
{
    test *t = r->t;
    double first[2], now = NAN;
    if (make_trainer(r, w) != DPT_OK || evaluate_on(w, data[0], &first[0]) != DPT_OK ||
        evaluate_on(w, data[1], &first[1]) != DPT_OK)
        return false;
    for (size_t i = 0; i < 6; i++)
        if (CHECK_OK(evaluate_on(w, data[i % 2], &now))) CHECK_NEAR(now, first[i % 2], 0.0);
    CHECK_STATUS(evaluate_on(w, data[2], &now), DPT_E_DEVICE);
    CHECK_CONTAINS(dpt_error_message(r->context), "prepare");
    /* The one that was used last is still there; what failed is made anew. */
    if (CHECK_OK(evaluate_on(w, data[1], &now))) CHECK_NEAR(now, first[1], 0.0);
    if (CHECK_OK(evaluate_on(w, data[2], &now))) CHECK_NEAR(now, first[0], 0.0);
    if (CHECK_OK(evaluate_on(w, data[0], &now))) CHECK_NEAR(now, first[0], 0.0);
    return true;
}

static void two_stay_bound(test *t)
{
    enum { MAX_PREPARES = 200 };
    const plant *p = t->user;
    bool reached = false;
    ((trajectory *)p->fixture)->variant = (variant){.momentum = 0.9f, .split = "1"};
    for (size_t n = 1; n < MAX_PREPARES && !reached && t->n_failures == 0; n++) {
        char devices[96];
        snprintf(devices, sizeof devices, "%s:threads=1:entry=prepare:fail=%zu", p->backend, n);
        run r = {.t = t, .devices = devices, .backend = p->backend};
        training w = {.model = NULL};
        dpt_dataset *data[3] = {NULL};
        REQUIRE_OK(dpt_context_create(&r.context));
        if (CHECK_OK(dpt_device_set_open(r.context, devices, &r.set)) &&
            CHECK_OK(make_model(&r, &w.model)) && CHECK_OK(make_data(&r, &data[0])) &&
            CHECK_OK(make_data(&r, &data[1])) && CHECK_OK(make_data(&r, &data[2]))) {
            w.data = data[0];
            reached = evaluate_in_turn(&r, &w, data);
        }
        dpt_trainer_destroy(w.trainer);
        for (size_t i = 0; i < 3; i++)
            dpt_dataset_destroy(data[i]);
        dpt_model_destroy(w.model);
        dpt_device_set_close(r.set);
        dpt_context_destroy(r.context);
    }
    CHECK(reached);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void record(run *r, training *w)
{
    test *t = r->t;
    trajectory *healthy = healthy_of(r);
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    dpt_step_metrics metrics = {.size = sizeof metrics};
    REQUIRE_OK(dpt_trainer_save(w->trainer, "initial.safetensors"));
    for (size_t i = 0; i <= MAX_STEPS; i++) {
        if (i > 0) REQUIRE_OK(dpt_trainer_step(w->trainer, &metrics));
        REQUIRE_OK(plant_read_weights(w->model, w->trainer, r->survivor, &healthy->weights[i]));
        REQUIRE_OK(dpt_trainer_evaluate(w->trainer, w->data, &evaluation));
        CHECK(isfinite(evaluation.loss));
        healthy->loss[i] = evaluation.loss;
        if (i > 0) CHECK(!plant_same_weights(&healthy->weights[i], &healthy->weights[i - 1]));
    }
}

static void record_body(run *r)
{
    with_training(r, record);
}

/* First a run in which nothing fails, on the same devices, then all the others. */
static void fail_everywhere(test *t, const variant *v, const char *never, const plant_list *list,
                            run_body *body)
{
    const size_t beyond = 1000000000;
    ((trajectory *)((plant *)t->user)->fixture)->variant = *v;
    REQUIRE(!plant_once(t, &(plant_list){never, list->survivor}, beyond, record_body));
    REQUIRE(t->n_failures == 0);
    plant_everywhere(t, list, body);
}

static const variant plain = {.momentum = 0.9f};
static const variant exchanging = {
    .batch_norm = true, .optimizer = DPT_OPTIMIZER_ADAMW, .clip_norm = 0.5f};
static const variant in_micro_batches = {.batch_norm = true, .micro_batch = 3, .momentum = 0.9f};

static const plant_list fail_first = {"%s:threads=1:fail=%zu,cpu:threads=1", 1};
static const plant_list fail_second = {"cpu:threads=1,%s:threads=1:fail=%zu", 0};
static const plant_list fail_late = {"%s:threads=1:late=1:fail=%zu,cpu:threads=1", 1};
static const plant_list lose_first = {"%s:threads=1:lost=%zu,cpu:threads=1", 1};

static void trainer_fail(test *t)
{
    fail_everywhere(t, &plain, fail_first.format, &fail_first, trainer_body);
}

static void trainer_fail_second(test *t)
{
    fail_everywhere(t, &plain, fail_second.format, &fail_second, trainer_body);
}

static void trainer_lost(test *t)
{
    fail_everywhere(t, &plain, fail_first.format, &lose_first, trainer_body);
}

static void trainer_fail_ahead(test *t)
{
    fail_everywhere(t, &plain, fail_first.format, &fail_first, ahead_body);
}

static void batch_norm_fail_ahead(test *t)
{
    fail_everywhere(t, &exchanging, fail_second.format, &fail_second, ahead_body);
}

static void late_recording_fails(test *t)
{
    if (strcmp(((const plant *)t->user)->backend, "faultstaged") == 0) SKIP("it does not record");
    fail_everywhere(t, &exchanging, fail_late.format, &fail_late, trainer_body);
}

static void batch_norm_fail(test *t)
{
    fail_everywhere(t, &exchanging, fail_first.format, &fail_first, trainer_body);
}

static void batch_norm_fail_second(test *t)
{
    fail_everywhere(t, &exchanging, fail_second.format, &fail_second, trainer_body);
}

static void batch_norm_lost(test *t)
{
    fail_everywhere(t, &exchanging, fail_first.format, &lose_first, trainer_body);
}

static void micro_batches_fail(test *t)
{
    fail_everywhere(t, &in_micro_batches, fail_second.format, &fail_second, trainer_body);
}

/* What a device does not record runs directly, to the same weights, and it is asked once for every
   segment and size: after some steps of both sizes, and evaluations, never again. */
static void refused(run *r, training *w)
{
    test *t = r->t;
    dpt_step_metrics metrics = {.size = sizeof metrics};
    if (!train_on(r, w)) return;
    check_evaluation(r, w, "evaluation");
    for (size_t i = 0; i < 6; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &metrics));
    const size_t n_refused = plant_count("refused");
    for (size_t i = 0; i < 6; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &metrics));
    CHECK(n_refused > 0 && plant_count("refused") == n_refused);
}

static void refused_body(run *r)
{
    with_training(r, refused);
}

static void recordings_refused(test *t)
{
    const plant *p = t->user;
    const char *const what[] = {"begin", "run", "end"};
    const size_t never = 1000000000;
    if (strcmp(p->backend, "faultstaged") == 0) SKIP("it does not record");
    ((trajectory *)p->fixture)->variant = exchanging;
    REQUIRE(!plant_once(t, &fail_first, never, record_body));
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        char format[80];
        snprintf(format, sizeof format, "%%s:threads=1:late=1:refuses=%s:fail=%%zu,cpu:threads=1",
                 what[i]);
        CHECK(!plant_once(t, &(plant_list){format, 1}, never, refused_body));
        snprintf(format, sizeof format, "%%s:threads=1:refuses=%s:fail=%%zu,cpu:threads=1",
                 what[i]);
        CHECK(!plant_once(t, &(plant_list){format, 1}, never, refused_body));
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trainer_fail", trainer_fail},
        {"trainer_fail_second", trainer_fail_second},
        {"trainer_lost", trainer_lost},
        {"batch_norm_fail", batch_norm_fail},
        {"batch_norm_fail_second", batch_norm_fail_second},
        {"batch_norm_lost", batch_norm_lost},
        {"batch_norm_fail_ahead", batch_norm_fail_ahead},
        {"micro_batches_fail", micro_batches_fail},
        {"trainer_fail_ahead", trainer_fail_ahead},
        {"recordings_refused", recordings_refused},
        {"late_recording_fails", late_recording_fails},
        {"repaired_beside_a_lost_one", repaired_beside_a_lost_one},
        {"two_stay_bound", two_stay_bound},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-trainer fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1], .fixture = calloc(1, sizeof(trajectory))};
    if (!p.fixture) return 1;
    const int result =
        test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
    free(p.fixture);
    return result;
}
