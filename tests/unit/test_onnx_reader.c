/* Tests the reader of ONNX files: what it makes of good files, and how it refuses bad ones.  The
   files are made by tests/onnx/make_models.py. */
#include "onnx_files.h"

#include <sys/stat.h>
#include <unistd.h>

/* No initialiser is decoded if it has raw bytes. */
static const dpti_onnx_limits in_place = {.least_part = 1};

static const dpti_onnx_value *find_value(const dpti_onnx_model *model, const char *name)
{
    const size_t v = onnx_value(model, name);
    return v == DPTI_ONNX_NONE ? NULL : &model->values[v];
}

/* ---- Good files ------------------------------------------------------------------------------ */

static void reads_values_and_nodes(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/linear.onnx");
    REQUIRE(model != NULL);
    CHECK(model->ir_version == 8 && model->opset == 18);
    CHECK_TEXT(model->producer, "t");
    CHECK_SIZE(model->n_nodes, 2);
    CHECK_SIZE(model->n_values, 5);
    CHECK_SIZE(model->n_inputs, 1);
    CHECK_SIZE(model->n_outputs, 1);
    CHECK_TEXT(model->nodes[0].op, "MatMul");
    CHECK_TEXT(model->nodes[0].label, "\"mm\" (MatMul)");
    CHECK_TEXT(model->values[model->nodes[0].inputs[1]].name, "w");
    CHECK_SIZE(model->values[model->nodes[1].outputs[0]].producer, 1);
    const dpti_onnx_port *x = &model->inputs[0];
    CHECK(x->rank == 2 && x->extents[0].size == -1 && x->extents[1].size == 3);
    CHECK_TEXT(x->extents[0].name, "N");
    const dpti_onnx_tensor *w = find_value(model, "w")->tensor;
    REQUIRE(w != NULL);
    CHECK(w->type == DPTI_ONNX_FLOAT && w->rank == 2 && w->extents[0] == 3 && w->extents[1] == 2);
    CHECK_SIZE(w->n_bytes, 24);
    float last;
    memcpy(&last, (const uint8_t *)w->data + 20, sizeof last);
    CHECK_NEAR(last, 5.0 / 8, 0);
    dpti_onnx_close(model);
}

static void puts_nodes_in_order(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/unsorted.onnx");
    REQUIRE(model != NULL);
    CHECK_TEXT(model->nodes[0].op, "MatMul");
    CHECK_TEXT(model->nodes[1].op, "Add");
    CHECK_TEXT(model->nodes[2].op, "Relu");
    for (size_t i = 0; i < model->n_nodes; i++)
        CHECK_SIZE(model->values[model->nodes[i].outputs[0]].producer, i);
    dpti_onnx_close(model);
}

static void drops_what_is_not_used(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/unused.onnx");
    REQUIRE(model != NULL);
    CHECK(find_value(model, "b") != NULL);
    CHECK(find_value(model, "nobody") == NULL);
    dpti_onnx_close(model);
}

static void takes_an_input_with_a_default_as_a_tensor(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/input_with_default.onnx");
    REQUIRE(model != NULL);
    CHECK_SIZE(model->n_inputs, 1);
    CHECK(find_value(model, "b")->tensor != NULL);
    dpti_onnx_close(model);
}

static void puts_functions_in_place(test *t)
{
    static const float factors[] = {2, 3, 2, 3};
    dpti_onnx_model *model = onnx_open(t, "good/function.onnx");
    REQUIRE(model != NULL);
    REQUIRE(CHECK_SIZE(model->n_nodes, 8)); /* four calls of Constant and Mul */
    for (size_t i = 0; i < 4; i++) {
        CHECK_TEXT(model->nodes[2 * i].op, "Constant");
        CHECK_NEAR(dpti_onnx_float(&model->nodes[2 * i], "value_float", 0), factors[i], 0);
        const dpti_onnx_node *mul = &model->nodes[2 * i + 1];
        CHECK_TEXT(mul->op, "Mul");
        CHECK_CONTAINS(mul->label, "scale");
        CHECK_SIZE(mul->inputs[0], i == 0 ? model->inputs[0].value : mul[-2].outputs[0]);
    }
    CHECK_SIZE(model->outputs[0].value, model->nodes[7].outputs[0]);
    dpti_onnx_close(model);
}

static void reads_every_type(test *t)
{
    static const struct {
        const char *name;
        size_t n_bytes;
        uint8_t one[8];
    } types[] = {
        {"f32", 4, {0, 0, 0x80, 0x3f}},
        {"f64", 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
        {"i64", 8, {1}},
        {"u64", 8, {1}},
        {"i32", 4, {1}},
        {"u32", 4, {1}},
        {"i16", 2, {1}},
        {"u16", 2, {1}},
        {"i8", 1, {1}},
        {"u8", 1, {1}},
        {"b", 1, {1}},
        {"f16", 2, {0, 0x3c}},
        {"bf16", 2, {0x80, 0x3f}},
    };
    dpti_onnx_model *model = onnx_open(t, "good/typed.onnx");
    REQUIRE(model != NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t expected[16] = {0};
        memcpy(expected, types[i].one, types[i].n_bytes);
        const dpti_onnx_value *value = find_value(model, types[i].name);
        REQUIRE(value && value->tensor);
        CHECK_SIZE(value->tensor->n_bytes, 2 * types[i].n_bytes);
        CHECK_SIZE(dpti_onnx_type_bytes(value->tensor->type), types[i].n_bytes);
        if (memcmp(value->tensor->data, expected, 2 * types[i].n_bytes) != 0)
            FAIL("wrong bytes of %s", types[i].name);
    }
    dpti_onnx_close(model);
}

static void reads_every_kind_of_attribute(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/attributes.onnx");
    REQUIRE(model != NULL);
    const dpti_onnx_node *node = &model->nodes[0];
    size_t n = 0;
    CHECK_SIZE(node->n_attributes, 7);
    CHECK_NEAR(dpti_onnx_float(node, "f", 0), 1.5, 0);
    CHECK(dpti_onnx_int(node, "i", 0) == -7);
    CHECK(dpti_onnx_int(node, "f", 3) == 3); /* of another kind */
    CHECK_TEXT(dpti_onnx_string(node, "s", ""), "text");
    CHECK_TEXT(dpti_onnx_string(node, "none", "other"), "other");
    const int64_t *ints = dpti_onnx_ints(node, "ns", &n);
    CHECK(n == 3 && ints[0] == 4 && ints[2] == 6);
    CHECK(dpti_onnx_ints(node, "fs", &n) == NULL && n == 0);
    const dpti_onnx_attribute *floats = dpti_onnx_find(node, "fs");
    CHECK(floats && floats->n == 2 && floats->floats[0] == 0.5f && floats->floats[1] == 2);
    const dpti_onnx_attribute *texts = dpti_onnx_find(node, "ss");
    REQUIRE(texts && texts->n == 2);
    CHECK_TEXT(texts->strings[1], "bc");
    const dpti_onnx_attribute *tensor = dpti_onnx_find(node, "t");
    REQUIRE(tensor && tensor->tensor);
    CHECK(tensor->tensor->type == DPTI_ONNX_INT64 && tensor->tensor->n == 1);
    dpti_onnx_close(model);
}

static void reads_external_tensors(test *t)
{
    dpti_onnx_model *model = onnx_open(t, "good/external.onnx");
    REQUIRE(model != NULL);
    float values[6] = {0};
    const dpti_onnx_tensor *w = find_value(model, "w")->tensor;
    REQUIRE(w && w->n_bytes == sizeof values);
    memcpy(values, w->data, sizeof values);
    for (size_t i = 0; i < 6; i++)
        CHECK_NEAR(values[i], (double)i / 8, 0);
    dpti_onnx_close(model);
}

/* Large initialisers are not decoded: their bytes are those of the file. */
static void leaves_large_tensors_in_place(test *t)
{
    static const char *const files[] = {"good/linear.onnx", "good/typed.onnx", "good/unused.onnx",
                                        "good/function.onnx", "good/external.onnx"};
    size_t n_parts = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[ONNX_PATH_BYTES];
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *decoded = onnx_open(t, files[i]), *model = NULL;
        REQUIRE(decoded != NULL);
        REQUIRE_OK(dpti_onnx_open(onnx_path(files[i], path), &in_place, &model, &error));
        CHECK_SIZE(model->n_values, decoded->n_values);
        for (size_t v = 0; v < model->n_values && v < decoded->n_values; v++) {
            const dpti_onnx_tensor *a = model->values[v].tensor, *b = decoded->values[v].tensor;
            CHECK_TEXT(model->values[v].name, decoded->values[v].name);
            CHECK((a != NULL) == (b != NULL));
            if (!a || !b) continue;
            CHECK(a->type == b->type && a->n_bytes == b->n_bytes &&
                  memcmp(a->data, b->data, a->n_bytes) == 0);
            if (a->part.file != model->files[0]) continue;
            CHECK(a->data == (const char *)model->content + a->part.offset);
            n_parts++;
        }
        dpti_onnx_close(model);
        dpti_onnx_close(decoded);
    }
    CHECK(n_parts >= 2);
}

/* ---- Bad files ------------------------------------------------------------------------------- */

static const struct refusal {
    const char *file;
    dpt_status status;
    const char *says;
} refusals[] = {
    {"text", DPT_E_FORMAT, "no ONNX file"},
    {"cut", DPT_E_FORMAT, "cut off"},
    {"cut_inside", DPT_E_FORMAT, "damaged"},
    {"header_2gb", DPT_E_FORMAT, "cut off: its field at byte 2"},
    {"no_graph", DPT_E_FORMAT, "no graph"},
    {"new_ir", DPT_E_UNSUPPORTED, "IR version 99; this build reads 3 to"},
    {"old_opset", DPT_E_UNSUPPORTED, "opset 12; this build reads 13 to"},
    {"new_opset", DPT_E_UNSUPPORTED, "opset 99"},
    {"domain", DPT_E_UNSUPPORTED, "node \"fancy\" (FancyNorm) is of the domain \"com.vendor\""},
    {"subgraph", DPT_E_UNSUPPORTED, "node \"turns\" (Loop) holds a subgraph"},
    {"branch_missing", DPT_E_FORMAT, "node \"choice\" (If) has no \"else_branch\""},
    {"branch_outputs", DPT_E_FORMAT, "node \"choice\" (If): a branch must have no input"},
    {"branch_input", DPT_E_FORMAT, "node \"choice\" (If): a branch must have no input"},
    {"branch_lost", DPT_E_FORMAT, "node \"else#2/lost\" (Relu) takes \"nothing\", which nothing"},
    {"branch_deep", DPT_E_FORMAT, "branches and functions are more than 32 deep in one another"},
    {"branch_damaged", DPT_E_FORMAT, "a subgraph cannot be decoded"},
    {"call_in_circle", DPT_E_FORMAT, "in a circle"},
    {"twice", DPT_E_FORMAT, "\"y\" is defined twice, the second time by node \"two\" (Neg)"},
    {"undefined", DPT_E_FORMAT, "node \"lost\" (Relu) takes \"nothing\", which nothing defines"},
    {"circle", DPT_E_FORMAT, "node \"itself\" (Add) depends on its own result"},
    {"no_output", DPT_E_FORMAT, "nothing defines the output \"z\""},
    {"attribute_twice", DPT_E_FORMAT, "node \"soft\" (Softmax) has attribute \"axis\" twice"},
    {"attribute_kind", DPT_E_UNSUPPORTED, "attribute \"other\" is of kind 9, which is not taken"},
    {"attribute_tensor", DPT_E_FORMAT, "attribute \"value\" has no tensor"},
    {"sequence", DPT_E_UNSUPPORTED, "\"x\" is no dense tensor"},
    {"few_bytes", DPT_E_FORMAT, "tensor \"w\" has 20 bytes, and its type and extents say 24"},
    {"few_elements", DPT_E_FORMAT, "tensor \"w\" has 3 elements of float32"},
    {"negative", DPT_E_FORMAT, "tensor \"w\" has extents that are negative"},
    {"huge", DPT_E_FORMAT, "too large"},
    {"strings", DPT_E_UNSUPPORTED, "tensor \"w\" has element type 8"},
    {"range", DPT_E_FORMAT, "tensor \"w\" has an element that is no uint8"},
    {"upwards", DPT_E_FORMAT, "\"../good/weights.bin\", outside of the model's folder"},
    {"absolute", DPT_E_FORMAT, "\"/etc/hostname\", outside of the model's folder"},
    {"missing", DPT_E_NOT_FOUND, "tensor \"w\" is in \"nowhere.bin\""},
    {"number", DPT_E_FORMAT, "no numbers"},
    {"short", DPT_E_FORMAT, "bad/short.bin\", which has 8"},
    {"length", DPT_E_FORMAT, "tensor \"w\" has 8 bytes in \"short.bin\""},
};

static void refuses_bad_files(test *t)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        char name[64], path[ONNX_PATH_BYTES];
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *model = NULL;
        snprintf(name, sizeof name, "bad/%s.onnx", r->file);
        onnx_path(name, path);
        CHECK_STATUS(dpti_onnx_open(path, NULL, &model, &error), r->status);
        CHECK_CONTAINS(error.message, r->says);
        /* The same if no initialiser is decoded. */
        error = (dpt_error){.status = DPT_OK};
        CHECK_STATUS(dpti_onnx_open(path, &in_place, &model, &error), r->status);
        CHECK(model == NULL);
        CHECK_CONTAINS(error.message, r->says);
        CHECK(strncmp(error.message, path, strlen(path)) == 0);
    }
}

static void refuses_a_missing_file(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    CHECK_STATUS(dpti_onnx_open("no-such.onnx", NULL, &model, &error), DPT_E_NOT_FOUND);
    CHECK_CONTAINS(error.message, "no-such.onnx");
    CHECK_STATUS(dpti_onnx_open(".", NULL, &model, &error), DPT_E_IO);
}

static uint8_t *read_file(const char *name, size_t *n_bytes)
{
    char path[ONNX_PATH_BYTES];
    FILE *file = fopen(onnx_path(name, path), "rb");
    uint8_t *bytes = malloc(1 << 16);
    *n_bytes = file && bytes ? fread(bytes, 1, 1 << 16, file) : 0;
    if (file) fclose(file);
    return bytes;
}

static bool copy_file(const char *name, const char *to)
{
    size_t n_bytes = 0;
    uint8_t *bytes = read_file(name, &n_bytes);
    FILE *file = fopen(to, "wb");
    const bool written = file && bytes && fwrite(bytes, 1, n_bytes, file) == n_bytes;
    free(bytes);
    return file && fclose(file) == 0 && written;
}

/* A link inside the folder is followed, one out of it is not. */
static void follows_no_link_out_of_the_folder(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    mkdir("folder", 0777);
    unlink("folder/weights.bin");
    REQUIRE(copy_file("good/external.onnx", "folder/external.onnx"));
    REQUIRE(copy_file("good/weights.bin", "folder/kept.bin"));
    REQUIRE(copy_file("good/weights.bin", "outside.bin"));
    REQUIRE(symlink("kept.bin", "folder/weights.bin") == 0);
    CHECK_OK(dpti_onnx_open("folder/external.onnx", NULL, &model, &error));
    dpti_onnx_close(model);
    model = NULL;
    unlink("folder/weights.bin");
    REQUIRE(symlink("../outside.bin", "folder/weights.bin") == 0);
    CHECK_STATUS(dpti_onnx_open("folder/external.onnx", NULL, &model, &error), DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "leads out of the model's folder");
    unlink("folder/weights.bin");
    REQUIRE(mkfifo("folder/weights.bin", 0666) == 0);
    CHECK_STATUS(dpti_onnx_open("folder/external.onnx", NULL, &model, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "no regular file");
    unlink("folder/weights.bin");
}

static void refuses_external_tensors_of_bytes_in_memory(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    size_t n_bytes = 0;
    uint8_t *bytes = read_file("good/external.onnx", &n_bytes);
    const dpti_file_bytes file = {"memory", bytes, n_bytes};
    CHECK_STATUS(dpti_onnx_parse(&file, NULL, &model, &error), DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(error.message, "memory: tensor \"w\" is in another file");
    free(bytes);
}

/* Every beginning of a file is refused, and none reads past its end. */
static void refuses_every_truncation(test *t)
{
    size_t n_bytes = 0;
    uint8_t *whole = read_file("good/function.onnx", &n_bytes);
    size_t n_accepted = 0;
    for (size_t n = 0; n < n_bytes; n++) {
        dpt_error error = {.status = DPT_OK};
        dpti_onnx_model *model = NULL;
        uint8_t *bytes = malloc(n ? n : 1);
        REQUIRE(bytes != NULL);
        memcpy(bytes, whole, n);
        const dpti_file_bytes file = {"cut", bytes, n};
        n_accepted += dpti_onnx_parse(&file, NULL, &model, &error) == DPT_OK;
        dpti_onnx_close(model);
        free(bytes);
    }
    CHECK(n_bytes > 0);
    CHECK_SIZE(n_accepted, 0);
    free(whole);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void keeps_to_limits(test *t)
{
    char path[ONNX_PATH_BYTES];
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    onnx_path("good/function.onnx", path);
    CHECK_STATUS(dpti_onnx_open(path, &(dpti_onnx_limits){.max_file_bytes = 100}, &model, &error),
                 DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "more than the 100 that it may");
    CHECK_STATUS(dpti_onnx_open(path, &(dpti_onnx_limits){.max_nodes = 5}, &model, &error),
                 DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(error.message, "more than 5 nodes");
    /* Whatever the limit, the answer is an answer. */
    for (size_t limit = 64; limit < 65536; limit += 64) {
        const dpti_onnx_limits limits = {.max_memory = limit};
        const dpt_status status = dpti_onnx_open(path, &limits, &model, &error);
        CHECK(status == DPT_OK || status == DPT_E_NO_MEMORY);
        if (status == DPT_OK) CHECK(model->arena.used <= limit);
        dpti_onnx_close(model);
        model = NULL;
    }
}

/* A million empty nodes have two bytes each in a file and a hundred times as many decoded. */
static void counts_before_it_decodes(test *t)
{
    enum { N = 200000 };
    uint8_t *bytes = malloc(2 * N + 16);
    REQUIRE(bytes != NULL);
    const uint8_t start[] = {0x08, 0x08, 0x3a, 0x80, 0xb5, 0x18};
    memcpy(bytes, start, sizeof start);
    for (size_t i = 0; i < N; i++) {
        bytes[sizeof start + 2 * i] = 0x0a;
        bytes[sizeof start + 2 * i + 1] = 0;
    }
    dpt_error error = {.status = DPT_OK};
    dpti_onnx_model *model = NULL;
    const dpti_file_bytes file = {"nodes", bytes, sizeof start + 2 * N};
    CHECK_STATUS(dpti_onnx_parse(&file, &(dpti_onnx_limits){.max_nodes = N - 1}, &model, &error),
                 DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(error.message, "nodes: 200000 nodes");
    const dpti_onnx_limits small = {.max_memory = 4 << 20};
    CHECK_STATUS(dpti_onnx_parse(&file, &small, &model, &error), DPT_E_NO_MEMORY);
    free(bytes);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"reads values and nodes", reads_values_and_nodes},
        {"puts nodes in order", puts_nodes_in_order},
        {"drops what is not used", drops_what_is_not_used},
        {"takes an input with a default as a tensor", takes_an_input_with_a_default_as_a_tensor},
        {"puts functions in place", puts_functions_in_place},
        {"reads every type", reads_every_type},
        {"reads every kind of attribute", reads_every_kind_of_attribute},
        {"reads external tensors", reads_external_tensors},
        {"leaves large tensors in place", leaves_large_tensors_in_place},
        {"refuses bad files", refuses_bad_files},
        {"refuses a missing file", refuses_a_missing_file},
        {"follows no link out of the folder", follows_no_link_out_of_the_folder},
        {"refuses external tensors of bytes in memory",
         refuses_external_tensors_of_bytes_in_memory},
        {"refuses every truncation", refuses_every_truncation},
        {"keeps to limits", keeps_to_limits},
        {"counts before it decodes", counts_before_it_decodes},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
