/* Tests graphs that LeNet does not contain: values with several readers, separate activations,
   layers without bias, odd windows.  Losses, gradients and optimizer steps are compared with the
   same network in double precision, whose gradients are central differences of its loss: no
   derivative of a layer is used here. */
#include "harness.h"
#include "reference/reference.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE_H = 5, SIDE_W = 4, CHANNELS = 3, CLASSES = 4, COUNT = 10, BATCH = 7 };
enum { MAX_LAYERS = 12, MAX_PARAMETERS = 512, MAX_ELEMENTS = 256 };

/* ---- Networks -------------------------------------------------------------------------------- */

typedef enum layer_kind { END, CONV, POOL, ACTIVATE, ADD, FLATTEN, LINEAR } layer_kind;

/* Value 0 is the input, value i + 1 the output of layer i. */
typedef struct layer {
    layer_kind kind;
    size_t from, other;
    union {
        dpt_conv2d_options conv;
        dpt_pool2d_options pool;
        dpt_linear_options linear;
    } u;
    dpt_activation activation; /* of ACTIVATE */
} layer;

typedef struct network {
    const char *name;
    layer layers[MAX_LAYERS];
} network;

#define CONV3(from_, ...)                                                                          \
    {                                                                                              \
        .kind = CONV, .from = (from_), .u.conv = {                                                 \
            .size = sizeof(dpt_conv2d_options),                                                    \
            .out_channels = 3,                                                                     \
            .kernel = {3, 3},                                                                      \
            .padding = {1, 1},                                                                     \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define DENSE(from_, ...)                                                                          \
    {                                                                                              \
        .kind = LINEAR, .from = (from_), .u.linear = {                                             \
            .size = sizeof(dpt_linear_options),                                                    \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const network networks[] = {
    {"a way around a convolution",
     {CONV3(0, .activation = DPT_ACT_RELU),
      CONV3(1, .no_bias = true),
      {.kind = ADD, .from = 2, .other = 1},
      {.kind = ACTIVATE, .from = 3, .activation = DPT_ACT_RELU},
      {.kind = FLATTEN, .from = 4},
      DENSE(5, .out = CLASSES)}},
    {"three readers of one activation",
     {CONV3(0, .activation = DPT_ACT_TANH),
      CONV3(1, .activation = DPT_ACT_SIGMOID),
      {.kind = POOL,
       .from = 1,
       .u.pool = {.size = sizeof(dpt_pool2d_options),
                  .kind = DPT_POOL_MAX,
                  .kernel = {3, 3},
                  .stride = {1, 1},
                  .padding = {1, 1}}},
      {.kind = ADD, .from = 2, .other = 3},
      {.kind = ADD, .from = 4, .other = 1},
      {.kind = FLATTEN, .from = 5},
      DENSE(6, .out = CLASSES, .no_bias = true)}},
    {"a value added to itself",
     {CONV3(0, .activation = DPT_ACT_SIGMOID),
      {.kind = ADD, .from = 1, .other = 1},
      {.kind = ACTIVATE, .from = 2, .activation = DPT_ACT_TANH},
      {.kind = FLATTEN, .from = 3},
      DENSE(4, .out = CLASSES)}},
    {"an activation with two readers, its input with another",
     {CONV3(0, .groups = 3, .stride = {2, 1}),
      {.kind = ACTIVATE, .from = 1, .activation = DPT_ACT_RELU},
      {.kind = ADD, .from = 1, .other = 2},
      {.kind = ADD, .from = 2, .other = 3},
      {.kind = FLATTEN, .from = 4},
      DENSE(5, .out = CLASSES)}},
    {"activations in a row, the last behind the scores",
     {CONV3(0, .dilation = {2, 2}),
      {.kind = ACTIVATE, .from = 1, .activation = DPT_ACT_TANH},
      {.kind = ACTIVATE, .from = 2, .activation = DPT_ACT_SIGMOID},
      {.kind = POOL,
       .from = 3,
       .u.pool = {.size = sizeof(dpt_pool2d_options),
                  .kind = DPT_POOL_AVERAGE,
                  .kernel = {2, 3},
                  .padding = {1, 1}}},
      {.kind = FLATTEN, .from = 4},
      DENSE(5, .out = 5),
      {.kind = ACTIVATE, .from = 6, .activation = DPT_ACT_SIGMOID},
      DENSE(7, .out = CLASSES, .activation = DPT_ACT_TANH)}},
    {"a way around a linear layer, from the input on",
     {{.kind = ACTIVATE, .from = 0, .activation = DPT_ACT_TANH},
      {.kind = ADD, .from = 1, .other = 0},
      {.kind = FLATTEN, .from = 2},
      DENSE(3, .out = 5, .activation = DPT_ACT_RELU),
      DENSE(4, .out = 5, .activation = DPT_ACT_RELU),
      {.kind = ADD, .from = 4, .other = 5},
      DENSE(6, .out = CLASSES)}},
};
enum { N_NETWORKS = sizeof networks / sizeof *networks };

static dpt_status build(dpt_context *context, const network *n, dpt_model **out)
{
    dpt_value values[MAX_LAYERS + 1];
    size_t count = 0;
    DPT_TRY(dpt_model_create(context, "graph", out));
    values[0] = dpt_input(*out, SIDE_H, SIDE_W, CHANNELS);
    for (const layer *l = n->layers; l->kind != END; l++) {
        const dpt_value x = values[l->from];
        const char name[] = {'l', (char)('a' + count), '\0'};
        dpt_value *y = &values[++count];
        switch (l->kind) {
        case CONV: *y = dpt_conv2d(*out, x, name, &l->u.conv); break;
        case LINEAR: *y = dpt_linear(*out, x, name, &l->u.linear); break;
        case POOL: *y = dpt_pool2d(*out, x, &l->u.pool); break;
        case ACTIVATE: *y = dpt_activate(*out, x, l->activation); break;
        case ADD: *y = dpt_add(*out, x, values[l->other]); break;
        case FLATTEN: *y = dpt_flatten(*out, x); break;
        case END: break;
        }
    }
    return dpt_model_finish(*out, values[count]);
}

/* ---- The network in double precision: one sample, tensors (c,h,w) ---------------------------- */

typedef struct value64 {
    size_t c, h, w;
    double at[MAX_ELEMENTS];
} value64;

static size_t or_one(size_t n)
{
    return n ? n : 1;
}

static size_t extent64(size_t in, size_t pad, size_t dilation, size_t kernel, size_t stride)
{
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/* Where tap k of output o lies along one axis; false in the padding. */
static bool tap64(size_t o, size_t stride, size_t k, size_t dilation, size_t pad, size_t in,
                  size_t *at)
{
    *at = o * stride + k * dilation - pad; /* wraps round where it is negative */
    return *at < in;
}

/* Weights (O,C/groups,kh,kw), then biases; returns what follows them. */
static const double *conv64(const dpt_conv2d_options *o, const value64 *x, const double *w,
                            value64 *y)
{
    const size_t groups = or_one(o->groups), group_in = x->c / groups;
    const size_t sh = or_one(o->stride[0]), sw = or_one(o->stride[1]);
    const size_t dh = or_one(o->dilation[0]), dw = or_one(o->dilation[1]);
    const size_t kh = o->kernel[0], kw = o->kernel[1];
    const double *bias = w + o->out_channels * group_in * kh * kw;
    y->c = o->out_channels;
    y->h = extent64(x->h, o->padding[0], dh, kh, sh);
    y->w = extent64(x->w, o->padding[1], dw, kw, sw);
    for (size_t e = 0; e < y->c * y->h * y->w; e++) {
        const size_t out = e / (y->h * y->w), group = out / (y->c / groups);
        double sum = o->no_bias ? 0 : bias[out];
        for (size_t tap = 0; tap < group_in * kh * kw; tap++) {
            const size_t c = group * group_in + tap / (kh * kw);
            size_t h, v;
            if (tap64(e / y->w % y->h, sh, tap / kw % kh, dh, o->padding[0], x->h, &h) &&
                tap64(e % y->w, sw, tap % kw, dw, o->padding[1], x->w, &v))
                sum += w[out * group_in * kh * kw + tap] * x->at[(c * x->h + h) * x->w + v];
        }
        y->at[e] = reference_activate(o->activation, sum);
    }
    return bias + (o->no_bias ? 0 : y->c);
}

static void pool64(const dpt_pool2d_options *o, const value64 *x, value64 *y)
{
    const size_t kh = o->kernel[0], kw = o->kernel[1];
    const size_t sh = o->stride[0] ? o->stride[0] : kh, sw = o->stride[1] ? o->stride[1] : kw;
    y->c = x->c;
    y->h = extent64(x->h, o->padding[0], 1, kh, sh);
    y->w = extent64(x->w, o->padding[1], 1, kw, sw);
    for (size_t e = 0; e < y->c * y->h * y->w; e++) {
        double most = -INFINITY, sum = 0;
        for (size_t tap = 0; tap < kh * kw; tap++) {
            size_t h, v;
            if (!tap64(e / y->w % y->h, sh, tap / kw, 1, o->padding[0], x->h, &h) ||
                !tap64(e % y->w, sw, tap % kw, 1, o->padding[1], x->w, &v))
                continue;
            const double in = x->at[(e / (y->h * y->w) * x->h + h) * x->w + v];
            most = fmax(most, in);
            sum += in;
        }
        y->at[e] = o->kind == DPT_POOL_MAX ? most : sum / (double)(kh * kw);
    }
}

/* Weights (out,in), then biases. */
static const double *linear64(const dpt_linear_options *o, const value64 *x, const double *w,
                              value64 *y)
{
    const size_t in = x->c * x->h * x->w;
    const double *bias = w + o->out * in;
    *y = (value64){.c = o->out, .h = 1, .w = 1};
    for (size_t i = 0; i < o->out; i++) {
        double sum = o->no_bias ? 0 : bias[i];
        for (size_t k = 0; k < in; k++)
            sum += w[i * in + k] * x->at[k];
        y->at[i] = reference_activate(o->activation, sum);
    }
    return bias + (o->no_bias ? 0 : o->out);
}

/* The loss of one sample. */
static double loss64(const network *n, const double *w, const value64 *x, size_t label)
{
    value64 values[MAX_LAYERS + 1];
    size_t count = 0;
    values[0] = *x;
    for (const layer *l = n->layers; l->kind != END; l++) {
        const value64 *from = &values[l->from];
        value64 *y = &values[++count];
        const size_t elements = from->c * from->h * from->w;
        *y = *from;
        switch (l->kind) {
        case CONV: w = conv64(&l->u.conv, from, w, y); break;
        case LINEAR: w = linear64(&l->u.linear, from, w, y); break;
        case POOL: pool64(&l->u.pool, from, y); break;
        case ACTIVATE:
            for (size_t i = 0; i < elements; i++)
                y->at[i] = reference_activate(l->activation, from->at[i]);
            break;
        case ADD:
            for (size_t i = 0; i < elements; i++)
                y->at[i] += values[l->other].at[i];
            break;
        case FLATTEN:
        case END: break;
        }
    }
    double sum = 0;
    for (size_t i = 0; i < CLASSES; i++)
        sum += exp(values[count].at[i]);
    return log(sum) - values[count].at[label];
}

/* ---- Data and training in double precision --------------------------------------------------- */

typedef struct samples {
    float images[COUNT][SIDE_H][SIDE_W][CHANNELS];
    uint8_t labels[COUNT];
    value64 x[COUNT];
} samples;

static void draw(samples *s)
{
    test_random random = {11};
    for (size_t i = 0; i < COUNT; i++) {
        s->labels[i] = (uint8_t)test_random_below(&random, CLASSES);
        s->x[i] = (value64){.c = CHANNELS, .h = SIDE_H, .w = SIDE_W};
        for (size_t e = 0; e < SIDE_H * SIDE_W * CHANNELS; e++) {
            const size_t c = e % CHANNELS, at = e / CHANNELS;
            const float value = (float)test_random_normal(&random);
            s->images[i][at / SIDE_W][at % SIDE_W][c] = value;
            s->x[i].at[c * SIDE_H * SIDE_W + at] = (double)value;
        }
    }
}

typedef struct rule {
    float lr, momentum, weight_decay;
    bool nesterov, no_bias_decay;
} rule;

/* Parameters in the order of the checkpoint, with what belongs to each. */
typedef struct state64 {
    size_t n;
    double w[MAX_PARAMETERS], gradient[MAX_PARAMETERS], velocity[MAX_PARAMETERS];
    bool is_bias[MAX_PARAMETERS];
} state64;

static double batch_loss64(const network *n, const double *w, const samples *s, size_t first,
                           size_t count)
{
    double sum = 0;
    for (size_t i = first; i < first + count; i++)
        sum += loss64(n, w, &s->x[i], s->labels[i]);
    return sum / (double)count;
}

/* One step as torch.optim.SGD defines it; the loss before it. */
static double step64(const network *n, state64 *state, const samples *s, size_t first, size_t count,
                     const rule *r)
{
    static const double h = 1e-6;
    const double loss = batch_loss64(n, state->w, s, first, count);
    for (size_t i = 0; i < state->n; i++) {
        const double kept = state->w[i];
        state->w[i] = kept + h;
        const double above = batch_loss64(n, state->w, s, first, count);
        state->w[i] = kept - h;
        const double below = batch_loss64(n, state->w, s, first, count);
        state->w[i] = kept;
        state->gradient[i] = (above - below) / (2 * h);
    }
    for (size_t i = 0; i < state->n; i++) {
        const bool decays = !(r->no_bias_decay && state->is_bias[i]);
        const double decay = decays ? (double)r->weight_decay : 0;
        const double g = state->gradient[i] + decay * state->w[i];
        state->velocity[i] = (double)r->momentum * state->velocity[i] + g;
        state->w[i] -= (double)r->lr * (r->nesterov ? g + (double)r->momentum * state->velocity[i]
                                                    : state->velocity[i]);
    }
    return loss;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct setting {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
} setting;

static dpt_status open_all(setting *s, const network *n, const samples *all, const char *devices,
                           const rule *r)
{
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = SIDE_H,
                                       .width = SIDE_W,
                                       .channels = CHANNELS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = all->images,
                                       .labels = all->labels};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = r->lr,
                                         .momentum = r->momentum,
                                         .weight_decay = r->weight_decay,
                                         .nesterov = r->nesterov,
                                         .no_bias_decay = r->no_bias_decay,
                                         .seed = 3,
                                         .no_shuffle = true};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(dpt_device_set_open(s->context, devices, &s->devices));
    DPT_TRY(dpt_dataset_from_memory(s->context, &memory, &s->data));
    DPT_TRY(build(s->context, n, &s->model));
    return dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer);
}

static void close_all(setting *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
}

/* All tensors of one kind, one after the other. */
static dpt_status read_all(const setting *s, dpt_tensor_kind kind, state64 *about, double *out)
{
    float values[MAX_PARAMETERS];
    about->n = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(s->model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        dpt_model_tensor(s->model, i, &info);
        if (info.elements > MAX_PARAMETERS - about->n) return DPT_E_INTERNAL;
        DPT_TRY(dpt_trainer_get(s->trainer, 0, kind, info.name, values, info.elements));
        for (size_t k = 0; k < info.elements; k++, about->n++) {
            out[about->n] = (double)values[k];
            about->is_bias[about->n] = strstr(info.name, ".bias") != NULL;
        }
    }
    return DPT_OK;
}

static bool near(const double *a, const double *b, size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return n > 0 && norm > 0 && error <= 1e-10 * norm; /* 1e-5 in the 2-norm */
}

/* Steps of 7 and 3 samples; the rate is halved before the third. */
static void train_and_compare(test *t, const setting *s, const network *n, const samples *all,
                              rule r)
{
    state64 expected = {.n = 0}, seen = {.n = 0};
    REQUIRE_OK(read_all(s, DPT_PARAMETER, &expected, expected.w));
    for (size_t step = 0; step < 3; step++) {
        dpt_step_metrics m = {.size = sizeof m};
        const size_t first = step % 2 ? BATCH : 0, count = step % 2 ? COUNT - BATCH : BATCH;
        if (step == 2) {
            r.lr /= 2;
            REQUIRE_OK(dpt_trainer_set_lr(s->trainer, r.lr));
        }
        REQUIRE_OK(dpt_trainer_step(s->trainer, &m));
        CHECK_NEAR(m.loss, step64(n, &expected, all, first, count, &r), 1e-5);
        REQUIRE_OK(read_all(s, DPT_GRADIENT, &seen, seen.gradient));
        REQUIRE_OK(read_all(s, DPT_PARAMETER, &seen, seen.w));
        CHECK_SIZE(seen.n, expected.n);
        if (!CHECK(near(seen.gradient, expected.gradient, seen.n)) ||
            !CHECK(near(seen.w, expected.w, seen.n)))
            FAIL("%s: step %zu", n->name, step + 1);
    }
}

static void check(test *t, const network *n, const char *devices, const rule *r)
{
    setting s = {.context = NULL};
    if (CHECK_OK(open_all(&s, n, t->user, devices, r)))
        train_and_compare(t, &s, n, t->user, *r);
    else
        FAIL("%s: %s", n->name, s.context ? dpt_error_message(s.context) : "no context");
    close_all(&s);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void gradients(test *t)
{
    const rule r = {.lr = 0.1f};
    for (size_t i = 0; i < N_NETWORKS; i++)
        check(t, &networks[i], i % 2 ? "cpu" : "cpu:threads=1,cpu:threads=2", &r);
}

static void optimizer(test *t)
{
    static const rule rules[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.1f, .no_bias_decay = true},
        {.lr = 0.05f, .momentum = 0.9f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.1f},
        {.lr = 0.05f, .momentum = 0.5f, .nesterov = true},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check(t, &networks[0], "cpu:threads=1,cpu:threads=1", &rules[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gradients are the differences of the loss", gradients},
        {"steps are those of SGD in double precision", optimizer},
    };
    samples *all = calloc(1, sizeof *all);
    if (!all) return 1;
    draw(all);
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, all);
    free(all);
    return code;
}
