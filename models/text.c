/* Language models by name.  A name is a fixed one, such as gpt2, or a form with numbers. */
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NUMBERS = 8 };

/* The numbers of a form, in the order in which they stand. */
typedef enum number {
    LAYERS,
    HEADS,
    KEY_HEADS,
    WIDTH,
    CONTEXT,
    VOCABULARY,
    HIDDEN,
    ROTARY_BASE,
    N_NUMBERS
} number;

typedef struct form {
    const char *help;
    dptm_text_builder *build;
    dptm_text_config *config;      /* NULL: `transformers` has no such network */
    uint8_t n_needed, n_numbers;   /* of `numbers`; the others may be left out */
    uint8_t numbers[MOST_NUMBERS]; /* of a form */
    dptm_text fixed;               /* of a fixed name */
    bool tied;
} form;

#define GPT2(help_, layers_, heads_, width_)                                                       \
    {                                                                                              \
        .help = (help_), .build = dptm_gpt, .config = dptm_gpt_config, .fixed = {                  \
            .layers = (layers_),                                                                   \
            .heads = (heads_),                                                                     \
            .width = (width_),                                                                     \
            .context = 1024,                                                                       \
            .vocabulary = 50257                                                                    \
        }                                                                                          \
    }

/* The names of the forms below, as help shows them. */
static const char *const names[] = {
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "gpt:LAYERS:HEADS:WIDTH:CONTEXT[:VOCABULARY]",
    "llama:LAYERS:HEADS:KVHEADS:WIDTH:CONTEXT[:VOCABULARY[:HIDDEN[:BASE]]]",
    "llama-tied:LAYERS:HEADS:KVHEADS:WIDTH:CONTEXT[:VOCABULARY[:HIDDEN[:BASE]]]",
    "lstm:LAYERS:WIDTH:CONTEXT[:VOCABULARY]",
    NULL,
};

static const form forms[] = {
    GPT2("GPT-2 of 124 million parameters; reads ids of tokens (data set text or tokens)", 12, 12,
         768),
    GPT2("GPT-2 of 355 million parameters", 24, 16, 1024),
    GPT2("GPT-2 of 774 million parameters", 36, 20, 1280),
    GPT2("GPT-2 of 1558 million parameters", 48, 25, 1600),
    {.help = "GPT-2 of any size. Without a vocabulary, it is that of the data",
     .build = dptm_gpt,
     .config = dptm_gpt_config,
     .n_needed = 4,
     .n_numbers = 5,
     .numbers = {LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY}},
    {.help = "Llama: rotary positions of this base (10000), RMS norms, SwiGLU of this hidden width "
             "(8/3 of the width, rounded up to a multiple of 256), grouped-query attention",
     .build = dptm_llama,
     .config = dptm_llama_config,
     .n_needed = 5,
     .n_numbers = 8,
     .numbers = {LAYERS, HEADS, KEY_HEADS, WIDTH, CONTEXT, VOCABULARY, HIDDEN, ROTARY_BASE}},
    {.help = "Llama whose head shares the table of the tokens",
     .build = dptm_llama,
     .config = dptm_llama_config,
     .n_needed = 5,
     .n_numbers = 8,
     .numbers = {LAYERS, HEADS, KEY_HEADS, WIDTH, CONTEXT, VOCABULARY, HIDDEN, ROTARY_BASE},
     .tied = true},
    {.help = "LSTM layers between a table of tokens and a linear layer",
     .build = dptm_lstm,
     .n_needed = 3,
     .n_numbers = 4,
     .numbers = {LAYERS, WIDTH, CONTEXT, VOCABULARY}},
};

enum { N_FORMS = sizeof forms / sizeof forms[0] };

_Static_assert(sizeof names / sizeof *names == N_FORMS + 1, "every form has a name");

const char *const *dpt_text_model_names(void)
{
    return names;
}

/* Returns the form of a name, or NULL. */
static const form *find_form(const char *name)
{
    for (size_t i = 0; i < N_FORMS; i++) {
        const size_t n = strcspn(names[i], ":");
        const bool same = strncmp(names[i], name, n) == 0;
        if (same && (forms[i].n_numbers ? name[n] == ':' || name[n] == '\0' : name[n] == '\0'))
            return &forms[i];
    }
    return NULL;
}

bool dptm_is_text(const char *name)
{
    return find_form(name) != NULL;
}

const char *dptm_text_help(const char *name)
{
    for (size_t i = 0; i < N_FORMS; i++)
        if (strcmp(names[i], name) == 0) return forms[i].help;
    return NULL;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Reads the decimal number at *at, which ends at ':' or at the end, and moves *at behind it. */
static bool read_number(const char **at, size_t *out)
{
    enum { MOST = 1 << 24 };
    const char *s = *at;
    size_t value = 0;
    if (*s < '1' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        value = 10 * value + (size_t)(*s - '0');
        if (value > MOST) return false;
    }
    if (*s != ':' && *s != '\0') return false;
    *at = s + (*s == ':' && s[1] != '\0');
    *out = value;
    return true;
}

static bool read_numbers(const form *f, const char *name, size_t numbers[N_NUMBERS])
{
    const char *at = name + strcspn(name, ":");
    size_t n = 0;
    if (*at == ':') at++;
    for (; *at && n < f->n_numbers; n++)
        if (!read_number(&at, &numbers[f->numbers[n]])) return false;
    return *at == '\0' && n >= f->n_needed;
}

/* Llama's rule. */
static size_t default_hidden(size_t width)
{
    const size_t n = 8 * width / 3;
    return (n + 255) / 256 * 256;
}

static dpt_status read_name(dpt_context *context, const char *name, const form *f, dptm_text *out)
{
    size_t n[N_NUMBERS] = {0};
    *out = f->fixed;
    if (f->n_numbers > 0) {
        if (!read_numbers(f, name, n))
            return dpt_fail(context, DPT_E_INVALID,
                            "unknown model '%s'; its form is %s, with numbers from 1 to 16777216",
                            name, names[f - forms]);
        *out = (dptm_text){.layers = n[LAYERS],
                           .heads = n[HEADS],
                           .key_heads = n[KEY_HEADS],
                           .width = n[WIDTH],
                           .context = n[CONTEXT],
                           .vocabulary = n[VOCABULARY],
                           .hidden = n[HIDDEN],
                           .rotary_base = (double)n[ROTARY_BASE],
                           .tied = f->tied};
    }
    if (out->hidden == 0)
        out->hidden = f->build == dptm_gpt ? 4 * out->width : default_hidden(out->width);
    if (out->rotary_base == 0) out->rotary_base = 10000;
    out->epsilon = DPTM_EPSILON;
    if (out->layers > DPTM_MOST_LAYERS)
        return dpt_fail(context, DPT_E_INVALID, "model %s: more than %d layers", name,
                        DPTM_MOST_LAYERS);
    const size_t heads = out->heads ? out->heads : 1;
    if (out->width % heads != 0 || (out->key_heads && heads % out->key_heads != 0))
        return dpt_fail(context, DPT_E_INVALID,
                        "model %s: the width must be a multiple of the heads, and the heads a "
                        "multiple of those of keys and values",
                        name);
    out->head = out->width / heads;
    return DPT_OK;
}

/* ---- Building -------------------------------------------------------------------------------- */

/* Compares the data with the network. */
static dpt_status check_data(dpt_context *context, const char *name, const dpt_model_shape *shape,
                             const dptm_text *t)
{
    if (shape->height != 1 || shape->width != 1)
        return dpt_fail(context, DPT_E_INVALID,
                        "model %s reads ids of tokens, and the data are %zux%zux%zu images; use "
                        "--dataset text:CONTEXT, tokens:CONTEXT or npz",
                        name, shape->height, shape->width, shape->channels);
    if (shape->channels > t->context)
        return dpt_fail(context, DPT_E_INVALID,
                        "model %s has a context of %zu tokens, and the samples have %zu: use a "
                        "shorter context",
                        name, t->context, shape->channels);
    if (shape->classes > t->vocabulary)
        return dpt_fail(context, DPT_E_INVALID,
                        "model %s has a vocabulary of %zu tokens, and the data one of %zu", name,
                        t->vocabulary, shape->classes);
    return DPT_OK;
}

/* What a recipe holds. */
typedef struct layers {
    dptm_text_builder *build;
    dptm_text text;
} layers;

static dpt_value add_layers(dpt_model *model, dpt_value ids, const void *how)
{
    const layers *l = how;
    return l->build(model, ids, &l->text);
}

/* The recipe and the text of config.json. */
static dpt_status describe(dpt_model *model, const dptm_network *n, const dptm_text *text)
{
    const layers l = {.build = n->build, .text = *text};
    const dpt_model_recipe recipe = {.size = sizeof recipe,
                                     .build = add_layers,
                                     .how = &l,
                                     .how_bytes = sizeof l,
                                     .context = n->build == dptm_lstm ? 0 : text->context};
    char config[1024];
    DPT_TRY(dpt_model_set_recipe(model, &recipe));
    if (!n->config) return DPT_OK;
    (void)n->config(text, config, sizeof config);
    return dpt_model_set_config(model, config);
}

dpt_status dptm_text_build(dpt_context *context, const dptm_network *network,
                           const dpt_model_by_name_options *options, dpt_model **out)
{
    const dpt_model_shape *shape = &options->shape;
    const dptm_network *n = network;
    dptm_text text = n->text;
    dpt_model *model;
    if (text.vocabulary == 0) text.vocabulary = shape->classes;
    DPT_TRY(check_data(context, n->name, shape, &text));
    DPT_TRY(dpt_model_create(context, n->name, &model));
    dpt_status status = options->lora ? dpt_model_set_lora(model, options->lora) : DPT_OK;
    if (status == DPT_OK) {
        const dpt_value ids = dpt_input_ids(model, shape->channels);
        status = dpt_model_finish_per_pixel(model, n->build(model, ids, &text));
    }
    if (status == DPT_OK) status = describe(model, n, &text);
    if (status != DPT_OK) {
        dpt_model_destroy(model);
        return status;
    }
    *out = model;
    return DPT_OK;
}

dpt_status dptm_text_by_name(dpt_context *context, const char *name,
                             const dpt_model_by_name_options *options, dpt_model **out)
{
    const form *f = find_form(name);
    dptm_network network = {.name = name, .build = f->build, .config = f->config};
    DPT_TRY(read_name(context, name, f, &network.text));
    return dptm_text_build(context, &network, options, out);
}
