/* Trainings in parts (parts.h). */
#include "train/parts.h"

#include "device/set.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dpt_tensor_kind kinds[PARTS_KINDS] = {DPT_PARAMETER, DPT_VELOCITY, DPT_SQUARES};

/* ---- One training ---------------------------------------------------------------------------- */

void parts_free(parts_state *s)
{
    for (size_t k = 0; k < PARTS_KINDS; k++)
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

/* The devices of $DPTRAIN_TEST_BACKEND are no CPUs. */
static void take_for_card(dpt_device_set *set)
{
    const char *backend = getenv("DPTRAIN_TEST_BACKEND");
    for (size_t i = 0; backend && i < set->n_devices; i++)
        if (strncmp(set->devices[i]->id, backend, strlen(backend)) == 0)
            set->devices[i]->info.flags &= ~(uint32_t)DPT_DEVICE_IS_HOST_CPU;
}

dpt_status parts_create(const parts_setting *s, const parts_course *task, dpt_device_set *set,
                        dpt_trainer **out)
{
    dpt_trainer_options o = task->options;
    o.size = sizeof o;
    o.batch_size = PARTS_BATCH;
    o.micro_batch = task->micro_batch;
    o.split = dpt_split_from(task->split);
    o.seed = 3;
    o.deterministic = task->deterministic;
    o.no_standby = true;
    o.shard = task->parts;
    o.offload = task->offload;
    o.accumulate = task->accumulate;
    o.bucket_bytes = 4096; /* many buckets */
    if (task->offload) take_for_card(set);
    return dpt_trainer_create(set, task->model, s->data, &o, out);
}

/* The state of each device is to be the same: *out has that of the first. */
static dpt_status read_states(test *t, const parts_course *task, dpt_trainer *trainer,
                              parts_state *out)
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

bool parts_train(test *t, const parts_course *task, parts_look *look, parts_state *out)
{
    const parts_setting *s = t->user;
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    *out = (parts_state){.n = {0}};
    bool sound = CHECK_OK(dpt_device_set_open(s->context, task->devices, &set)) &&
                 CHECK_OK(parts_create(s, task, set, &trainer));
    if (sound && look) look(t, trainer);
    for (size_t i = 0; sound && i < PARTS_STEPS; i++) {
        if (i == PARTS_STEPS / 2 && task->sets) set_velocity(t, trainer);
        sound = CHECK_OK(dpt_trainer_step(trainer, &m));
    }
    if (!sound) FAIL("%s: %s", task->devices, dpt_error_message(s->context));
    if (sound) sound = CHECK_OK(read_states(t, task, trainer, out));
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    return sound;
}

void parts_compare(test *t, const parts_course *task, const parts_state *right,
                   const parts_state *now)
{
    for (size_t k = 0; k < PARTS_KINDS; k++) {
        CHECK_SIZE(now->n[k], right->n[k]);
        if (right->n[k] > 0 &&
            !CHECK(memcmp(now->flats[k], right->flats[k], right->n[k] * sizeof(float)) == 0))
            FAIL("%s, %s, %s: buffer %zu differs", task->model->name, task->devices, task->split,
                 k);
    }
}

/* ---- The same bits --------------------------------------------------------------------------- */

static const dpt_parameter_group groups[] = {
    {.pattern = "*.bias", .lr_factor = 2, .has_weight_decay = true},
    {.pattern = "fc*.weight", .lr_factor = 0.5f}};
static const dpt_parameter_group frozen[] = {{.pattern = "*1.weight", .frozen = true}};

const dpt_trainer_options parts_optimizers[PARTS_OPTIMIZERS] = {
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

void parts_same_bits(test *t, const parts_trial *trial)
{
    const parts_setting *s = t->user;
    const mix *list = trial->mixes.items;
    const bool deterministic = trial->deterministic;
    for (size_t o = trial->parts == DPT_SHARD_OPTIMIZER; o < PARTS_OPTIMIZERS; o++)
        for (size_t k = 0; k < 2; k++) {
            parts_course plain = {.options = parts_optimizers[o],
                                  .model = k == 0 ? s->residual : s->wide,
                                  .deterministic = deterministic,
                                  .sets = o > 0 &&
                                          parts_optimizers[o].groups != frozen, /* such have none */
                                  .devices = "cpu:threads=1"};
            parts_state right = {.n = {0}}, now;
            if (deterministic && !parts_train(t, &plain, NULL, &right)) continue;
            for (size_t i = 0; i < trial->mixes.n && t->n_failures == 0; i++) {
                /* Limits are for the smaller network. */
                if (k == 1 && strstr(list[i].devices, "memory=4M")) continue;
                parts_course divided = plain;
                divided.devices = list[i].devices;
                divided.split = list[i].split;
                if (!deterministic && !parts_train(t, &divided, NULL, &right)) continue;
                divided.parts = trial->parts;
                divided.offload = trial->offload;
                if (parts_train(t, &divided, trial->looks_once && i > 0 ? NULL : trial->look, &now))
                    parts_compare(t, &divided, &right, &now);
                parts_free(&now);
                if (!deterministic) parts_free(&right);
                if (!deterministic) right = (parts_state){.n = {0}};
            }
            parts_free(&right);
        }
}

dpt_status parts_open(dpt_context *context, parts_setting *out)
{
    *out = (parts_setting){.context = context};
    DPT_TRY(flat_data(context, FLAT_COUNT, 0, &out->data));
    DPT_TRY(flat_residual(context, &out->residual));
    return make_wide(context, &out->wide);
}

void parts_close(parts_setting *setting)
{
    dpt_model_destroy(setting->wide);
    dpt_model_destroy(setting->residual);
    dpt_dataset_destroy(setting->data);
}

int parts_main(int argc, char **argv, const test_case *cases, size_t n)
{
    parts_setting s = {.context = NULL};
    add_fault_plugins();
    const bool made =
        dpt_context_create(&s.context) == DPT_OK && parts_open(s.context, &s) == DPT_OK;
    if (!made) fprintf(stderr, "%s\n", dpt_error_message(s.context));
    const int result = made ? test_run((size_t)argc - 1, argv + 1, cases, n, &s) : 1;
    parts_close(&s);
    dpt_context_destroy(s.context);
    return result;
}
