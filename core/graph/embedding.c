/* Embeddings: the rows of a table that ids name. */
#include "graph/builder.h"
#include "graph/compile.h"
#include "graph/given.h"
#include "graph/inputs.h"

#include <string.h>

/* ---- Layers ---------------------------------------------------------------------------------- */

/* Whether integers are those of an input, or views or copies of them. */
static bool are_of_input(const dpt_model *model, dpt_value ids)
{
    const dpti_node *node = dpti_node_at(model, ids);
    while (node->kind != DPTI_NODE_INPUT && node->n_inputs == 1 &&
           model->nodes[node->inputs[0]].integer)
        node = &model->nodes[node->inputs[0]];
    return node->n_inputs == 0;
}

/* An embedding of `ids`, which are dense, without an extent. */
static dpti_node embedding_over(dpt_model *model, const char *name, dpt_value ids, size_t table)
{
    const dpti_parameter *p = &model->parameters[table];
    const dpti_node *index = dpti_node_at(model, ids);
    dpti_node node = dpti_node_over(DPTI_NODE_EMBEDDING, name, ids);
    node.weight = table;
    node.unsampled = index->unsampled;
    node.forward = (dpt_op_desc){
        .kind = DPT_OP_TAKE_FORWARD,
        .u.take = {.count = index->elements, .width = p->size / p->shape[0], .rows = p->shape[0]}};
    if (!index->unsampled && are_of_input(model, ids)) dpti_note_table(model, ids, p->shape[0]);
    return node;
}

/* Whether x is ids, which become dense. */
static bool are_ids(dpt_model *model, dpt_value *x, const char *layer)
{
    if (!dpti_usable(model, *x, layer)) return false;
    if (!dpti_node_at(model, *x)->integer) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: an embedding takes ids as the input has them, and its "
                              "input is computed; give it the value of dpt_input_ids",
                              layer);
        return false;
    }
    *x = dpti_row_major(model, *x);
    return x->id != 0;
}

dpt_value dpti_given_embedding(dpt_model *model, dpt_value ids, size_t table)
{
    if (!are_ids(model, &ids, "embedding")) return (dpt_value){0};
    const dpti_parameter *p = &model->parameters[table];
    dpti_extents e = dpti_extents_of(model, ids);
    if (e.rank + p->rank - 1 > DPT_MAX_RANK)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer embedding-%zu: its output has more than %d axes",
                               model->n_nodes, DPT_MAX_RANK);
    for (size_t i = 1; i < p->rank; i++)
        e.extent[e.rank++] = p->shape[i];
    dpti_node node = embedding_over(model, NULL, ids, table);
    const dpti_shape shape = dpti_shape_dense(&e);
    dpti_set_shape(&node, &shape);
    return dpti_add_unnamed(model, "embedding", node);
}

dpt_value dpt_embedding(dpt_model *model, dpt_value ids, const char *name,
                        const dpt_embedding_options *options)
{
    dpt_embedding_options o;
    if (!are_ids(model, &ids, name ? name : "embedding") || !dpti_name_is_new(model, name) ||
        !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_embedding_options", options, sizeof o},
                           &o))
        return (dpt_value){0};
    options = &o;
    const dpt_op_desc desc = {.kind = DPT_OP_TAKE_FORWARD,
                              .u.take = {.count = dpti_node_at(model, ids)->elements,
                                         .width = options->width,
                                         .rows = options->rows}};
    if (!dpti_describes(model, name, &desc)) return (dpt_value){0};
    const size_t table = dpti_build_parameter(
        model, name, "weight",
        (dpti_parameter){.shape = {options->rows, options->width},
                         .rank = 2,
                         .fan_in = options->width,
                         .fan_out = options->width,
                         .start = DPTI_START_NORMAL,
                         .deviation = options->deviation > 0 ? options->deviation : 1});
    if (table == SIZE_MAX) return (dpt_value){0};
    dpti_node node = embedding_over(model, name, ids, table);
    node.extent = (dpti_extent){.h = 1, .w = desc.u.take.count, .c = options->width};
    return dpti_add_layer(model, node, DPT_ACT_NONE);
}

dpt_value dpti_add_constant_ids(dpt_model *model, const dpti_extents *extents, const int32_t *ids)
{
    _Static_assert(sizeof(float) == sizeof *ids, "constants have 4 bytes");
    /* The elements of constants are copied as bytes. */
    const dpt_value x = dpti_add_constant(model, extents, (const float *)(const void *)ids);
    if (x.id) model->nodes[x.id - 1].integer = true;
    return x;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Values without samples are float32 on every device. */
static dpti_instruction instruction_of(const dpti_compiler *c, const dpti_node *node)
{
    dpti_instruction instruction = dpti_instruction_of(c, node);
    if (node->unsampled) instruction.desc.type = DPT_F32;
    return instruction;
}

dpt_status dpti_emit_embedding(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int table;
    DPT_TRY(dpti_add_parameter(c, DPTI_HOME_PARAMETERS, node->weight, &table));
    return DPTI_EMIT(c, instruction_of(c, node),
                     ((int[]){table, c->value[c->root[node->inputs[0]]]}), ((int[]){c->value[i]}));
}

dpt_status dpti_emit_embedding_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    int dtable;
    DPT_TRY(dpti_emit_held(c));
    DPT_TRY(dpti_add_gradient(c, node->weight, &dtable));
    dpti_instruction backward = instruction_of(c, node);
    backward.desc.kind = DPT_OP_TAKE_BACKWARD;
    backward.flags = dpti_parameter_flags(c, node->weight);
    DPT_TRY(DPTI_EMIT(c, backward, ((int[]){c->gradient[i], c->value[c->root[node->inputs[0]]]}),
                      ((int[]){dtable})));
    return dpti_end_bucket(c, node->weight, 0);
}
