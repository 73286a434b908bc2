/* Trainings that are interrupted and resumed (resume.h). */
#include "train/resume.h"

#include "io/folder.h"
#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALIDATION = 35, ALL = 4 * BATCH + 11 + VALIDATION };

const char resume_devices[] = "cpu:threads=1,cpu:threads=1";

const dpt_trainer_options resume_sgd = {.size = sizeof resume_sgd,
                                        .batch_size = BATCH,
                                        .lr = 0.05f,
                                        .momentum = 0.9f,
                                        .weight_decay = 1e-3f,
                                        .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                        .seed = 3,
                                        .augment = {.crop_padding = 1, .flip = true, .erase = 0.3f},
                                        .rotate = 20,
                                        .jitter = {0.4f, 0.4f, 0.4f, 0.1f},
                                        .randaugment = {2, 12},
                                        .mixup = 0.5f,
                                        .cutmix = 1};
const dpt_trainer_options resume_adamw = {.size = sizeof resume_adamw,
                                          .batch_size = BATCH,
                                          .optimizer = DPT_OPTIMIZER_ADAMW,
                                          .lr = 0.01f,
                                          .clip_norm = 1,
                                          .split = {DPT_SPLIT_EQUAL, NULL},
                                          .batch_norm = DPT_BATCH_NORM_LOCAL,
                                          .seed = 4};
static const dpt_schedule onecycle = {.kind = DPT_SCHEDULE_ONECYCLE, .warmup_steps = 3};

static dpt_status make_model(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "small", out));
    dpt_model *m = *out;
    const dpt_conv2d_options conv = {
        .size = sizeof conv, .out_channels = 6, .kernel = {3, 3}, .padding = {1, 1}};
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_batch_norm(
        m, dpt_conv2d(m, x, "conv", &conv), "bn",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    x = dpt_flatten(m, dpt_dropout(m, x, 0.2f));
    return dpt_model_finish(m, dpt_linear(m, x, "fc",
                                          &(dpt_linear_options){.size = sizeof(dpt_linear_options),
                                                                .out = FLAT_CLASSES}));
}

bool resume_open(test *t, const char *devices, const dpt_trainer_options *options, training *out)
{
    const setting *s = t->user;
    *out = (training){.devices = NULL};
    if (CHECK_OK(dpt_device_set_open(s->context, devices, &out->devices)) &&
        CHECK_OK(dpt_trainer_create(out->devices, s->model, s->data, options, &out->trainer)))
        return true;
    FAIL("%s", dpt_error_message(s->context));
    return false;
}

void resume_close(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_device_set_close(w->devices);
    *w = (training){.devices = NULL};
}

void resume_make_steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < n; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &m));
}

void resume_empty(test *t, const char *folder)
{
    (void)forget_checkpoints(t, folder, 0);
    char *path = dpti_folder_path(folder, 0);
    if (path) (void)unlink(path);
    free(path);
}

int resume_note(const dpt_fit_progress *progress, void *user)
{
    record *r = user;
    if (progress->step && progress->step->step <= STEPS) {
        r->loss[progress->step->step] = progress->step->loss;
        r->n_steps++;
        if (r->at) r->at(r, progress->step->step);
    }
    if (progress->epoch && progress->epoch->epoch <= EPOCHS)
        r->train_loss[progress->epoch->epoch] = progress->epoch->train_loss;
    return r->stop_after > 0 && progress->steps_done >= r->stop_after;
}

static void heard(dpt_notice kind, const char *text, void *user)
{
    record *r = user;
    if (kind == DPT_NOTICE_WARNING)
        r->n_warnings++;
    else
        r->n_infos++;
    snprintf(r->last, sizeof r->last, "%s", text);
}

dpt_fit_options resume_fit_options(const setting *s, const char *folder, record *r)
{
    return (dpt_fit_options){.size = sizeof(dpt_fit_options),
                             .epochs = EPOCHS,
                             .validation = s->validation,
                             .schedule = onecycle,
                             .checkpoint = folder,
                             .checkpoint_every = {.steps = 2},
                             .checkpoint_keep = 100,
                             .progress = resume_note,
                             .notice = heard,
                             .user = r};
}

void resume_check_same(test *t, const training *a, const training *b)
{
    const setting *s = t->user;
    const size_t n = s->model->flat_size, n_kinds = dpti_trainer_n_state_buffers(a->trainer);
    float *flat = calloc(2 * n, sizeof *flat);
    REQUIRE(flat && n_kinds == dpti_trainer_n_state_buffers(b->trainer));
    for (size_t k = 0; k < n_kinds; k++) {
        CHECK_OK(dpti_trainer_read(a->trainer, 0, dpti_state_buffer_kind(k), flat));
        for (size_t rank = 0; rank < dpt_device_set_count(b->devices); rank++) {
            CHECK_OK(dpti_trainer_read(b->trainer, rank, dpti_state_buffer_kind(k), flat + n));
            CHECK(memcmp(flat, flat + n, n * sizeof *flat) == 0);
        }
    }
    CHECK_SIZE(dpt_trainer_steps(a->trainer), dpt_trainer_steps(b->trainer));
    free(flat);
}

void resume_check_results(test *t, const dpt_fit_result *a, const dpt_fit_result *b)
{
    CHECK_SIZE(a->steps, b->steps);
    CHECK_SIZE(a->epochs, b->epochs);
    CHECK_SIZE(a->best_epoch, b->best_epoch);
    CHECK_NEAR(a->train_loss, b->train_loss, 0);
    CHECK_NEAR(a->best_validation_loss, b->best_validation_loss, 0);
}

int resume_main(int argc, char **argv, const test_case *cases, size_t n_cases)
{
    setting s = {.context = NULL};
    dpt_dataset *all = NULL;
    int code = 1;
    if (dpt_context_create(&s.context) == DPT_OK && flat_data(s.context, ALL, 0, &all) == DPT_OK &&
        dpt_dataset_split(all, (double)VALIDATION / ALL, 1, &s.data, &s.validation) == DPT_OK &&
        make_model(s.context, &s.model) == DPT_OK)
        code = test_main(argc, argv, cases, n_cases, &s);
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.validation);
    dpt_dataset_destroy(s.data);
    dpt_dataset_destroy(all);
    dpt_context_destroy(s.context);
    return code;
}
