/* Reverse-mode differentiation: computes the gradients of every layer from the gradient of its
   output. */
#include "graph/compile.h"
#include "graph/elementwise.h"
#include "graph/product.h"

static bool has_gradient(const dpti_compiler *c, size_t root)
{
    return c->needs[root];
}

/* A contribution that a consumer of `root` is about to add to the root's gradient. */
typedef struct contribution {
    int gradient;
    uint32_t flags;      /* accumulate, except for the first contribution */
    dpt_activation mask; /* the activation whose derivative the last contribution applies */
} contribution;

/* Returns whether a root is a batch-norm whose backward operator applies the derivative of its
   activation itself.  If a residual is added, the gradient is also the residual's, so the
   batch-norm must not apply the derivative alone. */
static bool masks_itself(const dpti_compiler *c, size_t root)
{
    return c->options->norms_mask && c->model->nodes[root].kind == DPTI_NODE_BATCH_NORM &&
           c->activation[root] == DPT_ACT_RELU && c->residual[root] == SIZE_MAX;
}

static contribution contribute(dpti_compiler *c, size_t root, bool first)
{
    const bool masks = --c->pending[root] == 0 && !masks_itself(c, root);
    return (contribution){.gradient = c->gradient[root],
                          .flags = first ? 0 : DPT_RUN_ACCUMULATE,
                          .mask = masks ? c->activation[root] : DPT_ACT_NONE};
}

static dpt_status begin_contribution(dpti_compiler *c, size_t root, contribution *out)
{
    const bool first = c->gradient[root] == DPTI_NO_TENSOR;
    if (first) DPT_TRY(dpti_add_value(c, root, &c->gradient[root]));
    *out = contribute(c, root, first);
    return DPT_OK;
}

static dpt_status emit_mask(dpti_compiler *c, size_t root, dpt_activation mask);

/* Returns whether an instruction writes every element of its output. */
static bool writes_all(const dpt_map_desc *d)
{
    size_t n = 1;
    for (size_t i = 0; i < d->rank; i++)
        if (d->out[0].stride[i] != 0) n *= d->extent[i];
    return n == d->out[0].size;
}

/* Returns whether nothing that an instruction reads or writes has samples. */
static bool has_no_samples(const dpt_map_desc *d)
{
    for (size_t i = 0; i < d->n_in; i++)
        if (d->in[i].sampled) return false;
    return !d->out[0].sampled;
}

/* Before the first contribution, writes zeros by the instruction `zero`.  The contribution itself
   writes a part of the gradient. */
static dpt_status clear_first(const dpti_compiler *c, contribution *to, dpti_instruction zero)
{
    if (to->flags & DPT_RUN_ACCUMULATE) return DPT_OK;
    dpti_store_operands(c, &zero.desc);
    to->flags = DPT_RUN_ACCUMULATE;
    return dpti_emit(c, zero, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){&to->gradient, 1});
}

/* Emits a MAP or MAP_REDUCE whose output is its contribution to a root's gradient, or to that of a
   parameter that is read as a value.  The output may be a part of the gradient. */
static dpt_status emit_contribution(dpti_compiler *c, size_t root, dpti_instruction instruction,
                                    dpti_tensor_ids in)
{
    const dpt_map_desc *d = &instruction.desc.u.map;
    dpti_gradient of;
    DPT_TRY(dpti_begin_gradient(c, root, &of));
    contribution to = {.gradient = of.tensor, .flags = of.flags, .mask = of.mask};
    const dpti_tensor_ids out = {&to.gradient, 1};
    if (!writes_all(d))
        DPT_TRY(clear_first(
            c, &to,
            (dpti_instruction){.desc = dpti_fill_with(d->out[0].size, d->out[0].sampled, 0.0f),
                               .layer = instruction.layer,
                               .per_step = !d->out[0].sampled}));
    instruction.flags = to.flags;
    instruction.per_step = has_no_samples(d);
    dpti_store_operands(c, &instruction.desc);
    DPT_TRY(dpti_emit(c, instruction, in, out));
    return emit_mask(c, root, to.mask);
}

/* Applies the derivative for contributors whose operator cannot. */
static dpt_status emit_mask(dpti_compiler *c, size_t root, dpt_activation mask)
{
    if (mask == DPT_ACT_NONE) return DPT_OK;
    const dpti_node *node = &c->model->nodes[root];
    const dpti_instruction backward = {
        .desc = {.kind = DPT_OP_ACTIVATION_BACKWARD,
                 .type = c->options->type,
                 .u.activation = {.kind = mask, .count = node->elements}},
        .layer = node->name};
    return DPTI_EMIT(c, backward, ((int[]){c->gradient[root], c->value[root]}),
                     ((int[]){c->gradient[root]}));
}

/* The gradient of node i is the contribution to root's gradient, unchanged.  The root takes over
   the tensor if the root has no gradient yet and no other node needs the tensor. */
static dpt_status pass_gradient(dpti_compiler *c, size_t i, size_t root, bool last_use)
{
    if (!has_gradient(c, root)) return DPT_OK;
    const size_t count = c->model->nodes[i].elements;
    contribution to;
    if (c->gradient[root] == DPTI_NO_TENSOR && last_use) {
        c->gradient[root] = c->gradient[i];
        to = contribute(c, root, true);
        return emit_mask(c, root, to.mask);
    }
    DPT_TRY(begin_contribution(c, root, &to));
    dpti_instruction pass = {.desc.type = c->options->type, .layer = c->model->nodes[i].name};
    pass.desc.u.elementwise.count = count;
    pass.desc.u.elementwise.alpha = 1.0f;
    if (to.flags & DPT_RUN_ACCUMULATE) {
        pass.desc.kind = DPT_OP_ADD;
        pass.desc.u.elementwise.beta = 1.0f;
        DPT_TRY(DPTI_EMIT(c, pass, ((int[]){to.gradient, c->gradient[i]}), ((int[]){to.gradient})));
    } else {
        pass.desc.kind = DPT_OP_AFFINE;
        DPT_TRY(DPTI_EMIT(c, pass, ((int[]){c->gradient[i]}), ((int[]){to.gradient})));
    }
    return emit_mask(c, root, to.mask);
}

dpt_status dpti_begin_gradient(dpti_compiler *c, size_t root, dpti_gradient *out)
{
    const dpti_node *node = &c->model->nodes[root];
    contribution to;
    if (node->kind == DPTI_NODE_PARAMETER && c->gradient[root] == DPTI_NO_TENSOR)
        DPT_TRY(dpti_add_gradient(c, node->weight, &c->gradient[root]));
    DPT_TRY(begin_contribution(c, root, &to));
    if (node->kind == DPTI_NODE_PARAMETER) to.flags = dpti_parameter_flags(c, node->weight);
    *out = (dpti_gradient){.tensor = to.gradient, .flags = to.flags, .mask = to.mask};
    return DPT_OK;
}

dpt_status dpti_end_gradient(dpti_compiler *c, size_t root, const dpti_gradient *gradient)
{
    return emit_mask(c, root, gradient->mask);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Returns whether no parameter of a layer is trained. */
static bool keeps_parameters(const dpti_compiler *c, const dpti_node *node)
{
    return dpti_is_frozen(c, node->weight) && dpti_is_frozen(c, node->bias);
}

/* Computes the gradient of a convolution's filters now. */
static dpt_status emit_filters(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int dw, db;
    if (keeps_parameters(c, node)) return dpti_end_bucket(c, node->weight, 0);
    DPT_TRY(dpti_add_gradient(c, node->weight, &dw));
    DPT_TRY(dpti_add_gradient(c, node->bias, &db));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = dpti_parameter_flags(c, node->weight);
    backward.desc.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    backward.desc.u.conv2d.activation = DPT_ACT_NONE;
    const int x = c->value[c->root[node->inputs[0]]];
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){c->gradient[i], x}), ((int[]){dw, db})));
    return dpti_end_bucket(c, node->weight, 0);
}

dpt_status dpti_emit_held(dpti_compiler *c)
{
    const size_t held = c->held;
    c->held = SIZE_MAX;
    return held == SIZE_MAX ? DPT_OK : emit_filters(c, held);
}

/* Returns whether devices still have a rendezvous over the sums of a batch-norm before node i. */
static bool meets_before(const dpti_compiler *c, size_t i)
{
    if (!dpti_meets(c)) return false;
    while (i-- > 0)
        if (c->model->nodes[i].kind == DPTI_NODE_BATCH_NORM && c->needs[i] &&
            c->sums[i] == DPTI_NO_TENSOR)
            return true;
    return false;
}

/* No other instruction of the backward pass needs the gradient of filters, while it needs that of
   a convolution's input.  So the gradient of filters can be computed at the next rendezvous, while
   the parts of other devices are in transfer.  It is delayed at most until the gradient of the
   next layer, which is written after it. */
static dpt_status hold_filters(dpti_compiler *c, size_t i)
{
    const bool passes_on = has_gradient(c, c->root[c->model->nodes[i].inputs[0]]);
    DPT_TRY(dpti_emit_held(c));
    if (!c->options->holds_filters || keeps_parameters(c, &c->model->nodes[i]) || !passes_on ||
        !meets_before(c, i))
        return emit_filters(c, i);
    c->held = i;
    return DPT_OK;
}

/* Computes the slice of a linear layer's gradient that begins at output `first`. */
static dpt_status emit_slice(dpti_compiler *c, size_t i, size_t first, size_t rows)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_linear_desc *forward = &node->forward.u.linear;
    const bool is_whole = rows == forward->out;
    const size_t in = forward->in;
    int dw, db;
    DPT_TRY(
        dpti_add_gradient_part(c, (dpti_gradient_part){node->weight, first * in, rows * in}, &dw));
    DPT_TRY(dpti_add_gradient_part(c, (dpti_gradient_part){node->bias, first, rows}, &db));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = c->shared[node->weight] ? DPT_RUN_ACCUMULATE : dpti_gradient_flags(c);
    backward.desc.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    backward.desc.u.linear.activation = DPT_ACT_NONE;
    backward.desc.u.linear.first = is_whole ? 0 : first;
    backward.desc.u.linear.rows = is_whole ? 0 : rows;
    const int x = c->value[c->root[node->inputs[0]]];
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){c->gradient[i], x}), ((int[]){dw, db})));
    return i == c->chunked ? DPT_OK : dpti_end_bucket(c, node->weight, first * forward->in);
}

/* The last slice comes first: gradients are written from the end of the flat buffer. */
static dpt_status emit_slices(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    DPT_TRY(dpti_emit_held(c));
    if (keeps_parameters(c, node))
        return i == c->chunked ? DPT_OK : dpti_end_bucket(c, node->weight, 0);
    for (size_t end = node->forward.u.linear.out; end > 0;) {
        const size_t first = i == c->chunked ? 0 : dpti_slice_begin(c, node, end);
        DPT_TRY(emit_slice(c, i, first, end - first));
        end = first;
    }
    c->shared[node->weight] = true;
    return DPT_OK;
}

/* Returns whether the filters of a convolution are a value, and no parameter. */
static bool has_value_filters(const dpti_node *node)
{
    return node->n_inputs > 1;
}

static dpt_status find_filters(const dpti_compiler *c, const dpti_node *node, int *out)
{
    if (!has_value_filters(node))
        return dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, out);
    *out = c->value[c->root[node->inputs[1]]];
    return DPT_OK;
}

/* What computes the filters needs their gradient before the next rendezvous, so that it is not
   delayed. */
static dpt_status emit_value_filters(dpti_compiler *c, size_t i, int dy, int x)
{
    const dpti_node *node = &c->model->nodes[i];
    dpti_weights_gradient of = {.desc = node->forward,
                                .dy = dy,
                                .x = x,
                                .w = 1,
                                .bias = node->n_inputs > 2 ? 2 : SIZE_MAX,
                                .repeat = node->repeat};
    of.desc.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    of.desc.u.conv2d.activation = DPT_ACT_NONE;
    return dpti_emit_weights_gradient(c, node, &of);
}

/* Convolution and linear: the gradients of the parameters first, because their exchange can begin,
   then the gradient of the input. hold_filters is an exception. */
static dpt_status emit_weighted(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const bool conv = node->kind == DPTI_NODE_CONV2D;
    const size_t root = c->root[node->inputs[0]];
    const int dy = c->gradient[i], x = c->value[root];
    contribution to;
    int w;
    if (has_value_filters(node))
        DPT_TRY(emit_value_filters(c, i, dy, x));
    else
        DPT_TRY(conv ? hold_filters(c, i) : emit_slices(c, i));
    if (!has_gradient(c, root)) return DPT_OK;

    DPT_TRY(begin_contribution(c, root, &to));
    DPT_TRY(find_filters(c, node, &w));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = to.flags;
    backward.desc.kind = conv ? DPT_OP_CONV2D_BACKWARD_DATA : DPT_OP_LINEAR_BACKWARD_DATA;
    if (conv) {
        backward.desc.u.conv2d.activation = DPT_ACT_NONE;
        backward.desc.u.conv2d.input_activation = to.mask;
    } else {
        backward.desc.u.linear.activation = DPT_ACT_NONE;
        backward.desc.u.linear.input_activation = to.mask;
    }
    const int masked = to.mask == DPT_ACT_NONE ? DPTI_NO_TENSOR : x;
    return DPTI_EMIT(c, backward, ((int[]){dy, w, masked}), ((int[]){to.gradient}));
}

/* Adds a tensor to the gradient of a root; they have `count` elements of a sample. */
static dpt_status add_to_gradient(dpti_compiler *c, const dpti_node *node, int from, int to)
{
    const dpti_instruction add = {
        .desc = {.kind = DPT_OP_ADD,
                 .type = c->options->type,
                 .u.elementwise = {.count = c->model->nodes[node->inputs[0]].elements,
                                   .alpha = 1.0f,
                                   .beta = 1.0f}},
        .layer = node->name};
    return DPTI_EMIT(c, add, ((int[]){to, from}), ((int[]){to}));
}

static dpt_status emit_transposed_filters(dpti_compiler *c, size_t i, int x)
{
    const dpti_node *node = &c->model->nodes[i];
    const int dy = c->gradient[i];
    dpti_instruction backward = dpti_instruction_of(c, node);
    int dw;
    if (has_value_filters(node)) return emit_value_filters(c, i, x, dy);
    DPT_TRY(dpti_emit_held(c));
    if (!keeps_parameters(c, node)) {
        DPT_TRY(dpti_add_gradient(c, node->weight, &dw));
        backward.flags = dpti_parameter_flags(c, node->weight);
        backward.desc.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
        DPT_TRY(DPTI_EMIT(c, backward, ((int[]){x, dy}), ((int[]){dw})));
    }
    return dpti_end_bucket(c, node->weight, 0);
}

/* A transposed convolution is the gradient of a convolution's input.  So the roles are exchanged
   here: the gradient of its input is that convolution of the gradient of its output, and in the
   gradient of the filters the two take each other's place. */
static dpt_status emit_transposed(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    const int dy = c->gradient[i];
    dpti_instruction backward = dpti_instruction_of(c, node);
    contribution to;
    int w, dx;
    DPT_TRY(emit_transposed_filters(c, i, c->value[root]));
    if (!has_gradient(c, root)) return DPT_OK;

    DPT_TRY(begin_contribution(c, root, &to));
    DPT_TRY(find_filters(c, node, &w));
    const bool adds = (to.flags & DPT_RUN_ACCUMULATE) != 0;
    dx = to.gradient;
    if (adds) DPT_TRY(dpti_add_value(c, root, &dx));
    backward.flags = 0;
    backward.desc.kind = DPT_OP_CONV2D_FORWARD;
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){dy, w}), ((int[]){dx})));
    if (adds) DPT_TRY(add_to_gradient(c, node, dx, to.gradient));
    return emit_mask(c, root, to.mask);
}

static dpt_status emit_pool(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (!has_gradient(c, root)) return DPT_OK;
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = to.flags;
    backward.desc.kind = DPT_OP_POOL2D_BACKWARD;
    backward.desc.u.pool2d.input_activation = to.mask;
    return DPTI_EMIT(c, backward, ((int[]){c->gradient[i], c->value[root]}),
                     ((int[]){to.gradient}));
}

/* Emits a layer's own backward operator, which applies no derivative of an activation.  `second`:
   the gradient of the second input. */
static dpt_status emit_unmasked(dpti_compiler *c, size_t i, dpt_op_kind kind, int second)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (!has_gradient(c, root)) return DPT_OK;
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = to.flags;
    backward.desc.kind = kind;
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){c->gradient[i], second}), ((int[]){to.gradient})));
    return emit_mask(c, root, to.mask);
}

static dpt_status emit_activation(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (!dpt_activation_fuses(node->forward.u.activation.kind))
        return emit_unmasked(c, i, DPT_OP_ACTIVATION_BACKWARD, c->value[root]);
    /* The gradient of an activation's output already contains the derivative (see emit_mask and
       the masks of its consumers), so it is the gradient of the input. */
    return pass_gradient(c, i, root, true);
}

static dpt_status emit_add(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    DPT_TRY(pass_gradient(c, i, c->root[node->inputs[0]], false));
    return pass_gradient(c, i, c->root[node->inputs[1]], true);
}

/* Inputs of a batch-norm's backward operator that only its own derivative needs. */
typedef struct norm_mask {
    dpt_activation activation;
    int w, b;
} norm_mask;

static dpt_status find_norm_mask(const dpti_compiler *c, size_t i, norm_mask *out)
{
    const dpti_node *node = &c->model->nodes[i];
    *out = (norm_mask){.activation = DPT_ACT_NONE, .w = DPTI_NO_TENSOR, .b = DPTI_NO_TENSOR};
    if (!masks_itself(c, i)) return DPT_OK;
    out->activation = c->activation[i];
    return dpti_add_scale(c, node, &out->w, &out->b);
}

/* Without parameters nobody reads the gradients of the scale and the shift. */
static dpt_status add_scale_gradients(const dpti_compiler *c, const dpti_node *norm, int *dw,
                                      int *db)
{
    const size_t n = norm->forward.u.batch_norm.channels;
    if (norm->weight == SIZE_MAX) {
        DPT_TRY(dpti_add_whole(c, n, dw));
        return dpti_add_whole(c, n, db);
    }
    DPT_TRY(dpti_add_gradient(c, norm->weight, dw));
    return dpti_add_gradient(c, norm->bias, db);
}

static dpt_status emit_batch_norm_sums(dpti_compiler *c, size_t i, dpti_part *of)
{
    const dpti_node *node = &c->model->nodes[i];
    const int dy = c->gradient[i], x = c->value[c->root[node->inputs[0]]];
    norm_mask mask;
    int dw, db;
    DPT_TRY(find_norm_mask(c, i, &mask));
    *of = (dpti_part){.count = 2 * node->forward.u.batch_norm.channels};
    DPT_TRY(add_scale_gradients(c, node, &dw, &db));
    DPT_TRY(dpti_add_part(c, of->count, &of->part));
    dpti_instruction partial = dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_BACKWARD_PARTIAL);
    partial.flags = node->weight == SIZE_MAX ? 0 : dpti_gradient_flags(c);
    partial.desc.u.batch_norm.output_activation = mask.activation;
    return DPTI_EMIT(c, partial, ((int[]){dy, x, c->moments[i], mask.w, mask.b}),
                     ((int[]){of->part, dw, db}));
}

/* Returns whether the residual is a batch-norm whose gradient is complete with the contribution of
   this one, as in a shortcut with a convolution.  Both batch-norms can then contribute their sums
   to one rendezvous. */
static bool is_twin(const dpti_compiler *c, size_t residual)
{
    return residual != SIZE_MAX && dpti_meets(c) && c->needs[residual] &&
           c->model->nodes[residual].kind == DPTI_NODE_BATCH_NORM && c->pending[residual] == 1 &&
           c->activation[residual] == DPT_ACT_NONE;
}

static dpt_status meet_over_sums(dpti_compiler *c, size_t i)
{
    const size_t twin = c->residual[i];
    dpti_part of[DPTI_MOST_PARTS];
    size_t n = 1;
    DPT_TRY(emit_batch_norm_sums(c, i, &of[0]));
    if (is_twin(c, twin)) {
        DPT_TRY(pass_gradient(c, i, twin, true));
        DPT_TRY(emit_batch_norm_sums(c, twin, &of[n++]));
    }
    DPT_TRY(dpti_contribute_parts(c, of, n));
    DPT_TRY(dpti_emit_held(c));
    DPT_TRY(dpti_take_parts(c, of, n));
    c->sums[i] = of[0].parts;
    if (n > 1) c->sums[twin] = of[1].parts;
    return DPT_OK;
}

static dpt_status emit_batch_norm_data(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (!has_gradient(c, root)) return DPT_OK;
    contribution to;
    norm_mask mask;
    int w, b;
    DPT_TRY(find_norm_mask(c, i, &mask));
    DPT_TRY(begin_contribution(c, root, &to));
    DPT_TRY(dpti_add_scale(c, node, &w, &b));
    dpti_instruction backward = dpti_batch_norm(c, node, DPT_OP_BATCH_NORM_BACKWARD_DATA);
    backward.flags = to.flags;
    backward.desc.u.batch_norm.input_activation = to.mask;
    backward.desc.u.batch_norm.output_activation = mask.activation;
    return DPTI_EMIT(
        c, backward,
        ((int[]){c->gradient[i], c->value[root], c->moments[i], w, c->sums[i], mask.b}),
        ((int[]){to.gradient}));
}

static dpt_status emit_batch_norm(dpti_compiler *c, size_t i)
{
    const size_t residual = c->residual[i];
    if (c->sums[i] == DPTI_NO_TENSOR) DPT_TRY(meet_over_sums(c, i));
    DPT_TRY(emit_batch_norm_data(c, i));
    const bool is_passed = residual == SIZE_MAX || c->sums[residual] != DPTI_NO_TENSOR;
    return is_passed ? DPT_OK : pass_gradient(c, i, residual, true);
}

static dpt_status emit_layer_norm(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    const int dy = c->gradient[i], x = c->value[root];
    int w, dw, db;
    DPT_TRY(dpti_add_gradient(c, node->weight, &dw));
    DPT_TRY(dpti_add_gradient(c, node->bias, &db));
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.flags = dpti_gradient_flags(c);
    backward.desc.kind = DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS;
    if (!keeps_parameters(c, node))
        DPT_TRY(DPTI_EMIT(c, backward, ((int[]){dy, x, c->moments[i]}), ((int[]){dw, db})));
    if (!has_gradient(c, root)) return DPT_OK;
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, &w));
    backward.desc.kind = DPT_OP_LAYER_NORM_BACKWARD_DATA;
    backward.desc.u.layer_norm.input_activation = to.mask;
    backward.flags = to.flags;
    return DPTI_EMIT(c, backward, ((int[]){dy, x, c->moments[i], w}), ((int[]){to.gradient}));
}

/* Input k of a sum, or of a program without a reduction. */
static dpt_status emit_derivative(dpti_compiler *c, size_t i, size_t k)
{
    const dpti_node *node = &c->model->nodes[i];
    uint8_t tensors[DPT_MAX_INPUTS];
    int in[DPT_MAX_INPUTS];
    const dpti_instruction backward = {.desc = dpti_elementwise_gradient(node, k, tensors),
                                       .layer = node->name};
    const size_t n_in = backward.desc.u.map.n_in;
    for (size_t t = 0; t < n_in; t++)
        in[t] = tensors[t] == node->n_inputs ? c->gradient[i]
                                             : c->value[c->root[node->inputs[tensors[t]]]];
    return emit_contribution(c, c->root[node->inputs[k]], backward, (dpti_tensor_ids){in, n_in});
}

/* A maximum or a minimum: the elements that are equal to it share its gradient. */
static dpt_status emit_extreme(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    const dpt_op_desc ties = dpti_count_ties(node), share = dpti_share_gradient(node);
    int n_ties;
    dpti_instruction count = {.desc = ties, .layer = node->name};
    DPT_TRY(dpti_add_value(c, i, &n_ties));
    count.per_step = has_no_samples(&ties.u.map);
    dpti_store_operands(c, &count.desc);
    DPT_TRY(DPTI_EMIT(c, count, ((int[]){c->value[root], c->value[i]}), ((int[]){n_ties})));
    const dpti_instruction backward = {.desc = share, .layer = node->name};
    const int in[] = {c->value[root], c->value[i], c->gradient[i], n_ties};
    return emit_contribution(c, root, backward, (dpti_tensor_ids){in, 4});
}

/* Each input gets a derivative of its own. */
static dpt_status emit_elementwise(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    for (size_t k = 0; k < node->n_inputs; k++) {
        if (!has_gradient(c, c->root[node->inputs[k]])) continue;
        DPT_TRY(node->forward.u.map.reduction == DPT_REDUCE_SUM ? emit_derivative(c, i, k)
                                                                : emit_extreme(c, i));
    }
    return DPT_OK;
}

static dpt_status emit_join(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    for (size_t k = 0; k < node->n_inputs; k++) {
        const size_t root = c->root[node->inputs[k]];
        if (!has_gradient(c, root)) continue;
        const dpti_instruction backward = {.desc = dpti_join_move(c, node, k, true),
                                           .layer = node->name};
        DPT_TRY(emit_contribution(c, root, backward, (dpti_tensor_ids){&c->gradient[i], 1}));
    }
    return DPT_OK;
}

/* The gradient of input k of a product. */
static dpt_status emit_factor(dpti_compiler *c, size_t i, size_t k)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[k]];
    const int other = c->value[c->root[node->inputs[1 - k]]], dy = c->gradient[i];
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.desc.u.matmul = dpti_product_gradient(&node->forward.u.matmul, k);
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    if (!dpti_product_writes_all(&backward.desc.u.matmul))
        DPT_TRY(clear_first(c, &to,
                            (dpti_instruction){.desc = dpti_fill_with(
                                                   backward.desc.u.matmul.y.elements, true, 0.0f),
                                               .layer = node->name}));
    backward.flags = to.flags;
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){k == 0 ? dy : other, k == 0 ? other : dy}),
                      ((int[]){to.gradient})));
    return emit_mask(c, root, to.mask);
}

static dpt_status emit_product(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    for (size_t k = 0; k < node->n_inputs; k++)
        if (has_gradient(c, c->root[node->inputs[k]])) DPT_TRY(emit_factor(c, i, k));
    return DPT_OK;
}

dpt_status dpti_emit_backward(dpti_compiler *c, size_t node)
{
    switch (c->model->nodes[node].kind) {
    case DPTI_NODE_CONV2D:
    case DPTI_NODE_LINEAR: return emit_weighted(c, node);
    case DPTI_NODE_POOL2D: return emit_pool(c, node);
    case DPTI_NODE_ACTIVATE: return emit_activation(c, node);
    case DPTI_NODE_ADD: return emit_add(c, node);
    case DPTI_NODE_BATCH_NORM: return emit_batch_norm(c, node);
    case DPTI_NODE_LAYER_NORM: return emit_layer_norm(c, node);
    case DPTI_NODE_DROPOUT: return emit_unmasked(c, node, DPT_OP_DROPOUT, c->index);
    case DPTI_NODE_ELEMENTWISE: return emit_elementwise(c, node);
    case DPTI_NODE_JOIN: return emit_join(c, node);
    case DPTI_NODE_PRODUCT: return emit_product(c, node);
    case DPTI_NODE_SOFTMAX:
        return emit_unmasked(c, node, DPT_OP_ROW_SOFTMAX_BACKWARD, c->value[node]);
    case DPTI_NODE_EMBEDDING: return dpti_emit_embedding_backward(c, node);
    case DPTI_NODE_CONV2D_TRANSPOSE: return emit_transposed(c, node);
    case DPTI_NODE_PROJECTION: return dpti_emit_projection_backward(c, node);
    case DPTI_NODE_RECURRENT: return dpti_emit_recurrent_backward(c, node);
    case DPTI_NODE_ATTENTION: return dpti_emit_attention_backward(c, node);
    case DPTI_NODE_CALL: return dpti_emit_call_backward(c, node);
    case DPTI_NODE_INPUT:
    case DPTI_NODE_PARAMETER:
    case DPTI_NODE_CONSTANT:
    case DPTI_NODE_VIEW:
    case DPTI_NODE_FLATTEN: break;
    }
    return DPT_OK;
}

dpt_status dpti_emit_loss_backward(dpti_compiler *c)
{
    /* The loss operator has written the gradient of the logits. */
    const size_t root = c->root[c->model->logits];
    const contribution to = contribute(c, root, true);
    return emit_mask(c, root, to.mask);
}

dpt_status dpti_emit_chunked_backward(dpti_compiler *c)
{
    dpti_deferral_begin(c);
    DPT_TRY(dpti_emit_loss_backward(c));
    return c->needs[c->chunked] ? dpti_emit_backward(c, c->chunked) : DPT_OK;
}
