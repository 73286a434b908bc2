/* Tests data sets of ids, networks that read them, and samples with several labels: what is
   refused, that ids that a program reads on demand train as those in memory, and what counts as a
   label. */
#include "dptrain.h"
#include "harness.h"
#include "unit/data_files.h"

#include <string.h>

enum { COUNT = 12, PLACES = 5, VOCABULARY = 9, CLASSES = 3, STEPS = 4 };

typedef struct setting {
    test *t;
    dpt_context *context;
    dpt_device_set *devices;
    int32_t ids[COUNT * PLACES];
    float numbers[COUNT * PLACES];
    uint8_t labels[COUNT];
    dpt_dataset_memory memory;
} setting;

static bool open_all(test *t, setting *s)
{
    memset(s, 0, sizeof *s);
    s->t = t;
    for (size_t i = 0; i < COUNT * PLACES; i++)
        s->ids[i] = (int32_t)(i * i % VOCABULARY);
    for (size_t i = 0; i < COUNT; i++)
        s->labels[i] = (uint8_t)(i % CLASSES);
    s->memory = (dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                     .count = COUNT,
                                     .height = 1,
                                     .width = 1,
                                     .channels = PLACES,
                                     .outputs = CLASSES,
                                     .dtype = DPT_I32,
                                     .images = s->ids,
                                     .labels = s->labels,
                                     .vocabulary = VOCABULARY};
    return CHECK_OK(dpt_context_create(&s->context)) &&
           CHECK_OK(dpt_device_set_open(s->context, "cpu:threads=1,cpu:threads=1", &s->devices));
}

static void close_all(setting *s)
{
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static void refuses_data(test *t, setting *s, const char *says)
{
    dpt_dataset *data = NULL;
    CHECK_STATUS(dpt_dataset_from_memory(s->context, &s->memory, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), says);
    CHECK(!data);
}

static void wrong_ids_are_refused(test *t)
{
    setting s;
    if (open_all(t, &s)) {
        s.ids[PLACES + 1] = VOCABULARY;
        refuses_data(t, &s, "id 9 at place 1 of sample 1 is out of range");
        s.ids[PLACES + 1] = -1;
        refuses_data(t, &s, "id -1 at place 1 of sample 1 is out of range");
        s.ids[PLACES + 1] = 0;
        s.memory.mean[0] = 1;
        refuses_data(t, &s, "not normalised");
        s.memory.mean[0] = 0;
        s.memory.vocabulary = 0;
        refuses_data(t, &s, "a vocabulary of 1 to");
        s.memory.vocabulary = DPT_MAX_VOCABULARY + 1;
        refuses_data(t, &s, "a vocabulary of 1 to");
        s.memory.vocabulary = VOCABULARY;
        s.memory.dtype = DPT_F32;
        s.memory.images = s.numbers;
        refuses_data(t, &s, "only ids");
    }
    close_all(&s);
}

static void wrong_ids_are_not_written(test *t)
{
    setting s;
    dpt_dataset *data = NULL;
    float mean[4], deviation[4];
    const int32_t wrong[PLACES] = {0, 1, 2, 3, VOCABULARY}, right[PLACES] = {VOCABULARY - 1};
    if (open_all(t, &s)) {
        s.memory.writable = true;
        CHECK_OK(dpt_dataset_from_memory(s.context, &s.memory, &data));
        CHECK_STATUS(dpt_dataset_write(data, 3, 1, wrong, s.labels, NULL), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "id 9 at place 4 of sample 3");
        CHECK_OK(dpt_dataset_write(data, 3, 1, right, s.labels, NULL));
        CHECK_STATUS(dpt_dataset_statistics(data, mean, deviation), DPT_E_UNSUPPORTED);
        CHECK_CONTAINS(dpt_error_message(s.context), "holds ids");
        dpt_dataset_info info = {.size = sizeof info};
        dpt_dataset_describe(data, &info);
        CHECK_SIZE(info.vocabulary, VOCABULARY);
    }
    dpt_dataset_destroy(data);
    close_all(&s);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static dpt_value head(dpt_model *m, dpt_value y)
{
    y = dpt_flatten(m, dpt_global_average_pool(m, y));
    return dpt_linear(m, y, "fc",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES});
}

static dpt_model *make_model(test *t, setting *s, size_t rows)
{
    dpt_model *m = NULL;
    if (!CHECK_OK(dpt_model_create(s->context, "m", &m))) return NULL;
    const dpt_value ids = dpt_input_ids(m, PLACES);
    const dpt_value y = dpt_embedding(
        m, ids, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = rows, .width = 4});
    CHECK_OK(dpt_model_finish(m, head(m, y)));
    return m;
}

static void fails_to_finish(const setting *s, dpt_model *m, dpt_value y, const char *says)
{
    test *t = s->t;
    CHECK_STATUS(dpt_model_finish(m, y), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), says);
    dpt_model_destroy(m);
}

static void wrong_models_are_refused(test *t)
{
    const dpt_embedding_options options = {.size = sizeof options, .rows = VOCABULARY, .width = 4};
    const dpt_linear_options linear = {.size = sizeof linear, .out = CLASSES};
    setting s;
    dpt_model *m = NULL;
    if (open_all(t, &s)) {
        REQUIRE_OK(dpt_model_create(s.context, "m", &m));
        fails_to_finish(&s, m,
                        dpt_linear(m, dpt_flatten(m, dpt_input_ids(m, PLACES)), "fc", &linear),
                        "layer fc: its input is ids");
        REQUIRE_OK(dpt_model_create(s.context, "m", &m));
        fails_to_finish(&s, m, dpt_embedding(m, dpt_input(m, 1, 1, PLACES), "e", &options),
                        "layer e: an embedding takes ids");
        REQUIRE_OK(dpt_model_create(s.context, "m", &m));
        fails_to_finish(
            &s, m,
            dpt_embedding(m, dpt_input_ids(m, PLACES), "e",
                          &(dpt_embedding_options){
                              .size = sizeof(dpt_embedding_options), .rows = 0, .width = 4}),
            "layer e");
        REQUIRE_OK(dpt_model_create(s.context, "m", &m));
        fails_to_finish(&s, m, dpt_embedding(m, dpt_input_ids(m, PLACES), "e", NULL),
                        "layer e needs options");
    }
    close_all(&s);
}

/* ---- Training -------------------------------------------------------------------------------- */

static void refuses_training(test *t, setting *s, dpt_model *model, const char *says)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .augment = {.flip = s->memory.writable}};
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    if (CHECK_OK(dpt_dataset_from_memory(s->context, &s->memory, &data))) {
        CHECK_STATUS(dpt_trainer_create(s->devices, model, data, &options, &trainer),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s->context), says);
    }
    dpt_dataset_destroy(data);
}

static void data_must_fit(test *t)
{
    setting s;
    dpt_model *reads_ids = NULL, *reads_numbers = NULL;
    if (open_all(t, &s)) {
        reads_ids = make_model(t, &s, VOCABULARY);
        s.memory.vocabulary = VOCABULARY + 1;
        refuses_training(t, &s, reads_ids, "the smallest table of model m has 9 rows");
        s.memory.vocabulary = VOCABULARY;
        s.memory.writable = true; /* here: with flips */
        refuses_training(t, &s, reads_ids, "leave the augmentation out");
        s.memory.writable = false;
        REQUIRE_OK(dpt_model_create(s.context, "f", &reads_numbers));
        CHECK_OK(dpt_model_finish(reads_numbers,
                                  head(reads_numbers, dpt_input(reads_numbers, 1, 1, PLACES))));
        refuses_training(t, &s, reads_numbers, "model f reads numbers");
        s.memory.dtype = DPT_F32;
        s.memory.vocabulary = 0;
        s.memory.images = s.numbers;
        refuses_training(t, &s, reads_ids, "model m reads ids");
    }
    dpt_model_destroy(reads_numbers);
    dpt_model_destroy(reads_ids);
    close_all(&s);
}

static dpt_status read_ids(void *user, size_t sample, size_t epoch, void *image,
                           char why[DPT_READER_WHY_BYTES])
{
    const setting *s = user;
    (void)epoch;
    (void)why;
    memcpy(image, s->ids + sample * PLACES, PLACES * sizeof *s->ids);
    return DPT_OK;
}

static dpt_status read_data(setting *s, dpt_dataset **out)
{
    const dpt_dataset_reader reader = {
        .size = sizeof reader, .read = read_ids, .user = s, .n_threads = 1};
    dpt_dataset_memory memory = s->memory;
    memory.images = NULL;
    return dpt_dataset_from_reader(s->context, &memory, &reader, out);
}

/* The losses of some steps, and of an evaluation behind them. */
static void train(test *t, setting *s, const dpt_dataset *data, double losses[STEPS + 1])
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = 8,
                                         .lr = 0.1f,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:1"}};
    dpt_model *model = make_model(t, s, VOCABULARY);
    dpt_trainer *trainer = NULL;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    float outputs[COUNT * CLASSES];
    if (CHECK_OK(dpt_trainer_create(s->devices, model, data, &options, &trainer)))
        for (size_t i = 0; i < STEPS; i++) {
            dpt_step_metrics step = {.size = sizeof step};
            CHECK_OK(dpt_trainer_step(trainer, &step));
            losses[i] = step.loss;
        }
    if (trainer && CHECK_OK(dpt_trainer_evaluate(trainer, data, &evaluation)))
        CHECK_OK(dpt_trainer_predict(trainer, data, 0, COUNT, outputs));
    losses[STEPS] = evaluation.loss;
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
}

static void ids_are_read_on_demand(test *t)
{
    setting s;
    dpt_dataset *held = NULL, *read = NULL;
    double losses[STEPS + 1] = {0}, again[STEPS + 1] = {0};
    if (open_all(t, &s) && CHECK_OK(dpt_dataset_from_memory(s.context, &s.memory, &held)) &&
        CHECK_OK(read_data(&s, &read))) {
        train(t, &s, held, losses);
        train(t, &s, read, again);
        for (size_t i = 0; i <= STEPS; i++)
            CHECK_NEAR(again[i], losses[i], 0);
        CHECK(losses[0] > 0 && losses[0] != losses[STEPS]);
    }
    dpt_dataset_destroy(read);
    s.ids[PLACES] = -7;
    read = NULL;
    CHECK_STATUS(read_data(&s, &read), DPT_E_FORMAT);
    CHECK_CONTAINS(dpt_error_message(s.context), "id -7 at place 0 of sample 1");
    dpt_dataset_destroy(held);
    close_all(&s);
}

/* ---- Several labels a sample ----------------------------------------------------------------- */

static dpt_model *make_tagger(test *t, setting *s)
{
    dpt_model *m = NULL;
    if (!CHECK_OK(dpt_model_create(s->context, "tagger", &m))) return NULL;
    const dpt_value ids = dpt_input_ids(m, PLACES);
    const dpt_value y = dpt_embedding(
        m, ids, "e",
        &(dpt_embedding_options){
            .size = sizeof(dpt_embedding_options), .rows = VOCABULARY, .width = CLASSES});
    CHECK_OK(dpt_model_finish_per_pixel(m, y));
    CHECK_SIZE(dpt_model_labels(m), PLACES);
    CHECK_SIZE(dpt_model_outputs(m), CLASSES);
    return m;
}

/* The data with a label for each id: its remainder.  Sample 0 is ignored, and so is the last place
   of all. */
static void give_labels(setting *s, int32_t labels[COUNT * PLACES])
{
    for (size_t i = 0; i < COUNT * PLACES; i++)
        labels[i] =
            i < PLACES || i % PLACES == PLACES - 1 ? DPT_IGNORED_LABEL : s->ids[i] % CLASSES;
    s->memory.labels = labels;
    s->memory.label_dtype = DPT_I32;
    s->memory.labels_per_sample = PLACES;
}

static void ignored_labels_do_not_count(test *t)
{
    enum { COUNTED = (COUNT - 1) * (PLACES - 1) };
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 2,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:1"}};
    setting s;
    int32_t labels[COUNT * PLACES];
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_model *model = NULL;
    dpt_step_metrics step = {.size = sizeof step};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    if (open_all(t, &s)) {
        give_labels(&s, labels);
        model = make_tagger(t, &s);
        CHECK_OK(dpt_dataset_from_memory(s.context, &s.memory, &data));
        CHECK_OK(dpt_trainer_create(s.devices, model, data, &options, &trainer));
        for (size_t i = 0; trainer && i < 40; i++)
            CHECK_OK(dpt_trainer_step(trainer, &step));
        CHECK_SIZE(step.samples, COUNT);
        CHECK_SIZE(step.labels, COUNTED);
        CHECK_SIZE(step.hits, COUNTED); /* an id tells its label */
        CHECK(step.loss < 0.2);
        CHECK_OK(dpt_trainer_evaluate(trainer, data, &evaluation));
        CHECK_SIZE(evaluation.labels, COUNTED);
        CHECK_NEAR(evaluation.accuracy, 1, 0);
        CHECK(evaluation.loss > 0 && evaluation.loss < step.loss);
    }
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    close_all(&s);
}

static void labels_must_fit(test *t)
{
    const dpt_trainer_options squared = {.size = sizeof squared, .loss = DPT_LOSS_SQUARED_ERROR};
    setting s;
    int32_t labels[COUNT * PLACES];
    float targets[COUNT * CLASSES] = {0};
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_model *tagger = NULL, *classifier = NULL;
    if (open_all(t, &s)) {
        tagger = make_tagger(t, &s);
        classifier = make_model(t, &s, VOCABULARY);
        refuses_training(t, &s, tagger,
                         "scores 5 labels a sample, but the samples of memory have 1");
        s.memory.targets = targets;
        CHECK_OK(dpt_dataset_from_memory(s.context, &s.memory, &data));
        CHECK_STATUS(dpt_trainer_create(s.devices, tagger, data, &squared, &trainer),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "which only cross-entropy trains");
        s.memory.targets = NULL;
        give_labels(&s, labels);
        refuses_training(t, &s, classifier, "scores 1 labels a sample");
        labels[2 * PLACES + 1] = CLASSES;
        refuses_data(t, &s, "label 3 at place 1 of sample 2 is out of range");
        labels[2 * PLACES + 1] = -1;
        refuses_data(t, &s, "label -1 at place 1 of sample 2 is out of range");
        labels[2 * PLACES + 1] = 0;
        s.memory.labels_per_sample = SIZE_MAX;
        refuses_data(t, &s, "labels, not");
        dpt_model *m = NULL;
        REQUIRE_OK(dpt_model_create(s.context, "m", &m));
        const dpt_value flat = dpt_flatten(m, dpt_input(m, 1, 1, PLACES));
        CHECK_STATUS(dpt_model_finish_per_pixel(m, flat), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "is no image");
        dpt_model_destroy(m);
        CHECK_STATUS(dpt_model_finish_per_pixel(NULL, flat), DPT_E_INVALID);
    }
    dpt_model_destroy(classifier);
    dpt_model_destroy(tagger);
    dpt_dataset_destroy(data);
    close_all(&s);
}

/* The data read on demand, whose labels are sent with the steps, train as those in memory. */
static void labels_are_sent(test *t)
{
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = 8, .lr = 1, .split = {DPT_SPLIT_PROPORTIONS, "3:1"}};
    setting s;
    int32_t labels[COUNT * PLACES];
    double losses[2] = {0};
    if (open_all(t, &s)) give_labels(&s, labels);
    for (size_t i = 0; i < 2 && s.devices; i++) {
        dpt_model *model = make_tagger(t, &s);
        dpt_dataset *data = NULL;
        dpt_trainer *trainer = NULL;
        dpt_step_metrics step = {.size = sizeof step};
        CHECK_OK(i ? read_data(&s, &data) : dpt_dataset_from_memory(s.context, &s.memory, &data));
        CHECK_OK(dpt_trainer_create(s.devices, model, data, &options, &trainer));
        for (size_t k = 0; trainer && k < 3; k++)
            CHECK_OK(dpt_trainer_step(trainer, &step));
        losses[i] = step.loss;
        dpt_trainer_destroy(trainer);
        dpt_dataset_destroy(data);
        dpt_model_destroy(model);
    }
    CHECK(losses[0] > 0);
    CHECK_NEAR(losses[1], losses[0], 0);
    close_all(&s);
}

/* Fits a tagger in steps of 8 and 4 samples, whose labels count differently. */
static void fit(setting *s, const char *checkpoint, size_t max_steps, dpt_fit_result *result)
{
    test *t = s->t;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = 8,
                                         .lr = 0.5f,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:1"}};
    const dpt_fit_options how = {
        .size = sizeof how, .max_steps = max_steps, .checkpoint = checkpoint, .resume = true};
    dpt_model *model = make_tagger(t, s);
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    CHECK_OK(dpt_dataset_from_memory(s->context, &s->memory, &data));
    if (CHECK_OK(dpt_trainer_create(s->devices, model, data, &options, &trainer)))
        CHECK_OK(dpt_fit(trainer, &how, result));
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    dpt_model_destroy(model);
}

/* The loss of an epoch is the mean over its labels, also if training was interrupted within it. */
static void epochs_count_labels(test *t)
{
    setting s;
    int32_t labels[COUNT * PLACES];
    dpt_fit_result whole = {.size = sizeof whole}, first = {.size = sizeof first},
                   second = {.size = sizeof second};
    if (open_all(t, &s)) {
        give_labels(&s, labels);
        fit(&s, "whole", 4, &whole);
        fit(&s, "parts", 3, &first);
        fit(&s, "parts", 4, &second);
        CHECK_SIZE(whole.epochs, 2);
        CHECK_SIZE(second.epochs, 2);
        CHECK(whole.train_loss > 0);
        CHECK_NEAR(second.train_loss, whole.train_loss, 0);
    }
    close_all(&s);
}

/* A batch whose labels are all ignored has the loss 0, and changes nothing. */
static void nothing_to_learn(test *t)
{
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = COUNT, .lr = 1};
    setting s;
    int32_t labels[COUNT * PLACES];
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_model *model = NULL;
    dpt_step_metrics step = {.size = sizeof step};
    float before[VOCABULARY * CLASSES], after[VOCABULARY * CLASSES];
    if (open_all(t, &s)) {
        give_labels(&s, labels);
        for (size_t i = 0; i < COUNT * PLACES; i++)
            labels[i] = DPT_IGNORED_LABEL;
        model = make_tagger(t, &s);
        CHECK_OK(dpt_dataset_from_memory(s.context, &s.memory, &data));
        REQUIRE_OK(dpt_trainer_create(s.devices, model, data, &options, &trainer));
        CHECK_OK(
            dpt_trainer_get(trainer, 0, DPT_PARAMETER, "e.weight", before, VOCABULARY * CLASSES));
        CHECK_OK(dpt_trainer_step(trainer, &step));
        CHECK_OK(
            dpt_trainer_get(trainer, 0, DPT_PARAMETER, "e.weight", after, VOCABULARY * CLASSES));
        CHECK_NEAR(step.loss, 0, 0);
        CHECK_SIZE(step.hits, 0);
        CHECK(memcmp(before, after, sizeof before) == 0);
    }
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"wrong ids are refused", wrong_ids_are_refused},
        {"wrong ids are not written", wrong_ids_are_not_written},
        {"wrong models are refused", wrong_models_are_refused},
        {"data must fit", data_must_fit},
        {"ids are read on demand", ids_are_read_on_demand},
        {"ignored labels do not count", ignored_labels_do_not_count},
        {"labels must fit", labels_must_fit},
        {"labels are sent", labels_are_sent},
        {"epochs count labels", epochs_count_labels},
        {"nothing to learn", nothing_to_learn},
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
