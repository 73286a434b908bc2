/* Tests single-launch steps of a device that is alone or left alone, and whose memory the host
   does not see.  They give the same bits as steps in segments.  A step that is not finite changes
   nothing, also if the next step is in flight behind it.  With every call failing in turn, the
   weights are those of the committed steps, or the trainer reports that no weights can be trusted.

   test-fault-single-launch [CASE...] */
#include "fault/plant.h"
#include "train/state/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 6, COUNT = 22, CLASSES = 3, BATCH = 10, STEPS = 6 };

typedef struct variant {
    dpt_optimizer optimizer;
    float momentum, clip_norm;
} variant;

/* What a healthy run goes through. */
typedef struct trajectory {
    variant variant;
    plant_weights after[STEPS + 1];
    double losses[STEPS + 1];
    size_t n_untrusted; /* failures that left weights which nobody can trust */
    size_t
        beside; /* steps in which another device takes part, which is lost then; 0: there is none */
    bool bare;  /* that one has no samples, so that nobody is prepared anew without it */
} trajectory;

typedef struct training {
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
} training;

static trajectory *healthy_of(const run *r)
{
    return ((const plant *)r->t->user)->fixture;
}

static void with_training(run *r, void (*work)(run *r, training *w))
{
    test *t = r->t;
    const variant *v = &healthy_of(r)->variant;
    const bool shards = healthy_of(r)->beside > 0;
    training w = {.model = NULL};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .optimizer = v->optimizer,
                                         .lr = 0.1f,
                                         .momentum = v->momentum,
                                         .clip_norm = v->clip_norm,
                                         .seed = 5,
                                         .split = dpt_split_from(healthy_of(r)->bare ? "1:0"
                                                                 : shards            ? "equal"
                                                                                     : NULL),
                                         .stop_on_loss = !shards};
    if (CHECK_OK(plant_data(r->context, COUNT, SIDE, CLASSES, &w.data)) &&
        CHECK_OK(plant_network(r->context, SIDE, CLASSES, &w.model)) &&
        plant_succeeded(r, dpt_trainer_create(r->set, w.model, w.data, &options, &w.trainer),
                        "dpt_trainer_create"))
        work(r, &w);
    dpt_trainer_destroy(w.trainer);
    dpt_model_destroy(w.model);
    dpt_dataset_destroy(w.data);
}

static void compare_weights(const run *r, const training *w, const plant_weights *now,
                            const char *when)
{
    test *t = r->t;
    const size_t steps = dpt_trainer_steps(w->trainer);
    REQUIRE(steps <= STEPS);
    if (!CHECK(plant_same_weights(now, &healthy_of(r)->after[steps])))
        FAIL("%s: %s, other weights than %zu steps give", r->devices, when, steps);
}

static void check_weights(const run *r, const training *w, const char *when)
{
    test *t = r->t;
    plant_weights now;
    REQUIRE_OK(plant_read_weights(w->model, w->trainer, 0, &now));
    compare_weights(r, w, &now, when);
}

/* ---- Training -------------------------------------------------------------------------------- */

static void record(run *r, training *w)
{
    test *t = r->t;
    trajectory *healthy = healthy_of(r);
    dpt_step_metrics metrics = {.size = sizeof metrics};
    REQUIRE_OK(dpt_trainer_save(w->trainer, "initial.safetensors"));
    for (size_t i = 0; i <= STEPS; i++) {
        if (i > 0) REQUIRE_OK(dpt_trainer_step(w->trainer, &metrics));
        REQUIRE_OK(plant_read_weights(w->model, w->trainer, 0, &healthy->after[i]));
        healthy->losses[i] = i > 0 ? metrics.loss : 0;
        if (i > 0) CHECK(!plant_same_weights(&healthy->after[i], &healthy->after[i - 1]));
    }
}

static void record_body(run *r)
{
    with_training(r, record);
}

/* With two steps in flight; the first failure ends it. */
static dpt_status train_ahead(const run *r, training *w)
{
    test *t = r->t;
    while (dpt_trainer_steps(w->trainer) < STEPS) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        const size_t before = dpt_trainer_steps(w->trainer);
        for (size_t n = dpt_trainer_in_flight(w->trainer); n < 2 && before + n < STEPS; n++)
            DPT_TRY(dpt_trainer_submit(w->trainer));
        DPT_TRY(dpt_trainer_collect(w->trainer, &metrics));
        CHECK_SIZE(metrics.step, before + 1);
        CHECK_NEAR(metrics.loss, healthy_of(r)->losses[before + 1], 0.0);
        CHECK(metrics.device_seconds[0] >= 0 && metrics.seconds >= 0);
    }
    return DPT_OK;
}

/* What nobody can trust any more is loaded, and training goes on from there: then the weights are
   no longer those of so many steps of the healthy run. */
static void load_anew(run *r, training *w)
{
    test *t = r->t;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    plant_weights now;
    healthy_of(r)->n_untrusted++;
    if (r->lost) return;
    CHECK_OK(dpt_trainer_load(w->trainer, "initial.safetensors"));
    if (CHECK_OK(plant_read_weights(w->model, w->trainer, 0, &now)))
        CHECK(plant_same_weights(&now, &healthy_of(r)->after[0]));
    CHECK_OK(dpt_trainer_evaluate(w->trainer, w->data, &evaluation));
}

static void train_through(run *r, training *w)
{
    test *t = r->t;
    for (size_t attempts = 0; attempts < STEPS; attempts++) {
        dpt_evaluation evaluation = {.size = sizeof evaluation};
        const size_t before = dpt_trainer_steps(w->trainer);
        if (plant_succeeded(r, train_ahead(r, w), "training")) {
            plant_weights now;
            if (plant_succeeded(r, plant_read_weights(w->model, w->trainer, 0, &now),
                                "dpt_trainer_get"))
                compare_weights(r, w, &now, "at the end");
            return;
        }
        CHECK_SIZE(dpt_trainer_in_flight(w->trainer), 0);
        CHECK(dpt_trainer_steps(w->trainer) >= before);
        const dpt_status status = dpt_trainer_evaluate(w->trainer, w->data, &evaluation);
        if (status != DPT_OK) {
            if (status != DPT_E_DEVICE_LOST || !r->lost) CHECK_STATUS(status, DPT_E_STATE);
            load_anew(r, w);
            return;
        }
        check_weights(r, w, "after a failure");
    }
    FAIL("%s: training does not go on", r->devices);
}

static void through_body(run *r)
{
    with_training(r, train_through);
}

/* ---- A device that is left alone ------------------------------------------------------------- */

/* How often it was told that steps stay in parts, and what was said. */
static size_t take_told(run *r, const training *w, char *said, size_t n_bytes)
{
    test *t = r->t;
    dpt_device_event event = {.size = sizeof event};
    size_t n = 0;
    while (dpt_trainer_next_event(w->trainer, &event)) {
        if (event.kind == DPT_DEVICE_LOST && CHECK_SIZE(event.device, 1)) continue;
        if (!CHECK(event.kind == DPT_STEPS_IN_SEGMENTS)) continue;
        CHECK_SIZE(event.device, 0);
        CHECK_SIZE(event.step, healthy_of(r)->beside + 1);
        snprintf(said, n_bytes, "%s", event.message);
        n++;
    }
    return n;
}

/* Trains as far as the healthy run goes, with as many steps in flight; it does whole steps when,
   and only when, it is alone and not throttled, and if what they take could be made. */
static void train_left_alone(run *r, training *w)
{
    test *t = r->t;
    char said[256] = "";
    const bool never = strstr(r->devices, "throttle") != NULL;
    const size_t beside = healthy_of(r)->beside;
    size_t n_told = 0;
    while (dpt_trainer_steps(w->trainer) < STEPS) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        plant_weights now;
        const size_t step = dpt_trainer_steps(w->trainer) + 1;
        REQUIRE_OK(dpt_trainer_submit(w->trainer));
        REQUIRE_OK(dpt_trainer_collect(w->trainer, &metrics));
        const bool all = step > beside || healthy_of(r)->bare;
        CHECK_SIZE(metrics.shards[0], all ? metrics.samples : metrics.samples / 2);
        n_told += take_told(r, w, said, sizeof said);
        const bool parts = never || n_told > 0;
        CHECK((w->trainer->workers[0].compute.single.program != NULL) == (step > beside && !parts));
        CHECK_NEAR(metrics.loss, healthy_of(r)->losses[step], 0.0);
        REQUIRE_OK(plant_read_weights(w->model, w->trainer, 0, &now));
        compare_weights(r, w, &now, "beside another");
    }
    CHECK_SIZE(n_told, plant_count("fired") > 1); /* beside the other one's loss */
    if (n_told > 0) CHECK_CONTAINS(said, "planted");
    r->failed = true; /* that of the other one */
}

static void train_left_alone_body(run *r)
{
    with_training(r, train_left_alone);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const variant variants[] = {
    {.momentum = 0.9f},
    {.optimizer = DPT_OPTIMIZER_ADAMW, .clip_norm = 0.5f},
    {.momentum = 0},
};
enum { N_VARIANTS = sizeof variants / sizeof *variants, NEVER = 1000000000 };

static bool record_on(test *t, const char *format, const variant *v)
{
    trajectory *healthy = ((plant *)t->user)->fixture;
    const size_t failures = t->n_failures;
    *healthy = (trajectory){.variant = *v};
    CHECK(!plant_once(t, &(plant_list){format, 0}, NEVER, record_body));
    return t->n_failures == failures;
}

/* A device that has passed at once, and one that has not when it is asked. */
static const char whole_now[] = "%s:threads=1:fail=%zu",
                  whole_late[] = "%s:threads=1:lag=1:fail=%zu";
/* The same device, with a reason to do its steps in segments: it is not as fast as it can be. */
static const char in_segments[] = "%s:threads=1:throttle=1.001:fail=%zu";

static void same_bits(test *t)
{
    for (size_t i = 0; i < N_VARIANTS && record_on(t, in_segments, &variants[i]); i++) {
        CHECK(!plant_once(t, &(plant_list){whole_now, 0}, NEVER, through_body));
        CHECK(!plant_once(t, &(plant_list){whole_late, 0}, NEVER, through_body));
    }
}

/* Or the above compares a thing with itself. */
static void different_ways(test *t)
{
    static const struct {
        const char *format;
        bool waits;
    } ways[] = {{"%s:threads=1:throttle=1.001:entry=event_sync:fail=%zu", false},
                {"%s:threads=1:lag=1:entry=event_sync:fail=%zu", true}};
    REQUIRE(record_on(t, whole_now, &variants[0]));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        CHECK(plant_once(t, &(plant_list){ways[i].format, 0}, 2, through_body) == ways[i].waits);
}

static void left_alone_same_bits(test *t)
{
    static const char *const formats[] = {
        "%s:threads=1:throttle=1.001,fault:threads=1:after=2:lost=%zu",
        "%s:threads=1,fault:threads=1:after=2:lost=%zu",
        "%s:threads=1:lag=1,fault:threads=1:after=2:lost=%zu",
    };
    trajectory *healthy = ((plant *)t->user)->fixture;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        const size_t failures = t->n_failures;
        *healthy = (trajectory){.variant = variants[i], .beside = 2};
        CHECK(plant_once(t, &(plant_list){formats[0], 0}, 1, record_body));
        for (size_t k = 0; t->n_failures == failures && k < 3; k++)
            CHECK(plant_once(t, &(plant_list){formats[k], 0}, 1, train_left_alone_body));
    }
}

/* What it takes cannot be made: it is told, and steps stay what they were. */
static void left_alone_in_parts(test *t)
{
    static const char *const hows[] = {"prepare:full", "event_create:full", "prepare:fail"};
    trajectory *healthy = ((plant *)t->user)->fixture;
    *healthy = (trajectory){.variant = variants[0], .beside = 2, .bare = true};
    CHECK(plant_once(
        t, &(plant_list){"%s:threads=1:throttle=1.001,fault:threads=1:after=2:lost=%zu", 0}, 1,
        record_body));
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        char format[128];
        size_t n = 0;
        snprintf(format, sizeof format,
                 "%%s:threads=1:after=2:entry=%s=%%zu,fault:threads=1:after=2:lost=1", hows[i]);
        do
            CHECK(plant_once(t, &(plant_list){format, 0}, ++n, train_left_alone_body));
        while (t->n_failures == 0 && plant_count("fired") > 1);
        printf("  %s: %zu calls failed in turn\n", hows[i], n - 1);
        CHECK(n > 5);
    }
}

static void every_call_fails(test *t)
{
    trajectory *healthy = ((plant *)t->user)->fixture;
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(record_on(t, whole_now, &variants[i]));
        plant_everywhere(t, &(plant_list){i == 0 ? whole_now : whole_late, 0}, through_body);
        printf("  untrusted after %zu\n", healthy->n_untrusted);
        CHECK(healthy->n_untrusted > 0);
    }
}

static void every_call_loses_it(test *t)
{
    REQUIRE(record_on(t, whole_now, &variants[0]));
    plant_everywhere(t, &(plant_list){"%s:threads=1:lag=1:lost=%zu", 0}, through_body);
}

/* Step n has an infinite gradient, found while the next one is under way. */
static void infinite(run *r, training *w)
{
    test *t = r->t;
    const dpt_status status = train_ahead(r, w);
    const size_t steps = dpt_trainer_steps(w->trainer);
    char words[64];
    CHECK_STATUS(status, DPT_E_NOT_FINITE);
    snprintf(words, sizeof words, "gradients of step %zu are not finite", steps + 1);
    CHECK_CONTAINS(dpt_error_message(r->context), words);
    CHECK_SIZE(dpt_trainer_in_flight(w->trainer), 0);
    check_weights(r, w, "after a step that is not finite");
    CHECK_OK(train_ahead(r, w));
    check_weights(r, w, "at the end");
}

static void infinite_body(run *r)
{
    with_training(r, infinite);
}

static void not_finite(test *t)
{
    static const char *const formats[] = {"%s:threads=1:poison=%zu",
                                          "%s:threads=1:lag=1:poison=%zu"};
    for (size_t i = 0; i < N_VARIANTS; i++) {
        REQUIRE(record_on(t, whole_now, &variants[i]));
        for (size_t step = 1; step <= STEPS; step++)
            for (size_t k = 0; k < 2; k++)
                (void)plant_once(t, &(plant_list){formats[k], 0}, step, infinite_body);
    }
}

/* The wait for a step fails that was well, and the one behind it, under way, is not finite: the
   first counts, whatever the halt word is by now. */
static void wait_fails(run *r, training *w)
{
    test *t = r->t;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    CHECK(train_ahead(r, w) != DPT_OK);
    r->failed = true;
    CHECK_OK(dpt_trainer_evaluate(w->trainer, w->data, &evaluation));
    check_weights(r, w, "after a failed wait");
}

static void wait_fails_body(run *r)
{
    with_training(r, wait_fails);
}

static void not_finite_behind(test *t)
{
    for (size_t i = 0; i < N_VARIANTS; i++) {
        REQUIRE(record_on(t, whole_now, &variants[i]));
        for (size_t k = 1; k + 1 < STEPS; k++) {
            char format[96];
            snprintf(format, sizeof format,
                     "%%s:threads=1:lag=1:entry=event_sync:poison=%zu:fail=%%zu", k + 1);
            (void)plant_once(t, &(plant_list){format, 0}, k, wait_fails_body);
        }
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"same_bits", same_bits},
        {"different_ways", different_ways},
        {"left_alone_same_bits", left_alone_same_bits},
        {"left_alone_in_parts", left_alone_in_parts},
        {"not_finite", not_finite},
        {"not_finite_behind", not_finite_behind},
        {"every_call_fails", every_call_fails},
        {"every_call_loses_it", every_call_loses_it},
    };
    if (!plant_setup()) {
        fputs("usage: test-fault-single-launch [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = "faultstaged", .fixture = calloc(1, sizeof(trajectory))};
    if (!p.fixture) return 1;
    const int result =
        test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, &p);
    free(p.fixture);
    return result;
}
