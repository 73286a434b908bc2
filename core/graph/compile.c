/* From a model to a program: forward, loss, reverse-mode differentiation, optimizer.

   Every node's value has a root: the node in whose tensor it lives.  flatten lives in its input,
   and an activation that directly follows a convolution or linear layer is computed by that layer.
   Gradients belong to roots.  They are filled by the consumers in reverse order: the first one
   writes, later ones accumulate, and the last one applies the derivative of the root's activation,
   itself if its operator can, else by an instruction of its own. */
#include "graph/program.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

typedef struct compiler {
    const dpt_model *model;
    const dpti_program_options *options;
    dpti_program *program;
    dpt_error *error;
    /* per node */
    size_t *root;
    size_t *consumers;          /* of a root: how many instructions read it, the loss included */
    size_t *pending;            /* of a root: consumers whose contribution is still missing */
    dpt_activation *activation; /* of a root: fused behind it */
    int *value, *gradient;      /* of a root: tensors */
} compiler;

/* ---- Emitting -------------------------------------------------------------------------------- */

static dpt_status out_of_memory(const compiler *c)
{
    return DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", c->model->name);
}

static dpt_status grow(const compiler *c, void **items, size_t *capacity, size_t n, size_t bytes)
{
    if (n < *capacity) return DPT_OK;
    const size_t wanted = *capacity ? 2 * *capacity : 32;
    void *grown = realloc(*items, wanted * bytes);
    if (!grown) return out_of_memory(c);
    *items = grown;
    *capacity = wanted;
    return DPT_OK;
}

static dpt_status add_tensor(const compiler *c, dpti_program_tensor tensor, int *out)
{
    dpti_program *p = c->program;
    DPT_TRY(grow(c, (void **)&p->tensors, &p->tensors_capacity, p->n_tensors, sizeof *p->tensors));
    tensor.first = SIZE_MAX;
    p->tensors[p->n_tensors] = tensor;
    *out = (int)p->n_tensors++;
    return DPT_OK;
}

static dpt_status add_arena(const compiler *c, size_t elements, int *out)
{
    return add_tensor(
        c, (dpti_program_tensor){.home = DPTI_HOME_ARENA, .per_sample_bytes = 4 * elements}, out);
}

static dpt_status add_flat(const compiler *c, dpti_home home, size_t parameter, int *out)
{
    *out = DPTI_NO_TENSOR;
    if (parameter == SIZE_MAX) return DPT_OK;
    return add_tensor(
        c, (dpti_program_tensor){.home = home, .offset = c->model->parameters[parameter].offset},
        out);
}

static void extend_life(dpti_program *p, int tensor, size_t instruction)
{
    if (tensor == DPTI_NO_TENSOR) return;
    dpti_program_tensor *t = &p->tensors[tensor];
    if (t->first == SIZE_MAX) t->first = instruction;
    t->last = instruction;
}

/* Tensors that the description does not ask for are left out: slots are dense, in table order. */
static dpt_status emit(const compiler *c, dpti_instruction instruction, const int *in, size_t n_in,
                       const int *out, size_t n_out)
{
    dpti_program *p = c->program;
    DPT_TRY(grow(c, (void **)&p->instructions, &p->instructions_capacity, p->n_instructions,
                 sizeof *p->instructions));
    size_t slot = 0;
    for (size_t i = 0; i < n_in; i++)
        if (in[i] != DPTI_NO_TENSOR) instruction.in[slot++] = in[i];
    while (slot < DPT_MAX_INPUTS)
        instruction.in[slot++] = DPTI_NO_TENSOR;
    slot = 0;
    for (size_t i = 0; i < n_out; i++)
        if (out[i] != DPTI_NO_TENSOR) instruction.out[slot++] = out[i];
    while (slot < DPT_MAX_OUTPUTS)
        instruction.out[slot++] = DPTI_NO_TENSOR;
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        extend_life(p, instruction.in[i], p->n_instructions);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        extend_life(p, instruction.out[i], p->n_instructions);
    p->instructions[p->n_instructions++] = instruction;
    return DPT_OK;
}

#define EMIT(c, instruction, in, out)                                                              \
    emit((c), (instruction), (in), sizeof(in) / sizeof *(in), (out), sizeof(out) / sizeof *(out))

/* ---- Roots and fusion ------------------------------------------------------------------------ */

static bool can_fuse_activation(const dpti_node *node)
{
    return (node->kind == DPTI_NODE_CONV2D || node->kind == DPTI_NODE_LINEAR);
}

static dpt_activation own_activation(const dpti_node *node)
{
    if (node->kind == DPTI_NODE_CONV2D) return node->forward.u.conv2d.activation;
    if (node->kind == DPTI_NODE_LINEAR) return node->forward.u.linear.activation;
    if (node->kind == DPTI_NODE_ACTIVATE) return node->forward.u.activation.kind;
    return DPT_ACT_NONE;
}

static void find_roots(compiler *c)
{
    const dpt_model *m = c->model;
    /* Readers of a root, counted as if nothing were fused: flatten passes its input on. */
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        c->root[i] = node->kind == DPTI_NODE_FLATTEN ? c->root[node->inputs[0]] : i;
        c->activation[i] = own_activation(node);
        if (node->kind == DPTI_NODE_FLATTEN) continue;
        for (size_t j = 0; j < node->n_inputs; j++)
            c->consumers[c->root[node->inputs[j]]]++;
    }
    c->consumers[c->root[m->logits]]++;
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        if (node->kind == DPTI_NODE_FLATTEN) c->root[i] = c->root[node->inputs[0]];
        if (node->kind != DPTI_NODE_ACTIVATE) continue;
        const size_t before = c->root[node->inputs[0]];
        if (!can_fuse_activation(&m->nodes[before]) || c->activation[before] != DPT_ACT_NONE ||
            c->consumers[before] != 1)
            continue;
        c->activation[before] = c->activation[i];
        c->consumers[before] = c->consumers[i];
        c->root[i] = before;
    }
    memcpy(c->pending, c->consumers, m->n_nodes * sizeof *c->pending);
}

static bool computes(const compiler *c, size_t node)
{
    return c->root[node] == node && c->model->nodes[node].kind != DPTI_NODE_INPUT;
}

static int value_of(const compiler *c, size_t node)
{
    return c->value[c->root[node]];
}

/* ---- Forward --------------------------------------------------------------------------------- */

static dpt_status emit_gather(compiler *c, int *label)
{
    const dpt_dataset *data = c->options->data;
    const size_t input = c->model->input, elements = c->model->nodes[input].elements;
    int images, labels, index;
    DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_IMAGES}, &images));
    DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_LABELS}, &labels));
    DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_INDEX}, &index));
    DPT_TRY(add_arena(c, elements, &c->value[input]));
    DPT_TRY(add_arena(c, 1, label));
    dpti_instruction gather = {.desc = {.kind = DPT_OP_GATHER,
                                        .u.gather = {.dtype = data->dtype,
                                                     .count = elements,
                                                     .n_records = data->count,
                                                     .channels = data->stat_channels}},
                               .layer = "input"};
    memcpy(gather.desc.u.gather.mean, data->mean, sizeof data->mean);
    memcpy(gather.desc.u.gather.scale, data->scale, sizeof data->scale);
    DPT_TRY(EMIT(c, gather, ((int[]){images, index}), ((int[]){c->value[input]})));
    const dpti_instruction gather_labels = {.desc = {.kind = DPT_OP_GATHER_LABELS,
                                                     .u.gather = {.dtype = DPT_U8,
                                                                  .count = 1,
                                                                  .n_records = data->count,
                                                                  .channels = 1,
                                                                  .scale = {1.0f}}},
                                            .layer = "input"};
    return EMIT(c, gather_labels, ((int[]){labels, index}), ((int[]){*label}));
}

static dpt_status emit_forward(compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    DPT_TRY(add_arena(c, node->elements, &c->value[i]));
    dpti_instruction forward = {.desc = node->forward, .layer = node->name};
    if (node->kind == DPTI_NODE_CONV2D) forward.desc.u.conv2d.activation = c->activation[i];
    if (node->kind == DPTI_NODE_LINEAR) forward.desc.u.linear.activation = c->activation[i];
    int w, b;
    DPT_TRY(add_flat(c, DPTI_HOME_PARAMETERS, node->weight, &w));
    DPT_TRY(add_flat(c, DPTI_HOME_PARAMETERS, node->bias, &b));
    const int second = node->n_inputs > 1 ? value_of(c, node->inputs[1]) : DPTI_NO_TENSOR;
    return EMIT(c, forward, ((int[]){value_of(c, node->inputs[0]), second, w, b}),
                ((int[]){c->value[i]}));
}

static dpt_status emit_loss(compiler *c, int label)
{
    const dpt_model *m = c->model;
    const size_t root = c->root[m->logits];
    DPT_TRY(add_arena(c, 2, &c->program->result));
    int gradient = DPTI_NO_TENSOR;
    if (c->options->training) {
        DPT_TRY(add_arena(c, m->nodes[root].elements, &c->gradient[root]));
        gradient = c->gradient[root];
    }
    const dpti_instruction loss = {
        .desc = {.kind = c->options->training ? DPT_OP_SOFTMAX_XENT_GRADIENT : DPT_OP_SOFTMAX_XENT,
                 .u.softmax = {.classes = m->nodes[m->logits].elements}},
        .layer = "loss"};
    return EMIT(c, loss, ((int[]){c->value[root], label}), ((int[]){c->program->result, gradient}));
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* A consumer of `root` is about to add its contribution. */
typedef struct contribution {
    int gradient;
    uint32_t flags;      /* accumulate, unless it is the first */
    dpt_activation mask; /* to be applied, if it is the last */
} contribution;

static dpt_status begin_contribution(compiler *c, size_t root, contribution *out)
{
    const bool first = c->gradient[root] == DPTI_NO_TENSOR;
    if (first) DPT_TRY(add_arena(c, c->model->nodes[root].elements, &c->gradient[root]));
    c->pending[root]--;
    *out = (contribution){.gradient = c->gradient[root],
                          .flags = first ? 0 : DPT_RUN_ACCUMULATE,
                          .mask = c->pending[root] == 0 ? c->activation[root] : DPT_ACT_NONE};
    return DPT_OK;
}

/* For contributors whose operator applies no mask. */
static dpt_status emit_mask(compiler *c, size_t root, dpt_activation mask)
{
    if (mask == DPT_ACT_NONE) return DPT_OK;
    const dpti_node *node = &c->model->nodes[root];
    const dpti_instruction backward = {
        .desc = {.kind = DPT_OP_ACTIVATION_BACKWARD,
                 .u.activation = {.kind = mask, .count = node->elements}},
        .layer = node->name};
    return EMIT(c, backward, ((int[]){c->gradient[root], c->value[root]}),
                ((int[]){c->gradient[root]}));
}

/* Convolution and linear: gradients of the parameters, then of the input. */
static dpt_status emit_weighted_backward(compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const bool conv = node->kind == DPTI_NODE_CONV2D;
    const size_t root = c->root[node->inputs[0]];
    const int dy = c->gradient[i], x = c->value[root];
    int w, dw, db;
    DPT_TRY(add_flat(c, DPTI_HOME_GRADIENTS, node->weight, &dw));
    DPT_TRY(add_flat(c, DPTI_HOME_GRADIENTS, node->bias, &db));
    dpti_instruction backward = {.desc = node->forward, .layer = node->name};
    backward.desc.kind = conv ? DPT_OP_CONV2D_BACKWARD_WEIGHTS : DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    if (conv)
        backward.desc.u.conv2d.activation = DPT_ACT_NONE;
    else
        backward.desc.u.linear.activation = DPT_ACT_NONE;
    DPT_TRY(EMIT(c, backward, ((int[]){dy, x}), ((int[]){dw, db})));
    if (c->model->nodes[root].kind == DPTI_NODE_INPUT) return DPT_OK;

    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    DPT_TRY(add_flat(c, DPTI_HOME_PARAMETERS, node->weight, &w));
    backward.desc.kind = conv ? DPT_OP_CONV2D_BACKWARD_DATA : DPT_OP_LINEAR_BACKWARD_DATA;
    backward.flags = to.flags;
    if (conv)
        backward.desc.u.conv2d.input_activation = to.mask;
    else
        backward.desc.u.linear.input_activation = to.mask;
    const int masked = to.mask == DPT_ACT_NONE ? DPTI_NO_TENSOR : x;
    return EMIT(c, backward, ((int[]){dy, w, masked}), ((int[]){to.gradient}));
}

static dpt_status emit_pool_backward(compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (c->model->nodes[root].kind == DPTI_NODE_INPUT) return DPT_OK;
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    dpti_instruction backward = {.desc = node->forward, .flags = to.flags, .layer = node->name};
    backward.desc.kind = DPT_OP_POOL2D_BACKWARD;
    backward.desc.u.pool2d.input_activation = to.mask;
    return EMIT(c, backward, ((int[]){c->gradient[i], c->value[root]}), ((int[]){to.gradient}));
}

static dpt_status emit_activation_backward(compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t root = c->root[node->inputs[0]];
    if (c->model->nodes[root].kind == DPTI_NODE_INPUT) return DPT_OK;
    contribution to;
    DPT_TRY(begin_contribution(c, root, &to));
    /* The gradient of an activation's output already carries its derivative (see emit_mask and the
       masks of its consumers), so it is the gradient of the input as it stands. */
    const dpti_instruction pass = {
        .desc = {.kind = DPT_OP_ADD,
                 .u.elementwise = {.count = node->elements, .alpha = 1.0f, .beta = 1.0f}},
        .layer = node->name};
    const dpti_instruction copy = {
        .desc = {.kind = DPT_OP_AFFINE,
                 .u.elementwise = {.count = node->elements, .alpha = 1.0f, .beta = 0.0f}},
        .layer = node->name};
    if (to.flags & DPT_RUN_ACCUMULATE)
        DPT_TRY(EMIT(c, pass, ((int[]){to.gradient, c->gradient[i]}), ((int[]){to.gradient})));
    else
        DPT_TRY(EMIT(c, copy, ((int[]){c->gradient[i]}), ((int[]){to.gradient})));
    return emit_mask(c, root, to.mask);
}

static dpt_status emit_add_backward(compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    for (size_t j = 0; j < node->n_inputs; j++) {
        const size_t root = c->root[node->inputs[j]];
        if (c->model->nodes[root].kind == DPTI_NODE_INPUT) continue;
        contribution to;
        DPT_TRY(begin_contribution(c, root, &to));
        const bool accumulate = to.flags & DPT_RUN_ACCUMULATE;
        const dpti_instruction pass = {
            .desc = {.kind = accumulate ? DPT_OP_ADD : DPT_OP_AFFINE,
                     .u.elementwise = {.count = node->elements,
                                       .alpha = 1.0f,
                                       .beta = accumulate ? 1.0f : 0.0f}},
            .layer = node->name};
        if (accumulate)
            DPT_TRY(EMIT(c, pass, ((int[]){to.gradient, c->gradient[i]}), ((int[]){to.gradient})));
        else
            DPT_TRY(EMIT(c, pass, ((int[]){c->gradient[i]}), ((int[]){to.gradient})));
        DPT_TRY(emit_mask(c, root, to.mask));
    }
    return DPT_OK;
}

static dpt_status emit_backward(compiler *c, size_t i)
{
    switch (c->model->nodes[i].kind) {
    case DPTI_NODE_CONV2D:
    case DPTI_NODE_LINEAR: return emit_weighted_backward(c, i);
    case DPTI_NODE_POOL2D: return emit_pool_backward(c, i);
    case DPTI_NODE_ACTIVATE: return emit_activation_backward(c, i);
    case DPTI_NODE_ADD: return emit_add_backward(c, i);
    case DPTI_NODE_INPUT:
    case DPTI_NODE_FLATTEN: break;
    }
    return DPT_OK;
}

/* ---- The optimizer --------------------------------------------------------------------------- */

static dpt_status emit_optimizer(compiler *c)
{
    const dpti_program_options *o = c->options;
    int gradients, parameters, velocity = DPTI_NO_TENSOR;
    DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_GRADIENTS}, &gradients));
    DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_PARAMETERS}, &parameters));
    if (o->momentum != 0)
        DPT_TRY(add_tensor(c, (dpti_program_tensor){.home = DPTI_HOME_VELOCITY}, &velocity));
    const dpti_instruction sgd = {.desc = {.kind = DPT_OP_SGD,
                                           .u.sgd = {.count = c->model->flat_size,
                                                     .decay_count = c->model->flat_decay,
                                                     .momentum = o->momentum,
                                                     .weight_decay = o->weight_decay,
                                                     .nesterov = o->nesterov}},
                                  .per_step = true,
                                  .layer = "optimizer"};
    return EMIT(c, sgd, ((int[]){gradients}), ((int[]){parameters, velocity}));
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void end_segment(dpti_program *p, dpti_exchange exchange, bool commits)
{
    const size_t first = p->n_segments ? p->segments[p->n_segments - 1].last : 0;
    p->segments[p->n_segments++] = (dpti_segment){
        .first = first, .last = p->n_instructions, .exchange = exchange, .commits = commits};
}

static dpt_status compile(compiler *c)
{
    const size_t n = c->model->n_nodes;
    find_roots(c);
    int label;
    DPT_TRY(emit_gather(c, &label));
    for (size_t i = 0; i < n; i++)
        if (computes(c, i)) DPT_TRY(emit_forward(c, i));
    DPT_TRY(emit_loss(c, label));
    if (c->options->training) {
        const size_t root = c->root[c->model->logits];
        c->pending[root]--;
        if (c->pending[root] == 0) DPT_TRY(emit_mask(c, root, c->activation[root]));
        for (size_t i = n; i-- > 0;)
            if (computes(c, i)) DPT_TRY(emit_backward(c, i));
    }
    /* The result is downloaded when the segment is done: it outlives every instruction of it. */
    extend_life(c->program, c->program->result, c->program->n_instructions);
    end_segment(c->program, c->options->training ? DPTI_EXCHANGE_GRADIENTS : DPTI_EXCHANGE_NONE,
                false);
    if (c->options->training) {
        DPT_TRY(emit_optimizer(c));
        end_segment(c->program, DPTI_EXCHANGE_NONE, true);
    }
    return DPT_OK;
}

dpt_status dpti_compile(const dpt_model *model, const dpti_program_options *options,
                        dpti_program *out, dpt_error *error)
{
    const size_t n = model->n_nodes;
    dpti_program program = {0};
    compiler c = {
        .model = model,
        .options = options,
        .program = &program,
        .error = error,
        .root = calloc(n, sizeof *c.root),
        .consumers = calloc(n, sizeof *c.consumers),
        .pending = calloc(n, sizeof *c.pending),
        .activation = calloc(n, sizeof *c.activation),
        .value = calloc(n, sizeof *c.value),
        .gradient = calloc(n, sizeof *c.gradient),
    };
    dpt_status status = DPT_OK;
    if (!c.root || !c.consumers || !c.pending || !c.activation || !c.value || !c.gradient) {
        status = out_of_memory(&c);
    } else {
        for (size_t i = 0; i < n; i++)
            c.gradient[i] = DPTI_NO_TENSOR;
        status = compile(&c);
    }
    free(c.root);
    free(c.consumers);
    free(c.pending);
    free(c.activation);
    free(c.value);
    free(c.gradient);
    if (status == DPT_OK)
        *out = program;
    else
        dpti_program_free(&program);
    return status;
}

void dpti_program_free(dpti_program *program)
{
    free(program->tensors);
    free(program->instructions);
    *program = (dpti_program){0};
}
