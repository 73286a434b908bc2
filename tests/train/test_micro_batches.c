/* Tests shards that are computed in several micro-batches: on devices whose memory or caches do
   not hold them, and with a largest micro-batch that the user sets.  Without batch-norm training
   is the same, by the two measures of test_mix.c.  With batch-norm, every micro-batch has its own
   statistics.  What a batch-norm cannot do is refused before training. */
#include "harness.h"
#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 64, MAX_MICRO_BATCHES = 64 };

typedef struct baseline {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *plain, *residual; /* without batch-norm, and with it */
    /* Of the plain model on one device at once. */
    interpreter reference;
    double errors[MAX_TENSORS];
    flat_outcome last;
    double moved; /* by a change of order */
} baseline;

/* Everything in it depends on the sample alone. */
static dpt_status make_plain(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "plain", out));
    dpt_model *m = *out;
    dpt_value x = flat_dropout_trunk(m);
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static flat_task task_of(const baseline *b, const char *devices, const char *split, size_t micro)
{
    return (flat_task){.model = b->plain,
                       .data = b->data,
                       .devices = devices,
                       .split = split,
                       .batch = FLAT_BATCH,
                       .micro_batch = micro,
                       .steps = 1};
}

static bool run(test *t, const baseline *b, const flat_task *task, flat_outcome *out)
{
    if (CHECK_OK(flat_run(b->context, task, out))) return true;
    FAIL("%s split %s at most %zu: %s", task->devices, task->split, task->micro_batch,
         dpt_error_message(b->context));
    return false;
}

static void set_up(test *t, baseline *b)
{
    flat_outcome first, other;
    REQUIRE_OK(dpt_context_create(&b->context));
    REQUIRE_OK(flat_data(b->context, FLAT_COUNT, 0, &b->data));
    REQUIRE_OK(make_plain(b->context, &b->plain));
    REQUIRE_OK(flat_residual(b->context, &b->residual));
    flat_task task = task_of(b, "cpu", NULL, 0);
    REQUIRE(flat_interpret(&task, 1, (const size_t[]){FLAT_BATCH}, &b->reference));
    REQUIRE(run(t, b, &task, &first));
    flat_errors(b->plain, first.gradients, b->reference.gradients, b->errors);
    for (size_t i = 0; i < b->plain->n_parameters; i++)
        CHECK(b->errors[i] <=
              1e-5 * parameter_norm(&b->plain->parameters[i], b->reference.gradients));
    flat_free(&first);
    task.steps = FLAT_STEPS;
    REQUIRE(run(t, b, &task, &b->last));
    CHECK(b->last.losses[FLAT_STEPS - 1] <= 0.8 * b->last.losses[0]);
    /* Dropout goes by the index, so no samples can change places: another order of the sums comes
       from other shares. */
    task.devices = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
    task.split = "9:11:9";
    REQUIRE(run(t, b, &task, &other));
    b->moved = flat_distance(b->plain, other.weights, b->last.weights);
    CHECK(b->moved > 0);
    flat_free(&other);
}

static void tear_down(baseline *b)
{
    flat_free(&b->last);
    interpreter_free(&b->reference);
    dpt_model_destroy(b->residual);
    dpt_model_destroy(b->plain);
    dpt_dataset_destroy(b->data);
    dpt_context_destroy(b->context);
}

/* ---- Without batch-norm ---------------------------------------------------------------------- */

static void check_same(test *t, const baseline *b, flat_task task)
{
    flat_outcome one, all;
    const char *worst = "";
    if (run(t, b, &task, &one)) {
        if (!CHECK(flat_gradients_agree(b->plain, one.gradients, b->reference.gradients, b->errors,
                                        &worst)))
            FAIL("%s split %s at most %zu: %s", task.devices, task.split, task.micro_batch, worst);
    }
    task.steps = FLAT_STEPS;
    if (run(t, b, &task, &all)) {
        const double distance = flat_distance(b->plain, all.weights, b->last.weights);
        if (!CHECK(distance <= 4 * b->moved) || !CHECK(all.replicas_agree))
            FAIL("%s split %s at most %zu: distance %g, by order %g", task.devices, task.split,
                 task.micro_batch, distance, b->moved);
        for (size_t s = 0; s < FLAT_STEPS; s++)
            CHECK_NEAR(all.losses[s], b->last.losses[s], 1e-5);
    }
    flat_free(&one);
    flat_free(&all);
}

static void micro_batches(test *t)
{
    const baseline *b = t->user;
    static const size_t most[] = {1, 4, 10, 28, 29, 1000};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        check_same(t, b, task_of(b, "cpu:threads=1", NULL, most[i]));
        check_same(t, b, task_of(b, "cpu:threads=1,faultstaged:threads=1", "3:1", most[i]));
    }
    check_same(t, b, task_of(b, "cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:0:1", 5));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What a trainer takes of a device without a limit, its data included. */
static size_t bytes_of(test *t, const baseline *b, const dpt_model *model, const char *devices,
                       size_t *data_bytes)
{
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_device_plan plan = {.size = sizeof plan};
    size_t n_bytes = 0;
    if (CHECK_OK(dpt_device_set_open(b->context, devices, &set)) &&
        CHECK_OK(dpt_trainer_create(set, model, b->data,
                                    &(dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                                           .batch_size = FLAT_BATCH,
                                                           .momentum = FLAT_MOMENTUM},
                                    &trainer)) &&
        CHECK_OK(dpt_trainer_plan(trainer, 0, &plan))) {
        n_bytes = dpt_trainer_device_bytes(trainer, 0) + plan.data_bytes;
        *data_bytes = plan.data_bytes;
        CHECK_SIZE(plan.micro_batch, FLAT_BATCH);
        CHECK_SIZE(plan.parameter_bytes + plan.optimizer_bytes + plan.activation_bytes +
                       plan.step_bytes + plan.data_bytes,
                   n_bytes);
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return n_bytes;
}

static void check_at_once(test *t, const baseline *b, const char *format, size_t n_bytes,
                          size_t least, size_t most)
{
    char devices[96];
    flat_outcome o;
    snprintf(devices, sizeof devices, format, n_bytes);
    const flat_task task = task_of(b, devices, "equal", 0);
    if (run(t, b, &task, &o) && !CHECK(o.at_once[0] >= least && o.at_once[0] <= most))
        FAIL("%s: %zu at once, not %zu to %zu", devices, o.at_once[0], least, most);
    flat_free(&o);
    check_same(t, b, task);
}

static void small_memory(test *t)
{
    const baseline *b = t->user;
    static const char host[] = "cpu:threads=1:memory=%zu";
    static const char staged[] = "faultstaged:threads=1:memory=%zu";
    size_t data_bytes = 0;
    size_t n_bytes = bytes_of(t, b, b->plain, "cpu:threads=1", &data_bytes);
    /* It holds what it says, and not a byte less. */
    CHECK_SIZE(data_bytes, 0);
    check_at_once(t, b, host, n_bytes, FLAT_BATCH, FLAT_BATCH);
    check_at_once(t, b, host, n_bytes - 1, (FLAT_BATCH + 1) / 2, (FLAT_BATCH + 1) / 2);
    check_at_once(t, b, host, n_bytes * 4 / 10, 2, FLAT_BATCH / 2);
    check_at_once(t, b, "cpu:threads=1:memory=%zu,cpu:threads=1", n_bytes * 4 / 10, 2,
                  FLAT_BATCH / 2);
    /* First its data have to go, then the share is divided. */
    n_bytes = bytes_of(t, b, b->plain, "faultstaged:threads=1", &data_bytes);
    CHECK(data_bytes > 0);
    check_at_once(t, b, staged, n_bytes, FLAT_BATCH, FLAT_BATCH);
    check_at_once(t, b, staged, n_bytes - 1, FLAT_BATCH, FLAT_BATCH);
    check_at_once(t, b, staged, (n_bytes - data_bytes) * 4 / 10, 2, FLAT_BATCH / 2);
}

/* A batch-norm's statistics are of the whole batch as long as others have room: a device gets no
   more than it holds at once. */
static void small_memory_bounds_shards(test *t)
{
    const baseline *b = t->user;
    size_t data_bytes = 0;
    char devices[128];
    flat_outcome o;
    const size_t n_bytes = bytes_of(t, b, b->residual, "cpu:threads=1", &data_bytes);
    snprintf(devices, sizeof devices, "cpu:threads=1:memory=%zu,cpu:threads=1:throttle=8",
             n_bytes * 4 / 10);
    flat_task task = task_of(b, devices, "measured", 0);
    task.model = b->residual;
    task.steps = FLAT_STEPS;
    if (run(t, b, &task, &o)) CHECK(o.at_once[0] < FLAT_BATCH / 2 && o.shards[0] <= o.at_once[0]);
    flat_free(&o);
    /* Running statistics are the same for every micro-batch. */
    task.mode = DPT_BATCH_NORM_FROZEN;
    if (run(t, b, &task, &o)) CHECK(o.at_once[0] < FLAT_BATCH / 2 && o.shards[0] > o.at_once[0]);
    flat_free(&o);
}

static void too_small_memory(test *t)
{
    const baseline *b = t->user;
    flat_outcome o;
    const flat_task task = task_of(b, "cpu:threads=1:memory=8K", NULL, 0);
    CHECK_STATUS(flat_run(b->context, &task, &o), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(b->context), "memory");
    flat_free(&o);
}

/* ---- Caches ---------------------------------------------------------------------------------- */

/* Without caches, or where they hold all, a share is computed at once. */
static void small_caches(test *t)
{
    const baseline *b = t->user;
    static const char pair[] = "cpu:threads=1,fault:threads=1:cache=300000";
    static const struct {
        const char *devices, *split;
        size_t micro_batch, device, least, most; /* samples at once */
        bool residual;
    } cases[] = {
        {"fault:threads=1:cache=100000000", NULL, 0, 0, FLAT_BATCH, FLAT_BATCH, false},
        {"fault:threads=1:cache=300000", NULL, 0, 0, 8, 14, false},
        {"fault:threads=1:cache=600000", NULL, 0, 0, 16, 28, false},
        {"faultstaged:threads=1:cache=300000", NULL, 0, 0, 8, 14, false},
        {pair, "1:1", 0, 0, 15, 15, false},
        {pair, "1:1", 0, 1, 8, 14, false},
        {pair, "measured", 0, 1, 8, 14, false},
        /* What is told is done. */
        {"fault:threads=1:cache=300000", NULL, FLAT_BATCH, 0, FLAT_BATCH, FLAT_BATCH, false},
        {"fault:threads=1:cache=300000", NULL, 2, 0, 2, 2, false},
        /* A thread needs some samples; parameters are gone over in each micro-batch; and statistics
           are those of the batch. */
        {"fault:threads=2:cache=300000", NULL, 0, 0, FLAT_BATCH, FLAT_BATCH, false},
        {"fault:threads=1:cache=20000", NULL, 0, 0, FLAT_BATCH, FLAT_BATCH, false},
        {"fault:threads=1:cache=300000", NULL, 0, 0, FLAT_BATCH, FLAT_BATCH, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flat_outcome o;
        flat_task task = task_of(b, cases[i].devices, cases[i].split, cases[i].micro_batch);
        if (cases[i].residual) task.model = b->residual;
        if (run(t, b, &task, &o)) {
            const size_t n = o.at_once[cases[i].device];
            if (!CHECK(n >= cases[i].least && n <= cases[i].most))
                FAIL("case %zu: %zu at once", i, n);
        }
        flat_free(&o);
        if (!cases[i].residual) check_same(t, b, task);
    }
}

/* Of a batch-norm that takes no statistics the caches may decide, and training is that at once. */
static void small_caches_with_frozen_norms(test *t)
{
    const baseline *b = t->user;
    flat_outcome at_once, divided;
    flat_task task = task_of(b, "fault:threads=1:cache=300000", NULL, FLAT_BATCH);
    task.model = b->residual;
    task.mode = DPT_BATCH_NORM_FROZEN;
    task.steps = FLAT_STEPS;
    if (run(t, b, &task, &at_once)) CHECK_SIZE(at_once.at_once[0], FLAT_BATCH);
    task.micro_batch = 0;
    if (run(t, b, &task, &divided)) {
        CHECK(divided.at_once[0] >= 8 && divided.at_once[0] < FLAT_BATCH);
        for (size_t s = 0; s < FLAT_STEPS; s++)
            CHECK_NEAR(divided.losses[s], at_once.losses[s], 1e-4);
    }
    flat_free(&at_once);
    flat_free(&divided);
}

/* Two epochs with a log; the plan of the first device, and its weights. */
static size_t fit(test *t, const baseline *b, const char *devices, const char *split,
                  const char *log, float *weights)
{
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_fit_result result = {.size = sizeof result};
    dpt_device_plan plan = {.size = sizeof plan};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = FLAT_BATCH,
                                         .split = dpt_split_from(split),
                                         .lr = FLAT_RATE,
                                         .momentum = FLAT_MOMENTUM};
    if (!CHECK_OK(dpt_device_set_open(b->context, devices, &set)) ||
        !CHECK_OK(dpt_trainer_create(set, b->plain, b->data, &options, &trainer)) ||
        !CHECK_OK(dpt_trainer_plan(trainer, 0, &plan)) ||
        !CHECK_OK(dpt_fit(
            trainer, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 2, .log = log},
            &result)) ||
        !CHECK_OK(dpti_trainer_read(trainer, 0, DPT_PARAMETER, weights)))
        FAIL("%s: %s", devices, dpt_error_message(b->context));
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return plan.micro_batch;
}

/* Whatever the caches are of those who replay it. */
static void micro_batches_are_replayed(test *t)
{
    const baseline *b = t->user;
    static const char small[] = "fault:threads=1:cache=300000,cpu:threads=1",
                      large[] = "fault:threads=1:cache=100000000,cpu:threads=1";
    const size_t n_bytes = b->plain->flat_size * sizeof(float);
    float *first = calloc(1, n_bytes), *again = calloc(1, n_bytes), *otherwise = calloc(1, n_bytes);
    REQUIRE(first && again && otherwise);
    const size_t at_once = fit(t, b, small, "4:1", "micro_batches.jsonl", first);
    CHECK(at_once < 20);
    CHECK_SIZE(fit(t, b, large, "replay:micro_batches.jsonl", NULL, again), at_once);
    CHECK(memcmp(first, again, n_bytes) == 0);
    CHECK(fit(t, b, large, "4:1", "whole.jsonl", otherwise) > at_once);
    CHECK(memcmp(first, otherwise, n_bytes) != 0);
    CHECK(fit(t, b, small, "replay:whole.jsonl", NULL, again) > at_once);
    CHECK(memcmp(otherwise, again, n_bytes) == 0);
    /* Nor whatever their memory holds. */
    size_t data_bytes = 0;
    char devices[96];
    const size_t n_needed = bytes_of(t, b, b->plain, "cpu:threads=1", &data_bytes);
    snprintf(devices, sizeof devices, "cpu:threads=1:memory=%zu,cpu:threads=1", n_needed * 4 / 10);
    const size_t held = fit(t, b, devices, "4:1", "short.jsonl", first);
    CHECK(held < 20);
    CHECK_SIZE(fit(t, b, "cpu:threads=1,cpu:threads=1", "replay:short.jsonl", NULL, again), held);
    CHECK(memcmp(first, again, n_bytes) == 0);
    free(otherwise);
    free(again);
    free(first);
}

/* ---- With batch-norm ------------------------------------------------------------------------- */

/* The micro-batches of these shards: as few as may be, as equal as may be, larger ones first. */
static size_t micro_batches_of(const flat_outcome *o, size_t n_devices, size_t *micro_batches)
{
    size_t n = 0;
    for (size_t d = 0; d < n_devices; d++) {
        const size_t shard = o->shards[d];
        size_t n_own = 0;
        while (n_own * o->at_once[d] < shard)
            n_own++;
        for (size_t i = 0; i < n_own; i++)
            micro_batches[n++] = shard / n_own + (i < shard % n_own);
    }
    return n;
}

static void statistics_of_each_micro_batch(test *t)
{
    const baseline *b = t->user;
    static const struct {
        const char *devices, *split;
        size_t n_devices, micro_batch, n_micro_batches;
    } cases[] = {
        {"cpu:threads=2", NULL, 1, 10, 3},
        {"cpu:threads=1", NULL, 1, 28, 2},
        {"cpu:threads=1,cpu:threads=1", "equal", 2, 4, 8},
        {"cpu:threads=1,faultstaged:threads=1,cpu:threads=1", "13:2:1", 3, 9, 5},
        {"faultstaged:threads=1,cpu:threads=1,cpu:threads=1", "14:0:1", 3, 7, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        interpreter it = {0};
        flat_outcome o;
        size_t micro_batches[MAX_MICRO_BATCHES];
        flat_task task = task_of(b, cases[i].devices, cases[i].split, cases[i].micro_batch);
        task.model = b->residual;
        if (run(t, b, &task, &o)) {
            const size_t n = micro_batches_of(&o, cases[i].n_devices, micro_batches);
            CHECK_SIZE(n, cases[i].n_micro_batches);
            REQUIRE(flat_interpret(&task, n, micro_batches, &it));
            interpreter_commit(&it);
            CHECK(o.replicas_agree);
            for (size_t k = 0; k < b->residual->n_parameters; k++) {
                const dpti_parameter *p = &b->residual->parameters[k];
                if (feeds_batch_norm(b->residual, k)) continue;
                if (!CHECK(parameter_error(p, o.gradients, it.gradients) <=
                           1e-5 * parameter_norm(p, it.gradients)) ||
                    !CHECK(parameter_error(p, o.weights, it.parameters) <=
                           1e-6 * (1 + parameter_norm(p, it.parameters))))
                    FAIL("%s in micro-batches of %zu: %s", task.devices, task.micro_batch, p->name);
            }
        }
        interpreter_free(&it);
        flat_free(&o);
    }
}

/* ---- Single values --------------------------------------------------------------------------- */

/* A batch-norm of single values: one a sample in each channel. */
static dpt_status make_flat_norm(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "flat", out));
    dpt_model *m = *out;
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    x = dpt_linear(m, x, "fc1",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 6});
    x = dpt_batch_norm(
        m, x, "norm",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_linear(m, x, "fc2",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static void write_replay(test *t, const char *path, const char *shards)
{
    FILE *file = fopen(path, "w");
    if (!CHECK(file)) return;
    fprintf(
        file,
        "{\"event\":\"run\",\"batch_size\":%d,\"devices\":[{\"id\":\"cpu\"},{\"id\":\"cpu\"}]}\n"
        "{\"event\":\"step\",\"step\":1,\"samples\":%d,\"shards\":%s}\n",
        FLAT_BATCH, FLAT_BATCH, shards);
    fclose(file);
}

static void single_values_are_refused(test *t)
{
    const baseline *b = t->user;
    static const char pair[] = "cpu:threads=1,cpu:threads=1";
    static const struct {
        const char *devices, *split;
        size_t batch, micro_batch;
        dpt_batch_norm_mode mode;
        const char *says; /* NULL: it works */
    } cases[] = {
        {"cpu", NULL, 1, 0, DPT_BATCH_NORM_SYNC, "a batch has one sample"},
        {"cpu", NULL, 3, 0, DPT_BATCH_NORM_SYNC, "the last batch of an epoch has one sample"},
        {"cpu", NULL, 29, 7, DPT_BATCH_NORM_SYNC, NULL},
        {"cpu", NULL, 29, 28, DPT_BATCH_NORM_SYNC, NULL},
        {"cpu", NULL, 29, 1, DPT_BATCH_NORM_SYNC, "a micro-batch has one sample"},
        {"cpu", NULL, 29, 8, DPT_BATCH_NORM_SYNC, NULL},
        {pair, "28:1", 29, 0, DPT_BATCH_NORM_SYNC, NULL},
        {pair, "28:1", 29, 0, DPT_BATCH_NORM_LOCAL, "a device's shard has one sample"},
        {pair, "9:1", 29, 0, DPT_BATCH_NORM_LOCAL, "a device's shard has one sample"},
        {pair, "20:9", 29, 5, DPT_BATCH_NORM_SYNC, NULL},
        {pair, "27:2", 29, 5, DPT_BATCH_NORM_SYNC, "a device's shard has one sample"},
        {pair, "replay:sound.log", 29, 0, DPT_BATCH_NORM_LOCAL, NULL},
        {pair, "replay:single.log", 29, 0, DPT_BATCH_NORM_SYNC, NULL},
        {pair, "replay:single.log", 29, 0, DPT_BATCH_NORM_LOCAL, "a device's shard has one sample"},
        {pair, "replay:sound.log", 29, 12, DPT_BATCH_NORM_LOCAL, NULL},
        {pair, "26:3", 29, 2, DPT_BATCH_NORM_SYNC, "a micro-batch has one sample"},
        {pair, "replay:three.log", 29, 2, DPT_BATCH_NORM_LOCAL, "a micro-batch has one sample"},
        {"cpu", NULL, 1, 0, DPT_BATCH_NORM_FROZEN, NULL},
        {pair, "28:1", 29, 1, DPT_BATCH_NORM_FROZEN, NULL},
    };
    dpt_model *model = NULL;
    REQUIRE_OK(make_flat_norm(b->context, &model));
    write_replay(t, "sound.log", "[25,4]");
    write_replay(t, "single.log", "[28,1]");
    write_replay(t, "three.log", "[26,3]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flat_outcome o;
        const flat_task task = {.model = model,
                                .data = b->data,
                                .devices = cases[i].devices,
                                .split = cases[i].split,
                                .batch = cases[i].batch,
                                .micro_batch = cases[i].micro_batch,
                                .mode = cases[i].mode,
                                .steps = 1};
        const dpt_status status = flat_run(b->context, &task, &o);
        if (!CHECK_STATUS(status, cases[i].says ? DPT_E_INVALID : DPT_OK))
            FAIL("case %zu: %s", i, dpt_error_message(b->context));
        if (cases[i].says) {
            CHECK_CONTAINS(dpt_error_message(b->context), "layer norm");
            CHECK_CONTAINS(dpt_error_message(b->context), cases[i].says);
        } else {
            CHECK(isfinite(o.losses[0]));
        }
        flat_free(&o);
    }
    dpt_model_destroy(model);
}

/* ---- Several batches a step ------------------------------------------------------------------ */

enum { SMALL = 8, LARGE = 32, MULTIPLE = LARGE / SMALL };

/* How far a change of order moves the weights of a model, trained in batches of LARGE, or in steps
   of MULTIPLE batches of SMALL; *one gets those on one device. */
static double order_moves(test *t, const baseline *b, flat_task task, flat_outcome *one)
{
    flat_outcome other;
    task.devices = "cpu:threads=1";
    task.split = NULL;
    if (!run(t, b, &task, one)) return 0;
    task.devices = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
    task.split = "5:6:5";
    if (!run(t, b, &task, &other)) return 0;
    const double moved = flat_distance(task.model, other.weights, one->weights);
    CHECK(moved > 0 && other.replicas_agree);
    flat_free(&other);
    return moved;
}

static void check_accumulated(test *t, const baseline *b, const flat_task *task,
                              const flat_outcome *one, double moved)
{
    flat_outcome out;
    if (!run(t, b, task, &out)) return;
    const double distance = flat_distance(task->model, out.weights, one->weights);
    if (!CHECK(distance <= 4 * moved) || !CHECK(out.replicas_agree))
        FAIL("%s split %s: distance %g, by order %g", task->devices, task->split, distance, moved);
    for (size_t s = 0; s < FLAT_STEPS; s++)
        CHECK_NEAR(out.losses[s], one->losses[s], 1e-5);
    flat_free(&out);
}

/* The last step of an epoch has 22 samples: batches of 8, 8 and 6. */
static void batches_of_a_step(test *t)
{
    const baseline *b = t->user;
    static const struct {
        const char *devices, *split;
        size_t micro_batch;
    } cases[] = {
        {"cpu:threads=1", NULL, 0},
        {"cpu:threads=1,cpu:threads=1", "equal", 0},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "5:0:2", 0},
        {"cpu:threads=1,cpu:threads=1", "measured", 0},
        {"cpu:threads=1,cpu:threads=1|cpu:threads=1", "1:2:3", 0},
        {"cpu:threads=1,faultstaged:threads=1", "3:1", 0},
        {"cpu:threads=1,cpu:threads=1", "3:1", 2}, /* a batch in micro-batches */
    };
    flat_task task = task_of(b, NULL, NULL, 0);
    flat_outcome large, normed, large_normed;
    task.steps = FLAT_STEPS;
    task.batch = LARGE;
    const double moved = order_moves(t, b, task, &large);
    task.model = b->residual;
    (void)order_moves(t, b, task, &large_normed);
    task.batch = SMALL;
    task.accumulate = MULTIPLE;
    const double normed_moved = order_moves(t, b, task, &normed);
    /* Statistics are those of the small batches. */
    CHECK(flat_distance(b->residual, normed.weights, large_normed.weights) > 100 * normed_moved);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        task.devices = cases[i].devices;
        task.split = cases[i].split;
        task.micro_batch = cases[i].micro_batch;
        task.bucket_bytes = 1;
        task.model = b->plain;
        check_accumulated(t, b, &task, &large, moved);
        task.model = b->residual;
        if (task.micro_batch == 0) check_accumulated(t, b, &task, &normed, normed_moved);
    }
    flat_free(&large_normed);
    flat_free(&normed);
    flat_free(&large);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"micro-batches give the same training", micro_batches},
        {"small caches", small_caches},
        {"small caches with frozen batch-norms", small_caches_with_frozen_norms},
        {"micro-batches are replayed", micro_batches_are_replayed},
        {"several batches a step are one large batch", batches_of_a_step},
        {"small memory gives the same training", small_memory},
        {"small memory bounds shares", small_memory_bounds_shards},
        {"memory that holds nothing is refused", too_small_memory},
        {"statistics of each micro-batch", statistics_of_each_micro_batch},
        {"single values are refused", single_values_are_refused},
    };
    baseline b = {0};
    test setup = {.name = "one device"};
    add_fault_plugins();
    set_up(&setup, &b);
    const int code =
        setup.n_failures ? 1 : test_main(argc, argv, cases, sizeof cases / sizeof *cases, &b);
    tear_down(&b);
    return code;
}
