/* Goes through the nodes in order, and then keeps those that an output needs. */
#include "onnx/infer.h"

#include "onnx/infer_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- The whole graph ------------------------------------------------------------------------- */

static const dpti_onnx_operator *find_operator(const char *name)
{
    const dpti_onnx_operator *const parts[] = {
        dpti_onnx_elementwise, dpti_onnx_layouts,   dpti_onnx_reductions, dpti_onnx_windows,
        dpti_onnx_products,    dpti_onnx_sequences, dpti_onnx_branches};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (const dpti_onnx_operator *op = parts[p]; op->name; op++)
            if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

static dpt_status read_input(dpti_onnx_graph *graph, const dpti_onnx_port *port, dpt_error *error)
{
    const char *name = graph->model->values[port->value].name, *path = graph->model->path;
    dpti_onnx_fact *fact = &graph->facts[port->value];
    size_t n_free = 0;
    fact->type = port->type;
    fact->shape.rank = port->rank;
    for (size_t d = 0; d < port->rank; d++) {
        const bool fixed = port->extents[d].size >= 0;
        fact->shape.dims[d] = (dpti_onnx_dim){fixed ? port->extents[d].size : 1, !fixed};
        n_free += !fixed;
    }
    if (n_free == 1) return DPT_OK;
    if (n_free == 0)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: the batch extent of input \"%.80s\" is fixed; export with it "
                              "free (dynamic_shapes, or dynamic_axes of the older exporter)",
                              path, name);
    return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                          "%s: input \"%.80s\" has %zu extents that are not fixed; export with "
                          "only the batch extent free",
                          path, name, n_free);
}

/* Whether a tensor may be trained.  A number without axes stands in the code, unless the file comes
   from PyTorch, whose parameters may have none, or from dptrain, which names its constants. */
static bool may_train(const dpti_onnx_model *model, const dpti_onnx_tensor *tensor)
{
    return dpti_onnx_type_is_real(tensor->type) &&
           (tensor->rank > 0 || strncmp(model->producer, "pytorch", 7) == 0 ||
            strncmp(model->producer, "dptrain", 7) == 0);
}

static dpt_status read_tensor(dpti_onnx_graph *graph, size_t v, dpt_error *error)
{
    enum { MAX_PARAMETER_CELLS = 64 };
    const dpti_onnx_tensor *tensor = graph->model->values[v].tensor;
    dpti_onnx_fact *fact = &graph->facts[v];
    fact->type = tensor->type;
    fact->shape.rank = tensor->rank;
    for (size_t d = 0; d < tensor->rank; d++)
        fact->shape.dims[d] = (dpti_onnx_dim){tensor->extents[d], false};
    fact->parameter = may_train(graph->model, tensor);
    if (fact->parameter && tensor->n > MAX_PARAMETER_CELLS) return DPT_OK;
    fact->n_cells = tensor->n;
    return dpti_onnx_tensor_cells(&graph->arena, tensor, &fact->cells, error);
}

/* Numbers of samples are taken only where they index the own sample: what computes with them must
   be a known progression again. */
static dpt_status check_counting(const dpti_onnx_inference *in, dpt_error *error)
{
    const size_t v = in->node->outputs[0];
    const dpti_onnx_fact *y = v == DPTI_ONNX_NONE ? NULL : &in->graph->facts[v];
    const bool known = y && (y->progression || y->columns || y->shifted);
    const bool counts =
        dpti_onnx_counts_samples(in->graph, in->node) || dpti_onnx_reads_own(in->graph, in->node);
    for (size_t i = 0; i < in->node->n_inputs; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (x && dpti_onnx_is_counting(x) && !known && !(counts && i == 1))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "it computes with the numbers of the samples, 0 to N, which "
                                    "differ on each device; they are taken only as indices of the "
                                    "own sample (x[torch.arange(N), i]) or of all elements in "
                                    "their order; replace a strided view by reshape or flatten");
    }
    return DPT_OK;
}

/* A number that grows with the batch is known only where it says what to do. */
static dpt_status check_data(const dpti_onnx_inference *in, const dpti_onnx_operator *op,
                             dpt_error *error)
{
    DPT_TRY(check_counting(in, error));
    for (size_t i = 0; i < in->node->n_inputs && i < op->operands_from; i++) {
        const dpti_onnx_fact *fact = dpti_onnx_input(in, i);
        for (size_t k = 0; fact && fact->cells && k < fact->n_cells; k++)
            if (fact->cells[k].times)
                return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                        "it computes with the batch's extent; that changes with "
                                        "each device's shard");
    }
    return DPT_OK;
}

static dpt_status check_results(const dpti_onnx_graph *graph, dpt_error *error)
{
    const dpti_onnx_model *model = graph->model;
    for (size_t i = 0; i < model->n_outputs; i++) {
        const size_t v = model->outputs[i].value;
        const dpti_onnx_fact *fact = &graph->facts[v];
        bool depends = dpti_onnx_is_counting(fact);
        for (size_t k = 0; fact->cells && k < fact->n_cells; k++)
            depends = depends || fact->cells[k].times;
        if (depends)
            return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                                  "%s: the output \"%.80s\" is computed from the batch's "
                                  "extent; that changes with each device's shard",
                                  model->path, model->values[v].name);
    }
    return DPT_OK;
}

static bool is_folded(const dpti_onnx_graph *graph, const dpti_onnx_node *node)
{
    for (size_t k = 0; k < node->n_outputs; k++) {
        if (node->outputs[k] == DPTI_ONNX_NONE) continue;
        const dpti_onnx_fact *fact = &graph->facts[node->outputs[k]];
        if (!fact->cells || fact->parameter) return false;
    }
    return true;
}

static dpt_status infer_node(dpti_onnx_inference *in, dpt_error *error)
{
    const dpti_onnx_operator *op = find_operator(in->node->op);
    if (!op)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "the operator %.40s is not taken; docs/onnx.md lists those that "
                                "are",
                                in->node->op);
    if (in->node->n_outputs == 0)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "it has no output");
    DPT_TRY(op->rule(in, error));
    DPT_TRY(dpti_onnx_fold(in, error));
    return dpti_onnx_progress(in, error);
}

/* Why an input of a node is not known; NULL: all are.  An If needs the branch that is taken. */
static const dpt_error *find_failure(const dpti_onnx_inference *in)
{
    const size_t n = strcmp(in->node->op, "If") == 0 ? 1 : in->node->n_inputs;
    for (size_t i = 0; i < n; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (x && x->failure) return x->failure;
    }
    return NULL;
}

/* A node of a branch may fail, because the branch may not be taken.  Its results then say why. */
static dpt_status infer_in_branch(dpti_onnx_inference *in, dpt_error *error)
{
    const dpt_error *failure = find_failure(in);
    dpt_error own = {.status = DPT_OK};
    const dpt_status status = failure ? failure->status : infer_node(in, &own);
    if (status == DPT_OK) return DPT_OK;
    if (status == DPT_E_NO_MEMORY) return dpti_onnx_no_memory(error);
    if (!failure) {
        dpt_error *kept = dpti_onnx_take(&in->graph->arena, 1, sizeof *kept);
        if (!kept) return dpti_onnx_no_memory(error);
        *kept = own;
        failure = kept;
    }
    for (size_t k = 0; k < in->node->n_outputs; k++)
        if (in->node->outputs[k] != DPTI_ONNX_NONE)
            in->graph->facts[in->node->outputs[k]] = (dpti_onnx_fact){.failure = failure};
    return DPT_OK;
}

/* Marks what the outputs need, from the last node to the first, and lists the nodes. */
static dpt_status keep_needed(dpti_onnx_graph *graph, bool *needed, dpt_error *error)
{
    const dpti_onnx_model *model = graph->model;
    bool *keep = needed + model->n_values;
    for (size_t i = 0; i < model->n_outputs; i++)
        needed[model->outputs[i].value] = true;
    for (size_t i = model->n_nodes; i-- > 0;) {
        const dpti_onnx_node *node = graph->nodes[i] = &model->nodes[i];
        for (size_t k = 0; k < node->n_outputs; k++)
            keep[i] = keep[i] || (node->outputs[k] != DPTI_ONNX_NONE && needed[node->outputs[k]]);
        keep[i] = keep[i] && !is_folded(graph, node);
        if (!keep[i]) continue;
        DPT_TRY(dpti_onnx_replace_view(graph, &graph->nodes[i], error));
        DPT_TRY(dpti_onnx_replace_branch(graph, &graph->nodes[i], error));
        node = graph->nodes[i];
        const bool counts = dpti_onnx_counts_samples(graph, node);
        for (size_t k = 0; k < node->n_inputs; k++)
            if (node->inputs[k] != DPTI_ONNX_NONE &&
                !(counts && k == 1 && strcmp(node->op, "ScatterND") == 0))
                needed[node->inputs[k]] = true;
    }
    for (size_t i = 0; i < model->n_nodes; i++) {
        dpti_onnx_inference in = {graph, graph->nodes[i]};
        if (!keep[i]) continue;
        graph->nodes[graph->n_nodes++] = in.node;
        DPT_TRY(check_data(&in, find_operator(in.node->op), error));
    }
    return DPT_OK;
}

static dpt_status infer_all(dpti_onnx_graph *graph, dpt_error *error)
{
    const dpti_onnx_model *model = graph->model;
    graph->facts = dpti_onnx_take(&graph->arena, model->n_values, sizeof *graph->facts);
    graph->nodes = dpti_onnx_take(&graph->arena, model->n_nodes, sizeof *graph->nodes);
    bool *needed = dpti_onnx_take(&graph->arena, model->n_values + model->n_nodes, sizeof *needed);
    if (!graph->facts || !graph->nodes || !needed) return dpti_onnx_no_memory(error);
    for (size_t i = 0; i < model->n_inputs; i++)
        DPT_TRY(read_input(graph, &model->inputs[i], error));
    for (size_t v = 0; v < model->n_values; v++)
        if (model->values[v].tensor) DPT_TRY(read_tensor(graph, v, error));
    for (size_t i = 0; i < model->n_nodes; i++) {
        dpti_onnx_inference in = {graph, &model->nodes[i]};
        DPT_TRY(in.node->in_branch ? infer_in_branch(&in, error) : infer_node(&in, error));
    }
    DPT_TRY(keep_needed(graph, needed, error));
    return check_results(graph, error);
}

dpt_status dpti_onnx_infer(const dpti_onnx_model *model, dpti_onnx_graph **out, dpt_error *error)
{
    dpti_onnx_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return dpti_onnx_no_memory(error);
    graph->model = model;
    graph->arena.limit = model->arena.limit;
    const dpt_status status = infer_all(graph, error);
    if (status == DPT_OK)
        *out = graph;
    else
        dpti_onnx_graph_free(graph);
    return status;
}

void dpti_onnx_graph_free(dpti_onnx_graph *graph)
{
    if (!graph) return;
    dpti_onnx_arena_clear(&graph->arena);
    free(graph);
}
