/* Batch-norm over several devices: a small residual network against one device, by the two measures
   of test_mix.c, and against the interpreter (interpreter.h).

   (a) After one step, every gradient tensor and every statistic of the batch lies as near to the
       double-precision one as one device's does: |x - ref| <= 4 |one device - ref| + 1e-7 |ref|.
   (b) After 20 steps in which the loss falls by a fifth, weights and running statistics are within
   4 times the distance that one device moves when the samples of each batch are summed in another
       order.

   Biases that feed a batch-norm are exempt: their true gradient is zero.  Both measures are shown
   to fail for a part that is dropped, a part with a wrong count, statistics that are not committed.
 */
#include "harness.h"
#include "train/interpreter.h"
#include "train/support.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 8,
    CHANNELS = 3,
    PIXELS = SIDE * SIDE * CHANNELS,
    CLASSES = 5,
    BATCH = 29,
    COUNT = 7 * BATCH + 11, /* 20 steps are two epochs of 8 batches, the last of 11, and 4 */
    STEPS = 20,
    PERMUTATIONS = 3,
    FEW = 8, /* a batch of which every division is tried */
    MAX_TENSORS = 64,
};

/* What one device does, and what it is compared with. */
typedef struct baseline {
    dpt_context *context;
    dpt_model *model;
    dpt_dataset *data, *permuted[PERMUTATIONS], *few;
    interpreter reference;     /* after one step, uncommitted */
    double error[MAX_TENSORS]; /* of one device's gradients, per parameter */
    float *start, *last;       /* one device's parameters */
    double losses[STEPS];
    double moved; /* by a change of order: without exempt biases */
} baseline;

typedef struct outcome {
    dpt_status status;
    float *weights, *gradients; /* of the first device, flat */
    double losses[STEPS];
    size_t shards[8];
    bool replicas_agree; /* to the bit, running statistics and velocity included */
} outcome;

/* ---- Data and model -------------------------------------------------------------------------- */

/* A class has a colour and a place.  With a seed, each run of BATCH samples is permuted. */
static dpt_status make_data(dpt_context *context, size_t count, uint64_t order, dpt_dataset **out)
{
    static uint8_t images[COUNT * PIXELS], labels[COUNT];
    size_t place[COUNT];
    test_random random = {11}, shuffle = {order};
    for (size_t i = 0; i < COUNT; i++)
        place[i] = i;
    for (size_t first = 0; order && first < COUNT; first += BATCH)
        for (size_t n = COUNT - first < BATCH ? COUNT - first : BATCH; n > 1; n--) {
            const size_t other = first + test_random_below(&shuffle, n), kept = place[other];
            place[other] = place[first + n - 1];
            place[first + n - 1] = kept;
        }
    for (size_t i = 0; i < COUNT; i++) {
        const size_t label = test_random_below(&random, CLASSES);
        labels[place[i]] = (uint8_t)label;
        for (size_t e = 0; e < PIXELS; e++) {
            const bool lit = e % CHANNELS == label % CHANNELS &&
                             (e / CHANNELS % SIDE < SIDE / 2) == (label < CHANNELS);
            images[place[i] * PIXELS + e] =
                (uint8_t)((lit ? 120 : 30) + test_random_below(&random, 100));
        }
    }
    return dpt_dataset_from_memory(context,
                                   &(dpt_dataset_memory){.count = count,
                                                         .height = SIDE,
                                                         .width = SIDE,
                                                         .channels = CHANNELS,
                                                         .classes = CLASSES,
                                                         .dtype = DPT_U8,
                                                         .images = images,
                                                         .labels = labels,
                                                         .mean = {0.4f, 0.4f, 0.4f},
                                                         .deviation = {0.25f, 0.25f, 0.25f}},
                                   out);
}

static dpt_value conv(dpt_model *m, dpt_value x, const char *name, size_t channels, size_t stride)
{
    return dpt_conv2d(m, x, name,
                      &(dpt_conv2d_options){.out_channels = channels,
                                            .kernel = {3, 3},
                                            .stride = {stride, stride},
                                            .padding = {1, 1}});
}

static dpt_value norm(dpt_model *m, dpt_value x, const char *name, dpt_activation activation)
{
    return dpt_batch_norm(m, x, name, &(dpt_norm_options){.activation = activation});
}

static dpt_status make_model(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "residual", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, SIDE, SIDE, CHANNELS), y;
    x = norm(m, conv(m, x, "conv1", 8, 1), "bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, x, "a.conv1", 8, 1), "a.bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, y, "a.conv2", 8, 1), "a.bn2", DPT_ACT_NONE);
    x = dpt_activate(m, dpt_add(m, y, x), DPT_ACT_RELU);
    y = norm(m, conv(m, x, "b.conv1", 12, 2), "b.bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, y, "b.conv2", 12, 1), "b.bn2", DPT_ACT_NONE);
    x = norm(m, conv(m, x, "b.conv3", 12, 2), "b.bn3", DPT_ACT_NONE);
    x = dpt_global_average_pool(m, dpt_activate(m, dpt_add(m, y, x), DPT_ACT_RELU));
    x = dpt_linear(m, dpt_flatten(m, x), "fc", &(dpt_linear_options){.out = CLASSES});
    return dpt_model_finish(m, x);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct task {
    const dpt_dataset *data;
    const char *devices, *split;
    size_t batch, steps;
    dpt_batch_norm_mode mode;
} task;

static dpt_status compare_replicas(dpt_trainer *trainer, size_t n_devices, outcome *out)
{
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY};
    const size_t n = trainer->model->flat_size;
    float *first = calloc(2 * n, sizeof *first);
    if (!first) return DPT_E_NO_MEMORY;
    out->replicas_agree = true;
    dpt_status status = DPT_OK;
    for (size_t k = 0; k < 2 && status == DPT_OK; k++) {
        status = dpti_trainer_read(trainer, 0, kinds[k], first);
        for (size_t d = 1; d < n_devices && status == DPT_OK; d++) {
            status = dpti_trainer_read(trainer, d, kinds[k], first + n);
            if (memcmp(first, first + n, n * sizeof *first) != 0) out->replicas_agree = false;
        }
    }
    free(first);
    return status;
}

static dpt_status train(dpt_device_set *devices, const dpt_model *model, const task *job,
                        outcome *out)
{
    const dpt_trainer_options options = {.batch_size = job->batch,
                                         .split = job->split,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .weight_decay = 1e-3f,
                                         .batch_norm = job->mode,
                                         .seed = 1,
                                         .no_shuffle = true};
    const size_t n_devices = dpt_devices_count(devices);
    dpt_trainer *trainer = NULL;
    dpt_status status = dpt_trainer_create(devices, model, job->data, &options, &trainer);
    for (size_t s = 0; s < job->steps && status == DPT_OK; s++) {
        dpt_step_metrics metrics;
        status = dpt_trainer_step(trainer, &metrics);
        if (status != DPT_OK) break;
        out->losses[s] = metrics.loss;
        memcpy(out->shards, metrics.shards, n_devices * sizeof *out->shards);
    }
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_PARAMETER, out->weights);
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_GRADIENT, out->gradients);
    if (status == DPT_OK) status = compare_replicas(trainer, n_devices, out);
    dpt_trainer_destroy(trainer);
    return status;
}

static bool prepare(test *t, const dpt_model *model, outcome *out)
{
    *out = (outcome){.weights = calloc(model->flat_size, sizeof(float)),
                     .gradients = calloc(model->flat_size, sizeof(float))};
    return CHECK(out->weights && out->gradients);
}

static void outcome_free(outcome *o)
{
    free(o->weights);
    free(o->gradients);
}

static bool run(test *t, const baseline *b, const task *job, outcome *out)
{
    dpt_device_set *devices = NULL;
    if (!prepare(t, b->model, out)) return false;
    out->status = dpt_devices_open(b->context, job->devices, &devices);
    if (out->status == DPT_OK) out->status = train(devices, b->model, job, out);
    dpt_devices_close(devices);
    if (CHECK_OK(out->status)) return true;
    FAIL("%s split %s: %s", job->devices, job->split, dpt_error_message(b->context));
    return false;
}

/* ---- Measures -------------------------------------------------------------------------------- */

static void one_device_errors(const dpt_model *m, const float *gradients, const double *reference,
                              double *error)
{
    for (size_t i = 0; i < m->n_parameters; i++)
        error[i] = parameter_error(&m->parameters[i], gradients, reference);
}

/* Measure (a).  `worst`, which may be NULL, gets the first tensor that is out of bounds. */
static bool gradients_agree(const dpt_model *m, const float *gradients, const double *reference,
                            const double *error, const char **worst)
{
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        const double bound = 4 * error[i] + 1e-7 * parameter_norm(p, reference);
        if (feeds_batch_norm(m, i) || parameter_error(p, gradients, reference) <= bound) continue;
        if (worst) *worst = p->name;
        return false;
    }
    return true;
}

/* In the 2-norm, without exempt biases. */
static double moved(const dpt_model *m, const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        if (!feeds_batch_norm(m, i)) sum += pow(distance(a + p->offset, b + p->offset, p->size), 2);
    }
    return sqrt(sum);
}

/* Measure (b). */
static bool weights_agree(const baseline *b, const outcome *o)
{
    return moved(b->model, o->weights, b->last) <= 4 * b->moved;
}

/* ---- One device ------------------------------------------------------------------------------ */

static bool interpret(test *t, const baseline *b, const dpt_dataset *data, size_t n_devices,
                      const size_t *shares, interpreter *out)
{
    uint32_t records[BATCH];
    size_t n = 0;
    const dpti_program_options options = {.data = data,
                                          .purpose = DPTI_PURPOSE_TRAIN,
                                          .optimizer = {.momentum = 0.9f, .weight_decay = 1e-3f}};
    if (!CHECK(interpreter_create(b->model, &options, n_devices, out))) return false;
    for (uint32_t i = 0; i < BATCH; i++)
        records[i] = i;
    for (size_t i = 0; i < n_devices; i++)
        n += shares[i];
    for (size_t i = 0; i < b->model->flat_size; i++)
        out->parameters[i] = (double)b->start[i];
    out->lr = (double)0.05f;
    (void)interpreter_compute(out, records, shares, 1.0 / (double)n);
    return true;
}

/* PyTorch's rule, with its momentum of 0.1: statistics of the batch stand where gradients do. */
static void check_running(test *t, const baseline *b, const outcome *first)
{
    for (size_t i = 0; i < b->model->n_parameters; i++) {
        const dpti_parameter *p = &b->model->parameters[i];
        for (size_t e = p->offset; dpti_is_statistic(p->role) && e < p->offset + p->size; e++)
            CHECK_NEAR((double)first->weights[e],
                       0.9 * (double)b->start[e] + 0.1 * b->reference.gradients[e], 1e-6);
    }
}

static void one_device_starts(test *t, baseline *b)
{
    dpt_error error = {0};
    outcome first;
    b->start = calloc(b->model->flat_size, sizeof *b->start);
    REQUIRE(b->start && b->model->n_parameters <= MAX_TENSORS);
    REQUIRE_OK(dpti_initialize(b->model, "default", 1, b->start, &error));
    REQUIRE(interpret(t, b, b->data, 1, (const size_t[]){BATCH}, &b->reference));
    const task once = {.data = b->data, .devices = "cpu", .batch = BATCH, .steps = 1};
    if (run(t, b, &once, &first)) {
        one_device_errors(b->model, first.gradients, b->reference.gradients, b->error);
        /* One device is right in the first place. */
        for (size_t i = 0; i < b->model->n_parameters; i++) {
            const double norm = parameter_norm(&b->model->parameters[i], b->reference.gradients);
            if (!feeds_batch_norm(b->model, i)) CHECK(norm > 0 && b->error[i] <= 1e-5 * norm);
        }
        check_running(t, b, &first);
        interpreter_commit(&b->reference);
        for (size_t i = 0; i < b->model->n_parameters; i++) {
            const dpti_parameter *p = &b->model->parameters[i];
            CHECK(parameter_error(p, first.weights, b->reference.parameters) <=
                  1e-6 * (1 + parameter_norm(p, b->reference.parameters)));
        }
    }
    outcome_free(&first);
}

static void one_device_trains(test *t, baseline *b)
{
    outcome last, other;
    task job = {.data = b->data, .devices = "cpu", .batch = BATCH, .steps = STEPS};
    REQUIRE(run(t, b, &job, &last));
    b->last = last.weights;
    free(last.gradients);
    memcpy(b->losses, last.losses, sizeof b->losses);
    CHECK(b->losses[STEPS - 1] <= 0.8 * b->losses[0]);
    for (size_t i = 0; i < PERMUTATIONS; i++) {
        job.data = b->permuted[i];
        if (run(t, b, &job, &other))
            b->moved = fmax(b->moved, moved(b->model, other.weights, b->last));
        outcome_free(&other);
    }
    CHECK(b->moved > 0);
}

static void set_up(test *t, baseline *b)
{
    REQUIRE_OK(dpt_context_create(&b->context));
    REQUIRE_OK(make_data(b->context, COUNT, 0, &b->data));
    REQUIRE_OK(make_data(b->context, FEW, 0, &b->few));
    for (size_t i = 0; i < PERMUTATIONS; i++)
        REQUIRE_OK(make_data(b->context, COUNT, i + 1, &b->permuted[i]));
    REQUIRE_OK(make_model(b->context, &b->model));
    one_device_starts(t, b);
    one_device_trains(t, b);
}

static void tear_down(baseline *b)
{
    interpreter_free(&b->reference);
    free(b->start);
    free(b->last);
    dpt_model_destroy(b->model);
    dpt_dataset_destroy(b->few);
    for (size_t i = 0; i < PERMUTATIONS; i++)
        dpt_dataset_destroy(b->permuted[i]);
    dpt_dataset_destroy(b->data);
    dpt_context_destroy(b->context);
}

/* ---- Any mix --------------------------------------------------------------------------------- */

static const char *const mixes[][2] = {
    {"cpu,cpu", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:5:2"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "28:0:1"},
    {"cpu:threads=2,cpu:threads=1", "1:28"},
    {"faultstaged:threads=1,cpu:threads=1", "2:1"},
    {"faultstaged:threads=1,cpu:threads=1,faultstaged:threads=1", "13:2:1"},
};

static task mix_task(const baseline *b, size_t mix, size_t steps)
{
    return (task){.data = b->data,
                  .devices = mixes[mix][0],
                  .split = mixes[mix][1],
                  .batch = BATCH,
                  .steps = steps};
}

static void same_gradients(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        outcome o;
        const char *worst = "";
        const task job = mix_task(b, i, 1);
        if (run(t, b, &job, &o)) {
            if (!CHECK(gradients_agree(b->model, o.gradients, b->reference.gradients, b->error,
                                       &worst)) ||
                !CHECK(o.replicas_agree))
                FAIL("%s split %s: %s", job.devices, job.split, worst);
        }
        outcome_free(&o);
    }
}

static void same_weights(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        outcome o;
        const task job = mix_task(b, i, STEPS);
        if (run(t, b, &job, &o)) {
            if (!CHECK(weights_agree(b, &o)) || !CHECK(o.replicas_agree))
                FAIL("%s split %s: distance %g, permuted %g", job.devices, job.split,
                     moved(b->model, o.weights, b->last), b->moved);
            for (size_t s = 0; s < STEPS; s++)
                CHECK_NEAR(o.losses[s], b->losses[s], 1e-4);
        }
        outcome_free(&o);
    }
}

static void same_bits_twice(test *t)
{
    const baseline *b = t->user;
    const size_t n_bytes = b->model->flat_size * sizeof(float);
    for (size_t i = 0; i < 2; i++) {
        outcome o, p;
        const task job = mix_task(b, i, STEPS);
        if (run(t, b, &job, &o) & run(t, b, &job, &p)) {
            CHECK(memcmp(o.weights, p.weights, n_bytes) == 0);
            CHECK(memcmp(o.gradients, p.gradients, n_bytes) == 0);
            CHECK(memcmp(o.losses, p.losses, sizeof o.losses) == 0);
        }
        outcome_free(&o);
        outcome_free(&p);
    }
}

/* ---- Every division of a batch --------------------------------------------------------------- */

static bool run_few(test *t, const baseline *b, dpt_device_set *devices, const char *split,
                    outcome *out)
{
    const task job = {.data = b->few, .split = split, .batch = FEW, .steps = 1};
    if (!prepare(t, b->model, out)) return false;
    if (CHECK_OK(train(devices, b->model, &job, out))) return true;
    FAIL("split %s: %s", split, dpt_error_message(b->context));
    return false;
}

static void every_division(test *t)
{
    const baseline *b = t->user;
    dpt_device_set *one = NULL, *three = NULL;
    interpreter reference;
    outcome single;
    double error[MAX_TENSORS];
    size_t n_divisions = 0;
    REQUIRE_OK(dpt_devices_open(b->context, "cpu:threads=1", &one));
    REQUIRE_OK(dpt_devices_open(b->context, "cpu:threads=1,cpu:threads=1,cpu:threads=1", &three));
    REQUIRE(interpret(t, b, b->few, 1, (const size_t[]){FEW}, &reference));
    REQUIRE(run_few(t, b, one, NULL, &single));
    one_device_errors(b->model, single.gradients, reference.gradients, error);
    for (size_t i = 0; i <= FEW; i++) {
        for (size_t k = 0; i + k <= FEW; k++, n_divisions++) {
            char split[32];
            outcome o;
            const char *worst = "";
            snprintf(split, sizeof split, "%zu:%zu:%zu", i, k, FEW - i - k);
            if (run_few(t, b, three, split, &o)) {
                CHECK(o.shards[0] == i && o.shards[1] == k && o.shards[2] == FEW - i - k);
                CHECK_NEAR(o.losses[0], single.losses[0], 1e-6);
                if (!CHECK(gradients_agree(b->model, o.gradients, reference.gradients, error,
                                           &worst)) ||
                    !CHECK(o.replicas_agree))
                    FAIL("split %s: %s", split, worst);
            }
            outcome_free(&o);
        }
    }
    CHECK_SIZE(n_divisions, 45);
    outcome_free(&single);
    interpreter_free(&reference);
    dpt_devices_close(three);
    dpt_devices_close(one);
}

/* ---- Statistics of each device's own --------------------------------------------------------- */

/* Each share by itself: its own statistics, gradients summed, statistics weighted by samples. */
static void local_statistics(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 1; i < sizeof mixes / sizeof *mixes; i++) {
        interpreter shares, batch;
        outcome o;
        task job = mix_task(b, i, 1);
        job.mode = DPT_BATCH_NORM_LOCAL;
        if (run(t, b, &job, &o) &&
            interpret(t, b, b->data, strchr(strchr(job.devices, ',') + 1, ',') ? 3 : 2, o.shards,
                      &shares) &&
            interpret(t, b, b->data, 1, (const size_t[]){BATCH}, &batch)) {
            double difference = 0;
            interpreter_commit(&shares);
            for (size_t k = 0; k < b->model->n_parameters; k++) {
                const dpti_parameter *p = &b->model->parameters[k];
                const double norm = parameter_norm(p, shares.gradients);
                if (feeds_batch_norm(b->model, k)) continue;
                if (!CHECK(parameter_error(p, o.gradients, shares.gradients) <= 1e-5 * norm) ||
                    !CHECK(parameter_error(p, o.weights, shares.parameters) <=
                           1e-6 * (1 + parameter_norm(p, shares.parameters))))
                    FAIL("%s split %s: %s", job.devices, job.split, p->name);
                difference =
                    fmax(difference, parameter_error(p, o.gradients, batch.gradients) / norm);
            }
            CHECK(o.replicas_agree);
            CHECK(difference > 1e-2); /* it is something else than statistics of the batch */
            interpreter_free(&shares);
            interpreter_free(&batch);
        }
        outcome_free(&o);
    }
}

/* ---- What must be noticed -------------------------------------------------------------------- */

static void planted_bugs_are_caught(test *t)
{
    const baseline *b = t->user;
    static const struct {
        const char *devices;
        bool in_gradients;
    } bugs[] = {
        {"cpu:threads=1,fault:threads=1:bug=part", true},
        {"fault:threads=1:bug=tally,cpu:threads=1", true},
        {"cpu:threads=1,fault:threads=1:bug=drop", true},
        {"fault:threads=1:bug=frozen,cpu:threads=1", false},
        {"fault:threads=1:bug=frozen,fault:threads=1:bug=frozen", false},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        outcome o;
        const task job = {.data = b->data,
                          .devices = bugs[i].devices,
                          .split = "2:1",
                          .batch = BATCH,
                          .steps = bugs[i].in_gradients ? 1 : STEPS};
        if (run(t, b, &job, &o)) {
            const bool noticed = bugs[i].in_gradients
                                     ? !gradients_agree(b->model, o.gradients,
                                                        b->reference.gradients, b->error, NULL)
                                     : !weights_agree(b, &o);
            if (!CHECK(noticed)) FAIL("%s", job.devices);
            /* What one device alone does wrong behind the all-reduce shows in the replicas. */
            if (i == 3) CHECK(!o.replicas_agree);
        }
        outcome_free(&o);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gradients and statistics are those of one device", same_gradients},
        {"weights after 20 steps are those of one device", same_weights},
        {"the same run twice gives the same bits", same_bits_twice},
        {"every division of a batch", every_division},
        {"statistics of each device's own", local_statistics},
        {"planted bugs are caught", planted_bugs_are_caught},
    };
    baseline b = {0};
    test setup = {.name = "one device"};
    add_fault_plugins();
    set_up(&setup, &b);
    const int code =
        setup.n_failures ? 1 : test_main(argc, argv, cases, sizeof cases / sizeof *cases, &b);
    tear_down(&b);
    return code;
}
