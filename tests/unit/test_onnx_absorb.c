/* Tests that import leaves the addition of a bias and the scaling of a product of two values to the
   layers themselves: files of exporters become graphs as small as those that are built by hand. */
#include "dptrain.h"
#include "graph/model.h"
#include "graph/tensor.h"
#include "onnx_files.h"

#include <math.h>

/* Networks of tests/onnx/trained, by both exporters: the linear layers with a bias, and the
   products of two values that are scaled. */
static const struct {
    const char *name;
    size_t n_biases, n_scaled;
} networks[] = {{"bert", 5, 1}, {"gpt", 8, 2}, {"mixer", 9, 0}, {"vit", 5, 1}};

static dpt_model *load(test *t, dpt_context *context, const char *name)
{
    char path[ONNX_PATH_BYTES];
    dpt_model *model = NULL;
    if (!CHECK_OK(dpt_model_from_onnx(context, onnx_path(name, path), &model)))
        FAIL("%s", dpt_error_message(context));
    return model;
}

/* Whether a node only adds a vector that is trained to a value that has samples. */
static bool adds_vector(const dpt_model *model, const dpti_node *node)
{
    if (node->kind != DPTI_NODE_ELEMENTWISE || node->n_inputs != 2) return false;
    for (size_t i = 0; i < 2; i++) {
        const dpti_node *from = &model->nodes[node->inputs[i]];
        const dpti_node *other = &model->nodes[node->inputs[1 - i]];
        if (from->kind == DPTI_NODE_PARAMETER && from->shape.rank == 1 &&
            (other->kind == DPTI_NODE_LINEAR || other->kind == DPTI_NODE_VIEW))
            return true;
    }
    return false;
}

static void layers_have_biases_and_scales(test *t)
{
    static const char *const exporters[] = {"default", "older"};
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        for (size_t k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "trained/%s_%s.onnx", networks[i].name, exporters[k]);
            dpt_model *model = load(t, context, name);
            size_t n_biases = 0, n_scaled = 0;
            if (!model) continue;
            for (size_t n = 0; n < model->n_nodes; n++) {
                const dpti_node *node = &model->nodes[n];
                if (adds_vector(model, node)) FAIL("%s: %s adds a bias", name, node->name);
                n_biases += node->kind == DPTI_NODE_LINEAR && node->bias != SIZE_MAX;
                n_scaled += node->kind == DPTI_NODE_PRODUCT && node->forward.u.matmul.alpha != 1.0f;
            }
            if (!CHECK_SIZE(n_biases, networks[i].n_biases) ||
                !CHECK_SIZE(n_scaled, networks[i].n_scaled))
                FAIL("in %s", name);
            dpt_model_destroy(model);
        }
    }
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"layers_have_biases_and_scales", layers_have_biases_and_scales},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
