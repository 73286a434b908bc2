/* Gradients of operators against those of PyTorch: each network of tests/onnx/slopes has one
   operator between two layers, and its losses of 20 steps are those that PyTorch 2.15.0 has
   computed in float64 from the same weights on the same batch: SGD, rate 0.01, momentum 0.9, label
   i % 3. Without the gradient of the operator they differ by more than 1e-3
   (tests/onnx/make_slopes.py). */
#include "dptrain.h"
#include "harness.h"
#include "train/mixes.h"
#include "train/session.h"
#include "unit/onnx_files.h"

#include <dirent.h>
#include <string.h>

enum { COUNT = 8, STEPS = 20, CLASSES = 3, INPUTS = 3, HEIGHT = 4, WIDTH = 6 };
enum { N_SAMPLES = COUNT * INPUTS * HEIGHT * WIDTH, MOST_FILES = 256 };

static dpt_status begin(session *r, const char *name, const float *samples, const mix *where)
{
    char relative[ONNX_PATH_BYTES / 2], path[ONNX_PATH_BYTES];
    int32_t labels[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        labels[i] = (int32_t)(i % CLASSES);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = HEIGHT,
                                       .width = WIDTH,
                                       .channels = INPUTS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = samples,
                                       .labels = labels,
                                       .label_dtype = DPT_I32};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.01f,
                                         .momentum = 0.9f,
                                         .split = dpt_split_from(where->split)};
    snprintf(relative, sizeof relative, "slopes/%s.onnx", name);
    DPT_TRY(dpt_device_set_open(r->context, where->devices, &r->devices));
    DPT_TRY(dpt_dataset_from_memory(r->context, &memory, &r->data));
    DPT_TRY(dpt_model_from_onnx(r->context, onnx_path(relative, path), &r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static void train(test *t, const char *name, const float *samples, const mix *where)
{
    session r = {.context = NULL};
    char file[ONNX_PATH_BYTES / 2];
    float losses[STEPS];
    snprintf(file, sizeof file, "slopes/%s.f32", name);
    REQUIRE(onnx_floats(file, losses, STEPS) == STEPS);
    REQUIRE_OK(dpt_context_create(&r.context));
    if (begin(&r, name, samples, where) != DPT_OK)
        FAIL("%s: %s", name, dpt_error_message(r.context));
    for (size_t i = 0; r.trainer && i < STEPS; i++) {
        dpt_step_metrics step = {.size = sizeof step};
        if (!CHECK_OK(dpt_trainer_step(r.trainer, &step))) break;
        const double expected = (double)losses[i];
        if (!CHECK_NEAR(step.loss, expected, 1e-4 * expected + 1e-6)) {
            FAIL("%s on %s, step %zu", name, where->devices, i + 1);
            break;
        }
    }
    session_end(&r);
}

static void trains_as_pytorch(test *t)
{
    const mix cpus[] = {{"cpu:threads=2", NULL}, {"cpu:threads=1,cpu:threads=1", "3:1"}};
    const mix others[] = {{tested_devices("@0"), NULL},
                          {tested_devices("@0,cpu:threads=1"), "3:1"}};
    const mix *mixes = testing_cpu() ? cpus : others;
    float samples[N_SAMPLES];
    char path[ONNX_PATH_BYTES], name[ONNX_PATH_BYTES / 4];
    size_t n = 0;
    REQUIRE(onnx_floats("slopes/x.f32", samples, N_SAMPLES) == N_SAMPLES);
    DIR *folder = opendir(onnx_path("slopes", path));
    REQUIRE(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && n < MOST_FILES;) {
        const char *dot = strstr(entry->d_name, ".onnx");
        if (!dot) continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        n++;
        for (size_t m = 0; m < sizeof cpus / sizeof *cpus; m++)
            train(t, name, samples, &mixes[m]);
    }
    closedir(folder);
    CHECK(n >= 90);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains as PyTorch", trains_as_pytorch},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    const int missing = tested_backend_missing();
    if (missing) return missing;
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
