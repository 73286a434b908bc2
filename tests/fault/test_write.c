/* Tests devices that fail while samples are replaced between steps: training has the same result
   as without these devices, on the written samples.

   test-fault-write fault|faultstaged [CASE...] */
#include "fault/plant.h"
#include "train/membership/presence.h"
#include "train/processes.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, CLASSES = 3, BATCH = 12, STEPS = 8, LIST_BYTES = 256 };
/* Labels go round: so no batch has those of the one before it. */
enum { STRIDE = BATCH + 1, COUNT = STRIDE * STEPS };

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *all, *stream;
    dpt_trainer *trainer;
    char devices[LIST_BYTES];
    size_t n_events, n_failed;
} training;

static dpt_status make_stream(training *w)
{
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = BATCH,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = 1,
                                       .outputs = CLASSES,
                                       .dtype = DPT_U8,
                                       .images = w->all->images,
                                       .labels = w->all->labels,
                                       .label_dtype = DPT_I32,
                                       .writable = true};
    return dpt_dataset_from_memory(w->context, &memory, &w->stream);
}

static dpt_status begin(test *t, const char *devices, training *w)
{
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = BATCH,
        .lr = 0.05f,
        .momentum = 0.9f,
        .split = dpt_split_from(strstr(devices, "full=") ? "measured" : "equal"),
        .seed = 3,
        .no_shuffle = true,
        .device_timeout = strstr(devices, "hang=") ? 0.2 : 0};
    *w = (training){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->all));
    DPT_TRY(make_stream(w));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(w->set, w->model, w->stream, &options, &w->trainer);
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->stream);
    dpt_dataset_destroy(w->all);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static dpt_status write_batch(training *w, size_t step)
{
    const size_t first = step * STRIDE;
    return dpt_dataset_write(w->stream, 0, BATCH,
                             (const uint8_t *)w->all->images + first * SIDE * SIDE,
                             w->all->labels + first, NULL);
}

/* A step that fails is taken again. */
static void train(test *t, training *w)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_steps(w->trainer) < STEPS && w->n_failed < 3) {
        CHECK_OK(write_batch(w, dpt_trainer_steps(w->trainer)));
        w->n_failed += dpt_trainer_step(w->trainer, &m) != DPT_OK;
        if (dpt_trainer_steps(w->trainer) % 3 == 0)
            w->n_failed += dpt_trainer_evaluate(w->trainer, w->stream, &evaluation) != DPT_OK;
        while (dpt_trainer_next_event(w->trainer, &event))
            w->n_events++;
    }
    CHECK_SIZE(dpt_trainer_steps(w->trainer), STEPS);
}

static const plant_weights *find_reference(test *t)
{
    static plant_weights weights;
    training w;
    if (weights.n > 0) return &weights;
    if (CHECK_OK(begin(t, "cpu:threads=1", &w))) {
        train(t, &w);
        CHECK_OK(plant_read_weights(w.model, w.trainer, 0, &weights));
    }
    end(&w);
    return &weights;
}

/* `format` has a place for the number of the call; of device `survivor` the weights are looked at.
 */
static void at_every_call(test *t, const char *format, size_t survivor, size_t most_failures)
{
    static plant_weights found;
    const plant_weights *wanted = find_reference(t);
    size_t n_fired = 0, n_events = 0;
    for (size_t n = 1; n < 200; n += n < 40 ? 1 : 7) {
        char devices[LIST_BYTES];
        training w;
        snprintf(devices, sizeof devices, format, n);
        if (CHECK_OK(begin(t, devices, &w))) {
            train(t, &w);
            CHECK(w.n_failed <= most_failures);
            n_fired += plant_fired();
            n_events += w.n_events;
            if (!CHECK_OK(plant_read_weights(w.model, w.trainer, survivor, &found)) ||
                !CHECK(plant_near_weights(&found, wanted)))
                FAIL("%s: device %zu has other weights", w.devices, survivor);
        }
        end(&w);
    }
    CHECK(n_fired > 30 && (most_failures > 0 || n_events >= n_fired));
}

static void beside_another(test *t)
{
    at_every_call(t, "@:threads=1:after=1:lost=%zu,cpu:threads=1", 1, 0);
}

/* In whose memory the data lie: the other one goes on in it. */
static void whose_copy_it_is(test *t)
{
    at_every_call(t, "@:threads=1:after=1:lost=%zu,@:threads=1", 1, 0);
}

static void who_uses_the_copy(test *t)
{
    at_every_call(t, "@:threads=1,@:threads=1:after=1:lost=%zu", 0, 0);
}

static void who_comes_back(test *t)
{
    at_every_call(t, "@:threads=1:after=1:fail=%zu,@:threads=1", 1, 1);
}

/* For an upload, which some devices need it for: of samples that are written it goes, since it
   could not train on them; in a step it gets fewer. */
static void who_has_no_memory(test *t)
{
    static plant_weights found;
    const plant_weights *wanted = find_reference(t);
    const bool staged = strcmp(((plant *)t->user)->backend, "faultstaged") == 0;
    size_t n_fired = 0, n_lost = 0;
    for (size_t n = 1; n < 24; n++) {
        char devices[LIST_BYTES];
        training w;
        snprintf(devices, sizeof devices, "@:threads=1:after=1:entry=upload:full=%zu,cpu:threads=1",
                 n);
        if (CHECK_OK(begin(t, devices, &w))) {
            train(t, &w);
            CHECK(w.n_failed == 0 || !dpti_is_lost(&w.trainer->workers[0]));
            n_fired += plant_fired();
            n_lost += dpti_is_lost(&w.trainer->workers[0]);
            if (!CHECK_OK(plant_read_weights(w.model, w.trainer, 1, &found)) ||
                !CHECK(plant_near_weights(&found, wanted)))
                FAIL("%s: it has other weights", w.devices);
        }
        end(&w);
    }
    CHECK(n_fired > 5 && (n_lost > 5) == staged);
}

/* Images as they are in host memory, labels copied. */
static void who_wraps_some(test *t)
{
    static plant_weights found;
    const plant_weights *wanted = find_reference(t);
    training w;
    if (CHECK_OK(begin(t, "@:threads=1:refuses=wrap", &w))) {
        train(t, &w);
        CHECK_OK(plant_read_weights(w.model, w.trainer, 0, &found));
        CHECK(plant_near_weights(&found, wanted));
    }
    end(&w);
}

static void who_hangs(test *t)
{
    static plant_weights found;
    const plant_weights *wanted = find_reference(t);
    for (size_t n = 1; n < 30; n += 4) {
        char devices[LIST_BYTES];
        training w;
        snprintf(devices, sizeof devices, "@:threads=1:after=1:entry=upload:hang=%zu,cpu:threads=1",
                 n);
        if (CHECK_OK(begin(t, devices, &w))) {
            train(t, &w);
            CHECK_SIZE(w.n_failed, 0);
            if (!CHECK_OK(plant_read_weights(w.model, w.trainer, 1, &found)) ||
                !CHECK(plant_near_weights(&found, wanted)))
                FAIL("%s: it has other weights", w.devices);
        }
        end(&w);
    }
}

/* Behind a step, evaluations of a second stream that gets right and wrong labels by turns. */
static void evaluate_each(test *t, training *w, const dpt_dataset *all, dpt_dataset *second)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation found = {.size = sizeof found}, first[2] = {{.loss = 0}};
    CHECK_OK(dpt_trainer_step(w->trainer, &m));
    for (size_t i = 0; i < STEPS; i++) {
        CHECK_OK(dpt_dataset_write(second, 0, BATCH, all->images, all->labels + i % 2, NULL));
        if (!CHECK_OK(dpt_trainer_evaluate(w->trainer, second, &found))) continue;
        if (i < 2) first[i] = found;
        CHECK_NEAR(found.loss, first[i % 2].loss, 1e-5 * found.loss);
    }
    CHECK(fabs(first[1].loss - first[0].loss) > 1e-4 * first[0].loss);
}

/* Other data than those of training, for which each memory has a copy of its own: the devices that
   are left are made anew where one is lost, and what was placed for evaluations goes. */
static void who_evaluates(test *t)
{
    static const char *const formats[] = {"@:threads=1:after=1:lost=%zu,cpu:threads=1",
                                          "@:threads=1:after=1:lost=%zu,@:threads=1",
                                          "@:threads=1,@:threads=1:after=1:lost=%zu"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t n_fired = 0;
        for (size_t n = 1; n < 200; n += n < 40 ? 1 : 7) {
            char devices[LIST_BYTES];
            training w;
            snprintf(devices, sizeof devices, formats[i], n);
            if (CHECK_OK(begin(t, devices, &w))) {
                dpt_dataset *first = w.stream;
                if (CHECK_OK(make_stream(&w))) evaluate_each(t, &w, w.all, w.stream);
                n_fired += plant_fired();
                dpt_trainer_destroy(w.trainer);
                w.trainer = NULL;
                dpt_dataset_destroy(first);
            }
            end(&w);
        }
        CHECK(n_fired > 30);
    }
}

/* In a copy whose owner is lost, for an evaluation: what it may still read of the data set stays. A
   trainer that measures makes nobody anew. */
static void who_hangs_in_anothers_copy(test *t)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .split = {DPT_SPLIT_MEASURED, NULL},
                                         .device_timeout = 0.2};
    size_t n_left = 0;
    for (size_t n = 1; n < 12; n++) {
        char devices[LIST_BYTES];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        dpt_evaluation evaluation = {.size = sizeof evaluation};
        dpt_dataset *first = NULL;
        snprintf(devices, sizeof devices,
                 "@:threads=1:after=1:lost=1,@:threads=1:after=1:entry=upload:hang=%zu,"
                 "cpu:threads=1",
                 n);
        if (CHECK_OK(begin(t, devices, &w))) {
            first = w.stream;
            dpt_trainer_destroy(w.trainer);
            w.trainer = NULL;
        }
        if (first && CHECK_OK(make_stream(&w)) &&
            CHECK_OK(dpt_trainer_create(w.set, w.model, first, &options, &w.trainer))) {
            CHECK_OK(dpt_trainer_evaluate(w.trainer, w.stream, &evaluation));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK(dpti_is_lost(&w.trainer->workers[0]));
            CHECK_OK(write_batch(&w, 1));
            CHECK_OK(dpt_trainer_evaluate(w.trainer, w.stream, &evaluation));
            n_left += atomic_load(&w.stream->left);
        }
        dpt_trainer_destroy(w.trainer);
        w.trainer = NULL;
        if (first) dpt_dataset_destroy(first);
        end(&w);
    }
    /* Where data are copied, in the images and in the labels. */
    CHECK_SIZE(n_left, strcmp(((plant *)t->user)->backend, "faultstaged") == 0 ? 2 : 0);
}

/* Two processes, each with its own half of every batch; then one of them fails before a step. */
typedef struct halves {
    char devices[LIST_BYTES];
    double loss[STEPS];
    size_t failed; /* in which step one did alone; 0: none has */
    bool given_up; /* then it waited for nobody */
} halves;

/* Of its half alone each process has the samples; what it has besides is wrong. */
static dpt_status write_half(training *w, size_t rank, size_t step)
{
    const size_t half = BATCH / 2, first = step * STRIDE + rank * half;
    return dpt_dataset_write(w->stream, rank * half, half,
                             (const uint8_t *)w->all->images + first * SIDE * SIDE,
                             w->all->labels + first, NULL);
}

static dpt_status train_half(training *w, size_t rank, halves *h)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    for (size_t i = 0; i < STEPS; i++) {
        DPT_TRY(write_half(w, rank, i));
        const dpt_status status = dpt_trainer_step(w->trainer, &m);
        if (status != DPT_OK && rank == 1 && !dpt_process_agreed(w->context)) {
            h->failed = i + 1;
            h->given_up = dpt_trainer_evaluate(w->trainer, w->stream, &e) == DPT_E_STATE &&
                          strstr(dpt_error_message(w->context), "has given up");
        }
        DPT_TRY(status);
        if (rank == 0) h->loss[i] = m.loss;
    }
    return DPT_OK;
}

static dpt_status have_half(dpt_context *context, size_t rank, void *user)
{
    halves *h = user;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .seed = 3,
                                         .no_shuffle = true};
    training w = {.context = context};
    stand_ins_devices(h->devices, rank, w.devices);
    dpt_status status = dpt_device_set_open(context, w.devices, &w.set);
    if (status == DPT_OK) status = plant_data(context, COUNT, SIDE, CLASSES, &w.all);
    if (status == DPT_OK) status = make_stream(&w);
    if (status == DPT_OK) status = plant_network(context, SIDE, CLASSES, &w.model);
    if (status == DPT_OK)
        status = dpt_trainer_create(w.set, w.model, w.stream, &options, &w.trainer);
    if (status == DPT_OK) status = train_half(&w, rank, h);
    dpt_trainer_destroy(w.trainer);
    dpt_model_destroy(w.model);
    dpt_dataset_destroy(w.stream);
    dpt_dataset_destroy(w.all);
    dpt_device_set_close(w.set);
    return status;
}

static dpt_status run_halves(test *t, const char *devices, halves *h)
{
    char message[512] = "";
    const size_t n = stand_ins_count(devices);
    *h = (halves){.failed = 0};
    plant_devices(devices, ((plant *)t->user)->backend, h->devices, sizeof h->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120);
    const dpt_status status = stand_ins_run(n, have_half, h, message);
    (void)alarm(0);
    return status;
}

static void of_several_processes(test *t)
{
    halves both, h;
    size_t n_alone = 0;
    training w;
    if (CHECK_OK(run_halves(t, "@:threads=1|@:threads=1", &both)) &&
        CHECK_OK(begin(t, "cpu:threads=1", &w))) {
        for (size_t i = 0; i < STEPS; i++) {
            dpt_step_metrics m = {.size = sizeof m};
            CHECK_OK(write_batch(&w, i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_NEAR(both.loss[i], m.loss, 1e-3 * m.loss);
        }
    }
    end(&w);
    for (size_t n = 1; n < 9; n++) {
        char devices[LIST_BYTES];
        snprintf(devices, sizeof devices, "cpu:threads=1|@:threads=1:after=1:entry=upload:lost=%zu",
                 n);
        const dpt_status status = run_halves(t, devices, &h);
        CHECK(!plant_fired() || status != DPT_OK);
        if (h.failed == 0) continue;
        CHECK(h.given_up);
        n_alone++;
    }
    CHECK((n_alone > 0) == (strcmp(((plant *)t->user)->backend, "faultstaged") == 0));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"beside another", beside_another},
        {"whose copy it is", whose_copy_it_is},
        {"who uses the copy", who_uses_the_copy},
        {"who comes back", who_comes_back},
        {"who has no memory", who_has_no_memory},
        {"who wraps some", who_wraps_some},
        {"who hangs", who_hangs},
        {"who evaluates", who_evaluates},
        {"who hangs in another's copy", who_hangs_in_anothers_copy},
        {"of several processes", of_several_processes},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-write fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
