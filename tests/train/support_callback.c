/* The data and the runs of callback.h. */
#include "train/callback.h"

#include <math.h>
#include <string.h>

dpt_status callback_lose_squares(const dpt_loss_call *call)
{
    counts *c = call->user;
    const size_t number = atomic_fetch_add(&c->losses, 1) + 1;
    if (callback_fails(&c->fail_loss, number)) return DPT_E_NO_MEMORY;
    if (!call->targets || call->labels || call->training != (call->gradients != NULL))
        return DPT_E_INVALID;
    for (size_t n = 0; n < call->n_samples; n++) {
        call->losses[n] = 0;
        for (size_t k = n * OUTPUTS; k < (n + 1) * OUTPUTS; k++) {
            const float d = call->outputs[k] - call->targets[k];
            call->losses[n] += c->weight * d * d / OUTPUTS;
            if (call->gradients) call->gradients[k] = 2 * c->weight * d / OUTPUTS;
        }
    }
    return DPT_OK;
}

/* ---- Data ------------------------------------------------------------------------------------ */

dpt_dataset *callback_data(test *t, dpt_context *context, answers kind, bool ids)
{
    static float x[SAMPLES * PIXELS * CHANNELS], targets[SAMPLES * OUTPUTS];
    static int32_t tokens[SAMPLES * IDS], labels[SAMPLES * PIXELS];
    test_random random = {.state = 11};
    test_fill_normal(&random, x, sizeof x / sizeof *x);
    test_fill_normal(&random, targets, sizeof targets / sizeof *targets);
    for (size_t i = 0; i < SAMPLES * IDS; i++)
        tokens[i] = (int32_t)((i * i + i / 7) % 9);
    for (size_t i = 0; i < SAMPLES * PIXELS; i++) {
        labels[i] = x[2 * i] > 0.4f ? 2 : x[2 * i + 1] > 0;
        if (kind == PIXEL_LABELS && i % 5 == 1 && i / PIXELS % 3 == 0)
            labels[i] = DPT_IGNORED_LABEL;
    }
    for (size_t i = 0; kind == SELF && i < SAMPLES * OUTPUTS; i++)
        targets[i] = x[(i / OUTPUTS * PIXELS + i % OUTPUTS) * CHANNELS];
    const bool has_targets = kind == TARGETS || kind == SELF;
    const bool has_labels = kind == LABELS || kind == PIXEL_LABELS;
    dpt_dataset_memory memory = {.size = sizeof memory,
                                 .count = SAMPLES,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .channels = CHANNELS,
                                 .outputs = kind == NO_ANSWERS ? 1 : OUTPUTS,
                                 .dtype = DPT_F32,
                                 .images = x,
                                 .targets = has_targets ? targets : NULL,
                                 .labels = has_labels ? labels : NULL,
                                 .label_dtype = has_labels ? DPT_I32 : 0,
                                 .labels_per_sample = kind == PIXEL_LABELS ? PIXELS : 0};
    if (ids) {
        memory.height = memory.width = 1;
        memory.channels = IDS;
        memory.dtype = DPT_I32;
        memory.vocabulary = DPT_MAX_VOCABULARY;
        memory.images = tokens;
    }
    dpt_dataset *data = NULL;
    CHECK_OK(dpt_dataset_from_memory(context, &memory, &data));
    return data;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

bool callback_open(test *t, const run *r, session *s)
{
    *s = (session){.context = NULL};
    dpt_trainer_options options = r->options;
    options.size = sizeof options;
    options.batch_size = BATCH;
    options.no_shuffle = true;
    options.split = (dpt_split){DPT_SPLIT_PROPORTIONS, r->where->split};
    if (strcmp(r->where->split, "equal") == 0) options.split = (dpt_split){DPT_SPLIT_EQUAL, NULL};
    if (!CHECK_OK(dpt_context_create(&s->context)) ||
        !CHECK_OK(dpt_device_set_open(s->context, r->where->devices, &s->devices)) ||
        !CHECK_OK(dpt_model_create(s->context, "callbacks", &s->model)))
        return false;
    s->data =
        callback_data(t, s->context, r->answers, r->network == IDS_PLAIN || r->network == IDS_OWN);
    if (!s->data || !CHECK_OK(callback_build(s->model, r->network, r->counts))) {
        printf("%s\n", dpt_error_message(s->context));
        return false;
    }
    if (CHECK_OK(dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer)))
        return true;
    printf("%s: %s\n", r->where->devices, dpt_error_message(s->context));
    return false;
}

bool callback_train(test *t, const run *r, outcome *out)
{
    session s;
    bool done = false;
    memset(out, 0, sizeof *out);
    if (callback_open(t, r, &s)) {
        dpt_evaluation e = {.size = sizeof e};
        done = true;
        for (size_t i = 0; done && i < STEPS; i++) {
            dpt_step_metrics m = {.size = sizeof m};
            done = CHECK_OK(dpt_trainer_step(s.trainer, &m));
            out->losses[i] = m.loss;
            out->hits[i] = m.hits;
        }
        done = done && CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e)) &&
               CHECK_OK(dpt_trainer_predict(s.trainer, s.data, 0, SAMPLES, out->predicted));
        out->evaluated = e.loss;
        if (!done) printf("%s: %s\n", r->where->devices, dpt_error_message(s.context));
    }
    session_end(&s);
    return done;
}

/* The built-in cross-entropy predicts probabilities. */
static void to_probabilities(outcome *o)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        float *y = o->predicted + i * OUTPUTS, sum = 0;
        for (size_t k = 0; k < OUTPUTS; k++)
            sum += y[k] = expf(y[k]);
        for (size_t k = 0; k < OUTPUTS; k++)
            y[k] /= sum;
    }
}

/* A network that ends with its loss predicts losses, whose mean evaluation gives. */
static void to_losses(outcome *o, const outcome *other)
{
    double sum = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        sum += (double)o->predicted[i] / SAMPLES;
    if (fabs(sum - o->evaluated) <= 1e-6)
        memcpy(o->predicted, other->predicted, sizeof o->predicted);
}

void callback_compare(test *t, const outcome *a, const outcome *b, double factor, double tolerance)
{
    CHECK(a->losses[STEPS - 2] < a->losses[0]); /* of the same batch */
    for (size_t i = 0; i < STEPS; i++) {
        CHECK_NEAR(b->losses[i], factor * a->losses[i], tolerance * factor * a->losses[i]);
        if (tolerance < 1e-3) CHECK_SIZE(b->hits[i], a->hits[i]);
    }
    CHECK_NEAR(b->evaluated, factor * a->evaluated, tolerance * factor * a->evaluated);
    for (size_t i = 0; i < SAMPLES * OUTPUTS; i++)
        CHECK_NEAR((double)b->predicted[i], (double)a->predicted[i], 10 * tolerance);
}

void callback_compare_networks(test *t, run plain, run own, double factor)
{
    static outcome a, b;
    const mix one = {"cpu", "1"};
    const mix_list mixes = *(const mix_list *)t->user;
    plain.where = &one;
    if (!callback_train(t, &plain, &a)) return;
    for (size_t i = 0; i < mixes.n; i++) {
        own.where = &mixes.items[i];
        if (!callback_train(t, &own, &b)) continue;
        if (own.options.loss == DPT_LOSS_OWN_OF_LABELS) to_probabilities(&b);
        if (own.options.loss == DPT_LOSS_OUTPUT) to_losses(&b, &a);
        callback_compare(t, &a, &b, factor, 2e-5);
    }
}

int callback_main(int argc, char **argv, const test_case *cases, size_t n_cases)
{
    static const mix of_cpu[] = {{"cpu", "1"}, {"cpu,cpu,cpu", "13:2:1"}};
    const int missing = tested_backend_missing();
    if (missing) return missing;
    mix_list mixes = tested_mixes(of_cpu, sizeof of_cpu / sizeof *of_cpu);
    return test_main(argc, argv, cases, n_cases, &mixes);
}
