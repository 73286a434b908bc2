/* Generators: the texts that `transformers` and PyTorch generate (tests/golden/make_generate.py),
   the logits of whole sequences, and what is refused. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"
#include "unit/onnx_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 61, MOST = 256, LINE = 4096 };

typedef struct network {
    const char *name, *model, *file;
} network;

static const network networks[] = {
    {"gpt2", "gpt:2:2:16:24", "gpt2.safetensors"},
    {"llama", "llama:2:4:2:16:24:61:44", "llama/model.safetensors.index.json"},
    {"lstm", "lstm:2:32:24", "lstm.safetensors"},
};

enum { N_NETWORKS = sizeof networks / sizeof *networks };

/* ---- What a case holds ----------------------------------------------------------------------- */

typedef struct held {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_generator *generator;
    char path[ONNX_PATH_BYTES];
} held;

static const char *kept(const char *name, char path[ONNX_PATH_BYTES])
{
    char below[256];
    snprintf(below, sizeof below, "../golden/%s", name);
    return onnx_path(below, path);
}

static dpt_status open_model(held *h, const network *n, const char *devices)
{
    char file[256];
    const dpt_model_shape shape = {1, 1, 1, VOCABULARY};
    *h = (held){0};
    snprintf(file, sizeof file, "checkpoints/%s", n->file);
    kept(file, h->path);
    DPT_TRY(dpt_context_create(&h->context));
    DPT_TRY(dpt_device_set_open(h->context, devices, &h->devices));
    return dpt_model_by_name(h->context, n->model, &shape, &h->model);
}

static bool begin(test *t, held *h, const network *n, const dpt_generator_options *options)
{
    dpt_generator_options o = *options;
    dpt_status status = open_model(h, n, "cpu:threads=1");
    o.size = sizeof o;
    o.weights = h->path;
    if (status == DPT_OK) status = dpt_generator_create(h->devices, h->model, &o, &h->generator);
    if (CHECK_OK(status)) return true;
    FAIL("%s: %s", n->name, h->context ? dpt_error_message(h->context) : "");
    return false;
}

static void end(held *h)
{
    dpt_generator_destroy(h->generator);
    dpt_model_destroy(h->model);
    dpt_device_set_close(h->devices);
    dpt_context_destroy(h->context);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

typedef struct text {
    int32_t ids[MOST];
    size_t n_prompt, n; /* ids of the prompt; all ids */
} text;

/* Reads the next line of a network; returns false at the end. */
static bool read_text(FILE *file, const char *name, text *out)
{
    static char line[LINE];
    const size_t n_name = strlen(name);
    do
        if (!fgets(line, sizeof line, file)) return false;
    while (strncmp(line, name, n_name) != 0 || line[n_name] != ' ');
    *out = (text){.n = 0};
    for (char *at = strtok(line + n_name, " \n"); at && out->n < MOST; at = strtok(NULL, " \n")) {
        if (*at == '|')
            out->n_prompt = out->n;
        else
            out->ids[out->n++] = (int32_t)strtol(at, NULL, 10);
    }
    return true;
}

static int32_t likeliest(test *t, const held *h)
{
    const dpt_sampling greedy = {.size = sizeof greedy};
    const float *logits = dpt_generator_logits(h->generator);
    int32_t id = -1;
    if (CHECK(logits)) CHECK_OK(dpt_sample(h->context, logits, VOCABULARY, &greedy, 0, &id));
    return id;
}

/* Generates a text, and compares it.  The ids of the prompt are read together, or one by one. */
static void compare_text(test *t, const held *h, const text *wanted, bool together)
{
    CHECK_OK(dpt_generator_forget(h->generator));
    CHECK(dpt_generator_logits(h->generator) == NULL);
    if (together) CHECK_OK(dpt_generator_read(h->generator, wanted->ids, wanted->n_prompt));
    for (size_t i = 0; i < wanted->n_prompt && !together; i++)
        CHECK_OK(dpt_generator_read(h->generator, &wanted->ids[i], 1));
    for (size_t i = wanted->n_prompt; i < wanted->n; i++) {
        const int32_t id = likeliest(t, h);
        if (!CHECK_SIZE((size_t)id, (size_t)wanted->ids[i])) return;
        if (i + 1 < wanted->n) CHECK_OK(dpt_generator_read(h->generator, &id, 1));
    }
    CHECK_SIZE(dpt_generator_tokens(h->generator), wanted->n - 1);
}

static void texts(test *t)
{
    char path[ONNX_PATH_BYTES];
    for (size_t i = 0; i < N_NETWORKS; i++) {
        FILE *file = fopen(kept("generate.txt", path), "r");
        held h;
        text wanted;
        size_t n = 0;
        REQUIRE(file);
        const bool open = begin(t, &h, &networks[i], &(dpt_generator_options){.context = 0});
        while (open && read_text(file, networks[i].name, &wanted)) {
            compare_text(t, &h, &wanted, true);
            compare_text(t, &h, &wanted, false);
            n++;
        }
        CHECK_SIZE(n, 3);
        end(&h);
        fclose(file);
    }
}

/* ---- Logits ---------------------------------------------------------------------------------- */

/* Computes the logits of the last of n ids without a generator. */
static void compute_whole(test *t, const held *h, const network *net, const int32_t *ids, size_t n,
                          float out[VOCABULARY])
{
    static float logits[MOST * VOCABULARY];
    const dpt_model_shape shape = {1, 1, n, VOCABULARY};
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = h->path, .dtype = DPT_I32, .logits = true};
    dpt_model *model = NULL;
    dpt_predictor *predictor = NULL;
    char why[DPT_WHY_BYTES] = "";
    REQUIRE_OK(dpt_model_by_name(h->context, net->model, &shape, &model));
    if (CHECK_OK(dpt_predictor_create(h->devices, model, &options, &predictor)) &&
        CHECK_OK(dpt_predictor_run(predictor, ids, 1, logits, why)))
        memcpy(out, logits + (n - 1) * VOCABULARY, VOCABULARY * sizeof *out);
    dpt_predictor_destroy(predictor);
    dpt_model_destroy(model);
}

/* After each number of ids the logits are those of a network that reads all of them at once. */
static void logits_of_whole(test *t)
{
    static const size_t lengths[] = {1, 2, 9, 10, 17, 18, 24};
    int32_t ids[24];
    for (size_t i = 0; i < 24; i++)
        ids[i] = (int32_t)(i * i * 7 % VOCABULARY);
    for (size_t i = 0; i < N_NETWORKS; i++) {
        held h;
        if (begin(t, &h, &networks[i], &(dpt_generator_options){.context = 0}))
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                float wanted[VOCABULARY] = {0};
                compute_whole(t, &h, &networks[i], ids, lengths[k], wanted);
                CHECK_OK(dpt_generator_forget(h.generator));
                if (!CHECK_OK(dpt_generator_read(h.generator, ids, lengths[k]))) continue;
                for (size_t j = 0; j < VOCABULARY; j++)
                    CHECK_NEAR((double)dpt_generator_logits(h.generator)[j], (double)wanted[j],
                               2e-5);
            }
        end(&h);
    }
}

/* Deterministic logits have the same bits on any number of threads. */
static void same_bits(test *t)
{
    static const char *const devices[] = {"cpu:threads=1", "cpu:threads=2"};
    const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3};
    enum { N = sizeof ids / sizeof *ids };
    float first[VOCABULARY] = {0};
    for (size_t i = 0; i < 2; i++) {
        held h;
        dpt_generator_options o = {.size = sizeof o, .deterministic = true};
        CHECK_OK(open_model(&h, &networks[1], devices[i]));
        o.weights = h.path;
        if (CHECK_OK(dpt_generator_create(h.devices, h.model, &o, &h.generator)) &&
            CHECK_OK(dpt_generator_read(h.generator, ids, N))) {
            const float *logits = dpt_generator_logits(h.generator);
            if (i == 0) memcpy(first, logits, sizeof first);
            CHECK(memcmp(first, logits, sizeof first) == 0);
        }
        end(&h);
    }
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuses(test *t, const held *h, dpt_status got, const char *words)
{
    CHECK_STATUS(got, DPT_E_INVALID);
    if (!CHECK(strstr(dpt_error_message(h->context), words)))
        FAIL("the message is: %s", dpt_error_message(h->context));
}

static void bad_tokens(test *t)
{
    held h;
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, large = VOCABULARY, negative = -1;
    if (begin(t, &h, &networks[0], &(dpt_generator_options){.context = 8})) {
        CHECK_SIZE(dpt_generator_context(h.generator), 8);
        CHECK_SIZE(dpt_generator_vocabulary(h.generator), VOCABULARY);
        refuses(t, &h, dpt_generator_read(h.generator, ids, 0), "no tokens");
        refuses(t, &h, dpt_generator_read(h.generator, NULL, 1), "no tokens");
        refuses(t, &h, dpt_generator_read(h.generator, &large, 1), "has a vocabulary of 61");
        refuses(t, &h, dpt_generator_read(h.generator, &negative, 1), "has the id -1");
        refuses(t, &h, dpt_generator_read(h.generator, ids, 9), "more than the context");
        CHECK_SIZE(dpt_generator_tokens(h.generator), 0);
        CHECK_OK(dpt_generator_read(h.generator, ids, 8));
        refuses(t, &h, dpt_generator_read(h.generator, ids, 1), "1 tokens behind 8 others");
        CHECK_SIZE(dpt_generator_tokens(h.generator), 8);
    }
    end(&h);
}

/* A state does not fill. */
static void endless(test *t)
{
    held h;
    int32_t ids[MOST];
    for (size_t i = 0; i < MOST; i++)
        ids[i] = (int32_t)(i % VOCABULARY);
    if (begin(t, &h, &networks[2], &(dpt_generator_options){.context = 8})) {
        CHECK_SIZE(dpt_generator_context(h.generator), 0);
        CHECK_OK(dpt_generator_read(h.generator, ids, MOST));
        CHECK_SIZE(dpt_generator_tokens(h.generator), MOST);
    }
    end(&h);
}

static void bad_models(test *t)
{
    held h;
    dpt_generator_options o = {.size = sizeof o};
    dpt_model *plain = NULL;
    CHECK_OK(open_model(&h, &networks[0], "cpu:threads=1"));
    refuses(t, &h, dpt_generator_create(h.devices, h.model, &o, &h.generator), "has no weights");
    o.weights = h.path;
    o.device_timeout = NAN;
    refuses(t, &h, dpt_generator_create(h.devices, h.model, &o, &h.generator), "device_timeout");
    o.device_timeout = 0;
    if (CHECK_OK(dpt_model_by_name(h.context, "mlp", &(dpt_model_shape){4, 4, 1, 3}, &plain)))
        refuses(t, &h, dpt_generator_create(h.devices, plain, &o, &h.generator),
                "is no language model");
    dpt_model_destroy(plain);
    char path[ONNX_PATH_BYTES];
    o.weights = kept("checkpoints/lstm.safetensors", path);
    refuses(t, &h, dpt_generator_create(h.devices, h.model, &o, &h.generator), "model gpt:2:2:16");
    CHECK(h.generator == NULL);
    end(&h);
}

static dpt_value add_gru(dpt_model *model, dpt_value ids, const void *how)
{
    const size_t n = *(const size_t *)how;
    const dpt_embedding_options table = {.size = sizeof table, .rows = n, .width = 8};
    const dpt_recurrent_options gru = {.size = sizeof gru, .hidden = n};
    return dpt_gru(model, dpt_embedding(model, ids, "table", &table), "gru", &gru);
}

/* Layers that cannot be read in steps are refused by their name. */
static void bad_layers(test *t)
{
    held h;
    dpt_model *model = NULL;
    const size_t n = 5;
    const dpt_model_recipe recipe = {
        .size = sizeof recipe, .build = add_gru, .how = &n, .how_bytes = sizeof n};
    CHECK_OK(open_model(&h, &networks[0], "cpu:threads=1"));
    if (CHECK_OK(dpt_model_create(h.context, "own", &model))) {
        const dpt_generator_options o = {.size = sizeof o, .weights = h.path};
        const dpt_value ids = dpt_input_ids(model, 3);
        CHECK_OK(dpt_model_finish_per_pixel(model, add_gru(model, ids, &n)));
        CHECK_STATUS(dpt_model_set_recipe(model, NULL), DPT_E_INVALID);
        CHECK_OK(dpt_model_set_recipe(model, &recipe));
        CHECK_STATUS(dpt_generator_create(h.devices, model, &o, &h.generator), DPT_E_UNSUPPORTED);
        CHECK(strstr(dpt_error_message(h.context), "layer gru") != NULL);
    }
    dpt_model_destroy(model);
    end(&h);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"texts", texts},           {"logits_of_whole", logits_of_whole},
        {"same_bits", same_bits},   {"bad_tokens", bad_tokens},
        {"endless", endless},       {"bad_models", bad_models},
        {"bad_layers", bad_layers},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
