/* Tests functions of the program within a network: an operator trains as the same network of
   built-in layers does, and a loss as the built-in one, on each mix; a function that fails ends the
   call and loses nothing. */
#include "dptrain.h"
#include "harness.h"
#include "train/mixes.h"
#include "train/processes.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 64, SIDE = 4, CHANNELS = 2, PIXELS = SIDE * SIDE, OUTPUTS = 3, IDS = 6 };
enum { BATCH = 32, STEPS = 6, WIDE = 3 * PIXELS, HIDDEN = 5 };

static const mix of_cpu[] = {{"cpu", "1"}, {"cpu,cpu,cpu", "13:2:1"}};

/* ---- The functions --------------------------------------------------------------------------- */

/* What the functions are given: counters, and when to fail. */
typedef struct counts {
    atomic_size_t forwards, backwards, losses, samples;
    atomic_size_t fail_forward, fail_backward, fail_loss; /* from this call on, once; 0: never */
    atomic_bool spoil;                                    /* the gradient is not finite */
    float weight;
} counts;

/* Whether this call is the one that is to fail. */
static bool fails(atomic_size_t *at, size_t number)
{
    size_t wanted = atomic_load(at);
    return wanted > 0 && number >= wanted && atomic_compare_exchange_strong(at, &wanted, 0);
}

static dpt_status fail(const dpt_operator_call *call, const char *why)
{
    snprintf(call->why, DPT_CALLBACK_WHY_BYTES, "%s", why);
    return DPT_E_DEVICE_LOST; /* no status of a function loses a device */
}

/* y = 1.5 * tanh(x) for an image of 3 channels. */
static dpt_status forward_tanh(const dpt_operator_call *call)
{
    counts *c = call->user;
    const float *x = call->inputs[0];
    const size_t number = atomic_fetch_add(&c->forwards, 1) + 1;
    if (fails(&c->fail_forward, number)) return fail(call, "out of paper");
    for (size_t i = 0; i < call->n_samples * WIDE; i++)
        call->output[i] = 1.5f * tanhf(x[i]);
    return DPT_OK;
}

static dpt_status backward_tanh(const dpt_operator_call *call)
{
    counts *c = call->user;
    const float *x = call->inputs[0];
    const size_t number = atomic_fetch_add(&c->backwards, 1) + 1;
    atomic_fetch_add(&c->samples, call->n_samples);
    if (fails(&c->fail_backward, number)) return fail(call, "");
    for (size_t i = 0; i < call->n_samples * WIDE; i++) {
        const float y = tanhf(x[i]);
        call->input_gradients[0][i] = 1.5f * (1 - y * y) * call->output_gradient[i];
    }
    if (atomic_load(&c->spoil)) call->input_gradients[0][0] = NAN;
    return DPT_OK;
}

/* y = a * b. */
static dpt_status forward_product(const dpt_operator_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    for (size_t i = 0; i < call->n_samples * HIDDEN; i++)
        call->output[i] = a[i] * b[i];
    return DPT_OK;
}

static dpt_status backward_product(const dpt_operator_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1], *dy = call->output_gradient;
    for (size_t i = 0; i < call->n_samples * HIDDEN; i++) {
        const float da = b[i] * dy[i], db = a[i] * dy[i];
        if (call->input_gradients[0]) call->input_gradients[0][i] = da;
        if (call->input_gradients[1]) call->input_gradients[1][i] = db;
    }
    return DPT_OK;
}

/* The place of an element in the order that a flattened image has. */
static float ramp_of(size_t c, size_t h, size_t w)
{
    return 0.1f * (float)((c * SIDE + h) * SIDE + w) - 2;
}

/* Adds a ramp to an image (h, w, c), or with `user` to a flattened one (c, h, w). */
static dpt_status forward_ramp(const dpt_operator_call *call)
{
    const bool flat = call->user != NULL;
    const float *x = call->inputs[0];
    for (size_t n = 0; n < call->n_samples; n++)
        for (size_t c = 0; c < 3; c++)
            for (size_t h = 0; h < SIDE; h++)
                for (size_t w = 0; w < SIDE; w++) {
                    const size_t at = flat ? (c * SIDE + h) * SIDE + w : (h * SIDE + w) * 3 + c;
                    call->output[n * WIDE + at] = x[n * WIDE + at] * ramp_of(c, h, w);
                }
    return DPT_OK;
}

static dpt_status backward_ramp(const dpt_operator_call *call)
{
    dpt_operator_call given = *call;
    const void *gradient = call->output_gradient;
    given.inputs = &gradient;
    given.output = call->input_gradients[0];
    return forward_ramp(&given); /* it is linear */
}

/* y = id / 2 - 1. */
static dpt_status forward_ids(const dpt_operator_call *call)
{
    const int32_t *ids = call->inputs[0];
    for (size_t i = 0; i < call->n_samples * IDS; i++)
        call->output[i] = 0.5f * (float)ids[i] - 1;
    return DPT_OK;
}

static dpt_status never(const dpt_operator_call *call)
{
    (void)call;
    abort(); /* no parameter is in front of the ids */
}

/* The mean of (y - x)^2 over the outputs, as a value of the network. */
static dpt_status forward_distance(const dpt_operator_call *call)
{
    const float *y = call->inputs[0], *x = call->inputs[1];
    for (size_t n = 0; n < call->n_samples; n++) {
        call->output[n] = 0;
        for (size_t k = 0; k < OUTPUTS; k++) {
            const float d = y[n * OUTPUTS + k] - x[n * PIXELS * CHANNELS + k];
            call->output[n] += d * d / OUTPUTS;
        }
    }
    return DPT_OK;
}

static dpt_status backward_distance(const dpt_operator_call *call)
{
    const float *y = call->inputs[0], *x = call->inputs[1];
    if (call->input_gradients[1]) return DPT_E_INVALID; /* the input needs none */
    for (size_t n = 0; n < call->n_samples; n++)
        for (size_t k = 0; k < OUTPUTS; k++)
            call->input_gradients[0][n * OUTPUTS + k] =
                2 * call->output_gradient[n] / OUTPUTS *
                (y[n * OUTPUTS + k] - x[n * PIXELS * CHANNELS + k]);
    return DPT_OK;
}

/* The mean of weight * (y - t)^2 over the outputs. */
static dpt_status lose_squares(const dpt_loss_call *call)
{
    counts *c = call->user;
    const size_t number = atomic_fetch_add(&c->losses, 1) + 1;
    if (fails(&c->fail_loss, number)) return DPT_E_NO_MEMORY;
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

/* ---- Networks -------------------------------------------------------------------------------- */

/* Of built-in layers, or with the operators `tanh` and `product`. */
static dpt_value image_layers(dpt_model *m, counts *own)
{
    const dpt_conv2d_options conv = {
        .size = sizeof conv, .out_channels = 3, .kernel = {3, 3}, .padding = {1, 1}};
    const dpt_linear_options linear = {.size = sizeof linear, .out = HIDDEN};
    const dpt_linear_options last = {.size = sizeof last, .out = OUTPUTS};
    const dpt_linear_options relu = {
        .size = sizeof relu, .out = HIDDEN, .activation = DPT_ACT_RELU};
    const dpt_operator_options tanh = {.size = sizeof tanh,
                                       .height = SIDE,
                                       .width = SIDE,
                                       .channels = 3,
                                       .forward = forward_tanh,
                                       .backward = backward_tanh,
                                       .user = own};
    const dpt_operator_options product = {.size = sizeof product,
                                          .elements = HIDDEN,
                                          .forward = forward_product,
                                          .backward = backward_product};
    dpt_value x = dpt_conv2d(m, dpt_input(m, SIDE, SIDE, CHANNELS), "conv", &conv);
    x = own ? dpt_operator(m, "tanh", &x, 1, &tanh) : dpt_elementwise(m, "1.5 * tanh(a)", &x, 1);
    x = dpt_flatten(m, x);
    const dpt_value a = dpt_linear(m, x, "a", &relu), b = dpt_linear(m, x, "b", &linear);
    dpt_value y = own ? dpt_operator(m, "product", (dpt_value[]){a, b}, 2, &product)
                      : dpt_elementwise(m, "a * b", (dpt_value[]){a, b}, 2);
    y = dpt_add(m, y, a); /* the gradient of `a` has two parts */
    const dpt_value square = own ? dpt_operator(m, "square", (dpt_value[]){b, b}, 2, &product)
                                 : dpt_elementwise(m, "a * a", &b, 1);
    return dpt_linear(m, dpt_add(m, y, square), "fc", &last);
}

static dpt_value ramp_layers(dpt_model *m, bool flat)
{
    const dpt_conv2d_options conv = {
        .size = sizeof conv, .out_channels = 3, .kernel = {3, 3}, .padding = {1, 1}};
    const dpt_linear_options last = {.size = sizeof last, .out = OUTPUTS};
    dpt_operator_options ramp = {
        .size = sizeof ramp, .forward = forward_ramp, .backward = backward_ramp};
    dpt_value x = dpt_conv2d(m, dpt_input(m, SIDE, SIDE, CHANNELS), "conv", &conv);
    if (flat) x = dpt_flatten(m, x);
    ramp.elements = flat ? WIDE : 0;
    ramp.height = ramp.width = flat ? 0 : SIDE;
    ramp.channels = flat ? 0 : 3;
    ramp.user = flat ? &ramp : NULL; /* only whether it is NULL counts */
    x = dpt_operator(m, "ramp", &x, 1, &ramp);
    return dpt_linear(m, flat ? x : dpt_flatten(m, x), "fc", &last);
}

static dpt_value ids_layers(dpt_model *m, bool own)
{
    const dpt_linear_options last = {.size = sizeof last, .out = OUTPUTS};
    const dpt_operator_options real = {
        .size = sizeof real, .elements = IDS, .forward = forward_ids, .backward = never};
    dpt_value x = dpt_input_ids(m, IDS);
    x = own ? dpt_operator(m, "real", &x, 1, &real) : dpt_elementwise(m, "0.5 * a - 1", &x, 1);
    return dpt_linear(m, own ? x : dpt_flatten(m, x), "fc", &last);
}

/* Predicts the first pixels of the first channel. */
static dpt_value self_layers(dpt_model *m, bool own)
{
    const dpt_linear_options last = {.size = sizeof last, .out = OUTPUTS};
    const dpt_operator_options distance = {.size = sizeof distance,
                                           .elements = 1,
                                           .forward = forward_distance,
                                           .backward = backward_distance};
    const dpt_value x = dpt_flatten(m, dpt_input(m, SIDE, SIDE, CHANNELS));
    const dpt_value y = dpt_linear(m, x, "fc", &last);
    return own ? dpt_operator(m, "distance", (dpt_value[]){y, x}, 2, &distance) : y;
}

/* The second factor is a parameter, which is the same for all samples. */
static dpt_value scaled_layers(dpt_model *m, bool own)
{
    static const float initial[HIDDEN] = {1, -1, 0.5f, 2, 1};
    const size_t extent = HIDDEN;
    const dpt_linear_options first = {.size = sizeof first, .out = HIDDEN};
    const dpt_linear_options last = {.size = sizeof last, .out = OUTPUTS};
    const dpt_operator_options product = {.size = sizeof product,
                                          .elements = HIDDEN,
                                          .forward = forward_product,
                                          .backward = backward_product};
    const dpt_value x = dpt_flatten(m, dpt_input(m, SIDE, SIDE, CHANNELS));
    const dpt_value factors[] = {dpt_linear(m, x, "a", &first),
                                 dpt_parameter(m, "scale", &extent, 1, initial)};
    const dpt_value y = own ? dpt_operator(m, "product", factors, 2, &product)
                            : dpt_flatten(m, dpt_elementwise(m, "a * b", factors, 2));
    return dpt_linear(m, y, "fc", &last);
}

static dpt_value pixel_layers(dpt_model *m)
{
    const dpt_conv2d_options conv = {
        .size = sizeof conv, .out_channels = OUTPUTS, .kernel = {3, 3}, .padding = {1, 1}};
    return dpt_conv2d(m, dpt_input(m, SIDE, SIDE, CHANNELS), "conv", &conv);
}

/* ---- Data ------------------------------------------------------------------------------------ */

typedef enum answers { TARGETS, SELF, NO_ANSWERS, LABELS, PIXEL_LABELS } answers;

static dpt_dataset *make_data(test *t, dpt_context *context, answers kind, bool ids)
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

typedef struct setting {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

typedef enum network {
    IMAGE,
    IMAGE_OWN,
    RAMP,
    RAMP_FLAT,
    IDS_PLAIN,
    IDS_OWN,
    PIXEL,
    NEAR,
    DISTANCE,
    SCALED,
    SCALED_OWN
} network;

typedef struct run {
    const mix *where;
    network network;
    answers answers;
    counts *counts;
    dpt_trainer_options options;
} run;

typedef struct outcome {
    double losses[STEPS], evaluated;
    size_t hits[STEPS];
    float predicted[SAMPLES * PIXELS * OUTPUTS];
} outcome;

static dpt_status build(dpt_model *m, network kind, counts *c)
{
    switch (kind) {
    case IMAGE: return dpt_model_finish(m, image_layers(m, NULL));
    case IMAGE_OWN: return dpt_model_finish(m, image_layers(m, c));
    case RAMP: return dpt_model_finish(m, ramp_layers(m, false));
    case RAMP_FLAT: return dpt_model_finish(m, ramp_layers(m, true));
    case IDS_PLAIN: return dpt_model_finish(m, ids_layers(m, false));
    case IDS_OWN: return dpt_model_finish(m, ids_layers(m, true));
    case NEAR: return dpt_model_finish(m, self_layers(m, false));
    case DISTANCE: return dpt_model_finish(m, self_layers(m, true));
    case SCALED: return dpt_model_finish(m, scaled_layers(m, false));
    case SCALED_OWN: return dpt_model_finish(m, scaled_layers(m, true));
    case PIXEL: return dpt_model_finish_per_pixel(m, pixel_layers(m));
    }
    return DPT_E_INVALID;
}

static bool open_run(test *t, const run *r, setting *s)
{
    *s = (setting){0};
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
        make_data(t, s->context, r->answers, r->network == IDS_PLAIN || r->network == IDS_OWN);
    if (!s->data || !CHECK_OK(build(s->model, r->network, r->counts))) {
        printf("%s\n", dpt_error_message(s->context));
        return false;
    }
    if (CHECK_OK(dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer)))
        return true;
    printf("%s: %s\n", r->where->devices, dpt_error_message(s->context));
    return false;
}

static void close_run(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_device_set_close(s->devices);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static bool train(test *t, const run *r, outcome *out)
{
    setting s;
    bool done = false;
    memset(out, 0, sizeof *out);
    if (open_run(t, r, &s)) {
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
    close_run(&s);
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

/* Both learn, and the second one does what the first does. */
static void compare(test *t, const outcome *a, const outcome *b, double factor, double tolerance)
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

static void compare_networks(test *t, run plain, run own, double factor)
{
    static outcome a, b;
    const mix one = {"cpu", "1"};
    const mix_list mixes = *(const mix_list *)t->user;
    plain.where = &one;
    if (!train(t, &plain, &a)) return;
    for (size_t i = 0; i < mixes.n; i++) {
        own.where = &mixes.items[i];
        if (!train(t, &own, &b)) continue;
        if (own.options.loss == DPT_LOSS_OWN_OF_LABELS) to_probabilities(&b);
        if (own.options.loss == DPT_LOSS_OUTPUT) to_losses(&b, &a);
        compare(t, &a, &b, factor, 2e-5);
    }
}

/* ---- The same training ----------------------------------------------------------------------- */

static void operators_train_as_layers(test *t)
{
    counts c = {.weight = 0};
    const run plain = {.network = IMAGE,
                       .answers = TARGETS,
                       .options = {.lr = 0.05f, .momentum = 0.9f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = IMAGE_OWN;
    own.counts = &c;
    compare_networks(t, plain, own, 1);
    CHECK(atomic_load(&c.forwards) > atomic_load(&c.backwards));
    CHECK(atomic_load(&c.samples) % (STEPS * BATCH) == 0 && atomic_load(&c.samples) > 0);
    own.options.micro_batch = 5;
    compare_networks(t, plain, own, 1);
}

static void order_is_that_of_the_documents(test *t)
{
    const run image = {.network = RAMP,
                       .answers = TARGETS,
                       .options = {.lr = 0.01f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run flat = image;
    flat.network = RAMP_FLAT;
    compare_networks(t, image, flat, 1);
}

static void operators_take_ids(test *t)
{
    const run plain = {.network = IDS_PLAIN,
                       .answers = TARGETS,
                       .options = {.lr = 0.02f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = IDS_OWN;
    compare_networks(t, plain, own, 1);
}

static void operators_take_parameters(test *t)
{
    const run plain = {.network = SCALED,
                       .answers = TARGETS,
                       .options = {.lr = 0.02f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = SCALED_OWN;
    own.options.micro_batch = 5;
    compare_networks(t, plain, own, 1);
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
                           .own_loss = lose_squares,
                           .own_loss_user = &c}};
    compare_networks(t, plain, own, 2.5);
    CHECK(atomic_load(&c.losses) > 0);
    plain = (run){.network = PIXEL, .answers = PIXEL_LABELS, .options = {.lr = 0.2f}};
    plain.options.micro_batch = 7;
    own = plain;
    own.options.loss = DPT_LOSS_OWN_OF_LABELS;
    own.options.own_loss = lose_labels;
    own.options.own_loss_user = (void *)(uintptr_t)&pixels;
    compare_networks(t, plain, own, 1);
}

static void losses_of_labels_count_hits(test *t)
{
    static const size_t one = 1;
    const run plain = {.network = IMAGE, .answers = LABELS, .options = {.lr = 0.1f}};
    run own = plain;
    own.options.loss = DPT_LOSS_OWN_OF_LABELS;
    own.options.own_loss = lose_labels;
    own.options.own_loss_user = (void *)(uintptr_t)&one;
    compare_networks(t, plain, own, 1);
}

static void outputs_are_losses(test *t)
{
    const run plain = {
        .network = NEAR, .answers = SELF, .options = {.lr = 0.1f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = DISTANCE;
    own.answers = NO_ANSWERS;
    own.options.loss = DPT_LOSS_OUTPUT;
    compare_networks(t, plain, own, 1);
}

/* On devices with activations of 16 bits the functions see float32. */
static void bfloat16_is_widened(test *t)
{
    static outcome a, b;
    counts c = {.weight = 1};
    const mix one = {"cpu", "1"};
    mix narrow = {"@0:precision=bf16", "1"};
    const run plain = {.where = &one,
                       .network = IMAGE,
                       .answers = TARGETS,
                       .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    if (testing_cpu()) {
        SKIP("the CPU computes with float32");
        return;
    }
    narrow.devices = tested_devices(narrow.devices);
    run own = plain;
    own.where = &narrow;
    own.network = IMAGE_OWN;
    own.counts = &c;
    own.options.loss = DPT_LOSS_OWN_OF_TARGETS;
    own.options.own_loss = lose_squares;
    own.options.own_loss_user = &c;
    if (train(t, &plain, &a) && train(t, &own, &b)) compare(t, &a, &b, 1, 2e-2);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static bool weights_of(test *t, const setting *s, float out[OUTPUTS * HIDDEN])
{
    return CHECK_OK(
        dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, "fc.weight", out, OUTPUTS * HIDDEN));
}

/* A step fails, nothing changes, and the next step is what this one would have been. */
static void fail_step(test *t, setting *s, dpt_status expected, const char *message)
{
    float before[OUTPUTS * HIDDEN], after[OUTPUTS * HIDDEN];
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_event event = {.size = sizeof event};
    weights_of(t, s, before);
    CHECK_STATUS(dpt_trainer_step(s->trainer, &m), expected);
    CHECK_CONTAINS(dpt_error_message(s->context), message);
    weights_of(t, s, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK(!dpt_trainer_next_event(s->trainer, &event));
}

static void check_failures(test *t, const mix *where)
{
    counts c = {.weight = 1};
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    static float outputs[SAMPLES * OUTPUTS];
    static outcome healthy;
    run r = {.where = where,
             .network = IMAGE_OWN,
             .answers = TARGETS,
             .counts = &c,
             .options = {.lr = 0.05f,
                         .loss = DPT_LOSS_OWN_OF_TARGETS,
                         .own_loss = lose_squares,
                         .own_loss_user = &c}};
    if (!train(t, &r, &healthy)) return;
    if (open_run(t, &r, &s)) {
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_NEAR(m.loss, healthy.losses[0], 0.0);
        atomic_store(&c.fail_forward, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer tanh: its forward function failed: out of paper");
        atomic_store(&c.fail_backward, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer tanh: its backward function failed: device lost");
        atomic_store(&c.fail_loss, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer loss: its function failed: out of memory");
        atomic_store(&c.spoil, true);
        fail_step(t, &s, DPT_E_NOT_FINITE, "gradients");
        atomic_store(&c.spoil, false);
        for (size_t i = 1; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_step(s.trainer, &m));
            CHECK_NEAR(m.loss, healthy.losses[i], 0);
            CHECK_SIZE(m.n_lost, 0);
        }
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_trainer_evaluate(s.trainer, s.data, &e), DPT_E_CALLBACK);
        CHECK_CONTAINS(dpt_error_message(s.context), "out of paper");
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_trainer_predict(s.trainer, s.data, 0, SAMPLES, outputs), DPT_E_CALLBACK);
        CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
        CHECK_NEAR(e.loss, healthy.evaluated, 1e-6 * e.loss);
    }
    close_run(&s);
}

static void failures_lose_nothing(test *t)
{
    const mix_list mixes = *(const mix_list *)t->user;
    for (size_t i = 0; i < mixes.n; i++)
        check_failures(t, &mixes.items[i]);
}

/* What a process does and sees. */
typedef struct of_process {
    test *t;
    counts counts;
    dpt_status failed;
    char message[512];
    double losses[STEPS];
} of_process;

/* The function of process 1 fails in the first step. */
static dpt_status train_in_process(dpt_context *context, size_t rank, void *user)
{
    of_process *p = (of_process *)user + rank;
    test *t = p->t;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .no_shuffle = true,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                         .loss = DPT_LOSS_SQUARED_ERROR};
    setting s = {.context = context};
    dpt_step_metrics m = {.size = sizeof m};
    atomic_store(&p->counts.fail_backward, rank == 1);
    dpt_status status = dpt_device_set_open(context, "cpu:threads=1", &s.devices);
    if (status == DPT_OK) status = dpt_model_create(context, "callbacks", &s.model);
    if (status == DPT_OK) s.data = make_data(t, context, TARGETS, false);
    if (status == DPT_OK) status = build(s.model, IMAGE_OWN, &p->counts);
    if (status == DPT_OK)
        status = dpt_trainer_create(s.devices, s.model, s.data, &options, &s.trainer);
    if (status == DPT_OK) {
        p->failed = dpt_trainer_step(s.trainer, &m);
        snprintf(p->message, sizeof p->message, "%s", dpt_error_message(context));
    }
    for (size_t i = 0; status == DPT_OK && i < STEPS; i++) {
        status = dpt_trainer_step(s.trainer, &m);
        p->losses[i] = m.loss;
    }
    dpt_trainer_destroy(s.trainer);
    dpt_model_destroy(s.model);
    dpt_device_set_close(s.devices);
    dpt_dataset_destroy(s.data);
    return status;
}

/* All processes tell the failure, and train on. */
static void processes_go_on(test *t)
{
    static outcome alone;
    counts c = {.weight = 1};
    of_process processes[2] = {{.t = t}, {.t = t}};
    char message[512] = "";
    const mix one = {"cpu", "1"};
    const run r = {.where = &one,
                   .network = IMAGE_OWN,
                   .answers = TARGETS,
                   .counts = &c,
                   .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    if (!train(t, &r, &alone)) return;
    if (!CHECK_OK(stand_ins_run(2, train_in_process, processes, message))) FAIL("%s", message);
    for (size_t k = 0; k < 2; k++) {
        CHECK_STATUS(processes[k].failed, DPT_E_CALLBACK);
        CHECK_CONTAINS(processes[k].message, "process 1 (");
        CHECK_CONTAINS(processes[k].message, "layer tanh: its backward function failed");
        for (size_t i = 0; i < STEPS; i++)
            CHECK_NEAR(processes[k].losses[i], alone.losses[i], 2e-5 * alone.losses[i]);
    }
}

/* ---- Prediction, export, refusals ------------------------------------------------------------ */

static void predicts_and_is_not_exported(test *t)
{
    static float outputs[SAMPLES * OUTPUTS], again[SAMPLES * OUTPUTS];
    counts c = {.weight = 1};
    char folder[] = "/tmp/callback-XXXXXX", weights[64], onnx[64], why[DPT_WHY_BYTES] = "";
    const mix_list mixes = *(const mix_list *)t->user;
    const run r = {.where = &mixes.items[mixes.n > 2 ? 1 : 0],
                   .network = IMAGE_OWN,
                   .answers = TARGETS,
                   .counts = &c,
                   .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    setting s;
    dpt_step_metrics m = {.size = sizeof m};
    REQUIRE(mkdtemp(folder));
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    snprintf(onnx, sizeof onnx, "%s/net.onnx", folder);
    if (open_run(t, &r, &s)) {
        dpt_predictor *predictor = NULL;
        const dpt_predictor_options options = {.size = sizeof options,
                                               .weights = weights,
                                               .like = s.data,
                                               .logits = true,
                                               .micro_batch = 9};
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_OK(dpt_trainer_save(s.trainer, weights));
        CHECK_OK(dpt_trainer_predict(s.trainer, s.data, 0, SAMPLES, outputs));
        REQUIRE_OK(dpt_predictor_create(s.devices, s.model, &options, &predictor));
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_predictor_run_data(predictor, s.data, 0, SAMPLES, again, why),
                     DPT_E_CALLBACK);
        CHECK_CONTAINS(why, "layer tanh: its forward function failed: out of paper");
        CHECK_SIZE(dpt_predictor_lost(predictor), 0);
        CHECK_OK(dpt_predictor_run_data(predictor, s.data, 0, SAMPLES, again, why));
        for (size_t i = 0; i < SAMPLES * OUTPUTS; i++)
            CHECK_NEAR((double)again[i], (double)outputs[i], 1e-5);
        dpt_predictor_destroy(predictor);
        CHECK_STATUS(dpt_model_to_onnx(s.model, weights, onnx, NULL), DPT_E_UNSUPPORTED);
        CHECK_CONTAINS(dpt_error_message(s.context), "layer tanh: it is an operator");
    }
    close_run(&s);
    unlink(weights);
    unlink(onnx);
    rmdir(folder);
}

static void refuse_operator(test *t, dpt_operator_options options, size_t n_inputs,
                            const char *reason)
{
    dpt_context *context = NULL;
    dpt_model *m = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_model_create(context, "refused", &m));
    const dpt_value x = dpt_flatten(m, dpt_input(m, 1, 1, 4));
    const dpt_value all[DPT_OPERATOR_INPUTS + 1] = {x, x, x, x, x, x};
    const dpt_linear_options last = {.size = sizeof last, .out = 2};
    const dpt_value y = dpt_operator(m, "own", all, n_inputs, options.size ? &options : NULL);
    CHECK_STATUS(dpt_model_finish(m, dpt_linear(m, y, "fc", &last)), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), reason);
    dpt_model_destroy(m);
    dpt_context_destroy(context);
}

static void refuses_operators(test *t)
{
    const dpt_operator_options good = {.size = sizeof good,
                                       .elements = 4,
                                       .forward = forward_product,
                                       .backward = backward_product};
    dpt_operator_options o = good;
    o.forward = NULL;
    refuse_operator(t, o, 1, "layer own: an operator needs a forward and a backward function");
    o = good;
    o.backward = NULL;
    refuse_operator(t, o, 1, "needs a forward and a backward function");
    o = good;
    o.elements = 0;
    refuse_operator(t, o, 1, "layer own: give either height");
    o.height = o.width = 2;
    refuse_operator(t, o, 1, "layer own: give either height");
    o = good;
    o.channels = 1;
    refuse_operator(t, o, 1, "layer own: give either height");
    refuse_operator(t, good, 0, "an operator has 1 to 5 inputs");
    refuse_operator(t, good, DPT_OPERATOR_INPUTS + 1, "an operator has 1 to 5 inputs");
    o.size = 0;
    refuse_operator(t, o, 1, "layer own needs options");
}

static void refuse_loss(test *t, const dpt_trainer_options *options, const char *reason)
{
    setting s;
    run r = {.where = &of_cpu[0], .network = IMAGE, .answers = TARGETS, .options = {.lr = 0.1f}};
    r.options.loss = DPT_LOSS_SQUARED_ERROR;
    if (open_run(t, &r, &s)) {
        dpt_trainer *trainer = NULL;
        CHECK_STATUS(dpt_trainer_create(s.devices, s.model, s.data, options, &trainer),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), reason);
    }
    close_run(&s);
}

static void refuses_losses(test *t)
{
    dpt_trainer_options o = {.size = sizeof o, .loss = DPT_LOSS_OWN_OF_TARGETS};
    refuse_loss(t, &o, "is a function of the program: set own_loss");
    o.loss = DPT_LOSS_SQUARED_ERROR;
    o.own_loss = lose_squares;
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
        {"operators train as layers", operators_train_as_layers},
        {"order is that of the documents", order_is_that_of_the_documents},
        {"operators take ids", operators_take_ids},
        {"operators take parameters", operators_take_parameters},
        {"losses train as built in", losses_train_as_built_in},
        {"losses of labels count hits", losses_of_labels_count_hits},
        {"outputs are losses", outputs_are_losses},
        {"bfloat16 is widened", bfloat16_is_widened},
        {"failures lose nothing", failures_lose_nothing},
        {"processes go on", processes_go_on},
        {"predicts and is not exported", predicts_and_is_not_exported},
        {"refuses operators", refuses_operators},
        {"refuses losses", refuses_losses},
    };
    const int missing = tested_backend_missing();
    if (missing) return missing;
    mix_list mixes = tested_mixes(of_cpu, sizeof of_cpu / sizeof *of_cpu);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, &mixes);
}
