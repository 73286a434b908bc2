/* Weights that a file transposes before it multiplies by them, as exporters write linear layers
   over more than two axes.  The linear layer takes the weight as it is, and nothing is transposed.
 */
#include "import/state.h"

#include <string.h>

/* Whether a node is the transpose of a matrix of the file. */
static bool transposes_weight(const dpti_onnx_model *m, const dpti_onnx_node *node)
{
    size_t n;
    if (strcmp(node->op, "Transpose") != 0 || node->inputs[0] == DPTI_ONNX_NONE) return false;
    const dpti_onnx_tensor *tensor = m->values[node->inputs[0]].tensor;
    const int64_t *perm = dpti_onnx_ints(node, "perm", &n);
    return tensor && tensor->rank == 2 && dpti_onnx_type_is_real(tensor->type) &&
           (!perm || (n == 2 && perm[0] == 1));
}

/* Whether every use of a value is the second factor of a product, and no output of the network. */
static bool is_only_factor(const dpti_onnx_graph *graph, size_t value)
{
    const dpti_onnx_model *m = graph->model;
    for (size_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].value == value) return false;
    for (size_t n = 0; n < graph->n_nodes; n++)
        for (size_t i = 0; i < graph->nodes[n]->n_inputs; i++)
            if (graph->nodes[n]->inputs[i] == value &&
                (i != 1 || strcmp(graph->nodes[n]->op, "MatMul") != 0))
                return false;
    return true;
}

bool dpti_import_skips_transpose(dpti_importer *im)
{
    const size_t out = im->node->outputs[0];
    if (!transposes_weight(im->graph->model, im->node) || !is_only_factor(im->graph, out))
        return false;
    /* Every product that takes the transpose takes the weight. */
    im->values[im->node->inputs[0]].n_uses += im->values[out].n_uses - 1;
    return true;
}

bool dpti_import_transposes(const dpti_importer *im, size_t value)
{
    const dpti_onnx_model *m = im->graph->model;
    return m->values[value].producer != DPTI_ONNX_NONE &&
           transposes_weight(m, &m->nodes[m->values[value].producer]);
}

size_t dpti_import_transposed(const dpti_importer *im, size_t i)
{
    const size_t v = im->node->inputs[i];
    const dpti_onnx_model *m = im->graph->model;
    if (im->values[v].value.id || m->values[v].producer == DPTI_ONNX_NONE) return DPTI_ONNX_NONE;
    const dpti_onnx_node *producer = &m->nodes[m->values[v].producer];
    return transposes_weight(m, producer) ? producer->inputs[0] : DPTI_ONNX_NONE;
}

/* ---- Filters --------------------------------------------------------------------------------- */

/* Whether a node gives filters over three axes fewer axes, as the export of dptrain writes it. */
static bool reshapes_filters(const dpti_onnx_model *m, const dpti_onnx_node *node)
{
    if (strcmp(node->op, "Reshape") != 0 || node->inputs[0] == DPTI_ONNX_NONE) return false;
    const dpti_onnx_tensor *tensor = m->values[node->inputs[0]].tensor;
    return tensor && tensor->rank == 5 && dpti_onnx_type_is_real(tensor->type);
}

/* Whether every use of a value is as the filters of a convolution, and no output of the network. */
static bool is_only_filters(const dpti_onnx_graph *graph, size_t value)
{
    const dpti_onnx_model *m = graph->model;
    for (size_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].value == value) return false;
    for (size_t n = 0; n < graph->n_nodes; n++)
        for (size_t i = 0; i < graph->nodes[n]->n_inputs; i++)
            if (graph->nodes[n]->inputs[i] == value &&
                (i != 1 || strncmp(graph->nodes[n]->op, "Conv", 4) != 0))
                return false;
    return true;
}

bool dpti_import_skips_filters(dpti_importer *im)
{
    const size_t out = im->node->outputs[0];
    if (!reshapes_filters(im->graph->model, im->node) || !is_only_filters(im->graph, out))
        return false;
    im->values[im->node->inputs[0]].n_uses += im->values[out].n_uses - 1;
    return true;
}

dpt_status dpti_import_filters(dpti_importer *im, dpti_parameter like, size_t *out)
{
    const size_t v = im->node->inputs[1];
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[v].producer;
    if (im->values[v].value.id || producer == DPTI_ONNX_NONE ||
        !reshapes_filters(m, &m->nodes[producer]))
        return dpti_import_parameter(im, 1, like, out);
    const dpti_onnx_node *node = im->node;
    const size_t inputs[] = {node->inputs[0], m->nodes[producer].inputs[0]};
    dpti_onnx_node with_tensor = *node;
    with_tensor.inputs = inputs;
    with_tensor.n_inputs = 2;
    im->node = &with_tensor;
    const dpt_status status = dpti_import_parameter(im, 1, like, out);
    im->node = node;
    return status;
}
