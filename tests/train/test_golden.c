/* LeNet against PyTorch: the same initial weights, the same batches of Fashion-MNIST, 50 steps of
   SGD with momentum.  tests/golden/lenet.txt holds PyTorch's losses; tests/golden/make_lenet.py
   made them, from the weights that `test-train-golden initial FILE` writes.  No PyTorch is needed
   here.

   Seed and rate are such that rounding does not grow: a hidden unit that lies on ReLU's kink for
   one sample can turn a difference of 1e-7 into one of 1e-2 within 50 steps, in PyTorch too.  Here
   its losses in float32 and in float64 agree to 3e-7, so a difference of 1e-4 is a mistake. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 50, BATCH = 256, SEED = 42 };

static const float rate = 0.005f, momentum = 0.9f;

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static dpt_status set_up(setting *s, const char *devices, const char *split)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = dpt_split_from(split),
                                         .lr = rate,
                                         .momentum = momentum,
                                         .init = {.kind = DPT_INIT_HE},
                                         .seed = SEED,
                                         .no_shuffle = true};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(dpt_dataset_open(s->context, "fashion-mnist", NULL, DPT_TRAIN, &s->data));
    DPT_TRY(dpt_device_set_open(s->context, devices, &s->devices));
    DPT_TRY(dpt_model_by_name(s->context, "lenet", &shape, &s->model));
    return dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer);
}

static void tear_down(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static bool read_golden(double *losses)
{
    FILE *file = test_open("golden/lenet.txt");
    char line[256];
    size_t n = 0;
    if (!file) return false;
    while (n < STEPS && fgets(line, sizeof line, file))
        if (line[0] != '#') losses[n++] = strtod(line, NULL);
    fclose(file);
    return n == STEPS;
}

static void compare(test *t, const char *devices, const char *split)
{
    setting s = {0};
    double golden[STEPS];
    REQUIRE(read_golden(golden));
    CHECK(golden[STEPS - 1] <= 0.5 * golden[0]);
    const dpt_status status = set_up(&s, devices, split);
    if (status == DPT_E_NOT_FOUND) {
        tear_down(&s);
        SKIP("Fashion-MNIST is not installed (apt-get install dataset-fashion-mnist)");
    }
    if (!CHECK_OK(status)) FAIL("%s", dpt_error_message(s.context));
    for (int i = 0; status == DPT_OK && i < STEPS; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        if (!CHECK_OK(dpt_trainer_step(s.trainer, &m))) break;
        CHECK_NEAR(m.loss, golden[i], 1e-4);
    }
    tear_down(&s);
}

static void one_device(test *t)
{
    compare(t, "cpu", NULL);
}

static void three_devices(test *t)
{
    compare(t, "cpu:threads=1,cpu:threads=1,cpu:threads=1", "5:2:1");
}

static int write_initial(const char *path)
{
    setting s = {0};
    dpt_status status = set_up(&s, "cpu", NULL);
    if (status == DPT_OK) status = dpt_trainer_save(s.trainer, path);
    if (status != DPT_OK) fprintf(stderr, "%s\n", dpt_error_message(s.context));
    tear_down(&s);
    return status == DPT_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"PyTorch's losses on one device", one_device},
        {"PyTorch's losses on three devices", three_devices},
    };
    if (argc == 3 && strcmp(argv[1], "initial") == 0) return write_initial(argv[2]);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
