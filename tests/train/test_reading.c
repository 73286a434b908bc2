/* Tests images that are read on demand: training has the same bits as with images in memory, on
   every backend and in several processes; and images that cannot be read. */
#include "harness.h"
#include "train/feeding/batch_reader.h"
#include "train/processes.h"
#include "train/replicas/state.h"
#include "train/setting.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    COUNT = 3 * FLAT_BATCH + 11,
    EPOCHS = 3,
    STEPS = EPOCHS * COUNT,
    EPOCHS_COUNTED = 4,
    MOST_VALUES = 1 << 14
};

/* The program that reads, of images that lie in memory. */
typedef struct library {
    const dpt_dataset *all;
    long wait_us;          /* for each */
    atomic_size_t n_reads; /* so far, */
    atomic_size_t of_epoch[EPOCHS_COUNTED];
    atomic_size_t bad; /* the sample that cannot be read; SIZE_MAX: all can */
    dpt_status status; /* what comes of it, */
    const char *why;   /* or NULL */
    /* Sample 7 cannot be read from its evaluation in that epoch on; 0: it can. */
    size_t bad_from_epoch;
    atomic_size_t n_evaluated;
} library;

static const mix cpu_mixes[] = {
    {"cpu:threads=1", "equal"},
    {"cpu:threads=1,cpu:threads=1", "3:1"},
    {"faultstaged:threads=1", "equal"},
    {"faultstaged:threads=1,cpu:threads=1,faultstaged:threads=1", "2:0:2"},
};

static library library_of(const dpt_dataset *all)
{
    return (library){.all = all, .bad = SIZE_MAX};
}

static dpt_status read_image(void *user, size_t sample, size_t epoch, void *image,
                             char why[DPT_READER_WHY_BYTES])
{
    library *l = user;
    if (epoch < EPOCHS_COUNTED) atomic_fetch_add(&l->of_epoch[epoch], 1);
    if (l->wait_us > 0)
        nanosleep(&(struct timespec){.tv_sec = l->wait_us / 1000000,
                                     .tv_nsec = l->wait_us % 1000000 * 1000},
                  NULL);
    atomic_fetch_add(&l->n_reads, 1);
    if (sample == 7 && epoch == 0 && l->bad_from_epoch > 0 &&
        atomic_fetch_add(&l->n_evaluated, 1) + 1 >= l->bad_from_epoch)
        return l->status;
    if (sample == atomic_load(&l->bad)) {
        if (l->why) snprintf(why, DPT_READER_WHY_BYTES, "%s", l->why);
        return l->status;
    }
    memcpy(image, (const uint8_t *)l->all->images + sample * FLAT_PIXELS, FLAT_PIXELS);
    return DPT_OK;
}

/* The data in memory, or read where there is a library. */
static dpt_status open_data(dpt_context *context, const dpt_dataset *all, library *l,
                            dpt_dataset **out)
{
    dpt_dataset_memory memory = setting_memory(all, COUNT);
    const dpt_dataset_reader reader = {
        .size = sizeof reader, .read = read_image, .user = l, .n_threads = 3};
    if (!l) return dpt_dataset_from_memory(context, &memory, out);
    memory.images = NULL;
    return dpt_dataset_from_reader(context, &memory, &reader, out);
}

/* ---- The same training ----------------------------------------------------------------------- */

typedef struct variant {
    size_t batch, accumulate, micro_batch;
    bool no_shuffle, in_flight;
} variant;

enum { N_PREDICTED = 9 };

typedef struct outcome {
    double losses[STEPS];
    dpt_evaluation tests[EPOCHS];
    float outputs[N_PREDICTED * FLAT_CLASSES];
    float weights[MOST_VALUES];
} outcome;

static dpt_trainer_options options_of(const char *split, const variant *v)
{
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = v->batch,
                                 .accumulate = v->accumulate,
                                 .micro_batch = v->micro_batch,
                                 .no_shuffle = v->no_shuffle,
                                 .split = dpt_split_from(split),
                                 .lr = 0.05f,
                                 .momentum = 0.9f,
                                 .seed = 2,
                                 .augment = {.crop_padding = 1, .flip = true}};
}

/* Steps until the trainer has done so many; a call that fails is made again. */
static dpt_status step_to(dpt_trainer *trainer, const variant *v, size_t steps, double *losses)
{
    dpt_step_metrics m = {.size = sizeof m};
    while (dpt_trainer_steps(trainer) < steps) {
        const size_t left = steps - dpt_trainer_steps(trainer);
        while (v->in_flight && dpt_trainer_in_flight(trainer) < (left < 2 ? left : 2))
            DPT_TRY(dpt_trainer_submit(trainer));
        DPT_TRY(v->in_flight ? dpt_trainer_collect(trainer, &m) : dpt_trainer_step(trainer, &m));
        losses[m.step - 1] = m.loss;
    }
    return DPT_OK;
}

/* Everything that reads: steps of whole epochs, evaluations of a part and predictions of the rest.
 */
static dpt_status use(dpt_trainer *trainer, const variant *v, const dpt_dataset *rest, outcome *out)
{
    const size_t step = v->batch * (v->accumulate > 1 ? v->accumulate : 1);
    const size_t steps = (trainer->data->count + step - 1) / step;
    for (size_t e = 0; e < EPOCHS; e++) {
        DPT_TRY(step_to(trainer, v, (e + 1) * steps, out->losses));
        out->tests[e].size = sizeof out->tests[e];
        DPT_TRY(dpt_trainer_evaluate(trainer, rest, &out->tests[e]));
    }
    DPT_TRY(dpt_trainer_predict(trainer, rest, 1, N_PREDICTED, out->outputs));
    if (trainer->model->flat_size > MOST_VALUES) return DPT_E_INTERNAL;
    return dpti_trainer_read(trainer, 0, DPT_PARAMETER, out->weights);
}

static dpt_status train_on(dpt_context *context, const setting *s, const mix *m, const variant *v,
                           library *l, outcome *out)
{
    const dpt_trainer_options options = options_of(m->split, v);
    dpt_device_set *devices = NULL;
    dpt_dataset *whole = NULL, *first = NULL, *rest = NULL;
    dpt_trainer *trainer = NULL;
    memset(out, 0, sizeof *out);
    dpt_status status = dpt_device_set_open(context, m->devices, &devices);
    if (status == DPT_OK) status = open_data(context, s->all, l, &whole);
    if (status == DPT_OK) status = dpt_dataset_split(whole, 0.25, 3, &first, &rest);
    if (status == DPT_OK) status = dpt_trainer_create(devices, s->model, first, &options, &trainer);
    if (status == DPT_OK) status = use(trainer, v, rest, out);
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(rest);
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(whole);
    dpt_device_set_close(devices);
    return status;
}

static const variant variants[] = {
    {.batch = FLAT_BATCH, .in_flight = true},
    {.batch = 16, .accumulate = 2},
    {.batch = 40, .micro_batch = 7, .no_shuffle = true, .in_flight = true},
    {.batch = 5, .in_flight = true},
    {.batch = 16},
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

/* Devices have their samples beside the step or in their memory: to the bit the same. */
static void check_same(test *t, const mix *m, const outcome *found, const outcome *wanted)
{
    bool same = CHECK(memcmp(found->losses, wanted->losses, sizeof found->losses) == 0);
    same = CHECK(memcmp(found->weights, wanted->weights, sizeof found->weights) == 0) && same;
    same = CHECK(memcmp(found->outputs, wanted->outputs, sizeof found->outputs) == 0) && same;
    for (size_t e = 0; e < EPOCHS; e++) {
        same = CHECK(found->tests[e].hits == wanted->tests[e].hits) && same;
        same = CHECK_NEAR(found->tests[e].loss, wanted->tests[e].loss, 0) && same;
    }
    if (!same) FAIL("%s, %s", m->devices, m->split);
}

static void the_same_training(test *t)
{
    const setting *s = t->user;
    static outcome wanted, found;
    for (size_t i = 0; i < s->mixes.n; i++)
        for (size_t k = 0; k < N_VARIANTS; k++) {
            const mix *m = &s->mixes.items[i];
            library l = library_of(s->all);
            if (!testing_cpu() && (i + k) % 2 > 0) continue; /* others take their time */
            CHECK_OK(train_on(s->context, s, m, &variants[k], NULL, &wanted));
            CHECK_OK(train_on(s->context, s, m, &variants[k], &l, &found));
            CHECK(wanted.tests[0].loss > wanted.tests[EPOCHS - 1].loss);
            check_same(t, m, &found, &wanted);
        }
}

/* Each sample once an epoch, and few beyond the end. */
static void nothing_is_read_twice(test *t)
{
    const setting *s = t->user;
    const variant v = {.batch = 10, .in_flight = true};
    const dpt_trainer_options options = options_of("equal", &v);
    double losses[COUNT];
    library l = library_of(s->all);
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices));
    if (CHECK_OK(open_data(s->context, s->all, &l, &data)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, data, &options, &trainer))) {
        atomic_store(&l.n_reads, 0);
        CHECK_OK(step_to(trainer, &v, 25, losses)); /* two epochs and a half */
    }
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    const size_t taken = 2 * COUNT + 5 * 10, n_reads = atomic_load(&l.n_reads);
    CHECK(n_reads >= taken && n_reads <= taken + 3 * 10);
}

/* A program can change images from epoch to epoch: it is told which one is trained, also of steps
   that are read ahead, and none where it is not. */
static void tells_the_epoch(test *t)
{
    const setting *s = t->user;
    const variant v = {.batch = 10, .in_flight = true};
    const dpt_trainer_options options = options_of("equal", &v);
    double losses[COUNT];
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    library l = library_of(s->all);
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices));
    if (CHECK_OK(open_data(s->context, s->all, &l, &data)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, data, &options, &trainer))) {
        CHECK_OK(step_to(trainer, &v, 20, losses)); /* two epochs */
        CHECK_OK(dpt_trainer_evaluate(trainer, data, &evaluation));
    }
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    CHECK_SIZE(atomic_load(&l.of_epoch[1]), COUNT);
    CHECK_SIZE(atomic_load(&l.of_epoch[2]), COUNT);
    CHECK(atomic_load(&l.of_epoch[3]) <= 3 * 10);
    CHECK(atomic_load(&l.of_epoch[0]) >= COUNT + 64);
}

/* Only of pictures in folders is there more than the image. */
static void crops_of_no_picture(test *t)
{
    const setting *s = t->user;
    const variant v = {.batch = 10};
    dpt_trainer_options options = options_of("equal", &v);
    library l = library_of(s->all);
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices));
    REQUIRE_OK(open_data(s->context, s->all, &l, &data));
    options.augment.resized_crop = 0.5f;
    CHECK(dpt_trainer_create(devices, s->model, data, &options, &trainer) == DPT_E_INVALID);
    CHECK(strstr(dpt_error_message(s->context),
                 "as folder:224x224:stream; reader has images of one"));
    options.augment.resized_crop = -0.5f;
    CHECK(dpt_trainer_create(devices, s->model, data, &options, &trainer) == DPT_E_INVALID);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
}

/* A program that reads slowly sees how long its devices wait for it. */
static void tells_of_waiting(test *t)
{
    const setting *s = t->user;
    const variant v = {.batch = FLAT_BATCH};
    const dpt_trainer_options options = options_of("equal", &v);
    library l = library_of(s->all);
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    double seconds = 0, waited = 0;
    REQUIRE_OK(dpt_device_set_open(s->context, tested_devices("@0"), &devices));
    if (CHECK_OK(open_data(s->context, s->all, &l, &data)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, data, &options, &trainer))) {
        l.wait_us = 20000; /* 29 of them by three threads and the caller: 140 ms at least */
        for (size_t i = 0; i < 5; i++) {
            CHECK_OK(dpt_trainer_step(trainer, &m));
            seconds += m.seconds;
            waited += m.data_seconds;
        }
        CHECK(waited > 0.3 && seconds >= waited);
    }
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
}

/* ---- What cannot be read --------------------------------------------------------------------- */

static void check_told(test *t, dpt_context *context, dpt_status status, dpt_status expected,
                       const char *words)
{
    if (!CHECK(status == expected) || !CHECK(strstr(dpt_error_message(context), words) != NULL))
        FAIL("%d, not '%s': %s", (int)status, words, dpt_error_message(context));
}

/* In a step: nothing has changed, and when it can be read again training is what it would be. */
static void goes_on_after_a_failure(test *t)
{
    const setting *s = t->user;
    static outcome wanted, found;
    for (size_t i = 0; i < s->mixes.n; i++)
        for (size_t k = 0; k < 2; k++) {
            const mix *m = &s->mixes.items[i];
            const variant v = {.batch = 16, .in_flight = k == 1};
            const dpt_trainer_options options = options_of(m->split, &v);
            library l = library_of(s->all);
            dpt_device_set *devices = NULL;
            dpt_dataset *whole = NULL, *first = NULL, *rest = NULL;
            dpt_trainer *trainer = NULL;
            l.status = DPT_E_FORMAT;
            l.why = "eaten by mice";
            CHECK_OK(train_on(s->context, s, m, &v, NULL, &wanted));
            memset(&found, 0, sizeof found);
            if (CHECK_OK(dpt_device_set_open(s->context, m->devices, &devices)) &&
                CHECK_OK(open_data(s->context, s->all, &l, &whole)) &&
                CHECK_OK(dpt_dataset_split(whole, 0.25, 3, &first, &rest)) &&
                CHECK_OK(dpt_trainer_create(devices, s->model, first, &options, &trainer))) {
                char words[64];
                const size_t bad = first->samples[first->count / 2];
                snprintf(words, sizeof words, "sample %zu: eaten by mice", bad);
                atomic_store(&l.bad, bad);
                for (size_t tries = 0; tries < 3; tries++)
                    check_told(t, s->context, step_to(trainer, &v, 5, found.losses), DPT_E_FORMAT,
                               words);
                CHECK(dpt_trainer_steps(trainer) < 5);
                atomic_store(&l.bad, rest->samples[rest->count - 1]);
                snprintf(words, sizeof words, "sample %zu: eaten by mice",
                         (size_t)rest->samples[rest->count - 1]);
                CHECK_OK(step_to(trainer, &v, 5, found.losses));
                found.tests[0].size = sizeof found.tests[0];
                check_told(t, s->context, dpt_trainer_evaluate(trainer, rest, &found.tests[0]),
                           DPT_E_FORMAT, words);
                atomic_store(&l.bad, SIZE_MAX);
                CHECK_OK(use(trainer, &v, rest, &found));
                CHECK(memcmp(found.weights, wanted.weights, sizeof found.weights) == 0);
                CHECK(memcmp(found.losses, wanted.losses, sizeof found.losses) == 0);
            }
            dpt_trainer_destroy(trainer);
            dpt_dataset_destroy(rest);
            dpt_dataset_destroy(first);
            dpt_dataset_destroy(whole);
            dpt_device_set_close(devices);
        }
}

/* In dpt_fit: the checkpoint has all steps before, and a training that is resumed goes on. */
static dpt_status fit(const setting *s, library *l, const dpt_fit_options *how, float *weights)
{
    const variant v = {.batch = 16};
    const dpt_trainer_options options = options_of("equal", &v);
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_fit_result result = {.size = sizeof result};
    dpt_status status = dpt_device_set_open(s->context, tested_devices("@0"), &devices);
    if (status == DPT_OK) status = open_data(s->context, s->all, l, &data);
    if (status == DPT_OK) status = dpt_trainer_create(devices, s->model, data, &options, &trainer);
    if (status == DPT_OK && l->status != DPT_OK) atomic_store(&l->bad, 40);
    if (status == DPT_OK) status = dpt_fit(trainer, how, &result);
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_PARAMETER, weights);
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    return status;
}

static void resumes_after_a_failure(test *t)
{
    const setting *s = t->user;
    static float wanted[MOST_VALUES], found[MOST_VALUES];
    library l = library_of(s->all);
    CHECK_OK(fit(s, &l, &(dpt_fit_options){.size = sizeof(dpt_fit_options), .epochs = 2}, wanted));
    l.status = DPT_E_UNSUPPORTED; /* what is no DPT_E_FORMAT is told as DPT_E_IO */
    const dpt_fit_options kept = {.size = sizeof kept, .epochs = 2, .checkpoint = "unread"},
                          resumed = {.size = sizeof resumed,
                                     .epochs = 2,
                                     .checkpoint = "unread",
                                     .resume = true};
    check_told(t, s->context, fit(s, &l, &kept, found), DPT_E_IO,
               "sample 40: the program cannot read it");
    CHECK(forget_checkpoints(t, "unread", SIZE_MAX) > 0);
    l = library_of(s->all);
    CHECK_OK(fit(s, &l, &resumed, found));
    CHECK(memcmp(found, wanted, sizeof found) == 0);
}

/* In an evaluation of dpt_fit: the epoch's steps are kept, and whoever resumes ends the epoch
 * first. */
typedef struct fitted {
    float weights[MOST_VALUES];
    dpt_fit_result result;
    char message[256];
} fitted;

static dpt_status fit_tested(const setting *s, library *l, size_t bad_from_epoch, bool resume,
                             fitted *out)
{
    const variant v = {.batch = 16};
    const dpt_trainer_options options = options_of("equal", &v);
    dpt_device_set *devices = NULL;
    dpt_dataset *whole = NULL, *first = NULL, *rest = NULL, *held_out = NULL;
    dpt_trainer *trainer = NULL;
    l->bad_from_epoch = 0;
    dpt_status status = dpt_device_set_open(s->context, tested_devices("@0"), &devices);
    if (status == DPT_OK) status = open_data(s->context, s->all, NULL, &whole);
    if (status == DPT_OK) status = dpt_dataset_split(whole, 0.25, 3, &first, &rest);
    if (status == DPT_OK) status = open_data(s->context, s->all, l, &held_out);
    if (status == DPT_OK) status = dpt_trainer_create(devices, s->model, first, &options, &trainer);
    const dpt_fit_options how = {.size = sizeof how,
                                 .epochs = 4,
                                 .validation = rest,
                                 .test = held_out,
                                 .patience = 3,
                                 .checkpoint = bad_from_epoch > 0 || resume ? "untested" : NULL,
                                 .checkpoint_every = {.steps = 1000},
                                 .resume = resume};
    l->bad_from_epoch = bad_from_epoch;
    out->result.size = sizeof out->result;
    if (status == DPT_OK) status = dpt_fit(trainer, &how, &out->result);
    snprintf(out->message, sizeof out->message, "%s", dpt_error_message(s->context));
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_PARAMETER, out->weights);
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(held_out);
    dpt_dataset_destroy(rest);
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(whole);
    dpt_device_set_close(devices);
    return status;
}

static void resumes_in_front_of_a_test(test *t)
{
    const setting *s = t->user;
    static fitted wanted, found;
    for (size_t epoch = 1; epoch <= 4; epoch += 3) { /* the first and the last one */
        library l = library_of(s->all);
        wanted = found = (fitted){.weights = {0}};
        CHECK_OK(fit_tested(s, &l, 0, false, &wanted));
        l.status = DPT_E_FORMAT;
        CHECK(fit_tested(s, &l, epoch, false, &found) == DPT_E_FORMAT);
        CHECK(strstr(found.message, "sample 7: the program cannot read it") != NULL);
        if (!CHECK_OK(fit_tested(s, &l, 0, true, &found))) FAIL("%s", found.message);
        CHECK(memcmp(found.weights, wanted.weights, sizeof found.weights) == 0);
        const dpt_fit_result *a = &found.result, *b = &wanted.result;
        CHECK(a->steps == b->steps && a->epochs == b->epochs && a->best_epoch == b->best_epoch);
        CHECK_NEAR(a->train_loss, b->train_loss, 0);
        CHECK_NEAR(a->test_loss, b->test_loss, 0);
        CHECK_NEAR(a->best_validation_loss, b->best_validation_loss, 0);
        CHECK(a->no_patience == b->no_patience);
        (void)forget_checkpoints(t, "untested", 0);
        (void)remove("untested/best.safetensors");
    }
}

static void refuses(test *t, const dpt_dataset_memory *memory, const dpt_dataset_reader *reader,
                    dpt_status status, const char *words)
{
    const setting *s = t->user;
    dpt_dataset *data = NULL;
    check_told(t, s->context, dpt_dataset_from_reader(s->context, memory, reader, &data), status,
               words);
    CHECK(data == NULL);
}

static void what_is_no_reader(test *t)
{
    const setting *s = t->user;
    library l = library_of(s->all);
    dpt_dataset_reader reader = {.size = sizeof reader, .read = read_image, .user = &l};
    dpt_dataset_memory memory = {.size = sizeof memory,
                                 .count = 9,
                                 .height = FLAT_SIDE,
                                 .width = FLAT_SIDE,
                                 .channels = FLAT_CHANNELS,
                                 .outputs = 5,
                                 .dtype = DPT_U8,
                                 .labels = s->all->labels,
                                 .label_dtype = DPT_I32};
    dpt_dataset *data = NULL;
    refuses(t, NULL, &reader, DPT_E_INVALID, "needs sizes");
    refuses(t, &memory, NULL, DPT_E_INVALID, "needs who reads its images");
    memory.images = s->all->images;
    refuses(t, &memory, &reader, DPT_E_INVALID, "leave images and writable out");
    memory.images = NULL;
    memory.count = 0;
    refuses(t, &memory, &reader, DPT_E_INVALID, "are at least 1");
    memory.count = 9;
    l.status = DPT_E_INVALID;
    l.bad = 8;
    l.why = "it rains";
    refuses(t, &memory, &reader, DPT_E_IO, "sample 8: it rains");
    l.bad = SIZE_MAX;
    REQUIRE_OK(dpt_dataset_from_reader(s->context, &memory, &reader, &data));
    CHECK(dpt_dataset_write(data, 0, 1, s->all->images, s->all->labels, NULL) == DPT_E_INVALID);
    dpt_dataset_destroy(data);
}

/* ---- Several processes ----------------------------------------------------------------------- */

enum { MOST_PROCESSES = 2 };

typedef struct company {
    const setting *s;
    const char *devices; /* as in processes.h */
    const variant *v;
    bool reads, first_does_not; /* it has the images in memory */
    bool other_mean;            /* in the last one */
    bool fails;                 /* until a failure was told, */
    size_t bad;                 /* of this sample */
    outcome outcomes[MOST_PROCESSES];
    dpt_status statuses[MOST_PROCESSES], evaluated[MOST_PROCESSES];
    char messages[MOST_PROCESSES][512];
    size_t n_reads[MOST_PROCESSES], n_unread[MOST_PROCESSES];
} company;

/* Devices of this process that did not compute the step that failed, whose images there are not. */
static size_t count_unread(const dpt_trainer *trainer)
{
    const dpti_in_flight_step *inflight =
        &trainer->progress.slots[trainer->progress.done.step % DPTI_STEP_SLOTS];
    size_t n = 0;
    for (size_t i = 0; i < trainer->n_workers; i++)
        n += strcmp(inflight->outcomes[trainer->first_device + i].flaw, DPTI_FLAW_UNREAD) == 0;
    return n;
}

static dpt_status train_with_others(dpt_context *context, company *c, size_t rank)
{
    const dpt_trainer_options options = options_of("equal", c->v);
    char list[256];
    library l = library_of(c->s->all);
    dpt_device_set *devices = NULL;
    dpt_dataset *whole = NULL, *first = NULL, *rest = NULL;
    dpt_trainer *trainer = NULL;
    const bool reads = c->reads && !(c->first_does_not && rank == 0);
    l.status = DPT_E_FORMAT;
    stand_ins_devices(c->devices, rank, list);
    dpt_status status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = open_data(context, c->s->all, reads ? &l : NULL, &whole);
    if (status == DPT_OK && c->other_mean && rank == 1)
        status = dpt_dataset_normalize(whole, (float[4]){0.3f}, (float[4]){0.25f});
    if (status == DPT_OK) status = dpt_dataset_split(whole, 0.25, 3, &first, &rest);
    if (status == DPT_OK)
        status = dpt_trainer_create(devices, c->s->model, first, &options, &trainer);
    atomic_store(&l.n_reads, 0);
    if (c->fails && status == DPT_OK) {
        const size_t bad = first->samples[c->v->no_shuffle ? 0 : first->count / 2];
        if (rank == 0) c->bad = bad;
        atomic_store(&l.bad, bad);
        c->statuses[rank] = step_to(trainer, c->v, STEPS, c->outcomes[rank].losses);
        snprintf(c->messages[rank], sizeof c->messages[rank], "%s", dpt_error_message(context));
        c->n_unread[rank] = count_unread(trainer);
        atomic_store(&l.bad, rest->samples[0]);
        status = step_to(trainer, c->v, 5, c->outcomes[rank].losses);
        c->outcomes[rank].tests[0].size = sizeof c->outcomes[rank].tests[0];
        if (status == DPT_OK)
            c->evaluated[rank] = dpt_trainer_evaluate(trainer, rest, &c->outcomes[rank].tests[0]);
        atomic_store(&l.bad, SIZE_MAX);
    }
    if (status == DPT_OK) status = use(trainer, c->v, rest, &c->outcomes[rank]);
    c->n_reads[rank] = atomic_load(&l.n_reads);
    dpt_trainer_destroy(trainer);
    dpt_dataset_destroy(rest);
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(whole);
    dpt_device_set_close(devices);
    return status;
}

static dpt_status one_of_them(dpt_context *context, size_t rank, void *user)
{
    return train_with_others(context, user, rank);
}

/* Each reads its own devices' samples and no others, but for few beyond the end. */
static void in_processes(test *t)
{
    static company wanted, found;
    char message[512] = "";
    if (!testing_cpu()) SKIP("processes are tried with CPUs");
    for (size_t k = 0; k < N_VARIANTS; k++) {
        company c = {.s = t->user,
                     .devices = "cpu:threads=1,cpu:threads=1|cpu:threads=1",
                     .v = &variants[k]};
        wanted = found = c;
        found.reads = true;
        found.first_does_not = k == 1;
        if (!CHECK_OK(stand_ins_run(2, one_of_them, &wanted, message))) FAIL("%s", message);
        if (!CHECK_OK(stand_ins_run(2, one_of_them, &found, message))) FAIL("%s", message);
        CHECK((found.n_reads[0] == 0) == (k == 1) && found.n_reads[1] > 0);
        for (size_t r = 0; r < 2; r++) {
            const mix m = {c.devices, "equal"};
            const size_t count = COUNT - COUNT / 4, step = c.v->batch * 2;
            check_same(t, &m, &found.outcomes[r], &wanted.outcomes[r]);
            CHECK(found.n_reads[r] <=
                  (EPOCHS * count + 3 * step + EPOCHS * COUNT / 4) * (2 - r) / 3 + 2 * COUNT / 4);
        }
    }
}

/* Also what is not read is compared. */
static void other_figures(test *t)
{
    static company c;
    char message[512] = "";
    if (!testing_cpu()) SKIP("processes are tried with CPUs");
    c = (company){.s = t->user,
                  .devices = "cpu:threads=1|cpu:threads=1",
                  .v = &variants[0],
                  .reads = true,
                  .other_mean = true};
    CHECK(stand_ins_run(2, one_of_them, &c, message) == DPT_E_INVALID);
    if (!CHECK(strstr(message, "checksum of the data differs") != NULL)) FAIL("%s", message);
}

/* What one cannot read all fail with, and then they go on. */
static void one_process_cannot_read(test *t)
{
    static company wanted, found;
    char message[512] = "";
    if (!testing_cpu()) SKIP("processes are tried with CPUs");
    for (size_t k = 0; k < 3; k++) {
        /* At last in the first step, of the process that has two devices. */
        const variant v = {.batch = 16, .in_flight = k == 1, .no_shuffle = k == 2};
        company c = {.s = t->user, .devices = "cpu:threads=1,cpu:threads=1|cpu:threads=1", .v = &v};
        wanted = found = c;
        found.reads = true;
        found.fails = true;
        if (!CHECK_OK(stand_ins_run(2, one_of_them, &wanted, message))) FAIL("%s", message);
        if (!CHECK_OK(stand_ins_run(2, one_of_them, &found, message))) FAIL("%s", message);
        char words[64];
        snprintf(words, sizeof words, "sample %zu: the program cannot read it", found.bad);
        check_all_failed(t, 2, found.statuses, found.messages, DPT_E_FORMAT, words);
        check_all_failed(t, 2, found.statuses, found.messages, DPT_E_FORMAT, "): sample");
        CHECK(found.n_unread[0] + found.n_unread[1] > 0);
        CHECK(found.n_unread[0] == 0 || found.n_unread[0] == 2);
        if (k == 2) CHECK_SIZE(found.n_unread[0], 2);
        CHECK(found.evaluated[0] == DPT_E_FORMAT && found.evaluated[1] == DPT_E_FORMAT);
        for (size_t r = 0; r < 2; r++)
            CHECK(memcmp(found.outcomes[r].weights, wanted.outcomes[r].weights,
                         sizeof found.outcomes[r].weights) == 0);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the same training", the_same_training},
        {"nothing is read twice", nothing_is_read_twice},
        {"tells the epoch", tells_the_epoch},
        {"crops of no picture", crops_of_no_picture},
        {"tells of waiting", tells_of_waiting},
        {"goes on after a failure", goes_on_after_a_failure},
        {"resumes after a failure", resumes_after_a_failure},
        {"resumes in front of a test", resumes_in_front_of_a_test},
        {"what is no reader", what_is_no_reader},
        {"in processes", in_processes},
        {"other figures", other_figures},
        {"one process cannot read", one_process_cannot_read},
    };
    const setting_plan plan = {
        .cases = cases,
        .n_cases = sizeof cases / sizeof *cases,
        .n_samples = COUNT,
        .cpu_mixes = cpu_mixes,
        .n_cpu_mixes = sizeof cpu_mixes / sizeof *cpu_mixes,
    };
    return setting_main(argc, argv, &plan);
}
