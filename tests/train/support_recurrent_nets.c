/* Small networks with recurrent layers: every cell, initial states, weights that are shared and
   weights that are computed (nets.h). */
#include "graph/given.h"
#include "graph/recurrent.h"
#include "train/nets.h"

enum { LENGTH = 4, WIDTH = 8, HIDDEN = 3 };

static dpt_value head(dpt_model *m, dpt_value x)
{
    return dpt_linear(
        m, dpt_flatten(m, x), "fc",
        &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = NET_CLASSES});
}

static dpt_value weights(dpt_model *m, const char *name, size_t rows, size_t columns)
{
    const dpti_parameter p = {.shape = {rows, columns},
                              .rank = 2,
                              .role = DPTI_ROLE_TENSOR,
                              .fan_in = columns,
                              .fan_out = rows};
    return dpti_read_parameter(m, dpti_build_named(m, name, p));
}

static dpt_value biases(dpt_model *m, const char *name, size_t n)
{
    const dpti_parameter p = {
        .shape = {n}, .rank = 1, .role = DPTI_ROLE_BIAS, .fan_in = 4, .fan_out = 4};
    return dpti_read_parameter(m, dpti_build_named(m, name, p));
}

/* The rows first .. first + n - 1 of a value. */
static dpt_value rows_of(dpt_model *m, dpt_value x, size_t first, size_t n)
{
    return dpti_slice(m, x, (dpti_cut){.begin = first, .count = n, .step = 1});
}

/* The image as a sequence behind a convolution. */
static dpt_value sequence(dpt_model *m, dpt_value x)
{
    x = dpt_conv2d(m, x, "c",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 2,
                                         .kernel = {3, 3},
                                         .padding = {1, 1}});
    return dpti_reshape(m, x, &(dpti_extents){.rank = 2, .extent = {LENGTH, WIDTH}});
}

/* The public functions: two layers in both directions over an embedding; the last states. */
dpt_value net_lstm(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 3});
    y = dpt_lstm(m, y, "lstm",
                 &(dpt_recurrent_options){.size = sizeof(dpt_recurrent_options),
                                          .hidden = HIDDEN,
                                          .layers = 2,
                                          .bidirectional = true});
    return head(m, dpt_lstm(m, y, "last",
                            &(dpt_recurrent_options){.size = sizeof(dpt_recurrent_options),
                                                     .hidden = 2,
                                                     .bidirectional = true,
                                                     .no_bias = true,
                                                     .last = true}));
}

dpt_value net_gru(dpt_model *m, dpt_value x)
{
    dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 3});
    y = dpt_gru(m, y, "gru",
                &(dpt_recurrent_options){.size = sizeof(dpt_recurrent_options),
                                         .hidden = HIDDEN,
                                         .bidirectional = true});
    y = dpt_rnn(
        m, y, "rnn",
        &(dpt_recurrent_options){.size = sizeof(dpt_recurrent_options), .hidden = 4, .layers = 2});
    return head(m, dpt_rnn(m, y, "rectified",
                           &(dpt_recurrent_options){
                               .size = sizeof(dpt_recurrent_options), .hidden = 2, .relu = true}));
}

/* LSTMs in ONNX's order of the gates, from the end, with initial states that are computed, that are
   a parameter and that are there in part; both walk with the same weights.  The second half of the
   output is the state of the cell alone. */
dpt_value net_lstm_states(dpt_model *m, dpt_value x)
{
    const dpt_value s = sequence(m, x), w = weights(m, "w", 4 * HIDDEN, HIDDEN);
    const dpt_value gates =
        dpti_projection(m, s,
                        &(dpti_linear_values){.w = weights(m, "i", 4 * HIDDEN, WIDTH),
                                              .bias = biases(m, "b", 4 * HIDDEN)});
    dpt_value h0 =
        dpti_slice(m, rows_of(m, s, 1, 1), (dpti_cut){.axis = 1, .count = HIDDEN, .step = 2});
    h0 = dpti_formula(m, "tanh(a)", &h0, 1);
    dpti_recurrence cell = {.cell = DPT_CELL_LSTM,
                            .hidden = HIDDEN,
                            .place = {0, 2, 3, 1},
                            .activation = {DPT_ACT_SIGMOID, DPT_ACT_TANH, DPT_ACT_SIGMOID},
                            .reverse = true,
                            .w = w,
                            .h0 = h0,
                            .c0 = biases(m, "c0", HIDDEN)};
    const dpt_value a = dpti_recurrent(m, gates, &cell);
    cell.reverse = false;
    cell.gives_cell = true;
    cell.h0 = (dpt_value){0};
    const dpt_value b = dpti_recurrent(m, gates, &cell);
    const dpt_value both[] = {a, rows_of(m, b, LENGTH, 1)};
    return head(m, dpti_concatenate(m, both, 2, 0));
}

/* GRUs whose weights are parts of a parameter: one with the reset gate behind the product, one with
   the reset gate before it.  One walk begins with the last state of the other. */
dpt_value net_gru_states(dpt_model *m, dpt_value x)
{
    const dpt_value s = sequence(m, x), w = weights(m, "w", 6 * HIDDEN, HIDDEN);
    const dpt_value gates =
        dpti_projection(m, s, &(dpti_linear_values){.w = weights(m, "i", 3 * HIDDEN, WIDTH)});
    const dpt_value turned[] = {rows_of(m, w, HIDDEN, HIDDEN), rows_of(m, w, 0, HIDDEN),
                                rows_of(m, w, 2 * HIDDEN, HIDDEN)};
    const dpti_recurrence behind = {.cell = DPT_CELL_GRU,
                                    .hidden = HIDDEN,
                                    .place = {1, 0, 2},
                                    .activation = {DPT_ACT_SIGMOID, DPT_ACT_TANH},
                                    .w = dpti_concatenate(m, turned, 3, 0),
                                    .bias = biases(m, "b", 3 * HIDDEN)};
    const dpt_value a = dpti_recurrent(m, gates, &behind);
    const dpti_recurrence before = {.cell = DPT_CELL_GRU_BEFORE,
                                    .hidden = HIDDEN,
                                    .place = {1, 0, 2},
                                    .activation = {DPT_ACT_SIGMOID, DPT_ACT_TANH},
                                    .reverse = true,
                                    .w = rows_of(m, w, 3 * HIDDEN, 2 * HIDDEN),
                                    .w_new = rows_of(m, w, 5 * HIDDEN, HIDDEN),
                                    .h0 = rows_of(m, a, LENGTH - 1, 1)};
    const dpt_value b = dpti_recurrent(m, gates, &before);
    return head(m, dpti_formula(m, "a * b", (dpt_value[]){a, b}, 2));
}

/* A block of causal attention with a shortcut. */
dpt_value net_attention(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 4});
    const dpt_value a =
        dpt_attention(m, dpt_layer_norm(m, y, "n", NULL), "a",
                      &(dpt_attention_options){
                          .size = sizeof(dpt_attention_options), .heads = 2, .causal = true});
    return head(m, dpt_attention(m, dpt_add(m, y, a), "b", NULL));
}

/* Attention to another sequence, which is shorter. */
dpt_value net_memory(dpt_model *m, dpt_value x)
{
    const dpt_value y = dpt_embedding(
        m, x, "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = 7, .width = 4});
    const dpt_value memory = dpt_pool2d(m, y,
                                        &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                                              .kind = DPT_POOL_AVERAGE,
                                                              .kernel = {1, 2}});
    const dpt_value a =
        dpt_attention(m, y, "a",
                      &(dpt_attention_options){
                          .size = sizeof(dpt_attention_options), .heads = 4, .memory = memory});
    return head(m, dpt_attention(m, dpt_add(m, y, a), "b",
                                 &(dpt_attention_options){.size = sizeof(dpt_attention_options),
                                                          .memory = memory,
                                                          .no_bias = true}));
}
