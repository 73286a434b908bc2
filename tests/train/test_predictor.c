/* Tests predictors: their outputs are those of dpt_trainer_predict, on every backend, with any
   split, micro-batch, kind of data and number of threads; what they refuse; how little memory they
   take; and structs of other releases. */
#include "harness.h"
#include "train/setting.h"
#include "train/support.h"

#include "context/sized.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 61, OUTPUTS = COUNT * FLAT_CLASSES, THREADS = 4 };

static const char weights_path[] = "predictor.safetensors";

static const mix cpu_mixes[] = {
    {"cpu:threads=1", NULL},
    {"cpu:threads=1,cpu:threads=1", NULL},
    {"cpu:threads=1,faultstaged:threads=1", "3:1"},
    {"faultstaged:threads=1,cpu:threads=1,faultstaged:threads=1", "2:0:2"},
};

/* What the trainer predicts for the first COUNT samples, with weights that a step has changed. */
typedef struct expected {
    float outputs[OUTPUTS];
    size_t trainer_bytes;
} expected;

static dpt_status make_data(const setting *s, bool normalised, dpt_dataset **out)
{
    dpt_dataset_memory memory = setting_memory(s->all, COUNT);
    if (!normalised) memset(memory.mean, 0, sizeof memory.mean);
    if (!normalised) memset(memory.deviation, 0, sizeof memory.deviation);
    return dpt_dataset_from_memory(s->context, &memory, out);
}

static dpt_status train(const setting *s, dpt_device_set *devices, const dpt_dataset *data,
                        expected *out)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_trainer *trainer = NULL;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = FLAT_BATCH, .lr = 0.05f, .momentum = 0.9f};
    DPT_TRY(dpt_trainer_create(devices, s->model, data, &options, &trainer));
    dpt_status status = dpt_trainer_step(trainer, &m);
    if (status == DPT_OK) status = dpt_trainer_save(trainer, weights_path);
    if (status == DPT_OK) status = dpt_trainer_predict(trainer, data, 0, COUNT, out->outputs);
    out->trainer_bytes = dpt_trainer_device_bytes(trainer, 0);
    dpt_trainer_destroy(trainer);
    return status;
}

static const expected *find_expected(test *t)
{
    static expected e;
    static bool made;
    const setting *s = t->user;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    if (made) return &e;
    made = CHECK_OK(dpt_device_set_open(s->context, "cpu:threads=1", &devices)) &&
           CHECK_OK(make_data(s, true, &data)) && CHECK_OK(train(s, devices, data, &e));
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    return &e;
}

static void check_outputs(test *t, const float *outputs, float tolerance, const char *what)
{
    const float *wanted = find_expected(t)->outputs;
    for (size_t i = 0; i < OUTPUTS; i++)
        if (!(fabsf(outputs[i] - wanted[i]) <= tolerance)) {
            FAIL("%s: output %zu is %g, not %g", what, i, (double)outputs[i], (double)wanted[i]);
            return;
        }
    CHECK(outputs[0] > 0);
}

/* ---- The same outputs ------------------------------------------------------------------------ */

static void predict_on(test *t, const mix *m, size_t micro_batch)
{
    const setting *s = t->user;
    static float first[OUTPUTS], again[OUTPUTS];
    char why[DPT_WHY_BYTES] = "";
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_predictor *p = NULL;
    const dpt_predictor_options options = {.size = sizeof options,
                                           .weights = weights_path,
                                           .micro_batch = micro_batch,
                                           .dtype = DPT_U8,
                                           .mean = {0.4f, 0.4f, 0.4f},
                                           .deviation = {0.25f, 0.25f, 0.25f},
                                           .split = dpt_split_from(m->split)};
    if (CHECK_OK(dpt_device_set_open(s->context, m->devices, &devices)) &&
        CHECK_OK(make_data(s, false, &data)) &&
        CHECK_OK(dpt_predictor_create(devices, s->model, &options, &p)) &&
        CHECK_OK(dpt_predictor_run(p, s->all->images, COUNT, first, why)) &&
        CHECK_OK(dpt_predictor_run_data(p, data, 0, COUNT, again, why))) {
        check_outputs(t, first, 2e-5f, m->devices);
        check_outputs(t, again, 2e-5f, m->devices);
        if (m->split) CHECK(memcmp(first, again, sizeof first) == 0);
        CHECK_SIZE(dpt_predictor_lost(p), 0);
    }
    dpt_predictor_destroy(p);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
}

static void is_what_the_trainer_predicts(test *t)
{
    const setting *s = t->user;
    (void)find_expected(t);
    for (size_t i = 0; i < s->mixes.n; i++)
        for (size_t j = 0; j < 2; j++)
            predict_on(t, &s->mixes.items[i], j ? 7 : 0);
}

/* A predictor on one CPU device, and the data of the setting. */
typedef struct fixture {
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_predictor *predictor;
} fixture;

static bool begin(test *t, fixture *f)
{
    const setting *s = t->user;
    *f = (fixture){.devices = NULL};
    (void)find_expected(t);
    if (!CHECK_OK(dpt_device_set_open(s->context, "cpu:threads=1", &f->devices)) ||
        !CHECK_OK(make_data(s, true, &f->data)))
        return false;
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = weights_path, .like = f->data};
    return CHECK_OK(dpt_predictor_create(f->devices, s->model, &options, &f->predictor));
}

static void end(fixture *f)
{
    dpt_predictor_destroy(f->predictor);
    dpt_dataset_destroy(f->data);
    dpt_device_set_close(f->devices);
}

static atomic_bool missing; /* sample COUNT cannot be read */

static dpt_status read_image(void *user, size_t sample, size_t epoch, void *image,
                             char why[DPT_READER_WHY_BYTES])
{
    const dpt_dataset *all = user;
    if (sample == COUNT && atomic_load(&missing)) {
        snprintf(why, DPT_READER_WHY_BYTES, "it is not there");
        return DPT_E_IO;
    }
    memcpy(image, (const uint8_t *)all->images + sample * FLAT_PIXELS, FLAT_PIXELS);
    return epoch == 0 ? DPT_OK : DPT_E_INTERNAL;
}

/* Parts of a data set, and images that are read on demand. */
static void takes_every_kind_of_data(test *t)
{
    const setting *s = t->user;
    static float outputs[OUTPUTS];
    char why[DPT_WHY_BYTES] = "";
    fixture f;
    dpt_dataset *parts[2] = {NULL, NULL}, *read = NULL;
    dpt_dataset_memory memory = setting_memory(s->all, COUNT + 1);
    memory.images = NULL;
    if (begin(t, &f) && CHECK_OK(dpt_dataset_split(f.data, 0.5, 1, &parts[0], &parts[1]))) {
        const dpt_dataset *part = parts[1];
        CHECK_OK(dpt_predictor_run_data(f.predictor, part, 1, part->count - 1, outputs, why));
        for (size_t i = 1; i < part->count; i++)
            CHECK(memcmp(outputs + (i - 1) * FLAT_CLASSES,
                         find_expected(t)->outputs + part->samples[i] * FLAT_CLASSES,
                         FLAT_CLASSES * sizeof *outputs) == 0);
        const dpt_dataset_reader reader = {.size = sizeof reader,
                                           .read = read_image,
                                           .user = (void *)(uintptr_t)s->all,
                                           .n_threads = 2};
        if (CHECK_OK(dpt_dataset_from_reader(s->context, &memory, &reader, &read)) &&
            CHECK_OK(dpt_predictor_run_data(f.predictor, read, 0, COUNT, outputs, why)))
            check_outputs(t, outputs, 0, "read on demand");
        atomic_store(&missing, true);
        CHECK_STATUS(dpt_predictor_run_data(f.predictor, read, COUNT, 1, outputs, why), DPT_E_IO);
        CHECK_CONTAINS(why, "it is not there");
        CHECK_SIZE(dpt_predictor_lost(f.predictor), 0);
    }
    dpt_dataset_destroy(read);
    dpt_dataset_destroy(parts[1]);
    dpt_dataset_destroy(parts[0]);
    end(&f);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct caller {
    dpt_predictor *predictor;
    const void *samples;
    dpt_status status;
    float outputs[OUTPUTS];
} caller;

static void *call(void *argument)
{
    caller *c = argument;
    c->status = DPT_OK;
    for (size_t i = 0; i < 5 && c->status == DPT_OK; i++)
        c->status = dpt_predictor_run(c->predictor, c->samples, COUNT, c->outputs, NULL);
    return NULL;
}

/* Threads share one predictor, or the model and the devices with a predictor each. */
static void serves_threads(test *t)
{
    const setting *s = t->user;
    static caller callers[THREADS];
    pthread_t threads[THREADS];
    fixture f;
    dpt_predictor *own[THREADS] = {NULL};
    if (begin(t, &f)) {
        const dpt_predictor_options options = {
            .size = sizeof options, .weights = weights_path, .like = f.data};
        for (size_t i = 0; i < THREADS; i++) {
            if (i % 2) CHECK_OK(dpt_predictor_create(f.devices, s->model, &options, &own[i]));
            callers[i] =
                (caller){.predictor = own[i] ? own[i] : f.predictor, .samples = s->all->images};
        }
        for (size_t i = 0; i < THREADS; i++)
            REQUIRE(pthread_create(&threads[i], NULL, call, &callers[i]) == 0);
        for (size_t i = 0; i < THREADS; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
        for (size_t i = 0; i < THREADS; i++) {
            CHECK_STATUS(callers[i].status, DPT_OK);
            check_outputs(t, callers[i].outputs, 0, "a thread");
        }
    }
    for (size_t i = 0; i < THREADS; i++)
        dpt_predictor_destroy(own[i]);
    end(&f);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void takes_less_memory_than_a_trainer(test *t)
{
    const setting *s = t->user;
    fixture f;
    if (begin(t, &f)) {
        dpt_predictor *same = NULL;
        const dpt_predictor_options options = {.size = sizeof options,
                                               .weights = weights_path,
                                               .micro_batch = FLAT_BATCH,
                                               .like = f.data};
        CHECK_OK(dpt_predictor_create(f.devices, s->model, &options, &same));
        dpt_predictor_device_info info = {.size = sizeof info};
        CHECK_OK(dpt_predictor_device(same, 0, &info));
        const size_t n = info.bytes;
        CHECK(n >= s->model->flat_size * sizeof(float));
        CHECK(2 * n < find_expected(t)->trainer_bytes);
        CHECK_TEXT(info.id, "cpu:threads=1");
        CHECK(!info.lost && !info.message);
        CHECK_STATUS(dpt_predictor_device(same, 1, &info), DPT_E_INVALID);
        info.size = 0;
        CHECK_STATUS(dpt_predictor_device(same, 0, &info), DPT_E_INVALID);
        dpt_predictor_destroy(same);
    }
    end(&f);
}

/* ---- Options and arguments ------------------------------------------------------------------- */

/* Creating a predictor with these options fails with a message that contains `words`. */
static void refused(test *t, const fixture *f, const dpt_predictor_options *options,
                    const char *words)
{
    const setting *s = t->user;
    dpt_predictor *p = NULL;
    CHECK_STATUS(dpt_predictor_create(f->devices, s->model, options, &p), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), words);
    CHECK(!p);
}

static void refuses_bad_options(test *t)
{
    fixture f;
    if (begin(t, &f)) {
        const dpt_predictor_options good = {
            .size = sizeof good, .weights = weights_path, .like = f.data};
        dpt_predictor_options o = good;
        refused(t, &f, NULL, "has no weights yet");
        o.size = 0;
        refused(t, &f, &o, "set it to sizeof(dpt_predictor_options)");
        o = good;
        o.micro_batch = SIZE_MAX;
        refused(t, &f, &o, "micro_batch");
        o = good;
        o.split = dpt_split_from("1:2");
        refused(t, &f, &o, "1:2");
        o = good;
        o.device_timeout = NAN;
        refused(t, &f, &o, "device_timeout");
        o = (dpt_predictor_options){.size = sizeof o, .weights = weights_path, .dtype = DPT_I32};
        refused(t, &f, &o, "does not read ids");
        o.dtype = DPT_U8;
        o.deviation[0] = -1;
        refused(t, &f, &o, "deviation");
    }
    end(&f);
}

static void refuses_bad_arguments(test *t)
{
    const setting *s = t->user;
    float outputs[FLAT_CLASSES];
    char why[DPT_WHY_BYTES];
    fixture f;
    if (begin(t, &f)) {
        dpt_predictor *p = f.predictor;
        const void *images = s->all->images;
        CHECK_STATUS(dpt_predictor_run(NULL, images, 1, outputs, why), DPT_E_INVALID);
        CHECK_CONTAINS(why, "predictor");
        CHECK_STATUS(dpt_predictor_run(p, NULL, 1, outputs, why), DPT_E_INVALID);
        CHECK_CONTAINS(why, "samples");
        CHECK_STATUS(dpt_predictor_run(p, images, 1, NULL, why), DPT_E_INVALID);
        CHECK_CONTAINS(why, "outputs");
        CHECK_STATUS(dpt_predictor_run(p, images, SIZE_MAX, outputs, NULL), DPT_E_INVALID);
        CHECK_STATUS(dpt_predictor_run_data(p, NULL, 0, 1, outputs, why), DPT_E_INVALID);
        CHECK_STATUS(dpt_predictor_run_data(p, f.data, COUNT, 1, outputs, why), DPT_E_INVALID);
        CHECK_CONTAINS(why, "61");
        CHECK_OK(dpt_predictor_run(p, NULL, 0, NULL, why));
    }
    end(&f);
}

/* A program of a release with fewer fields, or with more. */
static void takes_structs_of_other_releases(test *t)
{
    const setting *s = t->user;
    struct {
        dpt_predictor_options known;
        size_t later[2];
    } longer;
    fixture f;
    if (begin(t, &f)) {
        dpt_predictor *p = NULL;
        memset(&longer, 0, sizeof longer);
        longer.known =
            (dpt_predictor_options){.size = sizeof longer, .weights = weights_path, .like = f.data};
        CHECK_OK(dpt_predictor_create(f.devices, s->model, &longer.known, &p));
        dpt_predictor_destroy(p);
        longer.later[1] = 1;
        refused(t, &f, &longer.known, "a later release");
        /* A shorter struct's unknown fields are not read: this split would be refused. */
        dpt_predictor_options shorter = longer.known;
        shorter.size = offsetof(dpt_predictor_options, split);
        shorter.split = dpt_split_from("1:2");
        CHECK_OK(dpt_predictor_create(f.devices, s->model, &shorter, &p));
        dpt_predictor_destroy(p);
        /* A shorter result: what lies behind it is not written. */
        dpt_predictor_device_info info = {.size = offsetof(dpt_predictor_device_info, lost),
                                          .message = "untouched"};
        CHECK_OK(dpt_predictor_device(f.predictor, 0, &info));
        CHECK_TEXT(info.message, "untouched");
        CHECK(info.bytes > 0);
        CHECK_SIZE(info.size, offsetof(dpt_predictor_device_info, lost));
    }
    end(&f);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"is_what_the_trainer_predicts", is_what_the_trainer_predicts},
        {"takes_every_kind_of_data", takes_every_kind_of_data},
        {"serves_threads", serves_threads},
        {"takes_less_memory_than_a_trainer", takes_less_memory_than_a_trainer},
        {"refuses_bad_options", refuses_bad_options},
        {"refuses_bad_arguments", refuses_bad_arguments},
        {"takes_structs_of_other_releases", takes_structs_of_other_releases},
    };
    const setting_plan plan = {.cases = cases,
                               .n_cases = sizeof cases / sizeof *cases,
                               .n_samples = FLAT_COUNT,
                               .cpu_mixes = cpu_mixes,
                               .n_cpu_mixes = sizeof cpu_mixes / sizeof *cpu_mixes};
    return setting_main(argc, argv, &plan);
}
