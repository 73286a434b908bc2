/* Tests groups of parameters: frozen tensors, factors of the learning rate, weight decay, on one
   device and on a mix, with momentum, AdamW, clipping and batch-norm. */
#include "train/session.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 48, INPUTS = 5, HIDDEN = 7, CLASSES = 3, STEPS = 6, MOST = 64 };

static const char *const names[] = {"fc1.weight",     "bn.weight",  "bn.bias", "bn.running_mean",
                                    "bn.running_var", "fc2.weight", "fc2.bias"};
static const size_t sizes[] = {HIDDEN * INPUTS, HIDDEN,          HIDDEN, HIDDEN,
                               HIDDEN,          CLASSES *HIDDEN, CLASSES};
enum { TENSORS = sizeof names / sizeof *names };

/* The values of all tensors. */
typedef struct state {
    float values[TENSORS][MOST];
} state;

static dpt_value layers(dpt_model *m)
{
    const dpt_linear_options hidden = {.size = sizeof hidden, .out = HIDDEN, .no_bias = true};
    const dpt_linear_options last = {.size = sizeof last, .out = CLASSES};
    const dpt_norm_options norm = {.size = sizeof norm, .activation = DPT_ACT_RELU};
    const dpt_value x = dpt_flatten(m, dpt_input(m, 1, 1, INPUTS));
    return dpt_linear(m, dpt_batch_norm(m, dpt_linear(m, x, "fc1", &hidden), "bn", &norm), "fc2",
                      &last);
}

static bool open_all(test *t, const char *devices, session *s)
{
    float x[SAMPLES * INPUTS];
    uint8_t labels[SAMPLES];
    test_random random = {.state = 3};
    *s = (session){.context = NULL};
    test_fill_normal(&random, x, SAMPLES * INPUTS);
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (uint8_t)((i * i + i / 5) % CLASSES);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = SAMPLES,
                                       .height = 1,
                                       .width = 1,
                                       .channels = INPUTS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = x,
                                       .labels = labels};
    return CHECK_OK(dpt_context_create(&s->context)) &&
           CHECK_OK(dpt_device_set_open(s->context, devices, &s->devices)) &&
           CHECK_OK(dpt_dataset_from_memory(s->context, &memory, &s->data)) &&
           CHECK_OK(dpt_model_create(s->context, "small", &s->model)) &&
           CHECK_OK(dpt_model_finish(s->model, layers(s->model)));
}

static void read_state(test *t, dpt_trainer *trainer, dpt_tensor_kind kind, state *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < TENSORS; i++)
        CHECK_OK(dpt_trainer_get(trainer, 0, kind, names[i], out->values[i], sizes[i]));
}

static bool equal(const state *a, const state *b, size_t tensor)
{
    return memcmp(a->values[tensor], b->values[tensor], sizes[tensor] * sizeof(float)) == 0;
}

static dpt_trainer_options options_with(const dpt_parameter_group *groups, size_t n)
{
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = 16,
                                 .lr = 0.1f,
                                 .momentum = 0.9f,
                                 .weight_decay = 0.05f,
                                 .groups = groups,
                                 .n_groups = n};
}

/* Trains for `steps` steps: the state before and after. */
static void train(test *t, const session *s, const dpt_trainer_options *options, state ends[2])
{
    dpt_trainer *trainer = NULL;
    REQUIRE_OK(dpt_trainer_create(s->devices, s->model, s->data, options, &trainer));
    read_state(t, trainer, DPT_PARAMETER, &ends[0]);
    for (size_t i = 0; i < STEPS; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        CHECK_OK(dpt_trainer_step(trainer, &m));
    }
    read_state(t, trainer, DPT_PARAMETER, &ends[1]);
    dpt_trainer_destroy(trainer);
}

/* ---- Freezing -------------------------------------------------------------------------------- */

static const char *const device_lists[] = {"cpu:threads=1",
                                           "cpu:threads=1,cpu:threads=1,cpu:threads=1"};

static void check_frozen(test *t, const session *s, dpt_trainer_options options)
{
    static const dpt_parameter_group norm_and_weight[] = {{.pattern = "fc1.weight", .frozen = true},
                                                          {.pattern = "bn.*", .frozen = true}};
    static const dpt_parameter_group scale[] = {{.pattern = "bn.weight", .frozen = true}};
    state ends[2];
    options.groups = norm_and_weight;
    options.n_groups = 2;
    train(t, s, &options, ends);
    for (size_t i = 0; i < TENSORS; i++)
        if (!CHECK(equal(&ends[0], &ends[1], i) == (i <= 4))) FAIL("tensor %s", names[i]);
    /* The statistics of a norm that is not frozen by name move. */
    options.groups = scale;
    options.n_groups = 1;
    train(t, s, &options, ends);
    for (size_t i = 0; i < TENSORS; i++)
        if (!CHECK(equal(&ends[0], &ends[1], i) == (i == 1))) FAIL("tensor %s", names[i]);
}

static void frozen_tensors_keep_their_bits(test *t)
{
    for (size_t i = 0; i < 2; i++) {
        session s;
        if (open_all(t, device_lists[i], &s)) {
            dpt_trainer_options options = options_with(NULL, 0);
            check_frozen(t, &s, options);
            options.momentum = 0;
            options.clip_norm = 0.01f;
            check_frozen(t, &s, options);
            options.optimizer = DPT_OPTIMIZER_ADAMW;
            check_frozen(t, &s, options);
        }
        session_end(&s);
    }
}

/* Two products read one tensor, the second one transposed. */
static dpt_value tied_layers(dpt_model *m)
{
    static const size_t square[] = {INPUTS, INPUTS}, row[] = {1, INPUTS}, swapped[] = {1, 0};
    const dpt_linear_options last = {.size = sizeof last, .out = CLASSES};
    const dpt_value w = dpt_parameter(m, "w", square, 2, NULL);
    dpt_value x = dpt_matmul(m, dpt_reshape(m, dpt_input(m, 1, 1, INPUTS), row, 2), w);
    x = dpt_elementwise(m, "tanh(a)", &x, 1);
    x = dpt_matmul(m, x, dpt_transpose(m, w, swapped, 2));
    return dpt_linear(m, dpt_flatten(m, x), "fc", &last);
}

/* The tensor keeps its bits, and the others get those of the first step without groups. */
static void a_shared_tensor_is_frozen(test *t)
{
    enum { SHARED = INPUTS * INPUTS, REST = CLASSES * INPUTS };
    static const dpt_parameter_group groups[] = {{.pattern = "w", .frozen = true}};
    float w[2][2][SHARED], rest[2][REST];
    session s;
    dpt_model *model = NULL;
    if (open_all(t, device_lists[1], &s) && CHECK_OK(dpt_model_create(s.context, "tied", &model)) &&
        CHECK_OK(dpt_model_finish(model, tied_layers(model))))
        for (size_t k = 0; k < 2; k++) {
            dpt_trainer *trainer = NULL;
            const dpt_trainer_options options = options_with(groups, k);
            if (!CHECK_OK(dpt_trainer_create(s.devices, model, s.data, &options, &trainer))) break;
            dpt_step_metrics m = {.size = sizeof m};
            CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "w", w[k][0], SHARED));
            CHECK_OK(dpt_trainer_step(trainer, &m));
            CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "w", w[k][1], SHARED));
            CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", rest[k], REST));
            dpt_trainer_destroy(trainer);
        }
    CHECK(memcmp(w[0][0], w[0][1], sizeof w[0][0]) != 0);
    CHECK(memcmp(w[1][0], w[1][1], sizeof w[1][0]) == 0);
    CHECK(memcmp(w[0][0], w[1][0], sizeof w[0][0]) == 0);
    CHECK(memcmp(rest[0], rest[1], sizeof rest[0]) == 0);
    dpt_model_destroy(model);
    session_end(&s);
}

/* Clipping scales by the norm of the tensors that are trained: the norm of their gradients is the
   limit. */
static void clipping_leaves_frozen_tensors_out(test *t)
{
    static const dpt_parameter_group groups[] = {{.pattern = "fc1.*", .frozen = true}};
    session s;
    dpt_trainer *trainer = NULL;
    dpt_trainer_options options = options_with(groups, 1);
    options.clip_norm = 1e-3f;
    if (open_all(t, device_lists[1], &s) &&
        CHECK_OK(dpt_trainer_create(s.devices, s.model, s.data, &options, &trainer))) {
        static const size_t trained[] = {1, 2, 5, 6};
        dpt_step_metrics m = {.size = sizeof m};
        state gradients;
        double sum = 0;
        CHECK_OK(dpt_trainer_step(trainer, &m));
        read_state(t, trainer, DPT_GRADIENT, &gradients);
        for (size_t i = 0; i < 4; i++)
            for (size_t e = 0; e < sizes[trained[i]]; e++)
                sum += pow((double)gradients.values[trained[i]][e], 2);
        CHECK_NEAR(sqrt(sum), 1e-3, 1e-8);
        for (size_t e = 0; e < sizes[0]; e++)
            CHECK(gradients.values[0][e] == 0);
    }
    dpt_trainer_destroy(trainer);
    session_end(&s);
}

static dpt_value one_layer(dpt_model *m)
{
    const dpt_linear_options last = {.size = sizeof last, .out = CLASSES, .no_bias = true};
    return dpt_linear(m, dpt_flatten(m, dpt_input(m, 1, 1, INPUTS)), "fc", &last);
}

/* The norm of gradients whose squares are no float32 numbers: with a weight w of 0, logits are 0,
   and a gradient is as large as the inputs.  PyTorch's clip_grad_norm_ makes zeros of them. */
static void clipping_scales_large_gradients(test *t)
{
    float x[INPUTS] = {1e20f, -2e20f, 3e20f, 0.0f, 1e18f}, w[CLASSES * INPUTS] = {0};
    const uint8_t label[] = {1};
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = 1,
                                       .height = 1,
                                       .width = 1,
                                       .channels = INPUTS,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = x,
                                       .labels = label};
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = 1, .clip_norm = 1.0f, .lr = 1.0f};
    session s = {.context = NULL};
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    double sum = 0;
    if (CHECK_OK(dpt_context_create(&s.context)) &&
        CHECK_OK(dpt_device_set_open(s.context, "cpu:threads=2", &s.devices)) &&
        CHECK_OK(dpt_dataset_from_memory(s.context, &memory, &s.data)) &&
        CHECK_OK(dpt_model_create(s.context, "large", &s.model)) &&
        CHECK_OK(dpt_model_finish(s.model, one_layer(s.model))) &&
        CHECK_OK(dpt_trainer_create(s.devices, s.model, s.data, &options, &trainer)) &&
        CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, "fc.weight", w, CLASSES * INPUTS)) &&
        CHECK_OK(dpt_trainer_step(trainer, &m)) &&
        CHECK_OK(dpt_trainer_get(trainer, 0, DPT_PARAMETER, "fc.weight", w, CLASSES * INPUTS)))
        for (size_t i = 0; i < CLASSES * INPUTS; i++)
            sum += pow((double)w[i], 2);
    CHECK_NEAR(sqrt(sum), 1.0, 1e-5);
    CHECK(w[INPUTS] > 0 && w[0] < 0);
    dpt_trainer_destroy(trainer);
    session_end(&s);
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

/* Names of tensors that are frozen, and what is left: bytes of tensors with their padding, and
   those of the running statistics, which are exchanged, too. */
typedef struct choice {
    const char *patterns[3];
    size_t trained;
} choice;

enum { PADDED = 64, STATISTICS = 2 * PADDED };

static const choice some_frozen[] = {
    {{"fc1.weight"}, 4 * PADDED},
    {{"fc2.weight"}, 4 * PADDED}, /* and not the bias of the layer */
    {{"fc2.bias"}, 4 * PADDED},   /* and not the weight of the layer */
    {{"bn.weight"}, 4 * PADDED},
    {{"bn.bias", "fc2.weight"}, 3 * PADDED},
    {{"fc1.*", "bn.*", "fc2.weight"}, PADDED},
};
enum { N_SOME = sizeof some_frozen / sizeof *some_frozen };

static size_t groups_of(const choice *s, dpt_parameter_group groups[3])
{
    size_t n = 0;
    for (; n < 3 && s->patterns[n]; n++)
        groups[n] = (dpt_parameter_group){.pattern = s->patterns[n], .frozen = true};
    return n;
}

static bool is_frozen(const dpt_parameter_group *groups, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(groups[i].pattern, name, 0) == 0) return true;
    return false;
}

/* The state after one step, in which gradients do not depend on what is frozen. */
static void step_once(test *t, const session *s, const dpt_trainer_options *o, state *out,
                      dpt_device_plan *plan)
{
    dpt_trainer *trainer = NULL;
    dpt_step_metrics m = {.size = sizeof m};
    *plan = (dpt_device_plan){.size = sizeof *plan};
    memset(out, 0, sizeof *out);
    if (!CHECK_OK(dpt_trainer_create(s->devices, s->model, s->data, o, &trainer))) {
        FAIL("%s", dpt_error_message(s->context));
        return;
    }
    CHECK_OK(dpt_trainer_step(trainer, &m));
    read_state(t, trainer, DPT_PARAMETER, out);
    CHECK_OK(dpt_trainer_plan(trainer, 0, plan));
    dpt_trainer_destroy(trainer);
}

static void check_some_frozen(test *t, const session *s, const choice *of, dpt_trainer_options o)
{
    dpt_parameter_group groups[3];
    dpt_device_plan whole, plan;
    state all, some;
    step_once(t, s, &o, &all, &whole);
    o.groups = groups;
    o.n_groups = groups_of(of, groups);
    step_once(t, s, &o, &some, &plan);
    for (size_t i = 0; i < TENSORS; i++)
        if (!is_frozen(groups, o.n_groups, names[i]) && !CHECK(equal(&all, &some, i)))
            FAIL("tensor %s, %s frozen", names[i], of->patterns[0]);
    REQUIRE(whole.gradient_bytes > 0);
    const size_t left = of->trained + STATISTICS, n_state = o.momentum != 0 ? 1 : 2;
    CHECK_SIZE(whole.gradient_bytes, 4 * (5 * PADDED + STATISTICS));
    CHECK_SIZE(plan.gradient_bytes, 4 * left);
    CHECK_SIZE(plan.optimizer_bytes, n_state * 4 * left);
    /* With the nodes of grains, which are as large as the gradients. */
    const size_t flat = 4 * (5 * PADDED + STATISTICS);
    const size_t n_gradients = (whole.parameter_bytes - flat) / whole.gradient_bytes;
    CHECK_SIZE(whole.parameter_bytes, flat + n_gradients * whole.gradient_bytes);
    CHECK_SIZE(plan.parameter_bytes, flat + n_gradients * plan.gradient_bytes);
    /* A batch-norm behind which nothing is trained exchanges no sums either. */
    if (whole.exchange_bytes > 0)
        CHECK(whole.exchange_bytes - plan.exchange_bytes >= 4 * (5 * PADDED - of->trained));
    if (whole.exchange_bytes > 0) CHECK(plan.exchange_bytes >= 4 * left);
}

/* What is trained gets the same bits as without frozen tensors, which have no gradient, no state of
   the optimizer and no part in what devices exchange. */
static void frozen_tensors_take_no_memory(test *t)
{
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2 * N_SOME; k++) {
            session s;
            if (open_all(t, device_lists[i], &s)) {
                dpt_trainer_options options = options_with(NULL, 0);
                options.deterministic = k >= N_SOME;
                check_some_frozen(t, &s, &some_frozen[k % N_SOME], options);
                options.momentum = 0;
                options.optimizer = DPT_OPTIMIZER_ADAMW;
                if (!options.deterministic) options.accumulate = 2;
                check_some_frozen(t, &s, &some_frozen[k % N_SOME], options);
            }
            session_end(&s);
        }
}

/* ---- Rates and decay ------------------------------------------------------------------------- */

static void check_near(test *t, const state *a, const state *b)
{
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t e = 0; e < sizes[i]; e++)
            if (!CHECK_NEAR((double)a->values[i][e], (double)b->values[i][e], 1e-5))
                FAIL("element %zu of %s", e, names[i]);
}

/* A factor for all tensors is another learning rate, and a decay for all is another decay. */
static void check_all(test *t, const session *s, dpt_optimizer optimizer)
{
    static const dpt_parameter_group all[] = {
        {.pattern = "*", .lr_factor = 0.3f, .weight_decay = 0.2f, .has_weight_decay = true}};
    state grouped[2], plain[2];
    dpt_trainer_options options = options_with(all, 1);
    options.optimizer = optimizer;
    if (optimizer == DPT_OPTIMIZER_ADAMW) options.momentum = 0;
    train(t, s, &options, grouped);
    options.groups = NULL;
    options.n_groups = 0;
    options.lr = 0.1f * 0.3f;
    options.weight_decay = 0.2f;
    train(t, s, &options, plain);
    check_near(t, &grouped[1], &plain[1]);
}

/* In the first step the tensors of a group move by factor times what they would move, and those of
   no group as without groups.  The first pattern that matches counts. */
static void check_some(test *t, const session *s)
{
    static const dpt_parameter_group some[] = {{.pattern = "fc2.bias", .lr_factor = 2},
                                               {.pattern = "fc2.*", .lr_factor = 0.25f},
                                               {.pattern = "bn.running_*", .frozen = true}};
    state ends[2][2];
    for (size_t k = 0; k < 2; k++) {
        dpt_trainer *trainer = NULL;
        dpt_step_metrics m = {.size = sizeof m};
        const dpt_trainer_options options = options_with(some, k == 0 ? 3 : 0);
        REQUIRE_OK(dpt_trainer_create(s->devices, s->model, s->data, &options, &trainer));
        read_state(t, trainer, DPT_PARAMETER, &ends[k][0]);
        CHECK_OK(dpt_trainer_step(trainer, &m));
        read_state(t, trainer, DPT_PARAMETER, &ends[k][1]);
        dpt_trainer_destroy(trainer);
    }
    for (size_t i = 0; i < TENSORS; i++) {
        const double factor = i == 6 ? 2 : i == 5 ? 0.25 : i == 3 || i == 4 ? 0 : 1;
        for (size_t e = 0; e < sizes[i]; e++) {
            const double moved = (double)ends[0][1].values[i][e] - (double)ends[0][0].values[i][e];
            const double plain = (double)ends[1][1].values[i][e] - (double)ends[1][0].values[i][e];
            if (!CHECK_NEAR(moved, factor * plain, 1e-6)) FAIL("element %zu of %s", e, names[i]);
        }
        if (factor == 1) CHECK(equal(&ends[0][1], &ends[1][1], i));
    }
}

static void groups_have_rates_and_decay(test *t)
{
    for (size_t i = 0; i < 2; i++) {
        session s;
        if (open_all(t, device_lists[i], &s)) {
            check_all(t, &s, DPT_OPTIMIZER_SGD);
            check_all(t, &s, DPT_OPTIMIZER_ADAMW);
            check_some(t, &s);
        }
        session_end(&s);
    }
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuses_groups(test *t)
{
    static const struct {
        dpt_parameter_group group;
        const char *reason;
    } cases[] = {
        {{.pattern = "fc3.*", .frozen = true}, "pattern fc3.* matches no tensor of model small"},
        {{.pattern = "fc1"}, "pattern fc1 matches no tensor"},
        {{.pattern = ""}, "has no pattern"},
        {{.pattern = "*", .lr_factor = -1}, "group *: a factor of -1 of the learning rate"},
        {{.pattern = "*", .lr_factor = NAN}, "group *: a factor"},
        {{.pattern = "*", .weight_decay = -1, .has_weight_decay = true}, "a weight decay of -1"},
    };
    session s;
    if (open_all(t, device_lists[0], &s))
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            dpt_trainer *trainer = NULL;
            const dpt_trainer_options options = options_with(&cases[i].group, 1);
            CHECK_STATUS(dpt_trainer_create(s.devices, s.model, s.data, &options, &trainer),
                         DPT_E_INVALID);
            CHECK_CONTAINS(dpt_error_message(s.context), cases[i].reason);
        }
    session_end(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"frozen tensors keep their bits", frozen_tensors_keep_their_bits},
        {"a shared tensor is frozen", a_shared_tensor_is_frozen},
        {"frozen tensors take no memory", frozen_tensors_take_no_memory},
        {"clipping leaves frozen tensors out", clipping_leaves_frozen_tensors_out},
        {"clipping scales large gradients", clipping_scales_large_gradients},
        {"groups have rates and decay", groups_have_rates_and_decay},
        {"refuses groups", refuses_groups},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
