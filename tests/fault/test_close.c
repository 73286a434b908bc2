/* Tests devices that do not answer while they are prepared, while their objects are released, or
   while they are closed: no call waits for ever, and the other devices are not affected.

   test-fault-close fault|faultstaged [CASE...] */
#include "base/clock.h"
#include "device/set.h"
#include "fault/plant.h"
#include "train/state/programs_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, COUNT = 24, CLASSES = 3, BATCH = 12 };

/* A call may take so long, in seconds, and more where this machine is slow or busy; one that stalls
   takes three times as long. */
static const double least_timeout = 0.3, most_timeout = 4, stalled = 3;

/* One more than a trainer keeps bound beside the training data, so that each evaluation of the last
   one releases another. */
enum { OTHERS = DPTI_TESTS + 1 };

typedef struct closing {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data, *others[OTHERS];
    dpt_trainer *trainer;
    char devices[256];
    double began;
} closing;

static double timeout_of(const test *t)
{
    return *(const double *)((const plant *)t->user)->fixture;
}

/* Milliseconds, for a device's "stall=". */
static size_t stall_of(const test *t)
{
    return (size_t)(1e3 * stalled * timeout_of(t));
}

/* ---- Building -------------------------------------------------------------------------------- */

static dpt_trainer_options options_with(const test *t, double readmit_after)
{
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = BATCH,
                                 .momentum = 0.9f,
                                 .split = {DPT_SPLIT_EQUAL, NULL},
                                 .device_timeout = timeout_of(t),
                                 .readmit_after = readmit_after};
}

static dpt_status begin_with(test *t, const char *devices, double readmit_after, closing *w)
{
    const dpt_trainer_options options = options_with(t, readmit_after);
    *w = (closing){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_device_set_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->data));
    for (size_t i = 0; i < OTHERS; i++)
        DPT_TRY(plant_data(w->context, COUNT, SIDE, CLASSES, &w->others[i]));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer);
}

static dpt_status begin(test *t, const char *devices, closing *w)
{
    return begin_with(t, devices, 0, w);
}

/* Everything in order, and soon; returns how many threads have been given up. */
static size_t end(test *t, closing *w)
{
    const double soon = 10 + 10 * timeout_of(t);
    w->began = dpti_seconds();
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    for (size_t i = 0; i < OTHERS; i++)
        dpt_dataset_destroy(w->others[i]);
    dpt_dataset_destroy(w->data);
    dpt_device_set_close(w->set);
    const size_t n_stuck = w->context ? dpt_context_abandoned(w->context) : 0;
    dpt_context_destroy(w->context);
    CHECK(dpti_seconds() - w->began < soon);
    (void)alarm(0);
    return n_stuck;
}

static void train(test *t, closing *w)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    for (size_t i = 0; i < 3; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &m));
    CHECK_OK(dpt_trainer_evaluate(w->trainer, w->others[0], &e));
}

/* No call of a healthy training takes as long as all of it: what is longer by as much hangs.  Found
   out before each case, since others may use the machine. */
static void find_timeout(test *t)
{
    double *timeout = ((plant *)t->user)->fixture;
    const double began = dpti_seconds();
    closing w;
    *timeout = 30;
    if (CHECK_OK(begin(t, "@:threads=1,cpu:threads=1", &w))) train(t, &w);
    CHECK_SIZE(end(t, &w), 0);
    *timeout = fmax(least_timeout, fmin(most_timeout, 2 * (dpti_seconds() - began)));
    if (*timeout > least_timeout) printf("  calls have %.2g s\n", *timeout);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Whether the n-th call of the entry was made: it hung, at the end, and the device was left. */
static bool hangs_at_its_end(test *t, const char *list, const char *how)
{
    char devices[256];
    closing w;
    snprintf(devices, sizeof devices, list, how);
    if (CHECK_OK(begin(t, devices, &w))) train(t, &w);
    CHECK(!w.context || dpt_context_abandoned(w.context) == 0);
    const size_t n_stuck = end(t, &w);
    const bool fired = plant_fired();
    if (n_stuck != fired) FAIL("%s: %zu threads were given up", w.devices, n_stuck);
    return fired;
}

/* Every so many calls of an entry, until none is the n-th; how many hung. */
static size_t each(test *t, const char *list, const char *entry, size_t stride)
{
    char how[64];
    size_t n = 1;
    do {
        snprintf(how, sizeof how, ":after=3:entry=%s:hang=%zu", entry, n);
        n += stride;
    } while (t->n_failures == 0 && hangs_at_its_end(t, list, how));
    return (n - 1) / stride - 1;
}

static void does_not_release(test *t)
{
    find_timeout(t);
    static const char *const entries[] = {"free", "host_free", "release"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        CHECK(each(t, "@:threads=1%s,cpu:threads=1", entries[i], 5) > 0);
        CHECK(each(t, "cpu:threads=1,@:threads=1%s", entries[i], 9) > 0);
    }
}

static void does_not_close(test *t)
{
    find_timeout(t);
    static const char *const entries[] = {"close", "stream_free", "event_free"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        CHECK(each(t, "cpu:threads=1,@:threads=1%s", entries[i], 1) > 0);
    if (strcmp(((plant *)t->user)->backend, "fault") == 0)
        CHECK(each(t, "@:threads=1%s", "recording_free", 1) > 0);
}

static void island_does_not_end(test *t)
{
    find_timeout(t);
    CHECK(each(t, "@:threads=1:island=1%s,@:threads=1:island=1", "destroy", 1) > 0);
    CHECK(each(t, "@:threads=1:island=1%s,@:threads=1:island=1", "stream_free", 1) > 1);
}

/* The call returns when its device was given up, or when all has ended. */
static void answers_late(test *t)
{
    static const char *const entries[] = {"free", "release", "stream_free", "close"};
    char how[64];
    find_timeout(t);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        /* Names of devices have a limit. */
        snprintf(how, sizeof how, "%s:entry=%s:hang=1:stall=%zu", i < 2 ? ":after=3" : "",
                 entries[i], stall_of(t));
        CHECK(hangs_at_its_end(t, "@:threads=1%s,cpu:threads=1", how));
    }
    (void)usleep((useconds_t)(2000 * stall_of(t)));
}

/* When the trainer is created: that fails, and says why.  What prepares has ten times as long.  The
   call returns when all has ended, or never. */
static void does_not_prepare(test *t)
{
    static const char *const entries[] = {"alloc", "host_alloc", "prepare", "sync", "event_create"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        char devices[128], stall[32] = "";
        closing w;
        if (i % 2 == 0) snprintf(stall, sizeof stall, ":stall=%zu", 4 * stall_of(t));
        snprintf(devices, sizeof devices,
                 i % 2 ? "cpu:threads=1,@:threads=1:entry=%s:hang=%zu%s"
                       : "@:threads=1:entry=%s:hang=%zu%s,cpu:threads=1",
                 entries[i], i < 3 ? i + 1 : 1, stall);
        CHECK_STATUS(begin(t, devices, &w), DPT_E_DEVICE_LOST);
        CHECK(!w.trainer && plant_fired_in(entries[i]));
        CHECK_CONTAINS(dpt_error_message(w.context), "no answer within");
        CHECK_CONTAINS(dpt_error_message(w.context), entries[i]); /* in the device's name */
        CHECK_SIZE(end(t, &w), 1);
    }
    (void)usleep((useconds_t)(1000 * stall_of(t)));
}

/* While training goes on: the device is lost, and the other goes on. */
static void does_not_release_meanwhile(test *t)
{
    find_timeout(t);
    for (size_t n = 1; n < 16; n += 5) {
        char devices[128];
        closing w;
        dpt_evaluation e = {.size = sizeof e};
        snprintf(devices, sizeof devices, "cpu:threads=1,@:threads=1:entry=release:hang=%zu", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            dpt_device_event event = {.size = sizeof event};
            train(t, &w);
            for (size_t i = 1; i < OTHERS; i++)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.others[i], &e));
            train(t, &w);
            if (!CHECK(plant_fired())) FAIL("%s", w.devices);
            CHECK(dpt_trainer_next_event(w.trainer, &event) && event.kind == DPT_DEVICE_LOST);
            CHECK_SIZE(event.device, 1);
        }
        CHECK_SIZE(end(t, &w), 1);
    }
}

static bool is_told(closing *w, dpt_device_event_kind kind)
{
    dpt_device_event event = {.size = sizeof event};
    bool told = false;
    while (dpt_trainer_next_event(w->trainer, &event))
        told = told || event.kind == kind;
    return told;
}

/* The call returns, and the device is taken in again: nothing is released twice, and nobody calls
   it before.  What is hung at is evaluation's, data, or the whole of what the device holds, which
   its fault domain is lost with. */
static void comes_back_from_it(test *t)
{
    /* Names of devices have a limit. */
    static const char *const lists[] = {
        "cpu:threads=1,@:threads=1:after=2:entry=release:hang=1:stall=%zu",
        "cpu:threads=1,@:threads=1:after=2:entry=release:hang=6:stall=%zu",
        "cpu:threads=1,@:threads=1:after=2:entry=free:hang=1:stall=%zu",
        "@:after=6:domain=1:fail=5,@:domain=1:after=2:entry=release:hang=9:stall=%zu,cpu:threads=1",
        "@:after=6:domain=1:fail=5,@:domain=1:after=2:entry=free:hang=7:stall=%zu,cpu:threads=1",
        "@:after=6:domain=1:fail=5,@:domain=1:entry=host_free:hang=6:stall=%zu,cpu:threads=1",
        "@:after=6:domain=1:fail=5,@:domain=1:entry=event_free:hang=2:stall=%zu,cpu:threads=1",
        "@:after=6:domain=1:fail=5,@:domain=1:entry=stream_free:hang=1:stall=%zu,cpu:threads=1",
    };
    find_timeout(t);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        closing w;
        char devices[256];
        bool back = false;
        snprintf(devices, sizeof devices, lists[k], stall_of(t));
        if (CHECK_OK(begin_with(t, devices, 0.05, &w))) {
            dpt_evaluation e = {.size = sizeof e};
            const double until = dpti_seconds() + 10 * stalled * timeout_of(t);
            train(t, &w);
            for (size_t i = 1; i < OTHERS; i++)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.others[i], &e));
            while (dpti_seconds() < until && !back) {
                train(t, &w);
                back = is_told(&w, DPT_DEVICE_READMITTED);
                (void)usleep(50000);
            }
            if (!CHECK(plant_fired() && back)) FAIL("%s", w.devices);
        }
        (void)end(t, &w);
    }
}

/* Another trainer finds out: this one's next step is done without the device. */
static void is_given_up_by_another(test *t)
{
    dpt_trainer *other = NULL;
    closing w;
    find_timeout(t);
    const dpt_trainer_options options = options_with(t, 0);
    if (CHECK_OK(begin(t, "@:threads=1:after=2:entry=release:hang=1,cpu:threads=1", &w)) &&
        CHECK_OK(dpt_trainer_create(w.set, w.model, w.data, &options, &other))) {
        train(t, &w);
        dpt_trainer_destroy(other);
        CHECK_SIZE(dpt_context_abandoned(w.context), 1);
        train(t, &w);
        CHECK(is_told(&w, DPT_DEVICE_LOST));
    }
    CHECK_SIZE(end(t, &w), 1);
}

/* Whatever is asked for when all hang has an answer. */
static void nobody_is_left(test *t)
{
    closing w;
    find_timeout(t);
    if (CHECK_OK(begin(t, "@:threads=1:after=2:hang=1,@:threads=1:after=2:hang=1", &w))) {
        dpt_step_metrics m = {.size = sizeof m};
        dpt_evaluation e = {.size = sizeof e};
        CHECK_OK(dpt_trainer_step(w.trainer, &m));
        while (dpt_trainer_steps(w.trainer) < 9 && dpt_trainer_step(w.trainer, &m) == DPT_OK)
            continue;
        CHECK_STATUS(dpt_trainer_evaluate(w.trainer, w.others[0], &e), DPT_E_STATE);
        CHECK_STATUS(dpt_trainer_step(w.trainer, &m), DPT_E_STATE);
    }
    CHECK_SIZE(end(t, &w), 2);
}

/* A set that no trainer has: arrays. */
static void arrays_are_left(test *t)
{
    static const char *const entries[] = {"free", "release", "sync", "close"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        char list[96], devices[256];
        dpt_context *context = NULL;
        dpt_device_set *set = NULL;
        dpt_array *a = NULL;
        snprintf(list, sizeof list, "@:threads=1:entry=%s:hang=1", entries[i]);
        plant_devices(list, ((plant *)t->user)->backend, devices, sizeof devices);
        (void)remove("fault-report.txt");
        (void)alarm(60);
        REQUIRE_OK(dpt_context_create(&context));
        REQUIRE_OK(dpt_device_set_open(context, devices, &set));
        set->devices[0]->patience = timeout_of(t);
        CHECK_OK(dpt_array_create(dpt_device_set_get(set, 0), (size_t[]){64}, 1, &a));
        CHECK_OK(dpt_array_multiply(a, a, a));
        dpt_array_destroy(a);
        dpt_device_set_close(set);
        CHECK_SIZE(dpt_context_abandoned(context), 1);
        CHECK(plant_fired_in(entries[i]));
        dpt_context_destroy(context);
        (void)alarm(0);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"does not release", does_not_release},
        {"does not close", does_not_close},
        {"island does not end", island_does_not_end},
        {"answers late", answers_late},
        {"does not prepare", does_not_prepare},
        {"does not release meanwhile", does_not_release_meanwhile},
        {"comes back from it", comes_back_from_it},
        {"is given up by another", is_given_up_by_another},
        {"nobody is left", nobody_is_left},
        {"arrays are left", arrays_are_left},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-close fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    double timeout = least_timeout;
    plant p = {.backend = argv[1], .fixture = &timeout};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
