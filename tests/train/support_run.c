/* Data and runs for the training tests. */
#include "train/support.h"

#include "harness.h"
#include "io/folder.h"
#include "train/processes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIXELS = 28 * 28 };

void add_fault_plugins(void)
{
    const char *real = getenv("DPTRAIN_BACKEND_PATH"), *fault = getenv("DPTRAIN_TEST_FAULT_PATH");
    char path[4096];
    if (!fault) return;
    snprintf(path, sizeof path, "%s:%s", real ? real : "", fault);
    setenv("DPTRAIN_BACKEND_PATH", path, 1);
}

bool has_fault_plugins(test *t)
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    bool there = CHECK_OK(dpt_context_create(&context));
    if (there &&
        !CHECK_OK(dpt_device_set_open(context, "fault:threads=1,faultstaged:threads=1", &set))) {
        FAIL("%s", dpt_error_message(context));
        there = false;
    }
    dpt_device_set_close(set);
    dpt_context_destroy(context);
    return there;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* A class lights up one of ten fields; a sample varies in brightness and has noise. */
static void draw(test_random *random, uint8_t label, uint8_t *out)
{
    const double brightness = 0.6 + 0.4 * test_random_uniform(random);
    for (int i = 0; i < 28; i++)
        for (int j = 0; j < 28; j++) {
            const bool lit = i / 14 == label / 5 && j / 6 == label % 5;
            const double value = (lit ? 220 * brightness : 20) + 30 * test_random_uniform(random);
            out[i * 28 + j] = (uint8_t)value;
        }
}

bool images_create(size_t count, uint64_t seed, image_set *out)
{
    test_random random = {seed};
    *out = (image_set){.count = count, .pixels = malloc(count * PIXELS), .labels = malloc(count)};
    if (!out->pixels || !out->labels) return false;
    for (size_t i = 0; i < count; i++) {
        out->labels[i] = (uint8_t)test_random_below(&random, 10);
        draw(&random, out->labels[i], out->pixels + i * PIXELS);
    }
    return true;
}

void images_free(image_set *i)
{
    free(i->pixels);
    free(i->labels);
}

dpt_status images_open(dpt_context *context, const image_set *i, size_t count, dpt_dataset **out)
{
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = count,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .outputs = 10,
                                       .dtype = DPT_U8,
                                       .images = i->pixels,
                                       .labels = i->labels};
    return dpt_dataset_from_memory(context, &memory, out);
}

static void swap(image_set *i, size_t a, size_t b)
{
    uint8_t row[PIXELS];
    memcpy(row, i->pixels + a * PIXELS, PIXELS);
    memmove(i->pixels + a * PIXELS, i->pixels + b * PIXELS, PIXELS);
    memcpy(i->pixels + b * PIXELS, row, PIXELS);
    const uint8_t label = i->labels[a];
    i->labels[a] = i->labels[b];
    i->labels[b] = label;
}

void images_permute_batches(image_set *i, size_t batch, uint64_t seed)
{
    test_random random = {seed};
    for (size_t first = 0; first < i->count; first += batch) {
        const size_t n = i->count - first < batch ? i->count - first : batch;
        for (size_t k = n - 1; k > 0; k--)
            swap(i, first + k, first + test_random_below(&random, k + 1));
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Every device of this process's against the first. */
static dpt_status collect(dpt_trainer *trainer, size_t first, size_t n_devices, run_result *r)
{
    size_t at = 0;
    float *other = malloc(r->size * sizeof *other);
    if (!other) return DPT_E_NO_MEMORY;
    dpt_status status = DPT_OK;
    r->replicas_agree = true;
    for (int i = 0; i < LENET_TENSORS && status == DPT_OK; i++) {
        const size_t n = lenet_sizes[i];
        status = dpt_trainer_get(trainer, first, DPT_PARAMETER, lenet_names[i], r->weights + at, n);
        if (status == DPT_OK)
            status =
                dpt_trainer_get(trainer, first, DPT_GRADIENT, lenet_names[i], r->gradients + at, n);
        for (size_t d = 1; d < n_devices && status == DPT_OK; d++) {
            status = dpt_trainer_get(trainer, first + d, DPT_PARAMETER, lenet_names[i], other, n);
            if (status == DPT_OK && memcmp(other, r->weights + at, n * sizeof *other) != 0)
                r->replicas_agree = false;
        }
        at += n;
    }
    free(other);
    return status;
}

/* The first of this process's devices. */
static size_t first_device(const dpt_trainer *trainer, const dpt_context *context)
{
    dpt_device_info d = {.size = sizeof d};
    size_t i = 0;
    while (dpt_trainer_device(trainer, i, &d) == DPT_OK && d.process != dpt_process_rank(context))
        i++;
    return i;
}

static dpt_status steps(dpt_trainer *trainer, const dpt_device_set *devices,
                        const dpt_context *context, const run_options *o, run_result *r)
{
    for (size_t s = 0; s < o->steps; s++) {
        dpt_step_metrics m = {.size = sizeof m};
        DPT_TRY(dpt_trainer_step(trainer, &m));
        r->losses[s] = m.loss;
        memcpy(r->shards, m.shards, m.n_devices * sizeof *r->shards);
    }
    return collect(trainer, first_device(trainer, context), dpt_device_set_count(devices), r);
}

static dpt_status train_in(dpt_context *context, const image_set *data, const run_options *o,
                           run_result *r)
{
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = o->batch,
                                         .split = dpt_split_from(o->split),
                                         .lr = o->lr,
                                         .momentum = o->momentum,
                                         .compress = o->compress,
                                         .seed = 1,
                                         .no_shuffle = true};
    dpt_dataset *dataset = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_status status = images_open(context, data, data->count, &dataset);
    if (status == DPT_OK) status = dpt_device_set_open(context, o->devices, &devices);
    if (status == DPT_OK) status = dpt_model_by_name(context, "lenet", &shape, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, dataset, &options, &trainer);
    if (status == DPT_OK) {
        r->n_devices = dpt_trainer_device_count(trainer);
        r->shards = calloc(r->n_devices, sizeof *r->shards);
        status = r->shards ? steps(trainer, devices, context, o, r) : DPT_E_NO_MEMORY;
    }
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(dataset);
    return status;
}

static bool run_create(size_t n_steps, run_result *out)
{
    *out = (run_result){0};
    for (int i = 0; i < LENET_TENSORS; i++)
        out->size += lenet_sizes[i];
    out->weights = calloc(out->size, sizeof *out->weights);
    out->gradients = calloc(out->size, sizeof *out->gradients);
    out->losses = calloc(n_steps, sizeof *out->losses);
    if (!out->weights || !out->gradients || !out->losses) out->status = DPT_E_NO_MEMORY;
    return out->status == DPT_OK;
}

/* ---- Several processes ----------------------------------------------------------------------- */

typedef struct together {
    const image_set *data;
    const run_options *options;
    run_result results[MOST_STAND_INS];
} together;

static dpt_status train_part(dpt_context *context, size_t rank, void *user)
{
    together *all = user;
    char devices[256];
    run_options own = *all->options;
    stand_ins_devices(own.devices, rank, devices);
    own.devices = devices;
    if (!run_create(own.steps, &all->results[rank])) return DPT_E_NO_MEMORY;
    return train_in(context, all->data, &own, &all->results[rank]);
}

/* The first process's results, if those of the others are the same to the bit. */
static void train_together(const image_set *data, const run_options *options, run_result *out)
{
    const size_t n = stand_ins_count(options->devices);
    together all = {.data = data, .options = options};
    char message[512] = "";
    const dpt_status status = stand_ins_run(n, train_part, &all, message);
    *out = all.results[0];
    for (size_t i = 1; i < n; i++) {
        run_result *other = &all.results[i];
        if (status == DPT_OK)
            out->replicas_agree =
                out->replicas_agree && other->replicas_agree &&
                memcmp(out->weights, other->weights, out->size * sizeof *out->weights) == 0 &&
                memcmp(out->gradients, other->gradients, out->size * sizeof *out->weights) == 0 &&
                memcmp(out->losses, other->losses, options->steps * sizeof *out->losses) == 0;
        run_free(other);
    }
    out->status = status;
    snprintf(out->message, sizeof out->message, "%s", message);
}

void train_run(const image_set *data, const run_options *options, run_result *out)
{
    dpt_context *context = NULL;
    if (stand_ins_count(options->devices) > 1) {
        train_together(data, options, out);
        return;
    }
    if (!run_create(options->steps, out)) return;
    out->status = dpt_context_create(&context);
    if (out->status != DPT_OK) return;
    out->status = train_in(context, data, options, out);
    if (out->status != DPT_OK)
        snprintf(out->message, sizeof out->message, "%s", dpt_error_message(context));
    dpt_context_destroy(context);
}

void run_free(run_result *r)
{
    free(r->weights);
    free(r->gradients);
    free(r->losses);
    free(r->shards);
}

double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sqrt(sum);
}

size_t forget_checkpoints(test *t, const char *folder, size_t step)
{
    size_t *numbers = NULL, n = 0, left = 0;
    if (dpti_folder_list(folder, &numbers, &n, NULL) != DPT_OK) return 0; /* there is none */
    for (size_t i = 0; i < n; i++) {
        char *path = dpti_folder_path(folder, numbers[i]);
        if (numbers[i] <= step)
            left++;
        else
            CHECK(path && unlink(path) == 0);
        free(path);
    }
    free(numbers);
    return left;
}
