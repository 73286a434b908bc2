/* Tests that what happens to devices during a deterministic training changes no bit: a replica that
   is restored, a device that is lost and readmitted, a device on standby, and devices that run out
   of memory or never had enough of it.  Each training is compared with one on a plain CPU. */
#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"
#include "train/recovery/readmit.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 16, TEXT = 128, MIDDLE = 5, REST = 4, WAKE = 12 };

static const char report[] = "fault-report.txt";

typedef struct baseline {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *plain, *residual; /* without batch-norm, and with it */
    flat_outcome right[2];       /* of a CPU */
} baseline;

static dpt_status make_plain(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "plain", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_conv2d(m, x, "conv",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 12,
                                         .kernel = {3, 3},
                                         .padding = {1, 1}});
    x = dpt_layer_norm(
        m, x, "ln",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_TANH});
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

/* What is to happen in a training, and what has. */
typedef struct course {
    const char *devices, *split;
    size_t verify;
    double readmit;
    dpt_shard shard;
    bool offload;
    bool on_cpus; /* CPUs hold the parts behind the last step */
    void (*before)(struct course *c, dpt_trainer *trainer, size_t step); /* NULL: nothing */
    size_t n_events[KINDS];
    /* Samples of the first two devices: the least in a step, the most before the middle step and
       the most from it on. */
    size_t least[2], early[2], late[2];
    size_t at_once; /* the most samples that device 0 computes at once */
} course;

static void note_step(course *c, dpt_trainer *trainer, const dpt_step_metrics *m)
{
    dpt_device_event event = {.size = sizeof event};
    c->on_cpus = dpt_trainer_offloaded(trainer);
    for (size_t i = 0; i < 2 && i < m->n_devices; i++) {
        if (m->step == 1 || m->shards[i] < c->least[i]) c->least[i] = m->shards[i];
        size_t *most = m->step < MIDDLE ? &c->early[i] : &c->late[i];
        if (m->shards[i] > *most) *most = m->shards[i];
    }
    while (dpt_trainer_next_event(trainer, &event))
        if ((size_t)event.kind < KINDS) c->n_events[event.kind]++;
}

static void check_replicas(test *t, const course *c, dpt_trainer *trainer,
                           const flat_outcome *right)
{
    const size_t n_bytes = trainer->model->flat_size * sizeof(float);
    float *weights = malloc(n_bytes);
    for (size_t d = 0; CHECK(weights) && d < dpt_trainer_device_count(trainer); d++) {
        CHECK_OK(dpti_trainer_read(trainer, d, DPT_PARAMETER, weights));
        if (!CHECK(memcmp(weights, right->weights, n_bytes) == 0))
            FAIL("%s, %s: device %zu has other weights", trainer->model->name, c->devices, d);
    }
    free(weights);
}

static void take_steps(test *t, course *c, dpt_trainer *trainer, const flat_outcome *right)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t s = 0; s < FLAT_STEPS && t->n_failures == 0; s++) {
        if (c->before) c->before(c, trainer, s);
        if (!CHECK_OK(dpt_trainer_step(trainer, &m)) || !CHECK(m.loss == right->losses[s])) {
            FAIL("%s, %s, step %zu: %s", trainer->model->name, c->devices, s + 1,
                 dpt_error_message(trainer->context));
            return;
        }
        note_step(c, trainer, &m);
    }
    check_replicas(t, c, trainer, right);
}

/* Opens the devices and a trainer of model number k; to be closed in any case. */
typedef struct opened {
    dpt_device_set *set;
    dpt_trainer *trainer;
} opened;

static dpt_status open_course(const baseline *b, size_t k, course *c, opened *out)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = FLAT_BATCH,
                                         .split = dpt_split_from(c->split),
                                         .lr = FLAT_RATE,
                                         .momentum = FLAT_MOMENTUM,
                                         .weight_decay = FLAT_DECAY,
                                         .deterministic = true,
                                         .verify_replicas = c->verify,
                                         .readmit_after = c->readmit,
                                         .shard = c->shard,
                                         .offload = c->offload,
                                         .seed = 1,
                                         .no_shuffle = true};
    dpt_device_plan plan = {.size = sizeof plan};
    *out = (opened){.set = NULL};
    memset(c->n_events, 0, sizeof c->n_events);
    (void)remove(report); /* openings count from here */
    DPT_TRY(dpt_device_set_open(b->context, c->devices, &out->set));
    DPT_TRY(dpt_trainer_create(out->set, k == 0 ? b->plain : b->residual, b->data, &options,
                               &out->trainer));
    out->trainer->standby.allowed = false; /* the case decides, and no clock */
    DPT_TRY(dpt_trainer_plan(out->trainer, 0, &plan));
    c->at_once = plan.micro_batch;
    return DPT_OK;
}

static void close_course(opened *o)
{
    dpt_trainer_destroy(o->trainer);
    dpt_device_set_close(o->set);
}

static void train(test *t, size_t k, course *c)
{
    const baseline *b = t->user;
    opened o;
    if (CHECK_OK(open_course(b, k, c, &o)))
        take_steps(t, c, o.trainer, &b->right[k]);
    else
        FAIL("%s: %s", c->devices, dpt_error_message(b->context));
    close_course(&o);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* A bit of one replica is another one behind an update, and restored before the next step. */
static void restored_replicas(test *t)
{
    for (size_t k = 0; k < 2; k++) {
        course c = {.devices = "cpu:threads=1,fault:threads=1:flip=5,cpu:threads=1",
                    .split = "3:8:5",
                    .verify = 1};
        train(t, k, &c);
        CHECK_SIZE(c.n_events[DPT_REPLICA_RESTORED], 1);
    }
}

/* Changes an element of one replica between two steps. */
static void damage(course *c, dpt_trainer *trainer, size_t step)
{
    float *weights = malloc(trainer->model->flat_size * sizeof *weights);
    (void)c;
    if (weights && step == MIDDLE &&
        dpti_trainer_read(trainer, 1, DPT_PARAMETER, weights) == DPT_OK) {
        weights[trainer->model->flat_trained / 2] += 1;
        (void)!dpti_trainer_write(trainer, 1, DPT_PARAMETER, weights);
    }
    free(weights);
}

/* Where the optimizer's state is in parts, the parameters are compared. */
static void restored_parts(test *t)
{
    for (size_t k = 0; k < 2; k++) {
        course c = {.devices = "cpu:threads=1,fault:threads=1,cpu:threads=1",
                    .split = "3:8:5",
                    .verify = 1,
                    .before = damage,
                    .shard = DPT_SHARD_OPTIMIZER};
        train(t, k, &c);
        CHECK_SIZE(c.n_events[DPT_REPLICA_RESTORED], 1);
    }
}

/* Waits until the lost device can be readmitted. */
static void await_readmission(course *c, dpt_trainer *trainer, size_t step)
{
    (void)step;
    if (c->n_events[DPT_DEVICE_LOST] == c->n_events[DPT_DEVICE_READMITTED]) return;
    for (size_t i = 0; i < 5000 && !dpti_readmit_waits(trainer); i++) {
        (void)usleep(2000);
        dpti_readmit_poll(trainer);
    }
}

/* With offload the lost device is the one CPU, to which all parts go back. */
static void lose_and_readmit(test *t, size_t k, dpt_shard shard, bool offload)
{
    for (size_t n = 1; n < 20; n += 9) {
        char devices[TEXT];
        course c = {.devices = devices,
                    .split = "2:3:1",
                    .readmit = 1e-4,
                    .before = await_readmission,
                    .shard = shard,
                    .offload = offload};
        snprintf(devices, sizeof devices, "%s,fault:threads=1:after=4:lost=%zu:again=1,%s",
                 offload ? "fault:threads=1:apart=1" : "cpu:threads=1", n,
                 offload ? "fault:threads=1:apart=1" : "cpu:threads=1");
        train(t, k, &c);
        CHECK_SIZE(c.n_events[DPT_DEVICE_LOST], 1);
        CHECK_SIZE(c.n_events[DPT_DEVICE_READMITTED], 1);
        CHECK(c.on_cpus == offload);
    }
}

static void readmitted_devices(test *t)
{
    for (size_t k = 0; k < 2; k++) {
        lose_and_readmit(t, k, DPT_SHARD_NONE, false);
        lose_and_readmit(t, k, DPT_SHARD_OPTIMIZER, false);
        lose_and_readmit(t, k, DPT_SHARD_OPTIMIZER, true);
    }
}

/* Device 1 rests from one step on, and takes part again from another one on. */
static void rest(course *c, dpt_trainer *trainer, size_t step)
{
    (void)c;
    if (step != REST && step != WAKE) return;
    trainer->standby.chosen[0] = false;
    trainer->standby.chosen[1] = true;
    trainer->standby.changes = true;
}

static void standby_devices(test *t)
{
    for (size_t k = 0; k < 2; k++) {
        course c = {.devices = "cpu:threads=1,fault:threads=1", .split = "measured"};
        c.before = rest;
        train(t, k, &c);
        CHECK_SIZE(c.least[1], 0);
        CHECK(c.late[1] > 0 && c.late[0] == FLAT_BATCH);
    }
}

/* From the middle step on a device has no memory for more than some samples: its share becomes
 * smaller. */
static void short_of_memory(test *t)
{
    for (size_t k = 0; k < 2; k++) {
        course c = {.devices = "fault:threads=1:clock=4,fault:threads=1:clock=1:room=9:from=5",
                    .split = "measured"};
        train(t, k, &c);
        CHECK(c.early[1] > 9 && c.least[1] > 0 && c.late[1] <= 9);
        CHECK_SIZE(c.n_events[DPT_DEVICE_LOST], 0);
    }
}

/* Finds a limit of memory with which the first device computes its shard in micro-batches.  How
   much memory a shard takes depends on the processor. */
static bool find_limit(test *t, const char *format, course *c, char devices[TEXT])
{
    enum { MOST = 8 << 20, PIECE = 32 << 10 };
    for (size_t limit = MOST; limit > PIECE; limit -= PIECE) {
        opened o;
        snprintf(devices, TEXT, format, limit);
        const dpt_status status = open_course(t->user, 0, c, &o);
        const size_t shard = o.trainer ? o.trainer->workers[0].capacity : 0;
        close_course(&o);
        if (status != DPT_OK) return false;
        if (c->at_once < shard) return true;
    }
    return false;
}

/* A device whose memory does not hold a whole shard computes it in micro-batches. */
static void little_memory(test *t)
{
    static const struct {
        const char *format, *split;
    } cases[] = {{"cpu:threads=1:memory=%zu", NULL},
                 {"cpu:threads=1:memory=%zu,cpu:threads=1", "27:2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char devices[TEXT];
        course c = {.devices = devices, .split = cases[i].split};
        if (!CHECK(find_limit(t, cases[i].format, &c, devices))) continue;
        train(t, 0, &c);
        CHECK(c.at_once >= 2 && c.at_once < FLAT_BATCH - 2);
    }
}

/* The least memory with which the course can begin; `devices` then has it. */
static size_t least_memory(test *t, const char *format, course *c, char devices[TEXT])
{
    size_t too_little = 0, enough = 8 << 20;
    while (enough - too_little > 1) {
        const size_t limit = (too_little + enough) / 2;
        opened o;
        snprintf(devices, TEXT, format, limit);
        if (open_course(t->user, 0, c, &o) == DPT_OK)
            enough = limit;
        else
            too_little = limit;
        close_course(&o);
    }
    snprintf(devices, TEXT, format, enough);
    return enough;
}

/* With fixed shards a device without room for the nodes of its grains is refused before the first
   step.  With a byte more it trains. */
static void no_room_for_nodes(test *t)
{
    static const char format[] = "cpu:threads=1,cpu:threads=1:memory=%zu";
    const baseline *b = t->user;
    char devices[TEXT];
    course c = {.devices = devices, .split = "9:20"};
    const size_t limit = least_memory(t, format, &c, devices);
    opened o;
    train(t, 0, &c);
    snprintf(devices, sizeof devices, format, limit - 1);
    CHECK_STATUS(open_course(b, 0, &c, &o), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(b->context), devices + strlen("cpu:threads=1,"));
    CHECK_CONTAINS(dpt_error_message(b->context), "further sums of gradients");
    CHECK_CONTAINS(dpt_error_message(b->context), "use a split that needs fewer");
    close_course(&o);
}

/* With measured shards such a device gets a shard that it has room for. */
static void measured_without_room_for_nodes(test *t)
{
    enum { PIECE = 2 << 10, PIECES = 16 };
    static const char format[] = "cpu:threads=1:memory=%zu,cpu:threads=1,cpu:threads=1";
    char devices[TEXT];
    course c = {.devices = devices, .split = "measured"};
    const size_t limit = least_memory(t, format, &c, devices);
    size_t n_less = 0;
    for (size_t i = 0; i < PIECES && t->n_failures == 0; i++) {
        snprintf(devices, sizeof devices, format, limit + i * PIECE);
        c.early[0] = c.late[0] = 0;
        train(t, 0, &c);
        n_less += c.early[0] < 10 && c.late[0] < 10; /* of 29 samples a third is 10 */
        CHECK_SIZE(c.n_events[DPT_DEVICE_LOST], 0);
    }
    CHECK(n_less > 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"no room for nodes", no_room_for_nodes},
        {"measured without room for nodes", measured_without_room_for_nodes},
        {"restored replicas", restored_replicas},
        {"restored parts", restored_parts},
        {"readmitted devices", readmitted_devices},
        {"standby devices", standby_devices},
        {"short of memory", short_of_memory},
        {"little memory", little_memory}};
    baseline b = {.context = NULL};
    add_fault_plugins();
    bool made = setenv("DPTRAIN_FAULT_REPORT", report, 1) == 0 &&
                dpt_context_create(&b.context) == DPT_OK &&
                flat_data(b.context, FLAT_COUNT, 0, &b.data) == DPT_OK &&
                make_plain(b.context, &b.plain) == DPT_OK &&
                flat_residual(b.context, &b.residual) == DPT_OK;
    for (size_t k = 0; k < 2 && made; k++) {
        const flat_task task = {.model = k == 0 ? b.plain : b.residual,
                                .data = b.data,
                                .devices = "cpu:threads=1",
                                .batch = FLAT_BATCH,
                                .micro_batch = k == 0 ? FLAT_BATCH : 0,
                                .steps = FLAT_STEPS,
                                .deterministic = true};
        made = flat_run(b.context, &task, &b.right[k]) == DPT_OK;
    }
    if (!made) fprintf(stderr, "%s\n", dpt_error_message(b.context));
    const int result =
        made ? test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, &b) : 1;
    for (size_t k = 0; k < 2; k++)
        flat_free(&b.right[k]);
    dpt_model_destroy(b.residual);
    dpt_model_destroy(b.plain);
    dpt_dataset_destroy(b.data);
    dpt_context_destroy(b.context);
    return result;
}
