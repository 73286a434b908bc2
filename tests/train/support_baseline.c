/* One device's training and the measures (baseline.h). */
#include "train/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

flat_task baseline_task(const baseline *b, const dpt_dataset *data, size_t batch)
{
    return (flat_task){.model = b->model,
                       .data = data,
                       .training = b->training,
                       .devices = "cpu",
                       .batch = batch,
                       .steps = 1};
}

bool baseline_run(test *t, const baseline *b, const flat_task *task, flat_outcome *out)
{
    if (CHECK_OK(flat_run(b->context, task, out))) return true;
    FAIL("%s split %s: %s", task->devices, task->split, dpt_error_message(b->context));
    return false;
}

/* ---- One device ------------------------------------------------------------------------------ */

/* PyTorch's rule, with its momentum of 0.1: statistics of the batch stand where gradients do. */
static void check_running(test *t, const baseline *b, const double *before,
                          const flat_outcome *first)
{
    for (size_t i = 0; i < b->model->n_parameters; i++) {
        const dpti_parameter *p = &b->model->parameters[i];
        for (size_t e = p->offset; dpti_is_statistic(p->role) && e < p->offset + p->size; e++) {
            const double value = 0.9 * before[e] + 0.1 * b->reference.gradients[e];
            CHECK_NEAR((double)first->weights[e], value, 1e-6 * fmax(1, fabs(value)));
        }
    }
}

/* Of a gradient's norm.  Winograd's F(4x4, 3x3) has up to ten times the direct method's error
   (docs/numerics.md). */
static double most_error(void)
{
    const char *algorithm = getenv("DPTRAIN_CPU_ALGORITHM");
    return algorithm && strcmp(algorithm, "winograd4") == 0 ? 1e-4 : 1e-5;
}

static void starts(test *t, baseline *b)
{
    flat_outcome first;
    const dpt_model *m = b->model;
    const flat_task once = baseline_task(b, b->data, FLAT_BATCH);
    double *before = malloc(m->flat_size * sizeof *before);
    REQUIRE(before && m->n_parameters <= BASELINE_TENSORS);
    REQUIRE(flat_interpret(&once, 1, (const size_t[]){FLAT_BATCH}, &b->reference));
    memcpy(before, b->reference.parameters, m->flat_size * sizeof *before);
    if (baseline_run(t, b, &once, &first)) {
        flat_errors(m, first.gradients, b->reference.gradients, b->error);
        /* One device is right in the first place. */
        for (size_t i = 0; i < m->n_parameters; i++) {
            const double norm = parameter_norm(&m->parameters[i], b->reference.gradients);
            if (flat_gradient_is_zero(m, i, b->reference.gradients)) continue;
            if (!CHECK(norm > 0 && b->error[i] <= most_error() * norm))
                FAIL("%s: %g of %g", m->parameters[i].name, b->error[i], norm);
        }
        check_running(t, b, before, &first);
        interpreter_commit(&b->reference);
        for (size_t i = 0; i < m->n_parameters; i++) {
            const dpti_parameter *p = &m->parameters[i];
            CHECK(parameter_error(p, first.weights, b->reference.parameters) <=
                  1e-6 * (1 + parameter_norm(p, b->reference.parameters)));
        }
    }
    flat_free(&first);
    free(before);
}

static void trains(test *t, baseline *b)
{
    flat_outcome last, other;
    flat_task task = baseline_task(b, b->data, FLAT_BATCH);
    task.steps = FLAT_STEPS;
    REQUIRE(baseline_run(t, b, &task, &last));
    b->last = last.weights;
    free(last.gradients);
    memcpy(b->losses, last.losses, sizeof b->losses);
    if (!CHECK(b->losses[FLAT_STEPS - 1] <= 0.8 * b->losses[0]))
        FAIL("from %g to %g", b->losses[0], b->losses[FLAT_STEPS - 1]);
    for (size_t i = 0; i < BASELINE_PERMUTATIONS; i++) {
        task.data = b->permuted[i];
        if (baseline_run(t, b, &task, &other))
            b->moved = fmax(b->moved, flat_distance(b->model, other.weights, b->last));
        flat_free(&other);
    }
    CHECK(b->moved > 0);
}

void baseline_create(test *t, baseline *b)
{
    REQUIRE_OK(flat_data(b->context, FLAT_COUNT, 0, &b->data));
    for (size_t i = 0; i < BASELINE_PERMUTATIONS; i++)
        REQUIRE_OK(flat_data(b->context, FLAT_COUNT, i + 1, &b->permuted[i]));
    starts(t, b);
    trains(t, b);
}

void baseline_destroy(baseline *b)
{
    interpreter_free(&b->reference);
    free(b->last);
    dpt_model_destroy(b->model);
    for (size_t i = 0; i < BASELINE_PERMUTATIONS; i++)
        dpt_dataset_destroy(b->permuted[i]);
    dpt_dataset_destroy(b->data);
    dpt_context_destroy(b->context);
}

/* ---- The two measures ------------------------------------------------------------------------ */

bool baseline_gradients_agree(const baseline *b, const flat_outcome *o)
{
    return flat_gradients_agree(b->model, o->gradients, b->reference.gradients, b->error, NULL);
}

static bool near(const baseline *b, const float *x, const float *y)
{
    return flat_distance(b->model, x, y) <= 4 * b->moved;
}

bool baseline_weights_agree(const baseline *b, const flat_outcome *o)
{
    return near(b, o->weights, b->last);
}

void baseline_check_gradients(test *t, const baseline *b, const flat_task *task,
                              const flat_outcome *o)
{
    const dpt_model *m = b->model;
    double error[BASELINE_TENSORS];
    flat_errors(m, o->gradients, b->reference.gradients, error);
    if (!CHECK(baseline_gradients_agree(b, o)) || !CHECK(o->replicas_agree))
        FAIL("%s split %s", task->devices, task->split);
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        const double norm = parameter_norm(p, b->reference.gradients);
        if (!flat_gradient_is_zero(m, i, b->reference.gradients) &&
            !(error[i] <= 4 * b->error[i] + 1e-7 * norm))
            FAIL("%s split %s: %s is off by %.3g of itself, one device by %.3g", task->devices,
                 task->split, p->name, error[i] / norm, b->error[i] / norm);
    }
}

/* The parameter that has moved farthest, and how far, for messages. */
static const char *farthest(const baseline *b, const flat_outcome *o, double *distance)
{
    const char *name = "nothing";
    *distance = 0;
    for (size_t i = 0; i < b->model->n_parameters; i++) {
        const dpti_parameter *p = &b->model->parameters[i];
        const double d = flat_parameter_distance(b->model, i, o->weights, b->last);
        if (d > *distance) {
            *distance = d;
            name = p->name;
        }
    }
    return name;
}

bool baseline_runs_agree(const baseline *b, const flat_outcome *o, const flat_outcome *p)
{
    if (!near(b, o->weights, p->weights)) return false;
    for (size_t s = 0; s < FLAT_STEPS; s++)
        if (!(fabs(o->losses[s] - p->losses[s]) <= 1e-4)) return false;
    return true;
}

bool baseline_agree_in_another_order(test *t, const baseline *b, const flat_task *one,
                                     const flat_task *other)
{
    flat_task first = *one, second = *other;
    flat_outcome x = {.weights = NULL}, y = {.weights = NULL};
    first.data = second.data = b->permuted[0];
    bool agree = baseline_run(t, b, &first, &x) && baseline_run(t, b, &second, &y);
    if (agree) {
        agree = baseline_runs_agree(b, &x, &y);
        printf("  in another order the distance is %g\n",
               flat_distance(b->model, x.weights, y.weights));
    }
    flat_free(&x);
    flat_free(&y);
    return agree;
}

void baseline_check_weights(test *t, const baseline *b, const flat_task *task,
                            const flat_outcome *o)
{
    flat_outcome last = {.weights = b->last};
    memcpy(last.losses, b->losses, sizeof b->losses);
    CHECK(o->replicas_agree);
    if (baseline_runs_agree(b, o, &last)) return;
    flat_task one = baseline_task(b, b->data, FLAT_BATCH);
    one.steps = FLAT_STEPS;
    double most;
    const char *name = farthest(b, o, &most);
    printf("  %s split %s: distance %g, permuted %g; %s alone %g\n", task->devices, task->split,
           flat_distance(b->model, o->weights, b->last), b->moved, name, most);
    if (!CHECK(baseline_agree_in_another_order(t, b, &one, task)))
        FAIL("%s split %s", task->devices, task->split);
}

void baseline_check_repeats(test *t, const baseline *b, const flat_task *task)
{
    const size_t n_bytes = b->model->flat_size * sizeof(float);
    flat_outcome o, p;
    const bool first = baseline_run(t, b, task, &o), second = baseline_run(t, b, task, &p);
    if (first && second) {
        CHECK(memcmp(o.weights, p.weights, n_bytes) == 0);
        CHECK(memcmp(o.gradients, p.gradients, n_bytes) == 0);
        CHECK(memcmp(o.losses, p.losses, sizeof o.losses) == 0);
    }
    flat_free(&o);
    flat_free(&p);
}

/* ---- Mixes ----------------------------------------------------------------------------------- */

flat_task baseline_mix_task(const baseline *b, const mix *m, size_t steps)
{
    flat_task task = baseline_task(b, b->data, FLAT_BATCH);
    task.devices = m->devices;
    task.split = m->split;
    task.steps = steps;
    return task;
}

void baseline_check_mixes_gradients(test *t, const baseline *b, mix_list mixes)
{
    for (size_t i = 0; i < mixes.n; i++) {
        flat_outcome o;
        const flat_task task = baseline_mix_task(b, &mixes.items[i], 1);
        if (baseline_run(t, b, &task, &o)) baseline_check_gradients(t, b, &task, &o);
        flat_free(&o);
    }
}

void baseline_check_mixes_weights(test *t, const baseline *b, mix_list mixes)
{
    for (size_t i = 0; i < mixes.n; i++) {
        flat_outcome o;
        const flat_task task = baseline_mix_task(b, &mixes.items[i], FLAT_STEPS);
        if (baseline_run(t, b, &task, &o)) baseline_check_weights(t, b, &task, &o);
        flat_free(&o);
    }
}
