/* Weights that a file changes before it uses them: it transposes the weight of a linear layer, as
   exporters do over more than two axes, or reshapes filters.  The layer takes the weight as it is,
   and the node that changes it is skipped. */
#include "import/window.h"

#include <string.h>

bool dpti_import_is_constant(const dpti_onnx_tensor *tensor)
{
    return strncmp(tensor->name, "val_constant", 12) == 0;
}

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

/* Whether a node may take a weight as its second input in place of what the file makes of it. */
typedef bool takes_weight(const dpti_onnx_node *node);

static bool is_product(const dpti_onnx_node *node)
{
    return strcmp(node->op, "MatMul") == 0;
}

static bool is_convolution(const dpti_onnx_node *node)
{
    return strncmp(node->op, "Conv", 4) == 0;
}

/* Whether every use of a value is the second input of such nodes, and no output of the network. */
static bool is_only_weight(const dpti_onnx_graph *graph, size_t value, takes_weight *takes)
{
    const dpti_onnx_model *m = graph->model;
    for (size_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].value == value) return false;
    for (size_t n = 0; n < graph->n_nodes; n++)
        for (size_t i = 0; i < graph->nodes[n]->n_inputs; i++)
            if (graph->nodes[n]->inputs[i] == value && (i != 1 || !takes(graph->nodes[n])))
                return false;
    return true;
}

/* Skips the node if its output is only a weight of such nodes: each of these takes the node's
   input. */
static bool skips(dpti_importer *im, takes_weight *takes)
{
    const size_t out = im->node->outputs[0];
    if (!is_only_weight(im->graph, out, takes)) return false;
    im->values[im->node->inputs[0]].n_uses += im->values[out].n_uses - 1;
    return true;
}

bool dpti_import_skips_transpose(dpti_importer *im)
{
    return transposes_weight(im->graph->model, im->node) && skips(im, is_product);
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

bool dpti_import_skips_filters(dpti_importer *im)
{
    return reshapes_filters(im->graph->model, im->node) && skips(im, is_convolution);
}

/* Makes the filters of input 1, or those that the input was reshaped from, a parameter. */
static dpt_status add_filters(dpti_importer *im, dpti_parameter like, size_t *out)
{
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[im->node->inputs[1]].producer;
    if (producer == DPTI_ONNX_NONE) return dpti_import_parameter(im, 1, like, out);
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

/* Whether the filters cannot be a parameter like this: they are computed or constant, or another
   layer has them in another order. */
static bool are_value(const dpti_importer *im, const dpti_parameter *like)
{
    const size_t v = im->node->inputs[1];
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[v].producer;
    const dpti_onnx_tensor *tensor = m->values[v].tensor;
    if (tensor) return dpti_import_is_constant(tensor) || dpti_import_differs(im, 1, like);
    return im->values[v].value.id || producer == DPTI_ONNX_NONE ||
           !reshapes_filters(m, &m->nodes[producer]);
}

dpt_status dpti_import_filters(dpti_importer *im, dpti_parameter like, dpti_given *out)
{
    const dpti_extents shape = {
        .rank = 4,
        .extent = {dpti_import_extents(dpti_import_fact(im, 1)).extent[0], like.c, like.h, like.w}};
    *out =
        (dpti_given){.weight = SIZE_MAX, .bias = SIZE_MAX, .mean = SIZE_MAX, .variance = SIZE_MAX};
    if (!are_value(im, &like)) return add_filters(im, like, &out->weight);
    DPT_TRY(dpti_import_input(im, 1, &out->filters));
    if (!dpti_node_at(im->model, out->filters)->unsampled)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its filters differ between samples; only filters that are the "
                                  "same for all samples can be trained");
    out->filters = dpti_reshape(im->model, out->filters, &shape);
    return dpti_import_check(im);
}

dpt_status dpti_import_filter_bias(dpti_importer *im, size_t fan_in, dpti_given *given)
{
    /* The filters and the bias of one operator are shared or not, both of them.  A bias that is
       shared is added by a layer of its own. */
    if (!given->filters.id)
        return im->model->parameters[given->weight].role == DPTI_ROLE_WEIGHT
                   ? dpti_import_bias(im, 2, fan_in, given)
                   : DPT_OK;
    if (dpti_import_is_nothing(im, 2)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 2, &given->shift));
    /* One that differs between samples is added by a layer of its own, too. */
    if (!dpti_node_at(im->model, given->shift)->unsampled) given->shift.id = 0;
    return DPT_OK;
}
