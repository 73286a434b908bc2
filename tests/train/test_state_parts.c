/* Tests training with the optimizer's state in parts (--shard optimizer), with sums of gradients in
   parts, too (--shard gradients), and with parameters as well (--shard parameters), and with all
   parts on CPUs (--offload): the same bits as without, for every optimizer and division; what
   devices hold; limits of memory that a training needs parts to fit into; what is copied behind the
   update; changed bits that comparisons of replicas find.

   Devices of the fault plug-ins stand for cards (apart=1).  So does the first device of the backend
   $DPTRAIN_TEST_BACKEND, if it is set: the case "offload beside another backend". */
#include "device/buffer.h"
#include "device/set.h"
#include "harness.h"
#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/replicas/state_parts.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, BATCH = 29, TEXT = 200, DEVICES = 4, KINDS = 3 };

static const dpt_tensor_kind kinds[KINDS] = {DPT_PARAMETER, DPT_VELOCITY, DPT_SQUARES};

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *residual, *wide; /* with batch-norm; one tensor is nearly all of it */
} setting;

/* A training, and whether its optimizer's state is in parts. */
typedef struct course {
    const char *devices, *split;
    dpt_trainer_options options; /* of the optimizer; the rest is filled in */
    const dpt_model *model;
    size_t micro_batch, accumulate;
    dpt_shard parts;
    bool offload;
    bool deterministic, sets; /* sets: a tensor of the optimizer's state is set halfway */
} course;

/* The training state behind it, as flat buffers; free it in any case. */
typedef struct state {
    float *flats[KINDS];
    size_t n[KINDS];
} state;

static void free_state(state *s)
{
    for (size_t k = 0; k < KINDS; k++)
        free(s->flats[k]);
}

static dpt_status make_wide(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "wide", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_linear(m, dpt_flatten(m, x), "fc1",
                   &(dpt_linear_options){
                       .size = sizeof(dpt_linear_options), .out = 640, .activation = DPT_ACT_RELU});
    x = dpt_linear(m, x, "fc2",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static dpt_status create(const setting *s, const course *task, dpt_device_set *set,
                         dpt_trainer **out)
{
    dpt_trainer_options o = task->options;
    o.size = sizeof o;
    o.batch_size = BATCH;
    o.micro_batch = task->micro_batch;
    o.split = dpt_split_from(task->split);
    o.seed = 3;
    o.deterministic = task->deterministic;
    o.no_standby = true;
    o.shard = task->parts;
    o.offload = task->offload;
    o.accumulate = task->accumulate;
    o.bucket_bytes = 4096; /* many buckets */
    return dpt_trainer_create(set, task->model, s->data, &o, out);
}

/* The state of each device is to be the same: *out has that of the first. */
static dpt_status read_states(test *t, const course *task, dpt_trainer *trainer, state *out)
{
    const size_t n_kinds = task->options.optimizer == DPT_OPTIMIZER_ADAMW ? 3
                           : task->options.momentum != 0                  ? 2
                                                                          : 1;
    for (size_t k = 0; k < n_kinds; k++) {
        const size_t n =
            kinds[k] == DPT_PARAMETER ? trainer->model->flat_size : trainer->model->flat_gradients;
        float *other = calloc(n, sizeof *other);
        out->flats[k] = calloc(n, sizeof *other);
        out->n[k] = n;
        for (size_t i = 0; other && out->flats[k] && i < dpt_trainer_device_count(trainer); i++) {
            CHECK_OK(dpti_trainer_read(trainer, i, kinds[k], i == 0 ? out->flats[k] : other));
            if (i > 0 && !CHECK(memcmp(other, out->flats[k], n * sizeof *other) == 0))
                FAIL("%s: device %zu has another buffer %zu", task->devices, i, k);
        }
        free(other);
    }
    return DPT_OK;
}

/* Writes over a tensor of the optimizer's state that may be in several parts. */
static void set_velocity(test *t, dpt_trainer *trainer)
{
    const dpt_model *m = trainer->model;
    dpt_parameter_info info = {.size = sizeof info};
    for (size_t i = 0; i < 2; i++) {
        dpt_model_tensor(m, i, &info);
        float *values = calloc(info.elements, sizeof *values), *now = NULL;
        for (size_t e = 0; values && e < info.elements; e++)
            values[e] = 1e-4f * (float)(e % 17);
        now = calloc(info.elements, sizeof *now);
        CHECK_OK(dpt_trainer_set(trainer, DPT_VELOCITY, info.name, values, info.elements));
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_VELOCITY, info.name, now, info.elements));
        CHECK(values && now && memcmp(now, values, info.elements * sizeof *now) == 0);
        free(now);
        free(values);
    }
}

/* The devices of $DPTRAIN_TEST_BACKEND are no CPUs. */
static void take_for_card(dpt_device_set *set)
{
    const char *backend = getenv("DPTRAIN_TEST_BACKEND");
    for (size_t i = 0; backend && i < set->n_devices; i++)
        if (strncmp(set->devices[i]->id, backend, strlen(backend)) == 0)
            set->devices[i]->info.flags &= ~(uint32_t)DPT_DEVICE_IS_HOST_CPU;
}

/* Trains; `look`, if it is not NULL, sees the trainer before the first step. */
static bool train(test *t, const course *task, void (*look)(test *t, const dpt_trainer *trainer),
                  state *out)
{
    const setting *s = t->user;
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    *out = (state){.n = {0}};
    bool sound = CHECK_OK(dpt_device_set_open(s->context, task->devices, &set));
    if (sound && task->offload) take_for_card(set);
    sound = sound && CHECK_OK(create(s, task, set, &trainer));
    if (sound && look) look(t, trainer);
    for (size_t i = 0; sound && i < STEPS; i++) {
        if (i == STEPS / 2 && task->sets) set_velocity(t, trainer);
        sound = CHECK_OK(dpt_trainer_step(trainer, &m));
    }
    if (!sound) FAIL("%s: %s", task->devices, dpt_error_message(s->context));
    if (sound) sound = CHECK_OK(read_states(t, task, trainer, out));
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return sound;
}

static void compare(test *t, const course *task, const state *right, const state *now)
{
    for (size_t k = 0; k < KINDS; k++) {
        CHECK_SIZE(now->n[k], right->n[k]);
        if (right->n[k] > 0 &&
            !CHECK(memcmp(now->flats[k], right->flats[k], right->n[k] * sizeof(float)) == 0))
            FAIL("%s, %s, %s: buffer %zu differs", task->model->name, task->devices, task->split,
                 k);
    }
}

/* A device has a window of gradients, and its part of the sums. */
static void look_at_window(test *t, const dpti_worker *w)
{
    const dpt_trainer *trainer = w->trainer;
    const dpti_replica *r = &w->replica;
    const dpt_model *m = trainer->model;
    const size_t n_own = w->replicas.part.end - w->replicas.part.begin;
    CHECK(r->windowed);
    CHECK_SIZE(r->gradients.n_bytes, r->nodes.places.n_elements * sizeof(float));
    /* With frozen weights there is little to exchange, and one bucket is enough. */
    CHECK(m->flat_weights != m->all_weights ||
          r->gradients.n_bytes < trainer->n_gradients * sizeof(float));
    CHECK_SIZE(r->sums.n_bytes, (n_own + trainer->n_gradients - m->flat_trained) * sizeof(float));
}

/* A device has the weights of its part, and everything that is neither a weight nor frozen. */
static void look_at_parameters(test *t, const dpti_worker *w)
{
    const dpt_model *m = w->trainer->model;
    const dpti_state_part *part = &w->replicas.part;
    const size_t begin = part->begin < m->flat_weights ? part->begin : m->flat_weights;
    const size_t end = part->end < m->flat_weights ? part->end : m->flat_weights;
    CHECK(w->replica.gathers);
    CHECK_SIZE(w->replica.parameters.n_bytes,
               (end - begin + m->flat_gradients - m->flat_weights) * sizeof(float));
}

static dpt_shard parts_of(const dpt_trainer *trainer)
{
    return dpti_state_parts_of_parameters(trainer)  ? DPT_SHARD_PARAMETERS
           : dpti_state_parts_of_gradients(trainer) ? DPT_SHARD_GRADIENTS
                                                    : DPT_SHARD_OPTIMIZER;
}

/* Every device holds its part, and the parts are all there is. */
static void look_at_parts(test *t, const dpt_trainer *trainer)
{
    size_t at = 0, n_holding = 0;
    const dpti_optimizer *o = &trainer->program.optimizer;
    const bool adamw = o->kind == DPT_OPTIMIZER_ADAMW, any = adamw || o->momentum != 0;
    if (!CHECK(dpti_state_parts_on(trainer))) return;
    CHECK(dpt_trainer_sharded(trainer) == parts_of(trainer));
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        const size_t n = w->replicas.part.end - w->replicas.part.begin;
        CHECK_SIZE(w->replicas.part.begin, at);
        CHECK_SIZE(w->replica.velocity.n_bytes, any ? n * sizeof(float) : 0);
        if (dpti_state_parts_of_gradients(trainer)) look_at_window(t, w);
        if (dpti_state_parts_of_parameters(trainer)) look_at_parameters(t, w);
        CHECK_SIZE(w->replica.squares.n_bytes, adamw ? n * sizeof(float) : 0);
        CHECK(atomic_load(&w->device->memory_used_bytes) <= w->device->memory_limit_bytes);
        n_holding += n > 0;
        at = w->replicas.part.end;
    }
    CHECK_SIZE(at, trainer->model->flat_trained);
    CHECK(n_holding > 1);
}

static bool is_cpu(const dpti_device *device)
{
    return device->info.flags & DPT_DEVICE_IS_HOST_CPU;
}

/* What a device has taken, counted at every allocation, is what the plan says. */
static void look_at_plan(test *t, const dpt_trainer *trainer, size_t i)
{
    const dpti_device *device = trainer->workers[i].device;
    const size_t used = atomic_load(&device->memory_used_bytes);
    dpt_device_plan plan = {.size = sizeof plan};
    CHECK_OK(dpt_trainer_plan(trainer->workers[0].trainer, i, &plan));
    CHECK_SIZE(used, plan.parameter_bytes + plan.optimizer_bytes + plan.activation_bytes +
                         plan.step_bytes + plan.data_bytes);
    CHECK(used <= device->memory_limit_bytes);
}

/* CPUs hold all that is divided, and other devices nothing of it. */
static void look_at_offload(test *t, const dpt_trainer *trainer)
{
    const dpt_model *m = trainer->model;
    size_t at = 0;
    CHECK(dpt_trainer_offloaded(trainer));
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        const size_t n = w->replicas.part.end - w->replicas.part.begin;
        CHECK_SIZE(w->replicas.part.begin, at);
        CHECK(is_cpu(w->device) || n == 0);
        CHECK(n > 0 || (!w->replica.velocity.handle && !w->replica.squares.handle));
        if (n == 0 && dpti_state_parts_of_gradients(trainer))
            CHECK_SIZE(w->replica.sums.n_bytes,
                       (trainer->n_gradients - m->flat_trained) * sizeof(float));
        if (n == 0 && dpti_state_parts_of_parameters(trainer))
            CHECK_SIZE(w->replica.parameters.n_bytes,
                       (m->flat_gradients - m->flat_weights) * sizeof(float));
        /* Another backend may take scratch memory beside what the plan says. */
        if (!getenv("DPTRAIN_TEST_BACKEND")) look_at_plan(t, trainer, i);
        at = w->replicas.part.end;
    }
    CHECK_SIZE(at, m->flat_trained);
}

/* ---- The same bits --------------------------------------------------------------------------- */

static const dpt_parameter_group groups[] = {
    {.pattern = "*.bias", .lr_factor = 2, .has_weight_decay = true},
    {.pattern = "fc*.weight", .lr_factor = 0.5f}};
static const dpt_parameter_group frozen[] = {{.pattern = "*1.weight", .frozen = true}};

/* The first one has no state. */
static const dpt_trainer_options optimizers[] = {
    {.lr = 0.05f, .clip_norm = 0.5f},
    {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-3f},
    {.lr = 0.05f, .momentum = 0.9f, .nesterov = true, .clip_norm = 0.5f, .no_bias_decay = true},
    {.lr = 0.01f, .optimizer = DPT_OPTIMIZER_ADAMW, .weight_decay = 0.1f, .no_bias_decay = true},
    {.lr = 0.01f,
     .optimizer = DPT_OPTIMIZER_ADAMW,
     .weight_decay = 0.1f,
     .groups = groups,
     .n_groups = 2},
    {.lr = 0.01f, .optimizer = DPT_OPTIMIZER_ADAMW, .groups = frozen, .n_groups = 1}};

/* Division among equal devices, by limits of memory, with devices that get no element, and with
   those whose memory is not the host's.  Two devices are an island, by default. */
typedef struct mix {
    const char *devices, *split;
} mix;
static const mix mixes[] = {
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
    {"cpu:threads=1:memory=9M,cpu:threads=1:memory=30M,cpu:threads=1:memory=14M", "2:0:3"},
    {"cpu:threads=1,cpu:threads=1:memory=4M,cpu:threads=2:memory=3G", "5:2:1"},
    {"faultstaged:threads=1,cpu:threads=1", "1:2"},
    {"fault:threads=1:island=1,fault:threads=1:island=1,cpu:threads=1", "2:3:1"},
};

/* A card beside a CPU that gets no samples, or some; CPUs that are no hosts of their memory, of
   which one is small; two cards. */
static const mix offload_mixes[] = {
    {"faultstaged:threads=1:apart=1,cpu:threads=1", "1:0"},
    {"cpu:threads=1,fault:threads=1:apart=1", "1:3"},
    {"faultstaged:threads=1:memory=9M,faultstaged:threads=1:apart=1,cpu:threads=1:memory=30M",
     "2:5:1"},
    {"fault:threads=1:apart=1:island=1,fault:threads=1:apart=1:island=1,cpu:threads=1", "2:3:1"},
};

static void same_bits_of(test *t, const course *how, const mix *list, size_t n_mixes)
{
    const setting *s = t->user;
    const dpt_shard parts = how->parts;
    const bool deterministic = how->deterministic;
    const size_t n = sizeof optimizers / sizeof *optimizers;
    for (size_t o = parts == DPT_SHARD_OPTIMIZER ? 1 : 0; o < n; o++)
        for (size_t k = 0; k < 2; k++) {
            course plain = {.options = optimizers[o],
                            .model = k == 0 ? s->residual : s->wide,
                            .deterministic = deterministic,
                            .sets = o > 0 && optimizers[o].groups != frozen, /* such have none */
                            .devices = "cpu:threads=1"};
            state right = {.n = {0}}, now;
            if (deterministic && !train(t, &plain, NULL, &right)) continue;
            for (size_t i = 0; i < n_mixes && t->n_failures == 0; i++) {
                /* Limits are for the smaller network. */
                if (k == 1 && strstr(list[i].devices, "memory=4M")) continue;
                course divided = plain;
                divided.devices = list[i].devices;
                divided.split = list[i].split;
                if (!deterministic && !train(t, &divided, NULL, &right)) continue;
                divided.parts = parts;
                divided.offload = how->offload;
                if (train(t, &divided,
                          how->offload ? look_at_offload
                          : i == 0     ? look_at_parts
                                       : NULL,
                          &now))
                    compare(t, &divided, &right, &now);
                free_state(&now);
                if (!deterministic) free_state(&right);
                if (!deterministic) right = (state){.n = {0}};
            }
            free_state(&right);
        }
}

static void same_bits(test *t, bool deterministic, dpt_shard parts)
{
    same_bits_of(t, &(course){.deterministic = deterministic, .parts = parts}, mixes,
                 sizeof mixes / sizeof *mixes);
}

static void deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_OPTIMIZER);
}

static void by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_OPTIMIZER);
}

static void gradients_deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_GRADIENTS);
}

static void gradients_by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_GRADIENTS);
}

static void parameters_deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_PARAMETERS);
}

static void parameters_by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_PARAMETERS);
}

static void offloaded(test *t, bool deterministic)
{
    for (int parts = DPT_SHARD_OPTIMIZER; parts <= DPT_SHARD_PARAMETERS; parts++)
        same_bits_of(
            t,
            &(course){.deterministic = deterministic, .parts = (dpt_shard)parts, .offload = true},
            offload_mixes, sizeof offload_mixes / sizeof *offload_mixes);
}

static void offload_deterministic(test *t)
{
    offloaded(t, true);
}

static void offload_by_default(test *t)
{
    offloaded(t, false);
}

/* The first device of the backend stands for a card, also where it is the host's CPU. */
static void offload_beside_another_backend(test *t)
{
    const char *backend = getenv("DPTRAIN_TEST_BACKEND");
    char devices[TEXT];
    if (!backend) return;
    snprintf(devices, sizeof devices, "%s:0,cpu:threads=1", backend);
    const mix beside = {devices, "3:1"};
    for (int parts = DPT_SHARD_OPTIMIZER; parts <= DPT_SHARD_PARAMETERS; parts++)
        same_bits_of(t, &(course){.parts = (dpt_shard)parts, .offload = true}, &beside, 1);
}

/* Micro-batches, and batches that are accumulated: host memory keeps gradients between them.  A
   device without samples in one of the batches contributes what it has of the others. */
static void several_at_a_time(test *t)
{
    static const struct {
        size_t micro_batch, accumulate;
        const char *split;
    } ways[] = {{3, 0, "2:0:3"}, {0, 3, "5:2:1"}, {2, 2, "27:1:1"}};
    static const char *const mixes_of_three[] = {
        "cpu:threads=1,cpu:threads=1,cpu:threads=1",
        "faultstaged:threads=1,cpu:threads=1,cpu:threads=2"};
    const setting *s = t->user;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t k = 0; k < 8; k++) {
            state right, now;
            course task = {.options = optimizers[2],
                           .deterministic = k >= 4,
                           .model = k % 2 == 0 && k < 4 ? s->residual : s->wide,
                           .devices = mixes_of_three[k / 2 % 2],
                           .micro_batch = ways[i].micro_batch * (k < 4 ? 1 : 2), /* whole grains */
                           .accumulate = ways[i].accumulate,
                           .split = ways[i].split};
            const bool done = train(t, &task, NULL, &right);
            for (int parts = DPT_SHARD_GRADIENTS; done && parts <= DPT_SHARD_PARAMETERS; parts++) {
                task.parts = (dpt_shard)parts;
                if (train(t, &task, look_at_parts, &now)) compare(t, &task, &right, &now);
                free_state(&now);
            }
            free_state(&right);
        }
}

/* dpt_trainer_get puts the gradients of all parts together. */
static void read_gradients(test *t)
{
    const setting *s = t->user;
    float *right = calloc(s->residual->flat_gradients, sizeof *right);
    float *now = calloc(s->residual->flat_gradients, sizeof *now);
    for (size_t i = 0; right && now && i < 2; i++) {
        const course task = {.options = optimizers[2],
                             .model = s->residual,
                             .devices = i == 0 ? "cpu:threads=1" : mixes[3].devices,
                             .split = i == 0 ? NULL : mixes[3].split,
                             .deterministic = true,
                             .parts = DPT_SHARD_GRADIENTS};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        dpt_step_metrics m = {.size = sizeof m};
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set)) &&
            CHECK_OK(create(s, &task, set, &trainer)) && CHECK_OK(dpt_trainer_step(trainer, &m)))
            CHECK_OK(dpti_trainer_read(trainer, i, DPT_GRADIENT, i == 0 ? right : now));
        if (trainer && i > 0)
            CHECK_STATUS(dpti_trainer_write_all(trainer, DPT_GRADIENT, right), DPT_E_INVALID);
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
    CHECK(right && now && memcmp(right, now, s->residual->flat_gradients * sizeof *now) == 0);
    free(now);
    free(right);
}

/* ---- What is copied ----------------------------------------------------------------------------
 */

/* The first device's transfers, counted where core calls the backend. */
static struct {
    const dpt_memory_ops *memory;
    atomic_size_t n_bytes;
} counted;

static dpt_status count_upload(dpt_stream *stream, dpt_location to, const void *host,
                               size_t n_bytes)
{
    atomic_fetch_add(&counted.n_bytes, n_bytes);
    return counted.memory->upload(stream, to, host, n_bytes);
}

static dpt_status count_download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    atomic_fetch_add(&counted.n_bytes, n_bytes);
    return counted.memory->download(stream, host, from, n_bytes);
}

/* The bytes that a step copies from and to the first device, and those of the update by the plan.
 */
static void count_copies(test *t, const course *task, size_t *copied, size_t *planned)
{
    const setting *s = t->user;
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_plan plan = {.size = sizeof plan};
    if (CHECK_OK(dpt_device_set_open(s->context, task->devices, &set)) &&
        CHECK_OK(create(s, task, set, &trainer)) && CHECK_OK(dpt_trainer_step(trainer, &m))) {
        dpt_device *device = &set->devices[0]->base;
        const dpt_backend *const whole = device->backend;
        dpt_memory_ops memory = *whole->memory;
        dpt_backend counting = *whole;
        counted.memory = whole->memory;
        memory.upload = count_upload;
        memory.download = count_download;
        counting.memory = &memory;
        device->backend = &counting;
        atomic_store(&counted.n_bytes, 0);
        CHECK_OK(dpt_trainer_step(trainer, &m));
        *copied = atomic_load(&counted.n_bytes);
        device->backend = whole;
        CHECK_OK(dpt_trainer_plan(trainer, 0, &plan));
        *planned = plan.update_bytes;
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
}

/* A step copies as much more than one without parts as the plan says.  With CPUs that hold all, it
   is the parameters, once. */
static void copies_are_planned(test *t)
{
    const setting *s = t->user;
    const course plain = {.options = optimizers[3],
                          .model = s->residual,
                          .split = "2:1",
                          .devices = "faultstaged:threads=1:apart=1,cpu:threads=1"};
    size_t without = 0, with = 0, none = 1, planned = 0, offloaded = 0;
    course task = plain;
    count_copies(t, &task, &without, &none);
    CHECK_SIZE(none, 0);
    task.parts = DPT_SHARD_OPTIMIZER;
    count_copies(t, &task, &with, &planned);
    CHECK_SIZE(with - without, planned);
    task.offload = true;
    count_copies(t, &task, &with, &offloaded);
    CHECK_SIZE(with - without, offloaded);
    CHECK_SIZE(offloaded, s->residual->flat_trained * sizeof(float));
    CHECK(offloaded < planned);
}

/* ---- Changed bits ------------------------------------------------------------------------------
 */

/* Changes a bit of a parameter that a device keeps. */
static void flip_bit(test *t, const dpti_worker *w, size_t element)
{
    uint32_t *values = dpti_host_pointer(&w->replica.parameters);
    if (CHECK(values) && CHECK((element + 1) * sizeof *values <= w->replica.parameters.n_bytes))
        values[element] ^= 1u << 20;
}

/* A training whose replicas are compared; halfway a bit of each of the first n_flipped devices
   changes, in its own weights or in what all devices have. */
typedef struct comparing {
    const char *devices;
    size_t n_flipped;
    bool own;
    const char *says;
} comparing;

static float *train_compared(test *t, const comparing *c)
{
    const setting *s = t->user;
    const dpt_trainer_options o = {.size = sizeof o,
                                   .batch_size = BATCH,
                                   .split = dpt_split_from("equal"),
                                   .lr = 0.01f,
                                   .optimizer = DPT_OPTIMIZER_ADAMW,
                                   .seed = 3,
                                   .deterministic = true,
                                   .no_standby = true,
                                   .verify_replicas = 1,
                                   .shard = DPT_SHARD_PARAMETERS};
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_event event = {.size = sizeof event};
    float *flat = calloc(s->residual->flat_size, sizeof *flat);
    bool sound = CHECK(flat) && CHECK_OK(dpt_device_set_open(s->context, c->devices, &set)) &&
                 CHECK_OK(dpt_trainer_create(set, s->residual, s->data, &o, &trainer));
    for (size_t i = 0; sound && i < STEPS; i++) {
        for (size_t k = 0; i == STEPS / 2 && k < c->n_flipped; k++) {
            const dpti_replica *r = &trainer->workers[k].replica;
            const dpti_range own = dpti_replica_kept(r).own;
            flip_bit(t, &trainer->workers[k], c->own ? 0 : dpti_range_size(own));
        }
        sound = CHECK_OK(dpt_trainer_step(trainer, &m));
    }
    for (size_t k = 0; sound && k < c->n_flipped; k++)
        if (CHECK(dpt_trainer_next_event(trainer, &event))) {
            CHECK(event.kind == DPT_REPLICA_RESTORED);
            CHECK_SIZE(event.device, k);
            CHECK_SIZE(event.step, STEPS / 2 + 1);
            CHECK_CONTAINS(event.message, c->says);
        }
    if (sound) CHECK(!dpt_trainer_next_event(trainer, &event));
    if (sound) CHECK_OK(dpti_trainer_read(trainer, 0, DPT_PARAMETER, flat));
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return flat;
}

/* Weights that one device alone has are compared with the host's copy, and other parameters with
   those of the other devices. */
static void changed_bits_are_found(test *t)
{
    const setting *s = t->user;
    static const char own[] = "its part of the parameters differs from the host's copy",
                      shared[] = "differs from 2 of 3 that are alike";
    static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
    static const comparing ways[] = {{three, 1, true, own},
                                     {three, 1, false, shared},
                                     {three, 3, true, own},
                                     {"cpu:threads=1,cpu:threads=1", 1, true, own}};
    float *right = train_compared(t, &(comparing){.devices = three});
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *now = train_compared(t, &ways[i]);
        CHECK(right && now && memcmp(right, now, s->residual->flat_size * sizeof *now) == 0);
        free(now);
    }
    free(right);
}

/* What gradients are not divided with.  A single device divides nothing, and takes all of it. */
static void refusals(test *t)
{
    const setting *s = t->user;
    static const struct {
        const char *message;
        dpt_trainer_options options;
    } ways[] = {{"overlap", {.lr = 0.1f, .no_overlap = true}}};
    for (size_t i = 0; i < 4 * sizeof ways / sizeof *ways; i++) {
        const course task = {.options = ways[i / 4].options,
                             .model = s->wide,
                             .devices = i % 2 ? "cpu:threads=1" : "cpu:threads=1,cpu:threads=1",
                             .split = i % 2 ? "1" : "1:1",
                             .parts = i % 4 < 2 ? DPT_SHARD_GRADIENTS : DPT_SHARD_PARAMETERS};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set))) {
            CHECK_STATUS(create(s, &task, set, &trainer), i % 2 ? DPT_OK : DPT_E_INVALID);
            if (i % 2 == 0) CHECK_CONTAINS(dpt_error_message(s->context), ways[i / 4].message);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

/* What offload needs. */
static void offload_refusals(test *t)
{
    const setting *s = t->user;
    static const char card[] = "fault:threads=1:apart=1,cpu:threads=1",
                      cards[] = "fault:threads=1:apart=1,faultstaged:threads=1:apart=1";
    const struct {
        const char *message;
        course task;
    } ways[] = {
        {"needs a CPU", {.devices = cards, .options = optimizers[1]}},
        {"all devices are CPUs",
         {.devices = "cpu:threads=1,fault:threads=1", .options = optimizers[1]}},
        {"all devices are CPUs", {.devices = "cpu:threads=1", .options = optimizers[1]}},
        {"an optimizer with a state", {.devices = card, .options = {.lr = 0.1f}}},
        {"overlap",
         {.devices = card,
          .parts = DPT_SHARD_GRADIENTS,
          .options = {.lr = 0.1f, .no_overlap = true}}},
        {NULL, {.devices = card, .options = optimizers[1]}},
        {NULL, {.devices = card, .parts = DPT_SHARD_GRADIENTS, .options = {.lr = 0.1f}}},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        course task = ways[i].task;
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        task.model = s->wide;
        task.offload = true;
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set))) {
            CHECK_STATUS(create(s, &task, set, &trainer), ways[i].message ? DPT_E_INVALID : DPT_OK);
            if (ways[i].message) CHECK_CONTAINS(dpt_error_message(s->context), ways[i].message);
            if (trainer) CHECK(dpt_trainer_sharded(trainer) != DPT_SHARD_NONE);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

/* One device, and an optimizer without a state: as without parts. */
static void look_at_none(test *t, const dpt_trainer *trainer)
{
    CHECK(!dpti_state_parts_on(trainer));
    CHECK(!dpt_trainer_offloaded(trainer));
    CHECK(dpt_trainer_sharded(trainer) == DPT_SHARD_NONE);
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_replica *r = &trainer->workers[i].replica;
        if (trainer->program.optimizer.momentum == 0)
            CHECK(!r->velocity.handle);
        else
            CHECK_SIZE(r->velocity.n_bytes, trainer->model->flat_gradients * sizeof(float));
    }
}

static void nothing_to_divide(test *t)
{
    const setting *s = t->user;
    const course alone = {.options = optimizers[1],
                          .model = s->wide,
                          .parts = DPT_SHARD_GRADIENTS,
                          .devices = "cpu:threads=1"};
    const course stateless = {.options = {.lr = 0.05f},
                              .model = s->wide,
                              .parts = DPT_SHARD_OPTIMIZER,
                              .devices = "cpu:threads=1,cpu:threads=1"};
    state now;
    (void)train(t, &alone, look_at_none, &now);
    free_state(&now);
    (void)train(t, &stateless, look_at_none, &now);
    free_state(&now);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Limits in percents of the bytes of weights, gradients and both moments. */
static void make_limits(char devices[TEXT], const dpt_model *model, const size_t percents[DEVICES])
{
    const size_t all = 4 * model->flat_size * sizeof(float);
    size_t n = 0;
    for (size_t i = 0; i < DEVICES; i++)
        n += (size_t)snprintf(devices + n, TEXT - n, "%scpu:threads=1:memory=%zu", i > 0 ? "," : "",
                              percents[i] * all / 100);
}

/* Each device alone is too small for the training, and the devices together hold it.  With the last
   limits the division must know what activations take: nearly a percent. */
static void limits(test *t)
{
    static const size_t percents[][DEVICES] = {
        {70, 95, 80, 75}, {80, 90, 71, 97}, {74, 75, 73, 72}, {54, 72, 55, 73}};
    const setting *s = t->user;
    course plain = {.options = optimizers[3],
                    .model = s->wide,
                    .micro_batch = 1, /* the same sums, whatever memory is left */
                    .split = "1:1:1:1",
                    .devices = "cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1"};
    state right, now;
    if (!train(t, &plain, NULL, &right)) return;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        char devices[TEXT];
        course limited = plain;
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        make_limits(devices, s->wide, percents[i]);
        limited.devices = devices;
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(create(s, &limited, set, &trainer), DPT_E_NO_MEMORY);
            CHECK_CONTAINS(dpt_error_message(s->context), "fits with --shard optimizer");
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
        limited.parts = DPT_SHARD_OPTIMIZER;
        if (train(t, &limited, look_at_parts, &now)) compare(t, &limited, &right, &now);
        free_state(&now);
    }
    free_state(&right);
}

/* A card whose memory does not hold both moments beside the rest.  A CPU that holds them is named
   before parts of the card, and parts of the card where the CPU is too small. */
static void offload_is_advised(test *t)
{
    static const struct {
        size_t card, cpu; /* percents */
        bool offload;
        const char *message;
    } ways[] = {
        {70, 300, false, "; the training fits with --offload (each step copies"},
        {70, 90, false, "; the training fits with --shard optimizer"},
        {95, 80, true, "; the training fits with --shard optimizer and without --offload"},
        {45, 300, false, "; the training fits with --shard gradients --offload (each step copies"},
    };
    const setting *s = t->user;
    const size_t all = 4 * s->wide->flat_size * sizeof(float);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char devices[TEXT];
        snprintf(devices, sizeof devices,
                 "faultstaged:threads=1:apart=1:memory=%zu,cpu:threads=1:memory=%zu",
                 ways[i].card * all / 100, ways[i].cpu * all / 100);
        course task = {.options = optimizers[3],
                       .model = s->wide,
                       .split = "1:1",
                       .micro_batch = 1,
                       .offload = ways[i].offload,
                       .devices = devices};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        state now;
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(create(s, &task, set, &trainer), DPT_E_NO_MEMORY);
            CHECK_CONTAINS(dpt_error_message(s->context), ways[i].message);
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
        task.offload = !task.offload && strstr(ways[i].message, "--offload");
        task.parts = strstr(ways[i].message, "gradients") ? DPT_SHARD_GRADIENTS
                     : task.offload                       ? DPT_SHARD_NONE
                                                          : DPT_SHARD_OPTIMIZER;
        (void)train(t, &task, task.offload ? look_at_offload : look_at_parts, &now);
        free_state(&now);
    }
}

/* Where parts do not help nothing is said about them. */
static void too_small(test *t)
{
    static const size_t percents[DEVICES] = {52, 52, 52, 52};
    const setting *s = t->user;
    for (size_t i = 0; i < 3; i++) {
        static const dpt_shard parts[] = {DPT_SHARD_NONE, DPT_SHARD_GRADIENTS,
                                          DPT_SHARD_PARAMETERS};
        char devices[TEXT];
        const course task = {
            .options = optimizers[3], .model = s->wide, .parts = parts[i], .devices = devices};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        make_limits(devices, s->wide, percents);
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(create(s, &task, set, &trainer), DPT_E_NO_MEMORY);
            CHECK(!strstr(dpt_error_message(s->context), "--shard"));
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"deterministic", deterministic},
        {"by default", by_default},
        {"gradients deterministic", gradients_deterministic},
        {"gradients by default", gradients_by_default},
        {"parameters deterministic", parameters_deterministic},
        {"parameters by default", parameters_by_default},
        {"offload deterministic", offload_deterministic},
        {"offload by default", offload_by_default},
        {"offload beside another backend", offload_beside_another_backend},
        {"several at a time", several_at_a_time},
        {"read gradients", read_gradients},
        {"changed bits are found", changed_bits_are_found},
        {"copies are planned", copies_are_planned},
        {"refusals", refusals},
        {"offload refusals", offload_refusals},
        {"nothing to divide", nothing_to_divide},
        {"limits", limits},
        {"offload is advised", offload_is_advised},
        {"too small", too_small}};
    setting s = {.context = NULL};
    add_fault_plugins();
    const bool made = dpt_context_create(&s.context) == DPT_OK &&
                      flat_data(s.context, FLAT_COUNT, 0, &s.data) == DPT_OK &&
                      flat_residual(s.context, &s.residual) == DPT_OK &&
                      make_wide(s.context, &s.wide) == DPT_OK;
    if (!made) fprintf(stderr, "%s\n", dpt_error_message(s.context));
    const int result =
        made ? test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, &s) : 1;
    dpt_model_destroy(s.wide);
    dpt_model_destroy(s.residual);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return result;
}
