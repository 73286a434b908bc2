/* LSTM, GRU and RNN: for each direction a linear layer over all places of the sequence, and a
   recurrence (graph/recurrent.h). */
#include "graph/recurrent.h"

#include "import/state.h"

#include <string.h>

/* The inputs of the operators, in ONNX's order. */
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_PEEPHOLES };

/* A node. */
typedef struct layer {
    dpti_importer *im;
    dpti_recurrence cell; /* without its weights */
    size_t gates, hidden, n_directions;
    bool batch_first;     /* layout 1 */
    size_t sequences;     /* of a sample */
    size_t length, steps; /* of the input; that are walked */
    dpt_value x;          /* (sequences, steps, in) */
    dpt_value w, r, b;    /* (directions, ...); b: id 0 for none */
    dpt_value h, c;       /* initial states with the axes of the file; id 0: zeros */
    const char *direction;
} layer;

/* ---- Attributes ------------------------------------------------------------------------------ */

static bool activation_of(const char *name, dpt_activation *out)
{
    static const struct {
        const char *name;
        dpt_activation kind;
    } known[] = {{"tanh", DPT_ACT_TANH}, {"sigmoid", DPT_ACT_SIGMOID}, {"relu", DPT_ACT_RELU}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t k = 0; /* names differ in case between writers */
        while (name[k] && (name[k] | 0x20) == known[i].name[k])
            k++;
        if (name[k] || known[i].name[k]) continue;
        *out = known[i].kind;
        return true;
    }
    return false;
}

/* The activations of one direction, which begin at `first` in the list of the file. */
static dpt_status read_activations(layer *l, size_t first)
{
    const dpt_recurrent_cell cell = l->cell.cell;
    const size_t n = cell == DPT_CELL_RNN ? 1 : cell == DPT_CELL_LSTM ? 3 : 2;
    const dpti_onnx_attribute *list = dpti_onnx_find(l->im->node, "activations");
    for (size_t i = 0; i < n; i++) {
        l->cell.activation[i] = i == 0 && cell != DPT_CELL_RNN ? DPT_ACT_SIGMOID : DPT_ACT_TANH;
        if (!list || list->kind != DPTI_ONNX_ATTRIBUTE_STRINGS) continue;
        if (first + i >= list->n)
            return dpti_import_refuse(l->im, DPT_E_INVALID, "it has too few activations");
        if (!activation_of(list->strings[first + i], &l->cell.activation[i]))
            return dpti_import_refuse(
                l->im, DPT_E_UNSUPPORTED,
                "the activation %.60s cannot be trained yet; Tanh, Sigmoid and Relu can",
                list->strings[first + i]);
    }
    return DPT_OK;
}

/* Places of the gates in ONNX's order: i, o, f, c and z, r, h. */
static void set_places(layer *l)
{
    static const uint8_t lstm[DPT_RECURRENT_GATES] = {0, 2, 3, 1};
    static const uint8_t gru[DPT_RECURRENT_GATES] = {1, 0, 2};
    if (l->cell.cell == DPT_CELL_RNN) return;
    memcpy(l->cell.place, l->cell.cell == DPT_CELL_LSTM ? lstm : gru, sizeof lstm);
}

static dpt_status read_attributes(layer *l)
{
    const dpti_importer *im = l->im;
    if (dpti_onnx_find(im->node, "clip"))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "clip cannot be trained; export the layer without it");
    if (dpti_onnx_int(im->node, "input_forget", 0) != 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "input_forget cannot be trained");
    if (dpti_import_has(im, IN_PEEPHOLES))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "peepholes cannot be trained; export a layer without them");
    l->direction = dpti_onnx_string(im->node, "direction", "forward");
    l->batch_first = dpti_onnx_int(im->node, "layout", 0) != 0;
    l->n_directions = strcmp(l->direction, "bidirectional") == 0 ? 2 : 1;
    l->gates = dpt_recurrent_gates(l->cell.cell);
    set_places(l);
    return DPT_OK;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* The constant of which a value is a view; NULL if it is computed. */
static const dpti_node *constant_of(const dpt_model *model, dpt_value x)
{
    const dpti_node *node = dpti_node_at(model, x);
    while (node->kind == DPTI_NODE_VIEW)
        node = &model->nodes[node->inputs[0]];
    return node->kind == DPTI_NODE_CONSTANT ? node : NULL;
}

/* An element of a constant of integers. */
static int64_t integer_at(const dpt_model *model, const dpti_node *constant, size_t i)
{
    const float *at = model->constants + constant->constant + i;
    int32_t id;
    memcpy(&id, at, sizeof id);
    return constant->integer ? id : (int64_t)*at;
}

/* How many places of the sequence are walked: the lengths must be known, and the same for all
   samples. */
static dpt_status read_lengths(layer *l)
{
    dpti_importer *im = l->im;
    dpt_value lengths;
    int64_t steps = -1;
    l->steps = l->length;
    if (!dpti_import_has(im, IN_LENGTHS)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, IN_LENGTHS, &lengths));
    const dpti_node *constant = constant_of(im->model, lengths);
    for (size_t i = 0; constant && i < constant->elements; i++) {
        const int64_t each = integer_at(im->model, constant, i);
        steps = i == 0 || steps == each ? each : -1;
    }
    if (steps < 1 || (size_t)steps > l->length)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "sequence lengths that differ between samples, or are computed, "
                                  "cannot be trained; leave sequence_lens out, and mask the "
                                  "outputs");
    l->steps = (size_t)steps;
    return DPT_OK;
}

/* Whether a value is zeros of the file, which exporters write as the initial state. */
static bool is_zero(const dpt_model *model, dpt_value x)
{
    const dpti_node *node = constant_of(model, x);
    if (!node) return false;
    for (size_t i = 0; i < node->elements; i++)
        if (model->constants[node->constant + i] != 0.0f) return false;
    return true;
}

static dpt_status read_state(layer *l, size_t input, dpt_value *out)
{
    if (!dpti_import_has(l->im, input)) return DPT_OK;
    DPT_TRY(dpti_import_input(l->im, input, out));
    const dpti_extents e = dpti_extents_of(l->im->model, *out);
    if (e.rank != 3 || e.extent[2] != l->hidden)
        return dpti_import_refuse(l->im, DPT_E_INVALID,
                                  "input %zu, an initial state, has %zu numbers, but the layer has "
                                  "%zu; projections (proj_size of PyTorch) are not in ONNX",
                                  input, e.extent[e.rank > 0 ? e.rank - 1 : 0], l->hidden);
    if (is_zero(l->im->model, *out)) *out = (dpt_value){0};
    return DPT_OK;
}

/* The axes of places and sequences in the place of each other. */
static const size_t exchanged[DPT_MAX_RANK] = {1, 0, 2};

static dpt_status read_inputs(layer *l)
{
    dpti_importer *im = l->im;
    dpt_model *model = im->model;
    DPT_TRY(dpti_import_input(im, IN_X, &l->x));
    DPT_TRY(dpti_import_input(im, IN_W, &l->w));
    DPT_TRY(dpti_import_input(im, IN_R, &l->r));
    if (dpti_import_has(im, IN_B)) DPT_TRY(dpti_import_input(im, IN_B, &l->b));
    const dpti_extents x = dpti_extents_of(model, l->x), r = dpti_extents_of(model, l->r);
    if (x.rank != 3 || r.rank != 3 || r.extent[1] != l->gates * r.extent[2] ||
        r.extent[0] != l->n_directions)
        return dpti_import_refuse(im, DPT_E_INVALID, "the shapes of its inputs do not fit");
    l->sequences = x.extent[l->batch_first ? 0 : 1];
    l->length = x.extent[l->batch_first ? 1 : 0];
    l->hidden = l->cell.hidden = r.extent[2];
    DPT_TRY(read_state(l, IN_H, &l->h));
    if (l->cell.cell == DPT_CELL_LSTM) DPT_TRY(read_state(l, IN_C, &l->c));
    DPT_TRY(read_lengths(l));
    if (!l->batch_first) l->x = dpti_transpose(model, l->x, exchanged);
    if (l->steps < l->length)
        l->x = dpti_slice(model, l->x, (dpti_cut){.axis = 1, .count = l->steps, .step = 1});
    return dpti_import_check(im);
}

/* Elements first .. first + n - 1 along axis 1 of a value's direction, as (n, columns); columns 0:
   as (n). */
typedef struct part {
    size_t direction, first, n, columns;
} part;

static dpt_value take(dpt_model *model, dpt_value x, part p)
{
    const dpti_extents to = {.rank = p.columns > 0 ? 2 : 1, .extent = {p.n, p.columns}};
    x = dpti_slice(model, x, (dpti_cut){.begin = p.direction, .count = 1, .step = 1});
    x = dpti_slice(model, x, (dpti_cut){.axis = 1, .begin = p.first, .count = p.n, .step = 1});
    return dpti_reshape(model, x, &to);
}

/* The state of a direction: axis 0, or axis 1 behind the batch. */
static dpt_value take_state(const layer *l, dpt_value x, size_t direction)
{
    if (!x.id) return x;
    return dpti_slice(
        l->im->model, x,
        (dpti_cut){.axis = l->batch_first ? 1 : 0, .begin = direction, .count = 1, .step = 1});
}

/* ---- A direction ----------------------------------------------------------------------------- */

/* The biases of the two products: added up, unless the reset gate stands between them. */
static void take_biases(const layer *l, size_t direction, dpti_linear_values *input,
                        dpti_recurrence *cell)
{
    dpt_model *model = l->im->model;
    const size_t n = l->gates * l->hidden;
    if (!l->b.id) return;
    const dpt_value both[] = {take(model, l->b, (part){direction, 0, n, 0}),
                              take(model, l->b, (part){direction, n, n, 0})};
    if (cell->cell == DPT_CELL_GRU) {
        input->bias = both[0];
        cell->bias = both[1];
    } else {
        input->bias = dpti_formula(model, "a + b", both, 2);
    }
}

static dpt_status add_direction(layer *l, size_t direction, dpt_value *out)
{
    dpt_model *model = l->im->model;
    const size_t n = l->hidden, rows = dpt_recurrent_rows(l->cell.cell) * n;
    DPT_TRY(read_activations(l, direction * (l->cell.cell == DPT_CELL_RNN    ? 1
                                             : l->cell.cell == DPT_CELL_LSTM ? 3
                                                                             : 2)));
    dpti_recurrence cell = l->cell;
    const size_t in = dpti_extents_of(model, l->w).extent[2];
    dpti_linear_values input = {.w = take(model, l->w, (part){direction, 0, l->gates * n, in})};
    cell.reverse = direction == 1 || strcmp(l->direction, "reverse") == 0;
    cell.w = take(model, l->r, (part){direction, 0, rows, n});
    if (rows < l->gates * n) cell.w_new = take(model, l->r, (part){direction, rows, n, n});
    cell.h0 = take_state(l, l->h, direction);
    cell.c0 = take_state(l, l->c, direction);
    take_biases(l, direction, &input, &cell);
    DPT_TRY(dpti_import_check(l->im));
    *out = dpti_recurrent(model, dpti_projection(model, l->x, &input), &cell);
    return dpti_import_check(l->im);
}

/* ---- Outputs --------------------------------------------------------------------------------- */

/* Whether anything reads output i. */
static bool is_used(const dpti_importer *im, size_t i)
{
    const dpti_onnx_model *m = im->graph->model;
    if (i >= im->node->n_outputs || im->node->outputs[i] == DPTI_ONNX_NONE) return false;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (m->outputs[k].value == im->node->outputs[i]) return true;
    return im->values[im->node->outputs[i]].n_uses > 0;
}

/* Rows of each direction, as output i with its axis of directions. */
static dpt_status give(layer *l, size_t i, dpt_value rows[2], size_t axis)
{
    dpt_model *model = l->im->model;
    const dpti_extents whole = dpti_import_extents(dpti_import_result(l->im, i));
    dpti_extents one = whole;
    one.extent[axis] = 1;
    for (size_t d = 0; d < l->n_directions; d++)
        rows[d] = dpti_reshape(model, rows[d], &one);
    DPT_TRY(dpti_import_check(l->im));
    dpti_import_give(l->im, i,
                     l->n_directions == 1 ? rows[0] : dpti_concatenate(model, rows, 2, axis));
    return dpti_import_check(l->im);
}

/* All states; behind the end of the sequences they are 0. */
static dpt_status give_all(layer *l, const dpt_value y[2])
{
    dpt_model *model = l->im->model;
    const dpti_padding rest = {.after = {0, l->length - l->steps}};
    dpt_value rows[2] = {y[0], y[1]};
    for (size_t d = 0; d < l->n_directions; d++) {
        rows[d] = dpti_slice(model, rows[d], (dpti_cut){.axis = 1, .count = l->steps, .step = 1});
        if (l->steps < l->length) rows[d] = dpti_pad(model, rows[d], &rest);
        if (!l->batch_first) rows[d] = dpti_transpose(model, rows[d], exchanged);
    }
    return give(l, 0, rows, l->batch_first ? 2 : 1);
}

/* One row of each direction: the last place that was walked, or the row behind all places. */
static dpt_status give_last(layer *l, size_t i, const dpt_value y[2])
{
    dpt_value rows[2] = {y[0], y[1]};
    for (size_t d = 0; d < l->n_directions; d++) {
        const bool reverse = d == 1 || strcmp(l->direction, "reverse") == 0;
        const size_t row = i == 2 ? l->steps : reverse ? 0 : l->steps - 1;
        rows[d] = dpti_slice(l->im->model, rows[d],
                             (dpti_cut){.axis = 1, .begin = row, .count = 1, .step = 1});
    }
    return give(l, i, rows, l->batch_first ? 1 : 0);
}

static dpt_status import(dpti_importer *im, dpt_recurrent_cell cell)
{
    layer l = {.im = im, .cell = {.cell = cell}};
    dpt_value y[2] = {{0}, {0}};
    DPT_TRY(read_attributes(&l));
    DPT_TRY(read_inputs(&l));
    l.cell.gives_cell = cell == DPT_CELL_LSTM && is_used(im, 2);
    for (size_t d = 0; d < l.n_directions; d++)
        DPT_TRY(add_direction(&l, d, &y[d]));
    if (is_used(im, 0)) DPT_TRY(give_all(&l, y));
    if (is_used(im, 1)) DPT_TRY(give_last(&l, 1, y));
    return l.cell.gives_cell ? give_last(&l, 2, y) : DPT_OK;
}

static dpt_status import_lstm(dpti_importer *im)
{
    return import(im, DPT_CELL_LSTM);
}

static dpt_status import_gru(dpti_importer *im)
{
    const bool behind = dpti_onnx_int(im->node, "linear_before_reset", 0) != 0;
    return import(im, behind ? DPT_CELL_GRU : DPT_CELL_GRU_BEFORE);
}

static dpt_status import_rnn(dpti_importer *im)
{
    return import(im, DPT_CELL_RNN);
}

const dpti_import_operator dpti_import_recurrent[] = {
    {"GRU", import_gru},
    {"LSTM", import_lstm},
    {"RNN", import_rnn},
    {NULL, NULL},
};
