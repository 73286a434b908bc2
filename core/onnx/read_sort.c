/* The order of nodes: that of the file where it is one in which they can run. */
#include "onnx/read_state.h"

#include <string.h>

/* A visit in depth: a node is finished when the producers of its inputs are. */
typedef struct sorting {
    dpti_onnx_model *model;
    size_t n_stack, n_sorted;
    size_t *stack;  /* nodes that wait for their inputs */
    size_t *next;   /* the input of each node that is looked at next */
    size_t *sorted; /* finished nodes, in order */
    size_t *place;  /* of a node in `sorted`; DPTI_ONNX_NONE: not finished */
    bool *waits;    /* is on the stack */
} sorting;

/* The first producer, from the node's next input on, that is not finished; or DPTI_ONNX_NONE. */
static size_t next_producer(sorting *s, size_t i)
{
    const dpti_onnx_node *node = &s->model->nodes[i];
    for (; s->next[i] < node->n_inputs; s->next[i]++) {
        const size_t value = node->inputs[s->next[i]];
        if (value == DPTI_ONNX_NONE) continue;
        const size_t producer = s->model->values[value].producer;
        if (producer != DPTI_ONNX_NONE && s->place[producer] == DPTI_ONNX_NONE) return producer;
    }
    return DPTI_ONNX_NONE;
}

static dpt_status visit(sorting *s, size_t start, dpt_error *error)
{
    s->stack[s->n_stack++] = start;
    s->waits[start] = true;
    while (s->n_stack) {
        const size_t i = s->stack[s->n_stack - 1], producer = next_producer(s, i);
        if (producer == DPTI_ONNX_NONE) {
            s->place[i] = s->n_sorted;
            s->sorted[s->n_sorted++] = i;
            s->waits[i] = false;
            s->n_stack--;
        } else if (s->waits[producer]) {
            return dpti_onnx_fail(error, DPT_E_FORMAT,
                                  "%s: node %s depends on its own result; export the model again",
                                  s->model->path, s->model->nodes[producer].label);
        } else {
            s->stack[s->n_stack++] = producer;
            s->waits[producer] = true;
        }
    }
    return DPT_OK;
}

/* Moves the nodes and renumbers the producers. */
static bool apply(sorting *s)
{
    dpti_onnx_model *model = s->model;
    dpti_onnx_node *nodes = dpti_onnx_take(&model->arena, model->n_nodes, sizeof *nodes);
    if (!nodes) return false;
    for (size_t i = 0; i < model->n_nodes; i++)
        nodes[i] = model->nodes[s->sorted[i]];
    for (size_t v = 0; v < model->n_values; v++)
        if (model->values[v].producer != DPTI_ONNX_NONE)
            model->values[v].producer = s->place[model->values[v].producer];
    dpti_onnx_give_back(&model->arena, model->nodes);
    model->nodes = nodes;
    return true;
}

dpt_status dpti_onnx_sort(dpti_onnx_model *model, dpt_error *error)
{
    dpti_onnx_arena *arena = &model->arena;
    const size_t n = model->n_nodes;
    size_t *numbers = dpti_onnx_take(arena, n, 4 * sizeof *numbers);
    bool *waits = dpti_onnx_take(arena, n, sizeof *waits);
    dpt_status status = DPT_OK;
    if (!numbers || !waits) return dpti_onnx_no_memory(error);
    sorting s = {.model = model, .waits = waits};
    s.stack = numbers;
    s.next = numbers + n;
    s.sorted = numbers + 2 * n;
    s.place = numbers + 3 * n;
    memset(s.place, 0xff, n * sizeof *s.place); /* DPTI_ONNX_NONE */
    for (size_t i = 0; i < n && status == DPT_OK; i++)
        if (s.place[i] == DPTI_ONNX_NONE) status = visit(&s, i, error);
    if (status == DPT_OK && !apply(&s)) status = dpti_onnx_no_memory(error);
    dpti_onnx_give_back(arena, numbers);
    dpti_onnx_give_back(arena, waits);
    return status;
}
