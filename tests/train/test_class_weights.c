/* Tests cross-entropy with a weight for each class, against PyTorch. */
#include "train/session.h"

enum { SAMPLES = 16, INPUTS = 6, CLASSES = 3, LOSSES = 7 };

/* Printed by tests/golden/make_losses.py with PyTorch 2.15. */
static const double known[LOSSES] = {1.295888824, 1.110981137, 0.970495305, 0.868644222,
                                     0.797528956, 0.748293312, 0.713384057};
static const double known_unweighted = 0.911681859;
static const float weights[CLASSES] = {0.5f, 3, 1.25f};

static bool open_data(test *t, session *s)
{
    float x[SAMPLES * INPUTS];
    uint8_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = (uint8_t)((i * i + i / 3) % CLASSES);
        for (int j = 0; j < INPUTS; j++)
            x[i * INPUTS + j] = (float)((7 * i + 5 * j * j + 3 * i * j) % 17 - 8) / 4;
    }
    return CHECK_OK(
        dpt_dataset_from_memory(s->context,
                                &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                      .count = SAMPLES,
                                                      .height = 1,
                                                      .width = 1,
                                                      .channels = INPUTS,
                                                      .outputs = CLASSES,
                                                      .dtype = DPT_F32,
                                                      .images = x,
                                                      .labels = labels},
                                &s->data));
}

static bool open_all(test *t, session *s)
{
    static const char devices[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
    *s = (session){.context = NULL};
    return CHECK_OK(dpt_context_create(&s->context)) &&
           CHECK_OK(dpt_device_set_open(s->context, devices, &s->devices)) && open_data(t, s) &&
           CHECK_OK(session_linear(s, INPUTS, CLASSES));
}

static dpt_trainer_options weighted(const char *split)
{
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = SAMPLES,
                                 .lr = 0.25f,
                                 .split = {DPT_SPLIT_PROPORTIONS, split},
                                 .class_weights = weights,
                                 .n_class_weights = CLASSES};
}

static void train(test *t, const session *s, const dpt_trainer_options *options)
{
    dpt_trainer *trainer = NULL;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    float w[CLASSES * INPUTS];
    const float b[CLASSES] = {0};
    for (int k = 0; k < CLASSES; k++)
        for (int j = 0; j < INPUTS; j++)
            w[k * INPUTS + j] = (float)((4 * k + 3 * j) % 7 - 3) / 8;
    REQUIRE_OK(dpt_trainer_create(s->devices, s->model, s->data, options, &trainer));
    CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.weight", w, CLASSES * INPUTS));
    CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.bias", b, CLASSES));
    for (size_t i = 0; i < LOSSES; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_step(trainer, &m));
        CHECK_NEAR(m.loss, known[i], 1e-6);
        CHECK_SIZE(m.labels, SAMPLES);
    }
    CHECK_OK(dpt_trainer_evaluate(trainer, s->data, &evaluation));
    CHECK_NEAR(evaluation.loss, known_unweighted, 1e-6);
    dpt_trainer_destroy(trainer);
}

/* The sum of the weights is over the global batch: the losses do not depend on the shards, nor on
   micro-batches. */
static void losses_are_those_of_pytorch(test *t)
{
    session s;
    if (open_all(t, &s)) {
        static const char *const splits[] = {"13:2:1", "1:0:0", "5:6:5"};
        for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
            dpt_trainer_options o = weighted(splits[i]);
            train(t, &s, &o);
            o.micro_batch = 3;
            train(t, &s, &o);
        }
    }
    session_end(&s);
}

static void refuse(test *t, const session *s, const dpt_trainer_options *options,
                   const char *reason)
{
    dpt_trainer *trainer = NULL;
    CHECK_STATUS(dpt_trainer_create(s->devices, s->model, s->data, options, &trainer),
                 DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), reason);
    CHECK(trainer == NULL);
}

static void refuses_weights_that_do_not_fit(test *t)
{
    session s;
    if (open_all(t, &s)) {
        static const float negative[CLASSES] = {1, -1, 1}, zeros[CLASSES] = {0};
        dpt_trainer_options o = weighted("13:2:1");
        o.n_class_weights = 2;
        refuse(t, &s, &o, "2 class weights are given, but model linear has 3 classes");
        o.class_weights = NULL;
        refuse(t, &s, &o, "0 class weights are given");
        o = weighted("13:2:1");
        o.class_weights = negative;
        refuse(t, &s, &o, "a class weight is not in [0, 1e20]");
        o.class_weights = zeros;
        refuse(t, &s, &o, "all class weights are 0");
        o = weighted("13:2:1");
        o.label_smoothing = 0.1f;
        refuse(t, &s, &o, "class weights are for cross-entropy without label smoothing");
    }
    session_end(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"losses are those of PyTorch", losses_are_those_of_pytorch},
        {"refuses weights that do not fit", refuses_weights_that_do_not_fit},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
