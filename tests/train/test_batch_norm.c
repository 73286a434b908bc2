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
#include "train/flat.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERMUTATIONS = 3, FEW = 8, /* a batch of which every division is tried */ MAX_TENSORS = 64 };

/* What one device does, and what it is compared with. */
typedef struct baseline {
    dpt_context *context;
    dpt_model *model;
    dpt_dataset *data, *permuted[PERMUTATIONS], *few;
    interpreter reference;     /* after one step, uncommitted */
    double error[MAX_TENSORS]; /* of one device's gradients, per parameter */
    float *last;               /* one device's parameters after FLAT_STEPS steps */
    double losses[FLAT_STEPS];
    double moved; /* by a change of order: without exempt biases */
} baseline;

static bool run(test *t, const baseline *b, const flat_task *job, flat_outcome *out)
{
    if (CHECK_OK(flat_run(b->context, job, out))) return true;
    FAIL("%s split %s: %s", job->devices, job->split, dpt_error_message(b->context));
    return false;
}

/* Measure (b). */
static bool weights_agree(const baseline *b, const flat_outcome *o)
{
    return flat_distance(b->model, o->weights, b->last) <= 4 * b->moved;
}

/* ---- One device ------------------------------------------------------------------------------ */

/* PyTorch's rule, with its momentum of 0.1: statistics of the batch stand where gradients do. */
static void check_running(test *t, const baseline *b, const flat_outcome *first)
{
    for (size_t i = 0; i < b->model->n_parameters; i++) {
        const dpti_parameter *p = &b->model->parameters[i];
        for (size_t e = p->offset; dpti_is_statistic(p->role) && e < p->offset + p->size; e++)
            CHECK_NEAR((double)first->weights[e],
                       0.9 * b->reference.parameters[e] + 0.1 * b->reference.gradients[e], 1e-6);
    }
}

static flat_task task_of(const baseline *b, const dpt_dataset *data, size_t batch)
{
    return (flat_task){
        .model = b->model, .data = data, .devices = "cpu", .batch = batch, .steps = 1};
}

static void one_device_starts(test *t, baseline *b)
{
    flat_outcome first;
    const flat_task once = task_of(b, b->data, FLAT_BATCH);
    REQUIRE(b->model->n_parameters <= MAX_TENSORS);
    REQUIRE(flat_interpret(&once, 1, (const size_t[]){FLAT_BATCH}, &b->reference));
    if (run(t, b, &once, &first)) {
        flat_errors(b->model, first.gradients, b->reference.gradients, b->error);
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
    flat_free(&first);
}

static void one_device_trains(test *t, baseline *b)
{
    flat_outcome last, other;
    flat_task job = task_of(b, b->data, FLAT_BATCH);
    job.steps = FLAT_STEPS;
    REQUIRE(run(t, b, &job, &last));
    b->last = last.weights;
    free(last.gradients);
    memcpy(b->losses, last.losses, sizeof b->losses);
    CHECK(b->losses[FLAT_STEPS - 1] <= 0.8 * b->losses[0]);
    for (size_t i = 0; i < PERMUTATIONS; i++) {
        job.data = b->permuted[i];
        if (run(t, b, &job, &other))
            b->moved = fmax(b->moved, flat_distance(b->model, other.weights, b->last));
        flat_free(&other);
    }
    CHECK(b->moved > 0);
}

static void set_up(test *t, baseline *b)
{
    REQUIRE_OK(dpt_context_create(&b->context));
    REQUIRE_OK(flat_data(b->context, FLAT_COUNT, 0, &b->data));
    REQUIRE_OK(flat_data(b->context, FEW, 0, &b->few));
    for (size_t i = 0; i < PERMUTATIONS; i++)
        REQUIRE_OK(flat_data(b->context, FLAT_COUNT, i + 1, &b->permuted[i]));
    REQUIRE_OK(flat_residual(b->context, &b->model));
    one_device_starts(t, b);
    one_device_trains(t, b);
}

static void tear_down(baseline *b)
{
    interpreter_free(&b->reference);
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

static flat_task mix_task(const baseline *b, size_t mix, size_t steps)
{
    flat_task job = task_of(b, b->data, FLAT_BATCH);
    job.devices = mixes[mix][0];
    job.split = mixes[mix][1];
    job.steps = steps;
    return job;
}

static void same_gradients(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        flat_outcome o;
        const char *worst = "";
        const flat_task job = mix_task(b, i, 1);
        if (run(t, b, &job, &o)) {
            if (!CHECK(flat_gradients_agree(b->model, o.gradients, b->reference.gradients, b->error,
                                            &worst)) ||
                !CHECK(o.replicas_agree))
                FAIL("%s split %s: %s", job.devices, job.split, worst);
        }
        flat_free(&o);
    }
}

static void same_weights(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        flat_outcome o;
        const flat_task job = mix_task(b, i, FLAT_STEPS);
        if (run(t, b, &job, &o)) {
            if (!CHECK(weights_agree(b, &o)) || !CHECK(o.replicas_agree))
                FAIL("%s split %s: distance %g, permuted %g", job.devices, job.split,
                     flat_distance(b->model, o.weights, b->last), b->moved);
            for (size_t s = 0; s < FLAT_STEPS; s++)
                CHECK_NEAR(o.losses[s], b->losses[s], 1e-4);
        }
        flat_free(&o);
    }
}

static void same_bits_twice(test *t)
{
    const baseline *b = t->user;
    const size_t n_bytes = b->model->flat_size * sizeof(float);
    for (size_t i = 0; i < 2; i++) {
        flat_outcome o, p;
        const flat_task job = mix_task(b, i, FLAT_STEPS);
        const bool first = run(t, b, &job, &o), second = run(t, b, &job, &p);
        if (first && second) {
            CHECK(memcmp(o.weights, p.weights, n_bytes) == 0);
            CHECK(memcmp(o.gradients, p.gradients, n_bytes) == 0);
            CHECK(memcmp(o.losses, p.losses, sizeof o.losses) == 0);
        }
        flat_free(&o);
        flat_free(&p);
    }
}

/* ---- Every division of a batch --------------------------------------------------------------- */

static bool run_few(test *t, const baseline *b, dpt_device_set *devices, const char *split,
                    flat_outcome *out)
{
    flat_task job = task_of(b, b->few, FEW);
    job.split = split;
    if (CHECK_OK(flat_train(devices, &job, out))) return true;
    FAIL("split %s: %s", split, dpt_error_message(b->context));
    return false;
}

static void every_division(test *t)
{
    const baseline *b = t->user;
    dpt_device_set *one = NULL, *three = NULL;
    interpreter reference;
    flat_outcome single;
    double error[MAX_TENSORS];
    size_t n_divisions = 0;
    REQUIRE_OK(dpt_devices_open(b->context, "cpu:threads=1", &one));
    REQUIRE_OK(dpt_devices_open(b->context, "cpu:threads=1,cpu:threads=1,cpu:threads=1", &three));
    const flat_task once = task_of(b, b->few, FEW);
    REQUIRE(flat_interpret(&once, 1, (const size_t[]){FEW}, &reference));
    REQUIRE(run_few(t, b, one, "1", &single));
    flat_errors(b->model, single.gradients, reference.gradients, error);
    for (size_t i = 0; i <= FEW; i++) {
        for (size_t k = 0; i + k <= FEW; k++, n_divisions++) {
            char split[32];
            flat_outcome o;
            const char *worst = "";
            snprintf(split, sizeof split, "%zu:%zu:%zu", i, k, FEW - i - k);
            if (run_few(t, b, three, split, &o)) {
                CHECK(o.shards[0] == i && o.shards[1] == k && o.shards[2] == FEW - i - k);
                CHECK_NEAR(o.losses[0], single.losses[0], 1e-6);
                if (!CHECK(flat_gradients_agree(b->model, o.gradients, reference.gradients, error,
                                                &worst)) ||
                    !CHECK(o.replicas_agree))
                    FAIL("split %s: %s", split, worst);
            }
            flat_free(&o);
        }
    }
    CHECK_SIZE(n_divisions, 45);
    flat_free(&single);
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
        flat_outcome o;
        flat_task job = mix_task(b, i, 1);
        job.mode = DPT_BATCH_NORM_LOCAL;
        if (run(t, b, &job, &o) &&
            CHECK(flat_interpret(&job, strchr(strchr(job.devices, ',') + 1, ',') ? 3 : 2, o.shards,
                                 &shares)) &&
            CHECK(flat_interpret(&job, 1, (const size_t[]){FLAT_BATCH}, &batch))) {
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
        flat_free(&o);
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
        flat_outcome o;
        const flat_task job = {.model = b->model,
                               .data = b->data,
                               .devices = bugs[i].devices,
                               .split = "2:1",
                               .batch = FLAT_BATCH,
                               .steps = bugs[i].in_gradients ? 1 : FLAT_STEPS};
        if (run(t, b, &job, &o)) {
            const bool noticed = bugs[i].in_gradients
                                     ? !flat_gradients_agree(b->model, o.gradients,
                                                             b->reference.gradients, b->error, NULL)
                                     : !weights_agree(b, &o);
            if (!CHECK(noticed)) FAIL("%s", job.devices);
            /* What one device alone does wrong behind the all-reduce shows in the replicas. */
            if (i == 3) CHECK(!o.replicas_agree);
        }
        flat_free(&o);
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
