/* Files of weights as `transformers` writes them (tests/golden/make_checkpoints.py): the logits
   that it computes of them, and damaged files, which change nothing. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"
#include "train/session.h"
#include "train/text.h"
#include "unit/onnx_files.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 8192 };

static const char gpt2[] = "gpt:2:2:16:24", llama[] = "llama:2:4:2:16:24:61:44";
static const char llama_index[] = "llama/model.safetensors.index.json";

/* ---- The model ------------------------------------------------------------------------------- */

static dpt_status begin(session *s, const char *name)
{
    int32_t ids[LENGTH], labels[LENGTH];
    const dpt_model_shape shape = {1, 1, LENGTH, VOCABULARY};
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = 1,
                                       .height = 1,
                                       .width = 1,
                                       .channels = LENGTH,
                                       .outputs = VOCABULARY,
                                       .dtype = DPT_I32,
                                       .images = ids,
                                       .labels = labels,
                                       .label_dtype = DPT_I32,
                                       .vocabulary = VOCABULARY,
                                       .labels_per_sample = LENGTH};
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = 1, .lr = 0.1f};
    make_text_sample(0, ids, labels);
    *s = (session){0};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(dpt_dataset_from_memory(s->context, &memory, &s->data));
    DPT_TRY(dpt_device_set_open(s->context, "cpu:threads=1", &s->devices));
    DPT_TRY(dpt_model_by_name(s->context, name, &shape, &s->model));
    return dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer);
}

static const char *kept(const char *name, char path[ONNX_PATH_BYTES])
{
    char below[256];
    snprintf(below, sizeof below, "../golden/checkpoints/%s", name);
    return onnx_path(below, path);
}

/* ---- Logits ---------------------------------------------------------------------------------- */

/* Reads the line of logits.txt that begins with `name`. */
static bool read_logits(test *t, const char *name, double out[VOCABULARY])
{
    static char line[TEXT];
    char path[ONNX_PATH_BYTES];
    const size_t n = strlen(name);
    FILE *file = fopen(kept("logits.txt", path), "r");
    bool found = false;
    if (!CHECK(file)) return false;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, name, n) == 0 && line[n] == ' ';
    fclose(file);
    char *at = line + n;
    for (size_t i = 0; found && i < VOCABULARY; i++)
        out[i] = strtod(at, &at);
    return CHECK(found);
}

static void compare_logits(test *t, const session *s, const char *path, const double *wanted)
{
    static float logits[LENGTH * VOCABULARY];
    char why[DPT_WHY_BYTES] = "";
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = path, .like = s->data, .logits = true};
    if (!CHECK_OK(dpt_predictor_create(s->devices, s->model, &options, &predictor)))
        FAIL("%s", dpt_error_message(s->context));
    else if (CHECK_OK(dpt_predictor_run_data(predictor, s->data, 0, 1, logits, why)))
        for (size_t i = 0; i < VOCABULARY; i++)
            CHECK_NEAR((double)logits[(LENGTH - 1) * VOCABULARY + i], wanted[i], 1e-4);
    dpt_predictor_destroy(predictor);
}

static void check_file(test *t, const char *model, const char *file, const char *name)
{
    char path[ONNX_PATH_BYTES];
    double wanted[VOCABULARY];
    session s;
    if (!read_logits(t, name, wanted)) return;
    if (CHECK_OK(begin(&s, model))) compare_logits(t, &s, kept(file, path), wanted);
    if (s.trainer && !CHECK_OK(dpt_trainer_load(s.trainer, path)))
        FAIL("%s", dpt_error_message(s.context));
    session_end(&s);
}

static void logits(test *t)
{
    check_file(t, gpt2, "gpt2.safetensors", "gpt2");
    check_file(t, gpt2, "base.safetensors", "base");
    check_file(t, gpt2, "copied.safetensors", "copied");
    check_file(t, llama, llama_index, "llama");
}

static void types(test *t)
{
    static const struct {
        const char *file, *type;
    } files[] = {{"gpt2.safetensors", "F32"}, {"base.safetensors", "F16"}, {llama_index, "BF16"}};
    dpt_context *context = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[ONNX_PATH_BYTES];
        dpt_weights_info info = {.size = sizeof info};
        CHECK_OK(dpt_weights_describe(context, kept(files[i].file, path), &info));
        CHECK_TEXT(info.type, files[i].type);
        dpt_weights_release(&info);
    }
    dpt_context_destroy(context);
}

/* ---- Damaged files --------------------------------------------------------------------------- */

/* Reads a file of at most TEXT - 1 bytes as a string. */
static bool read_text(test *t, const char *name, char out[TEXT])
{
    char path[ONNX_PATH_BYTES];
    FILE *file = fopen(kept(name, path), "rb");
    if (!CHECK(file)) return false;
    out[fread(out, 1, TEXT - 1, file)] = '\0';
    fclose(file);
    return true;
}

static bool write_bytes(test *t, const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!CHECK(file)) return false;
    const bool whole = fwrite(bytes, 1, n, file) == n;
    return CHECK(fclose(file) == 0 && whole);
}

/* The index with `from` replaced by `to`, which is not longer; spaces fill the rest. */
static bool write_index(test *t, const char *from, const char *to)
{
    static char text[TEXT];
    if (!read_text(t, llama_index, text)) return false;
    char *at = *from ? strstr(text, from) : text;
    if (!CHECK(at) || !CHECK(strlen(to) <= strlen(from) || !*from)) return false;
    if (*from) {
        memset(at, ' ', strlen(from));
        memcpy(at, to, strlen(to));
    } else {
        snprintf(text, sizeof text, "%s", to);
    }
    return write_bytes(t, "damaged.index.json", text, strlen(text));
}

static bool copy_shard(test *t, const char *name)
{
    static char bytes[1 << 16];
    char path[ONNX_PATH_BYTES], from[128];
    snprintf(from, sizeof from, "llama/%s", name);
    FILE *file = fopen(kept(from, path), "rb");
    if (!CHECK(file)) return false;
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return write_bytes(t, name, bytes, n);
}

/* Loading fails with this status and words, and the weights stay. */
static void refuses(test *t, session *s, const char *path, dpt_status status, const char *words)
{
    static float before[VOCABULARY * 16], after[VOCABULARY * 16];
    dpt_parameter_info p = {.size = sizeof p};
    dpt_model_tensor(s->model, 0, &p);
    CHECK_OK(dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, p.name, before, p.elements));
    CHECK_STATUS(dpt_trainer_load(s->trainer, path), status);
    if (!CHECK(strstr(dpt_error_message(s->context), words)))
        FAIL("the message is: %s", dpt_error_message(s->context));
    CHECK_OK(dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, p.name, after, p.elements));
    CHECK(memcmp(before, after, sizeof before) == 0);
}

static void damaged_indices(test *t)
{
    static const struct {
        const char *from, *to;
        dpt_status status;
        const char *words;
    } cases[] = {
        {"weight_map", "weigth_map", DPT_E_FORMAT, "no weight_map"},
        {"{", "[", DPT_E_FORMAT, "no JSON"},
        {"", "{\"weight_map\": {\"a\": \"../a.safetensors\"}}", DPT_E_FORMAT,
         "no file of the folder"},
        {"", "{\"weight_map\": {\"a\": \"missing.safetensors\"}}", DPT_E_NOT_FOUND,
         "missing.safetensors"},
        {"\"lm_head.weight\"", "\"lm_head.w\"", DPT_E_FORMAT, "tensor lm_head.w is in"},
        {"model-00002-of", "model-00001-of", DPT_E_FORMAT, "does not have it"},
        {"", "{\"weight_map\": {\"model.norm.weight\": \"model-00002-of-00002.safetensors\"}}",
         DPT_E_FORMAT, "the index is damaged"},
    };
    session s;
    if (!CHECK_OK(begin(&s, llama)) || !copy_shard(t, "model-00001-of-00002.safetensors") ||
        !copy_shard(t, "model-00002-of-00002.safetensors"))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (write_index(t, cases[i].from, cases[i].to))
            refuses(t, &s, "damaged.index.json", cases[i].status, cases[i].words);
    if (write_index(t, "{", "{")) CHECK_OK(dpt_trainer_load(s.trainer, "damaged.index.json"));
    session_end(&s);
    remove("damaged.index.json");
    remove("model-00001-of-00002.safetensors");
    remove("model-00002-of-00002.safetensors");
}

static void other_weights(test *t)
{
    static char bytes[1 << 16];
    char path[ONNX_PATH_BYTES];
    session s;
    FILE *file = fopen(kept("copied.safetensors", path), "rb");
    if (!CHECK(file)) return;
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    const char *at = strstr(bytes + 8, "\"lm_head.weight\"");
    const char *places = at ? strstr(at, "data_offsets\":[") : NULL;
    if (!CHECK(places)) return;
    bytes[8 + header + strtoul(places + 15, NULL, 10)] ^= 1;
    if (CHECK_OK(begin(&s, gpt2)) && write_bytes(t, "untied.safetensors", bytes, n))
        refuses(t, &s, "untied.safetensors", DPT_E_INVALID, "shares one for both");
    session_end(&s);
    remove("untied.safetensors");
    if (CHECK_OK(begin(&s, "gpt:2:2:16:20")))
        refuses(t, &s, kept("gpt2.safetensors", path), DPT_E_INVALID,
                "transformer.wpe.weight of 24x16");
    session_end(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"logits are those of transformers", logits},
        {"the type of the weights is told", types},
        {"damaged indices change nothing", damaged_indices},
        {"weights of other models change nothing", other_weights},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
