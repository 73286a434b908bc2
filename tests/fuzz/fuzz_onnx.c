/* Feeds arbitrary bytes to the reader of ONNX files, to the inference of shapes and to the proof
   that samples are independent, checks what they accept, makes models of it, and compiles them. */
#include "base/text.h"
#include "fuzz.h"
#include "import/import.h"
#include "onnx/batch_parallel.h"
#include "onnx/reader.h"
#include "program.h"

enum { MEMORY = 256 << 20, NODES = 10000 };

static void check_tensor(const dpti_onnx_tensor *tensor)
{
    size_t n = 1;
    volatile uint8_t sum = 0; /* so that the bytes are read */
    require(tensor->name && tensor->rank <= DPTI_ONNX_MAX_RANK);
    for (size_t d = 0; d < tensor->rank; d++) {
        require(tensor->extents[d] >= 0);
        n *= (size_t)tensor->extents[d];
    }
    require(tensor->n == n && tensor->n_bytes == n * dpti_onnx_type_bytes(tensor->type));
    for (size_t k = 0; k < tensor->n_bytes; k++)
        sum = (uint8_t)(sum + ((const uint8_t *)tensor->data)[k]);
}

static void check_node(const dpti_onnx_model *model, size_t i)
{
    const dpti_onnx_node *node = &model->nodes[i];
    require(node->op && node->label);
    for (size_t k = 0; k < node->n_inputs; k++) {
        if (node->inputs[k] == DPTI_ONNX_NONE) continue;
        require(node->inputs[k] < model->n_values);
        const size_t producer = model->values[node->inputs[k]].producer;
        require(producer == DPTI_ONNX_NONE || producer < i);
    }
    for (size_t k = 0; k < node->n_outputs; k++)
        require(
            node->outputs[k] == DPTI_ONNX_NONE ||
            (node->outputs[k] < model->n_values && model->values[node->outputs[k]].producer == i));
    for (size_t k = 0; k < node->n_attributes; k++) {
        require(dpti_onnx_find(node, node->attributes[k].name) == &node->attributes[k]);
        if (node->attributes[k].tensor) check_tensor(node->attributes[k].tensor);
    }
}

static void check_model(const dpti_onnx_model *model)
{
    require(model->arena.used <= MEMORY);
    for (size_t i = 0; i < model->n_values; i++)
        if (model->values[i].tensor) check_tensor(model->values[i].tensor);
    for (size_t i = 0; i < model->n_nodes; i++)
        check_node(model, i);
    for (size_t i = 0; i < model->n_inputs; i++)
        require(model->inputs[i].value < model->n_values && model->inputs[i].has_shape);
    for (size_t i = 0; i < model->n_outputs; i++)
        require(model->outputs[i].value < model->n_values);
}

static void check_refusal(dpt_status status, const dpt_error *error)
{
    require(status == DPT_E_FORMAT || status == DPT_E_UNSUPPORTED || status == DPT_E_NO_MEMORY);
    require(status == DPT_E_NO_MEMORY || strncmp(error->message, "input: ", 7) == 0);
    require(error->message[dpti_plain_bytes(error->message)] == 0);
}

static void check_fact(const dpti_onnx_fact *fact)
{
    size_t n_batch = 0, n = 1;
    require(fact->shape.rank <= DPTI_ONNX_MAX_RANK);
    for (size_t d = 0; d < fact->shape.rank; d++) {
        require(fact->shape.dims[d].size >= 0);
        n *= (size_t)fact->shape.dims[d].size;
        n_batch += fact->shape.dims[d].batch;
    }
    require(n_batch <= 1);
    if (!fact->cells) return;
    require(n_batch == 0 && fact->n_cells == n);
    volatile double sum = 0; /* so that the cells are read */
    for (size_t k = 0; k < n; k++)
        sum = sum + fact->cells[k].real;
}

/* A model, or one line that says why not. */
static void import(const dpti_onnx_graph *graph)
{
    static dpt_context *context;
    dpt_error error = {.status = DPT_OK};
    dpt_model *model = NULL;
    if (!context && dpt_context_create(&context) != DPT_OK) return;
    const dpt_status status = dpti_import(context, graph, &model, &error);
    require((status == DPT_OK) == (model != NULL));
    if (status == DPT_OK) {
        require(dpt_model_parameter_count(model) > 0 && dpt_model_outputs(model) > 0);
        fuzz_compile_all(model);
        dpt_model_destroy(model);
        return;
    }
    require(status == DPT_E_UNSUPPORTED || status == DPT_E_INVALID || status == DPT_E_NO_MEMORY);
    require(error.message[0] && !strchr(error.message, '\n'));
}

static void check_graph(dpti_onnx_graph *graph)
{
    dpt_error error = {.status = DPT_OK};
    const dpti_onnx_samples *samples = NULL;
    require(graph->n_nodes <= graph->model->n_nodes && graph->arena.used <= MEMORY);
    for (size_t v = 0; v < graph->model->n_values; v++)
        check_fact(&graph->facts[v]);
    const dpt_status status = dpti_onnx_prove(graph, &samples, &error);
    if (status != DPT_OK) {
        check_refusal(status, &error);
        return;
    }
    for (size_t v = 0; v < graph->model->n_values; v++) {
        const dpti_onnx_shape *shape = &graph->facts[v].shape;
        require(samples[v].axis == dpti_onnx_batch_axis(shape) && samples[v].outer >= 0);
        if (samples[v].axis < shape->rank && samples[v].outer > 0)
            require(shape->dims[samples[v].axis].size % samples[v].outer == 0);
    }
    import(graph);
}

static void infer(const dpti_onnx_model *model)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_graph *graph = NULL;
    const dpt_status status = dpti_onnx_infer(model, &graph, &error);
    require((status == DPT_OK) == (graph != NULL));
    if (status == DPT_OK)
        check_graph(graph);
    else
        check_refusal(status, &error);
    dpti_onnx_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    const dpti_onnx_limits limits = {.max_memory = MEMORY, .max_nodes = NODES, .least_part = 8};
    const dpt_status status =
        dpti_onnx_parse(&(dpti_file_bytes){"input", data, size}, &limits, &model, &error);
    require((status == DPT_OK) == (model != NULL));
    if (status == DPT_OK) {
        check_model(model);
        infer(model);
    } else {
        check_refusal(status, &error);
    }
    dpti_onnx_close(model);
    return 0;
}
