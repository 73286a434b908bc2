/* Tests deterministic training: the same bits of weights and losses for any division of a batch,
   any number of threads, through the loss of a device, and where the memory of a device is not the
   host's.  The data's last batch is smaller.  What cannot be done is refused. */
#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct baseline {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *plain, *residual; /* without batch-norm, and with it */
    dpt_model *shared;           /* with parameters of which values are computed */
    dpt_model *steep;            /* the gradient of a parameter is not finite */
} baseline;

/* Dropout, layer-norm, GELU and a slice of a large layer. */
static dpt_status make_plain(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "plain", out));
    dpt_model *m = *out;
    dpt_value x = flat_dropout_trunk(m);
    x = dpt_linear(m, dpt_flatten(m, x), "fc1",
                   &(dpt_linear_options){
                       .size = sizeof(dpt_linear_options), .out = 160, .activation = DPT_ACT_RELU});
    x = dpt_linear(m, x, "fc2",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

/* Parameters that several layers share, and of which values are computed that other layers share:
   x + x * (v * g) + v * g, the same with v, and a scale that is normalised. */
static dpt_status make_shared(dpt_context *context, dpt_model **out)
{
    enum { N = 24 };
    DPT_TRY(dpt_model_create(context, "shared", out));
    dpt_model *m = *out;
    const size_t extents[] = {N};
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    x = dpt_linear(m, x, "in", &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = N});
    const dpt_value v = dpt_parameter(m, "v", extents, 1, NULL);
    const dpt_value g = dpt_parameter(m, "g", extents, 1, NULL);
    const dpt_value w = dpt_elementwise(m, "a * b", (const dpt_value[]){v, g}, 2);
    const dpt_value unit = dpt_softmax(m, g, 0);
    x = dpt_elementwise(m, "max(a, 0)", &x, 1);
    x = dpt_elementwise(m, "a + a * b + b", (const dpt_value[]){x, w}, 2);
    x = dpt_elementwise(m, "a + a * b + b", (const dpt_value[]){x, v}, 2);
    x = dpt_elementwise(m, "a + a * b", (const dpt_value[]){x, unit}, 2);
    x = dpt_linear(m, x, "out",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

/* sqrt(v) is 0, and its gradient is infinite. */
static dpt_status make_steep(dpt_context *context, dpt_model **out)
{
    static const float zeros[4] = {0.0f};
    DPT_TRY(dpt_model_create(context, "steep", out));
    dpt_model *m = *out;
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    x = dpt_linear(m, x, "in", &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 4});
    const dpt_value v = dpt_parameter(m, "v", (const size_t[]){4}, 1, zeros);
    const dpt_value root = dpt_elementwise(m, "sqrt(a)", &v, 1);
    x = dpt_elementwise(m, "a + b", (const dpt_value[]){x, root}, 2);
    x = dpt_linear(m, x, "out",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static flat_task task_of(const baseline *b, const dpt_model *model, const char *devices,
                         const char *split)
{
    return (flat_task){.model = model,
                       .data = b->data,
                       .devices = devices,
                       .split = split,
                       .batch = FLAT_BATCH,
                       .steps = FLAT_STEPS,
                       .deterministic = true};
}

static bool run(test *t, const baseline *b, const flat_task *task, flat_outcome *out)
{
    if (CHECK_OK(flat_run(b->context, task, out))) return true;
    FAIL("%s split %s at most %zu: %s", task->devices, task->split ? task->split : "none",
         task->micro_batch, dpt_error_message(b->context));
    return false;
}

static void check_same(test *t, const baseline *b, const flat_task *task, const flat_outcome *right)
{
    const size_t n_bytes = task->model->flat_size * sizeof(float);
    flat_outcome o;
    if (run(t, b, task, &o)) {
        size_t step = 0;
        while (step < FLAT_STEPS && o.losses[step] == right->losses[step])
            step++;
        const bool same = memcmp(o.weights, right->weights, n_bytes) == 0;
        if (!CHECK(same && step == FLAT_STEPS && o.replicas_agree))
            FAIL("%s, %s split %s at most %zu: losses differ from step %zu on, weights are %s",
                 task->model->name, task->devices, task->split ? task->split : "none",
                 task->micro_batch, step + 1, same ? "the same" : "others");
    }
    flat_free(&o);
}

/* ---- The same bits --------------------------------------------------------------------------- */

typedef struct division {
    const char *devices, *split;
    size_t micro_batch; /* with batch-norm: not limited */
} division;

static void check_divisions(test *t, const division *cases, size_t n)
{
    const baseline *b = t->user;
    const dpt_model *const models[] = {b->plain, b->residual, b->shared};
    for (size_t m = 0; m < 3; m++) {
        flat_outcome right;
        flat_task task = task_of(b, models[m], "cpu:threads=1", NULL);
        task.micro_batch = FLAT_BATCH;
        if (run(t, b, &task, &right)) {
            CHECK(right.losses[FLAT_STEPS - 1] <= 0.8 * right.losses[0]);
            for (size_t i = 0; i < n; i++) {
                task = task_of(b, models[m], cases[i].devices, cases[i].split);
                if (m != 1) task.micro_batch = cases[i].micro_batch;
                task.recompute = i % 3 == 1 ? DPT_RECOMPUTE_ON : DPT_RECOMPUTE_AUTO;
                task.bucket_bytes = i % 4 != 3; /* as many buckets as there are weights, or none */
                check_same(t, b, &task, &right);
                task.no_overlap = true;
                task.recompute = DPT_RECOMPUTE_ON;
                if (i % 4 == 0) check_same(t, b, &task, &right);
            }
        }
        flat_free(&right);
    }
}

static void divisions(test *t)
{
    static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
    static const char staged[] = "cpu:threads=1,faultstaged:threads=1";
    static const division cases[] = {
        {"cpu:threads=1", NULL, 2},
        {"cpu:threads=1", NULL, 7},
        {"cpu:threads=1", NULL, 28},
        {"cpu:threads=2", NULL, 0},
        {"cpu:threads=3", NULL, 0},
        {"faultstaged:threads=1", NULL, 0},
        {"faultstaged:threads=1", NULL, 5},
        {three, "13:2:1", 0},
        {three, "13:2:1", 6},
        {three, "0:1:0", 0},
        {three, "1:7:8", 3},
        {three, "1:30:30", 0},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1", "equal", 0},
        {staged, "3:1", 0},
        {"fault:threads=1:island=1,fault:threads=1:island=1", "3:1", 0},
        {staged, "1:3", 2},
        {"cpu:threads=1,cpu:threads=1:throttle=3", "measured", 0},
    };
    check_divisions(t, cases, sizeof cases / sizeof *cases);
}

/* The same over processes, which are threads here. */
static void processes(test *t)
{
    static const division cases[] = {
        {"cpu:threads=1|cpu:threads=1", "3:1", 0},
        {"cpu:threads=1|cpu:threads=2,faultstaged:threads=1|cpu:threads=1", "1:7:3:5", 4},
        {"cpu:threads=1|cpu:threads=1|cpu:threads=1", "0:1:0", 0},
    };
    check_divisions(t, cases, sizeof cases / sizeof *cases);
}

/* Devices of another backend, alone, beside each other and beside the CPU. */
static void other_devices(test *t)
{
    const baseline *b = t->user;
    const dpt_model *const models[] = {b->plain, b->residual, b->shared};
    const mix_list mixes = tested_mixes(NULL, 0);
    if (testing_cpu()) SKIP("the other cases have the CPU's devices");
    for (size_t m = 0; m < 3; m++) {
        flat_outcome right;
        flat_task task = task_of(b, models[m], "cpu:threads=1", NULL);
        if (run(t, b, &task, &right)) {
            CHECK(right.losses[FLAT_STEPS - 1] <= 0.8 * right.losses[0]);
            for (size_t i = 0; i < mixes.n; i++) {
                task = task_of(b, models[m], mixes.items[i].devices, mixes.items[i].split);
                task.bucket_bytes = 1;
                check_same(t, b, &task, &right);
                if (m != 1) task.micro_batch = 5;
                task.no_overlap = true;
                if (i % 2 == 1) check_same(t, b, &task, &right);
            }
        }
        flat_free(&right);
    }
}

/* Trains on devices one of which dies; the weights of the first device. */
static void train_through_loss(test *t, const baseline *b, const flat_task *task,
                               const flat_outcome *right)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = task->batch,
                                         .split = dpt_split_from(task->split),
                                         .lr = FLAT_RATE,
                                         .momentum = FLAT_MOMENTUM,
                                         .weight_decay = FLAT_DECAY,
                                         .deterministic = true,
                                         .bucket_bytes = 1,
                                         .seed = 1,
                                         .no_shuffle = true};
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    const size_t n_bytes = task->model->flat_size * sizeof(float);
    float *weights = malloc(n_bytes);
    dpt_step_metrics m = {.size = sizeof m};
    if (CHECK(weights) && CHECK_OK(dpt_device_set_open(b->context, task->devices, &set)) &&
        CHECK_OK(dpt_trainer_create(set, task->model, task->data, &options, &trainer))) {
        for (size_t s = 0; s < FLAT_STEPS && t->n_failures == 0; s++)
            if (!CHECK_OK(dpt_trainer_step(trainer, &m)) || !CHECK(m.loss == right->losses[s]))
                FAIL("%s, %s, step %zu", task->model->name, task->devices, s + 1);
        CHECK_SIZE(m.n_lost, 1);
        CHECK_OK(dpti_trainer_read(trainer, 0, DPT_PARAMETER, weights));
        CHECK(memcmp(weights, right->weights, n_bytes) == 0);
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    free(weights);
}

/* A device dies in some step; the others go on with its grains. */
static void lost_devices(test *t)
{
    const baseline *b = t->user;
    const dpt_model *const models[] = {b->plain, b->residual, b->shared};
    for (size_t m = 0; m < 3; m++) {
        flat_outcome right;
        flat_task task = task_of(b, models[m], "cpu:threads=1", NULL);
        task.micro_batch = FLAT_BATCH;
        if (run(t, b, &task, &right))
            for (size_t n = 1; n < 40; n += 7) {
                char devices[128];
                snprintf(devices, sizeof devices,
                         "cpu:threads=1,fault:threads=1:after=4:lost=%zu,cpu:threads=1", n);
                task = task_of(b, models[m], devices, "2:3:1");
                train_through_loss(t, b, &task, &right);
            }
        flat_free(&right);
    }
}

/* Measured shares change, and are whole grains.  A device's time is simulated. */
static void measured_shares(test *t)
{
    const baseline *b = t->user;
    flat_outcome right, measured;
    flat_task task = task_of(b, b->residual, "cpu:threads=1", NULL);
    if (run(t, b, &task, &right)) {
        task.devices = "fault:threads=1:clock=1,fault:threads=1:clock=4";
        task.split = "measured";
        task.bucket_bytes = 1;
        check_same(t, b, &task, &right);
        task.steps = 7; /* the last whole batch of the first epoch */
        if (run(t, b, &task, &measured)) {
            CHECK(measured.shards[0] > measured.shards[1] && measured.shards[0] % 2 == 0);
            CHECK_SIZE(measured.shards[0] + measured.shards[1], FLAT_BATCH);
        }
        flat_free(&measured);
    }
    flat_free(&right);
}

/* A step of three batches is that of one batch three times as large, of which a device computes no
   more at once than its part of one batch, in whole grains. */
static void several_batches(test *t)
{
    enum { N = 3, GRAIN = 6, AT_ONCE = 5 * GRAIN }; /* 87 samples have 15 grains */
    static const mix of_cpu[] = {
        {"cpu:threads=1", NULL},
        {"cpu:threads=2", NULL},
        {"faultstaged:threads=1", NULL},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:1:0"},
        {"cpu:threads=1,faultstaged:threads=1", "1:3"},
        {"fault:threads=1:clock=1,fault:threads=1:clock=4", "measured"},
        {"cpu:threads=1|cpu:threads=2,faultstaged:threads=1|cpu:threads=1", "1:7:3:5"},
    };
    const baseline *b = t->user;
    const dpt_model *const models[] = {b->plain, b->residual, b->shared};
    const mix_list mixes = tested_mixes(of_cpu, sizeof of_cpu / sizeof *of_cpu);
    for (size_t m = 0; m < 3; m++) {
        flat_outcome right, o;
        flat_task task = task_of(b, models[m], "cpu:threads=1", NULL);
        task.batch = N * FLAT_BATCH;
        task.mode = DPT_BATCH_NORM_FROZEN;
        task.micro_batch = N * FLAT_BATCH;
        if (run(t, b, &task, &right)) {
            CHECK(right.losses[FLAT_STEPS - 1] <= 0.9 * right.losses[0]);
            task.batch = FLAT_BATCH;
            task.accumulate = N;
            if (run(t, b, &task, &o)) CHECK_SIZE(o.at_once[0], AT_ONCE);
            flat_free(&o);
            for (size_t i = 0; i < mixes.n; i++) {
                task.devices = mixes.items[i].devices;
                task.split = mixes.items[i].split;
                task.micro_batch = i % 2 > 0 ? 0 : GRAIN;
                check_same(t, b, &task, &right);
            }
        }
        flat_free(&right);
    }
}

/* ---- Predictions ----------------------------------------------------------------------------- */

static void compare_predictions(test *t, const baseline *b, const char *devices, const char *path,
                                const float *right)
{
    static float outputs[FLAT_COUNT * FLAT_CLASSES];
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = path, .like = b->data, .deterministic = true};
    char why[DPT_WHY_BYTES] = "";
    dpt_device_set *set = NULL;
    dpt_predictor *predictor = NULL;
    if (CHECK_OK(dpt_device_set_open(b->context, devices, &set)) &&
        CHECK_OK(dpt_predictor_create(set, b->residual, &options, &predictor)) &&
        CHECK_OK(dpt_predictor_run_data(predictor, b->data, 0, FLAT_COUNT, outputs, why)) &&
        !CHECK(memcmp(outputs, right, sizeof outputs) == 0))
        FAIL("%s: outputs differ", devices);
    dpt_predictor_destroy(predictor);
    dpt_device_set_close(set);
}

/* Predictors give what a trainer predicts.  One whose arithmetic is another is refused. */
static void predictions(test *t)
{
    static const char *const lists[] = {"cpu:threads=1", "cpu:threads=3",
                                        "cpu:threads=1,faultstaged:threads=1,cpu:threads=2"};
    static float right[FLAT_COUNT * FLAT_CLASSES];
    const baseline *b = t->user;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = FLAT_BATCH, .deterministic = true};
    const dpt_predictor_options refused = {.size = sizeof refused,
                                           .weights = "predicted.safetensors",
                                           .like = b->data,
                                           .deterministic = true};
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_predictor *predictor = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    if (CHECK_OK(dpt_device_set_open(b->context, "cpu:threads=2", &set)) &&
        CHECK_OK(dpt_trainer_create(set, b->residual, b->data, &options, &trainer)) &&
        CHECK_OK(dpt_trainer_step(trainer, &m)) &&
        CHECK_OK(dpt_trainer_save(trainer, refused.weights)) &&
        CHECK_OK(dpt_trainer_predict(trainer, b->data, 0, FLAT_COUNT, right)))
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            compare_predictions(t, b, lists[i], refused.weights, right);
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    if (CHECK_OK(dpt_device_set_open(b->context, "fault:threads=1:bug=flush", &set)))
        CHECK_STATUS(dpt_predictor_create(set, b->residual, &refused, &predictor),
                     DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(dpt_error_message(b->context), " gives 00000000 in place of ");
    dpt_device_set_close(set);
    (void)remove(refused.weights);
}

/* Training without the option has other bits on another mix, or the test would show nothing. */
static void bits_differ_without_it(test *t)
{
    const baseline *b = t->user;
    flat_outcome one, three;
    flat_task task = task_of(b, b->plain, "cpu:threads=1", NULL);
    task.deterministic = false;
    if (run(t, b, &task, &one)) {
        task.devices = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
        task.split = "9:11:9";
        if (run(t, b, &task, &three))
            CHECK(memcmp(one.weights, three.weights, b->plain->flat_size * sizeof(float)) != 0);
        flat_free(&three);
    }
    flat_free(&one);
}

/* A device that rounds one sum otherwise, as kernels do that take terms in another order, passes
   the self-test of a few operations.  The bits of training show it. */
static void other_rounding_shows(test *t)
{
    const baseline *b = t->user;
    flat_outcome right, other;
    flat_task task = task_of(b, b->residual, "cpu:threads=1", NULL);
    if (run(t, b, &task, &right)) {
        task.devices = "cpu:threads=1,fault:threads=1:bug=round";
        if (run(t, b, &task, &other))
            CHECK(memcmp(right.weights, other.weights, b->residual->flat_size * sizeof(float)) !=
                  0);
        flat_free(&other);
    }
    flat_free(&right);
}

/* ---- Gradients that are not finite ----------------------------------------------------------- */

/* What is computed from sums of all devices is not finite: no device changes its weights. */
static void steep_gradients(test *t)
{
    static const struct {
        const char *devices, *split;
    } cases[] = {{"cpu:threads=1", NULL},
                 {"cpu:threads=1,faultstaged:threads=1", "3:1"},
                 {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:1:0"}};
    const baseline *b = t->user;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpt_trainer_options options = {.size = sizeof options,
                                             .batch_size = FLAT_BATCH,
                                             .split = dpt_split_from(cases[i].split),
                                             .lr = FLAT_RATE,
                                             .deterministic = true};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        dpt_step_metrics m = {.size = sizeof m};
        float before[4], after[4], root[4];
        if (CHECK_OK(dpt_device_set_open(b->context, cases[i].devices, &set)) &&
            CHECK_OK(dpt_trainer_create(set, b->steep, b->data, &options, &trainer))) {
            CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "in.bias", before, 4));
            CHECK_STATUS(dpt_trainer_step(trainer, &m), DPT_E_NOT_FINITE);
            CHECK_CONTAINS(dpt_error_message(b->context), "gradients of step 1 are not finite");
            for (size_t d = 0; d < dpt_device_set_count(set); d++) {
                CHECK_OK(dpt_trainer_get(trainer, d, DPT_PARAMETER, "in.bias", after, 4));
                CHECK_OK(dpt_trainer_get(trainer, d, DPT_PARAMETER, "v", root, 4));
                CHECK(memcmp(before, after, sizeof after) == 0 && root[0] == 0.0f);
            }
            /* The trainer can go on. */
            CHECK_STATUS(dpt_trainer_step(trainer, &m), DPT_E_NOT_FINITE);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(test *t, const baseline *b, const flat_task *task, const char *words)
{
    flat_outcome o;
    CHECK(flat_run(b->context, task, &o) != DPT_OK);
    CHECK_CONTAINS(dpt_error_message(b->context), words);
    flat_free(&o);
}

static void refusals(test *t)
{
    const baseline *b = t->user;
    flat_task task = task_of(b, b->residual, "cpu:threads=1", NULL);
    task.accumulate = 2;
    refuse(t, b, &task, "several batches in a step");
    task.accumulate = 1;
    task.mode = DPT_BATCH_NORM_LOCAL;
    refuse(t, b, &task, "batch-norm local");
    task.mode = DPT_BATCH_NORM_SYNC;
    task.micro_batch = 4;
    refuse(t, b, &task, "batch-norm needs its whole shard");
    task = task_of(b, b->plain, "cpu:threads=1", NULL);
    task.micro_batch = 1;
    refuse(t, b, &task, "needs 2");
    /* Its arithmetic is tried before. */
    task = task_of(b, b->plain, "cpu:threads=1,fault:threads=1:bug=flush", NULL);
    refuse(t, b, &task, "fault:threads=1:bug=flush: ");
    refuse(t, b, &task, " gives 00000000 in place of ");
    task.devices = "cpu:threads=1,fault:threads=1:varies=1";
    refuse(t, b, &task, "fault:threads=1:varies=1: devices of the backend fault do not compute");
    task.devices = "fault:threads=1:bug=wrong";
    refuse(t, b, &task, "its arithmetic is not that of deterministic training");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"divisions", divisions},
                                      {"processes", processes},
                                      {"other devices", other_devices},
                                      {"lost devices", lost_devices},
                                      {"measured shares", measured_shares},
                                      {"several batches", several_batches},
                                      {"predictions", predictions},
                                      {"bits differ without it", bits_differ_without_it},
                                      {"other rounding shows", other_rounding_shows},
                                      {"steep gradients", steep_gradients},
                                      {"refusals", refusals}};
    baseline b = {.context = NULL};
    add_fault_plugins();
    const int missing = tested_backend_missing();
    if (missing) return missing;
    if (dpt_context_create(&b.context) != DPT_OK ||
        flat_data(b.context, FLAT_COUNT, 0, &b.data) != DPT_OK ||
        make_plain(b.context, &b.plain) != DPT_OK ||
        flat_residual(b.context, &b.residual) != DPT_OK ||
        make_shared(b.context, &b.shared) != DPT_OK || make_steep(b.context, &b.steep) != DPT_OK) {
        fprintf(stderr, "%s\n", dpt_error_message(b.context));
        return 1;
    }
    const int result =
        test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, &b);
    dpt_model_destroy(b.steep);
    dpt_model_destroy(b.shared);
    dpt_model_destroy(b.residual);
    dpt_model_destroy(b.plain);
    dpt_dataset_destroy(b.data);
    dpt_context_destroy(b.context);
    return result;
}
