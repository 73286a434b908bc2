/* Runs trainings in each of which one call fails (failing.h). */
#include "train/failing.h"

#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 2, BATCH = 13, COUNT = STEPS * BATCH, SECONDS_A_RUN = 120, MOST_FAILURES = 5 };

/* ---- One training ---------------------------------------------------------------------------- */

/* What came of it. */
typedef struct outcome {
    double losses[STEPS], evaluated;
    float *weights;
    size_t at_once; /* samples of a micro-batch of the first device */
    bool failed, finished;
    bool lost; /* the device, or the weights with the only device that had them */
    bool gone; /* the device */
} outcome;

typedef struct training {
    test *t;
    const failing *s;
    const failing_code *p; /* NULL: nothing is planted */
    const char *devices;
    size_t n; /* the call that fails */
    const dpt_model *model;
    bool fails_over; /* goes on without the device if that is lost */
    outcome *out;
} training;

/* Whether a call is to be believed; looks at it if not. */
static bool succeeded(const training *w, dpt_status status, const char *what)
{
    test *t = w->t;
    if (status == DPT_OK) return true;
    const char *message = dpt_error_message(w->s->context);
    if (status == DPT_E_STATE && w->out->failed && strstr(message, "load a checkpoint")) {
        w->out->lost = true; /* the update failed on the only device */
        return false;
    }
    if (!w->p || !CHECK(w->s->face->fired())) {
        FAIL("%s: %s fails by itself: %s", w->devices, what, message);
        return false;
    }
    if (!CHECK(status == DPT_E_DEVICE || status == DPT_E_DEVICE_LOST || status == DPT_E_NO_MEMORY))
        FAIL("%s %zu: %s gives %s: %s", w->p->function, w->n, what, dpt_status_name(status),
             message);
    if (!strstr(message, w->s->face->backend) || strchr(message, '\n') ||
        !strstr(message, w->p->words))
        FAIL("%s %zu: %s does not name device and code in one line: \"%s\"", w->p->function, w->n,
             what, message);
    w->out->failed = true;
    w->out->gone = w->out->gone || status == DPT_E_DEVICE_LOST;
    w->out->lost = w->out->lost || w->out->gone;
    return false;
}

/* A failure is repeated once: it happens only once, unless the device is gone. */
static bool went(const training *w, dpt_status first, dpt_status (*again)(const training *, void *),
                 void *argument, const char *what)
{
    if (succeeded(w, first, what)) return true;
    return !w->out->lost && succeeded(w, again(w, argument), what);
}

static dpt_status open_devices(const training *w, void *argument)
{
    return dpt_device_set_open(w->s->context, w->devices, argument);
}

typedef struct trained {
    dpt_device_set *devices;
    dpt_trainer *trainer;
} trained;

static dpt_status create_trainer(const training *w, void *argument)
{
    trained *d = argument;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .lr = FLAT_RATE,
                                         .momentum = 0.9f,
                                         .seed = 1,
                                         .no_shuffle = true,
                                         .stop_on_loss = !w->fails_over};
    return dpt_trainer_create(d->devices, w->model, w->s->data, &options, &d->trainer);
}

static dpt_status evaluate(const training *w, void *argument)
{
    trained *d = argument;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    const dpt_status status = dpt_trainer_evaluate(d->trainer, w->s->data, &evaluation);
    if (status == DPT_OK) w->out->evaluated = evaluation.loss;
    return status;
}

static dpt_status read_weights(const training *w, void *argument)
{
    trained *d = argument;
    return dpti_trainer_read(d->trainer, 0, DPT_PARAMETER, w->out->weights);
}

static bool take_steps(const training *w, dpt_trainer *trainer)
{
    test *t = w->t;
    for (int attempts = 0; attempts < 3 * STEPS; attempts++) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        const size_t before = dpt_trainer_steps(trainer);
        if (before >= STEPS) return true;
        if (succeeded(w, dpt_trainer_step(trainer, &metrics), "dpt_trainer_step"))
            w->out->losses[before] = metrics.loss;
        else if (dpt_trainer_steps(trainer) > before)
            w->out->losses[before] = NAN; /* the update counts, and its loss is not told */
        if (w->out->lost) return false;
    }
    FAIL("%s %zu: training does not go on", w->p ? w->p->function : "", w->n);
    return false;
}

static void train_once(const training *w, trained *d)
{
    dpt_device_plan plan = {.size = sizeof plan};
    if (!went(w, open_devices(w, &d->devices), open_devices, &d->devices, "dpt_device_set_open"))
        return;
    if (!went(w, create_trainer(w, d), create_trainer, d, "dpt_trainer_create")) return;
    if (!take_steps(w, d->trainer)) return;
    if (!went(w, evaluate(w, d), evaluate, d, "dpt_trainer_evaluate")) return;
    if (!went(w, read_weights(w, d), read_weights, d, "reading weights")) return;
    for (size_t i = 0; i < dpt_device_set_count(d->devices); i++) {
        if (dpt_trainer_plan(d->trainer, i, &plan) != DPT_OK) return;
        if (i == 0 || plan.micro_batch < w->out->at_once) w->out->at_once = plan.micro_batch;
    }
    w->out->finished = true;
}

/* The training with everything around it; nothing stays behind. */
static void train_and_close(const training *w)
{
    test *t = w->t;
    trained d = {.devices = NULL};
    const size_t before = w->s->face->objects();
    *w->out = (outcome){.weights = calloc(w->model->flat_size, sizeof(float))};
    REQUIRE(w->out->weights);
    (void)alarm(SECONDS_A_RUN); /* nothing may hang */
    if (w->p) w->s->face->plant(w->p->function, w->n, w->p->code, w->p->sticky);
    train_once(w, &d);
    dpt_trainer_destroy(d.trainer);
    dpt_device_set_close(d.devices);
    (void)alarm(0);
    const size_t left = w->s->face->objects() - before;
    const bool gone = w->out->gone || (w->fails_over && w->p);
    if (!gone && left != 0)
        FAIL("%s %zu: %zu objects were not released", w->p ? w->p->function : "", w->n, left);
}

/* ---- One failure after the other ------------------------------------------------------------- */

static void compare(const training *w, const outcome *healthy)
{
    test *t = w->t;
    const outcome *o = w->out;
    double norm = 0, difference = 0;
    if (o->lost) return;
    if (!CHECK(o->finished)) return;
    /* With less memory a shard takes micro-batches, and a batch-norm sees one of them. */
    if (w->model == w->s->residual && o->at_once != healthy->at_once) return;
    bool right = true;
    for (size_t i = 0; i < STEPS; i++)
        if (!isnan(o->losses[i]))
            right = right && CHECK_NEAR(o->losses[i], healthy->losses[i], 1e-4);
    right = right && CHECK_NEAR(o->evaluated, healthy->evaluated, 1e-4);
    for (size_t i = 0; i < w->model->flat_size; i++) {
        norm += pow((double)healthy->weights[i], 2);
        difference += pow((double)o->weights[i] - (double)healthy->weights[i], 2);
    }
    right = right && CHECK(sqrt(difference) <= 1e-4 * sqrt(norm));
    if (!right) FAIL("%s %zu: wrong numbers", w->p->function, w->n);
}

static size_t next_call(size_t n)
{
    return getenv("DPTRAIN_TEST_EVERY") ? n + 1 : n + 1 + n / 2;
}

static failing_code code_of(const failing_face *face, const char *function)
{
    failing_code code = face->otherwise;
    for (size_t i = 0; i < face->n_codes; i++)
        if (strcmp(face->codes[i].function, function) == 0) return face->codes[i];
    code.function = function;
    return code;
}

static void fail_function(const training *of, const char *function, const outcome *healthy)
{
    const failing_face *face = of->s->face;
    const failing_code p = code_of(face, function);
    test *t = of->t;
    size_t n = 1, n_failures = 0, n_runs = 0;
    for (bool fired = true; fired && t->n_failures < MOST_FAILURES; n = next_call(n)) {
        outcome o;
        training w = *of;
        w.p = &p;
        w.n = n;
        w.out = &o;
        if (face->prepare) face->prepare(&p);
        train_and_close(&w);
        fired = face->fired();
        face->plant(NULL, 0, 0, false);
        if (o.weights) compare(&w, healthy);
        free(o.weights);
        n_runs += fired;
        n_failures += fired && o.failed;
    }
    if (face->prepare) face->prepare(NULL);
    printf("  %s on %s: %zu calls failed in turn, of which %zu came to light\n", function,
           of->devices, n_runs, n_failures);
}

static void fail_everything(const training *of)
{
    const failing_face *face = of->s->face;
    test *t = of->t;
    outcome healthy;
    training w = *of;
    w.out = &healthy;
    train_and_close(&w);
    if (CHECK(healthy.finished) && CHECK(!healthy.failed))
        for (size_t i = 0; face->function(i) && t->n_failures < MOST_FAILURES; i++)
            fail_function(of, face->function(i), &healthy);
    free(healthy.weights);
}

void failing_in_turn(test *t, const char *devices, bool with_norms)
{
    const failing *s = t->user;
    const training w = {
        .t = t, .s = s, .devices = devices, .model = with_norms ? s->residual : s->plain};
    fail_everything(&w);
}

void failing_for_good(test *t, const char *devices, const failing_code *gone, bool fails_over)
{
    const failing *s = t->user;
    bool fired = true;
    outcome healthy;
    training w = {
        .t = t, .s = s, .devices = devices, .model = s->residual, .fails_over = fails_over};
    w.out = &healthy;
    train_and_close(&w);
    for (size_t n = 1; fired && n < 40 && t->n_failures < MOST_FAILURES; n = next_call(n)) {
        outcome o;
        w.p = gone;
        w.n = n;
        w.out = &o;
        train_and_close(&w);
        fired = s->face->fired();
        s->face->plant(NULL, 0, 0, false);
        CHECK(o.finished || o.lost);
        if (fails_over && o.finished) compare(&w, &healthy);
        free(o.weights);
    }
    free(healthy.weights);
}

/* ---- What is trained ------------------------------------------------------------------------- */

static dpt_status make_plain(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "plain", out));
    dpt_model *m = *out;
    const dpt_conv2d_options first = {.size = sizeof first,
                                      .out_channels = 6,
                                      .kernel = {3, 3},
                                      .padding = {1, 1},
                                      .activation = DPT_ACT_RELU};
    const dpt_pool2d_options halved = {
        .size = sizeof halved, .kind = DPT_POOL_MAX, .kernel = {2, 2}, .stride = {2, 2}};
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_pool2d(m, dpt_conv2d(m, x, "conv", &first), &halved);
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static dpt_status set_up(failing *s)
{
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(flat_data(s->context, COUNT, 0, &s->data));
    DPT_TRY(make_plain(s->context, &s->plain));
    return flat_residual(s->context, &s->residual);
}

static bool has_device(const failing *s)
{
    for (size_t i = 0; i < dpt_backend_count(s->context); i++)
        if (strcmp(dpt_backend_name(s->context, i), s->face->backend) == 0)
            return dpt_backend_device_count(s->context, i) > 0;
    return false;
}

int failing_main(int argc, char **argv, const failing_face *face, const test_case *cases, size_t n)
{
    failing s = {.face = face};
    int code = 1;
    if (set_up(&s) != DPT_OK) {
        printf("FAIL: %s\n", s.context ? dpt_error_message(s.context) : "no context");
    } else if (!has_device(&s)) {
        const char *required = getenv("DPTRAIN_TEST_REQUIRE");
        code = test_list_has(required ? required : "", face->backend) ? 1 : TEST_SKIP_CODE;
        printf("no device of %s\n", face->backend);
    } else {
        code = test_main(argc, argv, cases, n, &s);
    }
    dpt_model_destroy(s.residual);
    dpt_model_destroy(s.plain);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
