/* Tests training with the optimizer's state in parts (--shard optimizer), with sums of gradients in
   parts, too (--shard gradients), and with parameters as well (--shard parameters): the same bits
   as without, for every optimizer and division; what devices hold; limits of memory that a training
   needs parts to fit into; changed bits that comparisons of replicas find. */
#include "device/buffer.h"
#include "train/parts.h"
#include "train/replicas/state.h"
#include "train/replicas/state_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 200, DEVICES = 4 };

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

/* ---- The same bits --------------------------------------------------------------------------- */

/* Division among equal devices, by limits of memory, with devices that get no element, and with
   those whose memory is not the host's.  Two devices are an island, by default. */
static const mix mixes[] = {
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
    {"cpu:threads=1:memory=9M,cpu:threads=1:memory=30M,cpu:threads=1:memory=14M", "2:0:3"},
    {"cpu:threads=1,cpu:threads=1:memory=4M,cpu:threads=2:memory=3G", "5:2:1"},
    {"faultstaged:threads=1,cpu:threads=1", "1:2"},
    {"fault:threads=1:island=1,fault:threads=1:island=1,cpu:threads=1", "2:3:1"},
};

static void same_bits(test *t, bool deterministic, dpt_shard parts)
{
    parts_same_bits(t, &(parts_trial){.parts = parts,
                                      .deterministic = deterministic,
                                      .mixes = {sizeof mixes / sizeof *mixes, mixes},
                                      .look = look_at_parts,
                                      .looks_once = true});
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
    const parts_setting *s = t->user;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t k = 0; k < 8; k++) {
            parts_state right, now;
            parts_course task = {.options = parts_optimizers[2],
                                 .deterministic = k >= 4,
                                 .model = k % 2 == 0 && k < 4 ? s->residual : s->wide,
                                 .devices = mixes_of_three[k / 2 % 2],
                                 .micro_batch =
                                     ways[i].micro_batch * (k < 4 ? 1 : 2), /* whole grains */
                                 .accumulate = ways[i].accumulate,
                                 .split = ways[i].split};
            const bool done = parts_train(t, &task, NULL, &right);
            for (int parts = DPT_SHARD_GRADIENTS; done && parts <= DPT_SHARD_PARAMETERS; parts++) {
                task.parts = (dpt_shard)parts;
                if (parts_train(t, &task, look_at_parts, &now))
                    parts_compare(t, &task, &right, &now);
                parts_free(&now);
            }
            parts_free(&right);
        }
}

/* dpt_trainer_get puts the gradients of all parts together. */
static void read_gradients(test *t)
{
    const parts_setting *s = t->user;
    float *right = calloc(s->residual->flat_gradients, sizeof *right);
    float *now = calloc(s->residual->flat_gradients, sizeof *now);
    for (size_t i = 0; right && now && i < 2; i++) {
        const parts_course task = {.options = parts_optimizers[2],
                                   .model = s->residual,
                                   .devices = i == 0 ? "cpu:threads=1" : mixes[3].devices,
                                   .split = i == 0 ? NULL : mixes[3].split,
                                   .deterministic = true,
                                   .parts = DPT_SHARD_GRADIENTS};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        dpt_step_metrics m = {.size = sizeof m};
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set)) &&
            CHECK_OK(parts_create(s, &task, set, &trainer)) &&
            CHECK_OK(dpt_trainer_step(trainer, &m)))
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

/* ---- Changed bits ---------------------------------------------------------------------------- */

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
    const parts_setting *s = t->user;
    const dpt_trainer_options o = {.size = sizeof o,
                                   .batch_size = PARTS_BATCH,
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
    for (size_t i = 0; sound && i < PARTS_STEPS; i++) {
        for (size_t k = 0; i == PARTS_STEPS / 2 && k < c->n_flipped; k++) {
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
            CHECK_SIZE(event.step, PARTS_STEPS / 2 + 1);
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
    const parts_setting *s = t->user;
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
    const parts_setting *s = t->user;
    static const struct {
        const char *message;
        dpt_trainer_options options;
    } ways[] = {{"overlap", {.lr = 0.1f, .no_overlap = true}}};
    for (size_t i = 0; i < 4 * sizeof ways / sizeof *ways; i++) {
        const parts_course task = {.options = ways[i / 4].options,
                                   .model = s->wide,
                                   .devices =
                                       i % 2 ? "cpu:threads=1" : "cpu:threads=1,cpu:threads=1",
                                   .split = i % 2 ? "1" : "1:1",
                                   .parts = i % 4 < 2 ? DPT_SHARD_GRADIENTS : DPT_SHARD_PARAMETERS};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        if (CHECK_OK(dpt_device_set_open(s->context, task.devices, &set))) {
            CHECK_STATUS(parts_create(s, &task, set, &trainer), i % 2 ? DPT_OK : DPT_E_INVALID);
            if (i % 2 == 0) CHECK_CONTAINS(dpt_error_message(s->context), ways[i / 4].message);
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
    const parts_setting *s = t->user;
    const parts_course alone = {.options = parts_optimizers[1],
                                .model = s->wide,
                                .parts = DPT_SHARD_GRADIENTS,
                                .devices = "cpu:threads=1"};
    const parts_course stateless = {.options = {.lr = 0.05f},
                                    .model = s->wide,
                                    .parts = DPT_SHARD_OPTIMIZER,
                                    .devices = "cpu:threads=1,cpu:threads=1"};
    parts_state now;
    (void)parts_train(t, &alone, look_at_none, &now);
    parts_free(&now);
    (void)parts_train(t, &stateless, look_at_none, &now);
    parts_free(&now);
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
    const parts_setting *s = t->user;
    parts_course plain = {.options = parts_optimizers[3],
                          .model = s->wide,
                          .micro_batch = 1, /* the same sums, whatever memory is left */
                          .split = "1:1:1:1",
                          .devices = "cpu:threads=1,cpu:threads=1,cpu:threads=1,cpu:threads=1"};
    parts_state right, now;
    if (!parts_train(t, &plain, NULL, &right)) return;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        char devices[TEXT];
        parts_course limited = plain;
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        make_limits(devices, s->wide, percents[i]);
        limited.devices = devices;
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(parts_create(s, &limited, set, &trainer), DPT_E_NO_MEMORY);
            CHECK_CONTAINS(dpt_error_message(s->context), "fits with --shard optimizer");
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
        limited.parts = DPT_SHARD_OPTIMIZER;
        if (parts_train(t, &limited, look_at_parts, &now)) parts_compare(t, &limited, &right, &now);
        parts_free(&now);
    }
    parts_free(&right);
}

/* Where parts do not help, the memory that would do is told. */
static void too_small(test *t)
{
    static const size_t percents[DEVICES] = {52, 52, 52, 52};
    const parts_setting *s = t->user;
    for (size_t i = 0; i < 3; i++) {
        static const dpt_shard parts[] = {DPT_SHARD_NONE, DPT_SHARD_GRADIENTS,
                                          DPT_SHARD_PARAMETERS};
        char devices[TEXT];
        const parts_course task = {.options = parts_optimizers[3],
                                   .model = s->wide,
                                   .parts = parts[i],
                                   .devices = devices};
        dpt_device_set *set = NULL;
        dpt_trainer *trainer = NULL;
        make_limits(devices, s->wide, percents);
        if (CHECK_OK(dpt_device_set_open(s->context, devices, &set))) {
            CHECK_STATUS(parts_create(s, &task, set, &trainer), DPT_E_NO_MEMORY);
            CHECK(!strstr(dpt_error_message(s->context), "the training fits"));
            CHECK_CONTAINS(dpt_error_message(s->context), "the least that would do is memory=");
        }
        dpt_trainer_destroy(trainer);
        dpt_device_set_close(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"deterministic", deterministic},
                                      {"by default", by_default},
                                      {"gradients deterministic", gradients_deterministic},
                                      {"gradients by default", gradients_by_default},
                                      {"parameters deterministic", parameters_deterministic},
                                      {"parameters by default", parameters_by_default},
                                      {"several at a time", several_at_a_time},
                                      {"read gradients", read_gradients},
                                      {"changed bits are found", changed_bits_are_found},
                                      {"refusals", refusals},
                                      {"nothing to divide", nothing_to_divide},
                                      {"limits", limits},
                                      {"too small", too_small}};
    return parts_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
