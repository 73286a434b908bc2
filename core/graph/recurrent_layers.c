/* The recurrent layers of the public interface: dpt_lstm, dpt_gru and dpt_rnn. */
#include "graph/recurrent.h"
#include "graph/sequence.h"
#include "graph/steps.h"

#include <stdio.h>

/* A layer that is being added. */
typedef struct layer {
    const char *name;
    const dpt_recurrent_options *options;
    dpti_recurrence cell;
    size_t gates;
    size_t level; /* the layer of several that is being added, from 0 */
} layer;

/* The parameter NAME.WHAT_lN, or NAME.WHAT_lN_reverse, as in PyTorch. */
typedef struct tensor {
    const char *what;
    size_t columns; /* 0: a vector */
} tensor;

static dpt_value add_tensor(dpt_model *model, const layer *l, bool reverse, tensor t)
{
    const size_t rows = l->gates * l->options->hidden;
    char suffix[64];
    snprintf(suffix, sizeof suffix, "%s_l%zu%s", t.what, l->level, reverse ? "_reverse" : "");
    return dpti_read_parameter(
        model, dpti_build_parameter(
                   model, l->name, suffix,
                   (dpti_parameter){.shape = {rows, t.columns},
                                    .rank = t.columns > 0 ? 2 : 1,
                                    /* all begin within +-1/sqrt(hidden) */
                                    .fan_in = l->options->hidden,
                                    .fan_out = rows,
                                    .role = t.columns > 0 ? DPTI_ROLE_TENSOR : DPTI_ROLE_BIAS}));
}

/* One level in one direction: x (length, columns) -> (length, hidden). */
static dpt_value add_direction(dpt_model *model, const layer *l, dpt_value x, bool reverse)
{
    const size_t hidden = l->options->hidden;
    const dpti_extents e = dpti_extents_of(model, x);
    dpti_recurrence cell = l->cell;
    dpti_linear_values input = {
        .w = add_tensor(model, l, reverse, (tensor){"weight_ih", e.extent[1]})};
    cell.reverse = reverse;
    cell.w = add_tensor(model, l, reverse, (tensor){"weight_hh", hidden});
    if (!l->options->no_bias) {
        const dpt_value both[] = {add_tensor(model, l, reverse, (tensor){"bias_ih", 0}),
                                  add_tensor(model, l, reverse, (tensor){"bias_hh", 0})};
        const bool behind = cell.cell == DPT_CELL_GRU;
        input.bias = behind ? both[0] : dpti_formula(model, "a + b", both, 2);
        if (behind) cell.bias = both[1];
    }
    x = dpti_projection(model, x, &input);
    if (!model->steps) return dpti_recurrent(model, x, &cell);
    if (cell.cell != DPT_CELL_LSTM || l->options->bidirectional)
        return dpti_steps_refuse(model, l->name,
                                 "recurrent layers other than an LSTM in one direction");
    return dpti_steps_lstm(model, x, &cell);
}

static dpt_value add_level(dpt_model *model, const layer *l, dpt_value x)
{
    dpt_value both[2];
    both[0] = add_direction(model, l, x, false);
    if (!l->options->bidirectional || !both[0].id) return both[0];
    both[1] = add_direction(model, l, x, true);
    return both[1].id ? dpti_concatenate(model, both, 2, 1) : both[1];
}

/* The states behind the last place of each direction, side by side. */
static dpt_value last_states(dpt_model *model, const layer *l, dpt_value x)
{
    const size_t hidden = l->options->hidden;
    if (!x.id) return x;
    const size_t length = dpti_extents_of(model, x).extent[0];
    const dpti_cut last = {.begin = length - 1, .count = 1, .step = 1};
    if (!l->options->bidirectional) return dpti_slice(model, x, last);
    const dpti_cut ahead = {.axis = 1, .count = hidden, .step = 1};
    const dpti_cut back = {.axis = 1, .begin = hidden, .count = hidden, .step = 1};
    const dpti_cut first = {.count = 1, .step = 1};
    const dpt_value both[] = {dpti_slice(model, dpti_slice(model, x, ahead), last),
                              dpti_slice(model, dpti_slice(model, x, back), first)};
    return both[1].id ? dpti_concatenate(model, both, 2, 1) : both[1];
}

static dpt_value add_layer(dpt_model *model, dpt_value x, layer l)
{
    const dpt_recurrent_options *o = l.options;
    const size_t levels = o->layers > 0 ? o->layers : 1;
    l.gates = dpt_recurrent_gates(l.cell.cell);
    l.cell.hidden = o->hidden;
    for (size_t i = 0; i < l.gates; i++)
        l.cell.place[i] = (uint8_t)i;
    if (!dpti_is_sequence(model, x, l.name)) return (dpt_value){0};
    if (o->hidden == 0)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: it has no hidden elements", l.name);
    x = dpti_as_sequence(model, x);
    for (l.level = 0; l.level < levels && x.id; l.level++)
        x = add_level(model, &l, x);
    return dpti_sequence_as_image(model, o->last ? last_states(model, &l, x) : x);
}

static bool may_add(dpt_model *model, dpt_value x, const char *name, const void *options)
{
    return dpti_usable(model, x, name ? name : "recurrent") && dpti_name_is_new(model, name) &&
           dpti_has_options(model, name, options);
}

dpt_value dpt_lstm(dpt_model *model, dpt_value x, const char *name,
                   const dpt_recurrent_options *options)
{
    dpt_recurrent_options o;
    const dpti_sized given = {"dpt_recurrent_options", options, sizeof o};
    if (!may_add(model, x, name, options) || !dpti_take_options(model, name, &given, &o))
        return (dpt_value){0};
    return add_layer(
        model, x,
        (layer){.name = name,
                .options = &o,
                .cell = {.cell = DPT_CELL_LSTM,
                         .activation = {DPT_ACT_SIGMOID, DPT_ACT_TANH, DPT_ACT_TANH}}});
}

dpt_value dpt_gru(dpt_model *model, dpt_value x, const char *name,
                  const dpt_recurrent_options *options)
{
    dpt_recurrent_options o;
    const dpti_sized given = {"dpt_recurrent_options", options, sizeof o};
    if (!may_add(model, x, name, options) || !dpti_take_options(model, name, &given, &o))
        return (dpt_value){0};
    return add_layer(
        model, x,
        (layer){.name = name,
                .options = &o,
                .cell = {.cell = DPT_CELL_GRU, .activation = {DPT_ACT_SIGMOID, DPT_ACT_TANH}}});
}

dpt_value dpt_rnn(dpt_model *model, dpt_value x, const char *name,
                  const dpt_recurrent_options *options)
{
    dpt_recurrent_options o;
    const dpti_sized given = {"dpt_recurrent_options", options, sizeof o};
    if (!may_add(model, x, name, options) || !dpti_take_options(model, name, &given, &o))
        return (dpt_value){0};
    return add_layer(model, x,
                     (layer){.name = name,
                             .options = &o,
                             .cell = {.cell = DPT_CELL_RNN,
                                      .activation = {o.relu ? DPT_ACT_RELU : DPT_ACT_TANH}}});
}
