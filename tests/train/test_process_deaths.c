/* Tests that a training goes on when processes die, whatever call of the transport they die in: the
   others end with the bits of an undisturbed training, and the log has each step once.  So it is
   where devices hold the optimizer's state in parts. */
#include "harness.h"
#include "train/components/checksum.h"
#include "train/processes.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Two whole epochs, and a part of a third one. */
enum { MOST = 4, BATCH = 20, COUNT = 60, STEPS = 5, MOST_CALLS = 3000 };

/* One training, and what has come of it, by the ranks at the start. */
typedef struct course {
    const image_set *data;
    const char *devices;
    const char *split; /* NULL: equal */
    size_t local_steps;
    dpt_shard shard;
    size_t deaths[MOST];
    dpt_status statuses[MOST];
    char messages[MOST][512];
    dpt_fit_result results[MOST];
    uint64_t weights[MOST]; /* a hash of them */
    size_t n_tries[MOST];   /* calls of dpt_fit */
    size_t n_left;          /* processes at the end */
} course;

/* ---- Training -------------------------------------------------------------------------------- */

/* What a process has. */
typedef struct process {
    dpt_context *context;
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
} process;

static dpt_status note_weights(uint64_t *hash, dpt_trainer *t)
{
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    const dpt_status status = dpti_trainer_read(t, 0, DPT_PARAMETER, flat);
    *hash = dpti_checksum(1, flat, t->model->flat_size * sizeof *flat);
    free(flat);
    return status;
}

static dpt_status open_process(const course *c, size_t rank, process *p)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    char list[256];
    stand_ins_devices(c->devices, rank, list);
    DPT_TRY(images_open(p->context, c->data, COUNT, &p->data));
    DPT_TRY(dpt_device_set_open(p->context, list, &p->devices));
    return dpt_model_by_name(p->context, "linear", &shape, &p->model);
}

static dpt_status try_once(course *c, process *p, size_t rank)
{
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = BATCH,
        .split = dpt_split_from(c->split ? c->split : "equal"),
        .momentum = 0.9f,
        .seed = 1,
        .deterministic = c->local_steps == 0,
        .local_steps = c->local_steps,
        .shard = c->shard,
    };
    const dpt_fit_options how = {.size = sizeof how,
                                 .max_steps = STEPS,
                                 .checkpoint = "kept",
                                 .log = "kept.jsonl",
                                 .test = p->data,
                                 .validation = p->data};
    DPT_TRY(dpt_trainer_create(p->devices, p->model, p->data, &options, &p->trainer));
    c->n_tries[rank]++;
    c->results[rank].size = sizeof c->results[rank];
    DPT_TRY(dpt_fit(p->trainer, &how, &c->results[rank]));
    return note_weights(&c->weights[rank], p->trainer);
}

static dpt_status train_in(course *c, dpt_context *context, size_t rank)
{
    process p = {.context = context};
    dpt_status status = open_process(c, rank, &p);
    if (status == DPT_OK) status = try_once(c, &p, rank);
    while (status != DPT_OK && dpt_process_can_go_on(context)) {
        dpt_trainer_destroy(p.trainer);
        p.trainer = NULL;
        status = dpt_process_go_on(context);
        if (status == DPT_OK) status = try_once(c, &p, rank);
    }
    dpt_trainer_destroy(p.trainer);
    dpt_model_destroy(p.model);
    dpt_device_set_close(p.devices);
    dpt_dataset_destroy(p.data);
    return status;
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    course *c = user;
    c->statuses[rank] = train_in(c, context, rank);
    snprintf(c->messages[rank], sizeof c->messages[rank], "%s", dpt_error_message(context));
    if (c->statuses[rank] == DPT_OK) c->n_left = dpt_process_count(context);
    return c->statuses[rank];
}

static void train(course *c)
{
    char message[512] = "";
    (void)!system("rm -rf kept kept.jsonl");
    memset(c->n_tries, 0, sizeof c->n_tries);
    c->n_left = 0;
    stand_ins_die(c->deaths);
    (void)alarm(120); /* nothing may wait for ever */
    (void)stand_ins_run(stand_ins_count(c->devices), part, c, message);
    (void)alarm(0);
    stand_ins_die(NULL);
}

/* ---- The log --------------------------------------------------------------------------------- */

typedef struct steps {
    size_t n, epochs[STEPS];
    double losses[STEPS];
    bool in_order;
    size_t n_epochs, n_lost, n_resumed; /* events */
} steps;

/* Of the last step in the log. */
static char last_shards[64];

static void note_shards(const char *line)
{
    const char *from = strstr(line, "\"shards\":");
    if (!from) return;
    from += strlen("\"shards\":");
    snprintf(last_shards, sizeof last_shards, "%.*s", (int)strcspn(from, "]") + 1, from);
}

static double number(const char *line, const char *key)
{
    const char *found = strstr(line, key);
    return found ? strtod(found + strlen(key), NULL) : NAN;
}

static bool read_log(steps *out)
{
    static char line[1 << 16];
    FILE *file = fopen("kept.jsonl", "r");
    *out = (steps){.in_order = true};
    if (!file) return false;
    while (fgets(line, sizeof line, file)) {
        out->n_epochs += strstr(line, "\"event\":\"epoch\"") != NULL;
        out->n_lost += strstr(line, "\"event\":\"device_lost\"") != NULL;
        out->n_resumed += strstr(line, "\"event\":\"resume\"") != NULL;
        if (!strstr(line, "\"event\":\"step\"")) continue;
        note_shards(line);
        if (out->n == STEPS || (size_t)number(line, "\"step\":") != out->n + 1)
            out->in_order = false;
        if (out->n == STEPS) continue;
        out->epochs[out->n] = (size_t)number(line, "\"epoch\":");
        out->losses[out->n++] = number(line, "\"loss\":");
    }
    (void)fclose(file);
    return true;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static course undisturbed(const test *t, const char *devices)
{
    course c = {.data = t->user, .devices = devices};
    for (size_t r = 0; r < MOST; r++)
        c.deaths[r] = SIZE_MAX;
    return c;
}

static void describe(const course *c, char out[256])
{
    int n = 0;
    for (size_t r = 0; r < stand_ins_count(c->devices); r++)
        if (c->deaths[r] != SIZE_MAX)
            n += snprintf(out + n, 256 - (size_t)n, "process %zu dies in call %zu, ", r,
                          c->deaths[r]);
}

/* The results of a step that only a dead process knew are estimated: one step for each death. */
static bool same_course(const steps *a, const steps *b, size_t n_deaths)
{
    size_t n_others = 0;
    bool same = a->in_order && b->in_order && a->n == STEPS && b->n == STEPS;
    for (size_t i = 0; same && i < STEPS; i++) {
        same = a->epochs[i] == b->epochs[i];
        n_others += a->losses[i] != b->losses[i];
    }
    return same && n_others <= n_deaths && a->n_epochs == b->n_epochs;
}

/* Whether one dies whose death was planted: else it has lived to the end. */
static bool check_left(test *t, const course *c, const course *right, const steps *whole)
{
    char words[256] = "";
    const size_t n = stand_ins_count(c->devices);
    size_t n_dead = 0;
    steps log;
    describe(c, words);
    for (size_t r = 0; r < n; r++)
        n_dead += c->deaths[r] != SIZE_MAX && c->statuses[r] != DPT_OK;
    for (size_t r = 0; r < n; r++) {
        if (c->deaths[r] != SIZE_MAX && c->statuses[r] != DPT_OK) continue;
        const bool right_end = c->statuses[r] == DPT_OK && c->weights[r] == right->weights[r] &&
                               c->results[r].steps == STEPS &&
                               c->results[r].epochs == right->results[r].epochs;
        if (!CHECK(right_end))
            FAIL("%sprocess %zu: %zu steps, %s weights: %s", words, r, c->results[r].steps,
                 c->weights[r] == right->weights[r] ? "the same" : "other", c->messages[r]);
    }
    if (!CHECK(n == n_dead || c->n_left == n - n_dead)) FAIL("%s%zu are left", words, c->n_left);
    if (n_dead < n && (!CHECK(read_log(&log)) || !CHECK(same_course(&log, whole, n_dead))))
        FAIL("%sthe log has %zu steps and %zu epochs", words, log.n, log.n_epochs);
    return n_dead > 0;
}

static bool begin(test *t, const char *devices, course *right, steps *whole)
{
    *right = undisturbed(t, devices);
    train(right);
    for (size_t r = 0; r < stand_ins_count(devices); r++)
        if (!CHECK_OK(right->statuses[r])) FAIL("process %zu: %s", r, right->messages[r]);
    return CHECK(read_log(whole)) && CHECK(whole->in_order && whole->n == STEPS);
}

static const char three[] = "cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1";

/* One process dies in every call that it makes, or in every one of a stride. */
static void one_dies(test *t)
{
    course right;
    steps whole;
    if (!begin(t, three, &right, &whole)) return;
    for (size_t r = 0; r < 3; r++) {
        size_t call = r % test_stride();
        for (bool dies = true; dies && CHECK(call < MOST_CALLS); call += test_stride()) {
            course c = undisturbed(t, three);
            c.deaths[r] = call;
            train(&c);
            dies = check_left(t, &c, &right, &whole);
        }
        CHECK(call > STEPS);
    }
}

/* Another one dies in the call `more` calls after, which is in the recovery from the first death,
   or behind it.  Returns whether it dies. */
static bool two_die(test *t, const course *right, const steps *whole, size_t first, size_t second,
                    size_t call, size_t more)
{
    course c = undisturbed(t, right->devices);
    c.deaths[first] = call;
    c.deaths[second] = call + more;
    train(&c);
    (void)check_left(t, &c, right, whole);
    return c.statuses[second] != DPT_OK;
}

static void two_die_in_turn(test *t)
{
    static const struct {
        size_t first, second, call, stride;
    } cases[] = {
        {0, 1, 12, 11}, /* while trainers are created */
        {2, 0, 75, 1},  /* in a step */
        {0, 1, 75, 5},
        {1, 2, 95, 7},
    };
    course right;
    steps whole;
    if (!begin(t, three, &right, &whole)) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t more = 0;
        while (CHECK(more < MOST_CALLS) &&
               two_die(t, &right, &whole, cases[i].first, cases[i].second, cases[i].call, more))
            more += cases[i].stride > test_stride() ? cases[i].stride : test_stride();
        CHECK(more > 0);
    }
}

/* The same where devices hold the training state in parts: the others have what the dead process
   had, whatever it was about to do. */
static void one_dies_with_parts(test *t)
{
    course right;
    steps whole;
    if (!begin(t, three, &right, &whole)) return;
    for (size_t r = 0; r < 3 * DPT_SHARD_PARAMETERS; r++) {
        size_t call = r % test_stride();
        for (bool dies = true; dies && CHECK(call < MOST_CALLS); call += test_stride()) {
            course c = undisturbed(t, three);
            c.shard = (dpt_shard)(DPT_SHARD_OPTIMIZER + (int)r / 3);
            c.deaths[r % 3] = call;
            train(&c);
            dies = check_left(t, &c, &right, &whole);
        }
        CHECK(call > STEPS);
    }
}

/* Two die while parts are exchanged, or one in the recovery from the other's death. */
static void two_die_with_parts(test *t)
{
    course right;
    steps whole;
    if (!begin(t, three, &right, &whole)) return;
    for (size_t call = 60; call < 140; call += 1 + test_stride())
        for (size_t more = 0; more < 30; more += 7) {
            course c = undisturbed(t, three);
            c.shard = (dpt_shard)(DPT_SHARD_OPTIMIZER + (int)((call + more) % 3));
            c.deaths[call % 3] = call;
            c.deaths[(call + 1) % 3] = call + more;
            train(&c);
            (void)check_left(t, &c, &right, &whole);
        }
}

/* Three of four die, wherever the training is. */
static void one_is_left(test *t)
{
    course right;
    steps whole;
    if (!begin(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1|cpu:threads=1", &right, &whole))
        return;
    for (size_t call = 0; call < 110; call += 9) {
        course c = undisturbed(t, right.devices);
        c.deaths[0] = call;
        c.deaths[1] = call + 40;
        c.deaths[3] = call + 70;
        train(&c);
        (void)check_left(t, &c, &right, &whole);
    }
}

/* A split of proportions has numbers for all devices of the start. */
static void split_is_kept(test *t)
{
    static const size_t calls[] = {0, 4, 90};
    course right;
    steps whole;
    if (!begin(t, three, &right, &whole)) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        course c = undisturbed(t, three);
        c.split = "3:1:1:5";
        c.deaths[1] = calls[i];
        train(&c);
        (void)check_left(t, &c, &right, &whole);
        if (!CHECK(strcmp(last_shards, "[8,12]") == 0))
            FAIL("dies in call %zu: %s", calls[i], last_shards);
    }
    /* Nobody knows whose numbers are whose. */
    course c = undisturbed(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1|cpu:threads=1");
    c.split = "3:1:1:5";
    c.deaths[0] = c.deaths[2] = 0;
    train(&c);
    for (size_t r = 1; r < 4; r += 2)
        if (!CHECK(c.statuses[r] == DPT_E_INVALID) ||
            !CHECK(strstr(c.messages[r], "died before they told their devices")))
            FAIL("%s", c.messages[r]);
}

/* With local steps processes have different weights, and the training ends. */
static void local_steps_end(test *t)
{
    for (size_t call = 0; call < 90; call += 15) {
        course c = undisturbed(t, three);
        c.local_steps = 2;
        c.deaths[1] = call;
        train(&c);
        for (size_t r = 0; r < 3; r++)
            if (!CHECK(c.statuses[r] != DPT_OK)) FAIL("dies in call %zu", call);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"one process dies, in any call", one_dies},
        {"two die, one after the other", two_die_in_turn},
        {"one process dies, with parts", one_dies_with_parts},
        {"two die, with parts", two_die_with_parts},
        {"one is left", one_is_left},
        {"a split of proportions", split_is_kept},
        {"local steps", local_steps_end},
    };
    static image_set data;
    if (!images_create(COUNT, 7, &data)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &data);
    images_free(&data);
    return code;
}
