/* Protobuf's encoding: a field is a key, which is number * 8 + kind, and a value. */
#include "onnx/wire.h"

#include <string.h>

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

/* ---- Raw bytes ------------------------------------------------------------------------------- */

/* Where a copy is written; nothing is written if there is no memory, so that it is only measured.
 */
typedef struct copy {
    uint8_t *memory;
    size_t n_bytes;
} copy;

static void put(copy *to, const uint8_t *begin, const uint8_t *end)
{
    const size_t n = (size_t)(end - begin);
    if (to->memory && n > 0) memcpy(to->memory + to->n_bytes, begin, n);
    to->n_bytes += n;
}

static void put_varint(copy *to, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    put(to, bytes, bytes + n);
}

/* The key and the length of a field of bytes. */
static void put_head(copy *to, uint64_t number, size_t n_bytes)
{
    put_varint(to, number << 3 | KIND_BYTES);
    put_varint(to, n_bytes);
}

/* The only raw bytes of a tensor, if they are at least `least`. */
static dpti_onnx_raw find_raw_of(const dpti_file_bytes *file, cursor tensor, size_t least)
{
    dpti_onnx_raw found = {.field = SIZE_MAX};
    size_t n = 0;
    while (tensor.at < tensor.end) {
        const size_t begin = (size_t)(tensor.at - file->bytes);
        field f;
        if (!take_field(&tensor, &f)) return (dpti_onnx_raw){.field = SIZE_MAX};
        if (f.number != TENSOR_RAW_DATA) continue;
        n++;
        if (f.kind == KIND_BYTES && (size_t)(f.content.end - f.content.at) >= least)
            found = (dpti_onnx_raw){begin, (size_t)(f.content.at - file->bytes),
                                    (size_t)(f.content.end - f.content.at)};
    }
    return n == 1 ? found : (dpti_onnx_raw){.field = SIZE_MAX};
}

size_t dpti_onnx_find_raw(const dpti_file_bytes *file, size_t least, size_t n, dpti_onnx_raw *out)
{
    cursor rest = {file->bytes, file->bytes + file->n_bytes}, graph = {NULL, NULL};
    field f;
    size_t n_found = 0;
    while (rest.at < rest.end && take_field(&rest, &f))
        if (f.number == MODEL_GRAPH && f.kind == KIND_BYTES) graph = f.content;
    for (size_t i = 0; i < n && graph.at < graph.end && take_field(&graph, &f);) {
        if (f.number != GRAPH_INITIALIZER || f.kind != KIND_BYTES) continue;
        out[i] = find_raw_of(file, f.content, least);
        n_found += out[i++].field != SIZE_MAX;
    }
    return n_found;
}

static void put_graph(const dpti_file_bytes *file, const dpti_onnx_raw *raw, cursor graph, copy *to)
{
    while (graph.at < graph.end) {
        const uint8_t *begin = graph.at;
        field f;
        if (!take_field(&graph, &f)) return;
        const bool tensor = f.number == GRAPH_INITIALIZER && f.kind == KIND_BYTES;
        const dpti_onnx_raw r = tensor ? *raw++ : (dpti_onnx_raw){.field = SIZE_MAX};
        if (r.field == SIZE_MAX) {
            put(to, begin, graph.at);
            continue;
        }
        const uint8_t *hole = file->bytes + r.field, *behind = file->bytes + r.at + r.n_bytes;
        put_head(to, GRAPH_INITIALIZER,
                 (size_t)(hole - f.content.at) + (size_t)(f.content.end - behind));
        put(to, f.content.at, hole);
        put(to, behind, f.content.end);
    }
}

size_t dpti_onnx_strip(const dpti_file_bytes *file, const dpti_onnx_raw *raw, uint8_t *to)
{
    cursor rest = {file->bytes, file->bytes + file->n_bytes};
    copy out = {to, 0};
    while (rest.at < rest.end) {
        const uint8_t *begin = rest.at;
        field f;
        if (!take_field(&rest, &f)) break;
        if (f.number != MODEL_GRAPH || f.kind != KIND_BYTES) {
            put(&out, begin, rest.at);
            continue;
        }
        copy measured = {NULL, 0};
        put_graph(file, raw, f.content, &measured);
        put_head(&out, MODEL_GRAPH, measured.n_bytes);
        put_graph(file, raw, f.content, &out);
    }
    return out.n_bytes;
}
