/* Networks that read ids of tokens and score the next token at each place: language models.
   Private to models/. */
#ifndef DPTRAIN_MODELS_TEXT_H
#define DPTRAIN_MODELS_TEXT_H

#include "models_table.h"

/* The numbers that a name gives, such as gpt:6:6:384:256, or a config.json. */
typedef struct dptm_text {
    size_t layers, heads, key_heads, width;
    size_t context;    /* the most tokens of a sample */
    size_t vocabulary; /* 0: the classes of the data */
    size_t hidden;     /* channels inside a perceptron */
    size_t head;       /* channels of a head */
    double rotary_base;
    float epsilon; /* of the norms */
    bool tied;     /* the head shares the table of the tokens */
} dptm_text;

/* Adds the network's layers behind the ids and returns the logits, a sequence with a channel for
   each token of the vocabulary. */
typedef dpt_value dptm_text_builder(dpt_model *model, dpt_value ids, const dptm_text *text);

dptm_text_builder dptm_gpt, dptm_llama, dptm_lstm;

/* Prints the config.json of `transformers` to `out` (n_bytes), as snprintf does. */
typedef int dptm_text_config(const dptm_text *text, char *out, size_t n_bytes);

dptm_text_config dptm_gpt_config, dptm_llama_config;

/* The epsilon of the norms of a network that a name gives. */
#define DPTM_EPSILON 1e-5f
enum { DPTM_MOST_LAYERS = 512 };

/* A network with all its numbers. */
typedef struct dptm_network {
    const char *name; /* of the model */
    dptm_text_builder *build;
    dptm_text_config *config; /* NULL: `transformers` has no such network */
    dptm_text text;
    char own[128]; /* the name, if a file gave the network and a form has the same */
} dptm_network;

/* Builds and finishes a network, as dpt_model_by_name. */
dpt_status dptm_text_build(dpt_context *context, const dptm_network *network,
                           const dpt_model_by_name_options *options, dpt_model **out);

/* The content of a config.json. */
typedef struct dptm_config_file {
    const char *path; /* for messages, and the name of a network that no form gives */
    const char *bytes;
    size_t n_bytes;
} dptm_config_file;

/* Reads a network from a config.json (config.c).  Errors: DPT_E_FORMAT; DPT_E_UNSUPPORTED. */
dpt_status dptm_config_read(dpt_context *context, const dptm_config_file *file, dptm_network *out);
/* Returns whether a name is the path of a config.json, or of a folder that has one (config.c). */
bool dptm_is_config(const char *name);
/* As dpt_model_by_name, for such a path. */
dpt_status dptm_config_by_name(dpt_context *context, const char *name,
                               const dpt_model_by_name_options *options, dpt_model **out);

/* Returns whether a name begins as that of a network of this sort, rightly spelt or not. */
bool dptm_is_text(const char *name);
/* As dpt_model_help, for a name of dpt_text_model_names. */
const char *dptm_text_help(const char *name);
/* As dpt_model_by_name_with. */
dpt_status dptm_text_by_name(dpt_context *context, const char *name,
                             const dpt_model_by_name_options *options, dpt_model **out);

#endif
