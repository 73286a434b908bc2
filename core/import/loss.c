/* The losses of classes: SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss. */
#include "graph/inputs.h"
#include "graph/softmax.h"
#include "graph/tensor.h"
#include "import/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_AXIS = 1 };

/* The numbers of the classes along their axis. */
static dpt_status add_classes(dpti_importer *im, const dpti_extents *scores, dpt_value *out)
{
    const size_t n = scores->extent[CLASS_AXIS];
    dpti_extents extents = {.rank = scores->rank};
    float *numbers = malloc(n * sizeof *numbers);
    if (!numbers) return DPT_FAIL(im->error, DPT_E_NO_MEMORY, "%s: no memory", im->model->name);
    for (size_t i = 0; i < extents.rank; i++)
        extents.extent[i] = i == CLASS_AXIS ? n : 1;
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)i;
    *out = dpti_add_constant(im->model, &extents, numbers);
    free(numbers);
    return dpti_import_check(im);
}

/* The labels, with an axis for the classes. */
static dpt_status find_labels(dpti_importer *im, const dpti_extents *scores, dpt_value *out)
{
    dpti_extents extents = *scores;
    DPT_TRY(dpti_import_input(im, 1, out));
    const dpti_node *node = dpti_node_at(im->model, *out);
    if (node->integer && !node->unsampled)
        dpti_note_table(im->model, *out, scores->extent[CLASS_AXIS]);
    extents.extent[CLASS_AXIS] = 1;
    *out = dpti_reshape(im->model, *out, &extents);
    return dpti_import_check(im);
}

static dpt_status import_class_loss(dpti_importer *im)
{
    const bool none = strcmp(dpti_onnx_string(im->node, "reduction", "mean"), "none") == 0;
    char text[64];
    dpti_map_code code;
    dpt_error error = {.status = DPT_OK};
    dpt_value values[3];
    if (dpti_import_has(im, 2) || dpti_onnx_int(im->node, "ignore_index", -1) >= 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "class weights and ignored labels cannot be trained; give the "
                                  "loss as an option instead");
    DPT_TRY(dpti_import_input(im, 0, &values[0]));
    const dpti_extents scores = dpti_extents_of(im->model, values[0]);
    if (strcmp(im->node->op, "SoftmaxCrossEntropyLoss") == 0) {
        values[0] = dpti_for_each_sample(im->model, values[0]);
        values[0] = dpti_softmax(im->model, values[0],
                                 &(dpti_softmax_options){.axis = CLASS_AXIS, .log = true});
        dpti_import_give(im, 1, values[0]);
    }
    DPT_TRY(dpti_import_check(im));
    if (im->node->outputs[0] == DPTI_ONNX_NONE) return DPT_OK;
    DPT_TRY(find_labels(im, &scores, &values[1]));
    DPT_TRY(add_classes(im, &scores, &values[2]));
    size_t n_labels = 1;
    for (size_t i = 0; i < scores.rank; i++)
        n_labels *= i == CLASS_AXIS ? 1 : scores.extent[i];
    snprintf(text, sizeof text, "a * equal(b, c) * (0 - %.9g)",
             none ? 1.0 : 1.0 / (double)n_labels);
    if (dpti_map_parse(text, 3, &code, &error) != DPT_OK)
        return dpti_import_refuse(im, DPT_E_INTERNAL, "%s", error.message);
    const uint32_t all = (1u << scores.rank) - 1, axis = 1u << CLASS_AXIS;
    const dpt_value y = dpti_map(im->model, &(dpti_mapping){.what = "loss",
                                                            .code = &code,
                                                            .inputs = values,
                                                            .n = 3,
                                                            .reduced = none ? axis : all,
                                                            .reduction = DPT_REDUCE_SUM});
    DPT_TRY(dpti_import_check(im));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_losses[] = {
    {"NegativeLogLikelihoodLoss", import_class_loss},
    {"SoftmaxCrossEntropyLoss", import_class_loss},
    {NULL, NULL},
};
