/* Small networks that cover every way in which layers meet (nets.h). */
#include "train/nets.h"

/* ---- Building blocks ------------------------------------------------------------------------- */

static dpt_value conv(dpt_model *m, dpt_value x, const char *name, size_t stride,
                      dpt_activation activation)
{
    return dpt_conv2d(m, x, name,
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = 3,
                                            .kernel = {3, 3},
                                            .stride = {stride, stride},
                                            .padding = {1, 1},
                                            .activation = activation});
}

static dpt_value plain(dpt_model *m, dpt_value x, const char *name)
{
    return conv(m, x, name, 1, DPT_ACT_NONE);
}

static dpt_value norm(dpt_model *m, dpt_value x, const char *name, dpt_activation activation)
{
    return dpt_batch_norm(
        m, x, name,
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = activation});
}

static dpt_value linear(dpt_model *m, dpt_value x, const char *name, size_t n,
                        dpt_activation activation)
{
    return dpt_linear(m, x, name,
                      &(dpt_linear_options){
                          .size = sizeof(dpt_linear_options), .out = n, .activation = activation});
}

static dpt_value head(dpt_model *m, dpt_value x)
{
    return linear(m, dpt_flatten(m, x), "fc", NET_CLASSES, DPT_ACT_NONE);
}

static dpt_value pool(dpt_model *m, dpt_value x, dpt_pool_kind kind)
{
    return dpt_pool2d(m, x,
                      &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                            .kind = kind,
                                            .kernel = {3, 3},
                                            .stride = {1, 1},
                                            .padding = {1, 1}});
}

/* ---- Networks -------------------------------------------------------------------------------- */

static dpt_value norm_relu(dpt_model *m, dpt_value x)
{
    return head(m, dpt_activate(m, norm(m, plain(m, x, "c"), "n", DPT_ACT_NONE), DPT_ACT_RELU));
}

static dpt_value identity_shortcut(dpt_model *m, dpt_value x)
{
    const dpt_value y = norm(m, plain(m, x, "c1"), "n1", DPT_ACT_RELU);
    const dpt_value z = norm(m, plain(m, y, "c2"), "n2", DPT_ACT_NONE);
    return head(m, dpt_activate(m, dpt_add(m, z, y), DPT_ACT_RELU));
}

static dpt_value downsample(dpt_model *m, dpt_value x)
{
    const dpt_value y = norm(m, plain(m, x, "c1"), "n1", DPT_ACT_RELU);
    const dpt_value z = norm(m, conv(m, y, "c2", 2, DPT_ACT_NONE), "n2", DPT_ACT_NONE);
    const dpt_value s = norm(m, conv(m, y, "cs", 2, DPT_ACT_NONE), "ns", DPT_ACT_NONE);
    return head(m, dpt_activate(m, dpt_add(m, z, s), DPT_ACT_RELU));
}

static dpt_value downsample_first(dpt_model *m, dpt_value x)
{
    const dpt_value s = norm(m, conv(m, x, "cs", 2, DPT_ACT_NONE), "ns", DPT_ACT_NONE);
    const dpt_value y = norm(m, conv(m, x, "c1", 2, DPT_ACT_TANH), "n1", DPT_ACT_NONE);
    const dpt_value sum = dpt_activate(m, dpt_add(m, s, y), DPT_ACT_SIGMOID);
    return head(m, dpt_add(m, norm(m, plain(m, sum, "c2"), "n2", DPT_ACT_NONE), sum));
}

static dpt_value twice(dpt_model *m, dpt_value x)
{
    const dpt_value y = conv(m, x, "c", 1, DPT_ACT_TANH);
    return head(m, dpt_add(m, y, y));
}

static dpt_value norm_twice(dpt_model *m, dpt_value x)
{
    const dpt_value y = norm(m, plain(m, x, "c"), "n", DPT_ACT_NONE);
    return head(m, dpt_activate(m, dpt_add(m, y, y), DPT_ACT_TANH));
}

static dpt_value norm_of_input(dpt_model *m, dpt_value x)
{
    return head(m, conv(m, norm(m, x, "n", DPT_ACT_NONE), "c", 1, DPT_ACT_SIGMOID));
}

static dpt_value input_shortcut(dpt_model *m, dpt_value x)
{
    return head(m, dpt_add(m, dpt_add(m, norm(m, x, "n", DPT_ACT_NONE), x), x));
}

static dpt_value flat_norm(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_flatten(m, conv(m, x, "c", 2, DPT_ACT_TANH));
    const dpt_value z = norm(m, y, "n", DPT_ACT_RELU);
    return linear(m, dpt_add(m, z, y), "fc", NET_CLASSES, DPT_ACT_NONE);
}

static dpt_value norm_of_norm(dpt_model *m, dpt_value x)
{
    const dpt_value y = norm(m, plain(m, x, "c"), "n1", DPT_ACT_NONE);
    return head(m, dpt_activate(m, norm(m, y, "n2", DPT_ACT_NONE), DPT_ACT_TANH));
}

static dpt_value norm_is_the_output(dpt_model *m, dpt_value x)
{
    const dpt_value y = linear(m, dpt_flatten(m, x), "fc", NET_CLASSES, DPT_ACT_SIGMOID);
    return dpt_add(m, norm(m, y, "n", DPT_ACT_NONE), y);
}

static dpt_value layer_norms(dpt_model *m, dpt_value x)
{
    const dpt_norm_options relu = {.size = sizeof relu, .activation = DPT_ACT_RELU},
                           none = {.size = sizeof none, .epsilon = 1e-3f};
    dpt_value y = dpt_layer_norm(m, x, "l0", &none);
    y = dpt_layer_norm(m, conv(m, y, "c", 2, DPT_ACT_TANH), "l1", &relu);
    y = dpt_add(m, dpt_layer_norm(m, y, "l2", &none), y);
    y = dpt_layer_norm(m, dpt_flatten(m, y), "l3", &none);
    return head(m, y);
}

static dpt_value gelus(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_activate(m, x, DPT_ACT_GELU);
    y = conv(m, y, "c1", 2, DPT_ACT_GELU);
    y = norm(m, plain(m, y, "c2"), "n", DPT_ACT_GELU);
    y = dpt_add(m, y, dpt_activate(m, y, DPT_ACT_GELU));
    y = dpt_activate(m, conv(m, y, "c3", 1, DPT_ACT_TANH), DPT_ACT_GELU);
    y = linear(m, dpt_flatten(m, y), "fc1", 5, DPT_ACT_GELU);
    return head(m, y);
}

static dpt_value dropouts(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_dropout(m, conv(m, dpt_dropout(m, x, 0.2f), "c1", 2, DPT_ACT_TANH), 0.5f);
    y = dpt_add(m, y, dpt_dropout(m, y, 0.3f));
    y = dpt_activate(m, dpt_dropout(m, norm(m, y, "n", DPT_ACT_NONE), 0.25f), DPT_ACT_RELU);
    return head(m, y);
}

static dpt_value dropout_of_output(dpt_model *m, dpt_value x)
{
    return dpt_dropout(m, head(m, conv(m, x, "c", 1, DPT_ACT_SIGMOID)), 0.4f);
}

/* The shortcut is the only reader of a value with an activation: its gradient is passed on as it
   stands, and masked in place. */
static dpt_value aliased(dpt_model *m, dpt_value x)
{
    const dpt_value a = conv(m, x, "c1", 1, DPT_ACT_TANH);
    const dpt_value b = norm(m, plain(m, x, "c2"), "n2", DPT_ACT_NONE);
    const dpt_value c = dpt_activate(m, dpt_add(m, a, b), DPT_ACT_SIGMOID);
    const dpt_value d = norm(m, plain(m, c, "c3"), "n3", DPT_ACT_SIGMOID);
    const dpt_value e = norm(m, c, "n4", DPT_ACT_NONE);
    return head(m, dpt_activate(m, dpt_add(m, e, d), DPT_ACT_TANH));
}

static dpt_value sum_of_three(dpt_model *m, dpt_value x)
{
    const dpt_value a = conv(m, x, "c1", 1, DPT_ACT_SIGMOID);
    const dpt_value b = norm(m, plain(m, a, "c2"), "n2", DPT_ACT_NONE);
    const dpt_value c = norm(m, plain(m, a, "c3"), "n3", DPT_ACT_NONE);
    return head(m, dpt_activate(m, dpt_add(m, dpt_add(m, a, b), c), DPT_ACT_RELU));
}

/* A batch-norm whose output has two readers computes neither the sum nor the activation. */
static dpt_value two_readers(dpt_model *m, dpt_value x)
{
    const dpt_value y = norm(m, plain(m, x, "c1"), "n1", DPT_ACT_NONE);
    const dpt_value z = dpt_add(m, dpt_activate(m, y, DPT_ACT_RELU), plain(m, y, "c2"));
    return head(m, z);
}

static dpt_value two_readers_of_a_term(dpt_model *m, dpt_value x)
{
    const dpt_value a = conv(m, x, "c1", 1, DPT_ACT_TANH);
    const dpt_value y = norm(m, plain(m, x, "c2"), "n2", DPT_ACT_NONE);
    return head(m, dpt_add(m, dpt_add(m, a, y), plain(m, y, "c3")));
}

static dpt_value before_activation(dpt_model *m, dpt_value x)
{
    const dpt_value a = plain(m, x, "c0");
    dpt_value y = norm(m, a, "n1", DPT_ACT_RELU);
    y = norm(m, plain(m, y, "c1"), "n2", DPT_ACT_RELU);
    y = dpt_add(m, conv(m, y, "c2", 1, DPT_ACT_TANH), a);
    return head(m, norm(m, y, "n3", DPT_ACT_RELU));
}

static dpt_value pooled(dpt_model *m, dpt_value x)
{
    const dpt_value a = norm(m, plain(m, x, "c1"), "n1", DPT_ACT_RELU);
    const dpt_value b = dpt_add(m, pool(m, a, DPT_POOL_MAX), pool(m, a, DPT_POOL_AVERAGE));
    return head(m, dpt_global_average_pool(m, dpt_add(m, a, b)));
}

static dpt_value averaged(dpt_model *m, dpt_value x)
{
    return head(m, dpt_global_average_pool(m, norm(m, plain(m, x, "c"), "n", DPT_ACT_NONE)));
}

static dpt_value activations(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_activate(m, dpt_activate(m, x, DPT_ACT_TANH), DPT_ACT_SIGMOID);
    y = dpt_activate(m, conv(m, y, "c", 2, DPT_ACT_RELU), DPT_ACT_TANH);
    y = linear(m, dpt_activate(m, dpt_flatten(m, y), DPT_ACT_RELU), "fc1", 4, DPT_ACT_SIGMOID);
    return dpt_activate(m, head(m, y), DPT_ACT_TANH);
}

/* A vector of one element. */
static dpt_value gate2(dpt_model *m, dpt_value x)
{
    return linear(m, x, "gate2", 1, DPT_ACT_NONE);
}

/* SiLU, a gate for each channel (squeeze-and-excitation), a gate for each pixel, products of a
   value with itself, and vectors. */
static dpt_value formulas(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_elementwise(m, "a * sigmoid(a)", (dpt_value[]){plain(m, x, "c1")}, 1);
    const dpt_value mean = dpt_flatten(m, dpt_global_average_pool(m, y));
    const dpt_value gate = linear(m, mean, "gate", 3, DPT_ACT_SIGMOID);
    y = dpt_elementwise(m, "a * b", (dpt_value[]){y, gate}, 2);
    const dpt_value mask =
        dpt_conv2d(m, y, "mask",
                   &(dpt_conv2d_options){
                       .size = sizeof(dpt_conv2d_options), .out_channels = 1, .kernel = {1, 1}});
    y = dpt_elementwise(m, "tanh(b) * (a - c) + a * a / (1 + exp(b)) + 0.5 * b",
                        (dpt_value[]){norm(m, y, "n", DPT_ACT_TANH), mask, y}, 3);
    y = dpt_elementwise(m, "select(less(a, 0), exp(min(a, 0)) - 1, a) + softplus(a - b)",
                        (dpt_value[]){y, mask}, 2);
    y = linear(m, dpt_flatten(m, y), "fc1", 4, DPT_ACT_TANH);
    y = dpt_elementwise(m, "max(a, 0.3 * a) * b - sqrt(1 + c * c)",
                        (dpt_value[]){y, y, gate2(m, y)}, 3);
    return head(m, y);
}

static const float class_weights[NET_CLASSES] = {0.5f, 3, 1.25f};

const net nets[] = {
    {.name = "norm, relu", .build = norm_relu},
    {.name = "identity shortcut", .build = identity_shortcut},
    {.name = "downsampling shortcut", .build = downsample},
    {.name = "downsampling shortcut first", .build = downsample_first},
    {.name = "the same value twice", .build = twice, .n_unfused = 1},
    {.name = "the same norm twice", .build = norm_twice, .n_unfused = 2},
    {.name = "norm of the input", .build = norm_of_input},
    {.name = "the input as shortcut", .build = input_shortcut, .n_unfused = 1},
    {.name = "norm behind flatten", .build = flat_norm, .n_unfused = 1},
    {.name = "norm of a norm", .build = norm_of_norm},
    {.name = "norm is the output", .build = norm_is_the_output},
    {.name = "layer-norms", .build = layer_norms, .n_unfused = 2},
    {.name = "GELUs", .build = gelus, .n_unfused = 7},
    {.name = "dropouts", .build = dropouts, .n_unfused = 2},
    {.name = "dropout of the output", .build = dropout_of_output},
    {.name = "shortcuts with activations", .build = aliased},
    {.name = "sum of three", .build = sum_of_three},
    {.name = "two readers", .build = two_readers, .n_unfused = 2},
    {.name = "two readers of a term", .build = two_readers_of_a_term, .n_unfused = 2},
    {.name = "norm before convolution", .build = before_activation, .n_unfused = 1},
    {.name = "pooled", .build = pooled, .n_unfused = 2},
    {.name = "averaged", .build = averaged},
    {.name = "activations", .build = activations, .n_unfused = 4},
    {.name = "formulas", .build = formulas},
    {.name = "views", .build = net_views},
    {.name = "broadcasts", .build = net_broadcasts},
    {.name = "extremes", .build = net_extremes},
    {.name = "joins", .build = net_joins},
    {.name = "axes", .build = net_axes},
    {.name = "products", .build = net_products},
    {.name = "lstm", .build = net_lstm, .ids = true},
    {.name = "attention", .build = net_attention, .ids = true, .n_unfused = 1},
    {.name = "attention to a memory", .build = net_memory, .ids = true, .n_unfused = 1},
    {.name = "gru", .build = net_gru, .ids = true},
    {.name = "lstm_states", .build = net_lstm_states},
    {.name = "gru_states", .build = net_gru_states},
    {.name = "reshapes", .build = net_reshapes, .n_unfused = 1},
    {.name = "embeddings", .build = net_embeddings, .ids = true},
    {.name = "tokens", .build = net_tokens, .ids = true},
    {.name = "a label a token", .build = net_token_labels, .ids = true, .n_labels = NET_IDS},
    {.name = "logits of tokens", .build = net_token_logits, .ids = true, .n_labels = NET_IDS},
    {.name = "logits of tokens, classes weighted",
     .build = net_token_logits,
     .ids = true,
     .n_labels = NET_IDS,
     .class_weights = class_weights},
    {.name = "logits of tokens, smoothed",
     .build = net_token_logits,
     .ids = true,
     .n_labels = NET_IDS,
     .smoothing = 0.2f},
    {.name = "a label a pixel",
     .build = net_pixels,
     .n_labels = NET_SIDE * NET_SIDE,
     .smoothing = 0.2f},
    {.name = "class weights", .build = norm_is_the_output, .class_weights = class_weights},
    {.name = "class weights of pixels",
     .build = net_pixels,
     .n_labels = NET_SIDE * NET_SIDE,
     .class_weights = class_weights},
    {.name = "squared error", .build = identity_shortcut, .loss = DPT_LOSS_SQUARED_ERROR},
    {.name = "squared error of a norm",
     .build = norm_is_the_output,
     .loss = DPT_LOSS_SQUARED_ERROR},
    {.name = "absolute error", .build = identity_shortcut, .loss = DPT_LOSS_ABSOLUTE_ERROR},
    {.name = "Huber", .build = norm_is_the_output, .loss = DPT_LOSS_HUBER, .delta = 0.75f},
    {.name = "binary cross-entropy",
     .build = identity_shortcut,
     .loss = DPT_LOSS_BINARY_CROSS_ENTROPY},
    {.name = "label smoothing", .build = norm_is_the_output, .smoothing = 0.3f},
    {.name = "transposed convolutions", .build = net_transposed},
    {.name = "computed filters", .build = net_filters},
};

const size_t n_nets = sizeof nets / sizeof *nets;

dpt_status net_create(dpt_context *context, const net *n, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "net", out));
    const dpt_value x =
        n->ids ? dpt_input_ids(*out, NET_IDS) : dpt_input(*out, NET_SIDE, NET_SIDE, NET_CHANNELS);
    const dpt_value y = n->build(*out, x);
    return n->n_labels ? dpt_model_finish_per_pixel(*out, y) : dpt_model_finish(*out, y);
}
