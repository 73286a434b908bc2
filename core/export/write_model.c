/* Writes a draft: protobuf-c's encoder, and the files. */
#include "export/export.h"

#include "io/file.h"
#include "schema.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ONNX's number of a tensor's place: the file that external_data names. */
enum { EXTERNAL = 1 };
/* External tensors begin at multiples of this, so that a reader can map them into memory. */
enum { EXTERNAL_ALIGNMENT = 4096, SMALLEST_EXTERNAL = 1024 };

typedef struct writing {
    const dpti_draft *draft;
    const dpti_export_file *file;
    dpti_onnx_arena arena; /* of the messages */
    bool failed;           /* memory */
    const char *data_name; /* the file of tensors, without its folder; NULL: there is none */
    uint64_t data_bytes;
} writing;

static void *take(writing *w, size_t n, size_t n_bytes)
{
    void *memory = dpti_onnx_take(&w->arena, n, n_bytes);
    if (!memory) w->failed = true;
    return memory;
}

/* n new messages of this type, in an array of pointers. */
#define NEW_MESSAGES(w, n, type, init) ((type **)new_messages((w), (n), sizeof(type), (init)))

typedef void initialise(void *message);

static void **new_messages(writing *w, size_t n, size_t n_bytes, initialise *init)
{
    void **list = take(w, n, sizeof *list);
    char *all = take(w, n, n_bytes);
    if (!list || !all) return NULL;
    for (size_t i = 0; i < n; i++) {
        list[i] = all + i * n_bytes;
        init(list[i]);
    }
    return list;
}

#define INITIALISER(name, type, init)                                                              \
    static void name(void *message)                                                                \
    {                                                                                              \
        init((type *)message);                                                                     \
    }
INITIALISER(init_attribute, Dpti__Onnx__Attribute, dpti__onnx__attribute__init)
INITIALISER(init_node, Dpti__Onnx__Node, dpti__onnx__node__init)
INITIALISER(init_tensor, Dpti__Onnx__Tensor, dpti__onnx__tensor__init)
INITIALISER(init_entry, Dpti__Onnx__Entry, dpti__onnx__entry__init)
INITIALISER(init_value, Dpti__Onnx__ValueInfo, dpti__onnx__value_info__init)
INITIALISER(init_type, Dpti__Onnx__Type, dpti__onnx__type__init)
INITIALISER(init_tensor_type, Dpti__Onnx__TensorType, dpti__onnx__tensor_type__init)
INITIALISER(init_shape, Dpti__Onnx__Shape, dpti__onnx__shape__init)
INITIALISER(init_dimension, Dpti__Onnx__Dimension, dpti__onnx__dimension__init)
INITIALISER(init_opset, Dpti__Onnx__OpsetId, dpti__onnx__opset_id__init)
INITIALISER(init_graph, Dpti__Onnx__Graph, dpti__onnx__graph__init)

/* protobuf-c's messages hold strings that are not const, and does not change them. */
static char *text(const char *constant)
{
    return (char *)(uintptr_t)constant;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static void put_strings(writing *w, Dpti__Onnx__Attribute *to, const dpti_draft_attribute *a)
{
    ProtobufCBinaryData *list = take(w, a->n, sizeof *list);
    if (!list) return;
    for (size_t i = 0; i < a->n; i++)
        list[i] = (ProtobufCBinaryData){strlen(a->strings[i]), (uint8_t *)text(a->strings[i])};
    to->n_strings = a->n;
    to->strings = list;
}

static void put_attribute(writing *w, Dpti__Onnx__Attribute *to, const dpti_draft_attribute *a)
{
    to->name = text(a->name);
    to->has_type = true;
    to->type = (int32_t)a->kind;
    switch (a->kind) {
    case DPTI_ONNX_ATTRIBUTE_FLOAT:
        to->has_f = true;
        to->f = a->f;
        break;
    case DPTI_ONNX_ATTRIBUTE_INT:
        to->has_i = true;
        to->i = a->i;
        break;
    case DPTI_ONNX_ATTRIBUTE_STRING:
        to->has_s = true;
        to->s = (ProtobufCBinaryData){strlen(a->s), (uint8_t *)text(a->s)};
        break;
    case DPTI_ONNX_ATTRIBUTE_STRINGS: put_strings(w, to, a); break;
    default: to->n_ints = a->n; to->ints = (int64_t *)(uintptr_t)a->ints;
    }
}

static void put_node(writing *w, Dpti__Onnx__Node *to, const dpti_draft_node *node)
{
    char **names = take(w, node->n_inputs + DPTI_DRAFT_OUTPUTS, sizeof *names);
    Dpti__Onnx__Attribute **attributes =
        NEW_MESSAGES(w, node->n_attributes, Dpti__Onnx__Attribute, init_attribute);
    if (!names || !attributes) return;
    for (size_t i = 0; i < node->n_inputs; i++)
        names[i] = text(node->inputs[i]->name);
    char **outputs = names + node->n_inputs;
    size_t n_outputs = 1;
    outputs[0] = text(node->output->name);
    for (size_t i = 1; i < DPTI_DRAFT_OUTPUTS; i++) {
        outputs[i] = text(node->more[i] ? node->more[i]->name : "");
        if (node->more[i]) n_outputs = i + 1;
    }
    for (size_t i = 0; i < node->n_attributes; i++)
        put_attribute(w, attributes[i], &node->attributes[i]);
    to->name = text(node->name);
    to->op_type = text(node->op);
    to->n_input = node->n_inputs;
    to->input = names;
    to->n_output = n_outputs;
    to->output = outputs;
    to->n_attribute = node->n_attributes;
    to->attribute = attributes;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static bool is_external(const writing *w, const dpti_draft_tensor *tensor)
{
    return w->data_name && tensor->n_bytes >= SMALLEST_EXTERNAL;
}

static uint64_t round_up(uint64_t n)
{
    return (n + EXTERNAL_ALIGNMENT - 1) / EXTERNAL_ALIGNMENT * EXTERNAL_ALIGNMENT;
}

/* Names the file, the offset and the length. */
static void put_place(writing *w, Dpti__Onnx__Tensor *to, const dpti_draft_tensor *tensor)
{
    static const char *const keys[] = {"location", "offset", "length"};
    Dpti__Onnx__Entry **entries = NEW_MESSAGES(w, 3, Dpti__Onnx__Entry, init_entry);
    const uint64_t begin = round_up(w->data_bytes);
    char *values[] = {text(w->data_name),
                      dpti_onnx_take_text(&w->arena, "%llu", (unsigned long long)begin),
                      dpti_onnx_take_text(&w->arena, "%zu", tensor->n_bytes)};
    if (!entries || !values[1] || !values[2]) {
        w->failed = true;
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        entries[i]->key = text(keys[i]);
        entries[i]->value = values[i];
    }
    to->has_data_location = true;
    to->data_location = EXTERNAL;
    to->n_external_data = 3;
    to->external_data = entries;
    w->data_bytes = begin + tensor->n_bytes;
}

static void put_tensor(writing *w, Dpti__Onnx__Tensor *to, const dpti_draft_tensor *tensor)
{
    to->name = text(tensor->value->name);
    to->has_data_type = true;
    to->data_type = (int32_t)tensor->value->type;
    to->n_dims = tensor->rank;
    to->dims = (int64_t *)(uintptr_t)tensor->extents;
    if (is_external(w, tensor)) {
        put_place(w, to, tensor);
        return;
    }
    to->has_raw_data = true;
    to->raw_data = (ProtobufCBinaryData){tensor->n_bytes, (uint8_t *)(uintptr_t)tensor->data};
}

/* ---- The graph ------------------------------------------------------------------------------- */

static void put_port(writing *w, Dpti__Onnx__ValueInfo *to, const dpti_draft_port *port)
{
    Dpti__Onnx__Type **type = NEW_MESSAGES(w, 1, Dpti__Onnx__Type, init_type);
    Dpti__Onnx__TensorType **tensor = NEW_MESSAGES(w, 1, Dpti__Onnx__TensorType, init_tensor_type);
    Dpti__Onnx__Shape **shape = NEW_MESSAGES(w, 1, Dpti__Onnx__Shape, init_shape);
    Dpti__Onnx__Dimension **dims =
        NEW_MESSAGES(w, port->rank, Dpti__Onnx__Dimension, init_dimension);
    if (!type || !tensor || !shape || !dims) return;
    for (size_t i = 0; i < port->rank; i++) {
        dims[i]->has_dim_value = port->extents[i] >= 0;
        dims[i]->dim_value = port->extents[i];
        dims[i]->dim_param = port->extents[i] < 0 ? text("N") : NULL;
    }
    shape[0]->n_dim = port->rank;
    shape[0]->dim = dims;
    tensor[0]->has_elem_type = true;
    tensor[0]->elem_type = (int32_t)port->value->type;
    tensor[0]->shape = shape[0];
    type[0]->tensor_type = tensor[0];
    to->name = text(port->value->name);
    to->type = type[0];
}

static void put_graph(writing *w, Dpti__Onnx__Graph *graph)
{
    const dpti_draft *d = w->draft;
    graph->name = text(w->file->graph_name);
    graph->n_node = d->nodes.n;
    graph->node = NEW_MESSAGES(w, d->nodes.n, Dpti__Onnx__Node, init_node);
    graph->n_initializer = d->tensors.n;
    graph->initializer = NEW_MESSAGES(w, d->tensors.n, Dpti__Onnx__Tensor, init_tensor);
    graph->n_input = d->n_inputs;
    graph->input = NEW_MESSAGES(w, d->n_inputs, Dpti__Onnx__ValueInfo, init_value);
    graph->n_output = 1;
    graph->output = NEW_MESSAGES(w, 1, Dpti__Onnx__ValueInfo, init_value);
    for (size_t i = 0; graph->input && i < d->n_inputs; i++)
        put_port(w, graph->input[i], &d->inputs[i]);
    if (graph->output) put_port(w, graph->output[0], &d->output);
    for (size_t i = 0; graph->node && i < d->nodes.n; i++)
        put_node(w, graph->node[i], dpti_draft_node_at(d, i));
    for (size_t i = 0; graph->initializer && i < d->tensors.n; i++)
        put_tensor(w, graph->initializer[i], dpti_draft_tensor_at(d, i));
}

/* The oldest IR version that allows the opset. */
static int64_t ir_version(int64_t opset)
{
    static const struct {
        int64_t opset, ir;
    } table[] = {{14, 7}, {18, 8}, {20, 9}, {22, 10}, {23, 11}, {24, 12}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (opset <= table[i].opset) return table[i].ir;
    return 13;
}

static void put_metadata(writing *w, Dpti__Onnx__Model *model)
{
    dpti_export_metadata list = w->file->metadata;
    size_t n = 0;
    while (list && list[2 * n])
        n++;
    model->n_metadata_props = n;
    model->metadata_props = NEW_MESSAGES(w, n, Dpti__Onnx__Entry, init_entry);
    for (size_t i = 0; model->metadata_props && i < n; i++) {
        model->metadata_props[i]->key = text(list[2 * i]);
        model->metadata_props[i]->value = text(list[2 * i + 1]);
    }
}

static void put_model(writing *w, Dpti__Onnx__Model *model)
{
    Dpti__Onnx__Graph **graph = NEW_MESSAGES(w, 1, Dpti__Onnx__Graph, init_graph);
    Dpti__Onnx__OpsetId **opset = NEW_MESSAGES(w, 1, Dpti__Onnx__OpsetId, init_opset);
    if (!graph || !opset) return;
    opset[0]->domain = text("");
    opset[0]->has_version = true;
    opset[0]->version = w->draft->opset;
    model->has_ir_version = true;
    model->ir_version = ir_version(w->draft->opset);
    model->producer_name = text("dptrain");
    model->producer_version = text(DPT_VERSION);
    model->n_opset_import = 1;
    model->opset_import = opset;
    model->graph = graph[0];
    put_metadata(w, model);
    put_graph(w, graph[0]);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* protobuf-c appends what it encodes to a file. */
typedef struct sink {
    ProtobufCBuffer base; /* first, because the encoder knows only it */
    dpti_new_file *file;
    dpt_status status;
    dpt_error *error;
    size_t n_used;
    uint8_t bytes[1 << 16];
} sink;

static void flush(sink *s)
{
    if (s->status == DPT_OK && s->n_used > 0)
        s->status = dpti_new_file_write(s->file, s->bytes, s->n_used, s->error);
    s->n_used = 0;
}

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *bytes)
{
    sink *s = (sink *)(void *)buffer;
    if (n > sizeof s->bytes - s->n_used) flush(s);
    if (n <= sizeof s->bytes) {
        memcpy(s->bytes + s->n_used, bytes, n);
        s->n_used += n;
    } else if (s->status == DPT_OK) {
        s->status = dpti_new_file_write(s->file, bytes, n, s->error);
    }
}

static dpt_status encode(const Dpti__Onnx__Model *model, dpti_new_file *file, dpt_error *error)
{
    sink *s = calloc(1, sizeof *s);
    if (!s) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", file->name);
    s->base.append = append;
    s->file = file;
    s->error = error;
    (void)protobuf_c_message_pack_to_buffer(&model->base, &s->base);
    flush(s);
    const dpt_status status = s->status;
    free(s);
    return status;
}

static dpt_status write_data(const writing *w, dpti_new_file *file, dpt_error *error)
{
    static const uint8_t zeros[EXTERNAL_ALIGNMENT];
    uint64_t at = 0;
    for (size_t i = 0; i < w->draft->tensors.n; i++) {
        const dpti_draft_tensor *tensor = dpti_draft_tensor_at(w->draft, i);
        if (!is_external(w, tensor)) continue;
        DPT_TRY(dpti_new_file_write(file, zeros, (size_t)(round_up(at) - at), error));
        DPT_TRY(dpti_new_file_write(file, tensor->data, tensor->n_bytes, error));
        at = round_up(at) + tensor->n_bytes;
    }
    return DPT_OK;
}

/* Both files are complete before the first is renamed. */
static dpt_status write_both(const writing *w, const Dpti__Onnx__Model *model,
                             const char *data_path, dpt_error *error)
{
    dpti_new_file file, data;
    DPT_TRY(dpti_new_file_create(w->file->path, &file, error));
    dpt_status status = dpti_new_file_create(data_path, &data, error);
    if (status != DPT_OK) {
        dpti_new_file_discard(&file);
        return status;
    }
    status = write_data(w, &data, error);
    if (status == DPT_OK) status = encode(model, &file, error);
    if (status == DPT_OK)
        status = dpti_new_file_commit(&data, error);
    else
        dpti_new_file_discard(&data);
    if (status == DPT_OK) return dpti_new_file_commit(&file, error);
    dpti_new_file_discard(&file);
    return status;
}

static dpt_status write_files(const writing *w, const Dpti__Onnx__Model *model,
                              const char *data_path, dpt_error *error)
{
    dpti_new_file file;
    if (data_path) return write_both(w, model, data_path, error);
    DPT_TRY(dpti_new_file_create(w->file->path, &file, error));
    const dpt_status status = encode(model, &file, error);
    if (status == DPT_OK) return dpti_new_file_commit(&file, error);
    dpti_new_file_discard(&file);
    return status;
}

static size_t count_bytes(const dpti_draft *draft)
{
    size_t n = 0;
    for (size_t i = 0; i < draft->tensors.n; i++)
        n += dpti_draft_tensor_at(draft, i)->n_bytes;
    return n;
}

dpt_status dpti_export_write(const dpti_draft *draft, const dpti_export_file *file,
                             dpt_error *error)
{
    writing w = {.draft = draft, .file = file, .arena = {.limit = SIZE_MAX}};
    const char *data_path = NULL;
    Dpti__Onnx__Model model;
    if (count_bytes(draft) > file->most_bytes) {
        const char *slash = strrchr(file->path, '/');
        data_path = dpti_onnx_take_text(&w.arena, "%s.data", file->path);
        w.failed = !data_path;
        if (data_path) w.data_name = data_path + (slash ? slash - file->path + 1 : 0);
    }
    dpti__onnx__model__init(&model);
    put_model(&w, &model);
    dpt_status status;
    if (w.failed)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", file->path);
    else
        status = write_files(&w, &model, data_path, error);
    dpti_onnx_arena_clear(&w.arena);
    return status;
}
