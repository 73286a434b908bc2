/* Tests steps that differ between processes: each such step ends the training in all processes,
   with a message that says what differs, and leaves the files of the steps before. */
#include "base/parse.h"
#include "harness.h"
#include "io/safetensors.h"
#include "train/processes.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 3, BATCH = 24, COUNT = 100, STEPS_OF_EPOCH = 5, STEPS = 4, CLASSES = 10 };

/* What the last process does otherwise. */
typedef struct deviation {
    float lr;                  /* from the second step on, or 0 */
    const double *parts;       /* of batches, from step `parts_from` on, or NULL */
    size_t parts_from;         /* as nothing but a defect could do */
    bool weights;              /* written by it alone, before the second step */
    bool weights_of_all;       /* by all, and by the last others */
    const char *state;         /* that it loads, or NULL */
    dpt_activation activation; /* of the model's hidden layer; 0: none */
    dpt_pool_kind pool;        /* of its first */
    const char *checkpoint;    /* there is a course, whose folder this is; else steps */
} deviation;

typedef struct setting {
    image_set data;
    const char *devices;
    bool compress;
    const char *load, *save; /* a state, by all, before and behind the steps; or NULL */
    deviation last;
    dpt_status statuses[MOST];
    char messages[MOST][512];
    size_t steps[MOST];
} setting;

/* ---- A process ------------------------------------------------------------------------------- */

static dpt_status build(dpt_context *context, const deviation *d, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    dpt_value x = dpt_input(m, 28, 28, 1);
    x = dpt_pool2d(m, x,
                   &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                         .kind = d->pool,
                                         .kernel = {4, 4},
                                         .stride = {4, 4}});
    x = dpt_flatten(m, x);
    x = dpt_linear(m, x, "fc1",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 16});
    x = dpt_activate(m, x, d->activation);
    return dpt_model_finish(
        m, dpt_linear(m, x, "fc2",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES}));
}

static void divide(dpt_trainer *trainer, const double *parts)
{
    trainer->plan.split.equal = false;
    for (size_t i = 0; i < trainer->plan.split.n_devices; i++)
        trainer->plan.split.parts[i] = parts[i];
}

static dpt_status write_bias(dpt_trainer *trainer, float value)
{
    float bias[CLASSES];
    for (size_t i = 0; i < CLASSES; i++)
        bias[i] = value;
    return dpt_trainer_set(trainer, DPT_PARAMETER, "fc2.bias", bias, CLASSES);
}

static dpt_status step_some(const setting *s, dpt_trainer *trainer, bool last)
{
    const deviation *d = &s->last;
    const char *state = d->state && last ? d->state : s->load;
    dpt_step_metrics m = {.size = sizeof m};
    if (state) DPT_TRY(dpt_trainer_load_state(trainer, state));
    for (size_t i = 0; i < STEPS; i++) {
        if (d->lr > 0 && i == 1) DPT_TRY(dpt_trainer_set_lr(trainer, last ? d->lr : 0.5f));
        if (d->parts && last && i >= d->parts_from) divide(trainer, d->parts);
        if (i == 1 && (d->weights_of_all || (d->weights && last)))
            DPT_TRY(write_bias(trainer, last ? 0.25f : 0.5f));
        DPT_TRY(dpt_trainer_step(trainer, &m));
    }
    return s->save ? dpt_trainer_save_state(trainer, s->save) : DPT_OK;
}

typedef struct watcher {
    const deviation *d;
    dpt_trainer *trainer;
} watcher;

static int watch(const dpt_fit_progress *progress, void *user)
{
    const watcher *w = user;
    if (progress->step && w->d->parts && progress->step->step >= w->d->parts_from)
        divide(w->trainer, w->d->parts);
    return 0;
}

static dpt_status fit(const deviation *d, dpt_trainer *trainer, bool last)
{
    watcher w = {.d = d, .trainer = trainer};
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options,
                                     .epochs = 3,
                                     .checkpoint = d->checkpoint,
                                     .checkpoint_every = {.steps = 2},
                                     .host_copy = 1,
                                     .progress = last ? watch : NULL,
                                     .user = &w};
    return dpt_fit(trainer, &options, &result);
}

static dpt_status train_in(const setting *s, dpt_context *context, size_t rank, size_t *steps)
{
    const bool last = rank + 1 == dpt_process_count(context);
    const deviation plain = {.activation = DPT_ACT_RELU, .pool = DPT_POOL_AVERAGE};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .compress =
                                             s->compress ? DPT_COMPRESS_BF16 : DPT_COMPRESS_NONE,
                                         .seed = 1};
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(s->devices, rank, list);
    dpt_status status = images_open(context, &s->data, COUNT, &data);
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) status = build(context, last ? &s->last : &plain, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK)
        status = s->last.checkpoint ? fit(&s->last, trainer, last) : step_some(s, trainer, last);
    *steps = trainer ? dpt_trainer_steps(trainer) : 0;
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status train_part(dpt_context *context, size_t rank, void *user)
{
    setting *s = user;
    s->statuses[rank] = train_in(s, context, rank, &s->steps[rank]);
    snprintf(s->messages[rank], sizeof s->messages[rank], "%s", dpt_error_message(context));
    return s->statuses[rank];
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const char two[] = "cpu:threads=1|cpu:threads=1",
                  three[] = "cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1";

static setting *begin(test *t, const char *devices)
{
    setting *s = t->user;
    s->devices = devices;
    s->compress = false;
    s->load = s->save = NULL;
    s->last = (deviation){.activation = DPT_ACT_RELU, .pool = DPT_POOL_AVERAGE};
    return s;
}

/* All processes fail alike, with these words. */
static void check_all_fail(test *t, setting *s, dpt_status status, const char *words)
{
    char message[512] = "";
    const size_t n = stand_ins_count(s->devices);
    CHECK(stand_ins_run(n, train_part, s, message) == status);
    check_all_failed(t, n, s->statuses, s->messages, status, words);
}

static void same_steps(test *t)
{
    char message[512] = "";
    setting *s = begin(t, three);
    if (!CHECK_OK(stand_ins_run(3, train_part, s, message))) FAIL("%s", message);
    CHECK_SIZE(s->steps[0], STEPS);
}

static void other_rate(test *t)
{
    setting *s = begin(t, three);
    s->last.lr = 0.25f;
    check_all_fail(t, s, DPT_E_INVALID, "process 2 (");
    check_all_fail(t, s, DPT_E_INVALID,
                   "took step 2 with learning rate 0.25, and process 0 with 0.5;");
    s->last.lr = 0.50000006f;
    check_all_fail(t, s, DPT_E_INVALID,
                   "took step 2 with learning rate 0.50000006, and process 0 with 0.5;");
    s->last.lr = 0.5f;
    char message[512] = "";
    CHECK_OK(stand_ins_run(3, train_part, s, message));
}

static void other_division(test *t)
{
    static const double a_sample[] = {12, 11}, uneven[] = {1, 3, 2, 2};
    setting *s = begin(t, two);
    s->last.parts = a_sample;
    s->last.parts_from = 1;
    check_all_fail(t, s, DPT_E_STATE, "process 1 (");
    check_all_fail(t, s, DPT_E_STATE, "divided step 2 among the devices otherwise");
    s = begin(t, three);
    s->last.parts = uneven;
    check_all_fail(t, s, DPT_E_STATE, "divided step 1 among the devices otherwise");
}

static void other_weights(test *t)
{
    setting *s = begin(t, three);
    s->last.weights = true;
    check_all_fail(t, s, DPT_E_INVALID, "process 2 (");
    check_all_fail(t, s, DPT_E_INVALID, "began step 2 with other weights than process 0");
    s->last.weights_of_all = true;
    check_all_fail(t, s, DPT_E_INVALID, "began step 2 with other weights than process 0");
}

/* One that trains alone writes a state, which one process loads. */
static void other_state(test *t)
{
    static const char path[] = "state.safetensors";
    setting *s = begin(t, two);
    dpt_context *context = NULL;
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = BATCH, .split = {DPT_SPLIT_EQUAL, NULL}, .seed = 1};
    REQUIRE(CHECK_OK(dpt_context_create(&context)));
    const bool written = CHECK_OK(images_open(context, &s->data, COUNT, &data)) &&
                         CHECK_OK(dpt_device_set_open(context, "cpu:threads=1", &devices)) &&
                         CHECK_OK(build(context, &s->last, &model)) &&
                         CHECK_OK(dpt_trainer_create(devices, model, data, &options, &trainer)) &&
                         CHECK_OK(dpt_trainer_step(trainer, &m)) &&
                         CHECK_OK(dpt_trainer_save_state(trainer, path));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_device_set_close(devices);
    dpt_dataset_destroy(data);
    dpt_context_destroy(context);
    if (!written) return;
    s->last.state = path;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 (");
    check_all_fail(t, s, DPT_E_INVALID, "is at step 2 where process 0 is at step 1");

    /* One that processes have written who owe each other something, and one of somebody who owes
       nothing. */
    char message[512] = "";
    s = begin(t, two);
    s->compress = true;
    s->save = "owing.safetensors";
    CHECK_OK(stand_ins_run(2, train_part, s, message));
    s->load = s->save;
    CHECK_OK(stand_ins_run(2, train_part, s, message));
    s->last.state = path;
    check_all_fail(t, s, DPT_E_INVALID, "load the same file in all processes");
    s->last.state = NULL;
    (void)unlink(s->save);
    (void)unlink(path);
}

static void other_layers(test *t)
{
    setting *s = begin(t, two);
    s->last.activation = DPT_ACT_SIGMOID;
    check_all_fail(t, s, DPT_E_INVALID, "layers of the model differs");
    s = begin(t, two);
    s->last.pool = DPT_POOL_MAX;
    check_all_fail(t, s, DPT_E_INVALID, "layers of the model differs");
}

/* What a safetensors file says of its steps; 0 if there is none. */
static size_t steps_in(const char *path)
{
    size_t steps = 0;
    char *text = dpti_safetensors_peek(path, 1 << 20, "steps");
    if (text && !dpti_parse_size(text, 0, SIZE_MAX, &steps)) steps = SIZE_MAX;
    free(text);
    return steps;
}

/* The folder keeps what was reached before, of which all know that it is right. */
static void files_stay(test *t)
{
    static const double a_sample[] = {12, 11};
    setting *s = begin(t, two);
    (void)system("rm -rf astray");
    s->last.checkpoint = "astray";
    s->last.parts = a_sample;
    s->last.parts_from = STEPS_OF_EPOCH + 2;
    check_all_fail(t, s, DPT_E_STATE, "among the devices otherwise");
    CHECK(s->steps[0] > STEPS_OF_EPOCH + 2);
    CHECK_SIZE(steps_in("astray/model.safetensors"), STEPS_OF_EPOCH);
    s->last.parts = NULL;
    char message[512] = "";
    (void)system("rm -rf astray");
    CHECK_OK(stand_ins_run(2, train_part, s, message));
    CHECK_SIZE(steps_in("astray/model.safetensors"), 3 * STEPS_OF_EPOCH);
    (void)system("rm -rf astray");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the same steps", same_steps},          {"another learning rate", other_rate},
        {"another division", other_division},    {"other weights", other_weights},
        {"another state", other_state},          {"other layers", other_layers},
        {"files stay as they were", files_stay},
    };
    static setting s;
    if (!images_create(COUNT, 7, &s.data)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    images_free(&s.data);
    return code;
}
