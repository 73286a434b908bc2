/* Tests regression: data with targets instead of labels, and the losses of targets. */
#include "train/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, INPUTS = 6, OUTPUTS = 3, STEPS = 400 };

typedef struct setting {
    session all;
    dpt_dataset *with_targets, *with_labels, *with_neither, *wide; /* wide: a target too many */
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
    *s = (setting){.with_targets = NULL};
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
    if (!CHECK_OK(dpt_context_create(&s->all.context)) ||
        !CHECK_OK(
            dpt_device_set_open(s->all.context, "cpu:threads=1,cpu:threads=1", &s->all.devices)) ||
        !CHECK_OK(dpt_dataset_from_memory(s->all.context, &memory, &s->with_targets)))
        return false;
    memory.outputs = OUTPUTS + 1;
    if (!CHECK_OK(dpt_dataset_from_memory(s->all.context, &memory, &s->wide))) return false;
    memory.outputs = OUTPUTS;
    memory.targets = NULL;
    if (!CHECK_OK(dpt_dataset_from_memory(s->all.context, &memory, &s->with_neither))) return false;
    memory.labels = labels;
    return CHECK_OK(dpt_dataset_from_memory(s->all.context, &memory, &s->with_labels)) &&
           CHECK_OK(session_linear(&s->all, INPUTS, OUTPUTS));
}

static void close_all(setting *s)
{
    dpt_dataset_destroy(s->wide);
    dpt_dataset_destroy(s->with_neither);
    dpt_dataset_destroy(s->with_labels);
    dpt_dataset_destroy(s->with_targets);
    session_end(&s->all);
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
        REQUIRE_OK(
            dpt_trainer_create(s.all.devices, s.all.model, s.with_targets, &squared, &trainer));
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
        CHECK_CONTAINS(dpt_error_message(s.all.context), "needs targets");
        memset(predicted, 0, sizeof predicted);
        CHECK_OK(dpt_trainer_predict(trainer, s.with_neither, 0, COUNT, predicted));
        CHECK_NEAR(after.loss, error_of(t, predicted, trainer), 1e-7);
        CHECK_STATUS(dpt_trainer_evaluate(trainer, s.with_neither, &after), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.all.context), "needs targets, and memory has none");
        CHECK_STATUS(dpt_trainer_predict(trainer, s.with_neither, COUNT - 1, 2, predicted),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.all.context),
                       "2 samples from sample 63 on of memory, which "
                       "has 64");
        dpt_trainer_destroy(trainer);
    }
    close_all(&s);
}

static void refuse(test *t, const setting *s, const dpt_dataset *data,
                   const dpt_trainer_options *options, const char *reason)
{
    dpt_trainer *trainer = NULL;
    CHECK_STATUS(dpt_trainer_create(s->all.devices, s->all.model, data, options, &trainer),
                 DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->all.context), reason);
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
        dpt_trainer_options o = squared;
        o.huber_delta = 0.5f;
        refuse(t, &s, s.with_targets, &o, "a Huber delta is for the Huber loss");
        o.loss = DPT_LOSS_HUBER;
        o.huber_delta = -1;
        refuse(t, &s, s.with_targets, &o, "a Huber delta of -1 is not in");
        o.huber_delta = 0;
        o.label_smoothing = 0.1f;
        refuse(t, &s, s.with_targets, &o, "not for the loss huber");
        o.loss = (dpt_loss)8;
        refuse(t, &s, s.with_targets, &o, "unknown loss 8");
    }
    close_all(&s);
}

/* ---- The losses of PyTorch ------------------------------------------------------------------- */

enum { SAMPLES = 16, LOSSES = 7 };

typedef struct known_loss {
    const char *name;
    dpt_loss loss;
    float delta;
    double losses[LOSSES];
} known_loss;

/* Printed by tests/golden/make_losses.py with PyTorch 2.15. */
static const known_loss known[] = {
    {"absolute",
     DPT_LOSS_ABSOLUTE_ERROR,
     0,
     {1.438151042, 1.401462131, 1.364773220, 1.336466471, 1.308295356, 1.284667969, 1.263522678}},
    {"Huber",
     DPT_LOSS_HUBER,
     0,
     {1.011423747, 0.980268321, 0.951468394, 0.925289436, 0.901944199, 0.881467425, 0.863428210}},
    {"Huber, 0.25",
     DPT_LOSS_HUBER,
     0.25f,
     {0.328867594, 0.326670835, 0.324501238, 0.322397005, 0.320371418, 0.318413981, 0.316515810}},
    {"binary cross-entropy",
     DPT_LOSS_BINARY_CROSS_ENTROPY,
     0,
     {0.803706921, 0.789806760, 0.776742691, 0.764484237, 0.752999253, 0.742254212, 0.732214526}},
};

static bool make_known(test *t, const setting *s, const known_loss *of, dpt_dataset **out)
{
    float x[SAMPLES * INPUTS], targets[SAMPLES * OUTPUTS];
    const bool probable = of->loss == DPT_LOSS_BINARY_CROSS_ENTROPY;
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < INPUTS; j++)
            x[i * INPUTS + j] = (float)((7 * i + 5 * j * j + 3 * i * j) % 17 - 8) / 4;
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < OUTPUTS; k++)
            targets[i * OUTPUTS + k] =
                probable ? (float)((5 * i + 3 * k) % 9) / 8 : (float)((5 * i + 3 * k) % 11 - 5) / 2;
    return CHECK_OK(
        dpt_dataset_from_memory(s->all.context,
                                &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                      .count = SAMPLES,
                                                      .height = 1,
                                                      .width = 1,
                                                      .channels = INPUTS,
                                                      .outputs = OUTPUTS,
                                                      .dtype = DPT_F32,
                                                      .images = x,
                                                      .targets = targets},
                                out));
}

static void set_weights(test *t, dpt_trainer *trainer)
{
    float w[OUTPUTS * INPUTS];
    const float b[OUTPUTS] = {0};
    for (int k = 0; k < OUTPUTS; k++)
        for (int j = 0; j < INPUTS; j++)
            w[k * INPUTS + j] = (float)((4 * k + 3 * j) % 7 - 3) / 8;
    CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.weight", w, OUTPUTS * INPUTS));
    CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.bias", b, OUTPUTS));
}

/* A predictor with `sigmoid` gives what the trainer predicts. */
static void check_probabilities(test *t, const setting *s, dpt_trainer *trainer,
                                const dpt_dataset *data)
{
    static const char path[] = "probabilities.safetensors";
    float by_trainer[SAMPLES * OUTPUTS], by_predictor[SAMPLES * OUTPUTS];
    dpt_predictor *predictor = NULL;
    dpt_predictor_options options = {
        .size = sizeof options, .weights = path, .like = data, .sigmoid = true};
    CHECK_OK(dpt_trainer_predict(trainer, data, 0, SAMPLES, by_trainer));
    REQUIRE_OK(dpt_trainer_save(trainer, path));
    REQUIRE_OK(dpt_predictor_create(s->all.devices, s->all.model, &options, &predictor));
    CHECK_OK(dpt_predictor_run_data(predictor, data, 0, SAMPLES, by_predictor, NULL));
    for (size_t i = 0; i < SAMPLES * OUTPUTS; i++) {
        CHECK(by_trainer[i] > 0 && by_trainer[i] < 1);
        CHECK_NEAR((double)by_predictor[i], (double)by_trainer[i], 1e-6);
    }
    dpt_predictor_destroy(predictor);
    options.logits = true;
    CHECK_STATUS(dpt_predictor_create(s->all.devices, s->all.model, &options, &predictor),
                 DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->all.context), "both logits and sigmoid");
    remove(path);
}

static void check_known(test *t, const setting *s, const known_loss *of)
{
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = SAMPLES,
                                         .lr = 0.25f,
                                         .split = {DPT_SPLIT_PROPORTIONS, "13:3"},
                                         .loss = of->loss,
                                         .huber_delta = of->delta};
    if (!make_known(t, s, of, &data)) return;
    REQUIRE_OK(dpt_trainer_create(s->all.devices, s->all.model, data, &options, &trainer));
    set_weights(t, trainer);
    for (size_t i = 0; i + 1 < LOSSES; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_step(trainer, &m));
        CHECK_NEAR(m.loss, of->losses[i], 1e-6);
        CHECK_SIZE(m.hits, 0);
    }
    CHECK_OK(dpt_trainer_evaluate(trainer, data, &evaluation));
    CHECK_NEAR(evaluation.loss, of->losses[LOSSES - 1], 1e-6);
    CHECK_SIZE(evaluation.hits, 0);
    if (of->loss == DPT_LOSS_BINARY_CROSS_ENTROPY) check_probabilities(t, s, trainer, data);
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
}

static void losses_are_those_of_pytorch(test *t)
{
    setting s;
    if (open_all(t, &s))
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            const size_t before = t->n_failures;
            check_known(t, &s, &known[i]);
            if (t->n_failures > before) FAIL("loss: %s", known[i].name);
        }
    close_all(&s);
}

/* Logits of +-100: the loss is 100 for the wrong answer, and 0 for the right one. */
static void large_logits_stay_finite(test *t)
{
    setting s;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    float x[INPUTS] = {0};
    const float targets[OUTPUTS] = {1, 0, 0}, logits[OUTPUTS] = {100, -100, 300};
    const dpt_trainer_options options = {
        .size = sizeof options, .lr = 3, .loss = DPT_LOSS_BINARY_CROSS_ENTROPY};
    dpt_step_metrics m = {.size = sizeof m};
    float b[OUTPUTS];
    if (open_all(t, &s) &&
        CHECK_OK(dpt_dataset_from_memory(s.all.context,
                                         &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                               .count = 1,
                                                               .height = 1,
                                                               .width = 1,
                                                               .channels = INPUTS,
                                                               .outputs = OUTPUTS,
                                                               .dtype = DPT_F32,
                                                               .images = x,
                                                               .targets = targets},
                                         &data)) &&
        CHECK_OK(dpt_trainer_create(s.all.devices, s.all.model, data, &options, &trainer))) {
        CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.bias", logits, OUTPUTS));
        CHECK_OK(dpt_trainer_evaluate(trainer, data, &evaluation));
        CHECK_NEAR(evaluation.loss, 100.0, 1e-4);
        CHECK_OK(dpt_trainer_step(trainer, &m));
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.bias", b, OUTPUTS));
        CHECK_NEAR((double)b[0], 100.0, 0);
        CHECK_NEAR((double)b[1], -100.0, 0);
        CHECK_NEAR((double)b[2], 299.0, 1e-4); /* 3 times a gradient of 1/3 */
    }
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"learns targets", learns_targets},
        {"refuses the wrong answers", refuses_the_wrong_answers},
        {"losses are those of PyTorch", losses_are_those_of_pytorch},
        {"large logits stay finite", large_logits_stay_finite},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
