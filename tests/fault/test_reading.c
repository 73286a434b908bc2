/* Devices that fail while images are read as they are needed: training is what it would be without
   them.  test-fault-reading fault|faultstaged [CASE...] */
#include "fault/plant.h"
#include "train/trainer.h"

#include <math.h>
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

static dpt_status read_image(void *user, size_t sample, size_t epoch, void *image,
                             char why[DPT_READER_WHY_BYTES])
{
    const dpt_dataset *all = user;
    (void)epoch;
    (void)why;
    memcpy(image, (const uint8_t *)all->images + sample * SIDE * SIDE, SIDE * SIDE);
    return DPT_OK;
}

static dpt_status open_data(training *w)
{
    const dpt_dataset_memory memory = {.count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = 1,
                                       .classes = CLASSES,
                                       .dtype = DPT_U8,
                                       .labels = w->all->labels,
                                       .label_dtype = DPT_I32};
    const dpt_dataset_reader reader = {.read = read_image, .user = w->all, .n_threads = 2};
    return dpt_dataset_from_reader(w->context, &memory, &reader, &w->data);
}

static dpt_status begin(test *t, const char *devices, training *w)
{
    const dpt_trainer_options options = {.batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .split = strstr(devices, "full=") ? "measured" : "equal",
                                         .seed = 3,
                                         .device_timeout = strstr(devices, "hang=") ? 0.2 : 0};
    *w = (training){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_devices_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->all));
    DPT_TRY(open_data(w));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer);
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_dataset_destroy(w->all);
    dpt_devices_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

/* Two steps in flight, and evaluations between them; what fails is tried again. */
static void train(test *t, training *w)
{
    dpt_step_metrics m;
    dpt_evaluation evaluation = {.samples = 0};
    while (dpt_trainer_steps(w->trainer) < STEPS && w->n_failed < 3) {
        const size_t left = STEPS - dpt_trainer_steps(w->trainer);
        while (dpt_trainer_in_flight(w->trainer) < (left < 2 ? left : 2) && w->n_failed < 3)
            w->n_failed += dpt_trainer_submit(w->trainer) != DPT_OK;
        w->n_failed += dpt_trainer_collect(w->trainer, &m) != DPT_OK;
        if (dpt_trainer_steps(w->trainer) != 3 || dpt_trainer_in_flight(w->trainer) > 0) continue;
        w->n_failed += dpt_trainer_evaluate(w->trainer, w->data, &evaluation) != DPT_OK;
    }
    w->n_failed += dpt_trainer_evaluate(w->trainer, w->data, &evaluation) != DPT_OK;
    CHECK_SIZE(dpt_trainer_steps(w->trainer), STEPS);
    CHECK_SIZE(evaluation.samples, COUNT);
}

static bool are_near(const plant_weights *a, const plant_weights *b)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < a->n; i++) {
        error += pow((double)a->values[i] - (double)b->values[i], 2);
        size += pow((double)b->values[i], 2);
    }
    return a->n == b->n && error <= 1e-6 * size;
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
static void at_every_call(test *t, const char *format, size_t survivor, size_t least)
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
            CHECK_SIZE(w.n_failed, 0);
            n_fired += plant_fired();
            if (!CHECK_OK(plant_read_weights(w.model, w.trainer, survivor, &found)) ||
                !CHECK(are_near(&found, wanted)))
                FAIL("%s: device %zu has other weights", w.devices, survivor);
        }
        end(&w);
    }
    CHECK(n_fired >= least);
}

static void who_is_lost(test *t)
{
    at_every_call(t, "@:threads=1:after=1:lost=%zu,cpu:threads=1", 1, 12);
    at_every_call(t, "@:threads=1,cpu:threads=1,@:threads=1:after=1:lost=%zu", 1, 12);
}

static void who_hangs(test *t)
{
    at_every_call(t, "@:threads=1:after=1:entry=upload:hang=%zu,cpu:threads=1", 1, 5);
    at_every_call(t, "@:threads=1:after=1:entry=download:hang=%zu,cpu:threads=1", 1, 1);
}

static void who_has_no_memory(test *t)
{
    at_every_call(t, "@:threads=1:after=1:entry=upload:full=%zu,cpu:threads=1", 1, 5);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"who is lost", who_is_lost},
        {"who hangs", who_hangs},
        {"who has no memory", who_has_no_memory},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-reading fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
