/* Language models from the config.json of `transformers`: GPT-2, and Llama with the networks that
   differ from it by their numbers alone.  What a network of this project cannot express is refused
   by the name of its key. */
#include "text.h"

#include <float.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 20, MOST_PATH = 4096, MOST_NUMBER = 1 << 24 };

/* A file that is being read.  The first failure stays, and later calls do nothing. */
typedef struct config {
    dpt_context *context;
    const char *path;
    json_t *root;
    dpt_status status;
} config;

/* ---- The file -------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The path of the file; false if `name` is no such path. */
static bool find_file(const char *name, char path[MOST_PATH])
{
    struct stat info;
    const bool file = ends_with(name, ".json");
    const int n = snprintf(path, MOST_PATH, "%s%s", name, file ? "" : "/config.json");
    return n > 0 && n < MOST_PATH && (file || stat(path, &info) == 0);
}

bool dptm_is_config(const char *name)
{
    char path[MOST_PATH];
    return find_file(name, path);
}

/* Reads a file of at most MOST_BYTES; the caller frees *bytes. */
static dpt_status read_bytes(dpt_context *context, const char *path, char **bytes, size_t *n)
{
    char *text = malloc(MOST_BYTES + 1);
    if (!text) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to read %s", path);
    FILE *file = fopen(path, "rb");
    *n = file ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    const bool failed = !file || ferror(file);
    if (file) fclose(file);
    *bytes = text;
    if (!failed && *n <= MOST_BYTES) return DPT_OK;
    free(text);
    if (failed) return dpt_fail(context, DPT_E_NOT_FOUND, "cannot read %s", path);
    return dpt_fail(context, DPT_E_FORMAT, "%s has more than %d bytes: no config.json", path,
                    MOST_BYTES);
}

/* A text of the file in a message: what is not printable becomes '?'. */
typedef struct shown {
    char text[61];
} shown;

static shown show(const char *text)
{
    shown s = {{0}};
    for (size_t i = 0; text[i] && i + 1 < sizeof s.text; i++)
        s.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    return s;
}

static dpt_status parse(config *c, const dptm_config_file *file)
{
    json_error_t error;
    c->root = json_loadb(file->bytes, file->n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!c->root)
        c->status = dpt_fail(c->context, DPT_E_FORMAT, "%s is damaged: line %d: %s", c->path,
                             error.line, show(error.text).text);
    else if (!json_is_object(c->root))
        c->status = dpt_fail(c->context, DPT_E_FORMAT, "%s is damaged: it is no object", c->path);
    return c->status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The value of a key; NULL if it is missing or null. */
static const json_t *value_of(const config *c, const char *key)
{
    const json_t *value = json_object_get(c->root, key);
    return json_is_null(value) ? NULL : value;
}

static void fail_value(config *c, const char *key, const char *wanted)
{
    if (c->status != DPT_OK) return;
    c->status = dpt_fail(c->context, DPT_E_FORMAT, "%s: \"%s\" is not %s", c->path, key, wanted);
}

/* `words` say what the network would have. */
static void refuse(config *c, const char *key, const char *words)
{
    if (c->status != DPT_OK) return;
    c->status =
        dpt_fail(c->context, DPT_E_UNSUPPORTED,
                 "%s: \"%s\" asks for %s, which no model here has: use a checkpoint without "
                 "it",
                 c->path, key, words);
}

/* A whole number from 1 on; `otherwise` if the key is missing. */
static size_t count_of(config *c, const char *key, size_t otherwise)
{
    const json_t *value = value_of(c, key);
    if (!value) return otherwise;
    const json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n >= 1 && n <= MOST_NUMBER) return (size_t)n;
    fail_value(c, key, "a whole number from 1 to 16777216");
    return 1;
}

/* A number that is above 0 in float32, too. */
static double real_of(config *c, const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return otherwise;
    const double x = json_number_value(value);
    if (json_is_number(value) && x >= (double)FLT_MIN && x <= 1e12) return x;
    fail_value(c, key, "a number from 1.18e-38 to 1e12");
    return 1;
}

static bool flag_of(config *c, const char *key, bool otherwise)
{
    const json_t *value = value_of(c, key);
    if (value && !json_is_boolean(value)) fail_value(c, key, "true or false");
    return value ? json_is_true(value) : otherwise;
}

/* A flag that must have one value. */
typedef struct rule {
    const char *key;
    bool wanted;
    const char *words; /* what the other value asks for */
} rule;

static void apply(config *c, const rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (flag_of(c, rules[i].key, rules[i].wanted) != rules[i].wanted)
            refuse(c, rules[i].key, rules[i].words);
}

/* A text that must be one of two. */
static void expect(config *c, const char *key, const char *const wanted[2])
{
    char words[128];
    const json_t *value = value_of(c, key);
    const char *text = json_string_value(value);
    if (!value) return;
    if (!text) {
        fail_value(c, key, "a text");
        return;
    }
    snprintf(words, sizeof words, "\"%s\"", show(text).text);
    if (strcmp(text, wanted[0]) != 0 && strcmp(text, wanted[1]) != 0) refuse(c, key, words);
}

/* ---- GPT-2 ----------------------------------------------------------------------------------- */

static void read_gpt(config *c, dptm_network *out)
{
    static const rule rules[] = {
        {"scale_attn_weights", true, "scores that are not divided by a root"},
        {"scale_attn_by_inverse_layer_idx", false, "scores that are divided by the layer's number"},
        {"add_cross_attention", false, "attention to another sequence"},
        {"tie_word_embeddings", true, "a head with a table of its own"},
    };
    static const char *const activations[] = {"gelu_new", "gelu_pytorch_tanh"};
    dptm_text *t = &out->text;
    apply(c, rules, sizeof rules / sizeof *rules);
    expect(c, "activation_function", activations);
    *t = (dptm_text){.layers = count_of(c, "n_layer", 12),
                     .heads = count_of(c, "n_head", 12),
                     .width = count_of(c, "n_embd", 768),
                     .context = count_of(c, "n_positions", count_of(c, "n_ctx", 1024)),
                     .vocabulary = count_of(c, "vocab_size", 50257),
                     .epsilon = (float)real_of(c, c->root, "layer_norm_epsilon", 1e-5),
                     .rotary_base = 10000};
    t->hidden = count_of(c, "n_inner", 4 * t->width);
    t->head = t->width / t->heads;
    out->build = dptm_gpt;
    out->config = dptm_gpt_config;
    if (t->width % t->heads != 0) fail_value(c, "n_head", "a divisor of \"n_embd\"");
}

/* ---- Llama ----------------------------------------------------------------------------------- */

/* Rotary positions without scaling: "rope_theta", or "rope_parameters" of newer files. */
static double read_rotary(config *c)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    double base = real_of(c, c->root, "rope_theta", 10000);
    for (size_t i = 0; i < 2; i++) {
        const json_t *scaling = value_of(c, keys[i]);
        const json_t *kind = json_object_get(scaling, "rope_type");
        if (!kind) kind = json_object_get(scaling, "type");
        const char *text = json_string_value(kind);
        if (scaling && !json_is_object(scaling)) fail_value(c, keys[i], "an object or null");
        if (kind && !text) fail_value(c, keys[i], "an object with the kind as a text");
        if (text && strcmp(text, "default") != 0) refuse(c, keys[i], "scaled rotary positions");
        if (scaling && !kind && json_object_get(scaling, "factor"))
            refuse(c, keys[i], "scaled rotary positions");
        if (scaling) base = real_of(c, scaling, "rope_theta", base);
    }
    return base;
}

/* A window that holds the whole context changes nothing. */
static void check_window(config *c, bool mistral, size_t context)
{
    enum { OF_MISTRAL = 4096 };
    const bool told = json_object_get(c->root, "sliding_window") != NULL;
    const size_t window = count_of(c, "sliding_window", mistral && !told ? OF_MISTRAL : context);
    if (window < context) refuse(c, "sliding_window", "attention within a window");
}

static void check_heads(config *c, const dptm_text *t)
{
    if (t->heads % t->key_heads != 0)
        fail_value(c, "num_key_value_heads", "a divisor of \"num_attention_heads\"");
    if (value_of(c, "head_dim") == NULL && t->width % t->heads != 0)
        fail_value(c, "num_attention_heads", "a divisor of \"hidden_size\"");
    if (t->head % 2 != 0) fail_value(c, "head_dim", "an even number");
}

static void read_llama(config *c, dptm_network *out, bool mistral)
{
    static const rule rules[] = {
        {"attention_bias", false, "biases in the attention"},
        {"mlp_bias", false, "biases in the perceptron"},
    };
    static const char *const activations[] = {"silu", "swish"};
    dptm_text *t = &out->text;
    apply(c, rules, sizeof rules / sizeof *rules);
    expect(c, "hidden_act", activations);
    *t = (dptm_text){.layers = count_of(c, "num_hidden_layers", 32),
                     .heads = count_of(c, "num_attention_heads", 32),
                     .width = count_of(c, "hidden_size", 4096),
                     .context = count_of(c, "max_position_embeddings", mistral ? 131072 : 2048),
                     .vocabulary = count_of(c, "vocab_size", 32000),
                     .hidden = count_of(c, "intermediate_size", mistral ? 14336 : 11008),
                     .epsilon = (float)real_of(c, c->root, "rms_norm_eps", 1e-6),
                     .rotary_base = read_rotary(c),
                     .tied = flag_of(c, "tie_word_embeddings", false)};
    t->key_heads = count_of(c, "num_key_value_heads", mistral ? 8 : t->heads);
    t->head = count_of(c, "head_dim", t->width / t->heads);
    out->build = dptm_llama;
    out->config = dptm_llama_config;
    if (value_of(c, "quantization_config")) refuse(c, "quantization_config", "quantised weights");
    check_window(c, mistral, t->context);
    check_heads(c, t);
}

/* ---- The network ----------------------------------------------------------------------------- */

static void check_architecture(config *c)
{
    static const char *const known[] = {"GPT2LMHeadModel", "GPT2Model",          "LlamaForCausalLM",
                                        "LlamaModel",      "MistralForCausalLM", "MistralModel"};
    char words[128];
    const json_t *list = value_of(c, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (!list) return;
    if (!name) {
        fail_value(c, "architectures", "a list of names");
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0) return;
    snprintf(words, sizeof words, "the network %s", show(name).text);
    refuse(c, "architectures", words);
}

/* The name that gives the same network, which is that of the model; the path if none does. */
static const char *name_of(const config *c, dptm_network *n)
{
    enum { MOST = sizeof n->own };
    char *name = n->own;
    const dptm_text *t = &n->text;
    const bool plain = t->epsilon == DPTM_EPSILON && t->head * t->heads == t->width;
    const bool whole = t->rotary_base == (double)(size_t)t->rotary_base;
    if (plain && n->build == dptm_gpt && t->hidden == 4 * t->width)
        snprintf(name, MOST, "gpt:%zu:%zu:%zu:%zu:%zu", t->layers, t->heads, t->width, t->context,
                 t->vocabulary);
    else if (plain && n->build == dptm_llama && whole && t->rotary_base <= MOST_NUMBER)
        snprintf(name, MOST, "llama%s:%zu:%zu:%zu:%zu:%zu:%zu:%zu:%zu", t->tied ? "-tied" : "",
                 t->layers, t->heads, t->key_heads, t->width, t->context, t->vocabulary, t->hidden,
                 (size_t)t->rotary_base);
    else
        return c->path;
    return name;
}

static dpt_status read_network(config *c, dptm_network *out)
{
    const json_t *value = value_of(c, "model_type");
    const char *type = json_string_value(value);
    const bool mistral = type && strcmp(type, "mistral") == 0;
    char words[128];
    if (!type) {
        fail_value(c, "model_type", "there as a text: is the file a config.json of transformers?");
        return c->status;
    }
    check_architecture(c);
    if (strcmp(type, "gpt2") == 0)
        read_gpt(c, out);
    else if (strcmp(type, "llama") == 0 || mistral)
        read_llama(c, out, mistral);
    else {
        snprintf(words, sizeof words, "a network of the type \"%s\"", show(type).text);
        refuse(c, "model_type", words);
    }
    if (c->status == DPT_OK && out->text.layers > DPTM_MOST_LAYERS)
        fail_value(c, out->build == dptm_gpt ? "n_layer" : "num_hidden_layers", "at most 512");
    return c->status;
}

dpt_status dptm_config_read(dpt_context *context, const dptm_config_file *file, dptm_network *out)
{
    config c = {.context = context, .path = file->path, .status = DPT_OK};
    dptm_network network = {.name = NULL};
    dpt_status status = parse(&c, file);
    if (status == DPT_OK) status = read_network(&c, &network);
    json_decref(c.root);
    if (status != DPT_OK) return status;
    *out = network;
    out->name = name_of(&c, out);
    return DPT_OK;
}

dpt_status dptm_config_by_name(dpt_context *context, const char *name,
                               const dpt_model_by_name_options *options, dpt_model **out)
{
    char path[MOST_PATH], *bytes;
    dptm_network network;
    size_t n;
    if (!find_file(name, path))
        return dpt_fail(context, DPT_E_NOT_FOUND, "%s has no config.json", name);
    DPT_TRY(read_bytes(context, path, &bytes, &n));
    const dpt_status status =
        dptm_config_read(context, &(dptm_config_file){path, bytes, n}, &network);
    free(bytes);
    DPT_TRY(status);
    return dptm_text_build(context, &network, options, out);
}

/* ---- Tokens that end a text ------------------------------------------------------------------ */

static void read_ends(config *c, int32_t ends[DPT_CONFIG_ENDS], size_t *n)
{
    const json_t *value = value_of(c, "eos_token_id");
    const bool list = json_is_array(value);
    const size_t count = !value ? 0 : list ? json_array_size(value) : 1;
    *n = 0;
    for (size_t i = 0; i < count && c->status == DPT_OK; i++) {
        const json_t *id = list ? json_array_get(value, i) : value;
        const json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0 || x >= MOST_NUMBER || *n == DPT_CONFIG_ENDS)
            fail_value(c, "eos_token_id", "an id, or a list of at most 16");
        else
            ends[(*n)++] = (int32_t)x;
    }
}

dpt_status dpt_config_ends(dpt_context *context, const char *path, int32_t ends[DPT_CONFIG_ENDS],
                           size_t *n)
{
    char file[MOST_PATH], *bytes;
    int32_t found[DPT_CONFIG_ENDS];
    size_t n_bytes, n_found = 0;
    if (!path || !find_file(path, file))
        return dpt_fail(context, DPT_E_NOT_FOUND, "%s has no config.json", path ? path : "NULL");
    DPT_TRY(read_bytes(context, file, &bytes, &n_bytes));
    config c = {.context = context, .path = file, .status = DPT_OK};
    if (parse(&c, &(dptm_config_file){file, bytes, n_bytes}) == DPT_OK)
        read_ends(&c, found, &n_found);
    free(bytes);
    json_decref(c.root);
    if (c.status != DPT_OK) return c.status;
    memcpy(ends, found, n_found * sizeof *found);
    *n = n_found;
    return DPT_OK;
}
