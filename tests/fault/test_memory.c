/* Tests devices that run out of memory during training: the step is retried with shards that fit,
   and the training has the same bits as one with these shards from the start.  Time is simulated,
   so that all runs have the same shards.

   test-fault-memory fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include "io/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 6, COUNT = 50, CLASSES = 3, BATCH = 20, STEPS = 7, MAX_DEVICES = 3 };
enum { MAX_WEIGHTS = 512, SECONDS_A_RUN = 120, TEXT = 256 };

static const char log_path[] = "memory.jsonl", replay_split[] = "replay:memory.jsonl";

/* ---- One training ---------------------------------------------------------------------------- */

typedef struct setting {
    const char *devices, *split;
    bool batch_norm;
    size_t micro_batch;
    size_t in_flight; /* steps */
    size_t steps;
    bool goes_on;       /* after a failed call */
    const char *to_log; /* where the steps go; NULL: nowhere */
} setting;

typedef struct outcome {
    size_t n_devices;
    size_t steps; /* that count */
    size_t shards[STEPS][MAX_DEVICES];
    size_t n_memory; /* steps whose shards changed for lack of memory */
    bool from_memory[STEPS];
    double loss[STEPS];
    size_t n_weights;
    float weights[MAX_DEVICES][MAX_WEIGHTS];
    size_t n_bytes[MAX_DEVICES];     /* that each takes, without the data */
    size_t n_fed;                    /* devices whose memory does not hold the data */
    double evaluated;                /* in the end; NaN if it failed */
    size_t n_starved, n_lost;        /* updates missed, and devices lost, */
    bool gone[MAX_DEVICES];          /* which are these */
    size_t n_failed;                 /* calls */
    dpt_status status;               /* of the first of them */
    size_t failed_after;             /* steps that counted behind it */
    char message[DPT_MESSAGE_BYTES]; /* its */
} outcome;

typedef struct training {
    test *t;
    const setting *setting;
    dpt_context *context;
    dpt_device_set *set;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
    dpti_log *log;
    outcome *o;
} training;

/* Images whose class shows, without a random number. */
static dpt_status make_data(training *w)
{
    return plant_data(w->context, COUNT, SIDE, CLASSES, &w->data);
}

static dpt_status make_model(training *w)
{
    const bool batch_norm = w->setting->batch_norm;
    DPT_TRY(dpt_model_create(w->context, "small", &w->model));
    dpt_model *m = w->model;
    dpt_value x =
        dpt_conv2d(m, dpt_input(m, SIDE, SIDE, 1), "conv",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 4,
                                         .kernel = {3, 3},
                                         .activation = batch_norm ? DPT_ACT_NONE : DPT_ACT_RELU});
    if (batch_norm)
        x = dpt_batch_norm(
            m, x, "bn",
            &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES});
    return dpt_model_finish(m, x);
}

static dpt_status open_log(training *w)
{
    const setting *s = w->setting;
    dpt_device_info devices[MAX_DEVICES];
    dpt_error error = {0};
    if (!s->to_log) return DPT_OK;
    for (size_t i = 0; i < w->o->n_devices; i++) {
        devices[i].size = sizeof devices[i];
        dpt_device_describe(dpt_device_set_get(w->set, i), &devices[i]);
    }
    const dpti_log_run about = {.model = "small",
                                .batch_size = BATCH,
                                .seed = 5,
                                .dataset = "memory",
                                .split = "measured",
                                .n_devices = w->o->n_devices,
                                .devices = devices};
    DPT_TRY(dpti_log_open(s->to_log, &w->log, &error));
    return dpti_log_write_run(w->log, &about, &error);
}

static dpt_status open_training(training *w)
{
    const setting *s = w->setting;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .micro_batch = s->micro_batch,
                                         .split = dpt_split_from(s->split ? s->split : "measured"),
                                         .lr = 0.1f,
                                         .momentum = 0.9f,
                                         .seed = 5};
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, s->devices, &w->set));
    w->o->n_devices = dpt_device_set_count(w->set);
    DPT_TRY(make_data(w));
    DPT_TRY(make_model(w));
    DPT_TRY(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
    return open_log(w);
}

static void close_training(training *w)
{
    test *t = w->t;
    dpt_error error = {0};
    CHECK_OK(dpti_log_close(w->log, &error));
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
}

/* Another rate in each step: one that is repeated keeps its own. */
static float rate(size_t step)
{
    return 0.1f / (float)step;
}

static dpt_status submit(training *w)
{
    const size_t next = dpt_trainer_steps(w->trainer) + dpt_trainer_in_flight(w->trainer) + 1;
    DPT_TRY(dpt_trainer_set_lr(w->trainer, rate(next)));
    return dpt_trainer_submit(w->trainer);
}

static void note_step(training *w, const dpt_step_metrics *m, size_t before)
{
    test *t = w->t;
    outcome *o = w->o;
    size_t sum = 0;
    dpt_error error = {0};
    REQUIRE(m->step == before + 1 && before < STEPS && dpt_trainer_steps(w->trainer) == m->step);
    CHECK_SIZE(m->samples, m->step % 3 == 0 ? COUNT % BATCH : BATCH);
    CHECK_SIZE(m->epoch, before / 3 + 1);
    CHECK_NEAR(m->lr, (double)rate(m->step), 0.0);
    for (size_t i = 0; i < o->n_devices; i++)
        sum += o->shards[before][i] = m->shards[i];
    CHECK_SIZE(sum, m->samples);
    o->loss[before] = m->loss;
    o->from_memory[before] = m->rebalance && strcmp(m->rebalance, "memory") == 0;
    o->n_memory += o->from_memory[before];
    if (w->log) CHECK_OK(dpti_log_write_step(w->log, m, &error));
}

static void note_failure(training *w, dpt_status status)
{
    test *t = w->t;
    outcome *o = w->o;
    CHECK_SIZE(dpt_trainer_in_flight(w->trainer), 0);
    if (o->n_failed++ > 0) return;
    o->status = status;
    o->failed_after = dpt_trainer_steps(w->trainer);
    snprintf(o->message, sizeof o->message, "%s", dpt_error_message(w->context));
}

/* Tries until the steps count, or the first failure. */
static void train(training *w)
{
    test *t = w->t;
    const setting *s = w->setting;
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t attempts = 0; attempts < 3 * STEPS; attempts++) {
        const size_t before = dpt_trainer_steps(w->trainer);
        dpt_status status = DPT_OK;
        if (before >= s->steps) return;
        for (size_t n = dpt_trainer_in_flight(w->trainer);
             status == DPT_OK && n < s->in_flight && before + n < s->steps; n++)
            status = submit(w);
        const size_t n_in_flight = dpt_trainer_in_flight(w->trainer);
        if (status == DPT_OK) status = dpt_trainer_collect(w->trainer, &m);
        if (status == DPT_OK) {
            CHECK_SIZE(dpt_trainer_in_flight(w->trainer), n_in_flight - 1);
            note_step(w, &m, before);
        }
        if (status != DPT_OK) note_failure(w, status);
        if (status != DPT_OK && !s->goes_on) return;
    }
}

static void take_events(training *w)
{
    test *t = w->t;
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(w->trainer, &event)) {
        CHECK(event.device < MAX_DEVICES && !w->o->gone[event.device]);
        if (event.kind == DPT_DEVICE_LOST) {
            w->o->n_lost++;
            w->o->gone[event.device] = true;
        } else if (CHECK(event.kind == DPT_REPLICA_RESTORED)) {
            w->o->n_starved++;
            CHECK_CONTAINS(event.message, "no memory for the update of step");
        }
    }
}

static dpt_status read_weights(training *w)
{
    outcome *o = w->o;
    for (size_t d = 0; d < o->n_devices; d++) {
        if (o->gone[d]) continue;
        o->n_weights = 0;
        for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
            dpt_parameter_info info = {.size = sizeof info};
            dpt_model_tensor(w->model, i, &info);
            if (info.elements > MAX_WEIGHTS - o->n_weights) return DPT_E_INTERNAL;
            DPT_TRY(dpt_trainer_get(w->trainer, d, DPT_PARAMETER, info.name,
                                    o->weights[d] + o->n_weights, info.elements));
            o->n_weights += info.elements;
        }
    }
    return DPT_OK;
}

static bool same_weights(const outcome *a, size_t i, const outcome *b, size_t k)
{
    return a->n_weights > 0 && a->n_weights == b->n_weights &&
           memcmp(a->weights[i], b->weights[k], a->n_weights * sizeof(float)) == 0;
}

/* Everything that a fault device counts as left behind. */
static void check_released(test *t, const char *devices)
{
    char line[TEXT];
    FILE *file = fopen("fault-report.txt", "r");
    while (file && fgets(line, sizeof line, file)) {
        size_t n_calls, n_left;
        if (sscanf(line, "closed %zu %zu", &n_calls, &n_left) == 2 && n_left > 0)
            FAIL("%s: %zu objects were not released", devices, n_left);
    }
    if (file) fclose(file);
}

static bool fired(void)
{
    char line[TEXT];
    bool found = false;
    FILE *file = fopen("fault-report.txt", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "fired", 5) == 0;
    if (file) fclose(file);
    return found;
}

/* What training has led to.  What is planted may happen here: then it is tried once more. */
static void look_after(training *w)
{
    test *t = w->t;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    dpt_status status = dpt_trainer_evaluate(w->trainer, w->data, &evaluation);
    if (status == DPT_E_NO_MEMORY) status = dpt_trainer_evaluate(w->trainer, w->data, &evaluation);
    if (status == DPT_OK) w->o->evaluated = evaluation.loss;
    status = read_weights(w);
    if (status == DPT_E_NO_MEMORY) status = read_weights(w);
    CHECK_OK(status);
}

static void note_memory(training *w)
{
    test *t = w->t;
    for (size_t i = 0; i < w->o->n_devices; i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        if (CHECK_OK(dpt_trainer_plan(w->trainer, i, &plan))) w->o->n_fed += plan.streamed;
        w->o->n_bytes[i] = dpt_trainer_device_bytes(w->trainer, i);
    }
}

/* One training from beginning to end. */
static void carry_out(test *t, const setting *s, outcome *o)
{
    training w = {.t = t, .setting = s, .o = o};
    *o = (outcome){.evaluated = NAN};
    (void)remove("fault-report.txt");
    (void)alarm(SECONDS_A_RUN); /* nothing may hang */
    if (!CHECK_OK(open_training(&w))) {
        FAIL("%s: %s", s->devices, w.context ? dpt_error_message(w.context) : "no context");
    } else {
        note_memory(&w);
        train(&w);
        take_events(&w);
        o->steps = dpt_trainer_steps(w.trainer);
        look_after(&w);
        for (size_t d = 1; d < o->n_devices; d++)
            if (!o->gone[d] && !CHECK(same_weights(o, 0, o, d)))
                FAIL("%s: the replicas disagree", s->devices);
    }
    close_training(&w);
    (void)alarm(0);
    check_released(t, s->devices);
}

/* The same steps on devices that have memory enough: the log of the first gives the same bits. */
static void check_replay(test *t, const setting *s, const outcome *o)
{
    setting replay = *s;
    outcome again;
    char devices[TEXT] = "cpu:threads=1";
    for (size_t i = 1; i < o->n_devices; i++)
        strcat(devices, ",cpu:threads=1");
    replay.devices = devices;
    replay.split = replay_split;
    replay.to_log = NULL;
    replay.steps = o->steps;
    replay.in_flight = 1;
    carry_out(t, &replay, &again);
    CHECK_SIZE(again.steps, o->steps);
    for (size_t i = 0; i < o->steps && t->n_failures == 0; i++)
        CHECK_NEAR(o->loss[i], again.loss[i], 0.0);
    if (!CHECK(same_weights(o, 0, &again, 0)))
        FAIL("%s: other weights than by the same shares from the start", s->devices);
    CHECK_NEAR(o->evaluated, again.evaluated, 1e-6);
}

/* ---- Shares that do not fit ------------------------------------------------------------------ */

static const char *backend_of(const test *t)
{
    return ((const plant *)t->user)->backend;
}

/* What is planted on each device, "" for nothing; NULL behind the last. */
static void make_list(const test *t, char devices[TEXT], const char *const planted[MAX_DEVICES])
{
    size_t length = 0;
    for (size_t i = 0; i < MAX_DEVICES && planted[i]; i++)
        length +=
            (size_t)snprintf(devices + length, TEXT - length, "%s%s:threads=1:clock=9%s%s",
                             i > 0 ? "," : "", backend_of(t), *planted[i] ? ":" : "", planted[i]);
}

typedef struct room {
    size_t from, rooms[MAX_DEVICES]; /* 0: enough */
    size_t n_devices;
    bool batch_norm;
    size_t in_flight;
} room;

/* Every step from `from` on keeps within the rooms, and says why when it began to. */
static void check_room(test *t, const room *r, const outcome *o, const char *devices)
{
    CHECK_SIZE(o->steps, STEPS);
    if (!CHECK_SIZE(o->n_failed, 0)) FAIL("%s: %s", devices, o->message);
    for (size_t step = 0; step < o->steps; step++)
        for (size_t i = 0; i < o->n_devices; i++)
            if (r->rooms[i] > 0 && step + 1 >= r->from)
                if (!CHECK(o->shards[step][i] <= r->rooms[i]))
                    FAIL("%s: %zu samples in step %zu", devices, o->shards[step][i], step + 1);
    CHECK(o->n_memory >= 1 && o->n_memory <= 2); /* a ragged batch may have fitted first */
    for (size_t step = 0; step + 1 < r->from; step++)
        CHECK(!o->from_memory[step]);
    /* 20 samples do not fit into 7 and 7, nor 10 into 3 and 3; 10 may into 7 and 7. */
    if (r->from % 3 != 0 || r->rooms[0] + r->rooms[1] < 4) CHECK(o->from_memory[r->from - 1]);
}

static void one_room(test *t, const room *r)
{
    char planted[MAX_DEVICES][TEXT], devices[TEXT];
    const char *list[MAX_DEVICES] = {NULL};
    outcome o;
    for (size_t i = 0; i < r->n_devices; i++) {
        planted[i][0] = '\0';
        if (r->rooms[i] > 0) snprintf(planted[i], TEXT, "room=%zu:from=%zu", r->rooms[i], r->from);
        list[i] = planted[i];
    }
    make_list(t, devices, list);
    const setting s = {.devices = devices,
                       .batch_norm = r->batch_norm,
                       .in_flight = r->in_flight,
                       .steps = STEPS,
                       .to_log = log_path};
    carry_out(t, &s, &o);
    CHECK(fired());
    check_room(t, r, &o, devices);
    check_replay(t, &s, &o);
    CHECK(isfinite(o.evaluated));
}

/* In each step in turn, the ragged ones among them (3 and 6), as the older one in flight with
   another behind it and alone; once with 10 of 20 and 5 of 10 samples too many, then with less. */
static void a_shard_that_does_not_fit(test *t)
{
    const size_t rooms[] = {7, 3, 1};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        for (size_t from = 1; from <= STEPS - 1 && t->n_failures == 0; from++)
            for (int way = 0; way < 4; way++) {
                const room r = {.from = from,
                                .rooms = {way % 2 ? rooms[i] : 0, way % 2 ? 0 : rooms[i]},
                                .n_devices = 2,
                                .batch_norm = way >= 2,
                                .in_flight = 1 + (from + (size_t)way / 2) % 2};
                one_room(t, &r);
            }
}

static void two_devices_at_once(test *t)
{
    for (size_t from = 1; from <= STEPS - 1 && t->n_failures == 0; from++) {
        const room r = {.from = from,
                        .rooms = {2, 0, 3},
                        .n_devices = 3,
                        .batch_norm = from % 2,
                        .in_flight = 2};
        one_room(t, &r);
    }
}

/* In micro-batches, what was too much is a micro-batch. */
static void a_micro_batch_that_does_not_fit(test *t)
{
    for (size_t from = 1; from <= 4; from++) {
        char devices[TEXT], planted[TEXT];
        outcome o;
        snprintf(planted, sizeof planted, "room=4:from=%zu", from);
        const char *const list[MAX_DEVICES] = {"", planted};
        make_list(t, devices, list);
        const setting s = {.devices = devices,
                           .batch_norm = true,
                           .micro_batch = 8,
                           .in_flight = 2,
                           .steps = STEPS,
                           .to_log = log_path};
        carry_out(t, &s, &o);
        CHECK(fired());
        CHECK_SIZE(o.n_failed, 0);
        CHECK(o.n_memory >= 1 && o.shards[STEPS - 1][1] <= 4);
        check_replay(t, &s, &o);
    }
}

/* Samples that are sent with each step are gathered anew for the new shares. */
static void fed_data_follow(test *t)
{
    enum { A_STEP = 1200 }; /* bytes: of a batch, and not of the data */
    if (strcmp(backend_of(t), "faultstaged") != 0) SKIP("its memory is the host's: nothing is fed");
    for (size_t from = 1; from <= 4; from++) {
        char devices[TEXT], planted[TEXT];
        outcome o;
        const char *const list[MAX_DEVICES] = {planted, ""};
        setting s = {.batch_norm = from % 2, .in_flight = 2, .devices = devices};
        planted[0] = '\0';
        make_list(t, devices, list);
        carry_out(t, &s, &o);
        CHECK_SIZE(o.n_fed, 0);
        snprintf(planted, sizeof planted, "room=7:from=%zu:memory=%zu", from,
                 o.n_bytes[0] + A_STEP);
        make_list(t, devices, list);
        s.steps = STEPS;
        s.to_log = log_path;
        carry_out(t, &s, &o);
        CHECK(fired());
        if (!CHECK_SIZE(o.n_failed, 0)) FAIL("%s: %s", devices, o.message);
        CHECK(o.n_fed > 0);
        CHECK(o.n_memory >= 1 && o.shards[STEPS - 1][0] <= 7);
        check_replay(t, &s, &o);
    }
}

/* A device that holds more than half of what did not fit gets what it has held before. */
static void what_was_held_is_given(test *t)
{
    char devices[TEXT];
    const char *const planted[MAX_DEVICES] = {"room=12", "throttle=3"};
    outcome o;
    make_list(t, devices, planted);
    const setting s = {.devices = devices, .in_flight = 2, .steps = STEPS, .to_log = log_path};
    carry_out(t, &s, &o);
    CHECK(fired());
    CHECK_SIZE(o.n_memory, 1);
    CHECK_SIZE(o.shards[STEPS - 1][0], BATCH / 2);
    check_replay(t, &s, &o);
}

/* ---- When nothing can be done ---------------------------------------------------------------- */

/* Step `from` fails with this in the message, again and again, and nothing has changed by it. */
static void fails_clearly(test *t, const setting *s, size_t from, const char *part)
{
    setting healthy = *s;
    outcome o, before;
    carry_out(t, s, &o);
    CHECK_STATUS(o.status, DPT_E_NO_MEMORY);
    CHECK_SIZE(o.steps, from - 1);
    CHECK_SIZE(o.failed_after, from - 1);
    CHECK(o.n_failed > (s->goes_on ? 1 : 0));
    CHECK_CONTAINS(o.message, backend_of(t));
    CHECK_CONTAINS(o.message, "batch size");
    CHECK_CONTAINS(o.message, "micro-batch of at most 5");
    CHECK_CONTAINS(o.message, part);
    CHECK(!strchr(o.message, '\n'));
    healthy.devices = "cpu:threads=1,cpu:threads=1";
    healthy.split = "1:1";
    healthy.to_log = NULL;
    healthy.steps = from - 1;
    carry_out(t, &healthy, &before);
    CHECK(same_weights(&o, 0, &before, 0));
}

static void no_device_holds_it(test *t)
{
    for (size_t from = 1; from <= 2; from++) {
        char devices[TEXT], planted[TEXT];
        snprintf(planted, sizeof planted, "room=9:from=%zu", from);
        const char *const list[MAX_DEVICES] = {planted, planted};
        make_list(t, devices, list);
        for (size_t in_flight = 1; in_flight <= 2; in_flight++) {
            const setting s = {.devices = devices,
                               .batch_norm = in_flight == 2,
                               .in_flight = in_flight,
                               .steps = STEPS,
                               .goes_on = true};
            fails_clearly(t, &s, from, "hold no batch of 20");
        }
    }
}

static void fixed_shards_are_not_changed(test *t)
{
    const char *const splits[] = {"equal", "1:1"};
    char devices[TEXT];
    const char *const list[MAX_DEVICES] = {"", "room=9:from=2"};
    make_list(t, devices, list);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        const setting s = {.devices = devices,
                           .split = splits[i],
                           .batch_norm = i == 1,
                           .in_flight = 2,
                           .steps = STEPS,
                           .goes_on = true};
        fails_clearly(t, &s, 2, "split \"measured\"");
    }
    outcome o;
    setting s = {.devices = "cpu:threads=1,cpu:threads=1",
                 .split = "1:1",
                 .in_flight = 2,
                 .steps = STEPS,
                 .to_log = log_path};
    carry_out(t, &s, &o);
    s.devices = devices;
    s.split = replay_split;
    s.to_log = NULL;
    fails_clearly(t, &s, 2, "split \"measured\"");
}

/* Where one sample is too much, smaller batches cannot help, and are not advised. */
static void one_sample_is_too_much(test *t)
{
    const char *const list[MAX_DEVICES] = {"entry=run:full=1:for=99:from=2"};
    char devices[TEXT], planted[TEXT];
    outcome o;
    setting s = {.devices = devices, .micro_batch = 1, .in_flight = 1, .steps = STEPS};
    make_list(t, devices, list);
    carry_out(t, &s, &o);
    CHECK_STATUS(o.status, DPT_E_NO_MEMORY);
    CHECK_CONTAINS(o.message,
                   "; one sample at once is too much: use --recompute on, which computes "
                   "activations again, or a device with more memory");
    CHECK(!strstr(o.message, "batch size"));
    /* Several devices can divide what lasts.  Some of these calls belong to the update, which is
       made good. */
    size_t n_failed = 0;
    s.split = "1:1";
    for (size_t n = 1; n <= 20; n++) {
        const char *const pair[MAX_DEVICES] = {"", planted};
        snprintf(planted, sizeof planted, "full=%zu:for=1:from=2", n);
        make_list(t, devices, pair);
        carry_out(t, &s, &o);
        if (o.n_failed == 0) continue;
        n_failed++;
        CHECK_STATUS(o.status, DPT_E_NO_MEMORY);
        CHECK_CONTAINS(o.message, "; one sample at once is too much: use --recompute on");
        CHECK_CONTAINS(o.message, ", --shard optimizer, which divides its state over devices");
        CHECK_CONTAINS(o.message, "a device with more memory, or split \"measured\"");
        CHECK(!strstr(o.message, "batch size"));
    }
    CHECK(n_failed > 0);
}

/* ---- Every call ------------------------------------------------------------------------------ */

/* What becomes of a planted failure. */
typedef struct tally {
    size_t n_runs, n_repeated, n_starved;
} tally;

/* `times` calls from the n-th on, for every n, on the first or the second device. */
static void every_call(test *t, const char *entry, size_t times, bool batch_norm, tally *sum)
{
    enum { MAX_CALLS = 2000 };
    bool happened = true;
    for (size_t n = 1; happened && n < MAX_CALLS && t->n_failures == 0; n++) {
        char devices[TEXT], planted[TEXT];
        outcome o;
        snprintf(planted, sizeof planted, "full=%zu:for=%zu:from=2%s%s", n, times,
                 entry ? ":entry=" : "", entry ? entry : "");
        const char *const list[MAX_DEVICES] = {n % 2 ? planted : "", n % 2 ? "" : planted};
        make_list(t, devices, list);
        const setting s = {.devices = devices,
                           .batch_norm = batch_norm,
                           .in_flight = 1 + n / 2 % 2,
                           .steps = STEPS,
                           .goes_on = true,
                           .to_log = log_path};
        carry_out(t, &s, &o);
        happened = fired();
        if (!happened) break;
        CHECK_SIZE(o.steps, STEPS);
        CHECK_SIZE(o.n_failed, 0);
        CHECK_SIZE(o.n_lost, 0);
        check_replay(t, &s, &o);
        sum->n_runs++;
        sum->n_repeated += o.n_memory > 0;
        sum->n_starved += o.n_starved > 0;
        if (t->n_failures > 0) FAIL("%s", devices);
    }
}

/* After the commit it is no matter of shares: the device is given the update that it has missed. */
static void every_call_once(test *t)
{
    tally sum = {0};
    every_call(t, NULL, 1, false, &sum);
    every_call(t, NULL, 1, true, &sum);
    printf("  %zu calls had no memory in turn: %zu steps repeated, %zu updates missed\n",
           sum.n_runs, sum.n_repeated, sum.n_starved);
    CHECK(sum.n_repeated > 20 && sum.n_starved > 20);
}

/* The same step runs out of memory three times: 10, 5, 2 samples. */
static void uploads_three_times(test *t)
{
    tally sum = {0};
    every_call(t, "upload", 3, false, &sum);
    printf("  %zu runs: %zu repeated\n", sum.n_runs, sum.n_repeated);
    CHECK(sum.n_repeated > 3);
}

/* A device that has no memory for any share at all gets none, and still follows. */
static void nothing_fits(test *t)
{
    char devices[TEXT];
    const char *const list[MAX_DEVICES] = {"", "entry=upload:full=1:for=4:from=2"};
    outcome o;
    make_list(t, devices, list);
    const setting s = {
        .devices = devices, .batch_norm = true, .in_flight = 2, .steps = STEPS, .to_log = log_path};
    /* What moves to staged devices in the update is an upload too. */
    if (strcmp(backend_of(t), "fault") == 0) {
        carry_out(t, &s, &o);
        CHECK_SIZE(o.n_memory, 1);
        for (size_t i = 1; i < STEPS; i++)
            CHECK_SIZE(o.shards[i][1], 0);
        check_replay(t, &s, &o);
    }
    /* And with five failures it does not even follow: that is an error, in the step. */
    const char *const more[MAX_DEVICES] = {"", "entry=upload:full=1:for=5:from=2"};
    make_list(t, devices, more);
    carry_out(t, &s, &o);
    CHECK_STATUS(o.status, DPT_E_NO_MEMORY);
    if (strcmp(backend_of(t), "fault") == 0) CHECK_CONTAINS(o.message, "leave it out");
}

/* ---- In the update --------------------------------------------------------------------------- */

/* A device that has no memory for an update is given it, whatever the split, and the step counts;
   for two of them, one after the other, it is lost. */
static void updates_are_given(test *t)
{
    const char *const splits[] = {"measured", "equal", "0:1"};
    for (size_t i = 0; i < 12; i++) {
        char devices[TEXT], planted[TEXT];
        outcome o;
        const bool lasts = i % 4 == 3;
        snprintf(planted, sizeof planted, "starve=%zu:for=%d", 1 + i / 2, lasts ? 2 : 1);
        const char *const list[MAX_DEVICES] = {"", planted};
        make_list(t, devices, list);
        const setting s = {.devices = devices,
                           .split = splits[i / 4],
                           .batch_norm = i < 6,
                           .in_flight = 1 + i % 2,
                           .steps = STEPS,
                           .to_log = log_path};
        carry_out(t, &s, &o);
        CHECK(fired());
        CHECK_SIZE(o.steps, STEPS);
        if (!CHECK_SIZE(o.n_failed, 0)) FAIL("%s: %s", devices, o.message);
        CHECK_SIZE(o.n_starved, 1);
        CHECK_SIZE(o.n_lost, lasts);
        check_replay(t, &s, &o);
    }
}

/* By another one where the first that has made it has no memory to be read: nobody is lost. */
static void updates_are_given_by_another(test *t)
{
    char devices[TEXT];
    const char *const list[MAX_DEVICES] = {"entry=download:full=1:from=4", "", "starve=3"};
    outcome o;
    if (strcmp(backend_of(t), "fault") != 0) SKIP("it downloads more than that");
    make_list(t, devices, list);
    const setting s = {
        .devices = devices, .split = "equal", .in_flight = 2, .steps = 4, .to_log = log_path};
    carry_out(t, &s, &o);
    CHECK_SIZE(o.steps, 4);
    if (!CHECK_SIZE(o.n_failed, 0)) FAIL("%s: %s", devices, o.message);
    CHECK_SIZE(o.n_starved, 1);
    CHECK_SIZE(o.n_lost, 0);
}

/* Where nobody has made it, or losses end the call, so does this, and says why. */
static void nobody_has_the_update(test *t)
{
    const char *const lists[][MAX_DEVICES] = {{"starve=3"}, {"starve=3", "starve=3"}};
    for (size_t i = 0; i < 4; i++) {
        char devices[TEXT];
        training w = {.t = t};
        outcome o = {.evaluated = NAN};
        make_list(t, devices, lists[i / 2]);
        const setting s = {
            .devices = devices, .split = "equal", .in_flight = 1 + i % 2, .steps = STEPS};
        w.setting = &s;
        w.o = &o;
        (void)remove("fault-report.txt");
        if (CHECK_OK(open_training(&w))) {
            dpt_step_metrics m = {.size = sizeof m};
            dpt_evaluation e = {.size = sizeof e};
            train(&w);
            take_events(&w);
            CHECK_STATUS(o.status, DPT_E_NO_MEMORY);
            CHECK_CONTAINS(o.message, "no memory for update");
            CHECK_SIZE(o.n_starved + o.n_lost, 0);
            CHECK_STATUS(dpt_trainer_step(w.trainer, &m), DPT_E_STATE);
            CHECK_STATUS(dpt_trainer_evaluate(w.trainer, w.data, &e), DPT_E_STATE);
        }
        close_training(&w);
    }
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* Fewer at once change nothing there, whatever the split. */
static void evaluation_takes_fewer(test *t)
{
    const char *const splits[] = {"measured", "equal"};
    for (size_t i = 0; i < 2; i++) {
        char devices[TEXT];
        const char *const list[MAX_DEVICES] = {"room=3", ""};
        outcome o, whole;
        make_list(t, devices, list);
        setting s = {.devices = devices, .split = splits[i], .batch_norm = true, .in_flight = 1};
        carry_out(t, &s, &o);
        CHECK(fired());
        s.devices = "cpu:threads=1,cpu:threads=1";
        carry_out(t, &s, &whole);
        CHECK_NEAR(o.evaluated, whole.evaluated, 1e-6);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a_share_that_does_not_fit", a_shard_that_does_not_fit},
        {"two_devices_at_once", two_devices_at_once},
        {"a_micro_batch_that_does_not_fit", a_micro_batch_that_does_not_fit},
        {"fed_data_follow", fed_data_follow},
        {"what_was_held_is_given", what_was_held_is_given},
        {"no_device_holds_it", no_device_holds_it},
        {"fixed_shares_are_not_changed", fixed_shards_are_not_changed},
        {"one_sample_is_too_much", one_sample_is_too_much},
        {"every_call_once", every_call_once},
        {"uploads_three_times", uploads_three_times},
        {"nothing_fits", nothing_fits},
        {"updates_are_given", updates_are_given},
        {"updates_are_given_by_another", updates_are_given_by_another},
        {"nobody_has_the_update", nobody_has_the_update},
        {"evaluation_takes_fewer", evaluation_takes_fewer},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-memory fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
