/* Batch-norms that are used twice, and one without scale and shift: training a network of an ONNX
   file gives the losses and the running statistics of PyTorch, which updates the statistics once
   for each use (tests/onnx/make_trained.py). */
#include "dptrain.h"
#include "harness.h"
#include "train/session.h"
#include "unit/onnx_files.h"

#include <stdio.h>

enum { COUNT = 8, STEPS = 20, CLASSES = 3, SIDE = 4, INPUTS = 2, CHANNELS = 4, STATISTICS = 4 };

typedef struct recorded {
    float samples[COUNT * SIDE * SIDE * INPUTS], losses[STEPS], statistics[STATISTICS][CHANNELS];
    float first_mean[CHANNELS]; /* of the first norm after one step */
} recorded;

static bool read_recorded(recorded *out)
{
    char path[ONNX_PATH_BYTES];
    FILE *file = fopen(onnx_path("reused/reused.f32", path), "rb");
    const size_t n = file ? fread(out, sizeof *out, 1, file) : 0;
    if (file) fclose(file);
    return n == 1;
}

static dpt_status begin(session *r, const recorded *data, const dpt_trainer_options *options,
                        const char *const where[2])
{
    uint8_t labels[COUNT];
    char path[ONNX_PATH_BYTES];
    for (size_t i = 0; i < COUNT; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = INPUTS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = data->samples,
                                       .labels = labels};
    DPT_TRY(dpt_context_create(&r->context));
    DPT_TRY(dpt_device_set_open(r->context, where[1], &r->devices));
    DPT_TRY(dpt_dataset_from_memory(r->context, &memory, &r->data));
    DPT_TRY(dpt_model_from_onnx(r->context, onnx_path(where[0], path), &r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, options, &r->trainer);
}

static void compare(test *t, const session *r, const char *name, const float wanted[CHANNELS])
{
    float found[CHANNELS] = {0};
    if (!CHECK_OK(dpt_trainer_get(r->trainer, 0, DPT_PARAMETER, name, found, CHANNELS))) return;
    for (size_t c = 0; c < CHANNELS; c++)
        if (!CHECK_NEAR((double)found[c], (double)wanted[c], 1e-4)) FAIL("%s", name);
}

/* Trains `steps` steps; statistics are compared after all of them, or the mean after one. */
static void train(test *t, const char *const where[2], const char *split, size_t micro_batch)
{
    static const char *const names[STATISTICS] = {"n.running_mean", "n.running_var",
                                                  "p.running_mean", "p.running_var"};
    const size_t steps = micro_batch ? 1 : STEPS;
    static recorded data;
    session r = {.context = NULL};
    double losses[STEPS];
    REQUIRE(read_recorded(&data));
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .micro_batch = micro_batch,
                                         .split = dpt_split_from(split)};
    if (!CHECK_OK(begin(&r, &data, &options, where))) {
        FAIL("%s", dpt_error_message(r.context));
    } else if (session_train(t, &r, steps, losses)) {
        for (size_t i = 0; i < steps && !micro_batch; i++)
            if (!CHECK_NEAR(losses[i], (double)data.losses[i], 1e-4 * (double)data.losses[i]))
                FAIL("%s on %s, step %zu", where[0], where[1], i + 1);
        for (size_t i = 0; i < STATISTICS && !micro_batch; i++)
            compare(t, &r, names[i], data.statistics[i]);
        if (micro_batch) compare(t, &r, names[0], data.first_mean);
    }
    session_end(&r);
}

static void trains_as_pytorch(test *t)
{
    static const char *const files[] = {"reused/reused_default.onnx", "reused/reused_older.onnx"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        train(t, (const char *const[]){files[i], "cpu:threads=2"}, NULL, 0);
        train(t, (const char *const[]){files[i], "cpu:threads=1,cpu:threads=1"}, "3:1", 0);
        train(t, (const char *const[]){files[i], "cpu:threads=1,cpu:threads=1,cpu:threads=1"},
              "13:2:1", 0);
    }
}

/* The first norm reads what no batch-norm has computed, so that the mean over the micro-batches is
   that over the batch. */
static void adds_up_over_micro_batches(test *t)
{
    static const char file[] = "reused/reused_default.onnx";
    train(t, (const char *const[]){file, "cpu:threads=2"}, NULL, 2);
    train(t, (const char *const[]){file, "cpu:threads=1,cpu:threads=1"}, "3:1", 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains as PyTorch", trains_as_pytorch},
        {"adds up over micro-batches", adds_up_over_micro_batches},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
