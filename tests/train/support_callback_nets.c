/* The operators of callback.h, and the networks with them or with built-in layers. */
#include "train/callback.h"

#include <math.h>
#include <stdlib.h>

bool callback_fails(atomic_size_t *at, size_t number)
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
    if (callback_fails(&c->fail_forward, number)) return fail(call, "out of paper");
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
    if (callback_fails(&c->fail_backward, number)) return fail(call, "");
    for (size_t i = 0; i < call->n_samples * WIDE; i++) {
        const float y = tanhf(x[i]);
        call->input_gradients[0][i] = 1.5f * (1 - y * y) * call->output_gradient[i];
    }
    if (atomic_load(&c->spoil)) call->input_gradients[0][0] = NAN;
    return DPT_OK;
}

/* y = a * b. */
dpt_status callback_forward_product(const dpt_operator_call *call)
{
    const float *a = call->inputs[0], *b = call->inputs[1];
    for (size_t i = 0; i < call->n_samples * HIDDEN; i++)
        call->output[i] = a[i] * b[i];
    return DPT_OK;
}

dpt_status callback_backward_product(const dpt_operator_call *call)
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
                                       .user = own,
                                       .deterministic = own && own->declared};
    const dpt_operator_options product = {.size = sizeof product,
                                          .elements = HIDDEN,
                                          .forward = callback_forward_product,
                                          .backward = callback_backward_product,
                                          .deterministic = own && own->declared};
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
                                          .forward = callback_forward_product,
                                          .backward = callback_backward_product,
                                          .deterministic = true};
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

dpt_status callback_build(dpt_model *m, network kind, counts *c)
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
