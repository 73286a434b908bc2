/* The model's own file: its size, its versions, and decoding within a limit of memory. */
#include "onnx/reader.h"

#include "base/memory.h"
#include "base/text.h"
#include "io/kept_file.h"

#ifdef DPTRAIN_HAS_ONNX
#include "onnx/read_state.h"
#endif

#include <stdlib.h>
#include <string.h>

void dpti_onnx_close(dpti_onnx_model *model)
{
    if (!model) return;
    for (size_t i = 0; i < model->n_files; i++)
        dpti_kept_file_release(model->files[i]);
    dpti_onnx_arena_clear(&model->arena);
    free(model->content);
    free(model);
}

#ifdef DPTRAIN_HAS_ONNX

enum { MAX_NODES = 1000000 };
#define MAX_FILE_BYTES   ((size_t)INT32_MAX)
#define DECODE_ALLOWANCE ((size_t)256 << 20)

/* ---- Decoding -------------------------------------------------------------------------------- */

typedef struct decoder {
    dpti_onnx_arena *arena;
    bool refused; /* an allocation */
} decoder;

static void *decoder_alloc(void *user, size_t n_bytes)
{
    decoder *d = user;
    void *memory = dpti_onnx_take(d->arena, 1, n_bytes);
    if (!memory) d->refused = true;
    return memory;
}

static void decoder_free(void *user, void *memory)
{
    decoder *d = user;
    dpti_onnx_give_back(d->arena, memory);
}

/* Decodes with at most a fixed multiple of the file's size, which a real model does not reach. */
static dpt_status decode(dpti_onnx_reading *r, const dpti_file_bytes *file, dpt_error *error)
{
    decoder d = {.arena = r->arena};
    ProtobufCAllocator allocator = {decoder_alloc, decoder_free, &d};
    const size_t limit = r->arena->limit,
                 wanted = r->arena->used + 3 * file->n_bytes + DECODE_ALLOWANCE;
    if (wanted < limit) r->arena->limit = wanted;
    r->proto = dpti__onnx__model__unpack(&allocator, file->n_bytes, file->bytes);
    r->arena->limit = limit;
    if (r->proto) return DPT_OK;
    if (d.refused) return dpti_onnx_no_memory(error);
    return dpti_onnx_fail(error, DPT_E_FORMAT,
                          "%s: the ONNX file is damaged: its content cannot be decoded; copy or "
                          "export it again",
                          file->name);
}

/* Decodes the file without its large initialisers, which stay where they are. */
static dpt_status decode_all(dpti_onnx_reading *r, size_t n, dpt_error *error)
{
    r->raw = dpti_onnx_take(r->arena, n, sizeof *r->raw);
    if (!r->raw) return dpti_onnx_no_memory(error);
    if (dpti_onnx_find_raw(r->bytes, r->least_part, n, r->raw) == 0)
        return decode(r, r->bytes, error);
    const size_t n_bytes = dpti_onnx_strip(r->bytes, r->raw, NULL);
    uint8_t *rest = dpti_onnx_take(r->arena, 1, n_bytes);
    if (!rest) return dpti_onnx_no_memory(error);
    (void)dpti_onnx_strip(r->bytes, r->raw, rest);
    const dpti_file_bytes file = {r->bytes->name, rest, n_bytes};
    const dpt_status status = decode(r, &file, error);
    dpti_onnx_give_back(r->arena, rest);
    if (status != DPT_OK) return status;
    for (size_t i = 0; i < n && i < r->proto->graph->n_initializer; i++) {
        Dpti__Onnx__Tensor *tensor = r->proto->graph->initializer[i];
        if (r->raw[i].field == SIZE_MAX) continue;
        tensor->has_raw_data = true;
        tensor->raw_data = (ProtobufCBinaryData){
            r->raw[i].n_bytes, (uint8_t *)(uintptr_t)(r->bytes->bytes + r->raw[i].at)};
    }
    return DPT_OK;
}

dpt_status dpti_onnx_decode_graph(dpti_onnx_reading *reading, const ProtobufCBinaryData *bytes,
                                  const Dpti__Onnx__Graph **out, dpt_error *error)
{
    decoder d = {.arena = reading->arena};
    ProtobufCAllocator allocator = {decoder_alloc, decoder_free, &d};
    const char *path = reading->model->path;
    dpti_onnx_counts counts;
    const bool whole = dpti_onnx_count_graph(bytes->data, bytes->len, &counts);
    if (whole && (counts.nodes > reading->max_nodes || counts.tensors > reading->max_nodes))
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: a subgraph has %zu nodes and %zu initialisers; at most %zu of "
                              "each are read",
                              path, counts.nodes, counts.tensors, reading->max_nodes);
    *out = whole ? dpti__onnx__graph__unpack(&allocator, bytes->len, bytes->data) : NULL;
    if (*out) return DPT_OK;
    if (d.refused) return dpti_onnx_no_memory(error);
    return dpti_onnx_fail(error, DPT_E_FORMAT,
                          "%s: the ONNX file is damaged: a subgraph cannot be decoded; copy or "
                          "export it again",
                          path);
}

/* ---- Versions -------------------------------------------------------------------------------- */

static bool is_default_domain(const char *domain)
{
    return !domain || strcmp(domain, "") == 0 || strcmp(domain, "ai.onnx") == 0;
}

static dpt_status read_versions(dpti_onnx_reading *r, dpt_error *error)
{
    dpti_onnx_model *model = r->model;
    model->ir_version = r->proto->ir_version;
    if (model->ir_version < DPTI_ONNX_OLDEST_IR || model->ir_version > DPTI_ONNX_NEWEST_IR)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: ONNX IR version %lld; this build reads %d to %d; export with "
                              "another opset",
                              model->path, (long long)model->ir_version, DPTI_ONNX_OLDEST_IR,
                              DPTI_ONNX_NEWEST_IR);
    for (size_t i = 0; i < r->proto->n_opset_import; i++)
        if (is_default_domain(r->proto->opset_import[i]->domain))
            model->opset = r->proto->opset_import[i]->version;
    if (model->opset < DPTI_ONNX_OLDEST_OPSET || model->opset > DPTI_ONNX_NEWEST_OPSET)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: opset %lld; this build reads %d to %d; export with one of these "
                              "(opset_version=...)",
                              model->path, (long long)model->opset, DPTI_ONNX_OLDEST_OPSET,
                              DPTI_ONNX_NEWEST_OPSET);
    const char *name = dpti_onnx_text(r->proto->producer_name);
    const char *version = dpti_onnx_text(r->proto->producer_version);
    model->producer =
        dpti_onnx_take_text(r->arena, "%s%s%s", name, name[0] && version[0] ? " " : "", version);
    return model->producer ? DPT_OK : dpti_onnx_no_memory(error);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static dpt_status read_model(dpti_onnx_reading *r, const dpti_file_bytes *file, dpt_error *error)
{
    dpti_onnx_counts counts;
    r->bytes = file;
    r->model->path = dpti_onnx_take_text(r->arena, "%s", file->name);
    if (!r->model->path) return dpti_onnx_no_memory(error);
    DPT_TRY(dpti_onnx_count(file, &counts, error));
    if (counts.nodes > r->max_nodes || counts.tensors > r->max_nodes ||
        counts.functions > r->max_nodes)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: %zu nodes, %zu initialisers and %zu functions; at most %zu of "
                              "each are read",
                              file->name, counts.nodes, counts.tensors, counts.functions,
                              r->max_nodes);
    DPT_TRY(decode_all(r, counts.tensors, error));
    DPT_TRY(read_versions(r, error));
    DPT_TRY(dpti_onnx_flatten(r, error));
    DPT_TRY(dpti_onnx_link(r, error));
    DPT_TRY(dpti_onnx_split_merged(r, error));
    return dpti_onnx_sort(r->model, error);
}

/* Begins a model within limits; false if memory is short. */
static bool begin(const dpti_onnx_limits *limits, const char *folder, dpti_onnx_reading *r)
{
    dpti_onnx_model *model = calloc(1, sizeof *model);
    if (!model) return false;
    model->arena.limit = dpti_machine_memory();
    if (limits && limits->max_memory && limits->max_memory < model->arena.limit)
        model->arena.limit = limits->max_memory;
    *r = (dpti_onnx_reading){.model = model, .arena = &model->arena, .folder = folder};
    r->max_nodes = limits && limits->max_nodes ? limits->max_nodes : MAX_NODES;
    r->least_part = limits && limits->least_part ? limits->least_part : DPTI_ONNX_LEAST_PART;
    return true;
}

static dpt_status finish(const dpti_file_bytes *file, dpti_onnx_reading *r, dpti_onnx_model **out,
                         dpt_error *error)
{
    const dpt_status status = read_model(r, file, error);
    if (status == DPT_OK)
        *out = r->model;
    else
        dpti_onnx_close(r->model);
    return status;
}

dpt_status dpti_onnx_parse(const dpti_file_bytes *bytes, const dpti_onnx_limits *limits,
                           dpti_onnx_model **out, dpt_error *error)
{
    dpti_onnx_reading r;
    if (!begin(limits, NULL, &r)) return dpti_onnx_no_memory(error);
    return finish(bytes, &r, out, error);
}

/* The folder of a path without symbolic links, allocated; NULL with errno. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? dpti_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : dpti_strdup(".");
    char *resolved = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    return resolved;
}

dpt_status dpti_onnx_open(const char *path, const dpti_onnx_limits *limits, dpti_onnx_model **out,
                          dpt_error *error)
{
    size_t max_bytes = limits && limits->max_file_bytes ? limits->max_file_bytes : MAX_FILE_BYTES;
    if (max_bytes > MAX_FILE_BYTES) max_bytes = MAX_FILE_BYTES;
    dpti_kept_file *file = NULL;
    dpti_content content = {0};
    DPT_TRY(dpti_kept_file_open(path, &file, error));
    char *folder = folder_of(path);
    dpti_onnx_reading r;
    dpt_status status = dpti_kept_file_read(file, max_bytes, &content, error);
    if (status == DPT_OK && (!folder || !begin(limits, folder, &r))) {
        free(content.bytes);
        status = dpti_onnx_no_memory(error);
    }
    if (status == DPT_OK) {
        r.model->content = content.bytes;
        r.model->files[r.model->n_files++] = dpti_kept_file_share(file);
        status = finish(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, &r, out, error);
    }
    dpti_kept_file_release(file);
    free(folder);
    return status;
}

#else

static dpt_status fail_absent(const char *name, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: this build cannot read ONNX files; build dptrain where protobuf-c is "
                    "installed",
                    name);
}

dpt_status dpti_onnx_parse(const dpti_file_bytes *bytes, const dpti_onnx_limits *limits,
                           dpti_onnx_model **out, dpt_error *error)
{
    (void)limits;
    (void)out;
    return fail_absent(bytes->name, error);
}

dpt_status dpti_onnx_open(const char *path, const dpti_onnx_limits *limits, dpti_onnx_model **out,
                          dpt_error *error)
{
    (void)limits;
    (void)out;
    return fail_absent(path, error);
}

#endif
