/* Tests regression: data with targets instead of labels, trained by squared error. */
#include "dptrain.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, INPUTS = 6, OUTPUTS = 3, STEPS = 400 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *with_targets, *with_labels, *with_neither, *wide; /* wide: a target too many */
    dpt_device_set *devices;
    dpt_model *model;
} setting;

/* What is to be learnt: y = a x + b, exactly. */
static float target_of(const float *x, size_t output)
{
    float y = 0.5f * (float)output;
    for (size_t i = 0; i < INPUTS; i++)
        y += ((i + output) % 3 == 0 ? 1.0f : -0.25f) * x[i];
    return y;
}

static bool open_all(test *t, setting *s)
{
    static float x[COUNT * INPUTS], targets[COUNT * (OUTPUTS + 1)];
    static const uint8_t labels[COUNT] = {0};
    test_random random = {.state = 5};
    *s = (setting){0};
    test_fill_normal(&random, x, COUNT * INPUTS);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < OUTPUTS; k++)
            targets[i * OUTPUTS + k] = target_of(x + i * INPUTS, k);
    dpt_dataset_memory memory = {.size = sizeof memory,
                                 .count = COUNT,
                                 .height = 1,
                                 .width = 1,
                                 .channels = INPUTS,
                                 .outputs = OUTPUTS,
                                 .dtype = DPT_F32,
                                 .images = x,
                                 .targets = targets};
    if (!CHECK_OK(dpt_context_create(&s->context)) ||
        !CHECK_OK(dpt_device_set_open(s->context, "cpu:threads=1,cpu:threads=1", &s->devices)) ||
        !CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->with_targets)))
        return false;
    memory.outputs = OUTPUTS + 1;
    if (!CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->wide))) return false;
    memory.outputs = OUTPUTS;
    memory.targets = NULL;
    if (!CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->with_neither))) return false;
    memory.labels = labels;
    if (!CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->with_labels)) ||
        !CHECK_OK(dpt_model_create(s->context, "regression", &s->model)))
        return false;
    const dpt_value in = dpt_flatten(s->model, dpt_input(s->model, 1, 1, INPUTS));
    return CHECK_OK(dpt_model_finish(
        s->model,
        dpt_linear(s->model, in, "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = OUTPUTS})));
}

static void close_all(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->wide);
    dpt_dataset_destroy(s->with_neither);
    dpt_dataset_destroy(s->with_labels);
    dpt_dataset_destroy(s->with_targets);
    dpt_context_destroy(s->context);
}

static const dpt_trainer_options squared = {.size = sizeof squared,
                                            .batch_size = 16,
                                            .lr = 0.3f,
                                            .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                            .loss = DPT_LOSS_SQUARED_ERROR};

/* The mean of the squared distances of what is predicted from the targets. */
static double error_of(test *t, const float *predicted, dpt_trainer *trainer)
{
    float x[INPUTS], w[OUTPUTS * INPUTS], b[OUTPUTS];
    double sum = 0;
    CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", w, OUTPUTS * INPUTS));
    CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.bias", b, OUTPUTS));
    test_random random = {.state = 5};
    for (size_t i = 0; i < COUNT; i++) {
        test_fill_normal(&random, x, INPUTS);
        for (size_t k = 0; k < OUTPUTS; k++) {
            double y = (double)b[k];
            for (size_t j = 0; j < INPUTS; j++)
                y += (double)w[k * INPUTS + j] * (double)x[j];
            CHECK_NEAR((double)predicted[i * OUTPUTS + k], y, 1e-4);
            sum += pow(y - (double)target_of(x, k), 2) / OUTPUTS;
        }
    }
    return sum / COUNT;
}

static void learns_targets(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        dpt_trainer *trainer = NULL;
        dpt_evaluation before = {.size = sizeof before}, after = {.size = sizeof after};
        float predicted[COUNT * OUTPUTS];
        REQUIRE_OK(dpt_trainer_create(s.devices, s.model, s.with_targets, &squared, &trainer));
        CHECK_OK(dpt_trainer_evaluate(trainer, s.with_targets, &before));
        CHECK_OK(dpt_trainer_predict(trainer, s.with_targets, 0, COUNT, predicted));
        /* What evaluation calls the loss is the error of what is predicted. */
        CHECK(before.loss > 0.1);
        CHECK_NEAR(before.loss, error_of(t, predicted, trainer), 1e-5 * before.loss);
        CHECK_SIZE(before.hits, 0);
        for (size_t i = 0; i < STEPS; i++) {
            dpt_step_metrics m = {.size = sizeof m};
            CHECK_OK(dpt_trainer_step(trainer, &m));
        }
        CHECK_OK(dpt_trainer_evaluate(trainer, s.with_targets, &after));
        CHECK(after.loss < 1e-6);
        /* Predicting needs no answers, whichever kind the data have. */
        CHECK_OK(dpt_trainer_predict(trainer, s.with_labels, 0, COUNT, predicted));
        CHECK_NEAR(after.loss, error_of(t, predicted, trainer), 1e-7);
        CHECK_STATUS(dpt_trainer_evaluate(trainer, s.with_labels, &after), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "needs targets");
        memset(predicted, 0, sizeof predicted);
        CHECK_OK(dpt_trainer_predict(trainer, s.with_neither, 0, COUNT, predicted));
        CHECK_NEAR(after.loss, error_of(t, predicted, trainer), 1e-7);
        CHECK_STATUS(dpt_trainer_evaluate(trainer, s.with_neither, &after), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "needs targets, and memory has none");
        CHECK_STATUS(dpt_trainer_predict(trainer, s.with_neither, COUNT - 1, 2, predicted),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "2 samples from sample 63 on of memory, which "
                                                     "has 64");
        dpt_trainer_destroy(trainer);
    }
    close_all(&s);
}

static void refuse(test *t, const setting *s, const dpt_dataset *data,
                   const dpt_trainer_options *options, const char *reason)
{
    dpt_trainer *trainer = NULL;
    CHECK_STATUS(dpt_trainer_create(s->devices, s->model, data, options, &trainer), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), reason);
    CHECK(trainer == NULL);
}

static void refuses_the_wrong_answers(test *t)
{
    setting s;
    const dpt_trainer_options cross = {.size = sizeof cross, .batch_size = 16};
    if (open_all(t, &s)) {
        refuse(t, &s, s.with_labels, &squared, "needs targets");
        refuse(t, &s, s.with_targets, &cross, "it has targets: use a squared error");
        refuse(t, &s, s.with_neither, &cross, "no labels");
        refuse(t, &s, s.with_neither, &squared, "needs targets");
        refuse(t, &s, s.wide, &squared, "4");
    }
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"learns targets", learns_targets},
        {"refuses the wrong answers", refuses_the_wrong_answers},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
