/* Tests networks that are larger than the smallest device of a mix.  Each trains with the bits of a
   training without limits, and takes the memory that its plan says.

   Of the first network weights, gradients and AdamW's moments are 2.5 times the smallest memory and
   1.3 times the largest.  It trains with --shard gradients, and not with less.  Of the second
   network the weights alone are larger than the smallest memory, and all of it is 1.5 times the
   largest.  It trains with --shard parameters alone.

   The third device is a CPU, or of the backend $DPTRAIN_TEST_BACKEND. */
#include "harness.h"
#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/replicas/state_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, BATCH = 32, TEXT = 200, WIDTH = 512, DEPTH = 10, DEVICES = 3 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *large, *deep; /* the first and the second network */
    char third[32];          /* the third device */
} setting;

static dpt_status make_large(dpt_context *context, dpt_model **out)
{
    const dpt_linear_options wide = {.size = sizeof wide, .out = WIDTH, .activation = DPT_ACT_RELU};
    DPT_TRY(dpt_model_create(context, "large", out));
    dpt_model *m = *out;
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    x = dpt_linear(m, x, "fc1", &wide);
    x = dpt_linear(m, x, "fc2", &wide);
    x = dpt_linear(m, x, "fc3", &wide);
    x = dpt_linear(m, x, "fc4",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static dpt_status make_deep(dpt_context *context, dpt_model **out)
{
    const dpt_linear_options wide = {
        .size = sizeof wide, .out = WIDTH / 2, .activation = DPT_ACT_RELU};
    DPT_TRY(dpt_model_create(context, "deep", out));
    dpt_model *m = *out;
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    for (size_t i = 0; i < DEPTH; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%zu", i);
        x = dpt_linear(m, x, name, &wide);
    }
    x = dpt_linear(m, x, "last",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

/* A training of one of the networks. */
typedef struct course {
    const dpt_model *model;
    bool limited, deterministic;
    dpt_shard shard;
} course;

/* What it takes on a device without parts, and the limits: 2.5, 1.3 and 1.3 times less, or 4.4, 1.5
   and 1.5 times. */
static void name_devices(const setting *s, const course *task, char out[TEXT])
{
    const bool deep = task->model == s->deep;
    const size_t all = 4 * task->model->flat_size * sizeof(float);
    const size_t small = all * 10 / (deep ? 44 : 25), large = all * 10 / (deep ? 15 : 13);
    if (task->limited)
        snprintf(out, TEXT, "cpu:threads=1:memory=%zu,cpu:threads=1:memory=%zu,%s:memory=%zu",
                 small, large, s->third, large);
    else
        snprintf(out, TEXT, "cpu:threads=1,cpu:threads=1,%s", s->third);
}

static dpt_status create(const setting *s, const course *task, dpt_device_set *set,
                         dpt_trainer **out)
{
    const dpt_trainer_options o = {.size = sizeof o,
                                   .batch_size = BATCH,
                                   .split = dpt_split_from("1:1:2"),
                                   .seed = 3,
                                   .lr = 0.003f,
                                   .optimizer = DPT_OPTIMIZER_ADAMW,
                                   .weight_decay = 0.1f,
                                   .clip_norm = 1,
                                   .bucket_bytes = 65536,
                                   .deterministic = task->deterministic,
                                   .no_standby = true,
                                   .shard = task->shard};
    return dpt_trainer_create(set, task->model, s->data, &o, out);
}

/* No device holds more than its part of the weights of the second network. */
static void look_at_weights(test *t, const dpt_trainer *trainer)
{
    const size_t all = trainer->model->flat_size * sizeof(float);
    size_t sum = 0;
    CHECK(trainer->workers[0].device->memory_limit_bytes < all);
    for (size_t i = 0; i < DEVICES; i++)
        sum += trainer->workers[i].replica.parameters.n_bytes;
    CHECK(sum >= all && sum < all + all / 10); /* biases are on each device */
}

/* Every device holds its shard at once, within its limit, in the memory that the plan says. */
static void look_at_memory(test *t, dpt_trainer *trainer)
{
    for (size_t i = 0; i < DEVICES; i++) {
        const dpti_device *device = trainer->workers[i].device;
        const size_t used = atomic_load(&device->memory_used_bytes);
        dpt_device_plan plan = {.size = sizeof plan};
        CHECK_OK(dpt_trainer_plan(trainer, i, &plan));
        CHECK(used <= device->memory_limit_bytes);
        CHECK_SIZE(used, plan.parameter_bytes + plan.optimizer_bytes + plan.activation_bytes +
                             plan.step_bytes + plan.data_bytes);
        CHECK(plan.micro_batch >= plan.samples);
        CHECK(plan.optimizer_bytes > 0);
        CHECK_SIZE(plan.kept_bytes, 0);
    }
}

/* Trains, and reads the parameters; free them in any case. */
static float *train(test *t, const course *task)
{
    const setting *s = t->user;
    char devices[TEXT];
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    float *flat = calloc(task->model->flat_size, sizeof *flat);
    name_devices(s, task, devices);
    bool sound = CHECK(flat) && CHECK_OK(dpt_device_set_open(s->context, devices, &set)) &&
                 CHECK_OK(create(s, task, set, &trainer));
    if (sound && task->limited) look_at_memory(t, trainer);
    if (sound && task->shard == DPT_SHARD_PARAMETERS) look_at_weights(t, trainer);
    for (size_t i = 0; sound && i < STEPS; i++)
        sound = CHECK_OK(dpt_trainer_step(trainer, &m));
    if (sound && task->limited && !task->deterministic) look_at_memory(t, trainer);
    for (size_t i = 0; sound && i < DEVICES; i++)
        sound = CHECK_OK(dpti_trainer_read(trainer, i, DPT_PARAMETER, flat));
    if (!sound) FAIL("%s: %s", devices, dpt_error_message(s->context));
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return flat;
}

static void train_both(test *t, const dpt_model *model, dpt_shard shard)
{
    for (size_t i = 0; i < 2; i++) {
        course task = {.model = model, .deterministic = i == 1};
        float *right = train(t, &task);
        task.limited = true;
        task.shard = shard;
        float *now = train(t, &task);
        CHECK(right && now && memcmp(right, now, model->flat_size * sizeof *now) == 0);
        free(now);
        free(right);
    }
}

static void trains(test *t)
{
    const setting *s = t->user;
    train_both(t, s->large, DPT_SHARD_GRADIENTS);
}

static void trains_deep(test *t)
{
    const setting *s = t->user;
    train_both(t, s->deep, DPT_SHARD_PARAMETERS);
}

/* Without parts, and with the next smaller ones, the message names the option that helps. */
static void advise(test *t, const dpt_model *model, dpt_shard helps, const char *words)
{
    const setting *s = t->user;
    for (int shard = DPT_SHARD_NONE; shard < (int)helps; shard += (int)helps - 1) {
        const course task = {.model = model, .limited = true, .shard = (dpt_shard)shard};
        char devices[TEXT];
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        name_devices(s, &task, devices);
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(create(s, &task, set, &trainer), DPT_E_NO_MEMORY);
            CHECK_CONTAINS(dpt_error_message(s->context), words);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

static void is_advised(test *t)
{
    const setting *s = t->user;
    advise(t, s->large, DPT_SHARD_GRADIENTS, "; the training fits with --shard gradients");
    advise(t, s->deep, DPT_SHARD_PARAMETERS, "; the training fits with --shard parameters");
}

/* Returns 77 if the third device is of a backend that has none. */
static int find_third(setting *s)
{
    const char *backend = getenv("DPTRAIN_TEST_BACKEND");
    dpt_device_set *set = NULL;
    snprintf(s->third, sizeof s->third, backend ? "%s:0" : "cpu:threads=2", backend);
    if (dpt_device_set_open(s->context, s->third, &set) != DPT_OK) {
        fprintf(stderr, "%s\n", dpt_error_message(s->context));
        return 77;
    }
    dpt_device_set_close(set);
    return 0;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains", trains}, {"trains deep", trains_deep}, {"is advised", is_advised}};
    setting s = {.context = NULL};
    const bool made = dpt_context_create(&s.context) == DPT_OK &&
                      flat_data(s.context, 6 * BATCH, 0, &s.data) == DPT_OK &&
                      make_large(s.context, &s.large) == DPT_OK &&
                      make_deep(s.context, &s.deep) == DPT_OK;
    if (!made) fprintf(stderr, "%s\n", dpt_error_message(s.context));
    int result = made ? find_third(&s) : 1;
    if (result == 0)
        result = test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.deep);
    dpt_model_destroy(s.large);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return result;
}
