/* Gradients of operators against those of PyTorch: each network of tests/onnx/slopes has one
   operator between two layers, and its losses of 20 steps are those that PyTorch 2.15.0 has
   computed in float64 from the same weights on the same batch: SGD, rate 0.01, momentum 0.9, label
   i % 3. Without the gradient of the operator they differ by more than 1e-3
   (tests/onnx/make_slopes.py). */
#include "dptrain.h"
#include "harness.h"
#include "unit/onnx_files.h"

#include <dirent.h>
#include <string.h>

enum { COUNT = 8, STEPS = 20, CLASSES = 3, INPUTS = 3, HEIGHT = 4, WIDTH = 6 };
enum { N_SAMPLES = COUNT * INPUTS * HEIGHT * WIDTH, MOST_FILES = 256 };

static const struct {
    const char *devices, *split;
} mixes[] = {{"cpu:threads=2", NULL}, {"cpu:threads=1,cpu:threads=1", "3:1"}};

/* Reads n floats of a file of the folder. */
static bool read_floats(const char *name, const char *suffix, float *out, size_t n)
{
    char relative[ONNX_PATH_BYTES / 2], path[ONNX_PATH_BYTES];
    snprintf(relative, sizeof relative, "slopes/%s%s", name, suffix);
    FILE *file = fopen(onnx_path(relative, path), "rb");
    const bool read = file && fread(out, sizeof *out, n, file) == n;
    if (file) fclose(file);
    return read;
}

typedef struct run {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
} run;

static dpt_status begin(run *r, const char *name, const float *samples, size_t mix)
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
                                         .split = dpt_split_from(mixes[mix].split)};
    snprintf(relative, sizeof relative, "slopes/%s.onnx", name);
    DPT_TRY(dpt_device_set_open(r->context, mixes[mix].devices, &r->devices));
    DPT_TRY(dpt_dataset_from_memory(r->context, &memory, &r->data));
    DPT_TRY(dpt_model_from_onnx(r->context, onnx_path(relative, path), &r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static void end(run *r)
{
    dpt_trainer_destroy(r->trainer);
    dpt_model_destroy(r->model);
    dpt_dataset_destroy(r->data);
    dpt_device_set_close(r->devices);
    dpt_context_destroy(r->context);
}

static void train(test *t, const char *name, const float *samples, size_t mix)
{
    run r = {.context = NULL};
    float losses[STEPS];
    REQUIRE(read_floats(name, ".f32", losses, STEPS));
    REQUIRE_OK(dpt_context_create(&r.context));
    if (begin(&r, name, samples, mix) != DPT_OK) FAIL("%s: %s", name, dpt_error_message(r.context));
    for (size_t i = 0; r.trainer && i < STEPS; i++) {
        dpt_step_metrics step = {.size = sizeof step};
        if (!CHECK_OK(dpt_trainer_step(r.trainer, &step))) break;
        const double expected = (double)losses[i];
        if (!CHECK_NEAR(step.loss, expected, 1e-4 * expected + 1e-6)) {
            FAIL("%s on %s, step %zu", name, mixes[mix].devices, i + 1);
            break;
        }
    }
    end(&r);
}

static void trains_as_pytorch(test *t)
{
    float samples[N_SAMPLES];
    char path[ONNX_PATH_BYTES], name[ONNX_PATH_BYTES / 4];
    size_t n = 0;
    REQUIRE(read_floats("x", ".f32", samples, N_SAMPLES));
    DIR *folder = opendir(onnx_path("slopes", path));
    REQUIRE(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && n < MOST_FILES;) {
        const char *dot = strstr(entry->d_name, ".onnx");
        if (!dot) continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        n++;
        for (size_t mix = 0; mix < sizeof mixes / sizeof *mixes; mix++)
            train(t, name, samples, mix);
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
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
