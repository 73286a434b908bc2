/* The public function that reads a network from an ONNX file. */
#include "context/context.h"
#include "import/import.h"
#include "onnx/batch_parallel.h"
#include "onnx/reader.h"

static dpt_status make_model(dpt_context *context, const dpti_onnx_model *file, dpt_model **out,
                             dpt_error *error)
{
    dpti_onnx_graph *graph = NULL;
    dpt_status status = dpti_onnx_infer(file, &graph, error);
    if (status == DPT_OK) status = dpti_onnx_prove(graph, NULL, error);
    if (status == DPT_OK) status = dpti_import(context, graph, out, error);
    dpti_onnx_graph_free(graph);
    return status;
}

dpt_status dpt_model_from_onnx(dpt_context *context, const char *path, dpt_model **out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *file = NULL;
    if (!path || !out)
        return dpt_fail(context, DPT_E_INVALID, "dpt_model_from_onnx: an argument is NULL");
    dpt_status status = dpti_onnx_open(path, NULL, &file, &error);
    if (status == DPT_OK) status = make_model(context, file, out, &error);
    dpti_onnx_close(file);
    return status == DPT_OK ? DPT_OK : dpt_fail(context, status, "%s", error.message);
}
