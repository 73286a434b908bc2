/* Tests subsets of a device set: they use the same open devices, with the cores that they have in
   the whole set, so that a device can be measured alone and in a mix. */
#include "harness.h"
#include "train/support.h"

#include <string.h>

enum { BATCH = 16, STEPS = 4 };

typedef struct setting {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
} setting;

static bool open_setting(test *t, setting *s, const char *list)
{
    const dpt_model_shape shape = {.height = 8, .width = 8, .channels = 1, .classes = 3};
    *s = (setting){0};
    return CHECK_OK(dpt_context_create(&s->context)) &&
           CHECK_OK(dpt_device_set_open(s->context, list, &s->devices)) &&
           CHECK_OK(
               dpt_dataset_open(s->context, "synthetic:8x8x1:3:64", NULL, DPT_TRAIN, &s->data)) &&
           CHECK_OK(dpt_model_by_name(s->context, "mlp", &shape, &s->model));
}

static void close_setting(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
}

static dpt_trainer *make_trainer(test *t, const setting *s, dpt_device_set *devices)
{
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .split = {DPT_SPLIT_EQUAL, NULL}, .seed = 3};
    dpt_trainer *trainer = NULL;
    (void)CHECK_OK(dpt_trainer_create(devices, s->model, s->data, &options, &trainer));
    return trainer;
}

/* The losses of STEPS steps. */
static void train(test *t, const setting *s, dpt_device_set *devices, double losses[STEPS])
{
    dpt_trainer *trainer = make_trainer(t, s, devices);
    for (size_t i = 0; trainer && i < STEPS; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        if (!CHECK_OK(dpt_trainer_step(trainer, &m))) break;
        CHECK_SIZE(m.n_devices, dpt_device_set_count(devices));
        losses[i] = m.loss;
    }
    dpt_trainer_destroy(trainer);
}

static void shares_the_open_devices(test *t)
{
    static const size_t indices[] = {2, 0};
    setting s;
    dpt_device_set *subset = NULL;
    if (open_setting(t, &s, "cpu:threads=1,cpu:threads=1:throttle=2,cpu:threads=1:throttle=3") &&
        CHECK_OK(dpt_device_set_subset(s.devices, indices, 2, &subset))) {
        CHECK_SIZE(dpt_device_set_count(subset), 2);
        CHECK(dpt_device_set_get(subset, 0) == dpt_device_set_get(s.devices, 2));
        CHECK(dpt_device_set_get(subset, 1) == dpt_device_set_get(s.devices, 0));
        CHECK(dpt_device_set_get(subset, 2) == NULL);
        CHECK_OK(dpt_device_set_wait(subset));
        dpt_device_set_close(subset);
        /* That has closed none of them. */
        double losses[STEPS];
        train(t, &s, s.devices, losses);
    }
    close_setting(&s);
}

static void trains_like_a_set_of_its_own(test *t)
{
    static const size_t second = 1;
    double alone[STEPS] = {0}, within[STEPS] = {0}, again[STEPS] = {0};
    setting s;
    dpt_device_set *subset = NULL;
    if (open_setting(t, &s, "cpu:threads=1")) train(t, &s, s.devices, alone);
    close_setting(&s);
    if (open_setting(t, &s, "cpu:threads=1:throttle=2,cpu:threads=1") &&
        CHECK_OK(dpt_device_set_subset(s.devices, &second, 1, &subset))) {
        train(t, &s, subset, within);
        double mixed[STEPS];
        train(t, &s, s.devices, mixed);
        train(t, &s, subset, again);
        dpt_device_set_close(subset);
    }
    close_setting(&s);
    CHECK(alone[STEPS - 1] > 0);
    CHECK(memcmp(alone, within, sizeof alone) == 0);
    CHECK(memcmp(alone, again, sizeof alone) == 0);
}

static void trainers_on_several_take_turns(test *t)
{
    static const size_t first = 0;
    setting s;
    dpt_device_set *subset = NULL;
    if (open_setting(t, &s, "cpu:threads=1,cpu:threads=1") &&
        CHECK_OK(dpt_device_set_subset(s.devices, &first, 1, &subset))) {
        dpt_trainer *one = make_trainer(t, &s, subset), *both = make_trainer(t, &s, s.devices);
        for (size_t i = 0; one && both && i < STEPS; i++) {
            dpt_step_metrics a = {.size = sizeof a}, b = {.size = sizeof b};
            CHECK_OK(dpt_trainer_step(one, &a));
            CHECK_OK(dpt_trainer_step(both, &b));
            CHECK_NEAR(a.loss, b.loss, 1e-5);
        }
        dpt_trainer_destroy(both);
        dpt_trainer_destroy(one);
        dpt_device_set_close(subset);
    }
    close_setting(&s);
}

static void refuses_what_is_no_subset(test *t)
{
    static const size_t twice[] = {1, 0, 1}, beyond[] = {0, 2};
    setting s;
    dpt_device_set *subset = NULL;
    if (open_setting(t, &s, "cpu:threads=1,cpu:threads=1")) {
        CHECK_STATUS(dpt_device_set_subset(s.devices, twice, 3, &subset), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "device 1 stands twice");
        CHECK_STATUS(dpt_device_set_subset(s.devices, beyond, 2, &subset), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "no device 2 in a set of 2");
        CHECK_STATUS(dpt_device_set_subset(s.devices, twice, 0, &subset), DPT_E_INVALID);
        CHECK(subset == NULL);
    }
    close_setting(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"shares the open devices", shares_the_open_devices},
        {"trains like a set of its own", trains_like_a_set_of_its_own},
        {"trainers on several take turns", trainers_on_several_take_turns},
        {"refuses what is no subset", refuses_what_is_no_subset},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
