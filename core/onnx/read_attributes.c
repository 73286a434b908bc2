/* The attributes of a node, from those of the file. */
#include "onnx/read_state.h"

#include <string.h>

enum { KIND_GRAPH = 5, KIND_GRAPHS = 10 };

/* Allocates a text from bytes of the file. */
static char *text_of(dpti_onnx_arena *arena, const ProtobufCBinaryData *bytes)
{
    char *text = dpti_onnx_take(arena, bytes->len + 1, 1);
    if (text && bytes->len) memcpy(text, bytes->data, bytes->len);
    return text;
}

static bool take_strings(dpti_onnx_arena *arena, const Dpti__Onnx__Attribute *from,
                         dpti_onnx_attribute *out)
{
    const char **strings = dpti_onnx_take(arena, from->n_strings, sizeof *strings);
    for (size_t i = 0; strings && i < from->n_strings; i++)
        if (!(strings[i] = text_of(arena, &from->strings[i]))) return false;
    out->n = from->n_strings;
    out->strings = strings;
    return strings != NULL;
}

static dpt_status read_tensor(dpti_onnx_reading *r, const Dpti__Onnx__Attribute *from,
                              dpti_onnx_attribute *out, dpt_error *error)
{
    dpti_onnx_tensor *tensor = dpti_onnx_take(r->arena, 1, sizeof *tensor);
    if (!tensor) return dpti_onnx_no_memory(error);
    tensor->name = out->name;
    out->tensor = tensor;
    if (!from->t)
        return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: attribute \"%.80s\" has no tensor",
                              r->model->path, out->name);
    return dpti_onnx_read_tensor(r, from->t, tensor, error);
}

/* The kinds that are not taken. */
static dpt_status refuse(const dpti_onnx_reading *r, const char *label,
                         const dpti_onnx_flat_attribute *from, dpt_error *error)
{
    const int kind = (int)from->value->type;
    if (kind == KIND_GRAPH || kind == KIND_GRAPHS || from->value->has_g || from->value->n_graphs)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: node %s holds a subgraph (\"%.80s\"); loops and branches are "
                              "not taken; export without control flow",
                              r->model->path, label, from->name);
    return dpti_onnx_fail(error, kind == 0 ? DPT_E_FORMAT : DPT_E_UNSUPPORTED,
                          "%s: node %s: attribute \"%.80s\" is of kind %d, which is not taken",
                          r->model->path, label, from->name, kind);
}

static dpt_status read_attribute(dpti_onnx_reading *r, const dpti_onnx_flat_attribute *from,
                                 dpti_onnx_attribute *out, dpt_error *error)
{
    const Dpti__Onnx__Attribute *value = from->value;
    out->name = from->name;
    out->kind = (dpti_onnx_attribute_kind)value->type;
    switch (out->kind) {
    case DPTI_ONNX_ATTRIBUTE_FLOAT: out->f = value->f; return DPT_OK;
    case DPTI_ONNX_ATTRIBUTE_INT: out->i = value->i; return DPT_OK;
    case DPTI_ONNX_ATTRIBUTE_STRING:
        out->s = text_of(r->arena, &value->s);
        return out->s ? DPT_OK : dpti_onnx_no_memory(error);
    case DPTI_ONNX_ATTRIBUTE_TENSOR: return read_tensor(r, value, out, error);
    case DPTI_ONNX_ATTRIBUTE_FLOATS:
        out->n = value->n_floats;
        out->floats = value->floats;
        return DPT_OK;
    case DPTI_ONNX_ATTRIBUTE_INTS:
        out->n = value->n_ints;
        out->ints = value->ints;
        return DPT_OK;
    case DPTI_ONNX_ATTRIBUTE_STRINGS:
        return take_strings(r->arena, value, out) ? DPT_OK : dpti_onnx_no_memory(error);
    }
    return DPT_E_UNSUPPORTED;
}

static bool is_taken(const Dpti__Onnx__Attribute *value)
{
    return (value->type >= DPTI_ONNX_ATTRIBUTE_FLOAT &&
            value->type <= DPTI_ONNX_ATTRIBUTE_TENSOR) ||
           (value->type >= DPTI_ONNX_ATTRIBUTE_FLOATS &&
            value->type <= DPTI_ONNX_ATTRIBUTE_STRINGS);
}

dpt_status dpti_onnx_read_attributes(dpti_onnx_reading *reading, const dpti_onnx_flat_node *flat,
                                     dpti_onnx_node *node, dpt_error *error)
{
    dpti_onnx_attribute *attributes =
        dpti_onnx_take(reading->arena, flat->n_attributes, sizeof *attributes);
    if (!attributes) return dpti_onnx_no_memory(error);
    node->attributes = attributes;
    for (size_t i = 0; i < flat->n_attributes; i++) {
        const dpti_onnx_flat_attribute *from = &flat->attributes[i];
        if (!is_taken(from->value)) return refuse(reading, flat->label, from, error);
        DPT_TRY(read_attribute(reading, from, &attributes[i], error));
        if (dpti_onnx_find(node, from->name))
            return dpti_onnx_fail(error, DPT_E_FORMAT, "%s: node %s has attribute \"%.80s\" twice",
                                  reading->model->path, flat->label, from->name);
        node->n_attributes++;
    }
    return DPT_OK;
}
