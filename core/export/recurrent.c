/* Recurrent layers: a projection and the recurrence over it (graph/recurrent.h) become one operator
   LSTM, GRU or RNN. */
#include "export/state.h"

#include "graph/tensor.h"

#include <string.h>

/* ---- Weights --------------------------------------------------------------------------------- */

/* A weight, which has no samples and lies in row-major order, with these extents. */
static dpti_draft_value *weights_of(dpti_exporter *e, size_t node, const dpti_extents *extents)
{
    const dpti_shape shape = dpti_shape_dense(extents);
    return dpti_export_shared(e, node, &shape);
}

dpt_status dpti_export_projection(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_linear_desc *d = &n->forward.u.linear;
    const dpti_shape *in = &e->model->nodes[n->inputs[0]].shape;
    const dpti_extents matrix = {.rank = 2, .extent = {d->out, d->in}},
                       row = {.rank = 1, .extent = {d->out}};
    dpti_draft_value *x =
        dpti_export_take(e, n->inputs[0], (dpti_export_want){in, DPTI_ONNX_FLOAT});
    dpti_draft_value *w = dpti_export_permute(e, weights_of(e, n->inputs[1], &matrix),
                                              &(dpti_draft_integers){.n = 2, .items = {1, 0}});
    x = dpti_draft_binary(e->draft, "MatMul", x, w);
    if (d->has_bias) x = dpti_draft_binary(e->draft, "Add", x, weights_of(e, n->inputs[2], &row));
    dpti_export_hold(e, node, x, &n->shape);
    return DPT_OK;
}

/* The operator of each cell. */
static const struct form {
    const char *op;
    uint8_t gates[DPT_RECURRENT_GATES]; /* of the cell, in the order of ONNX */
    size_t n_activations;
    dpt_activation activations[DPT_RECURRENT_ACTIVATIONS]; /* those of ONNX without a list */
} forms[] = {
    [DPT_CELL_RNN] = {"RNN", {0}, 1, {DPT_ACT_TANH}},
    [DPT_CELL_LSTM] = {"LSTM", {0, 3, 1, 2}, 3, {DPT_ACT_SIGMOID, DPT_ACT_TANH, DPT_ACT_TANH}},
    [DPT_CELL_GRU] = {"GRU", {1, 0, 2}, 2, {DPT_ACT_SIGMOID, DPT_ACT_TANH}},
    [DPT_CELL_GRU_BEFORE] = {"GRU", {1, 0, 2}, 2, {DPT_ACT_SIGMOID, DPT_ACT_TANH}},
};

/* A recurrence that is written. */
typedef struct layer {
    dpti_exporter *e;
    const dpti_node *node, *projection;
    const dpt_recurrent_desc *d;
    const struct form *form;
    size_t gates;
    size_t sequences; /* of a sample */
    size_t next;      /* the input of the node that is read next */
} layer;

/* What a node holds for each place of each sequence: (length, width), with the axis of sequences in
   front if a sample has several. */
static dpti_shape places(const layer *l, size_t length, size_t width)
{
    const dpti_extents one = {.rank = 2, .extent = {length, width}},
                       several = {.rank = 3, .extent = {l->sequences, length, width}};
    return dpti_shape_dense(l->sequences > 1 ? &several : &one);
}

/* Blocks first .. first + n - 1 of `hidden` rows, along axis 1. */
static dpti_draft_value *blocks(const layer *l, dpti_draft_value *x, size_t first, size_t n)
{
    const int64_t hidden = (int64_t)l->d->hidden, begin = (int64_t)first * hidden;
    dpti_draft *d = l->e->draft;
    dpti_draft_value *const inputs[] = {
        x, dpti_draft_axes(d, &(dpti_draft_integers){.n = 1, .items = {begin}}),
        dpti_draft_axes(d, &(dpti_draft_integers){.n = 1, .items = {begin + (int64_t)n * hidden}}),
        dpti_draft_axes(d, &(dpti_draft_integers){.n = 1, .items = {1}})};
    return dpti_draft_call(d, "Slice", inputs, 4)->output;
}

/* Weights (1, n * hidden, ...) with the first n gates of ONNX in the order of ONNX.  Blocks that
   stay side by side are cut out together. */
static dpti_draft_value *in_order(const layer *l, dpti_draft_value *x, size_t n)
{
    dpti_draft_value *parts[DPT_RECURRENT_GATES];
    size_t n_parts = 0;
    for (size_t i = 0, end; i < n; i = end) {
        const size_t first = l->d->place[l->form->gates[i]];
        for (end = i + 1; end < n && l->d->place[l->form->gates[end]] == first + end - i;)
            end++;
        if (end - i == n) return x;
        parts[n_parts++] = blocks(l, x, first, end - i);
    }
    dpti_draft_node *join = dpti_draft_call(l->e->draft, "Concat", parts, n_parts);
    dpti_draft_int(join, "axis", 1);
    return join->output;
}

/* The weights of the states: (1, gates * hidden, hidden). */
static dpti_draft_value *recurrent_weights(layer *l)
{
    const size_t hidden = l->d->hidden, n = dpt_recurrent_rows(l->d->cell);
    const dpti_extents all = {.rank = 3, .extent = {1, n * hidden, hidden}},
                       new = {.rank = 3, .extent = {1, hidden, hidden}};
    dpti_draft_value *both[2];
    both[0] = in_order(l, weights_of(l->e, l->node->inputs[l->next++], &all), n);
    if (n == l->gates) return both[0];
    both[1] = weights_of(l->e, l->node->inputs[l->next++], &new);
    dpti_draft_node *join = dpti_draft_call(l->e->draft, "Concat", both, 2);
    dpti_draft_int(join, "axis", 1);
    return join->output;
}

/* ---- Biases ---------------------------------------------------------------------------------- */

/* Zeros, (1, n). */
static dpti_draft_value *zeros(const layer *l, size_t n)
{
    dpti_draft *d = l->e->draft;
    const dpti_draft_integers extents = {.n = 2, .items = {1, (int64_t)n}};
    return dpti_draft_binary(d, "Expand", dpti_draft_number(d, 0), dpti_draft_axes(d, &extents));
}

/* The biases of the inputs and those of the states, (1, 2 * gates * hidden). */
static dpti_draft_value *biases(layer *l)
{
    const size_t n = l->gates * l->d->hidden;
    const dpti_extents row = {.rank = 2, .extent = {1, n}};
    const bool has_input = l->projection->forward.u.linear.has_bias;
    dpti_draft_value *both[2];
    if (!has_input && !l->d->has_bias) return &l->e->draft->absent;
    for (size_t i = 0; i < 2; i++) {
        if (!(i == 0 ? has_input : l->d->has_bias)) {
            both[i] = zeros(l, n);
            continue;
        }
        const size_t from = i == 0 ? l->projection->inputs[2] : l->node->inputs[l->next++];
        both[i] = in_order(l, weights_of(l->e, from, &row), l->gates);
    }
    dpti_draft_node *join = dpti_draft_call(l->e->draft, "Concat", both, 2);
    dpti_draft_int(join, "axis", 1);
    return join->output;
}

/* ---- The operator ---------------------------------------------------------------------------- */

static const dpti_draft_integers exchanged = {.n = 3, .items = {1, 0, 2}};

/* The next initial state, (1, samples, hidden); each sequence is a sample. */
static dpti_draft_value *state(layer *l)
{
    dpti_draft *d = l->e->draft;
    const dpti_extents one = {.rank = 1, .extent = {l->d->hidden}},
                       all = {.rank = 1, .extent = {l->sequences * l->d->hidden}};
    const dpti_shape shape = dpti_shape_dense(&all);
    dpti_draft_value *x = dpti_export_take(l->e, l->node->inputs[l->next++],
                                           (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
    if (l->sequences > 1) x = dpti_export_fold(l->e, x, &one);
    const dpti_draft_integers first = {.n = 1};
    return dpti_draft_binary(d, "Unsqueeze", x, dpti_draft_axes(d, &first));
}

static void add_attributes(const layer *l, dpti_draft_node *node)
{
    static const char *const names[] = {
        [DPT_ACT_RELU] = "Relu", [DPT_ACT_TANH] = "Tanh", [DPT_ACT_SIGMOID] = "Sigmoid"};
    const size_t n = l->form->n_activations;
    dpti_draft_words list = {.n = n};
    bool differs = false;
    for (size_t i = 0; i < n; i++) {
        list.items[i] = names[l->d->activation[i]];
        differs = differs || l->d->activation[i] != l->form->activations[i];
    }
    dpti_draft_int(node, "hidden_size", (int64_t)l->d->hidden);
    if (l->d->reverse) dpti_draft_text(node, "direction", "reverse");
    if (differs) dpti_draft_texts(l->e->draft, node, "activations", &list);
    if (l->d->cell == DPT_CELL_GRU) dpti_draft_int(node, "linear_before_reset", 1);
}

/* The operator, whose value is (length, 1, samples, hidden); each sequence is a sample. */
static dpti_draft_node *add_operator(layer *l)
{
    dpti_exporter *e = l->e;
    const size_t in = l->projection->forward.u.linear.in;
    const dpti_extents rows = {.rank = 3, .extent = {1, l->gates * l->d->hidden, in}};
    const dpti_shape all = places(l, l->d->length, in);
    dpti_draft_value *x =
        dpti_export_take(e, l->projection->inputs[0], (dpti_export_want){&all, DPTI_ONNX_FLOAT});
    if (l->sequences > 1)
        x = dpti_export_fold(e, x, &(dpti_extents){.rank = 2, .extent = {l->d->length, in}});
    dpti_draft_value *inputs[7];
    size_t n = 0;
    inputs[n++] = dpti_export_permute(e, x, &exchanged);
    inputs[n++] = in_order(l, weights_of(e, l->projection->inputs[1], &rows), l->gates);
    inputs[n++] = recurrent_weights(l);
    inputs[n++] = biases(l);
    inputs[n++] = &e->draft->absent; /* the lengths: all places are walked */
    if (l->d->has_initial) inputs[n++] = state(l);
    if (l->d->has_initial && l->d->cell == DPT_CELL_LSTM) inputs[n++] = state(l);
    while (inputs[n - 1] == &e->draft->absent)
        n--;
    dpti_draft_node *node = dpti_draft_call(e->draft, l->form->op, inputs, n);
    add_attributes(l, node);
    return node;
}

dpt_status dpti_export_recurrent(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    layer l = {.e = e,
               .node = n,
               .projection = &e->model->nodes[n->inputs[0]],
               .d = &n->forward.u.recurrent,
               .form = &forms[n->forward.u.recurrent.cell],
               .gates = dpt_recurrent_gates(n->forward.u.recurrent.cell),
               .sequences = n->repeat > 1 ? n->repeat : 1,
               .next = 1};
    dpti_draft *d = e->draft;
    if (l.projection->kind != DPTI_NODE_PROJECTION)
        return dpti_export_refuse(e, node, "its input is not the value of a projection");
    dpti_draft_node *op = add_operator(&l);
    const dpti_draft_integers direction = {.n = 1, .items = {1}};
    dpti_draft_value *y =
        dpti_draft_binary(d, "Squeeze", op->output, dpti_draft_axes(d, &direction));
    y = dpti_export_permute(e, y, &exchanged);
    if (l.d->gives_cell) {
        dpti_draft_value *const parts[] = {
            y, dpti_export_permute(e, dpti_draft_output(d, op, 2), &exchanged)};
        dpti_draft_node *join = dpti_draft_call(d, "Concat", parts, 2);
        dpti_draft_int(join, "axis", 1);
        y = join->output;
    }
    const dpti_shape shape = places(&l, l.d->length + l.d->gives_cell, l.d->hidden);
    const dpti_extents extents = dpti_shape_extents(&shape);
    if (l.sequences > 1) y = dpti_export_fold(e, y, &extents);
    dpti_export_hold(e, node, y, &shape);
    return DPT_OK;
}
