/* Tests data that are larger than a device's memory: training has the same bits if records are
   sent with each step.  The device is the staged test device, whose memory is not the host's. */
#include "harness.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 500, TEST_COUNT = 300, BATCH = 30, STEPS = 20, FC2 = 1280 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *train, *test;
    dpt_model *model;
} setting;

static dpt_dataset *make_data(test *t, const setting *s, size_t count, uint64_t seed)
{
    image_set images;
    dpt_dataset *data = NULL;
    if (!CHECK(images_create(count, seed, &images))) return NULL;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = count,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .outputs = 10,
                                       .dtype = DPT_U8,
                                       .images = images.pixels,
                                       .labels = images.labels};
    CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &data));
    images_free(&images);
    return data;
}

static bool open_all(test *t, setting *s)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    *s = (setting){0};
    if (!CHECK_OK(dpt_context_create(&s->context))) return false;
    s->train = make_data(t, s, COUNT, 3);
    s->test = make_data(t, s, TEST_COUNT, 4);
    return CHECK_OK(dpt_model_by_name(s->context, "lenet", &shape, &s->model)) && s->train &&
           s->test;
}

static void close_all(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->test);
    dpt_dataset_destroy(s->train);
    dpt_context_destroy(s->context);
}

typedef struct outcome {
    double losses[STEPS];
    dpt_evaluation evaluations[2]; /* of other data, of the training data */
    float weights[FC2];
    float probabilities[7 * 10];
    dpt_device_plan plan; /* of the first device */
    bool test_streamed;
} outcome;

/* Two steps in flight, over more than one epoch. */
static void take_steps(test *t, dpt_trainer *trainer, outcome *out)
{
    for (size_t i = 0; i < STEPS; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        while (dpt_trainer_in_flight(trainer) < 2)
            REQUIRE_OK(dpt_trainer_submit(trainer));
        REQUIRE_OK(dpt_trainer_collect(trainer, &m));
        out->losses[i] = m.loss;
    }
    dpt_step_metrics last = {.size = sizeof last};
    while (dpt_trainer_in_flight(trainer) > 0)
        REQUIRE_OK(dpt_trainer_collect(trainer, &last));
}

static void run(test *t, const setting *s, const char *list, outcome *out)
{
    /* Augmentation is keyed by the records' own indices, wherever they lie. */
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = BATCH,
        .split = {DPT_SPLIT_EQUAL, NULL}, /* the runs are compared to the bit */
        .lr = 0.2f,
        .momentum = 0.5f,
        .seed = 4,
        .augment = {.crop_padding = 2, .flip = true, .erase = 0.3f},
    };
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    memset(out, 0, sizeof *out);
    REQUIRE_OK(dpt_device_set_open(s->context, list, &devices));
    if (CHECK_OK(dpt_trainer_create(devices, s->model, s->train, &options, &trainer))) {
        take_steps(t, trainer, out);
        out->evaluations[0].size = sizeof out->evaluations[0];
        CHECK_OK(dpt_trainer_evaluate(trainer, s->test, &out->evaluations[0]));
        out->test_streamed = trainer->workers[0].programs.tests[0].feed != NULL;
        out->evaluations[1].size = sizeof out->evaluations[1];
        CHECK_OK(dpt_trainer_evaluate(trainer, s->train, &out->evaluations[1]));
        CHECK_OK(dpt_trainer_predict(trainer, s->test, 170, 7, out->probabilities));
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc2.weight", out->weights, FC2));
        out->plan.size = sizeof out->plan;
        CHECK_OK(dpt_trainer_plan(trainer, 0, &out->plan));
    } else {
        FAIL("%s: %s", list, dpt_error_message(s->context));
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
}

static size_t bytes_of(const dpt_device_plan *p)
{
    return p->parameter_bytes + p->optimizer_bytes + p->activation_bytes + p->step_bytes +
           p->data_bytes;
}

static void check_same(test *t, const outcome *a, const outcome *b)
{
    CHECK(memcmp(a->losses, b->losses, sizeof a->losses) == 0);
    CHECK(memcmp(a->weights, b->weights, sizeof a->weights) == 0);
    CHECK(memcmp(a->probabilities, b->probabilities, sizeof a->probabilities) == 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK_SIZE(a->evaluations[i].hits, b->evaluations[i].hits);
        CHECK_NEAR(a->evaluations[i].loss, b->evaluations[i].loss, 0);
    }
    CHECK(a->losses[0] > 2 && a->losses[STEPS - 1] < a->losses[0]);
}

static outcome resident, streamed; /* too large for the stack */

static void streams_what_does_not_fit(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        run(t, &s, "faultstaged", &resident);
        CHECK(!resident.plan.streamed && !resident.test_streamed);
        CHECK(resident.plan.data_bytes >= COUNT * 785);
        const size_t whole = bytes_of(&resident.plan), data = resident.plan.data_bytes;
        /* Room for all but a byte, for half of the data, for a step's samples only. */
        const size_t limits[] = {whole - 1, whole - data / 2, whole - data + 30 * 800};
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            char list[64];
            snprintf(list, sizeof list, "faultstaged:memory=%zu", limits[i]);
            run(t, &s, list, &streamed);
            CHECK(streamed.plan.streamed);
            /* The test data are fewer, and take the room that the training data left. */
            CHECK(streamed.test_streamed == (i > 0));
            CHECK_SIZE(streamed.plan.data_bytes, 0);
            CHECK_SIZE(streamed.plan.micro_batch, BATCH);
            CHECK(bytes_of(&streamed.plan) <= limits[i]);
            check_same(t, &resident, &streamed);
        }
    }
    close_all(&s);
}

/* Data that are there, and others for the test that are not. */
static void streams_the_test_alone(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        run(t, &s, "faultstaged", &resident);
        char list[64];
        snprintf(list, sizeof list, "faultstaged:memory=%zu",
                 bytes_of(&resident.plan) + BATCH * 800);
        run(t, &s, list, &streamed);
        CHECK(!streamed.plan.streamed && streamed.test_streamed);
        check_same(t, &resident, &streamed);
    }
    close_all(&s);
}

/* One device of a mix, and two replicas on one device that share its memory. */
static void streams_in_a_mix(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        run(t, &s, "faultstaged,fault", &resident);
        char list[64];
        snprintf(list, sizeof list, "faultstaged:memory=%zu,fault", bytes_of(&resident.plan) - 1);
        run(t, &s, list, &streamed);
        CHECK(!resident.plan.streamed && streamed.plan.streamed);
        check_same(t, &resident, &streamed);

        run(t, &s, "faultstaged,faultstaged", &resident);
        snprintf(list, sizeof list, "faultstaged:memory=%zu,faultstaged",
                 bytes_of(&resident.plan) - 1);
        run(t, &s, list, &streamed);
        CHECK(streamed.plan.streamed);
        check_same(t, &resident, &streamed);
    }
    close_all(&s);
}

/* Neither the data nor the shard: in micro-batches, which add gradients up in another order. */
static void streams_in_micro_batches(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        run(t, &s, "faultstaged", &resident);
        char list[64];
        snprintf(list, sizeof list, "faultstaged:memory=%zu",
                 bytes_of(&resident.plan) - resident.plan.data_bytes -
                     resident.plan.activation_bytes / 2);
        run(t, &s, list, &streamed);
        CHECK(streamed.plan.streamed);
        CHECK(streamed.plan.micro_batch < BATCH);
        for (size_t i = 0; i < STEPS; i++)
            CHECK_NEAR(streamed.losses[i], resident.losses[i], 1e-4);
        CHECK_NEAR(streamed.evaluations[0].loss, resident.evaluations[0].loss, 1e-4);
        CHECK_NEAR(streamed.evaluations[1].loss, resident.evaluations[1].loss, 1e-4);
    }
    close_all(&s);
}

/* Memory that the host shares needs no copy, and so no feed. */
static void reads_host_memory_in_place(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        run(t, &s, "cpu", &resident);
        char list[64];
        snprintf(list, sizeof list, "cpu:memory=%zu", bytes_of(&resident.plan));
        run(t, &s, list, &streamed);
        CHECK_SIZE(resident.plan.data_bytes, 0);
        CHECK(!streamed.plan.streamed && !streamed.test_streamed);
        check_same(t, &resident, &streamed);
    }
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"streams what does not fit", streams_what_does_not_fit},
        {"streams the test alone", streams_the_test_alone},
        {"streams in a mix", streams_in_a_mix},
        {"streams in micro-batches", streams_in_micro_batches},
        {"reads host memory in place", reads_host_memory_in_place},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
