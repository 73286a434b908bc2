/* The loss: one instruction for the cross-entropy and for the squared error, programs over elements
   for the other losses. */
#include "graph/loss.h"

#include "graph/compile.h"
#include "graph/map_program.h"
#include "graph/mixed.h"

#include <string.h>

const char *const dpti_loss_names[DPTI_LOSSES] = {
    [DPT_LOSS_CROSS_ENTROPY] = "cross-entropy",
    [DPT_LOSS_SQUARED_ERROR] = "squared error",
    [DPT_LOSS_ABSOLUTE_ERROR] = "absolute error",
    [DPT_LOSS_HUBER] = "huber",
    [DPT_LOSS_BINARY_CROSS_ENTROPY] = "binary cross-entropy",
    [DPT_LOSS_OWN_OF_TARGETS] = "own of targets",
    [DPT_LOSS_OWN_OF_LABELS] = "own of labels",
    [DPT_LOSS_OUTPUT] = "output",
};

void dpti_class_table(const float *weights, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = weights[i];
        out[2 * i + 1] = 1.0f;
    }
}

/* ---- Losses of single outputs ---------------------------------------------------------------- */

enum { OUTPUT, TARGET }; /* the inputs of a program */

static uint8_t difference_of(dpti_map_program *p)
{
    return dpti_map_add(p, DPT_MAP_SUBTRACT, dpti_map_load(p, OUTPUT), dpti_map_load(p, TARGET));
}

/* With a = |y - t| and b = min(a, delta), Huber's loss is b * (a - b / 2). */
static uint8_t huber_of(dpti_map_program *p, float delta)
{
    const uint8_t a = dpti_map_unary(p, DPT_MAP_ABSOLUTE, difference_of(p));
    const uint8_t b = dpti_map_add(p, DPT_MAP_MINIMUM, a, dpti_map_constant(p, delta));
    const uint8_t half = dpti_map_add(p, DPT_MAP_MULTIPLY, b, dpti_map_constant(p, 0.5f));
    return dpti_map_add(p, DPT_MAP_MULTIPLY, b, dpti_map_add(p, DPT_MAP_SUBTRACT, a, half));
}

/* (max(y, 0) - t * y) + softplus(-|y|).  For the targets 0 and 1 no digits cancel, and nothing
   overflows. */
static uint8_t binary_cross_entropy_of(dpti_map_program *p)
{
    const uint8_t y = dpti_map_load(p, OUTPUT), t = dpti_map_load(p, TARGET);
    const uint8_t above = dpti_map_add(p, DPT_MAP_MAXIMUM, y, dpti_map_constant(p, 0.0f));
    const uint8_t linear =
        dpti_map_add(p, DPT_MAP_SUBTRACT, above, dpti_map_add(p, DPT_MAP_MULTIPLY, t, y));
    const uint8_t less = dpti_map_unary(p, DPT_MAP_NEGATE, dpti_map_unary(p, DPT_MAP_ABSOLUTE, y));
    return dpti_map_add(p, DPT_MAP_ADD, linear, dpti_map_unary(p, DPT_MAP_SOFTPLUS, less));
}

/* The loss of an output. */
static uint8_t loss_of_output(const dpti_compiler *c, dpti_map_program *p)
{
    switch (c->options->loss) {
    case DPT_LOSS_ABSOLUTE_ERROR: return dpti_map_unary(p, DPT_MAP_ABSOLUTE, difference_of(p));
    case DPT_LOSS_HUBER: return huber_of(p, c->options->huber_delta);
    default: return binary_cross_entropy_of(p);
    }
}

/* The derivative of the loss of an output with respect to the output. */
static uint8_t slope_of_output(const dpti_compiler *c, dpti_map_program *p)
{
    const float delta = c->options->huber_delta;
    switch (c->options->loss) {
    case DPT_LOSS_ABSOLUTE_ERROR: return dpti_map_unary(p, DPT_MAP_SIGN, difference_of(p));
    case DPT_LOSS_HUBER:
        return dpti_map_add(
            p, DPT_MAP_MAXIMUM,
            dpti_map_add(p, DPT_MAP_MINIMUM, difference_of(p), dpti_map_constant(p, delta)),
            dpti_map_constant(p, -delta));
    default:
        return dpti_map_add(p, DPT_MAP_SUBTRACT,
                            dpti_map_unary(p, DPT_MAP_SIGMOID, dpti_map_load(p, OUTPUT)),
                            dpti_map_load(p, TARGET));
    }
}

/* A program over the outputs of a sample and its targets, without outputs of its own. */
static dpt_op_desc over_outputs(const dpti_compiler *c, dpt_op_kind kind)
{
    const size_t count = c->model->nodes[c->model->logits].elements;
    dpt_map_operand each = {
        .type = c->options->type, .sampled = true, .size = count, .stride = {1}};
    dpt_op_desc desc = {.kind = kind,
                        .type = c->options->type,
                        .u.map = {.rank = 1, .extent = {count}, .n_in = 2, .in = {each, each}}};
    desc.u.map.in[TARGET].type = DPT_F32;
    return desc;
}

/* Gives a description the instructions that `value` needs, which are few and read both inputs. */
static void take_program(const dpti_map_program *p, uint8_t value, dpt_map_desc *d)
{
    dpti_map_code code;
    (void)!dpti_map_take(p, value, &code);
    d->n_code = code.n_code;
    memcpy(d->code, code.code, sizeof d->code);
    for (uint8_t i = 0; i < code.n_code; i++)
        if (d->code[i].code == DPT_MAP_LOAD) d->code[i].index = code.in[d->code[i].index];
    d->value[0] = code.value;
}

/* Writes the mean of the losses of a sample's outputs into the first element of its result. */
static dpt_status emit_mean(dpti_compiler *c, int result)
{
    dpti_map_program p = {.n = 0};
    dpti_instruction mean = {.desc = over_outputs(c, DPT_OP_MAP_REDUCE), .layer = "loss"};
    dpt_map_desc *d = &mean.desc.u.map;
    const uint8_t count = dpti_map_constant(&p, (float)d->extent[0]);
    take_program(&p, dpti_map_add(&p, DPT_MAP_DIVIDE, loss_of_output(c, &p), count), d);
    d->n_out = 1;
    d->out[0] = (dpt_map_operand){.type = DPT_F32, .sampled = true, .size = 2};
    return DPTI_EMIT(c, mean, ((int[]){c->value[c->root[c->model->logits]], c->label}),
                     ((int[]){result}));
}

/* Writes a number into the float32 of a tensor, of which each sample has `count`. */
static dpt_status emit_fill(dpti_compiler *c, int tensor, size_t count, float value)
{
    dpti_instruction fill = {.desc = dpti_fill_with(count, true, value), .layer = "loss"};
    fill.desc.u.map.out[0].type = DPT_F32;
    return dpti_emit(c, fill, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){&tensor, 1});
}

/* Writes the gradient, and zeros as the hits.  `targets` are slopes of the loss, times -1/2.  No
   program over elements can read the number of samples by which gradients are divided, but the
   operator of the squared error does: its gradient for outputs of 0 and targets of -slope / 2 is
   slope / count / samples.  It also writes a loss, which is overwritten. */
static dpt_status emit_scaling(dpti_compiler *c, int targets, int result, int gradient)
{
    const size_t count = c->model->nodes[c->root[c->model->logits]].elements;
    const dpti_instruction scale = {.desc = {.kind = DPT_OP_SQUARED_ERROR_GRADIENT,
                                             .type = c->options->type,
                                             .u.squared_error = {.count = count}},
                                    .layer = "loss"};
    dpti_instruction zeros = {.desc = dpti_fill_with(count, true, 0.0f), .layer = "loss"};
    int outputs;
    dpti_store_operands(c, &zeros.desc);
    DPT_TRY(dpti_add_activations(c, count, &outputs));
    DPT_TRY(dpti_emit(c, zeros, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){&outputs, 1}));
    return DPTI_EMIT(c, scale, ((int[]){outputs, targets}), ((int[]){result, gradient}));
}

static dpt_status emit_slopes(dpti_compiler *c, int result, int gradient)
{
    const size_t root = c->root[c->model->logits], count = c->model->nodes[root].elements;
    dpti_map_program p = {.n = 0};
    dpti_instruction slopes = {.desc = over_outputs(c, DPT_OP_MAP), .layer = "loss"};
    dpt_map_desc *d = &slopes.desc.u.map;
    const uint8_t minus_half = dpti_map_constant(&p, -0.5f);
    take_program(&p, dpti_map_add(&p, DPT_MAP_MULTIPLY, slope_of_output(c, &p), minus_half), d);
    d->n_out = 1;
    d->out[0] = d->in[TARGET];
    int targets;
    DPT_TRY(dpti_add_sampled(c, count, &targets));
    DPT_TRY(DPTI_EMIT(c, slopes, ((int[]){c->value[root], c->label}), ((int[]){targets})));
    return emit_scaling(c, targets, result, gradient);
}

/* The output is the loss, and its slope is 1. */
static dpt_status emit_output_as_loss(dpti_compiler *c, int gradient)
{
    const dpt_map_operand from = {.type = c->options->type, .sampled = true, .size = 1};
    const dpt_map_operand to = {.type = DPT_F32, .sampled = true, .size = 2};
    const dpti_instruction copy = {.desc = {.kind = DPT_OP_MAP,
                                            .type = c->options->type,
                                            .u.map = {.rank = 1,
                                                      .extent = {1},
                                                      .n_in = 1,
                                                      .n_out = 1,
                                                      .n_code = 1,
                                                      .in = {from},
                                                      .out = {to}}},
                                   .layer = "loss"};
    const int result = c->program->result;
    int targets;
    if (dpti_is_training(c)) {
        DPT_TRY(dpti_add_sampled(c, 1, &targets));
        DPT_TRY(emit_fill(c, targets, 1, -0.5f));
        DPT_TRY(emit_scaling(c, targets, result, gradient));
    } else {
        DPT_TRY(emit_fill(c, result, 2, 0.0f));
    }
    return DPTI_EMIT(c, copy, ((int[]){c->value[c->root[c->model->logits]]}), ((int[]){result}));
}

static dpt_status emit_loss_of_outputs(dpti_compiler *c, int gradient)
{
    int *result = &c->program->result;
    DPT_TRY(dpti_add_sampled(c, 2, result));
    if (dpti_is_training(c)) {
        DPT_TRY(emit_slopes(c, *result, gradient));
    } else {
        DPT_TRY(emit_fill(c, *result, 2, 0.0f));
    }
    return emit_mean(c, *result);
}

/* ---- Cross-entropy and squared error --------------------------------------------------------- */

static dpt_op_desc loss_of(const dpti_compiler *c)
{
    const bool training = dpti_is_training(c);
    const size_t count = c->model->nodes[c->model->logits].elements;
    const size_t classes = count / c->model->n_labels;
    if (c->options->loss == DPT_LOSS_SQUARED_ERROR)
        return (dpt_op_desc){.kind =
                                 training ? DPT_OP_SQUARED_ERROR_GRADIENT : DPT_OP_SQUARED_ERROR,
                             .type = c->options->type,
                             .u.squared_error = {.count = count}};
    return (dpt_op_desc){
        .kind = training ? DPT_OP_SOFTMAX_XENT_GRADIENT : DPT_OP_SOFTMAX_XENT,
        .type = c->options->type,
        .u.softmax = {.classes = classes, .smoothing = training ? c->options->label_smoothing : 0}};
}

/* The losses and the hits of a sample's labels become one loss and one number of hits. */
static dpt_status emit_result_sum(dpti_compiler *c, int rows, size_t n_rows)
{
    const dpt_map_operand all = {.sampled = true, .size = 2 * n_rows, .stride = {2, 1}};
    const dpt_map_operand sums = {.sampled = true, .size = 2, .stride = {0, 1}};
    const dpti_instruction sum = {.desc = {.kind = DPT_OP_MAP_REDUCE,
                                           .u.map = {.rank = 2,
                                                     .extent = {n_rows, 2},
                                                     .n_in = 1,
                                                     .n_out = 1,
                                                     .n_code = 1,
                                                     .in = {all},
                                                     .out = {sums}}},
                                  .layer = "loss"};
    DPT_TRY(dpti_add_sampled(c, 2, &c->program->result));
    return DPTI_EMIT(c, sum, ((int[]){rows}), ((int[]){c->program->result}));
}

/* ---- Class weights --------------------------------------------------------------------------- */

/* The two tensors that the operator of the cross-entropy has written, and those that have the
   weighted values. */
typedef struct weighing {
    int rows, weighted_rows;         /* (n_labels, 2) losses and hits */
    int gradient, weighted_gradient; /* (n_labels, classes) */
} weighing;

/* The `repeat` of instructions that take each label as a sample. */
static size_t rows_of(const dpti_compiler *c)
{
    return c->model->n_labels > 1 ? c->model->n_labels : 0;
}

/* Finds the row of the table for each label: (n_labels, 2), the weight of its class and 1.  An
   ignored label is negative and takes the first row; its loss and its gradient are 0. */
static dpt_status emit_rows_of_table(dpti_compiler *c, int *out)
{
    const dpt_model *m = c->model;
    const size_t n = m->n_labels, classes = m->nodes[m->logits].elements / n;
    const dpt_map_operand each = {.type = DPT_I32, .sampled = true, .size = 1, .stride = {1}};
    const dpti_instruction at_least_0 = {
        .desc = {.kind = DPT_OP_MAP,
                 .u.map = {.rank = 1,
                           .extent = {1},
                           .n_in = 1,
                           .n_out = 1,
                           .n_code = 3,
                           .value = {2},
                           .in = {each},
                           .out = {each},
                           .code = {{.code = DPT_MAP_LOAD},
                                    {.code = DPT_MAP_CONSTANT, .constant = 0.0f},
                                    {.code = DPT_MAP_MAXIMUM, .a = 0, .b = 1}}}},
        .layer = "loss",
        .repeat = rows_of(c)};
    const dpti_instruction take = {
        .desc = {.kind = DPT_OP_TAKE_FORWARD, .u.take = {.count = 1, .width = 2, .rows = classes}},
        .layer = "loss",
        .repeat = rows_of(c)};
    int table, index;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_CONSTANTS, m->n_constants, &table));
    DPT_TRY(dpti_add_sampled(c, n, &index));
    DPT_TRY(dpti_add_sampled(c, 2 * n, out));
    DPT_TRY(DPTI_EMIT(c, at_least_0, ((int[]){c->label}), ((int[]){index})));
    return DPTI_EMIT(c, take, ((int[]){table, index}), ((int[]){*out}));
}

/* A product over the columns of each label with the row of the table, of which either both columns
   or, for all columns of the other operand, the weight alone are read. */
static dpti_instruction product_with_rows(const dpti_compiler *c, size_t columns, dpt_dtype type,
                                          bool weight_alone)
{
    const dpt_map_operand value = {.type = type, .sampled = true, .size = columns, .stride = {1}};
    const dpt_map_operand row = {
        .type = DPT_F32, .sampled = true, .size = 2, .stride = {weight_alone ? 0 : 1}};
    return (dpti_instruction){
        .desc = {.kind = DPT_OP_MAP,
                 .type = type,
                 .u.map = {.rank = 1,
                           .extent = {columns},
                           .n_in = 2,
                           .n_out = 1,
                           .n_code = 3,
                           .value = {2},
                           .in = {value, row},
                           .out = {value},
                           .code = {{.code = DPT_MAP_LOAD, .index = 0},
                                    {.code = DPT_MAP_LOAD, .index = 1},
                                    {.code = DPT_MAP_MULTIPLY, .a = 0, .b = 1}}}},
        .layer = "loss",
        .repeat = rows_of(c)};
}

/* Multiplies the loss of each label, and its row of the gradient, by the weight of its class.  The
   division by the sum of the weights is that by the number of labels (dpt_step_block). */
static dpt_status emit_weighing(dpti_compiler *c, const weighing *of)
{
    const dpt_model *m = c->model;
    const size_t classes = m->nodes[m->logits].elements / m->n_labels;
    int rows;
    DPT_TRY(emit_rows_of_table(c, &rows));
    DPT_TRY(DPTI_EMIT(c, product_with_rows(c, classes, c->options->type, true),
                      ((int[]){of->gradient, rows}), ((int[]){of->weighted_gradient})));
    return DPTI_EMIT(c, product_with_rows(c, 2, DPT_F32, false), ((int[]){of->rows, rows}),
                     ((int[]){of->weighted_rows}));
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Behind the loss of a chunk: the gradients of the layer that has computed the logits.  Its bucket
   ends behind the last chunk. */
static dpt_status end_chunked(dpti_compiler *c, int rows, size_t n_rows)
{
    const dpti_node *node = &c->model->nodes[c->chunked];
    if (dpti_is_training(c)) DPT_TRY(dpti_emit_chunked_backward(c));
    dpti_end_chunks(c);
    DPT_TRY(emit_result_sum(c, rows, n_rows));
    return dpti_is_training(c) ? dpti_end_bucket(c, node->weight, 0) : DPT_OK;
}

/* ---- Any loss -------------------------------------------------------------------------------- */

/* Whether the loss is a program over elements. */
static bool is_of_outputs(dpt_loss loss)
{
    return dpti_loss_has_targets(loss) && loss != DPT_LOSS_SQUARED_ERROR && !dpti_loss_is_own(loss);
}

/* The cross-entropies of the own labels and of the partners' labels, mixed. */
static dpt_status emit_loss_of_mixed(dpti_compiler *c, int gradient)
{
    const size_t root = c->root[c->model->logits], count = c->model->nodes[root].elements;
    const int labels[2] = {c->label, c->partner_label};
    const dpti_instruction loss = {.desc = loss_of(c), .layer = "loss"};
    dpti_two_losses two;
    for (int i = 0; i < 2; i++) {
        DPT_TRY(dpti_add_sampled(c, 2, &two.rows[i]));
        DPT_TRY(dpti_add_activations(c, count, &two.gradients[i]));
        DPT_TRY(DPTI_EMIT(c, loss, ((int[]){c->value[root], labels[i]}),
                          ((int[]){two.rows[i], two.gradients[i]})));
    }
    DPT_TRY(dpti_add_sampled(c, 2, &c->program->result));
    return dpti_emit_mixed_loss(c, &two, c->program->result, gradient);
}

dpt_status dpti_emit_loss(dpti_compiler *c)
{
    const size_t root = c->root[c->model->logits];
    int gradient = DPTI_NO_TENSOR;
    const size_t n_rows = dpti_loss_has_targets(c->options->loss) ? 1 : c->model->n_labels;
    int rows;
    c->program->result_elements = 2;
    if (dpti_is_training(c)) {
        DPT_TRY(dpti_add_activations(c, c->model->nodes[root].elements, &c->gradient[root]));
        gradient = c->gradient[root];
    }
    if (dpti_loss_is_own(c->options->loss)) {
        DPT_TRY(dpti_add_sampled(c, 2, &c->program->result));
        return dpti_emit_call_loss(c, c->program->result, gradient);
    }
    if (c->options->loss == DPT_LOSS_OUTPUT) {
        DPT_TRY(dpti_add_sampled(c, 2, &c->program->result));
        return emit_output_as_loss(c, gradient);
    }
    if (is_of_outputs(c->options->loss)) return emit_loss_of_outputs(c, gradient);
    if (dpti_is_training(c) && dpti_mixes(c->options)) return emit_loss_of_mixed(c, gradient);
    DPT_TRY(dpti_add_sampled(c, 2 * n_rows, &rows));
    const dpti_instruction loss = {
        .desc = loss_of(c), .layer = "loss", .repeat = n_rows > 1 ? n_rows : 0};
    weighing of = {.rows = rows, .gradient = gradient, .weighted_gradient = gradient};
    const bool weighs = dpti_is_training(c) && c->options->class_weights;
    if (weighs) {
        DPT_TRY(dpti_add_sampled(c, 2 * n_rows, &of.weighted_rows));
        DPT_TRY(dpti_add_activations(c, c->model->nodes[root].elements, &of.gradient));
    }
    DPT_TRY(DPTI_EMIT(c, loss, ((int[]){c->value[root], c->label}), ((int[]){rows, of.gradient})));
    if (weighs) {
        DPT_TRY(emit_weighing(c, &of));
        rows = of.weighted_rows;
    }
    c->program->result = rows;
    if (c->chunked != SIZE_MAX) return end_chunked(c, rows, n_rows);
    return n_rows > 1 ? emit_result_sum(c, rows, n_rows) : DPT_OK;
}
