/* Tests batch-norm over several devices: a small residual network against one device, by the two
   measures of baseline.h, and against the interpreter (interpreter.h).  The devices are the tested
   backend's (mixes.h), alone and beside the CPU.

   Both measures are shown to fail for a part that is dropped, for a part with a wrong count, and
   for statistics that are not committed. */
#include "harness.h"
#include "train/baseline.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEW = 8 /* a batch of which every division is tried */ };

/* What t->user points to. */
typedef struct setting {
    baseline one;
    mix_list mixes;
    dpt_dataset *few;
} setting;

static const mix cpu_mixes[] = {
    {"cpu,cpu", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:5:2"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "28:0:1"},
    {"cpu:threads=2,cpu:threads=1", "1:28"},
    {"faultstaged:threads=1,cpu:threads=1", "2:1"},
    {"faultstaged:threads=1,cpu:threads=1,faultstaged:threads=1", "13:2:1"},
    {"fault:threads=1:island=1,cpu:threads=1,fault:threads=1:island=1", "13:2:1"},
    /* Several processes. */
    {"cpu:threads=1|cpu:threads=1", "equal"},
    {"cpu:threads=1,faultstaged:threads=1|cpu:threads=1", "13:2:1"},
    {"cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1", "5:0:0:2"},
    {"fault:threads=1:island=1|faultstaged:threads=1:island=1", "1:2"},
    {"fault:threads=1:island=1|fault:threads=1:island=1,fault:threads=1:island=1", "13:2:1"},
};

/* ---- Any mix --------------------------------------------------------------------------------- */

static void same_gradients(test *t)
{
    const setting *s = t->user;
    baseline_check_mixes_gradients(t, &s->one, s->mixes);
}

static void same_weights(test *t)
{
    const setting *s = t->user;
    baseline_check_mixes_weights(t, &s->one, s->mixes);
}

static void same_bits_twice(test *t)
{
    const setting *s = t->user;
    for (size_t i = 0; i < (testing_cpu() ? 2 : s->mixes.n); i++) {
        const flat_task task = baseline_mix_task(&s->one, &s->mixes.items[i], FLAT_STEPS);
        baseline_check_repeats(t, &s->one, &task);
    }
}

/* ---- Every division of a batch --------------------------------------------------------------- */

static bool run_few(test *t, const setting *s, dpt_device_set *devices, const char *split,
                    flat_outcome *out)
{
    flat_task task = baseline_task(&s->one, s->few, FEW);
    task.split = split;
    if (CHECK_OK(flat_train(devices, &task, out))) return true;
    FAIL("split %s: %s", split, dpt_error_message(s->one.context));
    return false;
}

static void every_division(test *t)
{
    const setting *s = t->user;
    const baseline *b = &s->one;
    dpt_device_set *one = NULL, *three = NULL;
    interpreter reference;
    flat_outcome single;
    double error[BASELINE_TENSORS];
    size_t n_divisions = 0;
    const char *list = testing_cpu() ? "cpu:threads=1,cpu:threads=1,cpu:threads=1"
                                     : tested_devices("@0,cpu:threads=1,@1");
    REQUIRE_OK(dpt_device_set_open(b->context, "cpu:threads=1", &one));
    REQUIRE_OK(dpt_device_set_open(b->context, list, &three));
    const flat_task once = baseline_task(b, s->few, FEW);
    REQUIRE(flat_interpret(&once, 1, (const size_t[]){FEW}, &reference));
    REQUIRE(run_few(t, s, one, "1", &single));
    flat_errors(b->model, single.gradients, reference.gradients, error);
    for (size_t i = 0; i <= FEW; i++) {
        for (size_t k = 0; i + k <= FEW; k++, n_divisions++) {
            char split[32];
            flat_outcome o;
            const char *worst = "";
            snprintf(split, sizeof split, "%zu:%zu:%zu", i, k, FEW - i - k);
            if (run_few(t, s, three, split, &o)) {
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
    dpt_device_set_close(three);
    dpt_device_set_close(one);
}

/* ---- Statistics of each device's own --------------------------------------------------------- */

/* Each share by itself: its own statistics, gradients summed, statistics weighted by samples. */
static void compare_shards(test *t, const baseline *b, const flat_task *task, const flat_outcome *o)
{
    interpreter shards, batch;
    double difference = 0;
    if (!CHECK(flat_interpret(task, o->n_devices, o->shards, &shards)) ||
        !CHECK(flat_interpret(task, 1, (const size_t[]){FLAT_BATCH}, &batch)))
        return;
    interpreter_commit(&shards);
    for (size_t k = 0; k < b->model->n_parameters; k++) {
        const dpti_parameter *p = &b->model->parameters[k];
        const double norm = parameter_norm(p, shards.gradients);
        if (feeds_batch_norm(b->model, k)) continue;
        if (!CHECK(parameter_error(p, o->gradients, shards.gradients) <= 1e-5 * norm) ||
            !CHECK(parameter_error(p, o->weights, shards.parameters) <=
                   1e-6 * (1 + parameter_norm(p, shards.parameters))))
            FAIL("%s split %s: %s", task->devices, task->split, p->name);
        difference = fmax(difference, parameter_error(p, o->gradients, batch.gradients) / norm);
    }
    CHECK(o->replicas_agree);
    /* It is something else than statistics of the batch. */
    CHECK(o->n_devices == 1 || difference > 1e-2);
    interpreter_free(&shards);
    interpreter_free(&batch);
}

static void local_statistics(test *t)
{
    const setting *s = t->user;
    for (size_t i = testing_cpu(); i < s->mixes.n; i++) {
        flat_outcome o;
        flat_task task = baseline_mix_task(&s->one, &s->mixes.items[i], 1);
        task.mode = DPT_BATCH_NORM_LOCAL;
        if (baseline_run(t, &s->one, &task, &o)) compare_shards(t, &s->one, &task, &o);
        flat_free(&o);
    }
}

/* As many devices, all of them CPUs. */
static const char *cpus(size_t n)
{
    static const char *const lists[] = {"cpu:threads=1", "cpu:threads=1,cpu:threads=1",
                                        "cpu:threads=1,cpu:threads=1,cpu:threads=1",
                                        "cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1"};
    return lists[n - 1];
}

/* Twenty steps with statistics of each device's own: those of a mix of CPUs with the same shares,
   by measure (b), in either order. */
static void local_training(test *t)
{
    const setting *s = t->user;
    for (size_t i = testing_cpu(); i < s->mixes.n; i++) {
        flat_outcome o, of_cpus;
        flat_task task = baseline_mix_task(&s->one, &s->mixes.items[i], FLAT_STEPS);
        task.mode = DPT_BATCH_NORM_LOCAL;
        const bool ran = baseline_run(t, &s->one, &task, &o);
        flat_task on_cpus = task;
        on_cpus.devices = cpus(ran ? o.n_devices : 1);
        if (baseline_run(t, &s->one, &on_cpus, &of_cpus) && ran) {
            CHECK(o.replicas_agree);
            if (!baseline_runs_agree(&s->one, &o, &of_cpus)) {
                printf("  %s split %s: distance %g, permuted %g\n", task.devices, task.split,
                       flat_distance(s->one.model, o.weights, of_cpus.weights), s->one.moved);
                if (!CHECK(baseline_agree_in_another_order(t, &s->one, &on_cpus, &task)))
                    FAIL("%s split %s", task.devices, task.split);
            }
        }
        flat_free(&o);
        flat_free(&of_cpus);
    }
}

/* Nothing is exchanged within a batch, and every mix trains as one device does. */
static void frozen_training(test *t)
{
    const setting *s = t->user;
    const baseline *b = &s->one;
    flat_outcome one, other;
    flat_task task = baseline_mix_task(b, &(mix){"cpu:threads=1", NULL}, FLAT_STEPS);
    task.mode = DPT_BATCH_NORM_FROZEN;
    const bool ran = CHECK_OK(flat_run(b->context, &task, &one));
    CHECK(one.losses[FLAT_STEPS - 1] < one.losses[0]);
    for (size_t i = 0; ran && i < s->mixes.n; i++) {
        task.devices = s->mixes.items[i].devices;
        task.split = s->mixes.items[i].split;
        if (!CHECK_OK(flat_run(b->context, &task, &other)))
            FAIL("%s: %s", task.devices, dpt_error_message(b->context));
        else
            for (size_t k = 0; k < FLAT_STEPS; k++)
                if (!CHECK_NEAR(other.losses[k], one.losses[k], 1e-4 * one.losses[k]))
                    FAIL("%s split %s, step %zu", task.devices, task.split, k + 1);
        CHECK(other.replicas_agree);
        flat_free(&other);
    }
    flat_free(&one);
}

/* ---- What must be noticed -------------------------------------------------------------------- */

static void planted_bugs_are_caught(test *t)
{
    const setting *s = t->user;
    static const struct {
        const char *with_cpu, *with_other;
        bool in_gradients, in_replicas;
    } bugs[] = {
        {"cpu:threads=1,fault:threads=1:bug=part", "@0,fault:threads=1:bug=part", true, false},
        {"fault:threads=1:bug=tally,cpu:threads=1", "fault:threads=1:bug=tally,@0", true, false},
        {"cpu:threads=1,fault:threads=1:bug=drop", "@0,fault:threads=1:bug=drop", true, false},
        /* What one device alone does wrong behind the all-reduce shows in the replicas. */
        {"fault:threads=1:bug=frozen,cpu:threads=1", "fault:threads=1:bug=frozen,@0", false, true},
        {"fault:threads=1:bug=frozen,fault:threads=1:bug=frozen", NULL, false, false},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        flat_outcome o;
        flat_task task = baseline_task(&s->one, s->one.data, FLAT_BATCH);
        task.split = "2:1";
        task.steps = bugs[i].in_gradients ? 1 : FLAT_STEPS;
        task.devices = bugs[i].with_cpu;
        if (!testing_cpu() && bugs[i].with_other) task.devices = tested_devices(bugs[i].with_other);
        if (baseline_run(t, &s->one, &task, &o)) {
            const bool noticed = bugs[i].in_gradients ? !baseline_gradients_agree(&s->one, &o)
                                                      : !baseline_weights_agree(&s->one, &o);
            if (!CHECK(noticed)) FAIL("%s", task.devices);
            CHECK(!bugs[i].in_replicas || !o.replicas_agree);
        }
        flat_free(&o);
    }
}

static void set_up(test *t, setting *s)
{
    s->mixes = tested_mixes(cpu_mixes, sizeof cpu_mixes / sizeof *cpu_mixes);
    REQUIRE_OK(dpt_context_create(&s->one.context));
    REQUIRE_OK(flat_data(s->one.context, FEW, 0, &s->few));
    REQUIRE_OK(flat_residual(s->one.context, &s->one.model));
    baseline_create(t, &s->one);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gradients and statistics are those of one device", same_gradients},
        {"weights after 20 steps are those of one device", same_weights},
        {"the same run twice gives the same bits", same_bits_twice},
        {"every division of a batch", every_division},
        {"statistics of each device's own", local_statistics},
        {"training with statistics of each device's own", local_training},
        {"training with frozen statistics", frozen_training},
        {"planted bugs are caught", planted_bugs_are_caught},
    };
    setting s = {.few = NULL};
    test setup = {.name = "one device"};
    add_fault_plugins();
    const int missing = tested_backend_missing();
    if (missing) return missing;
    set_up(&setup, &s);
    const int code =
        setup.n_failures ? 1 : test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_dataset_destroy(s.few);
    baseline_destroy(&s.one);
    return code;
}
