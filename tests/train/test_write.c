/* Tests samples that are replaced during training: training is the same as if all samples had been
   there, on every backend and wherever the data are; what may not be replaced; what is
   forgotten. */
#include "harness.h"
#include "train/setting.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, BATCH = FLAT_BATCH };

static const mix cpu_mixes[] = {
    {"cpu:threads=1", "equal"},
    {"cpu:threads=1,cpu:threads=1", "3:1"},
    {"faultstaged:threads=1", "equal"},
    {"faultstaged:threads=1,cpu:threads=1,faultstaged:threads=1", "2:1:2"},
};

/* How samples come to be where they are trained on. */
typedef enum way {
    ALL_AT_ONCE,   /* they were there */
    EACH_STEP,     /* a batch before each step */
    PIECES,        /* in two pieces, the second first */
    ONE_BY_ONE,    /* in more writes than are remembered */
    PARTLY_FOR_IT, /* all with the first batch, then what is next of a ring of two batches */
} way;

static const uint8_t *image(const dpt_dataset *data, size_t sample)
{
    return (const uint8_t *)data->images + sample * FLAT_PIXELS;
}

static dpt_status make_stream(dpt_context *context, const dpt_dataset *all, size_t count,
                              bool writable, dpt_dataset **out)
{
    dpt_dataset_memory memory = setting_memory(all, count);
    memory.writable = writable;
    return dpt_dataset_from_memory(context, &memory, out);
}

/* Samples [from, from + count) of all become [first, first + count) of the stream. */
static dpt_status put(dpt_dataset *stream, size_t first, const dpt_dataset *all, size_t from,
                      size_t count)
{
    return dpt_dataset_write(stream, first, count, image(all, from), all->labels + from, NULL);
}

static dpt_status feed_step(dpt_dataset *stream, const dpt_dataset *all, way how, size_t step)
{
    const size_t from = step * BATCH;
    switch (how) {
    case ALL_AT_ONCE: break;
    case EACH_STEP: return put(stream, 0, all, from, BATCH);
    case PIECES:
        DPT_TRY(put(stream, 10, all, from + 10, BATCH - 10));
        return put(stream, 0, all, from, 10);
    case ONE_BY_ONE:
        for (size_t i = 0; i < BATCH; i++)
            DPT_TRY(put(stream, i, all, from + i, 1));
        break;
    case PARTLY_FOR_IT: /* the other half has the next batch before this step */
        return put(stream, (step + 1) % 2 * BATCH, all, from + BATCH, BATCH);
    }
    return DPT_OK;
}

typedef struct outcome {
    double losses[STEPS];
} outcome;

static void train(test *t, const setting *s, const mix *m, way how, outcome *out)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .split = dpt_split_from(m->split),
                                         .no_shuffle = true,
                                         .seed = 2};
    dpt_device_set *devices = NULL;
    dpt_dataset *stream = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics metrics = {.size = sizeof metrics};
    const size_t count = how == ALL_AT_ONCE     ? STEPS * BATCH
                         : how == PARTLY_FOR_IT ? 2 * BATCH
                                                : BATCH;
    memset(out, 0, sizeof *out);
    REQUIRE_OK(dpt_device_set_open(s->context, m->devices, &devices));
    if (CHECK_OK(make_stream(s->context, s->all, count, how != ALL_AT_ONCE, &stream)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, stream, &options, &trainer)))
        for (size_t i = 0; i < STEPS; i++) {
            CHECK_OK(feed_step(stream, s->all, how, i));
            if (CHECK_OK(dpt_trainer_step(trainer, &metrics))) out->losses[i] = metrics.loss;
        }
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(stream);
    dpt_device_set_close(devices);
}

static void check_near(test *t, const mix *m, way how, const outcome *found, const outcome *wanted)
{
    for (size_t i = 0; i < STEPS; i++)
        if (!CHECK_NEAR(found->losses[i], wanted->losses[i], 1e-3 * wanted->losses[i]))
            FAIL("%s, %s: step %zu of way %d", m->devices, m->split, i + 1, (int)how);
}

/* Losses tell what was trained on: those of other samples differ by far more. */
static void a_stream_is_the_same_training(test *t)
{
    const setting *s = t->user;
    for (size_t i = 0; i < s->mixes.n; i++) {
        const mix *m = &s->mixes.items[i];
        outcome wanted, found;
        train(t, s, m, ALL_AT_ONCE, &wanted);
        for (size_t e = 1; e < STEPS; e++)
            CHECK(fabs(wanted.losses[e] - wanted.losses[e - 1]) > 3e-3 * wanted.losses[e]);
        for (way how = EACH_STEP; how <= PARTLY_FOR_IT; how++) {
            train(t, s, m, how, &found);
            check_near(t, m, how, &found, &wanted);
        }
    }
}

/* Other data than those of training, for which a device has a copy of its own or none. */
static void evaluations_see_it(test *t)
{
    static const char *const lists[] = {"@0", "@0,cpu:threads=1", "faultstaged:threads=1"};
    const setting *s = t->user;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .lr = 0.05f, .split = {DPT_SPLIT_EQUAL, NULL}};
    for (size_t i = 0; i < (testing_cpu() ? 3 : 2); i++) {
        dpt_device_set *devices = NULL;
        dpt_dataset *written = NULL, *fixed = NULL;
        dpt_trainer *trainer = NULL;
        dpt_evaluation a = {.size = sizeof a}, b = {.size = sizeof b};
        const char *list = tested_devices(lists[i]);
        if (CHECK_OK(dpt_device_set_open(s->context, list, &devices)) &&
            CHECK_OK(make_stream(s->context, s->all, BATCH, true, &written)) &&
            CHECK_OK(make_stream(s->context, s->all, BATCH, false, &fixed)) &&
            CHECK_OK(dpt_trainer_create(devices, s->model, s->all, &options, &trainer))) {
            for (size_t round = 0; round < 3; round++) {
                CHECK_OK(put(written, 0, s->all, round * BATCH, BATCH));
                CHECK_OK(dpt_trainer_evaluate(trainer, written, &b));
                CHECK(fabs(a.loss - b.loss) > 1e-4 * b.loss);
                a = b;
            }
            CHECK_OK(put(written, 0, s->all, 0, BATCH));
            CHECK_OK(dpt_trainer_evaluate(trainer, written, &a));
            CHECK_OK(dpt_trainer_evaluate(trainer, fixed, &b));
            CHECK_NEAR(a.loss, b.loss, 0);
        }
        dpt_trainer_destroy(trainer);
        dpt_dataset_destroy(fixed);
        dpt_dataset_destroy(written);
        dpt_device_set_close(devices);
    }
}

/* Data that the device has no room for, and a part of a data set. */
static void wherever_they_are(test *t)
{
    const setting *s = t->user;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = 8,
                                         .lr = 0.05f,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .no_shuffle = true};
    static const char *const lists[] = {"faultstaged:threads=1",
                                        "faultstaged:threads=1:memory=260000"};
    double losses[2][2] = {{0}};
    if (!testing_cpu()) SKIP("one of the tests' devices has a memory of a given size");
    for (size_t i = 0; i < 2; i++) {
        dpt_device_set *devices = NULL;
        dpt_dataset *whole = NULL, *first = NULL, *second = NULL;
        dpt_trainer *trainer = NULL;
        dpt_device_plan plan = {.size = sizeof plan};
        dpt_step_metrics m = {.size = sizeof m};
        if (CHECK_OK(dpt_device_set_open(s->context, lists[i], &devices)) &&
            CHECK_OK(make_stream(s->context, s->all, s->all->count, true, &whole)) &&
            CHECK_OK(dpt_dataset_split(whole, 0.5, 1, &first, &second)) &&
            CHECK_OK(dpt_trainer_create(devices, s->model, first, &options, &trainer))) {
            CHECK_OK(dpt_trainer_plan(trainer, 0, &plan));
            CHECK(plan.streamed == (i == 1));
            for (size_t k = 0; k < 2; k++) {
                CHECK_OK(dpt_trainer_step(trainer, &m));
                losses[i][k] = m.loss;
                CHECK_OK(put(whole, 0, s->all, BATCH, whole->count - BATCH));
            }
            CHECK(dpt_dataset_write(first, 0, 1, image(s->all, 0), s->all->labels, NULL) ==
                  DPT_E_INVALID);
        }
        dpt_trainer_destroy(trainer);
        dpt_dataset_destroy(second);
        dpt_dataset_destroy(first);
        dpt_dataset_destroy(whole);
        dpt_device_set_close(devices);
    }
    CHECK_NEAR(losses[0][0], losses[1][0], 0);
    CHECK_NEAR(losses[0][1], losses[1][1], 0);
}

static void refuses(test *t, dpt_dataset *data, size_t first, size_t count, const void *images,
                    const void *labels, const float *targets, dpt_status status, const char *words)
{
    const setting *s = t->user;
    if (!CHECK(dpt_dataset_write(data, first, count, images, labels, targets) == status) ||
        !CHECK(strstr(dpt_error_message(s->context), words) != NULL))
        FAIL("not '%s': %s", words, dpt_error_message(s->context));
}

static void what_is_wrong_changes_nothing(test *t)
{
    static const int32_t beyond[] = {0, FLAT_CLASSES}, below[] = {-1};
    static const float targets[2 * FLAT_CLASSES];
    const setting *s = t->user;
    const dpt_dataset *all = s->all;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .lr = 0.05f, .no_shuffle = true};
    dpt_device_set *devices = NULL;
    dpt_dataset *stream = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    REQUIRE_OK(make_stream(s->context, all, BATCH, true, &stream));
    refuses(t, s->all, 0, 1, image(all, 0), all->labels, NULL, DPT_E_INVALID, "made writable");
    refuses(t, stream, BATCH, 1, image(all, 0), all->labels, NULL, DPT_E_INVALID, "which has 29");
    refuses(t, stream, 3, SIZE_MAX, image(all, 0), all->labels, NULL, DPT_E_INVALID, "not in");
    refuses(t, stream, 0, 1, NULL, all->labels, NULL, DPT_E_INVALID, "have images");
    refuses(t, stream, 0, 1, image(all, 0), NULL, NULL, DPT_E_INVALID, "made of: labels");
    refuses(t, stream, 0, 1, image(all, 0), all->labels, targets, DPT_E_INVALID, "made of: labels");
    refuses(t, stream, 0, 2, image(all, 9), beyond, NULL, DPT_E_INVALID, "label 5 of sample 1");
    refuses(t, stream, 0, 1, image(all, 9), below, NULL, DPT_E_INVALID, "label -1 of sample 0");
    CHECK_OK(dpt_dataset_write(stream, BATCH, 0, NULL, NULL, NULL));
    if (CHECK_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, stream, &options, &trainer))) {
        CHECK_OK(dpt_trainer_submit(trainer));
        CHECK_OK(dpt_trainer_submit(trainer));
        refuses(t, stream, 0, 1, image(all, 9), all->labels, NULL, DPT_E_STATE, "in flight");
        CHECK_OK(dpt_trainer_collect(trainer, &m));
        refuses(t, stream, 0, 1, image(all, 9), all->labels, NULL, DPT_E_STATE, "in flight");
        CHECK_OK(dpt_trainer_collect(trainer, &m));
        CHECK(memcmp(stream->images, all->images, BATCH * FLAT_PIXELS) == 0);
        CHECK(memcmp(stream->labels, all->labels, BATCH * sizeof *all->labels) == 0);
        CHECK_OK(put(stream, 0, all, 9, 1));
        CHECK_OK(dpt_trainer_submit(trainer));
    }
    dpt_trainer_destroy(trainer); /* with one in flight */
    CHECK_OK(put(stream, 0, all, 9, 1));
    dpt_dataset_destroy(stream);
    dpt_device_set_close(devices);
}

/* A state is of a stream, whatever is in it; what was fixed is still compared. */
static void a_state_is_gone_on_with(test *t)
{
    const setting *s = t->user;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .lr = 0.05f, .split = {DPT_SPLIT_EQUAL, NULL}};
    for (size_t i = 0; i < 2; i++) {
        dpt_device_set *devices = NULL;
        dpt_dataset *data = NULL;
        dpt_trainer *trainer = NULL;
        dpt_step_metrics m = {.size = sizeof m};
        const bool writable = i == 0;
        if (CHECK_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices)) &&
            CHECK_OK(make_stream(s->context, s->all, BATCH, writable, &data)) &&
            CHECK_OK(dpt_trainer_create(devices, s->model, data, &options, &trainer))) {
            CHECK_OK(dpt_trainer_step(trainer, &m));
            if (writable) {
                CHECK_OK(dpt_trainer_save_state(trainer, "stream.state"));
                CHECK_OK(put(data, 0, s->all, BATCH, BATCH));
                CHECK_OK(dpt_trainer_step(trainer, &m));
                CHECK_OK(dpt_trainer_load_state(trainer, "stream.state"));
                CHECK_SIZE(dpt_trainer_steps(trainer), 1);
            } else {
                CHECK(dpt_trainer_load_state(trainer, "stream.state") == DPT_E_INVALID);
                CHECK(strstr(dpt_error_message(s->context), "another dataset") != NULL);
            }
        }
        dpt_trainer_destroy(trainer);
        dpt_dataset_destroy(data);
        dpt_device_set_close(devices);
    }
}

/* In dpt_fit a program writes behind an epoch, which may be of one batch, and no sooner. */
typedef struct listener {
    test *t;
    dpt_dataset *stream;
    const dpt_dataset *all;
    size_t n_steps, n_refused;
    double losses[STEPS];
} listener;

static int write_next(const dpt_fit_progress *progress, void *user)
{
    listener *l = user;
    test *t = l->t;
    if (progress->step) {
        l->losses[l->n_steps++] = progress->step->loss;
        const dpt_status status = put(l->stream, 0, l->all, 0, 1);
        l->n_refused += status == DPT_E_STATE;
    }
    if (progress->epoch && l->n_steps < STEPS)
        CHECK_OK(put(l->stream, 0, l->all, l->n_steps * BATCH, l->stream->count));
    return 0;
}

/* Epochs of n batches. */
static void fit(test *t, const setting *s, size_t n, listener *out)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .no_shuffle = true,
                                         .seed = 2};
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    dpt_fit_result result = {.size = sizeof result};
    *out = (listener){.t = t, .all = s->all};
    const dpt_fit_options fitting = {
        .size = sizeof fitting, .max_steps = STEPS, .progress = write_next, .user = out};
    if (CHECK_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices)) &&
        CHECK_OK(make_stream(s->context, s->all, n * BATCH, true, &out->stream)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, out->stream, &options, &trainer)))
        CHECK_OK(dpt_fit(trainer, &fitting, &result));
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(out->stream);
    dpt_device_set_close(devices);
}

static void in_a_loop_of_ours(test *t)
{
    const setting *s = t->user;
    const mix alone = {tested_devices("@0"), "equal"};
    outcome wanted;
    listener one, three;
    train(t, s, &alone, ALL_AT_ONCE, &wanted);
    fit(t, s, 1, &one);
    CHECK_SIZE(one.n_steps, STEPS);
    for (size_t i = 0; i < STEPS; i++)
        CHECK_NEAR(one.losses[i], wanted.losses[i], 1e-3 * wanted.losses[i]);
    fit(t, s, 3, &three);
    CHECK_SIZE(three.n_steps, STEPS);
    CHECK(three.n_refused > 0);
    for (size_t i = 0; i < STEPS; i++)
        CHECK_NEAR(three.losses[i], wanted.losses[i], 1e-3 * wanted.losses[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a stream is the same training", a_stream_is_the_same_training},
        {"evaluations see it", evaluations_see_it},
        {"wherever they are", wherever_they_are},
        {"what is wrong changes nothing", what_is_wrong_changes_nothing},
        {"a state is gone on with", a_state_is_gone_on_with},
        {"in a loop of ours", in_a_loop_of_ours},
    };
    const setting_plan plan = {
        .cases = cases,
        .n_cases = sizeof cases / sizeof *cases,
        .n_samples = (STEPS + 1) * BATCH,
        .cpu_mixes = cpu_mixes,
        .n_cpu_mixes = sizeof cpu_mixes / sizeof *cpu_mixes,
    };
    return setting_main(argc, argv, &plan);
}
