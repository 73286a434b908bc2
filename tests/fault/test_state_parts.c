/* Tests that the loss of a device loses nothing where the optimizer's state is in parts (--shard
   optimizer), sums of gradients, too (--shard gradients), and parameters as well (--shard
   parameters), and where CPUs hold all parts (--offload): whichever call of whichever device fails,
   in whichever phase of a step, the parameters and the optimizer's state are, to the bit, those of
   a deterministic training on one CPU.

   test-fault-state-parts fault|faultstaged optimizer|gradients|parameters|offload [CASE...] */
#include "fault/plant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIDE = 6,
    COUNT = 20,
    CLASSES = 3,
    BATCH = 12,
    STEPS = 4,
    DEVICES = 3,
    KINDS = 3,
    TEXT = 192
};

static const dpt_tensor_kind kinds[KINDS] = {DPT_PARAMETER, DPT_VELOCITY, DPT_SQUARES};

/* What a run is told, what is right, and what is seen. */
typedef struct scene {
    const char *split;
    dpt_shard shard;
    bool offload;
    dpt_optimizer optimizer;
    double timeout;
    size_t micro_batch;
    bool stop_on_loss;
    /* To the bit; NULL: not known yet. */
    float *right;
    dpt_optimizer of;
    size_t n_lost, n_moved; /* moved: no CPU was left to hold the parts */
} scene;

typedef struct training {
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
} training;

static scene *scene_of(const test *t)
{
    return ((const plant *)t->user)->fixture;
}

/* ---- Building -------------------------------------------------------------------------------- */

static dpt_status create(dpt_context *context, dpt_device_set *set, const scene *s, training *w)
{
    const bool adamw = s->optimizer == DPT_OPTIMIZER_ADAMW;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .bucket_bytes = 1, /* as many buckets as can be */
                                         .split = dpt_split_from(s->split),
                                         .micro_batch = s->micro_batch,
                                         .batch_norm = s->micro_batch > 0 ? DPT_BATCH_NORM_FROZEN
                                                                          : DPT_BATCH_NORM_SYNC,
                                         .lr = adamw ? 0.01f : 0.05f,
                                         .optimizer = s->optimizer,
                                         .momentum = adamw ? 0 : 0.9f,
                                         .weight_decay = 0.01f,
                                         .no_bias_decay = true,
                                         .clip_norm = 0.5f,
                                         .seed = 5,
                                         .deterministic = true,
                                         .device_timeout = s->timeout,
                                         .stop_on_loss = s->stop_on_loss,
                                         .shard = s->shard,
                                         .offload = s->offload};
    DPT_TRY(plant_data(context, COUNT, SIDE, CLASSES, &w->data));
    DPT_TRY(plant_network(context, SIDE, CLASSES, &w->model));
    return dpt_trainer_create(set, w->model, w->data, &options, &w->trainer);
}

static void destroy(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
}

static size_t count_elements(const dpt_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(model, i, &info);
        n += info.elements;
    }
    return n;
}

/* All that training changes of one replica, to be freed; NULL if it cannot be read. */
static float *read_state(const training *w, const scene *s, size_t device, size_t *n)
{
    const size_t n_kinds = s->optimizer == DPT_OPTIMIZER_ADAMW ? KINDS : KINDS - 1;
    float *values = calloc(count_elements(w->model) * KINDS, sizeof *values);
    *n = 0;
    for (size_t k = 0; values && k < n_kinds; k++)
        for (size_t i = 0; i < dpt_model_tensor_count(w->model); i++) {
            dpt_parameter_info info = {.size = sizeof info};
            dpt_model_tensor(w->model, i, &info);
            if (dpt_trainer_get(w->trainer, device, kinds[k], info.name, values + *n,
                                info.elements) != DPT_OK) {
                free(values);
                return NULL;
            }
            *n += info.elements;
        }
    return values;
}

/* Of a CPU alone, whose training has no parts. */
static bool find_right(test *t, dpt_context *context)
{
    scene *s = scene_of(t), plain = *s;
    training w = {.model = NULL};
    dpt_device_set *set = NULL;
    size_t n = 0;
    if (s->right && s->of == s->optimizer) return true;
    free(s->right);
    s->right = NULL;
    plain.split = "equal";
    plain.offload = false;
    if (CHECK_OK(dpt_device_set_open(context, "cpu:threads=1", &set)) &&
        CHECK_OK(create(context, set, &plain, &w))) {
        dpt_step_metrics m = {.size = sizeof m};
        for (size_t i = 0; i < STEPS; i++)
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
        s->right = read_state(&w, s, 0, &n);
        s->of = s->optimizer;
    }
    destroy(&w);
    dpt_device_set_close(set);
    return CHECK(s->right);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void note_events(scene *s, dpt_trainer *trainer)
{
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(trainer, &event)) {
        s->n_lost += event.kind == DPT_DEVICE_LOST;
        s->n_moved += strstr(event.message, "no CPU is left") != NULL;
    }
}

static void compare(run *r, const training *w)
{
    test *t = r->t;
    scene *s = scene_of(t);
    const size_t n_fired = plant_count("fired");
    size_t n_read = 0;
    for (size_t i = 0; i < dpt_trainer_device_count(w->trainer); i++) {
        size_t n = 0;
        float *now = read_state(w, s, i, &n);
        if (!now) continue;
        n_read++;
        if (!CHECK(memcmp(now, s->right, n * sizeof *now) == 0))
            FAIL("%s: device %zu has another state than a plain training", r->devices, i);
        free(now);
    }
    note_events(s, w->trainer);
    if (s->offload) CHECK(dpt_trainer_offloaded(w->trainer) == (s->n_moved == 0));
    /* The planted failure may be one of this reading. */
    if (plant_count("fired") == n_fired) CHECK_SIZE(n_read, DEVICES - s->n_lost);
    CHECK(n_read >= DEVICES - 2);
}

/* Two steps are in flight at a time, as in dpt_fit. */
static void body(run *r)
{
    test *t = r->t;
    scene *s = scene_of(t);
    training w = {.model = NULL};
    dpt_step_metrics m = {.size = sizeof m};
    s->n_lost = s->n_moved = 0;
    if (find_right(t, r->context) && CHECK_OK(create(r->context, r->set, s, &w))) {
        bool sound = CHECK_OK(dpt_trainer_submit(w.trainer));
        for (size_t i = 0; sound && i < STEPS; i++) {
            sound = (i + 1 == STEPS || CHECK_OK(dpt_trainer_submit(w.trainer))) &&
                    CHECK_OK(dpt_trainer_collect(w.trainer, &m));
            note_events(s, w.trainer);
        }
        if (!sound) FAIL("%s: %s", r->devices, dpt_error_message(r->context));
        if (sound) compare(r, &w);
    }
    destroy(&w);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void everywhere(test *t, const char *split, const char *format, size_t stride)
{
    scene_of(t)->split = split;
    plant_every(t, &(plant_list){.format = format}, 1, stride, body);
}

static void every_call_fails(test *t)
{
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    everywhere(t, "13:2:1", "%s:threads=1:after=1:fail=%zu,cpu:threads=1,cpu:threads=1", 5);
    everywhere(t, "2:3:1", "cpu:threads=1,%s:threads=1:after=1:fail=%zu,cpu:threads=1", 3);
    everywhere(t, "measured", "cpu:threads=1,cpu:threads=1,%s:threads=1:after=1:fail=%zu", 4);
}

static void every_call_is_lost(test *t)
{
    scene_of(t)->optimizer = DPT_OPTIMIZER_SGD;
    everywhere(t, "1:0:3", "%s:threads=1:after=1:lost=%zu,cpu:threads=1,cpu:threads=1", 4);
    everywhere(t, "0:1:0", "cpu:threads=1,%s:threads=1:after=1:lost=%zu,cpu:threads=1", 5);
    everywhere(t, "measured", "cpu:threads=1,cpu:threads=1,%s:threads=1:after=1:lost=%zu", 3);
}

static void set_micro_batch(scene *s, size_t n)
{
    s->micro_batch = n;
    free(s->right); /* another training */
    s->right = NULL;
}

/* Between micro-batches host memory may hold gradients. */
static void in_micro_batches(test *t)
{
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    set_micro_batch(scene_of(t), 2);
    everywhere(t, "2:3:1", "cpu:threads=1,%s:threads=1:after=1:fail=%zu,cpu:threads=1", 9);
    everywhere(t, "5:2:1", "%s:threads=1:after=1:lost=%zu,cpu:threads=1,cpu:threads=1", 11);
    set_micro_batch(scene_of(t), 0);
}

/* In the update itself, which no other device can do for it, and right behind it. */
static void update_fails(test *t)
{
    static const char *const hows[] = {"after=1:fail=1",
                                       "starve=2",
                                       "starve=2:for=9",
                                       "after=2:entry=sync:fail=1",
                                       "after=2:entry=sync:fail=2",
                                       "after=2:entry=download:lost=1",
                                       "after=2:entry=upload:lost=1",
                                       "after=2:entry=upload:lost=2",
                                       "after=2:entry=upload:full=1"};
    static const char *const lists[] = {
        "%%s:threads=1:%s:again=%%zu,cpu:threads=1,cpu:threads=1",
        "cpu:threads=1,cpu:threads=1,%%s:threads=1:%s:again=%%zu",
        /* Openings are counted by a device's number within its plug-in. */
        "%%s:threads=1:%s:again=%%zu,cpu:threads=1,faultstaged:threads=1:apart=1",
        "cpu:threads=1,%%s:threads=1:%s:again=%%zu,fault:threads=1:apart=1"};
    const size_t first = scene_of(t)->offload ? 2 : 0;
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    scene_of(t)->split = "5:2:1";
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++)
        for (size_t k = 0; k < 2; k++) {
            char format[TEXT];
            /* Where the last device keeps its own parameters alone it takes over none: its first
               upload is of the next step, whose shards are fixed. */
            if (k == 1 && scene_of(t)->shard == DPT_SHARD_PARAMETERS && strstr(hows[i], "full="))
                continue;
            snprintf(format, sizeof format, lists[first + k], hows[i]);
            const bool fired = plant_once(t, &(plant_list){.format = format}, 1, body);
            const bool staged = strcmp(((plant *)t->user)->backend, "fault") != 0;
            if (strstr(hows[i], "download") && !staged) continue; /* it has none */
            if (!CHECK(fired)) FAIL("%s: nothing failed", format);
        }
}

/* A loss ends the call, and the program takes the step again on the same devices. */
static void again_body(run *r)
{
    test *t = r->t;
    scene *s = scene_of(t);
    training w = {.model = NULL};
    dpt_step_metrics m = {.size = sizeof m};
    size_t n_failed = 0;
    s->n_lost = s->n_moved = 0;
    if (find_right(t, r->context) && CHECK_OK(create(r->context, r->set, s, &w))) {
        while (dpt_trainer_steps(w.trainer) < STEPS && n_failed < 2)
            n_failed += dpt_trainer_step(w.trainer, &m) != DPT_OK;
        CHECK_SIZE(n_failed, 1);
        compare(r, &w);
    }
    destroy(&w);
}

static void taken_again(test *t)
{
    scene *s = scene_of(t);
    s->optimizer = DPT_OPTIMIZER_ADAMW;
    s->split = "2:3:1";
    s->stop_on_loss = true;
    for (size_t n = 1; n < 30 && t->n_failures == 0; n++)
        CHECK(plant_once(
            t, &(plant_list){.format = "cpu:threads=1,%s:threads=1:after=2:fail=%zu,cpu:threads=1"},
            n, again_body));
    s->stop_on_loss = false;
}

/* Two devices fail at once: one that is left holds all parts. */
static void two_fail(test *t)
{
    scene *s = scene_of(t);
    s->optimizer = DPT_OPTIMIZER_ADAMW;
    s->split = "2:3:1";
    for (size_t n = 1; n < 60 && t->n_failures == 0; n += 7)
        CHECK(plant_once(
            t,
            &(plant_list){.format = "%s:threads=1:after=1:fail=%zu,fault:threads=1:after=1:fail=19,"
                                    "cpu:threads=1"},
            n, body));
}

/* A device is lost, and another one fails in any call, also while the devices that are left are
   made anew for other parts.  If it has no memory for a larger part, it is lost, too. */
static void fails_when_rebuilt(test *t)
{
    static const char *const hows[] = {"fail=%zu", "lost=%zu", "entry=alloc:full=%zu:for=100000"};
    static const size_t strides[] = {9, 11, 1};
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    for (size_t i = 0; i < sizeof hows / sizeof *hows && t->n_failures == 0; i++) {
        char format[TEXT];
        size_t n = i + 1, n_both = 0;
        scene_of(t)->split = i == 1 ? "measured" : "2:3:1";
        snprintf(format, sizeof format,
                 "fault:threads=1:after=1:entry=upload:lost=1,%%s:threads=1:after=1:%s,"
                 "cpu:threads=1",
                 hows[i]);
        while (plant_once(t, &(plant_list){.format = format}, n, body) &&
               plant_count("fired") > 1 && t->n_failures == 0) {
            n += strides[i] * test_stride();
            n_both++;
        }
        printf("  %s: %zu calls failed in turn\n", format, n_both);
        CHECK(n_both > 3);
    }
}

/* Nobody is left: the state of the last committed step is in the checkpoint's folder, also where no
   device's memory can be read. */
static void all_body(run *r)
{
    test *t = r->t;
    training w = {.model = NULL};
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {
        .size = sizeof options, .max_steps = 20, .checkpoint = "left", .checkpoint_keep = 1};
    char path[64];
    (void)remove("left/model.safetensors");
    for (unsigned step = 0; step <= 20; step++) { /* an interrupted training is not begun anew */
        snprintf(path, sizeof path, "left/checkpoint-%09u.safetensors", step);
        (void)remove(path);
    }
    if (CHECK_OK(create(r->context, r->set, scene_of(t), &w))) {
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_DEVICE_LOST);
        CHECK(access("left/model.safetensors", F_OK) == 0);
        CHECK(dpt_trainer_steps(w.trainer) >= 1);
        snprintf(path, sizeof path, "left/checkpoint-%09zu.safetensors",
                 dpt_trainer_steps(w.trainer));
        CHECK(access(path, F_OK) == 0);
    }
    destroy(&w);
}

static void all_lost(test *t)
{
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    scene_of(t)->split = "1:2";
    const char *format =
        scene_of(t)->offload
            ? "%s:threads=1:after=2:lost=%zu,faultstaged:threads=1:apart=1:after=1:lost=20"
            : "%s:threads=1:after=2:lost=%zu,faultstaged:threads=1:after=2:lost=3";
    for (size_t n = 5; n < 25 && t->n_failures == 0; n += 6)
        CHECK(plant_once(t, &(plant_list){.format = format}, n, all_body));
}

/* A device whose call does not return. */
static void does_not_answer(test *t)
{
    scene *s = scene_of(t);
    s->optimizer = DPT_OPTIMIZER_ADAMW;
    s->split = "2:3:1";
    s->timeout = 1;
    plant_every(t,
                &(plant_list){.format = "cpu:threads=1,%s:threads=1:after=1:hang=%zu:stall=2500,"
                                        "cpu:threads=1"},
                1, 13, body);
    s->timeout = 0;
}

/* ---- Offload --------------------------------------------------------------------------------- */

/* A card fails, or a CPU beside another one: the CPUs that are left hold all parts.  A card runs no
   optimizer, behind which calls could be counted. */
static void others_hold(test *t)
{
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    everywhere(t, "5:2:1", "%s:threads=1:apart=1:lost=%zu,cpu:threads=1,cpu:threads=1", 7);
    everywhere(t, "measured",
               "cpu:threads=1,%s:threads=1:after=1:lost=%zu,faultstaged:threads=1:apart=1", 4);
    everywhere(t, "1:0:3",
               "fault:threads=1:apart=1,%s:threads=1:after=1:fail=%zu,cpu:threads=1:memory=30M", 5);
}

static void last_body(run *r)
{
    test *t = r->t;
    scene *s = scene_of(t);
    body(r);
    CHECK_SIZE(s->n_moved, s->n_lost);
}

/* The one CPU is lost: cards hold the parts from then on, and the loss says so. */
static void cards_hold(test *t)
{
    static const char *const lists[] = {
        "faultstaged:threads=1:apart=1,%s:threads=1:after=1:fail=%zu,fault:threads=1:apart=1",
        "%s:threads=1:after=1:lost=%zu,fault:threads=1:apart=1,faultstaged:threads=1:apart=1"};
    scene_of(t)->optimizer = DPT_OPTIMIZER_ADAMW;
    for (size_t i = 0; i < 2; i++) {
        scene_of(t)->split = i == 0 ? "2:0:1" : "measured";
        plant_every(t, &(plant_list){.format = lists[i]}, 1, 5, last_body);
    }
}

/* By the word on the command line. */
static bool take_mode(const char *word, scene *s)
{
    static const char *const names[] = {"none", "optimizer", "gradients", "parameters"};
    s->offload = strcmp(word, "offload") == 0;
    s->shard = s->offload ? DPT_SHARD_GRADIENTS : DPT_SHARD_PARAMETERS;
    while (!s->offload && s->shard > DPT_SHARD_NONE && strcmp(word, names[s->shard]) != 0)
        s->shard--;
    return s->shard != DPT_SHARD_NONE;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"every_call_fails", every_call_fails},
        {"every_call_is_lost", every_call_is_lost},
        {"in_micro_batches", in_micro_batches},
        {"update_fails", update_fails},
        {"taken_again", taken_again},
        {"two_fail", two_fail},
        {"fails_when_rebuilt", fails_when_rebuilt},
        {"all_lost", all_lost},
        {"does_not_answer", does_not_answer},
    };
    static const test_case offload_cases[] = {
        {"others_hold", others_hold},
        {"cards_hold", cards_hold},
        {"update_fails", update_fails},
        {"all_lost", all_lost},
    };
    scene s = {.shard = DPT_SHARD_NONE};
    if (argc < 3 || !take_mode(argv[2], &s) || !plant_setup()) {
        fputs("usage: test-fault-state-parts fault|faultstaged "
              "optimizer|gradients|parameters|offload [CASE...]\n",
              stderr);
        return 2;
    }
    plant p = {.backend = argv[1], .fixture = &s};
    const test_case *chosen = s.offload ? offload_cases : cases;
    const size_t n =
        s.offload ? sizeof offload_cases / sizeof *cases : sizeof cases / sizeof *cases;
    const int code = test_run((size_t)argc - 3, argv + 3, chosen, n, &p);
    free(s.right);
    return code;
}
