/* Tests mixup and CutMix in training.  The step of a linear layer is computed here once more, from
   the images, the labels and what is drawn for each sample.  Any mix of devices, with data on the
   device or sent with each step, gives the same bits as one CPU. */
#include "harness.h"
#include "train/components/mix.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 8,
    CHANNELS = 3,
    PIXELS = SIDE * SIDE * CHANNELS,
    CLASSES = 5,
    COUNT = 41, /* the last batch of an epoch has 5 */
    BATCH = 18,
    STEPS = 7,
    SEED = 4,
    WEIGHTS = CLASSES * PIXELS,
};

typedef struct setting {
    uint8_t images[COUNT * PIXELS];
    uint8_t labels[COUNT];
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *model;
} setting;

static bool open_all(test *t, setting *s)
{
    test_random random = {3};
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < COUNT * PIXELS; i++)
        s->images[i] = (uint8_t)test_random_below(&random, 256);
    for (size_t i = 0; i < COUNT; i++)
        s->labels[i] = (uint8_t)test_random_below(&random, CLASSES);
    if (!CHECK_OK(dpt_context_create(&s->context))) return false;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = CHANNELS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_U8,
                                       .images = s->images,
                                       .labels = s->labels};
    const dpt_model_shape shape = {SIDE, SIDE, CHANNELS, CLASSES};
    return CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->data)) &&
           CHECK_OK(dpt_model_by_name(s->context, "linear", &shape, &s->model));
}

static void close_all(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static dpt_trainer_options options_of(float mixup, float cutmix)
{
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = BATCH,
                                 .lr = 0.5f,
                                 .seed = SEED,
                                 .no_shuffle = true,
                                 .mixup = mixup,
                                 .cutmix = cutmix};
}

/* ---- The step, computed once more ------------------------------------------------------------ */

typedef struct expected {
    double loss, hits;
    double weights[WEIGHTS], bias[CLASSES];
} expected;

/* The place of an element of an image in a row of the weights, which are those of channels, rows,
   columns, as in PyTorch. */
static size_t place_of(size_t element)
{
    return element % CHANNELS * SIDE * SIDE + element / CHANNELS;
}

/* Adds a sample: image x, the labels with their weights. */
static void add_sample(const double *x, const double target[CLASSES], const float *w,
                       const float *b, expected *out)
{
    double logits[CLASSES], sum = 0;
    size_t best = 0, wanted = 0;
    for (size_t k = 0; k < CLASSES; k++) {
        logits[k] = (double)b[k];
        for (size_t e = 0; e < PIXELS; e++)
            logits[k] += (double)w[k * PIXELS + place_of(e)] * x[e];
        sum += exp(logits[k]);
        best = logits[k] > logits[best] ? k : best;
        wanted = target[k] > target[wanted] ? k : wanted;
    }
    out->hits += best == wanted;
    for (size_t k = 0; k < CLASSES; k++) {
        const double slope = (exp(logits[k]) / sum - target[k]) / BATCH;
        out->loss -= target[k] * (logits[k] - log(sum)) / BATCH;
        out->bias[k] -= 0.5 * slope;
        for (size_t e = 0; e < PIXELS; e++)
            out->weights[k * PIXELS + place_of(e)] -= 0.5 * slope * x[e];
    }
}

/* The first step, from these weights. */
static void compute(const setting *s, const dpt_trainer_options *o, const float *w, const float *b,
                    expected *out)
{
    const dpti_mix_options mix = {o->mixup, o->cutmix, SIDE, SIDE, SEED};
    *out = (expected){0};
    for (size_t k = 0; k < WEIGHTS; k++)
        out->weights[k] = (double)w[k];
    for (size_t k = 0; k < CLASSES; k++)
        out->bias[k] = (double)b[k];
    for (uint32_t i = 0; i < BATCH; i++) {
        const size_t next = (i + 1) % BATCH;
        float drawn[2 + SIDE + SIDE];
        double x[PIXELS], target[CLASSES] = {0};
        dpti_mix_draw(&mix, 1, i, drawn);
        for (size_t e = 0; e < PIXELS; e++) {
            const size_t row = e / CHANNELS / SIDE, column = e / CHANNELS % SIDE;
            const double part = (double)drawn[2 + row] * (double)drawn[2 + SIDE + column];
            x[e] = (1.0 - part) * s->images[i * PIXELS + e] / 255.0 +
                   part * s->images[next * PIXELS + e] / 255.0;
        }
        target[s->labels[i]] += (double)drawn[0];
        target[s->labels[next]] += 1.0 - (double)drawn[0];
        add_sample(x, target, w, b, out);
    }
}

static void check_step(test *t, setting *s, const char *list, const dpt_trainer_options *o)
{
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    static float w[WEIGHTS], b[CLASSES];
    static expected e;
    dpt_step_metrics m = {.size = sizeof m};
    REQUIRE_OK(dpt_device_set_open(s->context, list, &devices));
    if (CHECK_OK(dpt_trainer_create(devices, s->model, s->data, o, &trainer)) &&
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", w, WEIGHTS)) &&
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.bias", b, CLASSES))) {
        compute(s, o, w, b, &e);
        CHECK_OK(dpt_trainer_step(trainer, &m));
        CHECK_NEAR(m.loss, e.loss, 1e-5);
        CHECK_NEAR((double)m.hits, e.hits, 0);
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", w, WEIGHTS));
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.bias", b, CLASSES));
        for (size_t k = 0; k < WEIGHTS; k++)
            if (!CHECK_NEAR((double)w[k], e.weights[k], 1e-5)) break;
        for (size_t k = 0; k < CLASSES; k++)
            CHECK_NEAR((double)b[k], e.bias[k], 1e-5);
    } else {
        FAIL("%s: %s", list, dpt_error_message(s->context));
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
}

static void steps(test *t)
{
    static const float alphas[][2] = {{0.4f, 0}, {0, 1}, {1, 1}};
    static setting s;
    if (open_all(t, &s)) {
        for (size_t i = 0; i < 3; i++) {
            const dpt_trainer_options o = options_of(alphas[i][0], alphas[i][1]);
            dpt_trainer_options parts = o, small = o;
            parts.split = (dpt_split){DPT_SPLIT_PROPORTIONS, "5:1:2"};
            small.micro_batch = 5;
            check_step(t, &s, "cpu:threads=1", &o);
            check_step(t, &s, "cpu:threads=1,cpu:threads=1,faultstaged", &parts);
            check_step(t, &s, "cpu:threads=2", &small);
        }
    }
    close_all(&s);
}

/* ---- The same bits --------------------------------------------------------------------------- */

typedef struct outcome {
    double losses[STEPS];
    size_t hits[STEPS];
    float weights[WEIGHTS];
    dpt_device_plan plan; /* of the first device */
} outcome;

static void run(test *t, setting *s, const char *list, const dpt_trainer_options *o, outcome *out)
{
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    memset(out, 0, sizeof *out);
    REQUIRE_OK(dpt_device_set_open(s->context, list, &devices));
    if (CHECK_OK(dpt_trainer_create(devices, s->model, s->data, o, &trainer))) {
        for (size_t i = 0; i < STEPS; i++) {
            dpt_step_metrics m = {.size = sizeof m};
            while (dpt_trainer_in_flight(trainer) < 2)
                REQUIRE_OK(dpt_trainer_submit(trainer));
            REQUIRE_OK(dpt_trainer_collect(trainer, &m));
            out->losses[i] = m.loss;
            out->hits[i] = m.hits;
        }
        dpt_step_metrics last = {.size = sizeof last};
        CHECK_OK(dpt_trainer_collect(trainer, &last));
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", out->weights, WEIGHTS));
        out->plan.size = sizeof out->plan;
        CHECK_OK(dpt_trainer_plan(trainer, 0, &out->plan));
    } else {
        FAIL("%s: %s", list, dpt_error_message(s->context));
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
}

static void check_same(test *t, const outcome *a, const outcome *b, const char *what)
{
    if (!CHECK(memcmp(a->losses, b->losses, sizeof a->losses) == 0) ||
        !CHECK(memcmp(a->hits, b->hits, sizeof a->hits) == 0) ||
        !CHECK(memcmp(a->weights, b->weights, sizeof a->weights) == 0))
        FAIL("%s", what);
}

static outcome alone, other; /* too large for the stack */

static void any_mix(test *t)
{
    static setting s;
    if (open_all(t, &s)) {
        dpt_trainer_options o = options_of(0.4f, 1);
        char list[64];
        o.deterministic = true;
        o.no_shuffle = false;
        o.augment.flip = true;
        o.augment.crop_padding = 2;
        o.rotate = 30;
        run(t, &s, "cpu:threads=1", &o, &alone);
        run(t, &s, "cpu:threads=2", &o, &other);
        check_same(t, &alone, &other, "two threads");
        o.split = (dpt_split){DPT_SPLIT_PROPORTIONS, "13:2:1"};
        run(t, &s, "cpu:threads=1,cpu:threads=1,cpu:threads=1", &o, &other);
        check_same(t, &alone, &other, "three devices");
        run(t, &s, "cpu:threads=1,faultstaged,cpu:threads=1", &o, &other);
        check_same(t, &alone, &other, "a device with memory of its own");
        o.split = (dpt_split){DPT_SPLIT_EQUAL, NULL};
        o.micro_batch = 5;
        run(t, &s, "cpu:threads=1,cpu:threads=1", &o, &other);
        check_same(t, &alone, &other, "micro-batches");
        o.micro_batch = 0;
        run(t, &s, "faultstaged", &o, &other);
        check_same(t, &alone, &other, "data on the device");
        CHECK(!other.plan.streamed);
        const size_t whole = other.plan.parameter_bytes + other.plan.optimizer_bytes +
                             other.plan.activation_bytes + other.plan.step_bytes +
                             other.plan.data_bytes;
        snprintf(list, sizeof list, "faultstaged:memory=%zu", whole - 1);
        run(t, &s, list, &o, &other);
        CHECK(other.plan.streamed);
        check_same(t, &alone, &other, "data that are sent with each step");
    }
    close_all(&s);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static void refuse(test *t, setting *s, const dpt_trainer_options *o, const char *why)
{
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_device_set_open(s->context, "cpu:threads=1", &devices));
    CHECK_STATUS(dpt_trainer_create(devices, s->model, s->data, o, &trainer), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), why);
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
}

/* The images with targets in place of labels. */
static dpt_status make_targets(setting *s)
{
    static const float targets[COUNT * CLASSES];
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = CHANNELS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_U8,
                                       .images = s->images,
                                       .targets = targets};
    return dpt_dataset_from_memory(s->context, &memory, &s->data);
}

static void mistakes(test *t)
{
    static const float weights[CLASSES] = {1, 1, 1, 1, 1};
    static setting s;
    if (open_all(t, &s)) {
        dpt_trainer_options o = options_of(-1, 0);
        refuse(t, &s, &o, "mixup with an alpha of -1");
        o = options_of(0, 101);
        refuse(t, &s, &o, "cutmix with an alpha of 101");
        o = options_of(NAN, 0);
        refuse(t, &s, &o, "mixup with an alpha of nan");
        o = options_of(0, 1);
        o.class_weights = weights;
        o.n_class_weights = CLASSES;
        refuse(t, &s, &o, "cutmix and class weights do not go together");
        dpt_dataset_destroy(s.data);
        s.data = NULL;
        if (!CHECK(make_targets(&s) == DPT_OK)) return;
        o = options_of(1, 0);
        o.loss = DPT_LOSS_SQUARED_ERROR;
        refuse(t, &s, &o, "use cross-entropy or leave mixup out");
    }
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"steps", steps}, {"any mix", any_mix}, {"mistakes", mistakes}};
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
