/* An ONNX graph in memory: values with names that differ, nodes, initialisers. */
#include "export/draft.h"

#include "base/print.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

void dpti_draft_begin(dpti_draft *draft, int64_t opset)
{
    dpti_draft *d = draft;
    *d = (dpti_draft){.arena = {.limit = SIZE_MAX}, .opset = opset, .layer = ""};
    d->spare_value.name = d->absent.name = "";
    d->spare_inputs[0] = &d->spare_value;
    d->spare_tensor.value = &d->spare_value;
}

void dpti_draft_clear(dpti_draft *draft)
{
    dpti_onnx_arena_clear(&draft->arena);
    *draft = (dpti_draft){.status = DPT_OK};
}

/* Memory of the arena; NULL after a failure. */
static void *take(dpti_draft *d, size_t n, size_t n_bytes)
{
    void *memory = d->status == DPT_OK ? dpti_onnx_take(&d->arena, n, n_bytes) : NULL;
    if (!memory) d->status = DPT_E_NO_MEMORY;
    return memory;
}

static bool append(dpti_draft *d, dpti_draft_list *list, void *item)
{
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
        void **grown = take(d, capacity, sizeof *grown);
        if (!grown) return false;
        if (list->n > 0) memcpy(grown, list->items, list->n * sizeof *grown);
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 1099511628211u;
    return h;
}

/* The place of a name in the table, or the free place where it belongs. */
static size_t find_name(const dpti_draft_list *table, const char *name)
{
    size_t at = hash(name) % table->capacity;
    while (table->items[at] && strcmp(table->items[at], name) != 0)
        at = (at + 1) % table->capacity;
    return at;
}

/* Keeps half of the table free. */
static bool make_room(dpti_draft *d)
{
    const dpti_draft_list old = d->names;
    if (2 * (d->n_names + 1) <= old.capacity) return true;
    dpti_draft_list table = {.capacity = old.capacity ? 2 * old.capacity : FIRST_CAPACITY};
    table.items = take(d, table.capacity, sizeof *table.items);
    if (!table.items) return false;
    for (size_t i = 0; i < old.capacity; i++)
        if (old.items[i]) table.items[find_name(&table, old.items[i])] = old.items[i];
    d->names = table;
    return true;
}

/* A copy of the name, with a number behind it if it is taken; NULL after a failure. */
static const char *new_name(dpti_draft *d, const char *name)
{
    if (!make_room(d)) return NULL;
    char *copy = dpti_onnx_take_text(&d->arena, "%s", name);
    for (size_t k = 2; copy && d->names.items[find_name(&d->names, copy)]; k++)
        copy = dpti_onnx_take_text(&d->arena, "%s_%zu", name, k);
    if (!copy) {
        d->status = DPT_E_NO_MEMORY;
        return NULL;
    }
    d->names.items[find_name(&d->names, copy)] = copy;
    d->n_names++;
    return copy;
}

dpti_draft_value *dpti_draft_name(dpti_draft *draft, const char *name, dpti_onnx_type type)
{
    dpti_draft_value *value = take(draft, 1, sizeof *value);
    const char *unique = value ? new_name(draft, name) : NULL;
    if (!unique) return &draft->spare_value;
    *value = (dpti_draft_value){.name = unique, .type = type};
    return value;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

dpti_draft_node *dpti_draft_call(dpti_draft *draft, const char *op, dpti_draft_value *const *inputs,
                                 size_t n)
{
    dpti_draft *d = draft;
    char *name = d->status == DPT_OK
                     ? dpti_onnx_take_text(&d->arena, "%s%s%s", d->layer, *d->layer ? "/" : "", op)
                     : NULL;
    dpti_draft_node *node = take(d, 1, sizeof *node);
    dpti_draft_value **copy = take(d, n, sizeof *copy);
    if (!name || !node || !copy || !append(d, &d->nodes, node)) {
        d->status = DPT_E_NO_MEMORY;
        d->spare_node =
            (dpti_draft_node){.inputs = d->spare_inputs, .output = &d->spare_value, .name = ""};
        return &d->spare_node;
    }
    if (n > 0) memcpy(copy, inputs, n * sizeof *copy);
    *node = (dpti_draft_node){.op = op, .n_inputs = n, .inputs = copy};
    node->output = dpti_draft_name(d, name, n > 0 ? inputs[0]->type : DPTI_ONNX_FLOAT);
    node->name = node->output->name;
    return node;
}

dpti_draft_value *dpti_draft_unary(dpti_draft *draft, const char *op, dpti_draft_value *x)
{
    return dpti_draft_call(draft, op, &x, 1)->output;
}

dpti_draft_value *dpti_draft_binary(dpti_draft *draft, const char *op, dpti_draft_value *a,
                                    dpti_draft_value *b)
{
    dpti_draft_value *const inputs[] = {a, b};
    return dpti_draft_call(draft, op, inputs, 2)->output;
}

dpti_draft_value *dpti_draft_output(dpti_draft *draft, dpti_draft_node *node, size_t i)
{
    if (node == &draft->spare_node || i == 0 || i >= DPTI_DRAFT_OUTPUTS) return &draft->spare_value;
    if (!node->more[i]) node->more[i] = dpti_draft_name(draft, node->name, DPTI_ONNX_FLOAT);
    return node->more[i];
}

static void add_attribute(dpti_draft_node *node, dpti_draft_attribute attribute)
{
    if (node->n_attributes < DPTI_DRAFT_ATTRIBUTES)
        node->attributes[node->n_attributes++] = attribute;
}

void dpti_draft_int(dpti_draft_node *node, const char *name, int64_t value)
{
    add_attribute(
        node, (dpti_draft_attribute){.name = name, .kind = DPTI_ONNX_ATTRIBUTE_INT, .i = value});
}

void dpti_draft_float(dpti_draft_node *node, const char *name, float value)
{
    add_attribute(
        node, (dpti_draft_attribute){.name = name, .kind = DPTI_ONNX_ATTRIBUTE_FLOAT, .f = value});
}

void dpti_draft_ints(dpti_draft *draft, dpti_draft_node *node, const char *name,
                     const dpti_draft_integers *values)
{
    int64_t *copy = take(draft, values->n, sizeof *copy);
    if (!copy) return;
    memcpy(copy, values->items, values->n * sizeof *copy);
    add_attribute(
        node, (dpti_draft_attribute){
                  .name = name, .kind = DPTI_ONNX_ATTRIBUTE_INTS, .n = values->n, .ints = copy});
}

void dpti_draft_text(dpti_draft_node *node, const char *name, const char *value)
{
    add_attribute(
        node, (dpti_draft_attribute){.name = name, .kind = DPTI_ONNX_ATTRIBUTE_STRING, .s = value});
}

void dpti_draft_texts(dpti_draft *draft, dpti_draft_node *node, const char *name,
                      const dpti_draft_words *values)
{
    const char **copy = take(draft, values->n, sizeof *copy);
    if (!copy) return;
    memcpy(copy, values->items, values->n * sizeof *copy);
    add_attribute(node, (dpti_draft_attribute){.name = name,
                                               .kind = DPTI_ONNX_ATTRIBUTE_STRINGS,
                                               .n = values->n,
                                               .strings = copy});
}

/* ---- Initialisers ---------------------------------------------------------------------------- */

dpti_draft_tensor *dpti_draft_initialiser(dpti_draft *draft, dpti_draft_value *value,
                                          const void *data, size_t n_bytes)
{
    dpti_draft_tensor *tensor = take(draft, 1, sizeof *tensor);
    if (!tensor || !append(draft, &draft->tensors, tensor)) return &draft->spare_tensor;
    *tensor = (dpti_draft_tensor){.value = value, .data = data, .n_bytes = n_bytes};
    return tensor;
}

/* The constant of this type and content, which is one number or a list of numbers. */
static dpti_draft_value *constant(dpti_draft *d, dpti_onnx_type type, const void *data,
                                  size_t n_bytes)
{
    const bool is_list = type == DPTI_ONNX_INT64;
    for (size_t i = d->tensors.n; i-- > 0;) {
        const dpti_draft_tensor *t = dpti_draft_tensor_at(d, i);
        if (t->value->type == type && t->rank == (is_list ? 1 : 0) && t->n_bytes == n_bytes &&
            strncmp(t->value->name, "val_", 4) == 0 && memcmp(t->data, data, n_bytes) == 0)
            return t->value;
    }
    void *copy = take(d, 1, n_bytes);
    if (!copy) return &d->spare_value;
    memcpy(copy, data, n_bytes);
    char name[32];
    snprintf(name, sizeof name, "val_%zu", d->tensors.n);
    dpti_draft_tensor *tensor =
        dpti_draft_initialiser(d, dpti_draft_name(d, name, type), copy, n_bytes);
    tensor->rank = is_list ? 1 : 0;
    tensor->extents[0] = (int64_t)(n_bytes / sizeof(int64_t));
    return tensor->value;
}

dpti_draft_value *dpti_draft_axes(dpti_draft *draft, const dpti_draft_integers *values)
{
    return constant(draft, DPTI_ONNX_INT64, values->items, values->n * sizeof *values->items);
}

dpti_draft_value *dpti_draft_number(dpti_draft *draft, float value)
{
    return constant(draft, DPTI_ONNX_FLOAT, &value, sizeof value);
}

/* ---- What is needed -------------------------------------------------------------------------- */

/* Whether any output of a node is needed. */
static bool is_needed(const dpti_draft_node *node)
{
    bool needed = node->output->needed;
    for (size_t i = 1; i < DPTI_DRAFT_OUTPUTS; i++)
        needed = needed || (node->more[i] && node->more[i]->needed);
    return needed;
}

void dpti_draft_prune(dpti_draft *draft)
{
    dpti_draft *d = draft;
    size_t n_nodes = 0, n_tensors = 0;
    if (d->status != DPT_OK) return;
    d->output.value->needed = true;
    for (size_t i = d->nodes.n; i-- > 0;) {
        const dpti_draft_node *node = dpti_draft_node_at(d, i);
        for (size_t k = 0; is_needed(node) && k < node->n_inputs; k++)
            node->inputs[k]->needed = true;
    }
    for (size_t i = 0; i < d->nodes.n; i++)
        if (is_needed(dpti_draft_node_at(d, i))) d->nodes.items[n_nodes++] = d->nodes.items[i];
    for (size_t i = 0; i < d->tensors.n; i++)
        if (dpti_draft_tensor_at(d, i)->value->needed)
            d->tensors.items[n_tensors++] = d->tensors.items[i];
    d->nodes.n = n_nodes;
    d->tensors.n = n_tensors;
}
