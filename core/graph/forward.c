/* The forward pass: gathering the samples, every layer. */
#include "base/floats.h"
#include "graph/compile.h"
#include "graph/loss.h"
#include "graph/mixed.h"

#include <string.h>

/* ---- Data ------------------------------------------------------------------------------------ */

static size_t n_records(const dpti_compiler *c)
{
    return c->options->fed ? c->options->fed : c->options->data->n_records;
}

/* Ids are gathered as labels are: they are not normalised. */
static dpt_status emit_ids(dpti_compiler *c, size_t input)
{
    const size_t elements = c->model->nodes[input].elements;
    int ids;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_IMAGES, 0, &ids));
    DPT_TRY(dpti_add_sampled(c, elements, &c->value[input]));
    const dpti_instruction gather = {.desc = {.kind = DPT_OP_GATHER_LABELS,
                                              .u.gather = {.dtype = DPT_I32,
                                                           .count = elements,
                                                           .n_records = n_records(c),
                                                           .channels = 1,
                                                           .scale = {1.0f}}},
                                     .layer = "input"};
    return DPTI_EMIT(c, gather, ((int[]){ids, c->row}), ((int[]){c->value[input]}));
}

dpt_augment dpti_augment_of(const dpti_program_options *options, const dpt_dataset *data)
{
    return (dpt_augment){.height = data->height,
                         .width = data->width,
                         .pad = options->augment.crop_padding,
                         .flip = options->augment.flip,
                         .erase = options->augment.erase,
                         .rotate = options->rotate,
                         .ops = options->randaugment.ops,
                         .magnitude = options->randaugment.magnitude,
                         .brightness = options->jitter.brightness,
                         .contrast = options->jitter.contrast,
                         .saturation = options->jitter.saturation,
                         .hue = options->jitter.hue};
}

static dpt_status emit_images(dpti_compiler *c)
{
    const dpt_dataset *data = c->options->data;
    const size_t input = c->model->input, elements = c->model->nodes[input].elements;
    const dpt_augment augment = dpti_augment_of(c->options, data);
    const bool augmented = dpti_is_training(c) && dpt_augments(&augment);
    const bool mixed = dpti_is_training(c) && dpti_mixes(c->options);
    int images, own, other;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_IMAGES, 0, &images));
    DPT_TRY(dpti_add_activations(c, elements, &c->value[input]));
    dpti_instruction gather = {.desc = {.kind = DPT_OP_GATHER,
                                        .type = c->options->type,
                                        .u.gather = {.dtype = data->dtype,
                                                     .count = elements,
                                                     .n_records = n_records(c),
                                                     .channels = data->stat_channels}},
                               .layer = "input"};
    memcpy(gather.desc.u.gather.mean, data->mean, sizeof data->mean);
    memcpy(gather.desc.u.gather.scale, data->scale, sizeof data->scale);
    if (augmented) gather.desc.u.gather.augment = augment;
    own = c->value[input];
    if (mixed) DPT_TRY(dpti_add_activations(c, elements, &own));
    DPT_TRY(DPTI_EMIT(c, gather, ((int[]){images, c->row, augmented ? c->index : DPTI_NO_TENSOR}),
                      ((int[]){own})));
    if (!mixed) return DPT_OK;
    DPT_TRY(dpti_add_activations(c, elements, &other));
    DPT_TRY(DPTI_EMIT(c, gather,
                      ((int[]){images, c->partner_row, augmented ? c->partner : DPTI_NO_TENSOR}),
                      ((int[]){other})));
    return dpti_emit_mixed_images(c, own, other, c->value[input]);
}

/* Labels, or the targets of a regression, which take the labels' place and are always float32. */
static dpt_status emit_labels(dpti_compiler *c)
{
    const bool targets = dpti_loss_has_targets(c->options->loss);
    const size_t count = targets ? c->model->nodes[c->model->logits].elements : c->model->n_labels;
    int labels;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_LABELS, 0, &labels));
    DPT_TRY(dpti_add_sampled(c, count, &c->label));
    const dpti_instruction gather = {
        .desc = {.kind = targets ? DPT_OP_GATHER : DPT_OP_GATHER_LABELS,
                 .u.gather = {.dtype = targets ? DPT_F32 : DPT_I32,
                              .count = count,
                              .n_records = n_records(c),
                              .channels = 1,
                              .scale = {1.0f}}},
        .layer = "input"};
    DPT_TRY(DPTI_EMIT(c, gather, ((int[]){labels, c->row}), ((int[]){c->label})));
    if (!dpti_is_training(c) || !dpti_mixes(c->options)) return DPT_OK;
    DPT_TRY(dpti_add_sampled(c, count, &c->partner_label));
    return DPTI_EMIT(c, gather, ((int[]){labels, c->partner_row}), ((int[]){c->partner_label}));
}

/* Parameters and constants that are read as values are where they are. */
static dpt_status find_leaves(dpti_compiler *c)
{
    for (size_t i = 0; i < c->model->n_nodes; i++) {
        const dpti_node *node = &c->model->nodes[i];
        if (node->kind == DPTI_NODE_PARAMETER)
            DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, &c->value[i]));
        if (node->kind == DPTI_NODE_CONSTANT)
            DPT_TRY(dpti_add_view(c, DPTI_HOME_CONSTANTS, node->constant, &c->value[i]));
    }
    return DPT_OK;
}

/* Finds what tells with which samples the batch is mixed, and how. */
static dpt_status find_partners(dpti_compiler *c)
{
    if (!dpti_is_training(c) || !dpti_mixes(c->options)) return DPT_OK;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_PARTNERS, 0, &c->partner));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_MIX, 0, &c->mix));
    c->partner_row = c->partner;
    return c->options->fed ? dpti_add_view(c, DPTI_HOME_PARTNER_ROWS, 0, &c->partner_row) : DPT_OK;
}

dpt_status dpti_emit_gather(dpti_compiler *c)
{
    DPT_TRY(find_leaves(c));

    DPT_TRY(dpti_add_view(c, DPTI_HOME_INDEX, 0, &c->index));
    c->row = c->index;
    if (c->options->fed) DPT_TRY(dpti_add_view(c, DPTI_HOME_ROWS, 0, &c->row));
    DPT_TRY(find_partners(c));
    const dpt_model *m = c->model;
    DPT_TRY(m->nodes[m->input].integer ? emit_ids(c, m->input) : emit_images(c));
    /* The same records, as integers. */
    if (m->ids != SIZE_MAX) DPT_TRY(emit_ids(c, m->ids));
    const bool compares =
        c->options->purpose != DPTI_PURPOSE_PREDICT && c->options->loss != DPT_LOSS_OUTPUT;
    return compares ? emit_labels(c) : DPT_OK;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static int input_of(const dpti_compiler *c, const dpti_node *node, size_t i)
{
    return i < node->n_inputs ? c->value[c->root[node->inputs[i]]] : DPTI_NO_TENSOR;
}

/* Convolution, linear, pooling, activation, addition: one operator each. */
static dpt_status emit_plain(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    dpti_instruction forward = dpti_instruction_of(c, node);
    if (node->kind == DPTI_NODE_CONV2D) forward.desc.u.conv2d.activation = c->activation[i];
    if (node->kind == DPTI_NODE_LINEAR) forward.desc.u.linear.activation = c->activation[i];
    int w, b;
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, &w));
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->bias, &b));
    return DPTI_EMIT(
        c, forward,
        ((int[]){input_of(c, node, 0), input_of(c, node, 1), input_of(c, node, 2), w, b}),
        ((int[]){c->value[i]}));
}

static dpt_status emit_dropout(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpti_instruction forward = dpti_instruction_of(c, node);
    return DPTI_EMIT(c, forward, ((int[]){input_of(c, node, 0), c->index}), ((int[]){c->value[i]}));
}

static dpt_status emit_elementwise(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int in[DPTI_NODE_INPUTS];
    for (size_t k = 0; k < DPTI_NODE_INPUTS; k++)
        in[k] = input_of(c, node, k);
    return DPTI_EMIT(c, dpti_instruction_of(c, node), in, ((int[]){c->value[i]}));
}

static dpt_status emit_layer_norm(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpti_instruction forward = dpti_instruction_of(c, node);
    int w, b;
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, &w));
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->bias, &b));
    DPT_TRY(dpti_add_sampled(c, 2 * node->forward.u.layer_norm.rows, &c->moments[i]));
    return DPTI_EMIT(c, forward, ((int[]){input_of(c, node, 0), w, b}),
                     ((int[]){c->value[i], c->moments[i]}));
}

/* Adds what a batch-norm contributes to a statistic that it shares.  With momentum m, u updates one
   after another leave (1-m)^u of the running statistic, and m (1-m)^k of the statistic of a
   batch-norm behind which k others update.  The step makes one update with the momentum
   M = 1 - (1-m)^u (update.c), so that the share is m (1-m)^k / M. */
static dpt_status add_share(dpti_compiler *c, size_t i, size_t statistic, int own)
{
    const dpti_node *node = &c->model->nodes[i];
    const double left = 1.0 - (double)c->model->parameters[statistic].momentum;
    const size_t all = dpti_count_updates(c->model, statistic, 0),
                 behind = dpti_count_updates(c->model, statistic, i + 1);
    const double moved = 1.0 - dpti_power(left, all);
    const double share = moved > 0.0 ? (1.0 - left) * dpti_power(left, behind) / moved : 0.0;
    const bool adds = behind + 1 < all || c->options->accumulate;
    int sum;
    DPT_TRY(dpti_add_gradient(c, statistic, &sum));
    const dpti_instruction add = {
        .layer = node->name,
        .per_step = true,
        .desc = {.kind = DPT_OP_ADD,
                 .u.elementwise = {.count = node->forward.u.batch_norm.channels,
                                   .alpha = (float)share,
                                   .beta = adds ? 1.0f : 0.0f}}};
    return DPTI_EMIT(c, add, ((int[]){own, adds ? sum : own}), ((int[]){sum}));
}

/* The moments of the batch, over all devices if they exchange them.  The batch's contribution to
   the running statistics is written to the gradient buffer, and is summed over devices as
   gradients are. */
static dpt_status emit_batch_moments(dpti_compiler *c, size_t i, int x)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t channels = node->forward.u.batch_norm.channels;
    int mean, variance;
    dpti_part of = {.count = 3 * channels};
    DPT_TRY(dpti_add_part(c, of.count, &of.part));
    DPT_TRY(DPTI_EMIT(c, dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_PARTIAL), ((int[]){x}),
                      ((int[]){of.part})));
    DPT_TRY(dpti_contribute_parts(c, &of, 1));
    DPT_TRY(dpti_take_parts(c, &of, 1));
    dpti_instruction merge = dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_MERGE);
    if (dpti_count_updates(c->model, node->mean, 0) > 1) {
        DPT_TRY(dpti_add_whole(c, channels, &mean));
        DPT_TRY(dpti_add_whole(c, channels, &variance));
        DPT_TRY(DPTI_EMIT(c, merge, ((int[]){of.parts}), ((int[]){c->moments[i], mean, variance})));
        DPT_TRY(add_share(c, i, node->mean, mean));
        return add_share(c, i, node->variance, variance);
    }
    DPT_TRY(dpti_add_gradient(c, node->mean, &mean));
    DPT_TRY(dpti_add_gradient(c, node->variance, &variance));
    merge.flags = dpti_gradient_flags(c);
    return DPTI_EMIT(c, merge, ((int[]){of.parts}), ((int[]){c->moments[i], mean, variance}));
}

static dpt_status emit_running_moments(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int mean, variance;
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->mean, &mean));
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->variance, &variance));
    dpti_instruction freeze = dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_FREEZE);
    freeze.per_step = true;
    return DPTI_EMIT(c, freeze, ((int[]){mean, variance}), ((int[]){c->moments[i]}));
}

static dpt_status emit_batch_norm(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const int x = input_of(c, node, 0);
    const size_t residual = c->residual[i];
    int w, b;
    if (!dpti_is_again(c)) {
        DPT_TRY(dpti_add_whole(c, 3 * node->forward.u.batch_norm.channels, &c->moments[i]));
        DPT_TRY(dpti_is_training(c) && !c->options->norms_frozen ? emit_batch_moments(c, i, x)
                                                                 : emit_running_moments(c, i));
    }
    DPT_TRY(dpti_add_scale(c, node, &w, &b));
    dpti_instruction forward = dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_FORWARD);
    forward.desc.u.batch_norm.activation = c->activation[i];
    forward.desc.u.batch_norm.has_residual = residual != SIZE_MAX;
    const int added = residual != SIZE_MAX ? c->value[residual] : DPTI_NO_TENSOR;
    return DPTI_EMIT(c, forward, ((int[]){x, c->moments[i], w, b, added}), ((int[]){c->value[i]}));
}

dpt_status dpti_emit_forward(dpti_compiler *c, size_t node)
{
    DPT_TRY(dpti_add_value(c, node, &c->value[node]));
    switch (c->model->nodes[node].kind) {
    case DPTI_NODE_BATCH_NORM: return emit_batch_norm(c, node);
    case DPTI_NODE_LAYER_NORM: return emit_layer_norm(c, node);
    case DPTI_NODE_DROPOUT: return emit_dropout(c, node);
    case DPTI_NODE_ELEMENTWISE: return emit_elementwise(c, node);
    case DPTI_NODE_JOIN: return dpti_emit_join(c, node);
    case DPTI_NODE_EMBEDDING: return dpti_emit_embedding(c, node);
    case DPTI_NODE_PROJECTION: return dpti_emit_projection(c, node);
    case DPTI_NODE_RECURRENT: return dpti_emit_recurrent(c, node);
    case DPTI_NODE_ATTENTION: return dpti_emit_attention(c, node);
    case DPTI_NODE_CALL: return dpti_emit_call(c, node);
    default: return emit_plain(c, node);
    }
}
