/* Tests that classifications do not depend on devices, shares and processes, nor on whether
   probabilities are kept or computed twice; and what is refused. */
#include "harness.h"
#include "train/evaluation/classify.h"
#include "train/flat.h"
#include "train/processes.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3, SAMPLES = 150, STEPS = 4 };

/* One training and what came of it, for each process. */
typedef struct course {
    const char *devices, *split; /* devices: "A|B": of two processes */
    size_t kept;
    char *found[MOST]; /* as JSON */
} course;

static dpt_status classify(course *c, dpt_trainer *t, const dpt_dataset *data)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_classification *found = NULL;
    while (dpt_trainer_steps(t) < STEPS)
        DPT_TRY(dpt_trainer_step(t, &m));
    DPT_TRY(dpti_trainer_classify_within(t, data, c->kept, &found));
    c->found[dpt_process_rank(t->context)] = strdup(dpt_classification_json(found));
    dpt_classification_destroy(found);
    return DPT_OK;
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    course *c = user;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = FLAT_BATCH,
                                         .lr = 0.05f,
                                         .split = {DPT_SPLIT_PROPORTIONS, c->split},
                                         .deterministic = true,
                                         .seed = 1};
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(c->devices, rank, list);
    dpt_status status = flat_data(context, SAMPLES, 0, &data);
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = flat_residual(context, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK) status = classify(c, trainer, data);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static bool run(test *t, course *c)
{
    char message[512] = "";
    const size_t n = stand_ins_count(c->devices);
    if (CHECK_OK(stand_ins_run(n, part, c, message))) return true;
    FAIL("%s: %s", c->devices, message);
    return false;
}

static void release(course *c)
{
    for (size_t r = 0; r < MOST; r++)
        free(c->found[r]);
}

static void any_mix_finds_the_same(test *t)
{
    static const char *const mixes[][2] = {
        {"cpu:threads=1", "1"},
        {"cpu:threads=1,cpu:threads=2", "3:1"},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:1:4"},
        {"cpu:threads=1|cpu:threads=1", "1:2"},
        {"cpu:threads=1,cpu:threads=1|cpu:threads=1|cpu:threads=1", "1:1:3:1"},
    };
    course first = {.devices = mixes[0][0], .split = mixes[0][1], .kept = 1 << 20};
    if (!run(t, &first)) return;
    CHECK_CONTAINS(first.found[0], "\"samples\":150");
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        for (size_t twice = 0; twice < 2; twice++) {
            course c = {.devices = mixes[i][0], .split = mixes[i][1], .kept = twice ? 0 : 1 << 20};
            if (run(t, &c))
                for (size_t r = 0; r < stand_ins_count(c.devices); r++)
                    if (!CHECK(strcmp(c.found[r], first.found[0]) == 0))
                        FAIL("%s: %.200s", c.devices, c.found[r]);
            release(&c);
        }
    release(&first);
}

/* ---- Figures, and what is refused ------------------------------------------------------------ */

static void figures_agree(test *t)
{
    dpt_context *context = t->user;
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = FLAT_BATCH};
    const dpt_trainer_options squares = {
        .size = sizeof squares, .batch_size = FLAT_BATCH, .loss = DPT_LOSS_SQUARED_ERROR};
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_classification *found = NULL;
    dpt_classification_info all = {.size = sizeof all};
    dpt_class_info one = {.size = sizeof one};
    dpt_evaluation e = {.size = sizeof e};
    size_t samples = 0, predicted = 0, hits = 0, cells = 0;
    REQUIRE_OK(flat_data(context, SAMPLES, 0, &data));
    REQUIRE_OK(dpt_device_set_open(context, "cpu:threads=1", &devices));
    REQUIRE_OK(flat_residual(context, &model));
    CHECK_STATUS(dpt_trainer_create(devices, model, data, &squares, &trainer), DPT_E_INVALID);
    REQUIRE_OK(dpt_trainer_create(devices, model, data, &options, &trainer));
    CHECK_STATUS(dpt_trainer_classify(trainer, data, NULL), DPT_E_INVALID);
    CHECK_STATUS(dpt_trainer_classify(trainer, NULL, &found), DPT_E_INVALID);
    REQUIRE_OK(dpt_trainer_evaluate(trainer, data, &e));
    REQUIRE_OK(dpt_trainer_classify(trainer, data, &found));
    dpt_classification_describe(found, &all);
    CHECK_SIZE(all.samples, SAMPLES);
    CHECK_SIZE(all.classes, FLAT_CLASSES);
    CHECK_SIZE(all.hits, e.hits);
    CHECK_NEAR(all.accuracy, e.accuracy, 0);
    CHECK(isnan(all.top5_accuracy)); /* of five classes */
    const size_t *confusion = dpt_classification_confusion(found);
    for (size_t i = 0; i < all.classes; i++) {
        dpt_classification_class(found, i, &one);
        samples += one.samples;
        predicted += one.predicted;
        hits += one.hits;
        CHECK_SIZE(one.hits, confusion[i * all.classes + i]);
        for (size_t k = 0; k < all.classes; k++)
            cells += confusion[i * all.classes + k];
    }
    CHECK_SIZE(samples, SAMPLES);
    CHECK_SIZE(predicted, SAMPLES);
    CHECK_SIZE(cells, SAMPLES);
    CHECK_SIZE(hits, all.hits);
    one.samples = 12345;
    dpt_classification_class(found, all.classes, &one);
    CHECK_SIZE(one.samples, 12345);
    dpt_classification_destroy(found);
    dpt_classification_destroy(NULL);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"any mix finds the same", any_mix_finds_the_same},
        {"figures agree", figures_agree},
    };
    dpt_context *context = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, context);
    dpt_context_destroy(context);
    return code;
}
