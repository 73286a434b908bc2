/* Tests the shapes of element-wise layers, and layers that are refused. */
#include "dptrain.h"
#include "harness.h"

/* A model with an image of 4x4x3, its mean (1,1,3), one channel of it, and two vectors. */
typedef struct setting {
    dpt_context *context;
    dpt_model *model;
    dpt_value image, mean, channel, vector, scalar, flat, other_flat;
} setting;

static bool create(test *t, setting *s)
{
    if (!CHECK_OK(dpt_context_create(&s->context)) ||
        !CHECK_OK(dpt_model_create(s->context, "net", &s->model)))
        return false;
    dpt_model *m = s->model;
    s->image = dpt_input(m, 4, 4, 3);
    s->mean = dpt_global_average_pool(m, s->image);
    s->channel =
        dpt_conv2d(m, s->image, "one",
                   &(dpt_conv2d_options){
                       .size = sizeof(dpt_conv2d_options), .out_channels = 1, .kernel = {1, 1}});
    s->flat = dpt_flatten(m, s->image);
    s->other_flat = dpt_linear(
        m, s->flat, "same", &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 48});
    s->vector = dpt_linear(m, s->flat, "three",
                           &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 3});
    s->scalar = dpt_linear(m, s->flat, "scalar",
                           &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 1});
    return CHECK(s->scalar.id != 0);
}

static void destroy(setting *s)
{
    dpt_model_destroy(s->model);
    dpt_context_destroy(s->context);
}

static void has_shape(test *t, const setting *s, dpt_value y, const size_t shape[3])
{
    dpt_layer_info info = {.size = sizeof info};
    if (!CHECK(y.id != 0)) return;
    dpt_model_layer(s->model, y.id - 1, &info);
    CHECK_TEXT(info.kind, "elementwise");
    CHECK_SIZE(info.height, shape[0]);
    CHECK_SIZE(info.width, shape[1]);
    CHECK_SIZE(info.channels, shape[2]);
}

static void shapes(test *t)
{
    setting s = {.context = NULL};
    if (create(t, &s)) {
        dpt_model *m = s.model;
        const size_t image[] = {4, 4, 3}, mean[] = {1, 1, 3}, flat[] = {1, 1, 48};
        has_shape(t, &s, dpt_elementwise(m, "exp(a)", &s.image, 1), image);
        has_shape(t, &s, dpt_elementwise(m, "a * b", (dpt_value[]){s.mean, s.channel}, 2), image);
        has_shape(t, &s, dpt_elementwise(m, "a - b", (dpt_value[]){s.image, s.vector}, 2), image);
        has_shape(t, &s, dpt_elementwise(m, "a + b", (dpt_value[]){s.vector, s.scalar}, 2), mean);
        has_shape(t, &s, dpt_elementwise(m, "a * b", (dpt_value[]){s.flat, s.scalar}, 2), flat);
        has_shape(t, &s,
                  dpt_elementwise(m, "a + b + c + d",
                                  (dpt_value[]){s.scalar, s.image, s.mean, s.channel}, 4),
                  image);
    }
    destroy(&s);
}

/* A model can fail once: every refusal has a model of its own. */
static void refuses(test *t, const char *formula, size_t first, const char *message)
{
    setting s = {.context = NULL};
    if (create(t, &s)) {
        const dpt_value pairs[][2] = {{s.image, s.image},
                                      {s.flat, s.other_flat},
                                      {s.image, s.other_flat},
                                      {s.image, s.flat},
                                      {s.image, {0}}};
        CHECK_SIZE(dpt_elementwise(s.model, formula, pairs[first], 2).id, 0);
        CHECK_STATUS(dpt_model_finish(s.model, s.scalar), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), message);
    }
    destroy(&s);
}

static void refusals(test *t)
{
    refuses(t, "a +", 0, "\"a +\": a number, an input or a function is missing at character 4");
    refuses(t, "a", 0, "it does not read all of its inputs");
    refuses(t, "a + b", 1, "its inputs were flattened from different shapes");
    refuses(t, "a + b", 2, "the shapes of its inputs do not agree");
    refuses(t, "a + b", 3, "the shapes of its inputs do not agree");
    refuses(t, "a + b", 4, "has no input value");
    refuses(t, NULL, 0, "needs a formula and 1 to 4 inputs");
    refuses(t, "pow(a, b) * pow(b, a) * pow(a, a) * pow(b, b) * pow(a, a * b) * pow(b, a + b)", 0,
            "its derivative is too long");
}

static void too_many_inputs(test *t)
{
    setting s = {.context = NULL};
    if (create(t, &s)) {
        const dpt_value five[] = {s.image, s.image, s.image, s.image, s.image};
        CHECK_SIZE(dpt_elementwise(s.model, "a", five, 5).id, 0);
        CHECK_STATUS(dpt_model_finish(s.model, s.scalar), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), "1 to 4 inputs");
        CHECK_SIZE(dpt_elementwise(s.model, "a", five, 1).id, 0); /* the failure sticks */
    }
    destroy(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"shapes", shapes}, {"refusals", refusals}, {"too many inputs", too_many_inputs}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
