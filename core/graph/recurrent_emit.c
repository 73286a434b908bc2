/* Instructions of recurrent layers, forward and backward. */
#include "graph/compile.h"
#include "graph/tensor.h"

static size_t root_of(const dpti_compiler *c, const dpti_node *node, size_t input)
{
    return c->root[node->inputs[input]];
}

static int value_of(const dpti_compiler *c, const dpti_node *node, size_t input)
{
    return input < node->n_inputs ? c->value[root_of(c, node, input)] : DPTI_NO_TENSOR;
}

/* The sequences of a sample. */
static size_t sequences_of(const dpti_node *node)
{
    return node->repeat ? node->repeat : 1;
}

/* The places of all sequences of a sample. */
static size_t places_of(const dpti_node *node)
{
    return sequences_of(node) * node->forward.u.recurrent.length;
}

/* ---- Forward --------------------------------------------------------------------------------- */

dpt_status dpti_emit_projection(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    return DPTI_EMIT(c, dpti_instruction_of(c, node),
                     ((int[]){value_of(c, node, 0), value_of(c, node, 1), value_of(c, node, 2)}),
                     ((int[]){c->value[i]}));
}

/* What the backward pass needs is kept in c->moments (the gates) and c->sums (the cells). */
dpt_status dpti_emit_recurrent(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const bool saves = dpti_is_training(c) && c->needs[i];
    const size_t saved = dpt_recurrent_saved(d->cell), states = places_of(node) * d->hidden;
    int in[DPT_MAX_INPUTS];
    dpti_instruction forward = dpti_instruction_of(c, node);
    forward.desc.u.recurrent.no_gradient = !saves;
    if (saves && saved > 0) DPT_TRY(dpti_add_activations(c, saved * states, &c->moments[i]));
    if (saves && d->cell == DPT_CELL_LSTM) DPT_TRY(dpti_add_sampled(c, states, &c->sums[i]));
    for (size_t k = 0; k < DPT_MAX_INPUTS; k++)
        in[k] = value_of(c, node, k);
    return DPTI_EMIT(c, forward, in, ((int[]){c->value[i], c->moments[i], c->sums[i]}));
}

/* ---- Projections ----------------------------------------------------------------------------- */

dpt_status dpti_emit_projection_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = root_of(c, node, 0);
    const dpti_weights_gradient weights = {
        .dy = c->gradient[i],
        .x = value_of(c, node, 0),
        .w = 1,
        .bias = node->n_inputs > 2 ? 2 : SIZE_MAX,
        .desc = {.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = node->forward.u.linear},
        .repeat = node->repeat};
    dpti_gradient dx;
    DPT_TRY(dpti_emit_weights_gradient(c, node, &weights));
    if (!c->needs[root]) return DPT_OK;
    DPT_TRY(dpti_begin_gradient(c, root, &dx));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.desc.kind = DPT_OP_LINEAR_BACKWARD_DATA;
    backward.flags = dx.flags;
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){c->gradient[i], value_of(c, node, 1)}),
                      ((int[]){dx.tensor})));
    return dpti_end_gradient(c, root, &dx);
}

/* ---- Recurrences ----------------------------------------------------------------------------- */

/* The inputs of a recurrence; those that it does not have are SIZE_MAX. */
typedef struct inputs {
    size_t w, w_new, bias, h0, c0;
} inputs;

static inputs inputs_of(const dpt_recurrent_desc *d)
{
    inputs of = {1, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    size_t next = 2;
    if (d->cell == DPT_CELL_GRU_BEFORE) of.w_new = next++;
    if (d->has_bias) of.bias = next++;
    if (d->has_initial) of.h0 = next++;
    if (d->has_initial && d->cell == DPT_CELL_LSTM) of.c0 = next++;
    return of;
}

/* A MAP of one input over n rows of `width` elements, for each sequence. */
static dpti_instruction copy_rows(const dpti_node *node, size_t n, size_t width)
{
    return (dpti_instruction){
        .desc = {.kind = DPT_OP_MAP,
                 .u.map = {.rank = 2, .extent = {n, width}, .n_in = 1, .n_out = 1, .n_code = 1}},
        .layer = node->name,
        .repeat = node->repeat};
}

static dpt_map_operand rows_of(size_t size, size_t offset, size_t step)
{
    return (dpt_map_operand){
        .sampled = true, .size = size, .offset = offset, .stride = {(int32_t)step, 1}};
}

/* *out (sequences, length, hidden): the state before each place. */
static dpt_status emit_states_before(dpti_compiler *c, size_t i, int *out)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const size_t n = d->hidden, size = d->length * n, first = d->reverse ? size - n : 0;
    DPT_TRY(dpti_add_activations(c, places_of(node) * n, out));
    if (d->length > 1) {
        dpti_instruction shift = copy_rows(node, d->length - 1, n);
        shift.desc.u.map.in[0] =
            rows_of(node->elements / sequences_of(node), d->reverse ? n : 0, n);
        shift.desc.u.map.out[0] = rows_of(size, d->reverse ? 0 : n, n);
        dpti_store_operands(c, &shift.desc);
        DPT_TRY(DPTI_EMIT(c, shift, ((int[]){c->value[i]}), ((int[]){*out})));
    }
    dpti_instruction begin = copy_rows(node, 1, n);
    begin.desc.u.map.in[0] = rows_of(n, 0, 0);
    begin.desc.u.map.out[0] = rows_of(size, first, 0);
    if (!d->has_initial) {
        begin.desc.u.map.n_in = 0;
        begin.desc.u.map.in[0] = (dpt_map_operand){.size = 0};
        begin.desc.u.map.code[0] = (dpt_map_instruction){.code = DPT_MAP_CONSTANT};
    }
    dpti_store_operands(c, &begin.desc);
    const int h0 = d->has_initial ? value_of(c, node, inputs_of(d).h0) : DPTI_NO_TENSOR;
    return DPTI_EMIT(c, begin, ((int[]){h0}), ((int[]){*out}));
}

/* *out = r * the states, for a GRU_BEFORE. */
static dpt_status emit_reset_states(dpti_compiler *c, size_t i, int states, int *out)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const size_t n = d->hidden, size = d->length * n, saved = dpt_recurrent_saved(d->cell);
    dpti_instruction multiply = copy_rows(node, d->length, n);
    dpt_map_desc *map = &multiply.desc.u.map;
    map->n_in = 2;
    map->n_code = 3;
    map->value[0] = 2;
    map->in[0] = rows_of(size, 0, n);
    map->in[1] = rows_of(saved * size, 0, saved * n);
    map->out[0] = rows_of(size, 0, n);
    map->code[0] = (dpt_map_instruction){.code = DPT_MAP_LOAD};
    map->code[1] = (dpt_map_instruction){.code = DPT_MAP_LOAD, .index = 1};
    map->code[2] = (dpt_map_instruction){.code = DPT_MAP_MULTIPLY, .a = 0, .b = 1};
    DPT_TRY(dpti_add_activations(c, places_of(node) * n, out));
    dpti_store_operands(c, &multiply.desc);
    return DPTI_EMIT(c, multiply, ((int[]){states, c->moments[i]}), ((int[]){*out}));
}

/* dq: the gradient of the product with w, for each place. */
static dpt_status emit_recurrent_weights(dpti_compiler *c, size_t i, int dq)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const inputs of = inputs_of(d);
    const size_t out = dpt_recurrent_gates(d->cell) * d->hidden;
    const bool before = d->cell == DPT_CELL_GRU_BEFORE;
    dpti_weights_gradient weights = {
        .dy = dq,
        .w = of.w,
        .bias = of.bias,
        .desc = {.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = {.in = d->hidden, .out = out}},
        .repeat = places_of(node)};
    DPT_TRY(emit_states_before(c, i, &weights.x));
    if (before) weights.desc.u.linear.rows = 2 * d->hidden;
    DPT_TRY(dpti_emit_weights_gradient(c, node, &weights));
    if (!before) return DPT_OK;
    DPT_TRY(emit_reset_states(c, i, weights.x, &weights.x));
    weights.w = of.w_new;
    weights.desc.u.linear.first = 2 * d->hidden;
    weights.desc.u.linear.rows = d->hidden;
    return dpti_emit_weights_gradient(c, node, &weights);
}

dpt_status dpti_emit_recurrent_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const inputs of = inputs_of(d);
    const bool lstm = d->cell == DPT_CELL_LSTM, rnn = d->cell == DPT_CELL_RNN;
    dpti_target dx, dh0 = {.tensor = DPTI_NO_TENSOR}, dc0 = {.tensor = DPTI_NO_TENSOR};
    int dq = DPTI_NO_TENSOR;
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.desc.kind = DPT_OP_RECURRENT_BACKWARD;
    DPT_TRY(dpti_open_target(c, root_of(c, node, 0), &dx));
    if (d->cell == DPT_CELL_GRU)
        DPT_TRY(dpti_add_activations(c, places_of(node) * dpt_recurrent_gates(d->cell) * d->hidden,
                                     &dq));
    if (d->has_initial) DPT_TRY(dpti_open_target(c, root_of(c, node, of.h0), &dh0));
    if (d->has_initial && lstm) DPT_TRY(dpti_open_target(c, root_of(c, node, of.c0), &dc0));
    const int initial =
        !d->has_initial || rnn ? DPTI_NO_TENSOR : value_of(c, node, lstm ? of.c0 : of.h0);
    const int w_new = of.w_new == SIZE_MAX ? DPTI_NO_TENSOR : value_of(c, node, of.w_new);
    /* An LSTM has cells and needs no y; no cell has all of these. */
    const int in[] = {c->gradient[i],
                      lstm ? DPTI_NO_TENSOR : c->value[i],
                      c->moments[i],
                      c->sums[i],
                      value_of(c, node, of.w),
                      w_new,
                      initial};
    DPT_TRY(dpti_emit(c, backward, (dpti_tensor_ids){in, sizeof in / sizeof *in},
                      (dpti_tensor_ids){(int[]){dx.tensor, dq, dh0.tensor, dc0.tensor}, 4}));
    DPT_TRY(dpti_close_target(c, node, &dx));
    if (d->has_initial) DPT_TRY(dpti_close_target(c, node, &dh0));
    if (d->has_initial && lstm) DPT_TRY(dpti_close_target(c, node, &dc0));
    /* An output that was added to another one is still there. */
    return emit_recurrent_weights(c, i, dq == DPTI_NO_TENSOR ? dx.tensor : dq);
}
