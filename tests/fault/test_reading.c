/* Tests devices that fail while images are read on demand: training has the same result as without
   these devices.

   test-fault-reading fault|faultstaged [CASE...] */
#include "fault/plant.h"
#include "train/state/trainer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, CLASSES = 3, BATCH = 12, COUNT = 4 * BATCH + 5, STEPS = 8, LIST_BYTES = 256 };

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *all, *data;
    dpt_trainer *trainer;
    char devices[LIST_BYTES];
    size_t n_failed;
} training;

/* A sample that cannot be read a second and a third time in an epoch; SIZE_MAX: there is none. */
static struct {
    size_t sample, epoch;
    atomic_int n_reads;
} once;

static dpt_status read_image(void *user, size_t sample, size_t epoch, void *image,
                             char why[DPT_READER_WHY_BYTES])
{
    const dpt_dataset *all = user;
    (void)why;
    if (sample == once.sample && epoch == once.epoch) {
        const int before = atomic_fetch_add(&once.n_reads, 1);
        if (before > 0 && before < 4) return DPT_E_IO;
    }
    memcpy(image, (const uint8_t *)all->images + sample * SIDE * SIDE, SIDE * SIDE);
    return DPT_OK;
}

static dpt_status open_data(training *w)
{
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = 1,
                                       .outputs = CLASSES,
                                       .dtype = DPT_U8,
                                       .labels = w->all->labels,
                                       .label_dtype = DPT_I32};
    const dpt_dataset_reader reader = {
        .size = sizeof reader, .read = read_image, .user = w->all, .n_threads = 2};
    return dpt_dataset_from_reader(w->context, &memory, &reader, &w->data);
}

static dpt_status begin_with(test *t, const char *devices, bool in_order, training *w)
{
    const dpt_trainer_options options = {
        .size = sizeof options,
        .no_shuffle = in_order,
        .batch_size = BATCH,
        .lr = 0.05f,
        .momentum = 0.9f,
        .split = dpt_split_from(in_order || strstr(devices, "full=") ? "measured" : "equal"),
        .seed = 3,
        .device_timeout = strstr(devices, "hang=") ? 0.2 : 0};
    *w = (training){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->all));
    DPT_TRY(open_data(w));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer);
}

static dpt_status begin(test *t, const char *devices, training *w)
{
    return begin_with(t, devices, false, w);
}

/* Samples one after the other. */
static dpt_status begin_in_order(test *t, const char *devices, training *w)
{
    return begin_with(t, devices, true, w);
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_dataset_destroy(w->all);
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static void note(training *w, const char *what, dpt_status status)
{
    if (status == DPT_OK) return;
    w->n_failed++;
    printf("  %s: %s: %s\n", w->devices, what, dpt_error_message(w->context));
}

/* Two steps in flight, and evaluations between them; what fails is tried again. */
static void train(test *t, training *w)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    while (dpt_trainer_steps(w->trainer) < STEPS && w->n_failed < 3) {
        const size_t left = STEPS - dpt_trainer_steps(w->trainer);
        while (dpt_trainer_in_flight(w->trainer) < (left < 2 ? left : 2) && w->n_failed < 3)
            note(w, "submit", dpt_trainer_submit(w->trainer));
        note(w, "collect", dpt_trainer_collect(w->trainer, &m));
        if (dpt_trainer_steps(w->trainer) != 3 || dpt_trainer_in_flight(w->trainer) > 0) continue;
        note(w, "evaluate", dpt_trainer_evaluate(w->trainer, w->data, &evaluation));
        evaluation.samples = 0;
    }
    for (size_t i = 0; i < 2 && evaluation.samples == 0; i++)
        note(w, "evaluate", dpt_trainer_evaluate(w->trainer, w->data, &evaluation));
    CHECK_SIZE(dpt_trainer_steps(w->trainer), STEPS);
    CHECK_SIZE(evaluation.samples, COUNT);
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

/* `format` has a place for the number of the call, which happens at `least` so often; of device 1
   the weights are looked at. */
static void at_every_call(test *t, const char *format, size_t least, size_t most_failures)
{
    static plant_weights found;
    const plant_weights *wanted = find_reference(t);
    size_t n_fired = 0;
    for (size_t n = 1; n < 200; n += n < 40 ? 3 : 11) {
        char devices[LIST_BYTES];
        training w;
        snprintf(devices, sizeof devices, format, n);
        if (CHECK_OK(begin(t, devices, &w))) {
            train(t, &w);
            CHECK(w.n_failed <= most_failures);
            n_fired += plant_fired();
            if (!CHECK_OK(plant_read_weights(w.model, w.trainer, 1, &found)) ||
                !CHECK(plant_near_weights(&found, wanted)))
                FAIL("%s: device 1 has other weights", w.devices);
        }
        end(&w);
    }
    CHECK(n_fired >= least);
}

static void who_is_lost(test *t)
{
    at_every_call(t, "@:threads=1:after=1:lost=%zu,cpu:threads=1", 12, 0);
    at_every_call(t, "@:threads=1,cpu:threads=1,@:threads=1:after=1:lost=%zu", 12, 0);
}

static void who_hangs(test *t)
{
    at_every_call(t, "@:threads=1:after=1:entry=upload:hang=%zu,cpu:threads=1", 5, 0);
    at_every_call(t, "@:threads=1:after=1:entry=download:hang=%zu,cpu:threads=1", 1, 0);
}

/* Of a share that cannot get smaller the call fails; it can be made again. */
static void who_has_no_memory(test *t)
{
    at_every_call(t, "@:threads=1:after=1:entry=upload:full=%zu,cpu:threads=1", 5, 1);
}

/* Device 1 rests, device 0 is lost with two steps in flight, and steps since are done again, for
   which images are read anew: of the second step in flight one cannot be.  The first one is told
   all the same, then the failure, and the other when it is tried again. */
static void who_rests(test *t)
{
    enum { STEPS_THERE = 36, RESTS_FROM = 4, LOST_IN = 32 };
    enum { STEPS_OF_EPOCH = COUNT / BATCH + 1 };
    size_t n_fired = 0, n_told = 0;
    for (size_t n = 1; n < 40; n += 3) {
        char devices[LIST_BYTES];
        training w;
        size_t told[STEPS_THERE + 1] = {0}, n_failed = 0;
        dpt_step_metrics m = {.size = sizeof m};
        /* The first sample of the step behind it. */
        once.sample = LOST_IN % STEPS_OF_EPOCH * BATCH;
        once.epoch = LOST_IN / STEPS_OF_EPOCH + 1;
        atomic_store(&once.n_reads, 0);
        snprintf(devices, sizeof devices, "@:threads=1:after=%d:lost=%zu,cpu:threads=1",
                 LOST_IN - 1, n);
        if (CHECK_OK(begin_in_order(t, devices, &w))) {
            bool rests = false;
            w.trainer->standby.allowed = false; /* of itself */
            while (dpt_trainer_steps(w.trainer) < STEPS_THERE && n_failed < 9) {
                dpt_trainer *trainer = w.trainer;
                const size_t left = STEPS_THERE - dpt_trainer_steps(trainer);
                bool failed = false;
                if (!rests && dpt_trainer_steps(trainer) >= RESTS_FROM &&
                    dpt_trainer_in_flight(trainer) == 0) {
                    trainer->standby.chosen[1] = trainer->standby.changes = rests = true;
                    failed = dpt_trainer_submit(trainer) != DPT_OK;
                }
                while (!failed && dpt_trainer_in_flight(trainer) < (rests && left > 1 ? 2 : 1))
                    failed = dpt_trainer_submit(trainer) != DPT_OK;
                if (!failed) failed = dpt_trainer_collect(trainer, &m) != DPT_OK;
                if (!failed) told[m.step]++;
                n_failed += failed;
                /* Behind a failure others may be in flight. */
                while (failed && dpt_trainer_in_flight(trainer) > 0 &&
                       dpt_trainer_collect(trainer, &m) == DPT_OK)
                    told[m.step]++;
            }
            for (size_t i = 1; i <= STEPS_THERE; i++)
                if (told[i] != 1) FAIL("%s: step %zu is told %zu times", w.devices, i, told[i]);
            n_fired += plant_fired();
            n_told += n_failed > 0;
        } else
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        end(&w);
    }
    once.sample = SIZE_MAX;
    CHECK(n_fired > 8 && n_told > 3);
}

/* The same, where the program submits a step more before it has heard of that: what it has
   submitted comes out, in turn.  Where it loads a state instead nobody hears of it. */
static void who_submits_first(test *t)
{
    enum { LOST_IN = 32, STEPS_OF_EPOCH = COUNT / BATCH + 1 };
    size_t n_unsubmitted = 0;
    for (size_t n = 1; n < 24; n += 3) {
        char devices[LIST_BYTES];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        once.sample = LOST_IN % STEPS_OF_EPOCH * BATCH;
        once.epoch = LOST_IN / STEPS_OF_EPOCH + 1;
        atomic_store(&once.n_reads, 0);
        snprintf(devices, sizeof devices, "@:threads=1:after=%d:lost=%zu,cpu:threads=1",
                 LOST_IN - 1, n);
        if (CHECK_OK(begin_in_order(t, devices, &w))) {
            w.trainer->standby.allowed = false;
            for (size_t i = 1; i < LOST_IN; i++) {
                if (i == 5) w.trainer->standby.chosen[1] = w.trainer->standby.changes = true;
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
            }
            CHECK_OK(dpt_trainer_submit(w.trainer));
            /* Steps may have been done again already, for the first one. */
            const bool both = dpt_trainer_submit(w.trainer) == DPT_OK;
            CHECK_OK(dpt_trainer_collect(w.trainer, &m));
            const bool unsubmitted = w.trainer->pipeline.unsubmitted.status != DPT_OK;
            n_unsubmitted += unsubmitted;
            atomic_store(&once.n_reads, 9); /* it can be read now */
            if (unsubmitted && n % 2 == 0) {
                CHECK_OK(dpt_trainer_save_state(w.trainer, "reading.state"));
                CHECK_OK(dpt_trainer_load_state(w.trainer, "reading.state"));
                CHECK(dpt_trainer_collect(w.trainer, &m) == DPT_E_STATE);
            } else if (both) {
                CHECK_OK(dpt_trainer_submit(w.trainer));
                CHECK_SIZE(dpt_trainer_in_flight(w.trainer), 2);
                for (size_t i = 1; i <= 2; i++) {
                    CHECK_OK(dpt_trainer_collect(w.trainer, &m));
                    CHECK_SIZE(m.step, LOST_IN + i);
                }
            }
        }
        end(&w);
    }
    once.sample = SIZE_MAX;
    CHECK(n_unsubmitted > 2);
}

int main(int argc, char **argv)
{
    once.sample = SIZE_MAX;
    static const test_case cases[] = {
        {"who is lost", who_is_lost},
        {"who hangs", who_hangs},
        {"who has no memory", who_has_no_memory},
        {"who rests", who_rests},
        {"who submits first", who_submits_first},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-reading fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
