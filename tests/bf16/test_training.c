/* Tests training with activations that a device stores as bfloat16, against one CPU device in
   float32.  The device is the tested backend's (train/mixes.h), alone and beside others.

   Rounding to bfloat16 changes a value by at most 2^-8 of itself, and about ten roundings follow
   one another from the image to the loss, in either direction.  If all roundings had the same
   sign, a loss would be off by a fiftieth.  Most of them cancel: the loss is off by some
   thousandths, after 20 steps as in the first ones. */
#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 61, STEPS = FLAT_STEPS, COUNT = 13 * BATCH + 23 };

/* Of a loss, relative to the float32 one and to a tenth of the first: near zero only the difference
   means anything. */
static const double tolerance = 0.02;
static const double rounding = 2e-4; /* with float32 on every device a loss is off by less */

static const mix mixes[] = {
    {"@0:precision=bf16", "1"},
    {"cpu,@0:precision=bf16", "equal"},
    {"@0:precision=bf16,cpu:threads=1,@1", "13:2:5"},
    {"cpu:threads=1,@0:precision=bf16", "0:5"},
};

enum { N_MIXES = sizeof mixes / sizeof *mixes, N_OF_LENET = 2 };

/* What t->user points to. */
typedef struct setting {
    image_set images;
    dpt_context *context;
    dpt_model *residual;
    dpt_dataset *data;
} setting;

static void check_losses(test *t, const char *what, const double *losses, const double *expected)
{
    double most = 0;
    for (size_t s = 0; s < STEPS; s++) {
        const double error = fabs(losses[s] - expected[s]) / fmax(expected[s], 0.1 * expected[0]);
        most = fmax(most, isnan(error) ? INFINITY : error);
    }
    if (!CHECK(most <= tolerance)) FAIL("%s: a loss is off by %.3g of itself", what, most);
    if (!CHECK(most > rounding)) FAIL("%s: as if nothing were rounded", what);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

static void run_lenet(const setting *s, const char *devices, const char *split, run_result *out)
{
    const run_options o = {.devices = devices,
                           .split = split,
                           .batch = BATCH,
                           .steps = STEPS,
                           .lr = 0.06f,
                           .momentum = 0.9f};
    train_run(&s->images, &o, out);
}

static void lenet(test *t)
{
    const setting *s = t->user;
    run_result one;
    run_lenet(s, "cpu", NULL, &one);
    REQUIRE_OK(one.status);
    CHECK(one.losses[STEPS - 1] <= 0.8 * one.losses[0]);
    for (size_t i = 0; i < N_OF_LENET; i++) {
        run_result r;
        const char *devices = tested_devices(mixes[i].devices);
        run_lenet(s, devices, mixes[i].split, &r);
        if (CHECK_OK(r.status)) {
            check_losses(t, devices, r.losses, one.losses);
            CHECK(r.replicas_agree);
        } else {
            FAIL("%s: %s", devices, r.message);
        }
        run_free(&r);
    }
    run_free(&one);
}

static bool run_residual(test *t, const setting *s, const char *devices, const char *split,
                         flat_outcome *out)
{
    const flat_task task = {.model = s->residual,
                            .data = s->data,
                            .devices = devices,
                            .split = split,
                            .batch = FLAT_BATCH,
                            .steps = STEPS};
    if (CHECK_OK(flat_run(s->context, &task, out))) return true;
    FAIL("%s: %s", devices, dpt_error_message(s->context));
    return false;
}

static void residual(test *t)
{
    const setting *s = t->user;
    flat_outcome one;
    if (run_residual(t, s, "cpu", NULL, &one)) {
        CHECK(one.losses[STEPS - 1] <= 0.8 * one.losses[0]);
        for (size_t i = 0; i < N_MIXES; i++) {
            flat_outcome o;
            const char *devices = tested_devices(mixes[i].devices);
            if (run_residual(t, s, devices, mixes[i].split, &o)) {
                check_losses(t, devices, o.losses, one.losses);
                CHECK(o.replicas_agree);
            }
            flat_free(&o);
        }
    }
    flat_free(&one);
}

static void same_bits_twice(test *t)
{
    const setting *s = t->user;
    const char *devices = tested_devices("cpu:threads=1,@0:precision=bf16");
    flat_outcome a, b;
    if (run_residual(t, s, devices, "1:2", &a) && run_residual(t, s, devices, "1:2", &b)) {
        CHECK(memcmp(a.losses, b.losses, sizeof a.losses) == 0);
        CHECK(memcmp(a.weights, b.weights, s->residual->flat_size * sizeof(float)) == 0);
        flat_free(&b);
    }
    flat_free(&a);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

typedef struct judgement {
    dpt_evaluation evaluation;
    float outputs[FLAT_COUNT * FLAT_CLASSES];
} judgement;

/* What the weights of `file` make of the data; with steps > 0 these are trained first and written
   to it. */
static dpt_status judge(const setting *s, const char *list, size_t steps, const char *file,
                        judgement *out)
{
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = FLAT_BATCH, .lr = FLAT_RATE, .seed = 1};
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    dpt_status status = dpt_device_set_open(s->context, list, &devices);
    if (status == DPT_OK)
        status = dpt_trainer_create(devices, s->residual, s->data, &options, &trainer);
    for (size_t i = 0; i < steps && status == DPT_OK; i++) {
        dpt_step_metrics metrics = {.size = sizeof metrics};
        status = dpt_trainer_step(trainer, &metrics);
    }
    if (status == DPT_OK)
        status = steps > 0 ? dpt_trainer_save(trainer, file) : dpt_trainer_load(trainer, file);
    out->evaluation.size = sizeof out->evaluation;
    if (status == DPT_OK) status = dpt_trainer_evaluate(trainer, s->data, &out->evaluation);
    if (status == DPT_OK)
        status = dpt_trainer_predict(trainer, s->data, 0, FLAT_COUNT, out->outputs);
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
    return status;
}

static void evaluates(test *t)
{
    const setting *s = t->user;
    static judgement half, whole;
    const char *devices = tested_devices("@0:precision=bf16");
    double most = 0;
    if (!CHECK_OK(judge(s, devices, STEPS, "weights.safetensors", &half)) ||
        !CHECK_OK(judge(s, "cpu", 0, "weights.safetensors", &whole))) {
        FAIL("%s", dpt_error_message(s->context));
        return;
    }
    CHECK_SIZE(half.evaluation.samples, FLAT_COUNT);
    CHECK(half.evaluation.accuracy > 0.5);
    CHECK_NEAR(half.evaluation.accuracy, whole.evaluation.accuracy, 0.02);
    CHECK_NEAR(half.evaluation.loss, whole.evaluation.loss, tolerance * whole.evaluation.loss);
    for (size_t i = 0; i < FLAT_COUNT; i++) {
        double sum = 0;
        for (size_t k = i * FLAT_CLASSES; k < (i + 1) * FLAT_CLASSES; k++) {
            most = fmax(most, fabs((double)half.outputs[k] - (double)whole.outputs[k]));
            sum += (double)half.outputs[k];
        }
        CHECK_NEAR(sum, 1.0, 1e-5); /* the softmax of float32 logits */
    }
    if (!CHECK(most <= 0.03)) FAIL("a probability is off by %.3g", most);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void unknown_precisions(test *t)
{
    const setting *s = t->user;
    dpt_device_set *devices = NULL;
    CHECK_STATUS(dpt_device_set_open(s->context, tested_devices("@0:precision=bf8"), &devices),
                 DPT_E_INVALID);
    CHECK(strstr(dpt_error_message(s->context), "precision=bf8") != NULL);
    CHECK(devices == NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"LeNet's losses are near those of float32", lenet},
        {"a residual network's losses are near those of float32", residual},
        {"the same run twice gives the same bits", same_bits_twice},
        {"evaluation and prediction are near those of float32", evaluates},
        {"precisions that do not exist are refused", unknown_precisions},
    };
    setting s = {.context = NULL};
    const int missing = tested_backend_missing();
    if (missing) return missing;
    if (!images_create(COUNT, 7, &s.images) || dpt_context_create(&s.context) != DPT_OK ||
        flat_residual(s.context, &s.residual) != DPT_OK ||
        flat_data(s.context, FLAT_COUNT, 0, &s.data) != DPT_OK)
        return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_dataset_destroy(s.data);
    dpt_model_destroy(s.residual);
    dpt_context_destroy(s.context);
    images_free(&s.images);
    return code;
}
