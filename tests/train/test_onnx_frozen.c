/* Batch-norms that normalise by their running statistics: training a network of an ONNX file with
   DPT_BATCH_NORM_FROZEN gives the losses of PyTorch with these modules in evaluation mode
   (tests/onnx/make_trained.py), and the statistics keep their bits. */
#include "dptrain.h"
#include "harness.h"
#include "train/mixes.h"
#include "train/session.h"
#include "unit/onnx_files.h"

#include <stdio.h>

enum { COUNT = 8, STEPS = 20, CLASSES = 3, SIDE = 8, CHANNELS = 2 };
enum { SAMPLE = SIDE * SIDE * CHANNELS, MOST_STATISTICS = 1024 };

typedef struct recorded {
    float samples[COUNT * SAMPLE], losses[STEPS];
} recorded;

static bool read_recorded(recorded *out)
{
    float numbers[COUNT * SAMPLE + STEPS];
    const size_t n = sizeof numbers / sizeof *numbers;
    if (onnx_floats("frozen/dense.f32", numbers, n) != n) return false;
    memcpy(out->samples, numbers, sizeof out->samples);
    memcpy(out->losses, numbers + COUNT * SAMPLE, sizeof out->losses);
    return true;
}

static dpt_status begin(session *r, const recorded *data, const dpt_trainer_options *options,
                        const char *devices)
{
    uint8_t labels[COUNT];
    char path[ONNX_PATH_BYTES];
    for (size_t i = 0; i < COUNT; i++)
        labels[i] = (uint8_t)(i % CLASSES);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = CHANNELS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = data->samples,
                                       .labels = labels};
    DPT_TRY(dpt_context_create(&r->context));
    DPT_TRY(dpt_device_set_open(r->context, devices, &r->devices));
    DPT_TRY(dpt_dataset_from_memory(r->context, &memory, &r->data));
    DPT_TRY(dpt_model_from_onnx(r->context, onnx_path("frozen/dense.onnx", path), &r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, options, &r->trainer);
}

/* Reads all running statistics, behind one another; returns how many there are. */
static size_t read_statistics(test *t, const session *r, float out[MOST_STATISTICS])
{
    size_t n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(r->model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(r->model, i, &info);
        if (!strstr(info.name, "running_")) continue;
        if (!CHECK(n + info.elements <= MOST_STATISTICS)) return 0;
        CHECK_OK(dpt_trainer_get(r->trainer, 0, DPT_PARAMETER, info.name, out + n, info.elements));
        n += info.elements;
    }
    return n;
}

static void train(test *t, const char *devices, const char *split, size_t micro_batch)
{
    static recorded data;
    session r = {.context = NULL};
    double losses[STEPS];
    static float first[MOST_STATISTICS], last[MOST_STATISTICS];
    REQUIRE(read_recorded(&data));
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .batch_norm = DPT_BATCH_NORM_FROZEN,
                                         .micro_batch = micro_batch,
                                         .split = dpt_split_from(split)};
    if (!CHECK_OK(begin(&r, &data, &options, devices))) {
        FAIL("%s", dpt_error_message(r.context));
        session_end(&r);
        return;
    }
    const size_t n = read_statistics(t, &r, first);
    if (session_train(t, &r, STEPS, losses))
        for (size_t i = 0; i < STEPS; i++)
            if (!CHECK_NEAR(losses[i], (double)data.losses[i], 1e-4 * (double)data.losses[i]))
                FAIL("%s, step %zu", devices, i + 1);
    CHECK(n > 0 && read_statistics(t, &r, last) == n);
    CHECK(memcmp(first, last, n * sizeof *first) == 0);
    session_end(&r);
}

static void trains_as_pytorch(test *t)
{
    train(t, "cpu:threads=2", NULL, 0);
    train(t, "cpu:threads=1,cpu:threads=1", "3:1", 0);
    train(t, "cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1", 0);
}

/* Statistics of the batch would depend on the micro-batch, and one sample of 1x1 has none. */
static void micro_batches_change_nothing(test *t)
{
    train(t, "cpu:threads=2", NULL, 3);
    train(t, "cpu:threads=1,cpu:threads=1", "7:1", 1);
}

/* Those of $DPTRAIN_TEST_BACKEND, alone, in micro-batches, beside the CPU and beside each other. */
static void trains_on_other_devices(test *t)
{
    if (testing_cpu()) SKIP("the other cases train on the CPU");
    train(t, tested_devices("@0"), NULL, 0);
    train(t, tested_devices("@0"), NULL, 3);
    train(t, tested_devices("@0,cpu:threads=1"), "3:1", 0);
    train(t, tested_devices("cpu:threads=1,@0,@1"), "13:2:1", 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains as PyTorch", trains_as_pytorch},
        {"micro-batches change nothing", micro_batches_change_nothing},
        {"trains on other devices", trains_on_other_devices},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    const int missing = tested_backend_missing();
    if (missing) return missing;
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
