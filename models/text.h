/* Networks that read ids of tokens and score the next token at each place: language models.
   Private to models/. */
#ifndef DPTRAIN_MODELS_TEXT_H
#define DPTRAIN_MODELS_TEXT_H

#include "models_table.h"

/* The numbers that a name gives, such as gpt:6:6:384:256. */
typedef struct dptm_text {
    size_t layers, heads, key_heads, width;
    size_t context;    /* the most tokens of a sample */
    size_t vocabulary; /* 0: the classes of the data */
    size_t hidden;     /* channels inside a perceptron */
    double rotary_base;
    bool tied; /* the head shares the table of the tokens */
} dptm_text;

/* Adds the network's layers behind the ids and returns the logits, a sequence with a channel for
   each token of the vocabulary. */
typedef dpt_value dptm_text_builder(dpt_model *model, dpt_value ids, const dptm_text *text);

dptm_text_builder dptm_gpt, dptm_llama, dptm_lstm;

/* Prints the config.json of `transformers` to `out` (n_bytes), as snprintf does. */
typedef int dptm_text_config(const dptm_text *text, char *out, size_t n_bytes);

dptm_text_config dptm_gpt_config, dptm_llama_config;

/* Returns whether a name begins as that of a network of this sort, rightly spelt or not. */
bool dptm_is_text(const char *name);
/* As dpt_model_help, for a name of dpt_text_model_names. */
const char *dptm_text_help(const char *name);
/* As dpt_model_by_name. */
dpt_status dptm_text_by_name(dpt_context *context, const char *name, const dpt_model_shape *shape,
                             dpt_model **out);

#endif
