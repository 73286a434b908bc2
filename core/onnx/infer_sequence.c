/* Sequences, as torch.split and torch.chunk are exported: SplitToSequence, whose parts SequenceAt
   takes.  The value of the sequence has the type and the shape of what is split. */
#include "onnx/infer.h"
#include "onnx/infer_state.h"

#include <string.h>

/* Whether every use of a value is the sequence of a SequenceAt. */
static bool is_only_taken(const dpti_onnx_model *m, size_t value)
{
    for (size_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].value == value) return false;
    for (size_t n = 0; n < m->n_nodes; n++)
        for (size_t i = 0; i < m->nodes[n].n_inputs; i++)
            if (m->nodes[n].inputs[i] == value &&
                (i != 0 || strcmp(m->nodes[n].op, "SequenceAt") != 0))
                return false;
    return true;
}

static dpt_status split_to_sequence(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const dpti_onnx_fact sequence = {.type = x->type, .shape = x->shape};
    if (dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->shape.rank) == x->shape.rank)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its axis does not fit");
    if (in->node->outputs[0] == DPTI_ONNX_NONE ||
        !is_only_taken(in->graph->model, in->node->outputs[0]))
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "a sequence is taken only where SequenceAt reads its parts");
    return dpti_onnx_give(in, 0, &sequence, error);
}

/* The sizes of the parts of a sequence. */
typedef struct split_sizes {
    dpti_onnx_list list; /* of each part, if `each` is 0 */
    int64_t each, n;
} split_sizes;

static dpt_status read_sizes(const dpti_onnx_inference *split, int64_t whole, split_sizes *out,
                             dpt_error *error)
{
    const dpti_onnx_fact *given = dpti_onnx_input(split, 1);
    *out = (split_sizes){.each = 0};
    DPT_TRY(dpti_onnx_read_list(split, 1, &out->list, error));
    const bool keeps = dpti_onnx_int(split->node, "keepdims", 1) != 0;
    if (!given && !keeps)
        return dpti_onnx_refuse(split, DPT_E_UNSUPPORTED, error,
                                "a sequence without the axis that is split is not taken");
    if (given && given->shape.rank > 0) {
        out->n = (int64_t)out->list.n;
        return DPT_OK;
    }
    out->each = given && out->list.n == 1 ? out->list.cells[0].fixed : 1;
    if (out->each < 1 || (given && out->list.cells[0].times != 0))
        return dpti_onnx_refuse(split, DPT_E_FORMAT, error, "the size of its parts does not fit");
    out->n = whole / out->each + (whole % out->each != 0);
    return DPT_OK;
}

/* The part with number k of an axis of `whole` elements.  false if the sizes do not fit. */
static bool find(const split_sizes *sizes, int64_t whole, int64_t k, dpti_onnx_part *out)
{
    int64_t at = 0;
    if (sizes->each > 0) {
        out->begin = k * sizes->each;
        out->size = whole - out->begin < sizes->each ? whole - out->begin : sizes->each;
        return true;
    }
    for (int64_t i = 0; i < sizes->n; i++) {
        const int64_t size = sizes->list.cells[i].fixed;
        if (sizes->list.cells[i].times != 0 || size < 0 || size > whole - at) return false;
        if (i == k) *out = (dpti_onnx_part){out->axis, at, size};
        at += size;
    }
    return at == whole;
}

dpt_status dpti_onnx_find_part(const dpti_onnx_graph *graph, const dpti_onnx_node *at,
                               dpti_onnx_part *out, dpt_error *error)
{
    const dpti_onnx_model *m = graph->model;
    dpti_onnx_inference in = {(dpti_onnx_graph *)(uintptr_t)graph, at}, split = in;
    split_sizes sizes;
    DPT_TRY(dpti_onnx_need(&in, 2, error));
    const size_t producer = m->values[at->inputs[0]].producer;
    const dpti_onnx_fact *x = dpti_onnx_input(&in, 0), *position = dpti_onnx_input(&in, 1);
    if (producer == DPTI_ONNX_NONE || strcmp(m->nodes[producer].op, "SplitToSequence") != 0)
        return dpti_onnx_refuse(&in, DPT_E_UNSUPPORTED, error,
                                "its sequence is not made by SplitToSequence");
    if (!position->cells || position->n_cells != 1 || position->cells[0].times != 0)
        return dpti_onnx_refuse(&in, DPT_E_UNSUPPORTED, error, "its position is not one constant");
    split.node = &m->nodes[producer];
    out->axis = dpti_onnx_axis(dpti_onnx_int(split.node, "axis", 0), x->shape.rank);
    const dpti_onnx_dim whole = x->shape.dims[out->axis];
    if (whole.batch)
        return dpti_onnx_refuse(&split, DPT_E_UNSUPPORTED, error,
                                "it splits the batch, which is another one on each device");
    DPT_TRY(read_sizes(&split, whole.size, &sizes, error));
    const int64_t given = position->cells[0].fixed, k = given < 0 ? given + sizes.n : given;
    if (k < 0 || k >= sizes.n || !find(&sizes, whole.size, k, out))
        return dpti_onnx_refuse(&in, DPT_E_FORMAT, error,
                                "there is no part %lld, or the parts do not add up to the axis",
                                (long long)given);
    return DPT_OK;
}

static dpt_status sequence_at(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_part part = {.axis = 0};
    DPT_TRY(dpti_onnx_find_part(in->graph, in->node, &part, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    y.shape.dims[part.axis].size = part.size;
    return dpti_onnx_give(in, 0, &y, error);
}

const dpti_onnx_operator dpti_onnx_sequences[] = {
    {"SequenceAt", sequence_at, 1},
    {"SplitToSequence", split_to_sequence, 1},
    {NULL, NULL, 0},
};
