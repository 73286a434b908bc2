/* The residual networks and VGG-11 against PyTorch: the same initial weights and batches, 20 steps
   of SGD with momentum and weight decay, or of AdamW, in which the loss falls.  For each run
   tests/golden/RUN.txt holds PyTorch's losses and running statistics, made by
   tests/golden/make_models.py, which asks this program for settings, weights and data:

       test-train-golden_models settings RUN
       test-train-golden_models initial RUN FILE      safetensors
       test-train-golden_models data RUN FILE         pixels (count, height, width, channels),
   labels

   No PyTorch is needed to run the tests.  Sizes and rates are such that PyTorch in float32 and in
   float64 agree far better than the tolerances (the golden files say how well), so that a greater
   difference is a mistake and not rounding that grew. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 20,
    CLASSES = 10,

    SAMPLED = 16,
    MAX_CHANNELS = 2048,
    MAX_COUNT = 160,
    MAX_LINE = 1024
};

typedef struct golden_run {
    const char *name; /* of the golden file */
    const char *model;
    size_t side, channels; /* of the images */
    size_t count, batch;
    dpt_init init;
    uint64_t seed; /* of weights, data and dropout */
    dpt_optimizer optimizer;
    float lr, weight_decay;
    bool skip_means; /* running means depend on biases whose true gradient is zero, which AdamW
                        moves by the signs of rounding errors */
} golden_run;

static const float momentum = 0.9f; /* of SGD */

static const golden_run runs[] = {
    {
        .name = "resnet18-d2l-sgd",
        .model = "resnet18-d2l",
        .side = 12,
        .channels = 1,
        .count = 160,
        .batch = 16,
        .seed = 3,
        .lr = 1e-4f,
        .weight_decay = 5e-4f,
    },
    {
        .name = "resnet18-d2l-adamw",
        .model = "resnet18-d2l",
        .side = 12,
        .channels = 1,
        .count = 160,
        .batch = 16,
        .seed = 4,
        .optimizer = DPT_OPTIMIZER_ADAMW,
        .lr = 3e-6f,
        .weight_decay = 0.01f,
        .skip_means = true,
    },
    {
        .name = "resnet18-sgd",
        .model = "resnet18",
        .side = 12,
        .channels = 3,
        .count = 160,
        .batch = 16,
        .seed = 1,
        .lr = 1e-4f,
        .weight_decay = 5e-4f,
    },
    {
        .name = "resnet18-adamw",
        .model = "resnet18",
        .side = 12,
        .channels = 3,
        .count = 160,
        .batch = 16,
        .seed = 2,
        .optimizer = DPT_OPTIMIZER_ADAMW,
        .lr = 2e-6f,
        .weight_decay = 0.01f,
    },
    {
        .name = "resnet50-sgd",
        .model = "resnet50",
        .side = 12,
        .channels = 3,
        .count = 160,
        .batch = 16,
        .seed = 1,
        .lr = 1e-5f,
        .weight_decay = 5e-4f,
    },
    {
        .name = "resnet18-imagenet-sgd",
        .model = "resnet18-imagenet",
        .side = 46,
        .channels = 3,
        .count = 160,
        .batch = 16,
        .seed = 1,
        .lr = 2e-5f,
        .weight_decay = 5e-4f,
    },
    {
        .name = "vgg11-sgd",
        .model = "vgg11",
        .side = 32,
        .channels = 3,
        .count = 16,
        .batch = 8,
        .seed = 1,
        .init = {.kind = DPT_INIT_HE},
        .lr = 3e-5f,
        .weight_decay = 5e-4f,
    },
};

enum { N_RUNS = sizeof runs / sizeof runs[0] };

static const golden_run *find_run(const char *name)
{
    for (size_t i = 0; i < N_RUNS; i++)
        if (strcmp(runs[i].name, name) == 0) return &runs[i];
    return NULL;
}

/* ---- What a run stands on -------------------------------------------------------------------- */

static size_t image_bytes(const golden_run *r)
{
    return r->side * r->side * r->channels;
}

/* Pixels, and the labels behind them: each class has a pattern of its own, to which noise comes. */
static uint8_t *make_data(const golden_run *r)
{
    const size_t n = image_bytes(r);
    test_random random = {r->seed};
    uint8_t *out = malloc(r->count * (n + 1)), *labels = out ? out + r->count * n : NULL;
    if (!out) return NULL;
    for (size_t i = 0; i < r->count; i++) {
        labels[i] = (uint8_t)test_random_below(&random, CLASSES);
        test_random pattern = {labels[i]};
        for (size_t k = 0; k < n; k++)
            out[i * n + k] =
                (uint8_t)(150 * test_random_uniform(&pattern) + 100 * test_random_uniform(&random));
    }
    return out;
}

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static dpt_status create_data(setting *s, const golden_run *r)
{
    uint8_t *pixels = make_data(r);
    if (!pixels) return DPT_E_NO_MEMORY;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = r->count,
                                       .height = r->side,
                                       .width = r->side,
                                       .channels = r->channels,
                                       .outputs = CLASSES,
                                       .dtype = DPT_U8,
                                       .images = pixels,
                                       .labels = pixels + r->count * image_bytes(r)};
    const dpt_status status = dpt_dataset_from_memory(s->context, &memory, &s->data);
    free(pixels);
    return status;
}

/* Lifts the biases of batch-norm from 0, so that few values lie near ReLU's kink: one whose
   rounding error changes its sign changes a gradient by a thousandth, in PyTorch too. */
static dpt_status lift_biases(const setting *s)
{
    static const char suffix[] = ".bias";
    float values[MAX_CHANNELS];
    for (size_t i = 0; i < MAX_CHANNELS; i++)
        values[i] = 2;
    for (size_t i = 0; i < dpt_model_tensor_count(s->model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(s->model, i, &info);
        const size_t length = strlen(info.name);
        if (!strstr(info.name, "bn") || length < sizeof suffix ||
            strcmp(info.name + length + 1 - sizeof suffix, suffix) != 0)
            continue;
        DPT_TRY(dpt_trainer_set(s->trainer, DPT_PARAMETER, info.name, values, info.elements));
    }
    return DPT_OK;
}

static dpt_status set_up(setting *s, const golden_run *r, const char *devices, const char *split)
{
    const dpt_model_shape shape = {r->side, r->side, r->channels, CLASSES};
    const dpt_trainer_options options = {
        .size = sizeof options,
        .batch_size = r->batch,
        .split = dpt_split_from(split),
        .optimizer = r->optimizer,
        .lr = r->lr,
        .momentum = r->optimizer == DPT_OPTIMIZER_SGD ? momentum : 0,
        .weight_decay = r->weight_decay,
        .init = r->init,
        .seed = r->seed,
        .no_shuffle = true,
    };
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(create_data(s, r));
    DPT_TRY(dpt_device_set_open(s->context, devices, &s->devices));
    DPT_TRY(dpt_model_by_name(s->context, r->model, &shape, &s->model));
    DPT_TRY(dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer));
    return lift_biases(s);
}

static void tear_down(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

/* ---- The tests ------------------------------------------------------------------------------- */

/* A line "NAME mean v0 v1 ..." of the golden file: the mean over the channels, and the values of
   SAMPLED channels, the i-th being channel i * n_channels / SAMPLED. */
static void compare_statistic(test *t, const setting *s, const golden_run *r, char *line)
{
    static float values[MAX_CHANNELS];
    char *at = line + strcspn(line, " ");
    *at++ = '\0';
    if (r->skip_means && strstr(line, "running_mean")) return;
    dpt_parameter_info info = {.size = sizeof info};
    for (size_t i = 0; i < dpt_model_tensor_count(s->model); i++) {
        dpt_model_tensor(s->model, i, &info);
        if (strcmp(info.name, line) == 0) break;
    }
    if (strcmp(info.name, line) != 0 || info.trained || info.elements > MAX_CHANNELS) {
        FAIL("no running statistic %s", line);
        return;
    }
    REQUIRE_OK(dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, line, values, info.elements));
    double mean = 0;
    for (size_t i = 0; i < info.elements; i++)
        mean += (double)values[i] / (double)info.elements;
    CHECK_NEAR(mean, strtod(at, &at), 1e-3);
    for (size_t i = 0; i < SAMPLED; i++)
        CHECK_NEAR((double)values[i * info.elements / SAMPLED], strtod(at, &at), 1e-3);
}

static size_t running_statistics(const dpt_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(model, i, &info);
        n += !info.trained;
    }
    return n;
}

/* One step for each line "loss V", then the statistics. */
static void follow(test *t, const setting *s, const golden_run *r, FILE *golden)
{
    char line[MAX_LINE];
    size_t n_losses = 0, n_statistics = 0;
    double first = NAN, last = NAN;
    while (fgets(line, sizeof line, golden)) {
        dpt_step_metrics m = {.size = sizeof m};
        if (line[0] == '#') continue;
        if (strncmp(line, "loss ", 5) != 0) {
            compare_statistic(t, s, r, line);
            n_statistics++;
            continue;
        }
        last = strtod(line + 5, NULL);
        if (n_losses++ == 0) first = last;
        REQUIRE_OK(dpt_trainer_step(s->trainer, &m));
        CHECK_NEAR(m.loss, last, 1e-4);
    }
    CHECK_SIZE(n_losses, STEPS);
    CHECK_SIZE(n_statistics, running_statistics(s->model));
    CHECK(last <= 0.8 * first);
}

static void compare(test *t, const char *name, const char *devices, const char *split)
{
    const golden_run *r = find_run(name);
    setting s = {0};
    char path[512];
    snprintf(path, sizeof path, "golden/%s.txt", name);
    FILE *golden = test_open(path);
    if (!CHECK(golden)) return;
    const dpt_status status = set_up(&s, r, devices, split);
    if (CHECK_OK(status))
        follow(t, &s, r, golden);
    else
        FAIL("%s", dpt_error_message(s.context));
    tear_down(&s);
    fclose(golden);
}

static void d2l_sgd(test *t)
{
    compare(t, "resnet18-d2l-sgd", "cpu", NULL);
}

static void d2l_sgd_on_three(test *t)
{
    compare(t, "resnet18-d2l-sgd", "cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1");
}

static void d2l_adamw(test *t)
{
    compare(t, "resnet18-d2l-adamw", "cpu", NULL);
}

static void resnet18_sgd(test *t)
{
    compare(t, "resnet18-sgd", "cpu", NULL);
}

static void resnet18_adamw(test *t)
{
    compare(t, "resnet18-adamw", "cpu", NULL);
}

static void resnet18_imagenet_sgd(test *t)
{
    compare(t, "resnet18-imagenet-sgd", "cpu", NULL);
}

static void resnet50_sgd(test *t)
{
    compare(t, "resnet50-sgd", "cpu", NULL);
}

static void vgg11_sgd(test *t)
{
    compare(t, "vgg11-sgd", "cpu", NULL);
}

/* Dropout is keyed by the sample, so that it is the same on any devices. */
static void vgg11_sgd_on_two(test *t)
{
    compare(t, "vgg11-sgd", "cpu:threads=1,cpu:threads=1", "5:3");
}

/* ---- What make_models.py asks for ------------------------------------------------------------ */

static int print_settings(const golden_run *r)
{
    const bool adamw = r->optimizer == DPT_OPTIMIZER_ADAMW;
    printf("model=%s\nside=%zu\nchannels=%zu\nclasses=%d\ncount=%zu\nbatch=%zu\nsteps=%d\n"
           "seed=%llu\nsampled=%d\noptimizer=%s\nlr=%.9g\nmomentum=%.9g\nweight_decay=%.9g\n",
           r->model, r->side, r->channels, CLASSES, r->count, r->batch, STEPS,
           (unsigned long long)r->seed, SAMPLED, adamw ? "adamw" : "sgd", (double)r->lr,
           adamw ? 0 : (double)momentum, (double)r->weight_decay);
    return 0;
}

static dpt_status print_losses(const setting *s, size_t n_steps)
{
    for (size_t i = 0; i < n_steps; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        DPT_TRY(dpt_trainer_step(s->trainer, &m));
        printf("%.9g\n", m.loss);
    }
    return DPT_OK;
}

static dpt_status write_probabilities(const setting *s, const golden_run *r, const char *path)
{
    static float probabilities[MAX_COUNT * CLASSES];
    const size_t n = r->count * CLASSES;
    DPT_TRY(dpt_trainer_predict(s->trainer, s->data, 0, r->count, probabilities));
    FILE *file = fopen(path, "wb");
    const bool written = file && fwrite(probabilities, sizeof *probabilities, n, file) == n;
    if ((file && fclose(file) != 0) || !written)
        return dpt_fail(s->context, DPT_E_IO, "cannot write %s", path);
    return DPT_OK;
}

/* What the words of the command line ask for. */
static dpt_status command(const setting *s, const golden_run *r, char **words)
{
    const char *verb = words[0], *file = words[2], *argument = words[3];
    if (strcmp(verb, "resume") == 0 || strcmp(verb, "predict") == 0)
        DPT_TRY(dpt_trainer_load(s->trainer, file));
    if (strcmp(verb, "predict") == 0) return write_probabilities(s, r, argument);
    if (strcmp(verb, "initial") != 0) DPT_TRY(print_losses(s, strtoul(argument, NULL, 10)));
    return strcmp(verb, "resume") == 0 ? DPT_OK : dpt_trainer_save(s->trainer, file);
}

static int run_command(const golden_run *r, char **words)
{
    setting s = {0};
    dpt_status status = set_up(&s, r, "cpu", NULL);
    if (status == DPT_OK) status = command(&s, r, words);
    if (status != DPT_OK) fprintf(stderr, "%s\n", dpt_error_message(s.context));
    tear_down(&s);
    return status == DPT_OK ? 0 : 1;
}

static int write_data(const golden_run *r, const char *path)
{
    uint8_t *data = make_data(r);
    const size_t n_bytes = r->count * (image_bytes(r) + 1);
    FILE *file = fopen(path, "wb");
    bool done = data && file && fwrite(data, 1, n_bytes, file) == n_bytes;
    if (file && fclose(file) != 0) done = false;
    free(data);
    return done ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the textbook's ResNet-18, SGD", d2l_sgd},
        {"the textbook's ResNet-18, SGD, on three devices", d2l_sgd_on_three},
        {"the textbook's ResNet-18, AdamW", d2l_adamw},
        {"ResNet-18, SGD", resnet18_sgd},
        {"ResNet-18, AdamW", resnet18_adamw},
        {"ResNet-50, SGD", resnet50_sgd},
        {"ResNet-18 for ImageNet, SGD", resnet18_imagenet_sgd},
        {"VGG-11, SGD", vgg11_sgd},
        {"VGG-11, SGD, on two devices", vgg11_sgd_on_two},
    };
    const golden_run *r = argc >= 3 ? find_run(argv[2]) : NULL;
    if (r && argc == 3 && strcmp(argv[1], "settings") == 0) return print_settings(r);
    if (r && argc == 4 && strcmp(argv[1], "data") == 0) return write_data(r, argv[3]);
    if (r && argc == (strcmp(argv[1], "initial") == 0 ? 4 : 5)) return run_command(r, argv + 1);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
