/* Tests devices and backends that do not answer while devices are listed, opened or measured: no
   call waits for ever, the other devices are not affected, and closing is fast afterwards.

   test-fault-open fault|faultstaged [CASE...] */
#include "base/clock.h"
#include "fault/plant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds, of a call, and more where this machine is slow or busy; ten times as long while devices
   are opened. */
static const double least_timeout = 0.05, most_timeout = 2;

static const char *backend_of(const test *t)
{
    return ((const plant *)t->user)->backend;
}

static double timeout_of(const test *t)
{
    return *(const double *)((const plant *)t->user)->fixture;
}

/* Milliseconds: the call returns when it has been given up and all has ended. */
static unsigned stall_of(const test *t)
{
    return (unsigned)(1e3 * 20 * timeout_of(t));
}

static size_t find_backend(const dpt_context *context, const char *name)
{
    for (size_t b = 0; b < dpt_backend_count(context); b++)
        if (strcmp(dpt_backend_name(context, b), name) == 0) return b;
    return (size_t)-1;
}

static dpt_context *make_context(test *t)
{
    const dpt_context_options options = {.size = sizeof options, .device_timeout = timeout_of(t)};
    dpt_context *context = NULL;
    (void)alarm(120); /* nothing may hang */
    CHECK_OK(dpt_context_create_with(&options, &context));
    return context;
}

/* So many threads were given up, and nobody waits for them. */
static void end(test *t, dpt_context *context, size_t n_stuck)
{
    const double began = dpti_seconds();
    CHECK_SIZE(dpt_context_abandoned(context), n_stuck);
    dpt_context_destroy(context);
    CHECK(dpti_seconds() - began < 1 + timeout_of(t));
    (void)alarm(0);
}

/* No call of healthy devices takes as long as all of it.  Before each case, since others may use
   the machine. */
static void find_timeout(test *t)
{
    double *timeout = ((plant *)t->user)->fixture;
    const double began = dpti_seconds();
    *timeout = 30;
    char devices[64];
    dpt_device_set *set = NULL;
    dpt_context *context = make_context(t);
    REQUIRE(context);
    snprintf(devices, sizeof devices, "cpu:threads=1,%s:threads=1", backend_of(t));
    CHECK_OK(dpt_device_set_open(context, devices, &set));
    dpt_device_set_close(set);
    end(t, context, 0);
    *timeout = fmax(least_timeout, fmin(most_timeout, dpti_seconds() - began));
    if (*timeout > least_timeout) printf("  calls have %.2g s\n", *timeout);
}

/* Fails, in time, since the backend or its device does not answer, and says what to do. */
static void refuses(test *t, dpt_context *context, const char *devices)
{
    dpt_device_set *set = NULL;
    const double began = dpti_seconds();
    CHECK_STATUS(dpt_device_set_open(context, devices, &set), DPT_E_DEVICE_LOST);
    CHECK(!set && dpti_seconds() - began < 30);
    CHECK_CONTAINS(dpt_error_message(context), backend_of(t));
    CHECK_CONTAINS(dpt_error_message(context), "no answer within");
    CHECK_CONTAINS(dpt_error_message(context), "leave it out");
}

static void opens(test *t, dpt_context *context, const char *devices, size_t n)
{
    dpt_device_set *set = NULL;
    if (CHECK_OK(dpt_device_set_open(context, devices, &set))) {
        CHECK_SIZE(dpt_device_set_count(set), n);
        CHECK_OK(dpt_device_set_wait(set));
    }
    dpt_device_set_close(set);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Each call that opens a device hangs in turn: for ever, or until all has ended. */
static void does_not_open(test *t)
{
    static const char *const calls[] = {"open", "info", "stream_create", "close"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char list[128], stall[32] = "", devices[128];
        dpt_context *context = make_context(t);
        REQUIRE(context);
        if (i == 0) snprintf(stall, sizeof stall, ":stall=%u", stall_of(t));
        /* Of what cannot be opened close is called too. */
        if (i == 3) snprintf(stall, sizeof stall, ":algorithm=none");
        snprintf(list, sizeof list, "cpu:threads=1,@:entry=%s:hang=1%s", calls[i], stall);
        plant_devices(list, backend_of(t), devices, sizeof devices);
        (void)remove("fault-report.txt");
        refuses(t, context, devices);
        CHECK(plant_fired_in(calls[i]));
        opens(t, context, "cpu:threads=1,cpu:threads=1", 2);
        end(t, context, 1);
    }
    (void)usleep(1500 * stall_of(t));
}

/* It is not asked again, and so nobody waits again. */
static void is_not_asked_again(test *t)
{
    find_timeout(t);
    char devices[64];
    dpt_context *context = make_context(t);
    REQUIRE(context);
    snprintf(devices, sizeof devices, "%s:entry=open:hang=1", backend_of(t));
    refuses(t, context, devices);
    const double began = dpti_seconds();
    refuses(t, context, devices);
    refuses(t, context, backend_of(t));
    CHECK(dpti_seconds() - began < 5 * timeout_of(t));
    dpt_device_info d = {.size = sizeof d};
    const size_t b = find_backend(context, backend_of(t));
    CHECK_STATUS(dpt_backend_status(context, b), DPT_OK);
    CHECK_STATUS(dpt_backend_describe(context, b, 0, &d), DPT_E_DEVICE_LOST);
    CHECK_CONTAINS(dpt_error_message(context), "while it was opened");
    end(t, context, 1);
}

/* "all" goes on with the others. */
static void all_passes_over(test *t)
{
    find_timeout(t);
    char hangs[64];
    dpt_context *context;
    snprintf(hangs, sizeof hangs, "%s:open", backend_of(t));
    REQUIRE(setenv("DPTRAIN_FAULT_APART", "1", 1) == 0);
    context = make_context(t);
    REQUIRE(context);
    opens(t, context, "all", 2); /* the two fault backends are one piece of hardware */
    end(t, context, 0);
    REQUIRE(setenv("DPTRAIN_FAULT_HANG", hangs, 1) == 0);
    context = make_context(t);
    REQUIRE(context);
    const bool is_meant = strcmp(backend_of(t), "fault") == 0; /* the first by name */
    opens(t, context, "all", is_meant ? 1 : 2);                /* after that the other one is */
    CHECK_STATUS(dpt_backend_status(context, find_backend(context, backend_of(t))), DPT_OK);
    opens(t, context, "all", 2);
    unsetenv("DPTRAIN_FAULT_HANG");
    unsetenv("DPTRAIN_FAULT_APART");
    end(t, context, is_meant);
}

/* ---- Looking for devices --------------------------------------------------------------------- */

/* The backend is absent for that reason, or its device is; others are there. */
static void does_not_tell(test *t)
{
    static const char *const calls[] = {"load", "probe", "describe", "probe"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char hangs[64];
        dpt_device_info d = {.size = sizeof d};
        snprintf(hangs, sizeof hangs, "%s:%s:%u", backend_of(t), calls[i], i < 3 ? 0 : stall_of(t));
        REQUIRE(setenv("DPTRAIN_FAULT_HANG", hangs, 1) == 0);
        dpt_context *context = make_context(t);
        unsetenv("DPTRAIN_FAULT_HANG");
        REQUIRE(context);
        const size_t b = find_backend(context, backend_of(t));
        const bool counted = i == 2;
        REQUIRE(b != (size_t)-1);
        CHECK_STATUS(dpt_backend_status(context, b), counted ? DPT_OK : DPT_E_DEVICE_LOST);
        CHECK_SIZE(dpt_backend_device_count(context, b), counted);
        if (counted)
            CHECK_STATUS(dpt_backend_describe(context, b, 0, &d), DPT_E_DEVICE_LOST);
        else
            CHECK_CONTAINS(dpt_backend_reason(context, b), "when it was asked for its devices");
        CHECK_STATUS(dpt_backend_status(context, find_backend(context, "cpu")), DPT_OK);
        refuses(t, context, backend_of(t));
        opens(t, context, "cpu:threads=1", 1);
        opens(t, context, "all", 1);
        end(t, context, 1);
    }
    (void)usleep(1500 * stall_of(t));
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static void does_not_compute(test *t)
{
    static const char *const calls[] = {"prepare", "run", "sync", "upload", "host_free"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char devices[128];
        dpt_device_rates rates = {.size = sizeof rates, .flops = -1};
        dpt_device_set *set = NULL;
        dpt_context *context = make_context(t);
        REQUIRE(context);
        snprintf(devices, sizeof devices, "%s:threads=1:entry=%s:hang=1,cpu:threads=1",
                 backend_of(t), calls[i]);
        REQUIRE_OK(dpt_device_set_open(context, devices, &set));
        CHECK_STATUS(dpt_device_measure(dpt_device_set_get(set, 0), &rates), DPT_E_DEVICE_LOST);
        CHECK_CONTAINS(dpt_error_message(context),
                       "while it was measured (ten times --device-timeout)");
        CHECK(rates.flops < 0);
        CHECK_STATUS(dpt_device_measure(dpt_device_set_get(set, 0), &rates), DPT_E_DEVICE_LOST);
        dpt_device_set_close(set);
        end(t, context, 1);
    }
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

typedef struct pair {
    dpt_device_set *set;
    dpt_array *whole[2], *part[2];
} pair;

enum { ELEMENTS = 4096 };

static dpt_status make_pair(pair *p)
{
    static const float values[ELEMENTS];
    const size_t size = ELEMENTS, half = ELEMENTS / 2;
    for (size_t i = 0; i < 2; i++) {
        dpt_device *device = dpt_device_set_get(p->set, i);
        DPT_TRY(dpt_array_create(device, &size, 1, &p->whole[i]));
        DPT_TRY(dpt_array_create(device, &half, 1, &p->part[i]));
        DPT_TRY(dpt_array_set(p->whole[i], values));
        DPT_TRY(dpt_array_set(p->part[i], values));
        DPT_TRY(dpt_array_wait(p->part[i]));
    }
    return DPT_OK;
}

/* Everything that is done with arrays, up to the first failure. */
static dpt_status use(pair *p, float *host)
{
    DPT_TRY(make_pair(p));
    DPT_TRY(dpt_all_reduce(p->whole, 2));
    DPT_TRY(dpt_reduce_scatter(p->whole, p->part, 2));
    DPT_TRY(dpt_all_gather(p->part, p->whole, 2));
    DPT_TRY(dpt_broadcast(p->whole, 2, 1));
    for (size_t i = 0; i < 2; i++)
        DPT_TRY(dpt_array_get(p->whole[i], host));
    return dpt_device_set_wait(p->set);
}

/* The n-th call of the entry hangs, if there are so many, until all that it was given is gone, but
   for what was left to it.  (With threads=1, since a search for leaks does not cope with an OpenMP
   team whose first thread has ended.) */
static bool hangs_in_array_work(test *t, const char *entry, size_t n)
{
    static float host[ELEMENTS];
    char devices[128];
    pair p = {.set = NULL};
    dpt_context *context = make_context(t);
    (void)remove("fault-report.txt");
    snprintf(devices, sizeof devices,
             "faultstaged:threads=1,%s:threads=1:entry=%s:hang=%zu:stall=%u", backend_of(t), entry,
             n, stall_of(t));
    if (!context || !CHECK_OK(dpt_device_set_open(context, devices, &p.set))) return false;
    const dpt_status status = use(&p, host);
    const bool fired = plant_fired();
    CHECK_STATUS(status, fired ? DPT_E_DEVICE_LOST : DPT_OK);
    if (fired) CHECK_CONTAINS(dpt_error_message(context), "no answer within");
    if (fired) CHECK_CONTAINS(dpt_error_message(context), backend_of(t));
    for (size_t i = 0; i < 2; i++) {
        dpt_array_destroy(p.part[i]);
        dpt_array_destroy(p.whole[i]);
    }
    dpt_device_set_close(p.set);
    end(t, context, plant_fired());
    return fired;
}

/* The queue is full, and nobody waits for its end. */
static void does_not_take_work(test *t)
{
    const size_t size = ELEMENTS;
    char devices[128];
    dpt_device_set *set = NULL;
    dpt_array *a = NULL;
    find_timeout(t);
    dpt_context *context = make_context(t);
    REQUIRE(context);
    snprintf(devices, sizeof devices, "%s:threads=1:entry=run:hang=1", backend_of(t));
    REQUIRE_OK(dpt_device_set_open(context, devices, &set));
    REQUIRE_OK(dpt_array_create(dpt_device_set_get(set, 0), &size, 1, &a));
    for (size_t i = 0; i < 200; i++)
        CHECK_OK(dpt_array_add(a, a, a));
    CHECK_STATUS(dpt_array_wait(a), DPT_E_DEVICE_LOST);
    dpt_array_destroy(a);
    dpt_device_set_close(set);
    end(t, context, 1);
}

static void does_not_exchange(test *t)
{
    static const char *const entries[] = {"sync", "alloc", "upload", "download"};
    find_timeout(t);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        size_t n = 1;
        while (t->n_failures == 0 && hangs_in_array_work(t, entries[i], n))
            n++;
        /* What the host sees is not brought. */
        CHECK(n > 2 || strcmp(entries[i], "download") == 0);
    }
    (void)usleep(1500 * stall_of(t));
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* A set that no trainer was on is closed within the context's time. */
static void does_not_close(test *t)
{
    find_timeout(t);
    char devices[64];
    dpt_device_set *set = NULL;
    dpt_context *context = make_context(t);
    REQUIRE(context);
    snprintf(devices, sizeof devices, "%s:threads=1:entry=close:hang=1", backend_of(t));
    REQUIRE_OK(dpt_device_set_open(context, devices, &set));
    dpt_device_set_close(set);
    end(t, context, 1);
}

static void refuses_times(test *t)
{
    static const double times[] = {-1, 1e10};
    for (size_t i = 0; i < 2; i++) {
        dpt_context *context = NULL;
        const dpt_context_options options = {.size = sizeof options, .device_timeout = times[i]};
        CHECK_STATUS(dpt_context_create_with(&options, &context), DPT_E_INVALID);
        CHECK(!context);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"does not open", does_not_open},           {"is not asked again", is_not_asked_again},
        {"all passes over", all_passes_over},       {"does not tell", does_not_tell},
        {"does not compute", does_not_compute},     {"does not exchange", does_not_exchange},
        {"does not take work", does_not_take_work}, {"does not close", does_not_close},
        {"refuses times", refuses_times},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-open fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    double timeout = least_timeout;
    plant p = {.backend = argv[1], .fixture = &timeout};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
