/* Tests networks over values with any number of axes: the losses of PyTorch for dpt_attention and
   for the functions of dptrain/tensor.h (tests/golden/make_values.py), on one device and on three,
   and what these functions refuse. */
#include "dptrain.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 6, LENGTH = 6, CHANNELS = 4, CLASSES = 3, STEPS = 5, MOST = 128, TENSORS = 6 };

/* ---- Networks -------------------------------------------------------------------------------- */

static dpt_value head(dpt_model *m, dpt_value x)
{
    return dpt_linear(m, dpt_flatten(m, x), "fc",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES});
}

static dpt_value attend(dpt_model *m, dpt_value x, dpt_attention_options o)
{
    o.size = sizeof o;
    return head(m, dpt_attention(m, x, "attention", &o));
}

static dpt_value plain(dpt_model *m, dpt_value x)
{
    return attend(m, x, (dpt_attention_options){.heads = 2});
}

static dpt_value causal(dpt_model *m, dpt_value x)
{
    return attend(m, x, (dpt_attention_options){.causal = true});
}

static dpt_value to_memory(dpt_model *m, dpt_value x)
{
    const dpt_slice_options first = {.size = sizeof first, .axis = 2, .count = 3};
    const dpt_value memory = dpt_as_image(m, dpt_slice(m, x, &first));
    return attend(m, x, (dpt_attention_options){.heads = 4, .memory = memory});
}

static dpt_value no_bias(dpt_model *m, dpt_value x)
{
    return attend(m, x, (dpt_attention_options){.heads = 2, .no_bias = true});
}

static dpt_value reduce(dpt_model *m, dpt_value x, dpt_reduce_options o)
{
    o.size = sizeof o;
    return dpt_reduce_axes(m, x, &o);
}

static dpt_value values(dpt_model *m, dpt_value x)
{
    static const size_t swapped[] = {1, 0}, sequence[] = {CHANNELS, LENGTH}, row[] = {1, CHANNELS},
                        positions[] = {LENGTH, CHANNELS}, wide[] = {CHANNELS, 6}, column[] = {4, 1},
                        halves[] = {3, 3};
    static const float numbers[] = {0.5f, -0.5f, 0.25f, 1.0f};
    dpt_value t = dpt_transpose(m, dpt_reshape(m, x, sequence, 2), swapped, 2), parts[2];
    const dpt_value p = dpt_parameter(m, "positions", positions, 2, NULL);
    const dpt_value first = dpt_expand(m, dpt_parameter(m, "first", row + 1, 1, numbers), row, 2);
    t = dpt_elementwise(m, "tanh(a + b)", (dpt_value[]){t, p}, 2);
    t = dpt_concatenate(m, (dpt_value[]){first, t}, 2, 0);
    dpt_split_axis(m, dpt_matmul(m, t, dpt_parameter(m, "w", wide, 2, NULL)), 1, halves, 2, parts);
    const dpt_value scores = dpt_matmul(m, parts[0], dpt_transpose(m, parts[1], swapped, 2));
    const dpt_value v = dpt_matmul(m, dpt_softmax(m, scores, 1), t);
    const dpt_slice_options back = {.size = sizeof back, .begin = LENGTH, .step = -2};
    const dpt_value r = dpt_slice(m, v, &back), c = dpt_constant(m, column, 2, numbers);
    const dpt_value mean = reduce(
        m, r,
        (dpt_reduce_options){.kind = DPT_REDUCTION_MEAN, .axes = {0}, .n_axes = 1, .keep = true});
    const dpt_value most =
        reduce(m, r, (dpt_reduce_options){.kind = DPT_REDUCTION_MAX, .axes = {1}, .n_axes = 1});
    const dpt_value least = reduce(m, r, (dpt_reduce_options){.kind = DPT_REDUCTION_MIN});
    const dpt_value y =
        dpt_elementwise(m, "a * b + c", (dpt_value[]){dpt_log_softmax(m, r, 0), mean, c}, 3);
    const dpt_value z = dpt_elementwise(
        m, "a + b * c + d", (dpt_value[]){y, most, least, dpt_reduce_axes(m, r, NULL)}, 4);
    return head(m, z);
}

/* With the tensors in PyTorch's order. */
static const struct {
    const char *name;
    dpt_value (*build)(dpt_model *model, dpt_value x);
    const char *tensors[TENSORS];
} networks[] = {
    {"attention",
     plain,
     {"attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight",
      "attention.out_proj.bias", "fc.weight", "fc.bias"}},
    {"causal",
     causal,
     {"attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight",
      "attention.out_proj.bias", "fc.weight", "fc.bias"}},
    {"memory",
     to_memory,
     {"attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight",
      "attention.out_proj.bias", "fc.weight", "fc.bias"}},
    {"no_bias",
     no_bias,
     {"attention.in_proj_weight", "attention.out_proj.weight", "fc.weight", "fc.bias"}},
    {"values", values, {"positions", "first", "w", "fc.weight", "fc.bias"}},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- The losses of PyTorch ------------------------------------------------------------------- */

static dpt_status make_data(dpt_context *context, dpt_dataset **out)
{
    float x[COUNT * LENGTH * CHANNELS];
    uint8_t labels[COUNT];
    for (int n = 0; n < COUNT; n++) {
        labels[n] = (uint8_t)(n % CLASSES);
        for (int i = 0; i < LENGTH * CHANNELS; i++)
            x[n * LENGTH * CHANNELS + i] = (float)((i * 31 + n * 7 + n * i) % 89 - 44) / 44;
    }
    return dpt_dataset_from_memory(context,
                                   &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                         .count = COUNT,
                                                         .height = 1,
                                                         .width = LENGTH,
                                                         .channels = CHANNELS,
                                                         .outputs = CLASSES,
                                                         .dtype = DPT_F32,
                                                         .images = x,
                                                         .labels = labels},
                                   out);
}

static void set_weights(test *t, dpt_trainer *trainer, const dpt_model *model, size_t network)
{
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_parameter_info info = {.size = sizeof info};
        float numbers[MOST];
        size_t which = 0;
        dpt_model_tensor(model, i, &info);
        while (which < TENSORS && networks[network].tensors[which] &&
               strcmp(networks[network].tensors[which], info.name) != 0)
            which++;
        if (!CHECK(which < TENSORS && networks[network].tensors[which])) FAIL("%s", info.name);
        REQUIRE(info.elements <= MOST);
        for (size_t e = 0; e < info.elements; e++)
            numbers[e] = (float)((int)((e * 29 + which * 17 + 5) % 97) - 48) / 160;
        CHECK_OK(dpt_trainer_set(trainer, DPT_PARAMETER, info.name, numbers, info.elements));
    }
}

static void check_losses(test *t, dpt_context *context, const char *devices, size_t network)
{
    dpt_device_set *set = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    char name[32];
    double expected;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = COUNT, .lr = 0.5f, .no_shuffle = true};
    FILE *file = test_open("golden/values.txt");
    REQUIRE(file);
    for (size_t i = 0; i < network; i++)
        for (int c = 0; c != '\n' && c != EOF;)
            c = fgetc(file);
    CHECK(fscanf(file, "%31s", name) == 1 && strcmp(name, networks[network].name) == 0);
    if (CHECK_OK(dpt_device_set_open(context, devices, &set)) &&
        CHECK_OK(make_data(context, &data)) && CHECK_OK(dpt_model_create(context, "net", &model)) &&
        CHECK_OK(dpt_model_finish(
            model, networks[network].build(model, dpt_input(model, 1, LENGTH, CHANNELS)))) &&
        CHECK_OK(dpt_trainer_create(set, model, data, &options, &trainer))) {
        set_weights(t, trainer, model, network);
        for (size_t i = 0; i < STEPS; i++) {
            dpt_step_metrics m = {.size = sizeof m};
            CHECK_OK(dpt_trainer_step(trainer, &m));
            CHECK(fscanf(file, "%lf", &expected) == 1);
            if (!CHECK_NEAR(m.loss, expected, 2e-6)) FAIL("%s, step %zu", name, i);
        }
    } else {
        FAIL("%s: %s", networks[network].name, dpt_error_message(context));
    }
    fclose(file);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(set);
}

static void losses_are_those_of_pytorch(test *t)
{
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < NETWORKS; i++) {
        check_losses(t, context, "cpu:threads=1", i);
        check_losses(t, context, "cpu:threads=1,cpu:threads=1,cpu:threads=1", i);
    }
    dpt_context_destroy(context);
}

/* ---- Shapes and refusals --------------------------------------------------------------------- */

static void axes_are_those_of_pytorch(test *t)
{
    dpt_context *context = NULL;
    dpt_model *m = NULL;
    size_t e[DPT_MAX_AXES] = {0};
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_model_create(context, "net", &m));
    const dpt_value x = dpt_input(m, 5, 3, 2);
    CHECK_SIZE(dpt_value_axes(m, x, e), 3);
    CHECK(e[0] == 2 && e[1] == 5 && e[2] == 3);
    const dpt_slice_options slice = {.size = sizeof slice, .axis = 1, .begin = 1, .step = 3};
    CHECK_SIZE(dpt_value_axes(m, dpt_slice(m, x, &slice), e), 3);
    CHECK(e[0] == 2 && e[1] == 2 && e[2] == 3);
    CHECK_SIZE(
        dpt_value_axes(m, reduce(m, x, (dpt_reduce_options){.axes = {1, 2}, .n_axes = 2}), e), 1);
    CHECK_SIZE(e[0], 2);
    CHECK_SIZE(dpt_value_axes(m, dpt_reduce_axes(m, x, NULL), e), 1);
    CHECK_SIZE(e[0], 1);
    CHECK_SIZE(dpt_value_axes(m, dpt_flatten(m, x), e), 1);
    CHECK_SIZE(e[0], 30);
    e[0] = 77;
    CHECK_SIZE(dpt_value_axes(m, (dpt_value){0}, e), 0);
    CHECK_SIZE(dpt_value_axes(NULL, x, e), 0);
    CHECK_SIZE(e[0], 77);
    dpt_model_destroy(m);
    dpt_context_destroy(context);
}

static const size_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, two_three[] = {2, 3}, twice[] = {0, 0},
                    hole[] = {1, 0};
static const float number[] = {1};

static void reshape_too_many(dpt_model *m, dpt_value x)
{
    (void)dpt_reshape(m, x, ones, 9);
}

static void reshape_other_count(dpt_model *m, dpt_value x)
{
    (void)dpt_reshape(m, x, two_three, 2);
}

static void reshape_nothing(dpt_model *m, dpt_value x)
{
    (void)dpt_reshape(m, x, NULL, 1);
}

static void transpose_twice(dpt_model *m, dpt_value x)
{
    (void)dpt_transpose(m, x, twice, 2);
}

static void expand_other(dpt_model *m, dpt_value x)
{
    (void)dpt_expand(m, x, two_three, 2);
}

static void slice_behind(dpt_model *m, dpt_value x)
{
    (void)dpt_slice(m, x,
                    &(dpt_slice_options){.size = sizeof(dpt_slice_options), .axis = 1, .begin = 5});
}

static void slice_no_axis(dpt_model *m, dpt_value x)
{
    (void)dpt_slice(m, x, &(dpt_slice_options){.size = sizeof(dpt_slice_options), .axis = 3});
}

static void slice_far(dpt_model *m, dpt_value x)
{
    (void)dpt_slice(
        m, x,
        &(dpt_slice_options){
            .size = sizeof(dpt_slice_options), .axis = 1, .count = 3, .step = INT32_MIN});
}

static void slice_huge(dpt_model *m, dpt_value x)
{
    (void)dpt_slice(
        m, x,
        &(dpt_slice_options){
            .size = sizeof(dpt_slice_options), .axis = 1, .count = SIZE_MAX / 2, .step = -3});
}

static void split_short(dpt_model *m, dpt_value x)
{
    dpt_value parts[2];
    dpt_split_axis(m, x, 1, two_three, 1, parts);
}

static void split_huge(dpt_model *m, dpt_value x)
{
    dpt_value parts[2];
    dpt_split_axis(m, x, 1, (const size_t[]){SIZE_MAX, 6}, 2, parts);
}

static void join_none(dpt_model *m, dpt_value x)
{
    (void)x;
    (void)dpt_concatenate(m, NULL, 0, 0);
}

static void multiply_vectors(dpt_model *m, dpt_value x)
{
    (void)dpt_matmul(m, dpt_flatten(m, x), x);
}

static void multiply_others(dpt_model *m, dpt_value x)
{
    (void)dpt_matmul(m, x, x);
}

static void soft_nowhere(dpt_model *m, dpt_value x)
{
    (void)dpt_softmax(m, x, 3);
}

static void reduce_nowhere(dpt_model *m, dpt_value x)
{
    (void)reduce(m, x, (dpt_reduce_options){.axes = {3}, .n_axes = 1});
}

static void reduce_too_much(dpt_model *m, dpt_value x)
{
    (void)reduce(m, x, (dpt_reduce_options){.n_axes = 9});
}

static void reduce_otherwise(dpt_model *m, dpt_value x)
{
    (void)reduce(m, x, (dpt_reduce_options){.kind = (dpt_reduction)9});
}

static void empty_parameter(dpt_model *m, dpt_value x)
{
    (void)x;
    (void)dpt_parameter(m, "p", hole, 2, NULL);
}

static void parameter_twice(dpt_model *m, dpt_value x)
{
    (void)x;
    (void)dpt_parameter(m, "p", ones, 1, number);
    (void)dpt_parameter(m, "p", ones, 1, NULL);
}

static void unnamed_parameter(dpt_model *m, dpt_value x)
{
    (void)x;
    (void)dpt_parameter(m, NULL, ones, 1, NULL);
}

static void constant_of_nothing(dpt_model *m, dpt_value x)
{
    (void)x;
    (void)dpt_constant(m, ones, 1, NULL);
}

static void image_of_a_row(dpt_model *m, dpt_value x)
{
    (void)dpt_as_image(m, dpt_reduce_axes(m, x, NULL));
}

static void refuses(test *t)
{
    static const struct {
        void (*build)(dpt_model *m, dpt_value x);
        const char *reason;
    } cases[] = {
        {reshape_too_many, "layer reshape-1: 9 axes are not 1 to 8"},
        {reshape_other_count, "layer reshape-1: 30 elements do not become 6"},
        {reshape_nothing, "layer reshape-1 needs the extents or the order of its axes"},
        {transpose_twice, "layer transpose-1: the order has not each of the 3 axes"},
        {expand_other, "layer expand-1: its input cannot be broadcast"},
        {slice_behind, "layer slice-1: 0 elements from 5 on, of axis 1, are not all there"},
        {slice_no_axis, "layer slice-1: its input has no axis 3; it has 3 axes"},
        {slice_far, "layer slice-1: 3 elements from 0 on"},
        {slice_huge, "from 0 on, of axis 1, are not all there"},
        {split_short, "layer split-1: the parts have not the 5 elements of axis 1"},
        {split_huge, "layer split-1: the parts have not the 5 elements of axis 1"},
        {join_none, "layer concatenate-1 has no inputs"},
        {multiply_vectors, "layer matmul-2: its inputs have 1 and 3 axes, not 2 to 5"},
        {multiply_others, "product"},
        {soft_nowhere, "layer softmax-1: its input has no axis 3"},
        {reduce_nowhere, "layer reduce-1: its input has no axis 3"},
        {reduce_too_much, "layer reduce-1: 9 axes are more than 8"},
        {reduce_otherwise, "layer reduce-1: no kind has the number 9"},
        {empty_parameter, "parameter p: axis 1 is empty"},
        {parameter_twice, "two parameters are called p"},
        {unnamed_parameter, "a layer needs a name"},
        {constant_of_nothing, "layer constant-1 needs numbers"},
        {image_of_a_row, "an image has 3 axes, this value has 1"},
    };
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpt_model *m = NULL;
        REQUIRE_OK(dpt_model_create(context, "net", &m));
        const dpt_value x = dpt_input(m, 5, 3, 2);
        cases[i].build(m, x);
        CHECK_STATUS(dpt_model_finish(m, dpt_flatten(m, x)), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(context), cases[i].reason);
        dpt_model_destroy(m);
    }
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"losses are those of PyTorch", losses_are_those_of_pytorch},
        {"axes are those of PyTorch", axes_are_those_of_pytorch},
        {"refuses", refuses},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
