/* Tests ResNet-18 on several devices against one, by the two measures of baseline.h: its
   convolutions of 64 to 512 channels, strides, shortcuts and twenty batch-norms, on images of 8x8
   pixels.  The devices are the tested backend's (mixes.h), alone and beside the CPU. */
#include "dptrain_models.h"
#include "harness.h"
#include "train/baseline.h"

enum { MOST_MIXES = 5 };

/* What t->user points to. */
typedef struct setting {
    baseline one;
    mix_list mixes;
} setting;

static const mix cpu_mixes[] = {
    {"cpu,cpu", "equal"},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
};

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
    const flat_task task = baseline_mix_task(&s->one, &s->mixes.items[1], 4);
    baseline_check_repeats(t, &s->one, &task);
}

static void set_up(test *t, setting *s)
{
    const dpt_model_shape shape = {FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS, FLAT_CLASSES};
    s->mixes = tested_mixes(cpu_mixes, sizeof cpu_mixes / sizeof *cpu_mixes);
    if (s->mixes.n > MOST_MIXES) s->mixes.n = MOST_MIXES; /* a step takes a second on few cores */
    s->one.training = (flat_training){.lr = 1e-3f, .norm_bias = 2};
    REQUIRE_OK(dpt_context_create(&s->one.context));
    REQUIRE_OK(dpt_model_by_name(s->one.context, "resnet18", &shape, &s->one.model));
    baseline_create(t, &s->one);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gradients and statistics are those of one device", same_gradients},
        {"weights after 20 steps are those of one device", same_weights},
        {"the same run twice gives the same bits", same_bits_twice},
    };
    setting s = {.mixes = {.n = 0}};
    test setup = {.name = "one device"};
    const int missing = tested_backend_missing();
    if (missing) return missing;
    set_up(&setup, &s);
    const int code =
        setup.n_failures ? 1 : test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    baseline_destroy(&s.one);
    return code;
}
