/* Operators over elements that a layer before or after them computes: the bias that a file adds to
   a product with a weight, the number by which it scales a product of two values or one of the
   factors, as attention does, and a sigmoid of which only logarithms are taken. */
#include "import/window.h"

#include <math.h>
#include <string.h>

/* ---- Bias ------------------------------------------------------------------------------------ */

/* The linear layer whose value input i of the node is, if nothing else reads the value and the
   layer can have a bias; else NULL. */
static dpti_node *open_linear(const dpti_importer *im, size_t i)
{
    const size_t v = im->node->inputs[i];
    const dpti_onnx_model *m = im->graph->model;
    const size_t id = im->values[v].value.id;
    if (!id || im->values[v].n_uses != 1 || m->values[v].producer == DPTI_ONNX_NONE) return NULL;
    /* The values of a MatMul are its own: the layer, and a view of the layer's output. */
    if (strcmp(m->nodes[m->values[v].producer].op, "MatMul") != 0) return NULL;
    dpti_node *node = &im->model->nodes[id - 1];
    if (node->kind == DPTI_NODE_VIEW) node = &im->model->nodes[node->inputs[0]];
    if (node->kind != DPTI_NODE_LINEAR || node->bias != SIZE_MAX) return NULL;
    return im->model->parameters[node->weight].role == DPTI_ROLE_WEIGHT ? node : NULL;
}

static bool is_bias(const dpti_importer *im, size_t i, size_t n)
{
    const size_t v = im->node->inputs[i];
    const dpti_onnx_tensor *tensor = im->graph->model->values[v].tensor;
    return dpti_import_trains(im, i) && tensor->rank == 1 && tensor->n == n &&
           im->values[v].n_uses == 1;
}

dpt_status dpti_import_take_bias(dpti_importer *im, bool *done)
{
    *done = false;
    for (size_t i = 0; i < 2; i++) {
        const dpti_node *node = open_linear(im, i);
        if (!node || !is_bias(im, 1 - i, node->forward.u.linear.out)) continue;
        const size_t place = (size_t)(node - im->model->nodes);
        dpti_given given;
        dpt_value x;
        DPT_TRY(dpti_import_input(im, i, &x));
        DPT_TRY(dpti_import_bias(im, 1 - i, node->forward.u.linear.in, &given));
        im->model->nodes[place].bias = given.bias;
        im->model->nodes[place].forward.u.linear.has_bias = given.bias != SIZE_MAX;
        dpti_import_give(im, 0, x);
        *done = true;
        return DPT_OK;
    }
    return DPT_OK;
}

/* ---- Scale ----------------------------------------------------------------------------------- */

/* Whether input i is one constant number that is not trained. */
static bool is_number(const dpti_importer *im, size_t i)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, i);
    return fact->cells && fact->n_cells == 1 && !fact->parameter &&
           dpti_onnx_type_is_real(fact->type);
}

static size_t rank_of(const dpti_importer *im, size_t i)
{
    return dpti_import_extents(dpti_import_fact(im, i)).rank;
}

/* Whether a node is a product of two values. */
static bool multiplies_values(const dpti_importer *im, const dpti_onnx_node *node)
{
    const dpti_onnx_model *m = im->graph->model;
    return strcmp(node->op, "MatMul") == 0 && !m->values[node->inputs[0]].tensor &&
           !m->values[node->inputs[1]].tensor && !dpti_import_transposes(im, node->inputs[1]);
}

/* Whether the output of the node is nothing but a factor of one product of two values. */
static bool is_factor(const dpti_importer *im)
{
    const size_t v = im->node->outputs[0];
    if (im->values[v].n_uses != 1) return false;
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        const dpti_onnx_node *node = im->graph->nodes[n];
        for (size_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] == v && im->imports[n]) return multiplies_values(im, node);
    }
    return false;
}

/* The product of two values whose result input i of the node is, if nothing else reads it; else
   NULL. */
static dpti_node *open_product(const dpti_importer *im, size_t i)
{
    const size_t v = im->node->inputs[i], producer = im->graph->model->values[v].producer;
    const dpti_imported *at = &im->values[v];
    if (!at->value.id || at->n_uses != 1 || producer == DPTI_ONNX_NONE) return NULL;
    /* The values of a MatMul are its own: the product, and a view of it. */
    if (strcmp(im->graph->model->nodes[producer].op, "MatMul") != 0) return NULL;
    dpti_node *node = &im->model->nodes[at->value.id - 1];
    if (node->kind == DPTI_NODE_VIEW) node = &im->model->nodes[node->inputs[0]];
    return node->kind == DPTI_NODE_PRODUCT ? node : NULL;
}

/* Whether a product can have the factor.  With factors near the limits of float32, and with 0, inf
   and NaN, a product that is scaled and a product of what is scaled are not the same. */
static bool is_moderate(double factor)
{
    return fabs(factor) >= 0x1p-40 && fabs(factor) <= 0x1p40;
}

dpt_status dpti_import_scale(dpti_importer *im, bool *done)
{
    const bool divides = strcmp(im->node->op, "Div") == 0;
    const size_t other = !divides && is_number(im, 0) ? 1 : 0;
    dpt_value x;
    double number;
    *done = false;
    if (!is_number(im, 1 - other) || is_number(im, other) ||
        rank_of(im, 1 - other) > rank_of(im, other))
        return DPT_OK;
    DPT_TRY(dpti_import_number(im, 1 - other, 1, &number));
    const double factor = divides ? 1 / number : number;
    dpti_node *product = open_product(im, other);
    if (product && !is_moderate((double)product->forward.u.matmul.alpha * factor)) product = NULL;
    if (!is_moderate(factor) || (!product && !is_factor(im))) return DPT_OK;
    if (product)
        product->forward.u.matmul.alpha *= (float)factor;
    else
        im->values[im->node->outputs[0]].factor = (float)factor;
    DPT_TRY(dpti_import_input(im, other, &x));
    dpti_import_give(im, 0, x);
    *done = true;
    return DPT_OK;
}

dpt_value dpti_import_scaled(dpti_importer *im, dpt_value product)
{
    float factor = 1;
    for (size_t i = 0; i < 2; i++) {
        const float own = im->values[im->node->inputs[i]].factor;
        if (own != 0) factor *= own;
    }
    if (!product.id || factor == 1) return product;
    dpti_node *node = &im->model->nodes[product.id - 1];
    if (node->kind == DPTI_NODE_PRODUCT) {
        node->forward.u.matmul.alpha *= factor;
        return product;
    }
    const dpt_value number =
        dpti_add_constant(im->model, &(dpti_extents){.rank = 0}, &(float){factor});
    return dpti_formula(im->model, "a * b", (dpt_value[]){product, number}, 2);
}

/* ---- Logarithm of a sigmoid ------------------------------------------------------------------ */

const dpti_onnx_node *dpti_import_sigmoid_of(const dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[im->node->inputs[0]].producer;
    if (producer == DPTI_ONNX_NONE || strcmp(m->nodes[producer].op, "Sigmoid") != 0) return NULL;
    return &m->nodes[producer];
}

bool dpti_import_skips_sigmoid(dpti_importer *im)
{
    const size_t v = im->node->outputs[0];
    size_t n_logarithms = 0;
    if (strcmp(im->node->op, "Sigmoid") != 0) return false;
    for (size_t n = 0; n < im->graph->n_nodes; n++)
        if (im->imports[n] && strcmp(im->graph->nodes[n]->op, "Log") == 0)
            n_logarithms += im->graph->nodes[n]->inputs[0] == v;
    /* An output of the network is a use, too. */
    if (n_logarithms == 0 || n_logarithms != im->values[v].n_uses) return false;
    im->values[im->node->inputs[0]].n_uses += n_logarithms - 1;
    return true;
}
