/* If: the inference takes one of two branches, both of which are in the model. */
#include "onnx/infer_state.h"

#include <string.h>

enum { CONDITION, THEN, ELSE };

/* The input that is the result; 0 if the condition is not known. */
static size_t find_taken(const dpti_onnx_inference *in)
{
    const dpti_onnx_fact *condition = dpti_onnx_input(in, CONDITION);
    if (!condition || !condition->cells || condition->n_cells != 1 || condition->parameter ||
        condition->type != DPTI_ONNX_BOOL || condition->cells[0].times)
        return 0;
    return condition->cells[0].fixed ? THEN : ELSE;
}

static dpt_status branch(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const size_t taken = find_taken(in);
    if (taken == 0)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its condition depends on the data, on a parameter or on the size "
                                "of the batch, and both branches cannot be trained; choose the "
                                "branch in the module before the export");
    const dpti_onnx_fact *x = dpti_onnx_input(in, taken);
    if (x->failure) {
        *error = *x->failure;
        return x->failure->status;
    }
    DPT_TRY(dpti_onnx_give(in, 0, x, error));
    if (in->node->outputs[0] != DPTI_ONNX_NONE) in->graph->facts[in->node->outputs[0]] = *x;
    return DPT_OK;
}

dpt_status dpti_onnx_replace_branch(dpti_onnx_graph *graph, const dpti_onnx_node **node,
                                    dpt_error *error)
{
    const dpti_onnx_inference in = {graph, *node};
    if (strcmp((*node)->op, "If") != 0) return DPT_OK;
    const size_t taken = find_taken(&in);
    if (taken == 0) return DPT_OK;
    dpti_onnx_node *same = dpti_onnx_take(&graph->arena, 1, sizeof *same);
    if (!same) return dpti_onnx_no_memory(error);
    *same = **node;
    same->op = "Identity";
    same->inputs += taken;
    same->n_inputs = 1;
    *node = same;
    return DPT_OK;
}

const dpti_onnx_operator dpti_onnx_branches[] = {
    {"If", branch, 3},
    {NULL, NULL, 0},
};
