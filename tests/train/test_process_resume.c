/* Tests recorded algorithms in checkpoints of several processes: each process's devices use their
   recorded algorithms again, whatever they would choose now, and so do devices that belong to
   another process now.  If anything fails meanwhile, all processes get the failure. */
#include "harness.h"
#include "train/algorithms.h"
#include "train/components/checksum.h"
#include "train/peers/header_check.h"
#include "train/processes.h"
#include "train/programs/worker.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4, DEVICES = 8, BATCH = 24, COUNT = 100, HALF = 3, STEPS = 7, CAUSE = 77 };

/* One training, and what has come of it. */
typedef struct course {
    const image_set *data;
    const char *devices;
    const char *columns; /* which devices, in the order of all, find filters' gradients so: "01" */
    const char *split;   /* NULL: equal */
    bool resume, compress, states;
    bool evaluates; /* the training data, after each epoch */
    size_t stops;   /* the process that asks for the end in an evaluation; MOST: none does */
    dpt_fit_result results[MOST];
    size_t max_steps;
    size_t n_devices;
    char ways[DEVICES][24];
    uint64_t weights[MOST]; /* a hash of each process's */
    dpt_status statuses[MOST];
    char messages[MOST][512];
} course;

static bool is_filters(const char *kind)
{
    return strcmp(kind, "CONV2D_BACKWARD_WEIGHTS") == 0;
}

/* As if it had been measured to be the fastest. */
static bool choose(dpti_worker *w)
{
    for (size_t k = 0; k < w->kept.n; k++) {
        dpti_recorded_choice *c = &w->kept.items[k];
        if (!is_filters(c->kind)) continue;
        free(c->algorithm);
        c->algorithm = strdup("columns");
        if (!c->algorithm) return false;
    }
    return true;
}

/* All of them prepare their devices anew. */
static dpt_status choose_some(const course *c, dpt_trainer *t)
{
    if (!c->columns) return DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++)
        if (c->columns[t->first_device + i] == '1' && !choose(&t->workers[i]))
            return DPT_E_NO_MEMORY;
    return dpti_algorithms_gather(t, dpti_trainer_rebuild(t));
}

static dpt_status note_ways(course *c, const dpt_trainer *t)
{
    dpt_operation o = {.size = sizeof o};
    for (size_t i = t->first_device; i < t->first_device + t->n_workers; i++)
        for (size_t k = 0; k < dpt_trainer_operation_count(t, i); k++) {
            DPT_TRY(dpt_trainer_operation(t, i, k, &o));
            if (is_filters(o.kind)) snprintf(c->ways[i], sizeof c->ways[i], "%s", o.algorithm);
        }
    if (t->first_device == 0) c->n_devices = t->n_devices; /* the same everywhere */
    return DPT_OK;
}

static dpt_status note_weights(course *c, size_t rank, dpt_trainer *t)
{
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    const dpt_status status = dpti_trainer_read(t, 0, DPT_PARAMETER, flat);
    c->weights[rank] = dpti_checksum(1, flat, t->model->flat_size * sizeof *flat);
    free(flat);
    return status;
}

/* Called without anything in an evaluation. */
static int ends_evaluations(const dpt_fit_progress *progress, void *user)
{
    (void)user;
    return progress->step || progress->epoch || progress->event ? 0 : CAUSE;
}

/* By steps and states, or by dpt_fit. */
static dpt_status run(course *c, dpt_trainer *t)
{
    const size_t rank = dpt_process_rank(t->context);
    dpt_fit_result *result = &c->results[rank];
    dpt_step_metrics m = {.size = sizeof m};
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = c->max_steps,
                                     .checkpoint = "kept",
                                     .resume = c->resume,
                                     .log = "kept.jsonl",
                                     .test = c->evaluates ? t->data : NULL,
                                     .validation = c->evaluates ? t->data : NULL,
                                     .metrics = c->evaluates,
                                     .progress = rank == c->stops ? ends_evaluations : NULL};
    result->size = sizeof *result;
    if (!c->states) return dpt_fit(t, &options, result);
    if (c->resume) DPT_TRY(dpt_trainer_load_state(t, "kept.state"));
    while (dpt_trainer_steps(t) < c->max_steps)
        DPT_TRY(dpt_trainer_step(t, &m));
    return dpt_process_rank(t->context) == 0 ? dpt_trainer_save_state(t, "kept.state") : DPT_OK;
}

static dpt_status train_in(course *c, dpt_context *context, size_t rank)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = BATCH,
        .split = dpt_split_from(c->split ? c->split : "equal"),
        .compress = c->compress ? DPT_COMPRESS_BF16 : DPT_COMPRESS_NONE,
        .momentum = 0.9f,
        .seed = 1,
    };
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(c->devices, rank, list);
    dpt_status status = images_open(context, c->data, COUNT, &data);
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = dpt_model_by_name(context, "lenet", &shape, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK) status = choose_some(c, trainer);
    if (status == DPT_OK) status = run(c, trainer);
    if (status == DPT_OK) status = note_ways(c, trainer);
    if (status == DPT_OK) status = note_weights(c, rank, trainer);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    course *c = user;
    c->statuses[rank] = train_in(c, context, rank);
    snprintf(c->messages[rank], sizeof c->messages[rank], "%s", dpt_error_message(context));
    return c->statuses[rank];
}

static dpt_status train_alone(course *c)
{
    dpt_context *context = NULL;
    DPT_TRY(dpt_context_create(&context));
    const dpt_status status = part(context, 0, c);
    dpt_context_destroy(context);
    return status;
}

static dpt_status train(course *c)
{
    char message[512] = "";
    const size_t n = stand_ins_count(c->devices);
    memset(c->ways, 0, sizeof c->ways);
    (void)alarm(120); /* nothing may wait for ever */
    const dpt_status status = n > 1 ? stand_ins_run(n, part, c, message) : train_alone(c);
    (void)alarm(0);
    return status;
}

static bool trains(test *t, course *c)
{
    if (CHECK_OK(train(c))) return true;
    FAIL("%s: %s", c->devices, c->messages[0]);
    return false;
}

static course on(const test *t, const char *devices)
{
    return (course){.data = t->user, .devices = devices, .max_steps = STEPS, .stops = MOST};
}

static void forget(void)
{
    (void)!system("rm -rf kept kept.jsonl kept.state");
}

/* A training, whose checkpoint stays, of which some devices find gradients in columns. */
static bool leaves(test *t, const course *of, size_t n_steps)
{
    course c = *of;
    c.max_steps = n_steps;
    forget();
    return trains(t, &c);
}

static void check_ways(test *t, const course *c, const char *columns)
{
    CHECK_SIZE(c->n_devices, strlen(columns));
    for (size_t i = 0; i < c->n_devices; i++)
        if (!CHECK(strcmp(c->ways[i], columns[i] == '1' ? "columns" : "direct") == 0))
            FAIL("%s: device %zu: %s", c->devices, i, c->ways[i]);
}

/* What is resumed by devices that would choose otherwise is the training that was not interrupted.
 */
static void check_same_bits(test *t, course whole)
{
    course rest = whole;
    rest.resume = true;
    rest.columns = NULL;
    const size_t n = stand_ins_count(whole.devices);
    forget();
    if (!trains(t, &whole) || !leaves(t, &whole, HALF) || !trains(t, &rest)) return;
    check_ways(t, &rest, whole.columns);
    for (size_t r = 0; r < n; r++)
        CHECK(rest.weights[r] == whole.weights[0]);
}

static void each_goes_on_by_its_own(test *t)
{
    static const char *const cases[][2] = {
        {"cpu:threads=1|cpu:threads=1", "01"},
        {"cpu:threads=1|cpu:threads=1", "10"},
        {"cpu:threads=1|cpu:threads=1", "11"},
        {"cpu:threads=1,cpu:threads=1|cpu:threads=1|cpu:threads=1,cpu:threads=1", "01001"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t compress = 0; compress < 2; compress++) {
            course c = on(t, cases[i][0]);
            c.columns = cases[i][1];
            c.compress = compress;
            check_same_bits(t, c);
        }
}

/* A device of the other process that has no samples has chosen nothing. */
static void one_without_samples(test *t)
{
    course c = on(t, "cpu:threads=1|cpu:threads=1,cpu:threads=1"), all;
    c.split = "1:0:1";
    c.columns = "001";
    if (!leaves(t, &c, HALF)) return;
    all = c;
    all.resume = true;
    all.columns = all.split = NULL;
    if (trains(t, &all)) check_ways(t, &all, "001");
}

/* A device counts by what it is and where it stands among all of them, not by its process. */
static void in_other_processes(test *t)
{
    static const struct move {
        const char *from, *columns, *to, *found;
    } moves[] = {
        {"cpu:threads=1|cpu:threads=1", "01", "cpu:threads=1,cpu:threads=1", "01"},
        {"cpu:threads=1,cpu:threads=1", "01", "cpu:threads=1|cpu:threads=1", "01"},
        {"cpu:threads=1,cpu:threads=1|cpu:threads=1", "011",
         "cpu:threads=1|cpu:threads=1,cpu:threads=1", "011"},
        {"cpu:threads=1|cpu:threads=1", "11", "cpu:threads=1|cpu:threads=1:algorithm=direct", "10"},
        {"cpu:threads=1|cpu:threads=1", "11", "cpu:threads=1|cpu:threads=1|cpu:threads=1", "000"},
        {"cpu:threads=1|cpu:threads=1", "11", "cpu:threads=1", "0"},
        {"cpu:threads=1|cpu:threads=1|cpu:threads=1", "111", "cpu:threads=1|cpu:threads=1", "00"},
        {"cpu:threads=1", "1", "cpu:threads=1|cpu:threads=1", "00"},
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        course c = on(t, moves[i].from);
        c.columns = moves[i].columns;
        if (!leaves(t, &c, HALF)) continue;
        course moved = on(t, moves[i].to);
        moved.resume = true;
        if (trains(t, &moved)) check_ways(t, &moved, moves[i].found);
    }
}

/* Whoever writes it, outside of dpt_fit too, has the algorithms of all; and of several processes
   each chooses for itself where it is loaded there, since the others need not. */
static void in_a_state(test *t)
{
    course c = on(t, "cpu:threads=1|cpu:threads=1"), one, two;
    c.columns = "01";
    c.states = true;
    if (!leaves(t, &c, HALF)) return;
    two = on(t, c.devices);
    two.states = two.resume = true;
    two.max_steps = HALF;
    if (trains(t, &two)) check_ways(t, &two, "00");
    if (!leaves(t, &c, HALF)) return;
    one = two;
    one.devices = "cpu:threads=1,cpu:threads=1";
    if (trains(t, &one)) check_ways(t, &one, "01");
}

/* Two checkpoints on, and in the log. */
static void again_and_again(test *t)
{
    course c = on(t, "cpu:threads=1|cpu:threads=1");
    c.columns = "01";
    char line[1 << 16];
    size_t n = 0, n_columns = 0;
    if (!leaves(t, &c, HALF)) return;
    c.columns = NULL;
    c.resume = true;
    for (c.max_steps = HALF + 1; c.max_steps < STEPS; c.max_steps++)
        if (trains(t, &c)) check_ways(t, &c, "01");
    FILE *file = fopen("kept.jsonl", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "{\"event\":\"algorithms\"", 21) != 0) continue;
        n++;
        n_columns += strstr(line, "columns") != NULL && strstr(line, "\"device\":1") != NULL;
    }
    if (file) fclose(file);
    CHECK_SIZE(n, 2 * (STEPS - HALF));
    CHECK_SIZE(n_columns, STEPS - HALF);
}

/* ---- Evaluations ----------------------------------------------------------------------------- */

/* One process asks for the end in an evaluation: all end there, and know who has asked.  What is
   resumed evaluates, and is the training that was not interrupted. */
static void all_break_off(test *t)
{
    enum { EPOCH_STEPS = 5 };
    static const char three[] = "cpu:threads=1,cpu:threads=1|cpu:threads=1|cpu:threads=1";
    course plain = on(t, three);
    plain.evaluates = true;
    course whole = plain;
    forget();
    if (!trains(t, &whole)) return;
    for (size_t stops = 0; stops < 3; stops++) {
        course first = plain, rest = plain;
        forget();
        first.stops = stops;
        if (!trains(t, &first)) return;
        for (size_t r = 0; r < 3; r++) {
            CHECK(first.results[r].stopped);
            CHECK_SIZE(first.results[r].stopped_by, stops);
            CHECK(first.results[r].stopped_for == CAUSE);
            CHECK_SIZE(first.results[r].steps, EPOCH_STEPS);
            CHECK_SIZE(first.results[r].epochs, 0);
        }
        rest.resume = true;
        if (!trains(t, &rest)) return;
        for (size_t r = 0; r < 3; r++) {
            CHECK(!rest.results[r].stopped);
            CHECK(rest.weights[r] == whole.weights[0]);
            CHECK_SIZE(rest.results[r].epochs, 1);
            CHECK_SIZE(rest.results[r].best_epoch, whole.results[r].best_epoch);
            CHECK_NEAR(rest.results[r].best_validation_loss, whole.results[r].best_validation_loss,
                       0);
            CHECK_NEAR(rest.results[r].test_loss, whole.results[r].test_loss, 0);
        }
    }
}

/* ---- What fails ------------------------------------------------------------------------------ */

/* A call of a device, in one process, while all prepare theirs anew. */
static void a_device_fails(test *t)
{
    course before = on(t, "cpu:threads=1|cpu:threads=1");
    before.columns = "10";
    size_t n_failed = 0, call = 1;
    for (; CHECK(call < 10000); call += 7) {
        char devices[128];
        if (!leaves(t, &before, HALF)) return;
        snprintf(devices, sizeof devices, "cpu:threads=1|fault:threads=1:fail=%zu", call);
        course c = on(t, devices);
        c.resume = true;
        c.max_steps = HALF + 1;
        if (train(&c) == DPT_OK) break;
        n_failed++;
        for (size_t r = 0; r < 2; r++) {
            const bool told = strstr(c.messages[r], "fault:threads=1:fail") != NULL;
            const bool cut = strstr(c.messages[r], "is cut") != NULL;
            if (!CHECK(c.statuses[r] != DPT_OK) || !CHECK(told || (r == 0 && cut)))
                FAIL("call %zu, process %zu: %s", call, r, c.messages[r]);
        }
    }
    printf("  %zu failures in %zu calls\n", n_failed, call);
    CHECK(n_failed > 20);
}

static void the_transport_fails(test *t)
{
    course before = on(t, "cpu:threads=1|cpu:threads=1");
    before.columns = "01";
    size_t n_failed = 0;
    for (size_t after = 0; after < 400; after += 1 + after / 20) {
        if (!leaves(t, &before, HALF)) return;
        course c = on(t, before.devices);
        c.resume = true;
        c.max_steps = HALF + 1;
        stand_ins_fail(n_failed % 2, after);
        const dpt_status status = train(&c);
        stand_ins_fail(0, SIZE_MAX);
        if (status == DPT_OK) break;
        n_failed++;
        for (size_t r = 0; r < 2; r++)
            if (!CHECK(c.statuses[r] != DPT_OK) || !CHECK(strstr(c.messages[r], "is cut")))
                FAIL("after %zu, process %zu: %s", after, r, c.messages[r]);
    }
    CHECK(n_failed > 20);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"each goes on by its own", each_goes_on_by_its_own},
        {"one without samples", one_without_samples},
        {"in other processes", in_other_processes},
        {"in a state", in_a_state},
        {"again and again", again_and_again},
        {"all break off", all_break_off},
        {"a device fails", a_device_fails},
        {"the transport fails", the_transport_fails},
    };
    static image_set data;
    add_fault_plugins();
    if (!images_create(COUNT, 7, &data)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &data);
    forget();
    images_free(&data);
    return code;
}
