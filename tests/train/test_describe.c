/* Compares what a trainer says that it needs with what it has taken from the devices. */
#include "device/set.h"
#include "harness.h"
#include "train/support.h"

#include <stdatomic.h>

enum { SIDE = 12, CHANNELS = 3, CLASSES = 4, COUNT = 90, BATCH = 32 };

static size_t sum(const dpt_device_plan *p)
{
    return p->parameter_bytes + p->optimizer_bytes + p->activation_bytes + p->step_bytes +
           p->data_bytes;
}

typedef struct setting {
    const char *devices, *model;
    dpt_trainer_options options;
} setting;

/* A step and an evaluation, after which everything is there that will be. */
static dpt_status run(dpt_context *context, dpt_device_set *devices, const dpt_dataset *data,
                      const setting *s, dpt_trainer **trainer, dpt_model **model)
{
    const dpt_model_shape shape = {SIDE, SIDE, CHANNELS, CLASSES};
    dpt_step_metrics step = {.size = sizeof step};
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    DPT_TRY(dpt_model_by_name(context, s->model, &shape, model));
    dpt_trainer_options options = s->options;
    options.size = sizeof options;
    DPT_TRY(dpt_trainer_create(devices, *model, data, &options, trainer));
    DPT_TRY(dpt_trainer_step(*trainer, &step));
    return dpt_trainer_evaluate(*trainer, data, &evaluation);
}

static void check(test *t, const setting *s)
{
    dpt_context *context = NULL;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_device_set_open(context, s->devices, &devices));
    REQUIRE_OK(dpt_dataset_open(context, "synthetic:12x12x3:4:90", NULL, DPT_TRAIN, &data));
    CHECK_OK(run(context, devices, data, s, &trainer, &model));
    size_t samples = 0;
    for (size_t i = 0; trainer && i < dpt_device_set_count(devices); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        REQUIRE_OK(dpt_trainer_plan(trainer, i, &plan));
        samples += plan.samples;
        CHECK_SIZE(atomic_load(&devices->devices[i]->memory_used_bytes), sum(&plan));
        CHECK(plan.micro_batch <= plan.samples || plan.samples == 0);
        CHECK((plan.flops > 0) == (plan.samples > 0));
    }
    CHECK_SIZE(samples, BATCH);
    if (trainer) {
        dpt_device_plan none = {.size = sizeof none};
        CHECK_STATUS(dpt_trainer_plan(trainer, dpt_device_set_count(devices), &none),
                     DPT_E_INVALID);
    }
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
}

static void plans(test *t)
{
    static const setting settings[] = {
        {"cpu", "mlp", {.batch_size = BATCH}},
        {"cpu", "resnet18", {.batch_size = BATCH, .momentum = 0.9f}},
        {"cpu,cpu", "resnet18", {.batch_size = BATCH, .split = {DPT_SPLIT_PROPORTIONS, "3:1"}}},
        {"cpu", "resnet18", {.batch_size = BATCH, .micro_batch = 5}},
        {"faultstaged,cpu:threads=1",
         "mlp",
         {.batch_size = BATCH,
          .optimizer = DPT_OPTIMIZER_ADAMW,
          .split = {DPT_SPLIT_PROPORTIONS, "1:2"}}},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(t, &settings[i]);
}

/* The plan of the device of a training. */
static dpt_device_plan plan_of(test *t, dpt_recompute recompute)
{
    dpt_context *context = NULL;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    const setting s = {"cpu", "resnet18", {.batch_size = BATCH, .recompute = recompute}};
    dpt_device_plan plan = {.size = sizeof plan};
    if (CHECK_OK(dpt_context_create(&context)) &&
        CHECK_OK(dpt_device_set_open(context, s.devices, &devices)) &&
        CHECK_OK(dpt_dataset_open(context, "synthetic:12x12x3:4:90", NULL, DPT_TRAIN, &data)) &&
        CHECK_OK(run(context, devices, data, &s, &trainer, &model)))
        CHECK_OK(dpt_trainer_plan(trainer, 0, &plan));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return plan;
}

/* Operations of activations that are computed again are all that recomputation adds. */
static void recomputed(test *t)
{
    const dpt_device_plan on = plan_of(t, DPT_RECOMPUTE_ON), off = plan_of(t, DPT_RECOMPUTE_OFF);
    CHECK_NEAR(off.recomputed_flops, 0, 0);
    CHECK(on.recomputed_flops > 0.05 * off.flops);
    CHECK_NEAR(on.flops - on.recomputed_flops, off.flops, 1e-9 * off.flops);
}

/* What forward of LeNet multiplies and adds, counted by hand for 28x28 images. */
static void layers(test *t)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    dpt_context *context = NULL;
    dpt_model *model = NULL;
    double multiply_adds = 0;
    size_t parameters = 0;
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_model_by_name(context, "lenet", &shape, &model));
    for (size_t i = 0; i < dpt_model_layer_count(model); i++) {
        dpt_layer_info layer = {.size = sizeof layer};
        dpt_model_layer(model, i, &layer);
        CHECK(layer.name && layer.kind && layer.height && layer.width && layer.channels);
        multiply_adds += layer.multiply_adds;
        parameters += layer.parameters;
    }
    CHECK_NEAR(multiply_adds, 26 * 26 * 20 * 9 + 9 * 9 * 50 * 500 + 800 * 128 + 128 * 10, 0);
    CHECK_SIZE(parameters, dpt_model_parameter_count(model));
    dpt_layer_info none = {.size = sizeof none};
    dpt_model_layer(model, dpt_model_layer_count(model), &none);
    CHECK(none.name == NULL);
    dpt_model_destroy(model);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"plans against the devices' own counts", plans},
        {"operations that are computed again", recomputed},
        {"layers", layers},
    };
    add_fault_plugins(); /* faultstaged */
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
