/* What the user of a file should know: what is left out, and what its exporter may have changed. */
#include "base/print.h"
#include "import/state.h"

#include <string.h>

/* Residual networks have at least so many convolutions and additions. */
enum { LEAST_CONVOLUTIONS = 8, LEAST_ADDITIONS = 3 };

static dpt_status remark_outputs(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    if (m->n_outputs == 1) return DPT_OK;
    return dpti_model_add_remark(
        im->model,
        dpti_format("%s has %zu outputs: only the first%s, \"%.80s\", is trained and predicted",
                    m->path, m->n_outputs, im->output ? " of real numbers" : "",
                    m->values[m->outputs[im->output].value].name));
}

/* Whether input i of a node is computed. */
static bool is_computed(const dpti_importer *im, const dpti_onnx_node *node, size_t i)
{
    const dpti_onnx_model *m = im->graph->model;
    if (i >= node->n_inputs || node->inputs[i] == DPTI_ONNX_NONE) return false;
    return m->values[im->values[node->inputs[i]].same].producer != DPTI_ONNX_NONE;
}

/* Residual blocks whose convolutions have biases, in a network without any norm: the exporter has
   probably merged every batch-norm into the convolution in front of it. */
static bool looks_merged(const dpti_importer *im)
{
    size_t n_biased = 0, n_added = 0;
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        const dpti_onnx_node *node = im->graph->nodes[n];
        if (strstr(node->op, "Normalization")) return false;
        if (!im->imports[n]) continue;
        n_biased +=
            strcmp(node->op, "Conv") == 0 && node->n_inputs > 2 && !is_computed(im, node, 1);
        n_added +=
            strcmp(node->op, "Add") == 0 && is_computed(im, node, 0) && is_computed(im, node, 1);
    }
    return n_biased >= LEAST_CONVOLUTIONS && n_added >= LEAST_ADDITIONS;
}

static dpt_status remark_copies(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_merges *merges = &m->merges;
    if (merges->n_biases > 0)
        DPT_TRY(dpti_model_add_remark(
            im->model, dpti_format("%s: its exporter has dropped biases of zeros (%zu), which "
                                   "are trained again",
                                   m->path, merges->n_biases)));
    if (merges->n_copies == 0) return DPT_OK;
    DPT_TRY(dpti_model_add_remark(
        im->model, dpti_format("%s: its exporter has merged equal tensors: each layer gets its own "
                               "again, %zu in all, such as \"%.80s\" for \"%.80s\"",
                               m->path, merges->n_copies, merges->copy, merges->tensor)));
    if (!merges->weight) return DPT_OK;
    return dpti_model_add_remark(
        im->model, dpti_format("%s: \"%.80s\" is a weight of layers whose names differ only in "
                               "numbers: each layer gets its own; if they share it, export with "
                               "optimize=False",
                               m->path, merges->weight));
}

/* A file that says of some batch-norms that they are trained, and of others that they are not, was
   exported with the latter in evaluation mode: PyTorch applies their running statistics. */
static dpt_status remark_modes(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    const dpti_onnx_node *still = NULL;
    size_t n_still = 0, n_trained = 0;
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        const dpti_onnx_node *node = im->graph->nodes[n];
        if (!im->imports[n] || strcmp(node->op, "BatchNormalization") != 0 ||
            is_computed(im, node, 3))
            continue;
        const bool trained = dpti_onnx_int(node, "training_mode", 0) != 0;
        n_trained += trained;
        n_still += !trained;
        if (!trained && !still) still = node;
    }
    if (n_trained == 0 || n_still == 0) return DPT_OK;
    return dpti_model_add_remark(
        im->model,
        dpti_format("%s: %zu of %zu batch-norms are in evaluation mode, such as node "
                    "%.120s: they are trained with the statistics of the batch like "
                    "the others; --freeze-batch-norm keeps the running statistics of all "
                    "(docs/onnx.md)",
                    m->path, n_still, n_still + n_trained, still->label));
}

/* ONNX has no mean over all batches.  PyTorch 2.15's older exporter writes momentum 0 for it. */
static dpt_status remark_momentum(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        const dpti_onnx_node *node = im->graph->nodes[n];
        if (!im->imports[n] || strcmp(node->op, "BatchNormalization") != 0 ||
            is_computed(im, node, 3) || dpti_onnx_float(node, "momentum", 0.9f) != 0.0f)
            continue;
        return dpti_model_add_remark(
            im->model,
            dpti_format("%s: node %.120s has momentum 0: its running statistics are those of the "
                        "last batch alone; PyTorch's older exporter writes this for "
                        "momentum=None: give the module a momentum such as 0.1, and export it "
                        "again (docs/onnx.md)",
                        m->path, node->label));
    }
    return DPT_OK;
}

/* Whether a node is a layer with weights of its own. */
static bool is_layer(const dpti_importer *im, const dpti_onnx_node *node)
{
    static const char *const ops[] = {"MatMul", "Gemm", "Conv", "ConvTranspose"};
    bool known = false;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        known = known || strcmp(node->op, ops[i]) == 0;
    return known && node->n_inputs > 1 && !is_computed(im, node, 1);
}

/* Whether a node is a layer with a bias, or adds a tensor of the file that has axes. */
static bool has_bias(const dpti_importer *im, const dpti_onnx_node *node)
{
    enum { BIAS = 2 };
    if (strcmp(node->op, "Add") == 0) {
        for (size_t i = 0; i < node->n_inputs; i++)
            if (node->inputs[i] != DPTI_ONNX_NONE && !is_computed(im, node, i) &&
                im->graph->facts[node->inputs[i]].shape.rank > 0)
                return true;
        return false;
    }
    return is_layer(im, node) && node->n_inputs > BIAS && node->inputs[BIAS] != DPTI_ONNX_NONE;
}

/* tf2onnx leaves out sums with zeros, and so the biases of a network that was not trained. */
static dpt_status remark_biases(dpti_importer *im)
{
    const dpti_onnx_model *m = im->graph->model;
    size_t n_layers = 0;
    if (strncmp(m->producer, "tf2onnx", 7) != 0) return DPT_OK;
    for (size_t n = 0; n < im->graph->n_nodes; n++) {
        const dpti_onnx_node *node = im->graph->nodes[n];
        if (!im->imports[n]) continue;
        if (has_bias(im, node)) return DPT_OK;
        n_layers += is_layer(im, node);
    }
    if (n_layers == 0) return DPT_OK;
    return dpti_model_add_remark(
        im->model,
        dpti_format("%s: no layer has a bias: tf2onnx leaves out biases of zeros, which are then "
                    "not trained; if the network has biases, export it with other numbers in them "
                    "(docs/onnx.md)",
                    m->path));
}

dpt_status dpti_import_remark(dpti_importer *im)
{
    const char *path = im->graph->model->path;
    dpt_status status = remark_outputs(im);
    if (status == DPT_OK) status = remark_copies(im);
    if (status == DPT_OK) status = remark_modes(im);
    if (status == DPT_OK) status = remark_momentum(im);
    if (status == DPT_OK) status = remark_biases(im);
    if (status == DPT_OK && looks_merged(im))
        status = dpti_model_add_remark(
            im->model,
            dpti_format("%s has residual blocks and no batch-norm: its exporter may have merged "
                        "batch-norms into convolutions, which changes training; export with "
                        "optimize=False (docs/onnx.md)",
                        path));
    return status == DPT_OK ? DPT_OK : DPT_FAIL(im->error, status, "%s: no memory", path);
}
