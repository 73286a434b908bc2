/* Tests "any mix, same training": LeNet on several devices against one, by two measures.  The
   devices are the tested backend's (mixes.h), alone and beside the CPU.

   (a) After one step, every gradient tensor is as near to a double-precision gradient as one
   device's is: |x - ref| <= 4 |one device - ref| + 1e-7 |ref|.

   (b) After 20 steps, in which the loss falls by a fifth, the weights are within 4 times the
   distance that one device moves when the samples of each batch are summed in another order.

   Both measures are shown to fail for a dropped shard, a wrongly scaled gradient and stale
   weights. */
#include "harness.h"
#include "train/mixes.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 61, STEPS = 20, PERMUTATIONS = 3 };

/* Prime batch, ragged last one: 20 steps are 1 whole epoch of 14 batches, the last of 23, and 6. */
enum { COUNT = 13 * BATCH + 23 };

static const float rate = 0.06f, momentum = 0.9f;

static const mix cpu_mixes[] = {
    {"cpu,cpu", "equal"},
    {"cpu:threads=1,cpu:threads=1", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "5:2:1"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "1:0:3"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "0:0:1"},
    {"cpu:threads=2,cpu:threads=1", "60:1"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1", "equal"},
    /* Shares that change at every step. */
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "replay:changing.jsonl"},
    {"cpu:threads=1,cpu:threads=1:throttle=3", "measured"},
    /* Staged transfers, as a GPU needs them. */
    {"faultstaged,cpu:threads=1", "2:1"},
    {"faultstaged,faultstaged,cpu:threads=1", "3:1:2"},
    /* Islands: the whole mix, in front of others and behind them, two of them, without samples. */
    {"fault:threads=1:island=1,fault:threads=1:island=1", "equal"},
    {"fault:threads=1:island=1,fault:threads=1:island=1,cpu:threads=1", "3:1:2"},
    {"cpu:threads=1,faultstaged:threads=1:island=1,faultstaged:threads=1:island=1", "1:0:2"},
    {"fault:threads=1:island=1,faultstaged:threads=1:island=1,cpu:threads=1,"
     "faultstaged:threads=1:island=1,fault:threads=1:island=1",
     "3:1:2:5:0"},
    {"fault:threads=1:island=1,cpu:threads=1,fault:threads=1:island=1", "replay:changing.jsonl"},
    {"faultstaged:threads=1:island=1,faultstaged:threads=1:island=1,faultstaged:threads=1:island=1",
     "0:0:1"},
    /* Several processes. */
    {"faultstaged:threads=1:island=1,cpu:threads=1,faultstaged:threads=1:island=1|fault:threads=1:"
     "island=1,fault:threads=1:island=1",
     "2:1:1:0:3"},
    {"cpu:threads=1|cpu:threads=1", "equal"},
    /* Wide islands: of all devices of all processes; and what cannot be one. */
    {"fault:threads=1:island=1|fault:threads=1:island=1", "equal"},
    {"faultstaged:threads=1:island=1,faultstaged:threads=1:island=1|faultstaged:threads=1:island=1|"
     "faultstaged:threads=1:island=1",
     "2:1:0:3"},
    {"fault:threads=1:island=1|fault:threads=1:island=1,fault:threads=1:island=1",
     "replay:changing.jsonl"},
    {"fault:threads=1:island=1|fault:threads=1:island=2", "equal"},
    {"fault:threads=1:island=1,fault:threads=1:island=1|fault:threads=1:island=1:narrow=1",
     "1:2:1"},
    {"cpu:threads=1,cpu:threads=1|cpu:threads=1", "5:2:1"},
    {"cpu:threads=1|cpu:threads=1,cpu:threads=1", "replay:changing.jsonl"},
    {"cpu:threads=1,cpu:threads=1|cpu:threads=1|cpu:threads=1,faultstaged", "3:0:1:2:4"},
    {"cpu:threads=1|cpu:threads=1,cpu:threads=1|faultstaged|cpu:threads=1", "1:0:0:2:0"},
    {"cpu:threads=1|cpu:threads=1:throttle=3", "measured"},
};

/* ---- What is compared with ------------------------------------------------------------------- */

typedef struct baseline {
    mix_list mixes;
    image_set data;
    lenet64 gradients;                  /* double precision, first batch */
    double single_error[LENET_TENSORS]; /* of one device's gradients */
    double norm[LENET_TENSORS];         /* of the double-precision gradients */
    run_result first, last;             /* one device, after 1 and after STEPS steps */
    double permuted;                    /* how far a change of order moves the weights */
} baseline;

static double tensor_error(const float *x, const double *reference, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow((double)x[i] - reference[i], 2);
    return sqrt(sum);
}

static void double_precision(test *t, baseline *b, const run_result *start)
{
    lenet64 weights;
    double *pixels = calloc(BATCH * 784, sizeof *pixels);
    REQUIRE(pixels && lenet64_create(&weights) && lenet64_create(&b->gradients));
    size_t at = 0;
    for (int i = 0; i < LENET_TENSORS; i++)
        for (size_t k = 0; k < lenet_sizes[i]; k++)
            weights.tensor[i][k] = (double)start->weights[at++];
    for (size_t i = 0; i < BATCH * 784; i++)
        pixels[i] = b->data.pixels[i] / 255.0;
    const double loss = lenet64_gradients(&weights, pixels, b->data.labels, BATCH, &b->gradients);
    CHECK_NEAR(b->first.losses[0], loss, 1e-6);
    at = 0;
    for (int i = 0; i < LENET_TENSORS; i++) {
        const double *reference = b->gradients.tensor[i];
        b->single_error[i] = tensor_error(b->first.gradients + at, reference, lenet_sizes[i]);
        for (size_t k = 0; k < lenet_sizes[i]; k++)
            b->norm[i] += reference[k] * reference[k];
        b->norm[i] = sqrt(b->norm[i]);
        CHECK(b->norm[i] > 0);
        /* One device is right in the first place. */
        CHECK(b->single_error[i] <= 1e-5 * b->norm[i]);
        at += lenet_sizes[i];
    }
    lenet64_free(&weights);
    free(pixels);
}

static void one_device(test *t, baseline *b)
{
    run_options o = {
        .devices = "cpu", .batch = BATCH, .steps = 0, .lr = rate, .momentum = momentum};
    run_result start;
    train_run(&b->data, &o, &start);
    REQUIRE_OK(start.status);
    o.steps = 1;
    train_run(&b->data, &o, &b->first);
    REQUIRE_OK(b->first.status);
    double_precision(t, b, &start);
    run_free(&start);
    o.steps = STEPS;
    train_run(&b->data, &o, &b->last);
    REQUIRE_OK(b->last.status);
    CHECK(b->last.losses[STEPS - 1] <= 0.8 * b->last.losses[0]);
    for (uint64_t p = 1; p <= PERMUTATIONS; p++) {
        image_set other;
        run_result r;
        REQUIRE(images_create(COUNT, 7, &other));
        images_permute_batches(&other, BATCH, p);
        train_run(&other, &o, &r);
        CHECK_OK(r.status);
        b->permuted = fmax(b->permuted, distance(r.weights, b->last.weights, r.size));
        run_free(&r);
        images_free(&other);
    }
    CHECK(b->permuted > 0);
}

/* ---- The two measures ------------------------------------------------------------------------ */

/* `words`, which may be NULL, gets what is out of bounds. */
static bool gradients_agree(const baseline *b, const run_result *r, char *words, size_t n_bytes)
{
    size_t at = 0, length = 0;
    bool agree = true;
    for (int i = 0; i < LENET_TENSORS; i++) {
        const double error =
            tensor_error(r->gradients + at, b->gradients.tensor[i], lenet_sizes[i]);
        at += lenet_sizes[i];
        if (error <= 4 * b->single_error[i] + 1e-7 * b->norm[i]) continue;
        agree = false;
        if (words && length < n_bytes)
            length +=
                (size_t)snprintf(words + length, n_bytes - length,
                                 " %s is off by %.2g of itself, one device by %.2g", lenet_names[i],
                                 error / b->norm[i], b->single_error[i] / b->norm[i]);
    }
    return agree;
}

static bool weights_agree(const baseline *b, const run_result *r)
{
    return distance(r->weights, b->last.weights, r->size) <= 4 * b->permuted;
}

static void run_mix(const baseline *b, const mix *m, size_t n_steps, run_result *r)
{
    const run_options o = {.devices = m->devices,
                           .split = m->split,
                           .batch = BATCH,
                           .steps = n_steps,
                           .lr = rate,
                           .momentum = momentum};
    train_run(&b->data, &o, r);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void same_gradients(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < b->mixes.n; i++) {
        const mix *m = &b->mixes.items[i];
        run_result r;
        char words[1024] = "";
        run_mix(b, m, 1, &r);
        if (!CHECK_OK(r.status) || !CHECK(gradients_agree(b, &r, words, sizeof words)) ||
            !CHECK(r.replicas_agree))
            FAIL("%s split %s: %s%s", m->devices, m->split, r.message, words);
        run_free(&r);
    }
}

static void same_weights(test *t)
{
    const baseline *b = t->user;
    for (size_t i = 0; i < b->mixes.n; i++) {
        const mix *m = &b->mixes.items[i];
        run_result r;
        run_mix(b, m, STEPS, &r);
        if (!CHECK_OK(r.status) || !CHECK(weights_agree(b, &r)) || !CHECK(r.replicas_agree))
            FAIL("%s split %s: distance %g, permuted %g %s", m->devices, m->split,
                 distance(r.weights, b->last.weights, r.size), b->permuted, r.message);
        for (size_t s = 0; s < STEPS; s++)
            CHECK_NEAR(r.losses[s], b->last.losses[s], 1e-4);
        run_free(&r);
    }
}

static void same_bits_twice(test *t)
{
    const baseline *b = t->user;
    static const mix of_cpu[] = {{"cpu", NULL},
                                 {"cpu:threads=2,cpu:threads=1", "2:1"},
                                 {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "5:2:1"}};
    const mix_list again = testing_cpu() ? (mix_list){3, of_cpu} : b->mixes;
    for (size_t i = 0; i < again.n; i++) {
        run_result r, s;
        run_mix(b, &again.items[i], STEPS, &r);
        run_mix(b, &again.items[i], STEPS, &s);
        CHECK_OK(r.status);
        CHECK_OK(s.status);
        CHECK(memcmp(r.weights, s.weights, r.size * sizeof *r.weights) == 0);
        CHECK(memcmp(r.losses, s.losses, STEPS * sizeof *r.losses) == 0);
        run_free(&r);
        run_free(&s);
    }
}

static void shards_are_as_asked(test *t)
{
    const baseline *b = t->user;
    run_result r;
    run_mix(b, &(mix){"cpu:threads=1,cpu:threads=1,cpu:threads=1", "5:2:1"}, 1, &r);
    REQUIRE_OK(r.status);
    CHECK_SIZE(r.shards[0], 38); /* 61 * 5/8 = 38.125, 61 * 2/8 = 15.25, 61 / 8 = 7.625 */
    CHECK_SIZE(r.shards[1], 15);
    CHECK_SIZE(r.shards[2], 8);
    run_free(&r);
}

/* The measures must notice what they are there for. */
static void planted_bugs_are_caught(test *t)
{
    const baseline *b = t->user;
    static const struct {
        const char *with_cpu, *with_other;
        bool in_gradients;
    } bugs[] = {
        {"cpu:threads=1,fault:bug=drop", "@0,fault:bug=drop", true},
        {"cpu:threads=1,fault:bug=scale", "@0,fault:bug=scale", true},
        {"fault:bug=stale,cpu:threads=1", "fault:bug=stale,@0", false},
    };
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        run_result r;
        const char *devices = testing_cpu() ? bugs[i].with_cpu : tested_devices(bugs[i].with_other);
        run_mix(b, &(mix){devices, "2:1"}, bugs[i].in_gradients ? 1 : STEPS, &r);
        if (!CHECK_OK(r.status)) FAIL("%s: %s", devices, r.message);
        if (bugs[i].in_gradients)
            CHECK(!gradients_agree(b, &r, NULL, 0));
        else
            CHECK(!weights_agree(b, &r));
        run_free(&r);
    }
}

/* The log of a run whose shares jump from step to step, zeros included. */
static bool write_changing_shards(const char *path)
{
    test_random random = {23};
    FILE *file = fopen(path, "w");
    if (!file) return false;
    fprintf(file, "{\"event\":\"run\",\"batch_size\":%d,\"devices\":[{},{},{}]}\n", BATCH);
    for (size_t step = 1; step <= STEPS; step++) {
        const size_t n = step % 14 == 0 ? COUNT - 13 * BATCH : BATCH;
        const size_t a = test_random_below(&random, n + 1);
        const size_t b = step % 5 == 0 ? 0 : test_random_below(&random, n - a + 1);
        fprintf(file,
                "{\"event\":\"step\",\"step\":%zu,\"samples\":%zu,\"shards\":[%zu,%zu,%zu]}\n",
                step, n, a, b, n - a - b);
    }
    return fclose(file) == 0;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gradients are those of one device", same_gradients},
        {"weights after 20 steps are those of one device", same_weights},
        {"the same run twice gives the same bits", same_bits_twice},
        {"shares are as asked", shards_are_as_asked},
        {"planted bugs are caught", planted_bugs_are_caught},
    };
    baseline b = {0};
    test setup = {.name = "one device"};
    add_fault_plugins();
    const int missing = tested_backend_missing();
    if (missing) return missing;
    b.mixes = tested_mixes(cpu_mixes, sizeof cpu_mixes / sizeof *cpu_mixes);
    if (!images_create(COUNT, 7, &b.data) || !write_changing_shards("changing.jsonl")) return 1;
    one_device(&setup, &b);
    if (setup.n_failures) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &b);
    run_free(&b.first);
    run_free(&b.last);
    lenet64_free(&b.gradients);
    images_free(&b.data);
    return code;
}
