/* Tests shards that follow throughput: a device that is slowed down gets fewer samples, the log
   records when and why, and a replay of the log gives the same weights to the bit.  A device whose
   speed changes is followed.

   Devices compute as the CPU does, and their events report a simulated time, so that the load of
   this machine does not matter.  Only the all-reduce is timed by the host's clock; it is a
   hundredth of a step. */
#include "device/device.h"
#include "device/throttle.h"
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, STEPS = 30, DEVICES = 2, CONV1 = 20 * 3 * 3 };

static const char devices_list[] = "fault:threads=1:clock=1,fault:threads=1:clock=1:throttle=8";
static const char log_path[] = "measured.jsonl";

typedef struct setting {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static void close_all(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
}

static dpt_status open_all(const char *list, const char *split, setting *s)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .seed = 5,
                                         .split = dpt_split_from(split)};
    *s = (setting){.context = NULL};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(dpt_device_set_open(s->context, list, &s->devices));
    DPT_TRY(dpt_dataset_open(s->context, "synthetic:28x28x1:10:1000", NULL, DPT_TRAIN, &s->data));
    DPT_TRY(dpt_model_by_name(s->context, "lenet", &shape, &s->model));
    return dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer);
}

/* What the steps were: the last shares, and the weights. */
typedef struct outcome {
    size_t n_steps, n_changes;
    size_t shards[DEVICES];
    bool whole; /* the shares always summed up to the batch */
    double throughput[DEVICES];
    float weights[CONV1];
} outcome;

static int note(const dpt_fit_progress *progress, void *user)
{
    outcome *o = user;
    const dpt_step_metrics *m = progress->step;
    if (!m) return 0;
    size_t sum = 0;
    o->n_steps++;
    o->n_changes += m->rebalance != NULL;
    for (size_t i = 0; i < DEVICES; i++) {
        sum += o->shards[i] = m->shards[i];
        o->throughput[i] = m->throughput[i];
    }
    o->whole = o->whole && sum == m->samples;
    return 0;
}

static void train(test *t, const char *split, const char *log, size_t n_steps, outcome *o)
{
    setting s;
    dpt_fit_result result = {.size = sizeof result};
    *o = (outcome){.whole = true};
    const dpt_fit_options fit = {
        .size = sizeof fit, .max_steps = n_steps, .log = log, .progress = note, .user = o};
    if (!CHECK_OK(open_all(devices_list, split, &s)) ||
        !CHECK_OK(dpt_fit(s.trainer, &fit, &result)))
        FAIL("%s", dpt_error_message(s.context));
    else
        CHECK_OK(dpt_trainer_get(s.trainer, 0, DPT_PARAMETER, "conv1.weight", o->weights, CONV1));
    close_all(&s);
}

static bool has_clock(void)
{
    return getenv("DPTRAIN_FAULT_INNER") != NULL;
}

static void a_slow_device_gets_less(test *t)
{
    outcome o;
    if (!has_clock()) SKIP("there is no device with a simulated clock");
    train(t, NULL, log_path, STEPS, &o);
    CHECK_SIZE(o.n_steps, STEPS);
    CHECK(o.whole);
    CHECK(o.n_changes >= 2); /* the start, and a calibration */
    CHECK(o.shards[0] > 2 * o.shards[1]);
    CHECK(o.throughput[0] > 2 * o.throughput[1] && o.throughput[1] > 0);
}

static size_t count_lines(const char *path, const char *part)
{
    char line[4096];
    size_t n = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        n += strstr(line, part) != NULL;
    if (file) fclose(file);
    return n;
}

static void its_log_repeats_it(test *t)
{
    outcome measured, replayed;
    if (!has_clock()) SKIP("there is no device with a simulated clock");
    train(t, "measured", log_path, STEPS, &measured);
    CHECK_SIZE(count_lines(log_path, "\"event\":\"rebalance\""), measured.n_changes);
    CHECK_SIZE(count_lines(log_path, "\"reason\":\"start\""), 1);
    CHECK_SIZE(count_lines(log_path, "\"reason\":\"calibration\""), 1);
    train(t, "replay:measured.jsonl", NULL, STEPS, &replayed);
    CHECK(memcmp(measured.weights, replayed.weights, sizeof measured.weights) == 0);
    CHECK(memcmp(measured.shards, replayed.shards, sizeof measured.shards) == 0);
    CHECK_SIZE(replayed.n_changes, 0);
}

/* With one device there is nothing to measure, and nothing to tell. */
static void one_device_has_all(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    if (CHECK_OK(open_all("cpu:threads=1", "measured", &s))) {
        for (int i = 0; i < 3; i++) {
            CHECK_OK(dpt_trainer_step(s.trainer, &m));
            CHECK_SIZE(m.shards[0], BATCH);
            CHECK(m.rebalance == NULL);
        }
    }
    close_all(&s);
}

/* A device whose memory holds less than its shard computes it in micro-batches, and gets it all the
 * same.
 */
static void memory_bounds_no_shards(test *t)
{
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_plan plan = {.size = sizeof plan};
    if (CHECK_OK(open_all("cpu:threads=1:throttle=8,cpu:threads=1:memory=4M", NULL, &s))) {
        CHECK_OK(dpt_trainer_plan(s.trainer, 1, &plan));
        CHECK(plan.micro_batch < BATCH / 2);
        for (int i = 0; i < 15; i++) {
            REQUIRE_OK(dpt_trainer_step(s.trainer, &m));
            CHECK(m.shards[0] + m.shards[1] == m.samples);
        }
        CHECK(m.shards[1] > plan.micro_batch);
    } else {
        FAIL("%s", dpt_error_message(s.context));
    }
    close_all(&s);
}

/* ---- A device whose speed changes ------------------------------------------------------------ */

/* A third of the steps as they are, a third with the second device three times slower, a third as
   before. */
enum { PHASES = 3, PHASE_STEPS = 35, LAST = 10, SLOWER = 3 };

typedef struct course {
    dpt_device_set *devices;
    size_t shards[PHASES][DEVICES]; /* sums over the last full batches of each phase */
    size_t n_noted[PHASES];
    size_t n_steps;
    bool stepped; /* a change was noticed as one */
} course;

/* Called with a step in flight: the next ones have another speed. */
static int change_speed(const dpt_fit_progress *progress, void *user)
{
    course *c = user;
    const dpt_step_metrics *m = progress->step;
    if (!m) return 0;
    const size_t phase = c->n_steps / PHASE_STEPS, within = c->n_steps % PHASE_STEPS;
    c->n_steps++;
    c->stepped = c->stepped || (m->rebalance && strcmp(m->rebalance, "step change") == 0);
    if (phase >= PHASES) return 0;
    if (within >= PHASE_STEPS - LAST && m->samples == BATCH) {
        c->n_noted[phase]++;
        for (size_t i = 0; i < DEVICES; i++)
            c->shards[phase][i] += m->shards[i];
    }
    if (within == PHASE_STEPS - 1)
        dpti_device_set_throttle(dpti_device_of(dpt_device_set_get(c->devices, 1)),
                                 phase == 0 ? SLOWER : 1.0);
    return 0;
}

static void shards_follow_a_throttle_and_come_back(test *t)
{
    setting s;
    course c = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options fit = {.size = sizeof fit,
                                 .max_steps = PHASES * PHASE_STEPS,
                                 .progress = change_speed,
                                 .user = &c};
    if (!has_clock()) SKIP("there is no device with a simulated clock");
    if (CHECK_OK(open_all("fault:threads=1:clock=1,fault:threads=1:clock=1", NULL, &s))) {
        c.devices = s.devices;
        CHECK_OK(dpt_fit(s.trainer, &fit, &result));
    } else {
        FAIL("%s", dpt_error_message(s.context));
    }
    close_all(&s);
    CHECK_SIZE(c.n_steps, PHASES * PHASE_STEPS);
    for (size_t p = 0; p < PHASES; p++) {
        const size_t first = c.shards[p][0], second = c.shards[p][1];
        printf("  phase %zu: %zu and %zu samples in %zu steps\n", p + 1, first, second,
               c.n_noted[p]);
        CHECK(c.n_noted[p] >= LAST - 1 && second > 0);
        if (p == 1)
            CHECK(first > 2 * second);
        else
            CHECK(2 * first < 3 * second && 2 * second < 3 * first);
    }
    CHECK(c.stepped);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a slow device gets less", a_slow_device_gets_less},
        {"its log repeats it", its_log_repeats_it},
        {"one device has all", one_device_has_all},
        {"memory bounds no shares", memory_bounds_no_shards},
        {"shares follow a throttle and come back", shards_follow_a_throttle_and_come_back},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
