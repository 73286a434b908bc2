/* Data, a model and runs (flat.h). */
#include "train/flat.h"

#include "harness.h"
#include "train/processes.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Data and model -------------------------------------------------------------------------- */

dpt_status flat_data_of(dpt_context *context, const flat_images *images, dpt_dataset **out)
{
    return dpt_dataset_from_memory(context,
                                   &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                         .count = images->count,
                                                         .height = FLAT_SIDE,
                                                         .width = FLAT_SIDE,
                                                         .channels = FLAT_CHANNELS,
                                                         .outputs = FLAT_CLASSES,
                                                         .dtype = DPT_U8,
                                                         .images = images->pixels,
                                                         .labels = images->labels,
                                                         .mean = {0.4f, 0.4f, 0.4f},
                                                         .deviation = {0.25f, 0.25f, 0.25f}},
                                   out);
}

dpt_status flat_data(dpt_context *context, size_t count, uint64_t order, dpt_dataset **out)
{
    static uint8_t images[FLAT_COUNT * FLAT_PIXELS], labels[FLAT_COUNT];
    size_t place[FLAT_COUNT];
    test_random random = {11}, shuffle = {order};
    for (size_t i = 0; i < FLAT_COUNT; i++)
        place[i] = i;
    for (size_t first = 0; order && first < FLAT_COUNT; first += FLAT_BATCH)
        for (size_t n = FLAT_COUNT - first < FLAT_BATCH ? FLAT_COUNT - first : FLAT_BATCH; n > 1;
             n--) {
            const size_t other = first + test_random_below(&shuffle, n), kept = place[other];
            place[other] = place[first + n - 1];
            place[first + n - 1] = kept;
        }
    for (size_t i = 0; i < FLAT_COUNT; i++) {
        const size_t label = test_random_below(&random, FLAT_CLASSES);
        labels[place[i]] = (uint8_t)label;
        for (size_t e = 0; e < FLAT_PIXELS; e++) {
            const bool lit =
                e % FLAT_CHANNELS == label % FLAT_CHANNELS &&
                (e / FLAT_CHANNELS % FLAT_SIDE < FLAT_SIDE / 2) == (label < FLAT_CHANNELS);
            images[place[i] * FLAT_PIXELS + e] =
                (uint8_t)((lit ? 120 : 30) + test_random_below(&random, 100));
        }
    }
    return flat_data_of(context, &(flat_images){count, images, labels}, out);
}

static dpt_value conv(dpt_model *m, dpt_value x, const char *name, size_t channels, size_t stride)
{
    return dpt_conv2d(m, x, name,
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = channels,
                                            .kernel = {3, 3},
                                            .stride = {stride, stride},
                                            .padding = {1, 1}});
}

static dpt_value norm(dpt_model *m, dpt_value x, const char *name, dpt_activation activation)
{
    return dpt_batch_norm(
        m, x, name,
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = activation});
}

dpt_value flat_dropout_trunk(dpt_model *m)
{
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    const dpt_value y = dpt_conv2d(m, x, "conv1",
                                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                                         .out_channels = 16,
                                                         .kernel = {3, 3},
                                                         .padding = {1, 1},
                                                         .activation = DPT_ACT_TANH});
    x = dpt_layer_norm(
        m, y, "ln",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_GELU});
    x = dpt_dropout(m, dpt_add(m, x, y), 0.2f);
    return dpt_pool2d(m, x,
                      &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                            .kind = DPT_POOL_MAX,
                                            .kernel = {2, 2}});
}

dpt_status flat_residual(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "residual", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS), y;
    x = norm(m, conv(m, x, "conv1", 8, 1), "bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, x, "a.conv1", 8, 1), "a.bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, y, "a.conv2", 8, 1), "a.bn2", DPT_ACT_NONE);
    x = dpt_activate(m, dpt_add(m, y, x), DPT_ACT_RELU);
    y = norm(m, conv(m, x, "b.conv1", 12, 2), "b.bn1", DPT_ACT_RELU);
    y = norm(m, conv(m, y, "b.conv2", 12, 1), "b.bn2", DPT_ACT_NONE);
    x = norm(m, conv(m, x, "b.conv3", 12, 2), "b.bn3", DPT_ACT_NONE);
    x = dpt_global_average_pool(m, dpt_activate(m, dpt_add(m, y, x), DPT_ACT_RELU));
    x = dpt_linear(m, dpt_flatten(m, x), "fc",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static dpt_status compare_replicas(dpt_trainer *trainer, size_t n_devices, flat_outcome *out)
{
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY};
    const size_t n = trainer->model->flat_size;
    float *first = calloc(2 * n, sizeof *first);
    if (!first) return DPT_E_NO_MEMORY;
    out->replicas_agree = true;
    dpt_status status = DPT_OK;
    for (size_t k = 0; k < 2 && status == DPT_OK; k++) {
        status = dpti_trainer_read(trainer, 0, kinds[k], first);
        for (size_t d = 1; d < n_devices && status == DPT_OK; d++) {
            status = dpti_trainer_read(trainer, d, kinds[k], first + n);
            if (memcmp(first, first + n, n * sizeof *first) != 0) out->replicas_agree = false;
        }
    }
    free(first);
    return status;
}

static float rate_of(const flat_task *task)
{
    return task->training.lr > 0 ? task->training.lr : FLAT_RATE;
}

/* The values that a task starts with, where they are not those of the initialisation. */
static void set_norm_biases(const flat_task *task, float *flat)
{
    for (size_t i = 0; i < task->model->n_parameters; i++) {
        const dpti_parameter *p = &task->model->parameters[i];
        if (p->role != DPTI_ROLE_NORM_BIAS || task->training.norm_bias == 0.0f) continue;
        for (size_t e = p->offset; e < p->offset + p->size; e++)
            flat[e] = task->training.norm_bias;
    }
}

static dpt_status set_start(dpt_trainer *trainer, const flat_task *task, size_t n_devices)
{
    float *flat = malloc(task->model->flat_size * sizeof *flat);
    if (!flat) return DPT_E_NO_MEMORY;
    dpt_status status = dpti_trainer_read(trainer, 0, DPT_PARAMETER, flat);
    set_norm_biases(task, flat);
    for (size_t i = 0; i < n_devices && status == DPT_OK; i++)
        status = dpti_trainer_write(trainer, i, DPT_PARAMETER, flat);
    free(flat);
    return status;
}

dpt_status flat_train(dpt_device_set *devices, const flat_task *task, flat_outcome *out)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = task->batch,
                                         .accumulate = task->accumulate,
                                         .micro_batch = task->micro_batch,
                                         .split = dpt_split_from(task->split),
                                         .lr = rate_of(task),
                                         .momentum = FLAT_MOMENTUM,
                                         .weight_decay = FLAT_DECAY,
                                         .batch_norm = task->mode,
                                         .compress = task->compress,
                                         .compress_rank = task->compress_rank,
                                         .no_overlap = task->no_overlap,
                                         .deterministic = task->deterministic,
                                         .recompute = task->recompute,
                                         .bucket_bytes = task->bucket_bytes,
                                         .seed = 1,
                                         .no_shuffle = true};
    const size_t n_devices = dpt_device_set_count(devices), n = task->model->flat_size;
    dpt_trainer *trainer = NULL;
    *out = (flat_outcome){.weights = calloc(n, sizeof(float)),
                          .gradients = calloc(n, sizeof(float)),
                          .n_devices = n_devices};
    if (!out->weights || !out->gradients) return DPT_E_NO_MEMORY;
    dpt_status status = dpt_trainer_create(devices, task->model, task->data, &options, &trainer);
    if (status == DPT_OK) status = set_start(trainer, task, n_devices);
    for (size_t i = 0; i < n_devices && status == DPT_OK; i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        status = dpt_trainer_plan(trainer, trainer->first_device + i, &plan);
        if (status == DPT_OK) out->at_once[i] = plan.micro_batch;
    }
    for (size_t s = 0; s < task->steps && status == DPT_OK; s++) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        status = dpt_trainer_step(trainer, &metrics);
        if (status != DPT_OK) break;
        out->losses[s] = metrics.loss;
        for (size_t i = 0; i < metrics.n_devices && i < sizeof out->shards / sizeof *out->shards;
             i++)
            out->shards[i] = metrics.shards[i];
    }
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_PARAMETER, out->weights);
    if (status == DPT_OK) status = dpti_trainer_read(trainer, 0, DPT_GRADIENT, out->gradients);
    if (status == DPT_OK) status = compare_replicas(trainer, n_devices, out);
    if (status == DPT_OK) {
        out->n_devices = dpt_trainer_device_count(trainer);
        out->link_probe = trainer->exchange.link_probe;
        out->buckets = trainer->program.buckets;
        out->choices_agree = true;
    }
    dpt_trainer_destroy(trainer);
    return status;
}

/* ---- Several processes ----------------------------------------------------------------------- */

typedef struct together {
    const flat_task *task;
    flat_outcome outcomes[MOST_STAND_INS];
} together;

static dpt_status train_part(dpt_context *context, size_t rank, void *user)
{
    together *all = user;
    char devices[256];
    flat_task own = *all->task;
    dpt_dataset data = *own.data; /* a trainer counts its steps that read the data */
    data.context = context;
    stand_ins_devices(own.devices, rank, devices);
    own.devices = devices;
    own.data = &data;
    return flat_run(context, &own, &all->outcomes[rank]);
}

static bool chose_the_same(const flat_outcome *a, const flat_outcome *b)
{
    return a->link_probe.done == b->link_probe.done &&
           a->link_probe.link.alpha == b->link_probe.link.alpha &&
           a->link_probe.link.beta == b->link_probe.link.beta &&
           a->link_probe.travel.route == b->link_probe.travel.route &&
           a->link_probe.travel.window == b->link_probe.travel.window &&
           a->buckets.first == b->buckets.first && a->buckets.others == b->buckets.others;
}

/* The first process's outcome, if those of the others are the same to the bit. */
static dpt_status train_together(dpt_context *context, const flat_task *task, flat_outcome *out)
{
    const size_t n = stand_ins_count(task->devices);
    const size_t n_bytes = task->model->flat_size * sizeof(float);
    together all = {.task = task};
    char message[512] = "";
    const dpt_status status = stand_ins_run(n, train_part, &all, message);
    *out = all.outcomes[0];
    for (size_t i = 1; i < n; i++) {
        flat_outcome *other = &all.outcomes[i];
        if (status == DPT_OK) out->choices_agree = out->choices_agree && chose_the_same(out, other);
        if (status == DPT_OK)
            out->replicas_agree = out->replicas_agree && other->replicas_agree &&
                                  memcmp(out->weights, other->weights, n_bytes) == 0 &&
                                  memcmp(out->gradients, other->gradients, n_bytes) == 0 &&
                                  memcmp(out->losses, other->losses, sizeof out->losses) == 0;
        flat_free(other);
    }
    return status == DPT_OK ? DPT_OK : dpt_fail(context, status, "%s", message);
}

dpt_status flat_run(dpt_context *context, const flat_task *task, flat_outcome *out)
{
    dpt_device_set *devices = NULL;
    *out = (flat_outcome){.weights = NULL};
    if (stand_ins_count(task->devices) > 1) return train_together(context, task, out);
    dpt_status status = dpt_device_set_open(context, task->devices, &devices);
    if (status == DPT_OK) status = flat_train(devices, task, out);
    dpt_device_set_close(devices);
    return status;
}

void flat_free(flat_outcome *outcome)
{
    free(outcome->weights);
    free(outcome->gradients);
}

/* ---- In double precision --------------------------------------------------------------------- */

static bool start(interpreter *it, const flat_task *task)
{
    dpt_error error = {0};
    const size_t n = it->model->flat_size;
    float *flat = calloc(n, sizeof *flat);
    const bool made =
        flat && dpti_initialize(it->model, &(dpti_initial){.seed = 1}, flat, &error) == DPT_OK;
    if (made) set_norm_biases(task, flat);
    for (size_t i = 0; made && i < n; i++)
        it->parameters[i] = (double)flat[i];
    free(flat);
    it->lr = (double)rate_of(task);
    it->seed = 1;
    return made;
}

bool flat_interpret(const flat_task *task, size_t n_devices, const size_t *shards, interpreter *out)
{
    uint32_t records[FLAT_COUNT];
    size_t n = 0;
    const dpti_program_options options = {
        .data = task->data,
        .purpose = DPTI_PURPOSE_TRAIN,
        .least_bucket =
            task->bucket_bytes / sizeof(float) + (task->bucket_bytes % sizeof(float) != 0),
        .optimizer = {.momentum = FLAT_MOMENTUM, .weight_decay = FLAT_DECAY}};
    if (!interpreter_create(task->model, &options, n_devices, out) || !start(out, task))
        return false;
    for (uint32_t i = 0; i < FLAT_COUNT; i++)
        records[i] = i;
    for (size_t i = 0; i < n_devices; i++)
        n += shards[i];
    (void)interpreter_compute(out, records, shards, 1.0 / (double)n);
    return true;
}

/* ---- Measures -------------------------------------------------------------------------------- */

void flat_errors(const dpt_model *m, const float *gradients, const double *reference,
                 double *errors)
{
    for (size_t i = 0; i < m->n_parameters; i++)
        errors[i] = parameter_error(&m->parameters[i], gradients, reference);
}

bool flat_gradient_is_zero(const dpt_model *m, size_t parameter, const double *reference)
{
    return feeds_batch_norm(m, parameter) ||
           parameter_norm(&m->parameters[parameter], reference) < 1e-13;
}

bool flat_gradients_agree(const dpt_model *m, const float *gradients, const double *reference,
                          const double *errors, const char **worst)
{
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        const double bound = 4 * errors[i] + 1e-7 * parameter_norm(p, reference);
        if (flat_gradient_is_zero(m, i, reference) ||
            parameter_error(p, gradients, reference) <= bound)
            continue;
        if (worst) *worst = p->name;
        return false;
    }
    return true;
}

double flat_parameter_distance(const dpt_model *m, size_t parameter, const float *a, const float *b)
{
    const dpti_parameter *p = &m->parameters[parameter];
    return feeds_batch_norm(m, parameter) ? 0 : distance(a + p->offset, b + p->offset, p->size);
}

double flat_distance(const dpt_model *m, const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < m->n_parameters; i++)
        sum += pow(flat_parameter_distance(m, i, a, b), 2);
    return sqrt(sum);
}
