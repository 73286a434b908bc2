/* Adds tensors, instructions and segments to a program that is being compiled. */
#include "graph/compile.h"

#include "base/grains.h"
#include "base/grow.h"
#include "base/size.h"

/* A growing array of n items. */
typedef struct growing {
    void **items;
    size_t *capacity;
    size_t n, item_bytes;
} growing;

/* Makes room for one more item. */
static dpt_status grow(const dpti_compiler *c, const growing *array)
{
    void *grown = dpti_grow(*array->items, array->n, array->capacity, array->item_bytes);
    if (!grown)
        return DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", c->model->name);
    *array->items = grown;
    return DPT_OK;
}

static dpt_status add_tensor(const dpti_compiler *c, dpti_program_tensor tensor, int *out)
{
    dpti_program *p = c->program;
    DPT_TRY(grow(c, &(growing){(void **)&p->tensors, &p->tensors_capacity, p->n_tensors,
                               sizeof *p->tensors}));
    tensor.first = SIZE_MAX;
    p->tensors[p->n_tensors] = tensor;
    *out = (int)p->n_tensors++;
    return DPT_OK;
}

dpt_status dpti_add_activations(const dpti_compiler *c, size_t elements, int *out)
{
    return add_tensor(
        c,
        (dpti_program_tensor){.home = DPTI_HOME_ARENA,
                              .per_sample_bytes = dpt_dtype_bytes(c->options->type) * elements},
        out);
}

dpt_status dpti_add_sampled(const dpti_compiler *c, size_t elements, int *out)
{
    return add_tensor(
        c, (dpti_program_tensor){.home = DPTI_HOME_ARENA, .per_sample_bytes = 4 * elements}, out);
}

dpt_status dpti_add_whole(const dpti_compiler *c, size_t elements, int *out)
{
    return add_tensor(
        c, (dpti_program_tensor){.home = DPTI_HOME_ARENA, .fixed_bytes = 4 * elements}, out);
}

dpt_status dpti_add_part(const dpti_compiler *c, size_t elements, int *out)
{
    /* A frozen batch-norm has parts in backward only, which its gradients do not depend on. */
    const bool one = dpti_n_parts(c) == 1 && !c->options->norms_frozen;
    if (!c->options->deterministic || one) return dpti_add_whole(c, elements, out);
    return add_tensor(c,
                      (dpti_program_tensor){.home = DPTI_HOME_ARENA,
                                            .fixed_bytes = DPTI_GRAINS * 4 * elements,
                                            .row_bytes = 4 * elements},
                      out);
}

dpt_status dpti_add_view(const dpti_compiler *c, dpti_home home, size_t offset, int *out)
{
    return add_tensor(c, (dpti_program_tensor){.home = home, .offset = offset}, out);
}

dpt_status dpti_add_parameter(const dpti_compiler *c, dpti_home home, size_t parameter, int *out)
{
    *out = DPTI_NO_TENSOR;
    if (parameter == SIZE_MAX) return DPT_OK;
    return dpti_add_view(c, home, c->model->parameters[parameter].offset, out);
}

dpt_status dpti_add_gradient_part(const dpti_compiler *c, dpti_gradient_part part, int *out)
{
    *out = DPTI_NO_TENSOR;
    if (part.parameter == SIZE_MAX) return DPT_OK;
    const dpti_parameter *p = &c->model->parameters[part.parameter];
    if (!dpti_is_frozen(c, part.parameter) || dpti_is_statistic(p->role))
        return dpti_add_view(c, DPTI_HOME_GRADIENTS, p->offset + part.first, out);
    return add_tensor(c,
                      (dpti_program_tensor){
                          .home = DPTI_HOME_ARENA, .fixed_bytes = 4 * part.n, .discarded = true},
                      out);
}

dpt_status dpti_add_gradient(const dpti_compiler *c, size_t parameter, int *out)
{
    const size_t n = parameter == SIZE_MAX ? 0 : c->model->parameters[parameter].size;
    return dpti_add_gradient_part(c, (dpti_gradient_part){.parameter = parameter, .n = n}, out);
}

dpt_status dpti_add_scale(const dpti_compiler *c, const dpti_node *norm, int *w, int *b)
{
    const size_t n = dpti_round_up(norm->forward.u.batch_norm.channels, DPTI_PARAMETER_ALIGNMENT);
    if (norm->weight == SIZE_MAX) {
        DPT_TRY(dpti_add_view(c, DPTI_HOME_CONSTANTS, norm->constant, w));
        return dpti_add_view(c, DPTI_HOME_CONSTANTS, norm->constant + n, b);
    }
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, norm->weight, w));
    return dpti_add_parameter(c, DPTI_HOME_PARAMETERS, norm->bias, b);
}

static void extend_life(dpti_program *p, int tensor, size_t instruction)
{
    if (tensor == DPTI_NO_TENSOR) return;
    dpti_program_tensor *t = &p->tensors[tensor];
    if (t->first == SIZE_MAX) t->first = instruction;
    t->last = instruction;
}

void dpti_keep(const dpti_compiler *c, int tensor)
{
    extend_life(c->program, tensor, c->program->n_instructions);
}

dpt_status dpti_emit(const dpti_compiler *c, dpti_instruction instruction, dpti_tensor_ids in,
                     dpti_tensor_ids out)
{
    dpti_program *p = c->program;
    bool defers;
    size_t slot = 0;
    instruction.again = c->recompute ? c->recompute->again : 0;
    for (size_t i = 0; i < in.n; i++)
        if (in.ids[i] != DPTI_NO_TENSOR) instruction.in[slot++] = in.ids[i];
    while (slot < DPT_MAX_INPUTS)
        instruction.in[slot++] = DPTI_NO_TENSOR;
    slot = 0;
    for (size_t i = 0; i < out.n; i++)
        if (out.ids[i] != DPTI_NO_TENSOR) instruction.out[slot++] = out.ids[i];
    while (slot < DPTI_INSTRUCTION_OUTPUTS)
        instruction.out[slot++] = DPTI_NO_TENSOR;
    DPT_TRY(dpti_defer(c, &instruction, &defers));
    if (defers) return DPT_OK;
    DPT_TRY(grow(c, &(growing){(void **)&p->instructions, &p->instructions_capacity,
                               p->n_instructions, sizeof *p->instructions}));
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        extend_life(p, instruction.in[i], p->n_instructions);
    for (size_t i = 0; i < DPTI_INSTRUCTION_OUTPUTS; i++)
        extend_life(p, instruction.out[i], p->n_instructions);
    p->instructions[p->n_instructions++] = instruction;
    return DPT_OK;
}

static void store_operand(const dpti_compiler *c, dpt_map_operand *operand)
{
    if (operand->type != DPT_I32) operand->type = operand->sampled ? c->options->type : DPT_F32;
}

void dpti_store_operands(const dpti_compiler *c, dpt_op_desc *desc)
{
    dpt_map_desc *d = &desc->u.map;
    desc->type = c->options->type;
    for (size_t i = 0; i < d->n_in; i++)
        store_operand(c, &d->in[i]);
    for (size_t i = 0; i < d->n_out; i++)
        store_operand(c, &d->out[i]);
}

dpt_status dpti_add_value(const dpti_compiler *c, size_t node, int *out)
{
    const dpti_node *n = &c->model->nodes[node];
    if (n->unsampled) return dpti_add_whole(c, n->elements, out);
    return n->integer ? dpti_add_sampled(c, n->elements, out)
                      : dpti_add_activations(c, n->elements, out);
}

uint32_t dpti_parameter_flags(dpti_compiler *c, size_t parameter)
{
    const bool is_first = !c->shared[parameter];
    c->shared[parameter] = true;
    return is_first ? dpti_gradient_flags(c) : DPT_RUN_ACCUMULATE;
}

dpti_instruction dpti_instruction_of(const dpti_compiler *c, const dpti_node *node)
{
    dpti_instruction instruction = {.desc = node->forward,
                                    .layer = node->name,
                                    .repeat = node->repeat,
                                    .per_step = node->unsampled};
    instruction.desc.type = c->options->type;
    if (node->kind == DPTI_NODE_ELEMENTWISE) dpti_store_operands(c, &instruction.desc);
    return instruction;
}

dpti_instruction dpti_batch_norm(const dpti_compiler *c, const dpti_node *node, dpt_op_kind kind)
{
    dpti_instruction instruction = dpti_instruction_of(c, node);
    instruction.desc.kind = kind;
    instruction.desc.u.batch_norm.n_parts = dpti_n_parts(c);
    instruction.desc.u.batch_norm.activation = DPT_ACT_NONE;
    return instruction;
}

dpt_status dpti_end_segment(const dpti_compiler *c, dpti_segment segment)
{
    dpti_program *p = c->program;
    DPT_TRY(grow(c, &(growing){(void **)&p->segments, &p->segments_capacity, p->n_segments,
                               sizeof *p->segments}));
    segment.first = p->n_segments ? p->segments[p->n_segments - 1].last : 0;
    segment.last = p->n_instructions;
    for (size_t i = segment.first; i < segment.last; i++)
        segment.calls = segment.calls || p->instructions[i].call.kind != DPTI_CALL_NONE;
    p->segments[p->n_segments++] = segment;
    return DPT_OK;
}

static dpt_status end_at_rendezvous(const dpti_compiler *c, dpti_exchange exchange,
                                    const dpti_part *parts, size_t n)
{
    dpti_segment segment = {.exchange = exchange, .n_parts = n};
    for (size_t i = 0; i < n; i++)
        segment.parts[i] = parts[i];
    return dpti_end_segment(c, segment);
}

dpt_status dpti_contribute_parts(const dpti_compiler *c, dpti_part *parts, size_t n)
{
    const size_t n_devices = dpti_n_parts(c);
    for (size_t i = 0; i < n; i++) {
        parts[i].parts = parts[i].part;
        if (!dpti_meets(c)) continue;
        DPT_TRY(dpti_add_whole(c, n_devices * parts[i].count, &parts[i].parts));
        extend_life(c->program, parts[i].part, c->program->n_instructions - 1);
    }
    return dpti_meets(c) ? end_at_rendezvous(c, DPTI_EXCHANGE_CONTRIBUTE, parts, n) : DPT_OK;
}

dpt_status dpti_take_parts(const dpti_compiler *c, const dpti_part *parts, size_t n)
{
    if (!dpti_meets(c)) return DPT_OK;
    /* The gathered parts exist only after the last instruction.  The part itself was read when it
       was contributed, so later tensors may use its memory. */
    for (size_t i = 0; i < n; i++)
        extend_life(c->program, parts[i].parts, c->program->n_instructions - 1);
    return end_at_rendezvous(c, DPTI_EXCHANGE_TAKE, parts, n);
}
