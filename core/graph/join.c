/* Values that lie side by side in one tensor: concatenated, padded, or with gaps between them. */
#include "graph/compile.h"
#include "graph/elementwise.h"
#include "graph/tensor.h"

#include <string.h>

/* A description that copies one operand to the other over the space of an input. */
static dpt_op_desc copy_over(const dpti_shape *space)
{
    dpt_op_desc desc = {.u.map = {.rank = space->rank, .n_in = 1, .n_out = 1, .n_code = 1}};
    memcpy(desc.u.map.extent, space->extent, sizeof desc.u.map.extent);
    return desc;
}

dpt_op_desc dpti_join_move(const dpti_compiler *c, const dpti_node *join, size_t input, bool back)
{
    const dpti_node *from = &c->model->nodes[join->inputs[input]];
    dpti_shape place = from->shape;
    place.offset = join->join.offset[input];
    memcpy(place.stride, join->join.step, sizeof place.stride);
    dpt_op_desc desc = copy_over(&from->shape);
    desc.u.map.in[0] = back ? dpti_operand(join, &place) : dpti_operand(from, &from->shape);
    desc.u.map.out[0] = back ? dpti_operand(from, &from->shape) : dpti_operand(join, &place);
    desc.kind = dpti_sum_kind(&desc.u.map);
    return desc;
}

dpt_op_desc dpti_fill_with(size_t size, bool sampled, float value)
{
    const dpt_map_operand all = {.sampled = sampled, .size = size, .stride = {1}};
    return (dpt_op_desc){.kind = DPT_OP_MAP,
                         .u.map = {.rank = 1,
                                   .extent = {size},
                                   .n_out = 1,
                                   .n_code = 1,
                                   .out = {all},
                                   .code = {{.code = DPT_MAP_CONSTANT, .constant = value}}}};
}

dpt_status dpti_emit_join(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    dpti_instruction instruction = {.layer = node->name, .per_step = node->unsampled};
    if (node->join.fills) {
        instruction.desc = dpti_fill_with(node->elements, !node->unsampled, node->join.fill);
        dpti_store_operands(c, &instruction.desc);
        DPT_TRY(dpti_emit(c, instruction, (dpti_tensor_ids){NULL, 0},
                          (dpti_tensor_ids){(int[]){c->value[i]}, 1}));
    }
    for (size_t k = 0; k < node->n_inputs; k++) {
        instruction.desc = dpti_join_move(c, node, k, false);
        dpti_store_operands(c, &instruction.desc);
        DPT_TRY(DPTI_EMIT(c, instruction, ((int[]){c->value[c->root[node->inputs[k]]]}),
                          ((int[]){c->value[i]})));
    }
    return DPT_OK;
}
