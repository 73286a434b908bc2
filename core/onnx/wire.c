/* Protobuf's encoding: a field is a key, which is number * 8 + kind, and a value. */
#include "onnx/wire.h"

enum { KIND_VARINT = 0, KIND_8_BYTES = 1, KIND_BYTES = 2, KIND_4_BYTES = 5 };
enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_FUNCTION = 25 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5 };
enum { TENSOR_RAW_DATA = 9 };

/* What is left to look at. */
typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

typedef struct field {
    uint64_t number, kind;
    cursor content; /* of a field of bytes */
} field;

static bool take_varint(cursor *c, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (c->at == c->end) return false;
        const uint8_t byte = *c->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Takes the next field; false if there is no whole one. */
static bool take_field(cursor *c, field *out)
{
    uint64_t key = 0, n = 0;
    if (!take_varint(c, &key)) return false;
    *out = (field){.number = key >> 3, .kind = key & 7};
    switch (out->kind) {
    case KIND_VARINT: return take_varint(c, &n);
    case KIND_8_BYTES: n = 8; break;
    case KIND_4_BYTES: n = 4; break;
    case KIND_BYTES:
        if (!take_varint(c, &n)) return false;
        break;
    default: return false;
    }
    if (n > (uint64_t)(c->end - c->at)) return false;
    out->content = (cursor){c->at, c->at + n};
    c->at += n;
    return out->number > 0;
}

static bool count_graph(cursor graph, dpti_onnx_counts *counts)
{
    while (graph.at < graph.end) {
        field f;
        if (!take_field(&graph, &f)) return false;
        if (f.kind != KIND_BYTES) continue;
        counts->nodes += f.number == GRAPH_NODE;
        counts->tensors += f.number == GRAPH_INITIALIZER;
    }
    return true;
}

bool dpti_onnx_count_graph(const uint8_t *bytes, size_t n_bytes, dpti_onnx_counts *counts)
{
    *counts = (dpti_onnx_counts){0};
    return count_graph((cursor){bytes, bytes + n_bytes}, counts);
}

dpt_status dpti_onnx_count(const dpti_file_bytes *file, dpti_onnx_counts *counts, dpt_error *error)
{
    cursor rest = {file->bytes, file->bytes + file->n_bytes};
    size_t n_graphs = 0, n_versions = 0;
    *counts = (dpti_onnx_counts){0};
    while (rest.at < rest.end) {
        const size_t offset = (size_t)(rest.at - file->bytes);
        field f;
        const bool whole = take_field(&rest, &f);
        if (!whole && n_versions == 0) break;
        const bool graph = whole && f.number == MODEL_GRAPH && f.kind == KIND_BYTES;
        if (!whole || (graph && !count_graph(f.content, counts)))
            return dpti_onnx_fail(error, DPT_E_FORMAT,
                                  "%s: the ONNX file is damaged or cut off: its field at byte %zu "
                                  "does not end within it; copy or export it again",
                                  file->name, offset);
        n_versions += f.number == MODEL_IR_VERSION && f.kind == KIND_VARINT;
        n_graphs += graph;
        counts->functions += f.number == MODEL_FUNCTION;
    }
    if (n_versions == 1 && n_graphs == 1) return DPT_OK;
    if (n_versions == 1 && n_graphs == 0)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: the ONNX file has no graph: cut off, or saved without one; copy "
                              "or export it again",
                              file->name);
    return dpti_onnx_fail(error, DPT_E_FORMAT,
                          "%s: no ONNX file; give one that torch.onnx.export or another exporter "
                          "has written",
                          file->name);
}

/* The last field of bytes of this number; it is empty if there is none. */
static cursor find_bytes(cursor message, uint64_t number)
{
    cursor found = {NULL, NULL};
    field f;
    while (message.at < message.end && take_field(&message, &f))
        if (f.number == number && f.kind == KIND_BYTES) found = f.content;
    return found;
}

void dpti_onnx_find_raw(const dpti_file_bytes *file, size_t n, size_t *offsets)
{
    cursor graph = find_bytes((cursor){file->bytes, file->bytes + file->n_bytes}, MODEL_GRAPH);
    field f;
    for (size_t i = 0; i < n && graph.at < graph.end && take_field(&graph, &f);) {
        if (f.number != GRAPH_INITIALIZER || f.kind != KIND_BYTES) continue;
        const cursor raw = find_bytes(f.content, TENSOR_RAW_DATA);
        offsets[i++] = raw.at ? (size_t)(raw.at - file->bytes) : SIZE_MAX;
    }
}
