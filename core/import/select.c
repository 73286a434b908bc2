/* Which nodes are imported, and which values are only other names of a tensor of the file. */
#include "import/state.h"

#include <stdlib.h>
#include <string.h>

/* Whether a node gives its input as it is. */
static bool renames(const dpti_onnx_node *node)
{
    size_t n;
    if (node->n_inputs != 1 || node->n_outputs != 1 || node->outputs[0] == DPTI_ONNX_NONE ||
        node->inputs[0] == DPTI_ONNX_NONE)
        return false;
    if (strcmp(node->op, "Identity") == 0) return true;
    const int64_t *perm = dpti_onnx_ints(node, "perm", &n);
    if (strcmp(node->op, "Transpose") != 0 || !perm) return false;
    for (size_t i = 0; i < n; i++)
        if (perm[i] != (int64_t)i) return false;
    return true;
}

static void find_names(dpti_importer *im)
{
    const dpti_onnx_graph *g = im->graph;
    for (size_t v = 0; v < g->model->n_values; v++)
        im->values[v].same = v;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const dpti_onnx_node *node = g->nodes[n];
        if (!renames(node)) continue;
        const size_t source = im->values[node->inputs[0]].same;
        if (g->model->values[source].tensor) im->values[node->outputs[0]].same = source;
    }
}

/* How many inputs of a node are needed.  The shape of random numbers is known; what they are like
   is not needed.  A batch-norm in training mode computes its statistics; computed ones that it is
   given are not needed. */
static size_t count_inputs(const dpti_onnx_model *m, const dpti_onnx_node *node)
{
    enum { WITHOUT_STATISTICS = 3 };
    if (strcmp(node->op, "RandomUniformLike") == 0) return 0;
    if (strcmp(node->op, "BatchNormalization") != 0 || dpti_onnx_int(node, "training_mode", 0) == 0)
        return node->n_inputs;
    for (size_t i = WITHOUT_STATISTICS; i < node->n_inputs; i++)
        if (node->inputs[i] == DPTI_ONNX_NONE || m->values[node->inputs[i]].tensor)
            return node->n_inputs;
    return WITHOUT_STATISTICS;
}

/* Marks the nodes that the output needs, and counts the uses of values by these nodes. */
static void mark_needed(dpti_importer *im, bool *needed)
{
    const dpti_onnx_graph *g = im->graph;
    needed[g->model->outputs[im->output].value] = true;
    for (size_t n = g->n_nodes; n-- > 0;) {
        const dpti_onnx_node *node = g->nodes[n];
        for (size_t k = 0; k < node->n_outputs; k++)
            if (node->outputs[k] != DPTI_ONNX_NONE && needed[node->outputs[k]])
                im->imports[n] = im->values[node->outputs[k]].same == node->outputs[k];
        for (size_t i = 0; im->imports[n] && i < count_inputs(g->model, node); i++) {
            if (node->inputs[i] == DPTI_ONNX_NONE) continue;
            const size_t v = im->values[node->inputs[i]].same;
            needed[v] = true;
            im->values[v].n_uses++;
        }
    }
}

dpt_status dpti_import_select(dpti_importer *im)
{
    const dpti_onnx_graph *g = im->graph;
    size_t most = 1;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n]->n_inputs > most) most = g->nodes[n]->n_inputs;
    bool *needed = calloc(g->model->n_values + 1, sizeof *needed);
    im->imports = calloc(g->n_nodes + 1, sizeof *im->imports);
    im->inputs = calloc(most, sizeof *im->inputs);
    for (size_t v = 0; v < g->model->n_values; v++)
        im->values[v].parameter = SIZE_MAX;
    if (needed && im->imports && im->inputs) {
        im->output = dpti_onnx_trained_output(g);
        find_names(im);
        mark_needed(im, needed);
    }
    const bool failed = !needed || !im->imports || !im->inputs;
    free(needed);
    if (failed) return DPT_FAIL(im->error, DPT_E_NO_MEMORY, "%s: no memory", g->model->path);
    return DPT_OK;
}

dpti_onnx_node dpti_import_rename(const dpti_importer *im, const dpti_onnx_node *node)
{
    dpti_onnx_node out = *node;
    for (size_t i = 0; i < node->n_inputs; i++)
        im->inputs[i] =
            node->inputs[i] == DPTI_ONNX_NONE ? DPTI_ONNX_NONE : im->values[node->inputs[i]].same;
    out.inputs = im->inputs;
    return out;
}
