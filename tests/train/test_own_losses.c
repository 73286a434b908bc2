/* Tests losses that are functions of the program or outputs of the network: training is that with
   the built-in loss, on each mix. */
#include "train/callback.h"

#include <math.h>

/* The cross-entropy of one label of `classes` logits.  `gradient` may be NULL. */
static float cross_entropy(const float *y, int32_t label, size_t classes, float *gradient)
{
    float most = y[0], sum = 0;
    for (size_t k = 1; k < classes; k++)
        most = fmaxf(most, y[k]);
    for (size_t k = 0; k < classes; k++)
        sum += expf(y[k] - most);
    for (size_t k = 0; gradient && k < classes; k++)
        gradient[k] = expf(y[k] - most) / sum - (k == (size_t)label ? 1.0f : 0.0f);
    return logf(sum) + most - y[label];
}

/* With one label a sample, or one for each pixel. */
static dpt_status lose_labels(const dpt_loss_call *call)
{
    const size_t n_labels = *(const size_t *)call->user;
    if (!call->labels || call->targets) return DPT_E_INVALID;
    for (size_t n = 0; n < call->n_samples; n++) {
        call->losses[n] = call->hits[n] = 0;
        for (size_t i = n * n_labels; i < (n + 1) * n_labels; i++) {
            const float *y = call->outputs + i * OUTPUTS;
            float *gradient = call->gradients ? call->gradients + i * OUTPUTS : NULL;
            const int32_t label = call->labels[i];
            if (label < 0) {
                for (size_t k = 0; gradient && k < OUTPUTS; k++)
                    gradient[k] = 0;
                continue;
            }
            size_t best = 0;
            for (size_t k = 1; k < OUTPUTS; k++)
                if (y[k] > y[best]) best = k;
            call->losses[n] += cross_entropy(y, label, OUTPUTS, gradient);
            call->hits[n] += best == (size_t)label;
        }
    }
    return DPT_OK;
}

static void losses_train_as_built_in(test *t)
{
    static const size_t pixels = PIXELS;
    counts c = {.weight = 2.5f};
    run plain = {.network = IMAGE,
                 .answers = TARGETS,
                 .options = {.lr = 0.1f * 2.5f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = {.network = IMAGE,
               .answers = TARGETS,
               .options = {.lr = 0.1f,
                           .loss = DPT_LOSS_OWN_OF_TARGETS,
                           .own_loss = callback_lose_squares,
                           .own_loss_user = &c}};
    callback_compare_networks(t, plain, own, 2.5);
    CHECK(atomic_load(&c.losses) > 0);
    plain = (run){.network = PIXEL, .answers = PIXEL_LABELS, .options = {.lr = 0.2f}};
    plain.options.micro_batch = 7;
    own = plain;
    own.options.loss = DPT_LOSS_OWN_OF_LABELS;
    own.options.own_loss = lose_labels;
    own.options.own_loss_user = (void *)(uintptr_t)&pixels;
    callback_compare_networks(t, plain, own, 1);
}

static void losses_of_labels_count_hits(test *t)
{
    static const size_t one = 1;
    const run plain = {.network = IMAGE, .answers = LABELS, .options = {.lr = 0.1f}};
    run own = plain;
    own.options.loss = DPT_LOSS_OWN_OF_LABELS;
    own.options.own_loss = lose_labels;
    own.options.own_loss_user = (void *)(uintptr_t)&one;
    callback_compare_networks(t, plain, own, 1);
}

static void outputs_are_losses(test *t)
{
    const run plain = {
        .network = NEAR, .answers = SELF, .options = {.lr = 0.1f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = DISTANCE;
    own.answers = NO_ANSWERS;
    own.options.loss = DPT_LOSS_OUTPUT;
    callback_compare_networks(t, plain, own, 1);
}

static void refuse_loss(test *t, const dpt_trainer_options *options, const char *reason)
{
    const mix one = {"cpu", "1"};
    session s;
    run r = {.where = &one, .network = IMAGE, .answers = TARGETS, .options = {.lr = 0.1f}};
    r.options.loss = DPT_LOSS_SQUARED_ERROR;
    if (callback_open(t, &r, &s)) {
        dpt_trainer *trainer = NULL;
        CHECK_STATUS(dpt_trainer_create(s.devices, s.model, s.data, options, &trainer),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), reason);
    }
    session_end(&s);
}

static void refuses_losses(test *t)
{
    dpt_trainer_options o = {.size = sizeof o, .loss = DPT_LOSS_OWN_OF_TARGETS};
    refuse_loss(t, &o, "is a function of the program: set own_loss");
    o.loss = DPT_LOSS_SQUARED_ERROR;
    o.own_loss = callback_lose_squares;
    refuse_loss(t, &o, "own_loss is for a loss of the program's own");
    o.loss = DPT_LOSS_OWN_OF_LABELS;
    refuse_loss(t, &o, "has no labels, which a loss of labels needs");
    o.loss = DPT_LOSS_OUTPUT;
    o.own_loss = NULL;
    refuse_loss(t, &o, "is the output of model callbacks: it must be one number");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"losses train as built in", losses_train_as_built_in},
        {"losses of labels count hits", losses_of_labels_count_hits},
        {"outputs are losses", outputs_are_losses},
        {"refuses losses", refuses_losses},
    };
    return callback_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
