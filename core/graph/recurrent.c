/* Recurrent layers over values (recurrent.h). */
#include "graph/recurrent.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

/* *x in row-major order in a tensor of its own, with samples or without, as `unsampled` tells. */
static bool take(dpt_model *model, dpt_value *x, bool unsampled, const char *what)
{
    if (!dpti_make_plain(model, x, what)) return false;
    if (dpti_node_at(model, *x)->unsampled != unsampled) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              unsampled
                                  ? "layer %s-%zu: its weights must be the same for all samples"
                                  : "layer %s-%zu: its input must depend on the network's input",
                              what, model->n_nodes);
        return false;
    }
    *x = dpti_row_major(model, *x);
    return x->id != 0;
}

/* take for weights of so many elements. */
static bool take_weights(dpt_model *model, dpt_value *w, size_t count, const char *what)
{
    if (!take(model, w, true, what)) return false;
    if (dpti_node_at(model, *w)->elements == count) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer %s-%zu: it needs %zu weights, and is given %zu", what,
                          model->n_nodes, count, dpti_node_at(model, *w)->elements);
    return false;
}

/* ---- Projections ----------------------------------------------------------------------------- */

dpt_value dpti_projection(dpt_model *model, dpt_value x, const dpti_linear_values *of)
{
    dpt_value w = of->w, bias = of->bias;
    x = dpti_for_each_sample(model, x);
    if (!take(model, &x, false, "projection") || !take(model, &w, true, "projection"))
        return (dpt_value){0};
    dpti_extents e = dpti_extents_of(model, x);
    const dpti_extents weights = dpti_extents_of(model, w);
    const size_t in = e.rank > 0 ? e.extent[e.rank - 1] : 1;
    const size_t out = weights.rank == 2 ? weights.extent[0] : 0;
    if (e.rank < 1 || out == 0 || weights.extent[1] != in)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer projection-%zu: its weights are no matrix whose rows have the "
            "%zu elements of an input",
            model->n_nodes, in);
    if (bias.id && !take_weights(model, &bias, out, "projection")) return (dpt_value){0};
    const size_t rows = dpti_node_at(model, x)->elements / in;
    e.extent[e.rank - 1] = out;
    dpti_node node = dpti_node_over(DPTI_NODE_PROJECTION, NULL, x);
    node.inputs[node.n_inputs++] = w.id - 1;
    if (bias.id) node.inputs[node.n_inputs++] = bias.id - 1;
    const dpti_shape shape = dpti_shape_dense(&e);
    dpti_set_shape(&node, &shape);
    node.repeat = rows > 1 ? rows : 0;
    node.forward = (dpt_op_desc){.kind = DPT_OP_LINEAR_FORWARD,
                                 .u.linear = {.in = in, .out = out, .has_bias = bias.id != 0}};
    return dpti_add_unnamed(model, "projection", node);
}

/* ---- Recurrences ----------------------------------------------------------------------------- */

/* `count`: the elements of the states of all sequences of a sample. */
static bool take_state(dpt_model *model, dpt_value *x, size_t count)
{
    if (!x->id) return true;
    if (!dpti_make_plain(model, x, "recurrent")) return false;
    *x = dpti_for_each_sample(model, *x);
    if (!x->id || !take(model, x, false, "recurrent")) return false;
    if (dpti_node_at(model, *x)->elements == count) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer recurrent-%zu: an initial state has %zu elements, not %zu",
                          model->n_nodes, dpti_node_at(model, *x)->elements, count);
    return false;
}

/* All inputs but x, of which a sample has so many sequences. */
static bool take_inputs(dpt_model *model, dpti_recurrence *of, size_t sequences)
{
    const size_t n = of->hidden, gates = dpt_recurrent_gates(of->cell);
    const bool has_new = of->cell == DPT_CELL_GRU_BEFORE;
    if ((of->c0.id && of->cell != DPT_CELL_LSTM) || (of->w_new.id != 0) != has_new) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer recurrent-%zu: an input that its cell does not have, or one "
                              "that is missing",
                              model->n_nodes);
        return false;
    }
    return take_weights(model, &of->w, dpt_recurrent_rows(of->cell) * n * n, "recurrent") &&
           (!has_new || take_weights(model, &of->w_new, n * n, "recurrent")) &&
           (!of->bias.id || take_weights(model, &of->bias, gates * n, "recurrent")) &&
           take_state(model, &of->h0, sequences * n) && take_state(model, &of->c0, sequences * n);
}

/* An LSTM has both initial states or none. */
static dpt_value zeros(dpt_model *model, size_t n)
{
    const float zero = 0.0f;
    const dpt_value x = dpti_add_constant(model, &(dpti_extents){.rank = 0}, &zero);
    return dpti_expand(model, x, &(dpti_extents){.rank = 1, .extent = {n}});
}

dpt_value dpti_recurrent(dpt_model *model, dpt_value x, const dpti_recurrence *options)
{
    dpti_recurrence of = *options;
    const size_t gates = dpt_recurrent_gates(of.cell);
    x = dpti_for_each_sample(model, x);
    if (!take(model, &x, false, "recurrent")) return (dpt_value){0};
    const dpti_extents e = dpti_extents_of(model, x);
    const size_t sequences = e.rank == 3 ? e.extent[0] : 1;
    if (of.cell == DPT_CELL_LSTM && (of.h0.id != 0) != (of.c0.id != 0))
        *(of.h0.id ? &of.c0 : &of.h0) = zeros(model, sequences * of.hidden);
    if (!take_inputs(model, &of, sequences)) return (dpt_value){0};
    if (e.rank < 2 || e.rank > 3 || e.extent[e.rank - 1] != gates * of.hidden)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer recurrent-%zu: its input is no sequence of %zu gates of %zu "
                               "elements",
                               model->n_nodes, gates, of.hidden);
    dpti_node node = dpti_node_over(DPTI_NODE_RECURRENT, NULL, x);
    const dpt_value inputs[] = {of.w, of.w_new, of.bias, of.h0, of.c0};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i].id) node.inputs[node.n_inputs++] = inputs[i].id - 1;
    dpti_extents out = e;
    out.extent[e.rank - 2] += of.gives_cell;
    out.extent[e.rank - 1] = of.hidden;
    const dpti_shape shape = dpti_shape_dense(&out);
    dpti_set_shape(&node, &shape);
    node.repeat = sequences > 1 ? sequences : 0;
    dpt_recurrent_desc d = {.cell = of.cell,
                            .length = e.extent[e.rank - 2],
                            .hidden = of.hidden,
                            .reverse = of.reverse,
                            .has_bias = of.bias.id != 0,
                            .has_initial = of.h0.id != 0,
                            .gives_cell = of.gives_cell};
    for (size_t i = 0; i < DPT_RECURRENT_GATES; i++)
        d.place[i] = of.place[i];
    for (size_t i = 0; i < DPT_RECURRENT_ACTIVATIONS; i++)
        d.activation[i] = of.activation[i];
    node.forward = (dpt_op_desc){.kind = DPT_OP_RECURRENT_FORWARD, .u.recurrent = d};
    if (!dpti_describes(model, "recurrent", &node.forward)) return (dpt_value){0};
    return dpti_add_unnamed(model, "recurrent", node);
}
