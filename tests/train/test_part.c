/* Tests training and evaluation on parts of a data set: the result has the same bits as on a copy
   of the samples, and images are not copied. */
#include "harness.h"
#include "train/components/order.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 90, BATCH = 20, STEPS = 8, PIXELS = 28 * 28 };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *whole, *train, *held_out;
    dpt_device_set *devices;
    dpt_model *model;
} setting;

static dpt_status from_images(dpt_context *context, const image_set *images, dpt_dataset **out)
{
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = images->count,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .outputs = 10,
                                       .dtype = DPT_U8,
                                       .images = images->pixels,
                                       .labels = images->labels,
                                       .mean = {0.25f},
                                       .deviation = {0.5f}};
    return dpt_dataset_from_memory(context, &memory, out);
}

static dpt_status open_all(setting *s)
{
    image_set images;
    const dpt_model_shape shape = {28, 28, 1, 10};
    *s = (setting){0};
    if (!images_create(COUNT, 3, &images)) return DPT_E_NO_MEMORY;
    dpt_status status = dpt_context_create(&s->context);
    if (status == DPT_OK) status = from_images(s->context, &images, &s->whole);
    images_free(&images);
    if (status == DPT_OK) status = dpt_dataset_split(s->whole, 0.3, 5, &s->train, &s->held_out);
    if (status == DPT_OK) status = dpt_device_set_open(s->context, "cpu,cpu", &s->devices);
    if (status == DPT_OK) status = dpt_model_by_name(s->context, "lenet", &shape, &s->model);
    return status;
}

static void close_all(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->held_out);
    dpt_dataset_destroy(s->train);
    dpt_dataset_destroy(s->whole);
    dpt_context_destroy(s->context);
}

/* The samples of a part as a data set of their own. */
static dpt_dataset *copy_samples(test *t, const setting *s, const dpt_dataset *part)
{
    image_set images;
    dpt_dataset *copy = NULL;
    if (!CHECK(images_create(part->count, 1, &images))) return NULL;
    for (size_t i = 0; i < part->count; i++) {
        const size_t record = dpti_dataset_record(part, i);
        memcpy(images.pixels + i * PIXELS, (const uint8_t *)part->images + record * PIXELS, PIXELS);
        images.labels[i] = (uint8_t)part->labels[record];
    }
    CHECK_OK(from_images(s->context, &images, &copy));
    images_free(&images);
    return copy;
}

typedef struct outcome {
    double losses[STEPS];
    dpt_evaluation evaluations[2]; /* of the held-out part, of the training part */
    size_t n_copies;               /* of other data for evaluation */
} outcome;

static void run(test *t, const setting *s, const dpt_dataset *train, const dpt_dataset *held_out,
                outcome *out)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.2f,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:2"},
                                         .seed = 4};
    dpt_trainer *trainer = NULL;
    memset(out, 0, sizeof *out);
    REQUIRE_OK(dpt_trainer_create(s->devices, s->model, train, &options, &trainer));
    for (size_t i = 0; i < STEPS; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_step(trainer, &m));
        out->losses[i] = m.loss;
    }
    out->evaluations[0].size = sizeof out->evaluations[0];
    CHECK_OK(dpt_trainer_evaluate(trainer, held_out, &out->evaluations[0]));
    out->n_copies = trainer->programs.tests[0].store.n_copies;
    out->evaluations[1].size = sizeof out->evaluations[1];
    CHECK_OK(dpt_trainer_evaluate(trainer, train, &out->evaluations[1]));
    dpt_trainer_destroy(trainer);
}

static void trains_as_on_a_copy(test *t)
{
    setting s;
    if (CHECK_OK(open_all(&s))) {
        dpt_dataset *train = copy_samples(t, &s, s.train);
        dpt_dataset *held_out = copy_samples(t, &s, s.held_out);
        outcome parts, copies;
        if (CHECK(train && held_out)) {
            run(t, &s, s.train, s.held_out, &parts);
            run(t, &s, train, held_out, &copies);
            CHECK(memcmp(parts.losses, copies.losses, sizeof parts.losses) == 0);
            CHECK(parts.losses[0] > 0);
            for (size_t i = 0; i < 2; i++) {
                CHECK_SIZE(parts.evaluations[i].samples, i == 0 ? 27 : 63);
                CHECK_SIZE(parts.evaluations[i].hits, copies.evaluations[i].hits);
                CHECK_NEAR(parts.evaluations[i].loss, copies.evaluations[i].loss, 0);
            }
            CHECK_SIZE(parts.n_copies, 0);
            CHECK_SIZE(copies.n_copies, 1);
        }
        dpt_dataset_destroy(held_out);
        dpt_dataset_destroy(train);
    }
    close_all(&s);
}

/* Each epoch takes every sample of the part once, and no other. */
static void takes_its_own_samples(test *t)
{
    setting s;
    if (CHECK_OK(open_all(&s))) {
        dpti_order order = {0};
        REQUIRE(dpti_order_create(s.train, &(dpti_order_options){BATCH, 7, true}, &order));
        dpti_cursor cursor = {.epoch = 1};
        size_t taken[COUNT] = {0};
        while (cursor.epoch < 3) {
            size_t n = 0;
            const uint32_t *records = dpti_order_batch(&order, &cursor, &n);
            for (size_t i = 0; i < n; i++)
                if (CHECK(records[i] < COUNT)) taken[records[i]]++;
            cursor = dpti_order_next(&order, cursor);
        }
        for (size_t i = 0; i < s.train->count; i++)
            CHECK_SIZE(taken[dpti_dataset_record(s.train, i)], 2);
        for (size_t i = 0; i < s.held_out->count; i++)
            CHECK_SIZE(taken[dpti_dataset_record(s.held_out, i)], 0);
        dpti_order_free(&order);
    }
    close_all(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains as on a copy", trains_as_on_a_copy},
        {"takes its own samples", takes_its_own_samples},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
