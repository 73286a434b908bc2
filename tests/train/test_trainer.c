/* Tests the trainer's contract: failures that leave everything unchanged, refused calls and their
   messages, files and limits of the training loop. */
#include "harness.h"
#include "io/log.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, BATCH = 32, FC2 = 1280 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static dpt_status open_all(setting *s, const char *devices, const dpt_trainer_options *options)
{
    image_set images;
    const dpt_model_shape shape = {28, 28, 1, 10};
    *s = (setting){0};
    if (!images_create(COUNT, 3, &images)) return DPT_E_NO_MEMORY;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .outputs = 10,
                                       .dtype = DPT_U8,
                                       .images = images.pixels,
                                       .labels = images.labels};
    dpt_status status = dpt_context_create(&s->context);
    if (status == DPT_OK) status = dpt_dataset_from_memory(s->context, &memory, &s->data);
    images_free(&images);
    if (status == DPT_OK) status = dpt_device_set_open(s->context, devices, &s->devices);
    if (status == DPT_OK) status = dpt_model_by_name(s->context, "lenet", &shape, &s->model);
    if (status != DPT_OK) return status;
    return dpt_trainer_create(s->devices, s->model, s->data, options, &s->trainer);
}

static void close_all(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static bool opened(test *t, setting *s, const char *devices, const dpt_trainer_options *options)
{
    const dpt_status status = open_all(s, devices, options);
    if (CHECK_OK(status)) return true;
    FAIL("%s", s->context ? dpt_error_message(s->context) : "no context");
    close_all(s);
    return false;
}

/* Of options that are left out, where the data are smaller than the usual batch. */
static void defaults(test *t)
{
    static const dpt_trainer_options adamw = {.size = sizeof adamw,
                                              .optimizer = DPT_OPTIMIZER_ADAMW};
    const dpt_trainer_options *const all[] = {NULL, &adamw};
    static const double rates[] = {0.1, 0.001};
    for (size_t i = 0; i < 2; i++) {
        setting s;
        dpt_step_metrics m = {.size = sizeof m};
        if (!opened(t, &s, "cpu", all[i])) return;
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_SIZE(m.samples, COUNT);
        CHECK_NEAR(m.lr, rates[i], 1e-8);
        close_all(&s);
    }
}

static void weights(test *t, setting *s, size_t device, float *out)
{
    CHECK_OK(dpt_trainer_get(s->trainer, device, DPT_PARAMETER, "fc2.weight", out, FC2));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void steps_walk_through_epochs(test *t)
{
    setting s;
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    for (size_t step = 1; step <= 9; step++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_SIZE(m.step, step);
        CHECK_SIZE(m.epoch, (step - 1) / 4 + 1);
        CHECK_SIZE(m.samples, step % 4 ? 32 : 4);
        CHECK(m.last_of_epoch == (step % 4 == 0));
        CHECK(m.hits <= m.samples && m.seconds >= 0 && m.device_seconds[0] > 0);
        CHECK_SIZE(dpt_trainer_steps(s.trainer), step);
    }
    close_all(&s);
}

/* Busy, exchanging and waiting, and the report that sums them, with a split that measures nothing.
 */
static void times_are_told(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_report d = {.size = sizeof d};
    dpt_mix_report mix = {.size = sizeof mix};
    double sums[3] = {0, 0, 0}, seconds = 0;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .split = {DPT_SPLIT_PROPORTIONS, "1:1"}};
    if (!opened(t, &s, "cpu:threads=1,cpu:threads=1:throttle=8", &options)) return;
    for (int step = 0; step < 4; step++) { /* an epoch: 32, 32, 32, 4 */
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        for (int i = 0; i < 2; i++) {
            CHECK(m.exchange_seconds[i] > 0 && m.exchange_seconds[i] < m.device_seconds[i]);
            CHECK(m.waiting_seconds[i] > 0);
            CHECK(m.device_seconds[i] + m.waiting_seconds[i] <= m.seconds);
        }
        if (step == 0) continue; /* not in the report */
        sums[0] += m.device_seconds[0];
        sums[1] += m.exchange_seconds[0];
        sums[2] += m.waiting_seconds[0];
        seconds += m.seconds;
    }
    CHECK_OK(dpt_trainer_device_report(s.trainer, 0, &d));
    CHECK(d.samples == 34 && d.steps == 3);
    CHECK_NEAR(d.busy_seconds, sums[0], 1e-9);
    CHECK_NEAR(d.exchange_seconds, sums[1], 1e-9);
    CHECK_NEAR(d.waiting_seconds, sums[2], 1e-9);
    CHECK(d.throughput > 0 && d.alone_throughput > 0);
    CHECK_OK(dpt_trainer_mix_report(s.trainer, &mix));
    CHECK(mix.steps == 3 && mix.samples == 68);
    CHECK_NEAR(mix.seconds, seconds, 1e-9);
    CHECK(mix.balance > 0 && mix.balance < 1 && mix.scaling > 0);
    CHECK_STATUS(dpt_trainer_device_report(s.trainer, 2, &d), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "device 2 of 2");
    close_all(&s);
}

static void two_in_flight(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m}, n = {.size = sizeof n};
    float a[FC2], b[FC2];
    if (!opened(t, &s, "cpu,cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    CHECK_STATUS(dpt_trainer_collect(s.trainer, &m), DPT_E_STATE);
    CHECK_OK(dpt_trainer_submit(s.trainer));
    CHECK_OK(dpt_trainer_submit(s.trainer));
    CHECK_STATUS(dpt_trainer_submit(s.trainer), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_step(s.trainer, &m), DPT_E_STATE);
    CHECK_STATUS(dpt_trainer_save(s.trainer, "never"), DPT_E_STATE);
    CHECK_SIZE(dpt_trainer_in_flight(s.trainer), 2);
    CHECK_OK(dpt_trainer_collect(s.trainer, &m));
    CHECK_OK(dpt_trainer_submit(s.trainer));
    CHECK_OK(dpt_trainer_collect(s.trainer, &n));
    CHECK_SIZE(m.step, 1);
    CHECK_SIZE(n.step, 2);
    CHECK_SIZE(m.shards[0] + m.shards[1], 32);
    CHECK_OK(dpt_trainer_collect(s.trainer, &n));
    weights(t, &s, 0, a);
    weights(t, &s, 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    close_all(&s);
}

/* Pipelined steps and single steps are the same training. */
static void pipelining_changes_nothing(test *t)
{
    setting s, p;
    dpt_step_metrics m = {.size = sizeof m};
    float a[FC2], b[FC2];
    const dpt_trainer_options o = {.size = sizeof o, .batch_size = BATCH, .momentum = 0.9f};
    if (!opened(t, &s, "cpu", &o)) return;
    if (!opened(t, &p, "cpu", &o)) return;
    for (int i = 0; i < 10; i++)
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_OK(dpt_trainer_submit(p.trainer));
    for (int i = 1; i < 10; i++) {
        CHECK_OK(dpt_trainer_submit(p.trainer));
        CHECK_OK(dpt_trainer_collect(p.trainer, &m));
    }
    CHECK_OK(dpt_trainer_collect(p.trainer, &m));
    weights(t, &s, 0, a);
    weights(t, &p, 0, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    close_all(&s);
    close_all(&p);
}

static void a_loss_that_is_not_finite_changes_nothing(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    float before[FC2], after[FC2], poisoned[FC2];
    if (!opened(t, &s, "cpu,cpu",
                &(dpt_trainer_options){
                    .size = sizeof(dpt_trainer_options), .batch_size = BATCH, .momentum = 0.9f}))
        return;
    CHECK_OK(dpt_trainer_step(s.trainer, &m));
    weights(t, &s, 0, before);
    memcpy(poisoned, before, sizeof poisoned);
    poisoned[5] = NAN;
    CHECK_OK(dpt_trainer_set(s.trainer, DPT_PARAMETER, "fc2.weight", poisoned, FC2));
    CHECK_STATUS(dpt_trainer_step(s.trainer, &m), DPT_E_NOT_FINITE);
    CHECK_CONTAINS(dpt_error_message(s.context), "step 2");
    CHECK_CONTAINS(dpt_error_message(s.context), "learning rate");
    CHECK_SIZE(dpt_trainer_steps(s.trainer), 1);
    weights(t, &s, 1, after);
    CHECK(memcmp(after, poisoned, sizeof after) == 0);
    /* With the weights repaired the same batch is tried again. */
    CHECK_OK(dpt_trainer_set(s.trainer, DPT_PARAMETER, "fc2.weight", before, FC2));
    CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_SIZE(m.step, 2);
    close_all(&s);
}

/* A device that fails during the update misses it; it is restored from the others. */
static void an_evaluation_that_is_not_finite_is_told(test *t)
{
    setting s;
    float a[FC2];
    dpt_evaluation e = {.size = sizeof e, .samples = 1};
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    weights(t, &s, 0, a);
    a[3] = NAN;
    CHECK_OK(dpt_trainer_set(s.trainer, DPT_PARAMETER, "fc2.weight", a, FC2));
    CHECK_STATUS(dpt_trainer_evaluate(s.trainer, s.data, &e), DPT_E_NOT_FINITE);
    CHECK_CONTAINS(dpt_error_message(s.context), "lower the learning rate");
    CHECK_SIZE(e.samples, 1);
    a[3] = 0;
    CHECK_OK(dpt_trainer_set(s.trainer, DPT_PARAMETER, "fc2.weight", a, FC2));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
    close_all(&s);
}

static void a_missed_update_is_repaired(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    float before[FC2], a[FC2], b[FC2];
    size_t n_repaired = 0;
    for (int call = 1; call < 400; call++) {
        char devices[64];
        snprintf(devices, sizeof devices, "faultstaged:fail=%d:entry=run,cpu:threads=1", call);
        const dpt_trainer_options options = {
            .size = sizeof options, .batch_size = BATCH, .momentum = 0.9f, .stop_on_loss = true};
        if (open_all(&s, devices, &options) != DPT_OK) {
            FAIL("%s", dpt_error_message(s.context));
            close_all(&s);
            return;
        }
        dpt_status status = DPT_OK;
        size_t step = 0;
        for (; step < 3 && status == DPT_OK; step++) {
            weights(t, &s, 1, before);
            status = dpt_trainer_step(s.trainer, &m);
        }
        if (status == DPT_OK) {
            close_all(&s);
            break;
        }
        CHECK_STATUS(status, DPT_E_DEVICE);
        CHECK_CONTAINS(dpt_error_message(s.context), "faultstaged");
        const bool counted = dpt_trainer_steps(s.trainer) == step;
        weights(t, &s, 1, a);
        CHECK((memcmp(a, before, sizeof a) == 0) == !counted);
        n_repaired += counted;
        /* It goes on where it stood, and the replicas agree again. */
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_SIZE(m.step, counted ? step + 1 : step);
        weights(t, &s, 0, a);
        weights(t, &s, 1, b);
        CHECK(memcmp(a, b, sizeof a) == 0);
        close_all(&s);
    }
    CHECK(n_repaired > 0);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuse(test *t, const dpt_trainer_options *options, const char *part)
{
    setting s;
    CHECK_STATUS(open_all(&s, "cpu,cpu", options), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), part);
    close_all(&s);
}

static void bad_options(test *t)
{
    refuse(t, &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = COUNT + 1},
           "batch");
    refuse(t,
           &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = 8, .lr = -1},
           "learning rate");
    refuse(t,
           &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = 8, .lr = NAN},
           "learning rate");
    refuse(
        t,
        &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = 8, .momentum = 1},
        "momentum");
    refuse(t,
           &(dpt_trainer_options){
               .size = sizeof(dpt_trainer_options), .batch_size = 8, .weight_decay = NAN},
           "weight decay");
    refuse(t,
           &(dpt_trainer_options){
               .size = sizeof(dpt_trainer_options), .batch_size = 8, .nesterov = true},
           "momentum");
    refuse(t,
           &(dpt_trainer_options){
               .size = sizeof(dpt_trainer_options), .batch_size = 8, .init = {(dpt_init_kind)9, 0}},
           "initial weights");
    refuse(t,
           &(dpt_trainer_options){
               .size = sizeof(dpt_trainer_options), .batch_size = 8, .init = {DPT_INIT_NORMAL, 0}},
           "deviation");
    refuse(t,
           &(dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                  .batch_size = 8,
                                  .split = {DPT_SPLIT_PROPORTIONS, "1:2:3"}},
           "2");
    refuse(t,
           &(dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                  .batch_size = 8,
                                  .split = {DPT_SPLIT_PROPORTIONS, "0:0"}},
           "0");
    refuse(t,
           &(dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                  .batch_size = 8,
                                  .split = {DPT_SPLIT_PROPORTIONS, "even"}},
           "equal");
}

static void what_is_not_there(test *t)
{
    setting s;
    dpt_trainer *none = NULL;
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    CHECK_STATUS(dpt_trainer_create(s.devices, NULL, s.data, NULL, &none), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_create(s.devices, s.model, NULL, NULL, &none), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "needs a model and data");
    CHECK(none == NULL && dpt_trainer_device_bytes(s.trainer, 0) > 0);
    CHECK_SIZE(dpt_trainer_device_bytes(s.trainer, 1), 0);
    dpt_parameter_info info = {.size = sizeof info, .elements = 1};
    dpt_model_tensor(s.model, dpt_model_tensor_count(s.model), &info);
    CHECK(info.name == NULL && info.elements == 0);
    close_all(&s);
}

static void small_memory_is_said(test *t)
{
    setting s;
    const dpt_trainer_options o = {.size = sizeof o, .batch_size = BATCH};
    CHECK_STATUS(open_all(&s, "cpu:memory=1M", &o), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(s.context), "memory=1M");
    close_all(&s);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static void save_and_load(test *t)
{
    setting s, other;
    dpt_step_metrics m = {.size = sizeof m};
    float a[FC2], b[FC2];
    dpt_evaluation x = {.size = sizeof x}, y = {.size = sizeof y};
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    for (int i = 0; i < 5; i++)
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_OK(dpt_trainer_save(s.trainer, "weights.safetensors"));
    CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &x));
    if (!opened(t, &other, "cpu:threads=1,cpu:threads=1",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                       .batch_size = BATCH,
                                       .seed = 9,
                                       .split = {DPT_SPLIT_PROPORTIONS, "3:1"}}))
        return;
    CHECK_OK(dpt_trainer_load(other.trainer, "weights.safetensors"));
    CHECK_OK(dpt_trainer_evaluate(other.trainer, other.data, &y));
    weights(t, &s, 0, a);
    weights(t, &other, 1, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK_SIZE(y.samples, COUNT);
    CHECK_SIZE(y.hits, x.hits);
    CHECK_NEAR(y.loss, x.loss, 1e-5);
    close_all(&other);
    close_all(&s);
}

/* Loaded weights are not pushed on by what the optimizer was about to do to the old ones. */
static void loading_stops_the_momentum(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    float v[FC2];
    double before = 0, after = 0;
    if (!opened(t, &s, "cpu,cpu",
                &(dpt_trainer_options){
                    .size = sizeof(dpt_trainer_options), .batch_size = BATCH, .momentum = 0.9f}))
        return;
    CHECK_OK(dpt_trainer_save(s.trainer, "start.safetensors"));
    CHECK_OK(dpt_trainer_step(s.trainer, &m));
    CHECK_OK(dpt_trainer_get(s.trainer, 1, DPT_VELOCITY, "fc2.weight", v, FC2));
    for (size_t i = 0; i < FC2; i++)
        before += fabs((double)v[i]);
    CHECK(before > 0);
    CHECK_OK(dpt_trainer_load(s.trainer, "start.safetensors"));
    CHECK_OK(dpt_trainer_get(s.trainer, 1, DPT_VELOCITY, "fc2.weight", v, FC2));
    for (size_t i = 0; i < FC2; i++)
        after += fabs((double)v[i]);
    CHECK_NEAR(after, 0, 0);
    close_all(&s);
}

static void wrong_checkpoints_change_nothing(test *t)
{
    setting s;
    float a[FC2], b[FC2];
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    CHECK_OK(dpt_trainer_save(s.trainer, "whole.safetensors"));
    weights(t, &s, 0, a);
    CHECK_STATUS(dpt_trainer_load(s.trainer, "missing.safetensors"), DPT_E_NOT_FOUND);
    CHECK_OK(truncate("whole.safetensors", 5000) == 0 ? DPT_OK : DPT_E_IO);
    CHECK_STATUS(dpt_trainer_load(s.trainer, "whole.safetensors"), DPT_E_FORMAT);
    weights(t, &s, 0, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    close_all(&s);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static int stop_at_seven(const dpt_fit_progress *progress, void *user)
{
    (void)user;
    return progress->step && progress->steps_done == 7;
}

static void fit_writes_and_replays(test *t)
{
    setting s, again;
    dpt_fit_result r = {.size = sizeof r};
    float a[FC2], b[FC2];
    dpti_replay replay = {0};
    dpt_trainer_options o = {.size = sizeof o,
                             .batch_size = BATCH,
                             .split = {DPT_SPLIT_PROPORTIONS, "2:1"},
                             .momentum = 0.9f};
    const char *devices = "cpu:threads=1,cpu:threads=1";
    if (!opened(t, &s, devices, &o)) return;
    const dpt_fit_options fit = {.size = sizeof fit,
                                 .epochs = 2,
                                 .test = s.data,
                                 .log = "run.jsonl",
                                 .plot = "run.svg",
                                 .checkpoint = "out"};
    CHECK_OK(dpt_fit(s.trainer, &fit, &r));
    CHECK_SIZE(r.steps, 8);
    CHECK_SIZE(r.epochs, 2);
    CHECK(r.test_accuracy >= 0 && r.test_accuracy <= 1 && r.images_per_second > 0);
    CHECK(access("run.svg", R_OK) == 0 && access("out/model.safetensors", R_OK) == 0);
    CHECK_OK(dpti_replay_read("run.jsonl", &replay, NULL));
    CHECK_SIZE(replay.n_steps, 8);
    CHECK_SIZE(replay.shards[0], 21);
    dpti_replay_free(&replay);
    weights(t, &s, 0, a);
    o.split = dpt_split_from("replay:run.jsonl");
    if (!opened(t, &again, devices, &o)) return;
    CHECK_OK(dpt_fit(again.trainer,
                     &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 2}, &r));
    weights(t, &again, 0, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK_STATUS(dpt_fit(again.trainer,
                         &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 1}, &r),
                 DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(again.context), "8 steps");
    close_all(&again);
    close_all(&s);
}

static void test_data_that_do_not_fit(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    dpt_dataset *small = NULL;
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    CHECK_OK(dpt_dataset_open(s.context, "synthetic:7x7x1:10:60", NULL, DPT_TEST, &small));
    const dpt_fit_options fit = {.size = sizeof fit, .max_steps = 1, .test = small};
    CHECK_STATUS(dpt_fit(s.trainer, &fit, &r), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "7x7x1");
    CHECK_SIZE(dpt_trainer_steps(s.trainer), 0); /* told before anything is trained */
    dpt_dataset_destroy(small);
    close_all(&s);
}

/* Where time might end training first, the end of the log is met on the way. */
static void a_log_that_is_too_short(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    dpt_trainer_options o = {.size = sizeof o, .batch_size = BATCH};
    const dpt_fit_options record = {.size = sizeof record, .max_steps = 6, .log = "six.jsonl"};
    const dpt_fit_options replay = {.size = sizeof replay, .max_steps = 7, .max_seconds = 1000};
    if (!opened(t, &s, "cpu", &o)) return;
    CHECK_OK(dpt_fit(s.trainer, &record, &r));
    close_all(&s);
    o.split = dpt_split_from("replay:six.jsonl");
    if (!opened(t, &s, "cpu", &o)) return;
    CHECK_STATUS(dpt_fit(s.trainer, &replay, &r), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s.context), "6 steps");
    CHECK_SIZE(dpt_trainer_in_flight(s.trainer), 0);
    CHECK_SIZE(dpt_trainer_steps(s.trainer), 6);
    CHECK_OK(dpt_trainer_save(s.trainer, "six.safetensors"));
    close_all(&s);
}

static void fit_stops_where_it_should(test *t)
{
    setting s;
    dpt_fit_result r = {.size = sizeof r};
    if (!opened(t, &s, "cpu",
                &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH}))
        return;
    CHECK_OK(dpt_fit(s.trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .max_steps = 6},
                     &r));
    CHECK_SIZE(r.steps, 6);
    CHECK_SIZE(r.epochs, 1);
    CHECK(isnan(r.test_accuracy));
    /* Goes on in the middle of epoch 2, and one epoch is what is left of it. */
    CHECK_OK(
        dpt_fit(s.trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 1}, &r));
    CHECK_SIZE(r.steps, 2);
    CHECK_OK(dpt_fit(
        s.trainer,
        &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 9, .progress = stop_at_seven},
        &r));
    CHECK(r.stopped && r.steps >= 7 && r.steps <= 9);
    CHECK_OK(dpt_fit(s.trainer,
                     &(dpt_fit_options){.size = sizeof(dpt_fit_options), .max_seconds = 0.2}, &r));
    CHECK(r.steps > 0);
    CHECK_SIZE(dpt_trainer_in_flight(s.trainer), 0);
    CHECK_STATUS(dpt_fit(s.trainer,
                         &(dpt_fit_options){.size = sizeof(dpt_fit_options),
                                            .max_steps = 1,
                                            .log = "no/such/folder"},
                         &r),
                 DPT_E_IO);
    CHECK_STATUS(dpt_fit(s.trainer,
                         &(dpt_fit_options){.size = sizeof(dpt_fit_options),
                                            .max_steps = 1,
                                            .checkpoint = "/dev/null/x"},
                         &r),
                 DPT_E_IO);
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"defaults", defaults},
        {"steps walk through epochs", steps_walk_through_epochs},
        {"times are told", times_are_told},
        {"two steps in flight", two_in_flight},
        {"pipelining changes nothing", pipelining_changes_nothing},
        {"a loss that is not finite changes nothing", a_loss_that_is_not_finite_changes_nothing},
        {"an evaluation that is not finite is told", an_evaluation_that_is_not_finite_is_told},
        {"a missed update is repaired", a_missed_update_is_repaired},
        {"bad options", bad_options},
        {"what is not there", what_is_not_there},
        {"small memory is said", small_memory_is_said},
        {"save and load", save_and_load},
        {"loading stops the momentum", loading_stops_the_momentum},
        {"wrong checkpoints change nothing", wrong_checkpoints_change_nothing},
        {"fit writes and replays", fit_writes_and_replays},
        {"test data that do not fit", test_data_that_do_not_fit},
        {"a log that is too short", a_log_that_is_too_short},
        {"fit stops where it should", fit_stops_where_it_should},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
