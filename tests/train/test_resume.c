/* Tests resuming from a checkpoint: the bits are the same as without the interruption, whenever it
   came; refused checkpoints, of which nothing is loaded; full disks and missing folders. */
#include "checkpoint/keeper.h"
#include "harness.h"
#include "io/folder.h"
#include "train/flat.h"
#include "train/programs/worker.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/support.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 32, COUNT = 4 * BATCH + 11, STEPS_PER_EPOCH = 5, EPOCHS = 3, STEPS = 15 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data, *validation;
    dpt_model *model; /* convolution, batch-norm, dropout */
} setting;

typedef struct training {
    dpt_device_set *devices;
    dpt_trainer *trainer;
} training;

static const char two[] = "cpu:threads=1,cpu:threads=1";

static const dpt_trainer_options sgd = {.size = sizeof sgd,
                                        .batch_size = BATCH,
                                        .lr = 0.05f,
                                        .momentum = 0.9f,
                                        .weight_decay = 1e-3f,
                                        .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                        .seed = 3,
                                        .augment = {.crop_padding = 1, .flip = true, .erase = 0.3f},
                                        .rotate = 20,
                                        .jitter = {0.4f, 0.4f, 0.4f, 0.1f},
                                        .randaugment = {2, 12},
                                        .mixup = 0.5f,
                                        .cutmix = 1};
static const dpt_trainer_options adamw = {.size = sizeof adamw,
                                          .batch_size = BATCH,
                                          .optimizer = DPT_OPTIMIZER_ADAMW,
                                          .lr = 0.01f,
                                          .clip_norm = 1,
                                          .split = {DPT_SPLIT_EQUAL, NULL},
                                          .batch_norm = DPT_BATCH_NORM_LOCAL,
                                          .seed = 4};
static const dpt_schedule onecycle = {.kind = DPT_SCHEDULE_ONECYCLE, .warmup_steps = 3};

static dpt_status make_model(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    const dpt_conv2d_options conv = {
        .size = sizeof conv, .out_channels = 6, .kernel = {3, 3}, .padding = {1, 1}};
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_batch_norm(
        m, dpt_conv2d(m, x, "conv", &conv), "bn",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_flatten(m, dpt_dropout(m, x, 0.2f));
    return dpt_model_finish(m, dpt_linear(m, x, "fc",
                                          &(dpt_linear_options){.size = sizeof(dpt_linear_options),
                                                                .out = FLAT_CLASSES}));
}

static bool opened(test *t, const char *devices, const dpt_trainer_options *options, training *out)
{
    const setting *s = t->user;
    *out = (training){.devices = NULL};
    if (CHECK_OK(dpt_device_set_open(s->context, devices, &out->devices)) &&
        CHECK_OK(dpt_trainer_create(out->devices, s->model, s->data, options, &out->trainer)))
        return true;
    FAIL("%s", dpt_error_message(s->context));
    return false;
}

static void close_training(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_device_set_close(w->devices);
    *w = (training){.devices = NULL};
}

/* ---- Folders --------------------------------------------------------------------------------- */

static void empty(test *t, const char *folder)
{
    (void)forget_checkpoints(t, folder, 0);
    char *path = dpti_folder_path(folder, 0);
    if (path) (void)unlink(path);
    free(path);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct record {
    double loss[STEPS + 1], train_loss[EPOCHS + 1]; /* by step, by epoch */
    size_t n_steps, stop_after;
    size_t n_infos, n_warnings;
    char last[256]; /* notice */
    void (*at)(struct record *r, size_t step);
    size_t stop_asked;   /* in an evaluation behind this step, which waits for its checkpoint */
    const char *awaited; /* the path of that; NULL: there is none to wait for */
    bool found;          /* it is there */
} record;

static void await_file(const char *path)
{
    for (size_t i = 0; i < 30000 && access(path, F_OK) != 0; i++)
        (void)usleep(1000);
}

/* Asked in an evaluation whether training is to end. */
static bool ends_in_evaluation(record *r, const dpt_fit_progress *progress)
{
    if (progress->step || progress->epoch || progress->event) return false;
    if (r->stop_asked == 0 || progress->steps_done != r->stop_asked) return false;
    if (r->awaited) await_file(r->awaited);
    r->found = r->awaited && access(r->awaited, F_OK) == 0;
    return true;
}

static int note(const dpt_fit_progress *progress, void *user)
{
    record *r = user;
    if (progress->step && progress->step->step <= STEPS) {
        r->loss[progress->step->step] = progress->step->loss;
        r->n_steps++;
        if (r->at) r->at(r, progress->step->step);
    }
    if (progress->epoch && progress->epoch->epoch <= EPOCHS)
        r->train_loss[progress->epoch->epoch] = progress->epoch->train_loss;
    if (ends_in_evaluation(r, progress)) return 1;
    return r->stop_after > 0 && progress->steps_done >= r->stop_after;
}

static void heard(dpt_notice kind, const char *text, void *user)
{
    record *r = user;
    if (kind == DPT_NOTICE_WARNING)
        r->n_warnings++;
    else
        r->n_infos++;
    snprintf(r->last, sizeof r->last, "%s", text);
}

static dpt_fit_options fit_options(const setting *s, const char *folder, record *r)
{
    return (dpt_fit_options){.size = sizeof(dpt_fit_options),
                             .epochs = EPOCHS,
                             .validation = s->validation,
                             .schedule = onecycle,
                             .checkpoint = folder,
                             .checkpoint_every = {.steps = 2},
                             .checkpoint_keep = 100,
                             .progress = note,
                             .notice = heard,
                             .user = r};
}

/* Everything that lasts, to the bit. */
static void check_same(test *t, const training *a, const training *b)
{
    const setting *s = t->user;
    const size_t n = s->model->flat_size, n_kinds = dpti_trainer_n_state_buffers(a->trainer);
    float *flat = calloc(2 * n, sizeof *flat);
    REQUIRE(flat && n_kinds == dpti_trainer_n_state_buffers(b->trainer));
    for (size_t k = 0; k < n_kinds; k++) {
        CHECK_OK(dpti_trainer_read(a->trainer, 0, dpti_state_buffer_kind(k), flat));
        for (size_t rank = 0; rank < dpt_device_set_count(b->devices); rank++) {
            CHECK_OK(dpti_trainer_read(b->trainer, rank, dpti_state_buffer_kind(k), flat + n));
            CHECK(memcmp(flat, flat + n, n * sizeof *flat) == 0);
        }
    }
    CHECK_SIZE(dpt_trainer_steps(a->trainer), dpt_trainer_steps(b->trainer));
    free(flat);
}

static void check_results(test *t, const dpt_fit_result *a, const dpt_fit_result *b)
{
    CHECK_SIZE(a->steps, b->steps);
    CHECK_SIZE(a->epochs, b->epochs);
    CHECK_SIZE(a->best_epoch, b->best_epoch);
    CHECK_NEAR(a->train_loss, b->train_loss, 0);
    CHECK_NEAR(a->best_validation_loss, b->best_validation_loss, 0);
}

/* Trains up to `stop`, loses what was written behind `kept`, and goes on in a new trainer. */
static void interrupt_at(test *t, const dpt_trainer_options *options, size_t stop, size_t kept,
                         const training *whole, const record *seen, const dpt_fit_result *result)
{
    const setting *s = t->user;
    training w;
    record first = {.stop_after = stop}, second = {.n_steps = 0};
    dpt_fit_result r = {.size = sizeof r};
    empty(t, "cut");
    if (opened(t, two, options, &w)) {
        const dpt_fit_options fit = fit_options(s, "cut", &first);
        CHECK_OK(dpt_fit(w.trainer, &fit, &r));
        CHECK(r.stopped);
    }
    close_training(&w);
    const bool any = forget_checkpoints(t, "cut", kept) > 0;
    if (opened(t, two, options, &w)) {
        dpt_fit_options fit = fit_options(s, "cut", &second);
        fit.resume = true;
        if (!CHECK_OK(dpt_fit(w.trainer, &fit, &r))) FAIL("%s", dpt_error_message(s->context));
        check_same(t, whole, &w);
        check_results(t, result, &r);
        CHECK_SIZE(second.n_infos, 1);
        CHECK_CONTAINS(second.last, any ? "resuming from cut/checkpoint-" : "beginning at step 1");
        for (size_t i = 1; i <= STEPS; i++)
            if (second.loss[i] != 0) CHECK_NEAR(second.loss[i], seen->loss[i], 0);
        for (size_t i = 1; i <= EPOCHS; i++)
            if (second.train_loss[i] != 0) CHECK_NEAR(second.train_loss[i], seen->train_loss[i], 0);
        CHECK(second.n_steps >= STEPS - stop && second.n_steps <= STEPS);
    }
    close_training(&w);
}

static void interrupt_everywhere(test *t, const dpt_trainer_options *options)
{
    const setting *s = t->user;
    training whole;
    record seen = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    if (opened(t, two, options, &whole)) {
        dpt_fit_options fit = fit_options(s, NULL, &seen);
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        CHECK_SIZE(seen.n_steps, STEPS);
        for (size_t stop = 1; stop <= STEPS; stop++)
            interrupt_at(t, options, stop, stop, &whole, &seen, &result);
        for (size_t stop = 3; stop <= STEPS; stop += 4)
            interrupt_at(t, options, stop, stop - 2, &whole, &seen, &result);
        interrupt_at(t, options, 3, 0, &whole, &seen, &result);
    }
    close_training(&whole);
}

static void sgd_goes_on_exactly(test *t)
{
    interrupt_everywhere(t, &sgd);
}

static void adamw_goes_on_exactly(test *t)
{
    interrupt_everywhere(t, &adamw);
}

/* ---- Evaluations ----------------------------------------------------------------------------- */

/* Returns how many lines of a log are of such an event. */
static size_t count_events(const char *log, const char *event)
{
    static char line[1 << 16];
    char begins[64];
    size_t n = 0;
    snprintf(begins, sizeof begins, "{\"event\":\"%s\"", event);
    FILE *file = fopen(log, "r");
    while (file && fgets(line, sizeof line, file))
        n += strncmp(line, begins, strlen(begins)) == 0;
    if (file) fclose(file);
    return n;
}

/* A training that is to end in an evaluation ends there, with the state of before, and evaluates
   first when it is resumed.  Its log is that of the whole. */
static void end_in_evaluation(test *t, size_t epoch, const training *whole,
                              const dpt_fit_result *result)
{
    const setting *s = t->user;
    char path[64];
    training w;
    snprintf(path, sizeof path, "broken/checkpoint-%09zu.safetensors", epoch * STEPS_PER_EPOCH);
    record first = {.stop_asked = epoch * STEPS_PER_EPOCH, .awaited = epoch == 1 ? path : NULL},
           second = {.n_steps = 0};
    empty(t, "broken");
    (void)unlink("broken.jsonl");
    for (size_t part = 0; part < 2; part++) {
        dpt_fit_result r = {.size = sizeof r};
        if (!opened(t, two, &sgd, &w)) return;
        dpt_fit_options fit = fit_options(s, "broken", part == 0 ? &first : &second);
        fit.checkpoint_every = (dpt_interval){.epochs = 1};
        fit.log = "broken.jsonl";
        fit.resume = part > 0;
        if (!CHECK_OK(dpt_fit(w.trainer, &fit, &r))) FAIL("%s", dpt_error_message(s->context));
        CHECK(r.stopped == (part == 0));
        CHECK_SIZE(r.epochs, part == 0 ? epoch - 1 : EPOCHS);
        CHECK_SIZE(r.steps, part == 0 ? epoch * STEPS_PER_EPOCH : STEPS);
        CHECK_SIZE(count_events("broken.jsonl", "epoch"), part == 0 ? epoch - 1 : EPOCHS);
        if (part > 0) check_same(t, whole, &w);
        if (part > 0) check_results(t, result, &r);
        close_training(&w);
    }
    /* A later one may not be written, because that of the epoch before is being written still. */
    CHECK(first.found == (epoch == 1));
    CHECK_SIZE(second.n_steps, STEPS - epoch * STEPS_PER_EPOCH);
    CHECK_SIZE(count_events("broken.jsonl", "step"), STEPS);
    CHECK_SIZE(count_events("broken.jsonl", "done"), 1);
    dpt_log_comparison seen = {.size = sizeof seen};
    if (!CHECK_OK(dpt_compare_logs(s->context, "whole.jsonl", "broken.jsonl", &seen))) return;
    CHECK_SIZE(seen.common_steps, STEPS);
    CHECK_SIZE(seen.common_weights, EPOCHS);
    CHECK(!seen.differs);
}

static void an_evaluation_breaks_off(test *t)
{
    const setting *s = t->user;
    training whole;
    record seen = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    if (opened(t, two, &sgd, &whole)) {
        dpt_fit_options fit = fit_options(s, NULL, &seen);
        fit.log = "whole.jsonl";
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        for (size_t epoch = 1; epoch <= EPOCHS; epoch++)
            end_in_evaluation(t, epoch, &whole, &result);
    }
    close_training(&whole);
    empty(t, "broken");
}

/* An evaluation at the end of a training that a limit ends within an epoch: what is resumed without
   a further step evaluates. */
static void the_last_evaluation_breaks_off(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.stop_asked = 3};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "part");
    for (size_t i = 0; i < 3; i++) {
        if (!opened(t, two, &sgd, &w)) return;
        dpt_fit_options fit = fit_options(s, "part", &r);
        fit.validation = NULL;
        fit.test = s->validation;
        fit.epochs = 0;
        fit.max_steps = 3;
        fit.resume = i == 2;
        const dpt_status status = dpt_fit(w.trainer, &fit, &result);
        /* It has not ended, so it is not begun anew by accident. */
        CHECK_STATUS(status, i == 1 ? DPT_E_INVALID : DPT_OK);
        if (i != 1) CHECK(result.stopped == (i == 0));
        if (i != 1) CHECK(isnan(result.test_loss) == (i == 0));
        if (i != 1) CHECK_SIZE(result.steps, 3);
        close_training(&w);
        r.stop_asked = 0;
    }
    empty(t, "part");
}

/* The weights of a checkpoint of before an evaluation are of no use if the loss is not finite. */
static void a_loss_that_is_not_finite_revokes(test *t)
{
    const setting *s = t->user;
    enum { N = 4 };
    static float images[N * FLAT_PIXELS];
    static const int32_t labels[N] = {0};
    size_t *numbers = NULL, n = 0;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    for (size_t i = 0; i < N * FLAT_PIXELS; i++)
        images[i] = 3e38f;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .images = images,
                                       .labels = labels,
                                       .count = N,
                                       .height = FLAT_SIDE,
                                       .width = FLAT_SIDE,
                                       .channels = FLAT_CHANNELS,
                                       .outputs = FLAT_CLASSES,
                                       .dtype = DPT_F32,
                                       .label_dtype = DPT_I32};
    dpt_dataset *huge = NULL;
    REQUIRE_OK(dpt_dataset_from_memory(s->context, &memory, &huge));
    empty(t, "huge");
    if (opened(t, two, &sgd, &w)) {
        dpt_fit_options fit = fit_options(s, "huge", &r);
        fit.checkpoint_every = (dpt_interval){.steps = 3};
        fit.validation = NULL;
        fit.test = huge;
        CHECK_STATUS(dpt_fit(w.trainer, &fit, &result), DPT_E_NOT_FINITE);
        CHECK_OK(dpti_folder_list("huge", &numbers, &n, NULL));
        if (CHECK_SIZE(n, 1)) CHECK_SIZE(numbers[0], 3);
        free(numbers);
    }
    close_training(&w);
    dpt_dataset_destroy(huge);
    empty(t, "huge");
}

/* Patience and the best epoch are those of the whole. */
static void patience_goes_on(test *t)
{
    const setting *s = t->user;
    dpt_fit_result results[2];
    dpt_trainer_options wild = sgd;
    wild.lr = 0.4f;
    for (size_t i = 0; i < 2; i++) {
        training w = {.devices = NULL};
        record r = {.stop_after = i == 0 ? 0 : 12};
        empty(t, "patient");
        for (size_t part = 0; part <= i; part++) {
            if (!opened(t, two, &wild, &w)) return;
            dpt_fit_options fit = fit_options(s, "patient", &r);
            fit.epochs = 40;
            fit.patience = 2;
            fit.schedule.kind = DPT_SCHEDULE_CONSTANT;
            fit.resume = part > 0;
            results[i].size = sizeof results[i];
            CHECK_OK(dpt_fit(w.trainer, &fit, &results[i]));
            close_training(&w);
            r.stop_after = 0;
        }
    }
    CHECK(results[0].no_patience);
    CHECK_SIZE(results[0].epochs, results[1].epochs);
    check_results(t, &results[0], &results[1]);
}

/* ---- Trainers by themselves ------------------------------------------------------------------ */

static void make_steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < n; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &m));
}

static void a_state_goes_on_exactly(test *t)
{
    training a, b;
    for (size_t i = 0; i < 2; i++) {
        const dpt_trainer_options *o = i == 0 ? &sgd : &adamw;
        if (opened(t, two, o, &a) && opened(t, two, o, &b)) {
            make_steps(t, &a, 7);
            CHECK_OK(dpt_trainer_set_lr(a.trainer, 0.02f));
            CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
            make_steps(t, &b, 3); /* are forgotten */
            CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
            check_same(t, &a, &b);
            make_steps(t, &a, 9);
            make_steps(t, &b, 9);
            check_same(t, &a, &b);
        }
        close_training(&b);
        close_training(&a);
    }
}

/* By which a device finds the gradient of filters. */
static const char *way_of(test *t, const training *w, size_t device)
{
    dpt_operation o = {.size = sizeof o, .algorithm = "none"};
    for (size_t i = 0; i < dpt_trainer_operation_count(w->trainer, device); i++) {
        CHECK_OK(dpt_trainer_operation(w->trainer, device, i, &o));
        if (strcmp(o.kind, "CONV2D_BACKWARD_WEIGHTS") == 0) break;
    }
    return o.algorithm;
}

/* As if that had been measured to be the fastest on all devices. */
static void choose(test *t, training *w, const char *way)
{
    for (size_t i = 0; i < w->trainer->n_workers; i++) {
        dpti_recorded_choices *kept = &w->trainer->workers[i].kept;
        for (size_t k = 0; k < kept->n; k++) {
            if (strcmp(kept->items[k].kind, "CONV2D_BACKWARD_WEIGHTS") != 0) continue;
            free(kept->items[k].algorithm);
            kept->items[k].algorithm = strdup(way);
        }
    }
    CHECK_OK(dpti_trainer_rebuild(w->trainer));
}

/* Devices that would choose otherwise go on by the algorithms that the training had; others, and
   such as are asked for another way, choose. */
static void algorithms_go_on(test *t)
{
    static const char other[] = "cpu:threads=1,cpu:threads=1:algorithm=direct";
    training a, b, c;
    if (opened(t, two, &sgd, &a) && opened(t, two, &sgd, &b) && opened(t, other, &sgd, &c)) {
        choose(t, &a, "columns");
        CHECK_TEXT(way_of(t, &a, 0), "columns");
        CHECK_TEXT(way_of(t, &b, 0), "direct");
        make_steps(t, &a, 7);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &b, 0), "columns");
        CHECK_TEXT(way_of(t, &b, 1), "columns");
        make_steps(t, &a, 9);
        make_steps(t, &b, 9);
        check_same(t, &a, &b);
        CHECK_OK(dpt_trainer_load_state(c.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &c, 0), "columns");
        CHECK_TEXT(way_of(t, &c, 1), "direct");
        make_steps(t, &c, 2);
        /* One that cannot be had any more. */
        choose(t, &a, "columns");
        free(a.trainer->workers[1].kept.items[0].algorithm);
        a.trainer->workers[1].kept.items[0].algorithm = strdup("of tomorrow");
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &b, 1), "columns");
        check_same(t, &a, &b);
    }
    close_training(&c);
    close_training(&b);
    close_training(&a);
}

/* A program whose decimal point is a comma takes the same options, and reads the state that another
   one has written, and the other way. */
static void states_know_no_locale(test *t)
{
    static const char devices[] = "cpu:threads=1,cpu:threads=1:throttle=1.5";
    training plain, commas;
    dpt_trainer_options fractions = sgd;
    fractions.split = dpt_split_from("2.5:1");
    fractions.init = (dpt_init){DPT_INIT_NORMAL, 0.1};
    if (!test_set_comma_locale()) SKIP("no locale with a decimal comma, and no localedef");
    const bool made = opened(t, devices, &fractions, &commas);
    setlocale(LC_ALL, "C");
    if (opened(t, devices, &fractions, &plain) && made) {
        make_steps(t, &plain, 7);
        CHECK_OK(dpt_trainer_save_state(plain.trainer, "state.safetensors"));
        CHECK(test_set_comma_locale());
        CHECK_OK(dpt_trainer_load_state(commas.trainer, "state.safetensors"));
        check_same(t, &plain, &commas);
        make_steps(t, &commas, 2);
        CHECK_OK(dpt_trainer_save_state(commas.trainer, "state.safetensors"));
        setlocale(LC_ALL, "C");
        CHECK_OK(dpt_trainer_load_state(plain.trainer, "state.safetensors"));
        check_same(t, &plain, &commas);
    }
    close_training(&plain);
    close_training(&commas);
}

/* Another mix makes the same steps but for rounding. */
static void another_mix_goes_on(test *t)
{
    const setting *s = t->user;
    const size_t n = s->model->flat_size;
    float *flat = calloc(2 * n, sizeof *flat);
    training a, b;
    dpt_trainer_options three = sgd;
    three.split = dpt_split_from("1:1:2");
    if (opened(t, two, &sgd, &a) &&
        opened(t, "cpu:threads=1,cpu:threads=1,cpu:threads=1", &three, &b) && CHECK(flat)) {
        make_steps(t, &a, 7);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        make_steps(t, &a, 5);
        make_steps(t, &b, 5);
        CHECK_OK(dpti_trainer_read(a.trainer, 0, DPT_PARAMETER, flat));
        CHECK_OK(dpti_trainer_read(b.trainer, 2, DPT_PARAMETER, flat + n));
        double error = 0, norm = 0;
        for (size_t i = 0; i < n; i++) {
            error += pow((double)flat[i] - (double)flat[n + i], 2);
            norm += pow((double)flat[i], 2);
        }
        CHECK_NEAR(sqrt(error / norm), 0, 1e-4);
    }
    close_training(&b);
    close_training(&a);
    free(flat);
}

/* What the balance knows is there again; on other devices it begins anew. */
static void the_balance_goes_on(test *t)
{
    static const char uneven[] = "cpu:threads=1,cpu:threads=1:throttle=3";
    dpti_time_model models[2][2];
    size_t shards[2][2];
    bool calibrated = false;
    training a, b, c;
    dpt_trainer_options measured = sgd;
    measured.split = dpt_split_from("measured");
    if (opened(t, uneven, &measured, &a) && opened(t, uneven, &measured, &b) &&
        opened(t, two, &measured, &c)) {
        make_steps(t, &a, 25);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK(dpti_balance_learnt(a.trainer->plan.balance, models[0], shards[0], &calibrated));
        CHECK(calibrated);
        CHECK(dpti_balance_learnt(b.trainer->plan.balance, models[1], shards[1], &calibrated));
        CHECK(calibrated);
        for (size_t i = 0; i < 2; i++) {
            CHECK_SIZE(shards[0][i], shards[1][i]);
            CHECK_NEAR(models[0][i].a, models[1][i].a, 0);
            CHECK_NEAR(models[0][i].b, models[1][i].b, 0);
            CHECK_SIZE(models[0][i].n_seen, models[1][i].n_seen);
        }
        make_steps(t, &b, 5);
        CHECK_OK(dpt_trainer_load_state(c.trainer, "state.safetensors"));
        CHECK(!dpti_balance_learnt(c.trainer->plan.balance, models[1], shards[1], &calibrated));
        make_steps(t, &c, 5);
    }
    close_training(&c);
    close_training(&b);
    close_training(&a);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static bool write_bytes(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && written;
}

static size_t read_bytes(const char *path, uint8_t *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(bytes, 1, most, file) : 0;
    if (file) fclose(file);
    return n;
}

/* A training that began with weights of an earlier one has seen that one's batches, too:
   batch-norm's counter in the files says so. */
static void batches_of_before_count(test *t)
{
    enum { MOST = 1 << 20 };
    static uint8_t expected[MOST], got[MOST];
    training a, b;
    if (opened(t, two, &sgd, &a) && opened(t, two, &sgd, &b)) {
        make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save(a.trainer, "two-batches.safetensors"));
        make_steps(t, &b, 1);
        CHECK_OK(dpt_trainer_load(b.trainer, "two-batches.safetensors"));
        make_steps(t, &b, 1); /* three batches in two steps */
        CHECK_OK(dpt_trainer_save(b.trainer, "three-batches.safetensors"));
        CHECK_OK(dpt_trainer_save_state(b.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_save(a.trainer, "resumed.safetensors"));
        const size_t n = read_bytes("three-batches.safetensors", expected, MOST);
        CHECK(n > 0 && n < MOST);
        CHECK_SIZE(read_bytes("resumed.safetensors", got, MOST), n);
        CHECK(memcmp(expected, got, n) == 0);
    }
    close_training(&b);
    close_training(&a);
}

/* Any byte changed, any end missing, anything more: refused, whoever reads it. */
static void damage_is_never_loaded(test *t)
{
    enum { MOST = 1 << 16 };
    static uint8_t bytes[MOST];
    static const uint8_t flips[] = {0x01, 0x20, 0x80, 0xff};
    dpti_safetensors *file = NULL;
    dpt_error error;
    training w;
    if (opened(t, "cpu:threads=1", &adamw, &w)) {
        make_steps(t, &w, 2);
        CHECK_OK(dpt_trainer_save_state(w.trainer, "whole.safetensors"));
        const size_t n = read_bytes("whole.safetensors", bytes, MOST - 1);
        REQUIRE(n > 1000 && n < MOST - 1);
        size_t n_accepted = 0;
        for (size_t i = 0; i < n; i++)
            for (size_t f = 0; f < sizeof flips; f++) {
                bytes[i] ^= flips[f];
                n_accepted += dpti_safetensors_parse_sealed(&(dpti_file_bytes){"x", bytes, n},
                                                            &file, &error) == DPT_OK;
                bytes[i] ^= flips[f];
            }
        for (size_t i = 0; i < n; i++)
            n_accepted += dpti_safetensors_parse_sealed(&(dpti_file_bytes){"x", bytes, i}, &file,
                                                        &error) == DPT_OK;
        bytes[n] = 0;
        n_accepted += dpti_safetensors_parse_sealed(&(dpti_file_bytes){"x", bytes, n + 1}, &file,
                                                    &error) == DPT_OK;
        CHECK_SIZE(n_accepted, 0);
        REQUIRE_OK(dpti_safetensors_parse_sealed(&(dpti_file_bytes){"x", bytes, n}, &file, &error));
        dpti_safetensors_close(file);
        /* And as files, every now and then: the trainer stays as it was. */
        training before;
        if (opened(t, "cpu:threads=1", &adamw, &before)) {
            CHECK_OK(dpt_trainer_load_state(before.trainer, "whole.safetensors"));
            for (size_t i = 0; i < n; i += 97) {
                bytes[i] ^= 4;
                CHECK(write_bytes("damaged.safetensors", bytes, n));
                CHECK_STATUS(dpt_trainer_load_state(w.trainer, "damaged.safetensors"),
                             DPT_E_FORMAT);
                /* Behind the seal's own place its weights are not for `load` either. */
                if (i > 60)
                    CHECK_STATUS(dpt_trainer_load(w.trainer, "damaged.safetensors"), DPT_E_FORMAT);
                bytes[i] ^= 4;
                CHECK(write_bytes("damaged.safetensors", bytes, i));
                CHECK_STATUS(dpt_trainer_load_state(w.trainer, "damaged.safetensors"),
                             DPT_E_FORMAT);
            }
            check_same(t, &before, &w);
        }
        close_training(&before);
    }
    close_training(&w);
}

static void weights_alone_are_no_state(test *t)
{
    const setting *s = t->user;
    training a, b;
    if (opened(t, two, &sgd, &a) && opened(t, two, &sgd, &b)) {
        make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save(a.trainer, "weights.safetensors"));
        CHECK_STATUS(dpt_trainer_load_state(b.trainer, "weights.safetensors"), DPT_E_FORMAT);
        CHECK_CONTAINS(dpt_error_message(s->context), "has weights only");
        /* The other way round the weights are found. */
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load(b.trainer, "state.safetensors"));
        CHECK_SIZE(dpt_trainer_steps(b.trainer), 0);
    }
    close_training(&b);
    close_training(&a);
}

static void other_trainings_are_refused(test *t)
{
    const setting *s = t->user;
    dpt_trainer_options others[8];
    static const char *const words[] = {"another seed (3, and now it is 9)",
                                        "another batch-size (32, and now it is 31)",
                                        "another momentum (0.9, and now it is 0.8)",
                                        "another weight-decay",
                                        "another no-shuffle (no, and now it is yes)",
                                        "another optimizer (sgd, and now it is adamw)",
                                        "another label-smoothing",
                                        "another augment (crop 1"};
    training a, b;
    for (size_t i = 0; i < 8; i++)
        others[i] = sgd;
    others[0].seed = 9;
    others[1].batch_size = 31;
    others[2].momentum = 0.8f;
    others[3].weight_decay = 0;
    others[4].no_shuffle = true;
    others[5] = (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                      .batch_size = BATCH,
                                      .seed = 3,
                                      .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                      .optimizer = DPT_OPTIMIZER_ADAMW};
    others[6].label_smoothing = 0.1f;
    others[7].augment.flip = false;
    if (opened(t, two, &sgd, &a)) {
        make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        for (size_t i = 0; i < 8; i++) {
            if (opened(t, two, &others[i], &b)) {
                CHECK_STATUS(dpt_trainer_load_state(b.trainer, "state.safetensors"), DPT_E_INVALID);
                CHECK_CONTAINS(dpt_error_message(s->context), words[i]);
                CHECK_SIZE(dpt_trainer_steps(b.trainer), 0);
            }
            close_training(&b);
        }
    }
    close_training(&a);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static dpt_status fit_in(training *w, const setting *s, const char *folder, size_t keep,
                         bool resume, record *r, dpt_fit_result *out)
{
    dpt_fit_options fit = fit_options(s, folder, r);
    fit.checkpoint_keep = keep;
    fit.resume = resume;
    return dpt_fit(w->trainer, &fit, out);
}

static void the_newest_few_stay(test *t)
{
    const setting *s = t->user;
    size_t *numbers = NULL, n = 0;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "few");
    if (opened(t, two, &sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "few", 3, false, &r, &result));
        CHECK_OK(dpti_folder_list("few", &numbers, &n, NULL));
        if (CHECK_SIZE(n, 3)) CHECK_SIZE(numbers[0], STEPS);
        free(numbers);
    }
    close_training(&w);
}

/* A damaged one is passed over with a word, and an older one taken. */
static void a_damaged_one_is_passed_over(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.stop_after = 8};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "damaged");
    if (opened(t, two, &sgd, &w)) CHECK_OK(fit_in(&w, s, "damaged", 9, false, &r, &result));
    close_training(&w);
    const size_t n = forget_checkpoints(t, "damaged", STEPS);
    size_t *numbers = NULL, n_listed = 0;
    REQUIRE(n > 1 && dpti_folder_list("damaged", &numbers, &n_listed, NULL) == DPT_OK);
    char *newest = dpti_folder_path("damaged", numbers[0]);
    CHECK(newest && truncate(newest, 2000) == 0);
    r = (record){.n_steps = 0};
    if (opened(t, two, &sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "damaged", 9, true, &r, &result));
        CHECK_SIZE(r.n_warnings, 1);
        CHECK_SIZE(r.n_steps, STEPS - numbers[1]);
    }
    close_training(&w);
    free(newest);
    free(numbers);
    /* Where none is sound, nothing is begun over them. */
    CHECK_OK(dpti_folder_list("damaged", &numbers, &n_listed, NULL));
    for (size_t i = 0; i < n_listed; i++) {
        char *path = dpti_folder_path("damaged", numbers[i]);
        CHECK(path && truncate(path, 100) == 0);
        free(path);
    }
    free(numbers);
    r = (record){.n_steps = 0};
    if (opened(t, two, &sgd, &w)) {
        CHECK_STATUS(fit_in(&w, s, "damaged", 9, true, &r, &result), DPT_E_FORMAT);
        CHECK_SIZE(r.n_warnings, n_listed);
        CHECK_STATUS(fit_in(&w, s, "damaged", 9, false, &r, &result), DPT_E_INVALID);
        CHECK_SIZE(r.n_steps, 0);
    }
    close_training(&w);
}

/* Files that the system does not let be read may be sound: nobody is told to remove them, nor that
   the training was interrupted. */
static void one_that_cannot_be_read_is_no_damage(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "unread");
    (void)mkdir("unread", 0777);
    CHECK(symlink("checkpoint-000000015.safetensors", "unread/checkpoint-000000015.safetensors") ==
          0); /* a loop: no user may follow it, root neither */
    for (size_t resume = 0; resume < 2; resume++) {
        if (opened(t, two, &sgd, &w)) {
            const char *message = dpt_error_message(s->context);
            CHECK_STATUS(fit_in(&w, s, "unread", 2, resume == 1, &r, &result), DPT_E_IO);
            CHECK_CONTAINS(message, strerror(ELOOP));
            CHECK_CONTAINS(message, "readable");
            CHECK(!strstr(message, "remove") && !strstr(message, "interrupted"));
        }
        close_training(&w);
    }
    CHECK_SIZE(r.n_steps, 0);
    empty(t, "unread");
}

/* An interrupted training is not begun over by accident; one that has ended is. */
static void an_interrupted_one_is_not_overwritten(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.stop_after = 4};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "again");
    for (size_t i = 0; i < 4; i++) {
        if (opened(t, two, &sgd, &w)) {
            const dpt_status status = fit_in(&w, s, "again", 2, i == 2, &r, &result);
            CHECK_STATUS(status, i == 1 ? DPT_E_INVALID : DPT_OK);
            if (i == 1)
                CHECK_CONTAINS(dpt_error_message(s->context), "a training that was interrupted");
        }
        close_training(&w);
        r.stop_after = 0;
    }
    size_t *numbers = NULL, n = 0;
    CHECK_OK(dpti_folder_list("again", &numbers, &n, NULL));
    CHECK_SIZE(n, 2);
    free(numbers);
}

/* ---- Disks ----------------------------------------------------------------------------------- */

static void limit_files(rlim_t n_bytes)
{
    struct rlimit limit = {.rlim_cur = n_bytes, .rlim_max = RLIM_INFINITY};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* Checkpoints are written in the background, however long that takes on a busy machine: trouble
   begins when there is one, */
static void wait_for_one(const char *folder)
{
    for (size_t i = 0; i < 30000; i++) {
        size_t *numbers = NULL, n = 0;
        const bool found = dpti_folder_list(folder, &numbers, &n, NULL) == DPT_OK && n > 0;
        free(numbers);
        if (found) return;
        (void)usleep(1000);
    }
}

/* and is over when it has been told of. */
static bool is_over(const record *r, size_t step)
{
    return step >= 9 && r->n_warnings > 0;
}

static void fill_disk(record *r, size_t step)
{
    if (step == 4) {
        wait_for_one("full");
        limit_files(3000);
    }
    if (step > 4) (void)usleep(20000);
    if (is_over(r, step)) limit_files(RLIM_INFINITY);
}

static void take_folder_away(record *r, size_t step)
{
    if (step == 4) {
        wait_for_one("full");
        (void)rename("full", "away");
    }
    if (step > 4) (void)usleep(20000);
    if (is_over(r, step)) (void)rename("away", "full"); /* fails where it is back */
}

/* Training goes on, the older checkpoint stays sound, and later ones are written again. */
static void fails_over(test *t, void (*trouble)(record *r, size_t step), const char *word)
{
    const setting *s = t->user;
    training w, whole;
    record r = {.at = trouble}, quiet = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "full");
    if (opened(t, two, &sgd, &w) && opened(t, two, &sgd, &whole)) {
        CHECK_OK(fit_in(&w, s, "full", 2, false, &r, &result));
        CHECK_SIZE(r.n_steps, STEPS);
        CHECK(r.n_warnings >= 1 && r.n_warnings <= 2);
        CHECK_CONTAINS(r.last, word);
        dpt_fit_options fit = fit_options(s, NULL, &quiet);
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        check_same(t, &whole, &w);
        CHECK_SIZE(forget_checkpoints(t, "full", STEPS), 2);
    }
    close_training(&whole);
    close_training(&w);
}

static void a_full_disk_is_survived(test *t)
{
    signal(SIGXFSZ, SIG_IGN);
    fails_over(t, fill_disk, "cannot write");
    limit_files(RLIM_INFINITY);
}

static void a_folder_that_is_gone_is_survived(test *t)
{
    fails_over(t, take_folder_away, "cannot write");
}

static void stays_full(record *r, size_t step)
{
    (void)r;
    if (step != 4) return;
    wait_for_one("full");
    limit_files(3000);
}

/* What is not there in the end is a failure, and the older checkpoint is still sound. */
static void a_disk_that_stays_full_is_a_failure(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.at = stays_full};
    dpt_fit_result result = {.size = sizeof result};
    signal(SIGXFSZ, SIG_IGN);
    empty(t, "full");
    if (opened(t, two, &sgd, &w)) {
        CHECK_STATUS(fit_in(&w, s, "full", 2, false, &r, &result), DPT_E_IO);
        CHECK_SIZE(r.n_steps, STEPS);
        limit_files(RLIM_INFINITY);
        close_training(&w);
        r = (record){.n_steps = 0};
        if (opened(t, two, &sgd, &w)) CHECK_OK(fit_in(&w, s, "full", 2, true, &r, &result));
        CHECK(r.n_steps >= STEPS - 4 && r.n_steps < STEPS);
    }
    limit_files(RLIM_INFINITY);
    close_training(&w);
}

static void what_killed_runs_left_is_removed(test *t)
{
    const setting *s = t->user;
    training w;
    record r = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    empty(t, "left");
    (void)mkdir("left", 0777);
    CHECK(write_bytes("left/.dptrain-999999999-0.tmp", (const uint8_t *)"x", 1));
    CHECK(write_bytes("left/.dptrain-1-0.tmp", (const uint8_t *)"x", 1)); /* process 1 is there */
    CHECK(write_bytes("left/checkpoint-12.safetensors", (const uint8_t *)"x", 1)); /* not ours */
    if (opened(t, two, &sgd, &w)) {
        CHECK_OK(fit_in(&w, s, "left", 2, false, &r, &result));
        CHECK(access("left/.dptrain-999999999-0.tmp", F_OK) != 0);
        CHECK(access("left/.dptrain-1-0.tmp", F_OK) == 0);
        CHECK(access("left/checkpoint-12.safetensors", F_OK) == 0);
    }
    close_training(&w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sgd goes on exactly", sgd_goes_on_exactly},
        {"adamw goes on exactly", adamw_goes_on_exactly},
        {"an evaluation breaks off", an_evaluation_breaks_off},
        {"the last evaluation breaks off", the_last_evaluation_breaks_off},
        {"a loss that is not finite revokes", a_loss_that_is_not_finite_revokes},
        {"patience goes on", patience_goes_on},
        {"a state goes on exactly", a_state_goes_on_exactly},
        {"algorithms go on", algorithms_go_on},
        {"batches of before count", batches_of_before_count},
        {"states know no locale", states_know_no_locale},
        {"another mix goes on", another_mix_goes_on},
        {"the balance goes on", the_balance_goes_on},
        {"damage is never loaded", damage_is_never_loaded},
        {"weights alone are no state", weights_alone_are_no_state},
        {"other trainings are refused", other_trainings_are_refused},
        {"the newest few stay", the_newest_few_stay},
        {"a damaged one is passed over", a_damaged_one_is_passed_over},
        {"one that cannot be read is no damage", one_that_cannot_be_read_is_no_damage},
        {"an interrupted one is not overwritten", an_interrupted_one_is_not_overwritten},
        {"a full disk is survived", a_full_disk_is_survived},
        {"a folder that is gone is survived", a_folder_that_is_gone_is_survived},
        {"a disk that stays full is a failure", a_disk_that_stays_full_is_a_failure},
        {"what killed runs left is removed", what_killed_runs_left_is_removed},
    };
    setting s = {.context = NULL};
    dpt_dataset *whole = NULL;
    int code = 1;
    if (dpt_context_create(&s.context) == DPT_OK &&
        flat_data(s.context, COUNT + 35, 0, &whole) == DPT_OK &&
        dpt_dataset_split(whole, 35.0 / (COUNT + 35), 1, &s.data, &s.validation) == DPT_OK &&
        make_model(s.context, &s.model) == DPT_OK)
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.validation);
    dpt_dataset_destroy(s.data);
    dpt_dataset_destroy(whole);
    dpt_context_destroy(s.context);
    return code;
}
