/* Text from language models: the next token, step by step.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_GENERATE_H
#define DPTRAIN_GENERATE_H

#include "dptrain/device.h"
#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models that can be read in steps -------------------------------------------------------- */

/* Adds the layers of a language model behind `ids` and returns its logits: a sequence with a
   channel for each token of the vocabulary.  `how` is what dpt_model_recipe has.  Every call adds
   the same parameters in the same order, whatever the number of ids is. */
typedef dpt_value dpt_sequence_builder(dpt_model *model, dpt_value ids, const void *how);

/* How the layers of a model are added once more, for sequences of another length. */
typedef struct dpt_model_recipe {
    size_t size; /* sizeof(dpt_model_recipe) */
    dpt_sequence_builder *build;
    const void *how; /* `how_bytes` bytes, which are copied */
    size_t how_bytes;
    size_t context; /* the most tokens that the model reads; 0: any number */
} dpt_model_recipe;

/* Gives a model its recipe, which a generator needs.  dpt_model_by_name has given one to the
   networks of dpt_text_model_names.  The layers may be those that compute each place on its own
   (dpt_embedding, dpt_sequence_linear, norms, dpt_elementwise, dpt_add, dpt_activate, dpt_dropout),
   and of those that read other places dpt_positions, dpt_rotary, dpt_attend with `causal`, and
   dpt_lstm in one direction.  Errors: DPT_E_INVALID if an argument is NULL; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_set_recipe(dpt_model *model,
                                                         const dpt_model_recipe *recipe);

/* ---- Choosing a token ------------------------------------------------------------------------ */

/* How the next token is drawn.  The definitions and their order are those of the logits processors
   of `transformers`. */
typedef struct dpt_sampling {
    size_t size;        /* sizeof(dpt_sampling) */
    double temperature; /* logits are divided by it.  0: the token of the largest logit is taken, of
                           several the one with the smallest id, and the rest is not read */
    size_t top_k; /* tokens with a logit below the k-th largest one are left out; 0: none is */
    /* Of the tokens that are left, the least likely ones are left out, but not the most likely
       token.  Together they have at most the probability 1 - top_p.  0 < top_p <= 1; 0: 1.  Of
       equally likely tokens those with larger ids are left out first. */
    double top_p;
    uint64_t seed;
} dpt_sampling;

/* Draws a token of (n) logits.  `number` counts the draws of a text: the same logits, sampling and
   number give the same token, on any machine.  Errors: DPT_E_INVALID if an argument is NULL or a
   field of `sampling` is out of range, n is 0 or above DPT_MAX_VOCABULARY, or a logit is NaN;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_sample(dpt_context *context, const float *logits, size_t n,
                                               const dpt_sampling *sampling, uint64_t number,
                                               int32_t *id);

/* ---- Generators ------------------------------------------------------------------------------ */

/* A language model with its weights on one device, and the tokens that it has read.  It keeps the
   keys and values of these tokens, or the states behind them, so that the work for the next token
   does not grow with their number beyond reading what is kept. */
typedef struct dpt_generator dpt_generator;

typedef struct dpt_generator_options {
    size_t size;         /* sizeof(dpt_generator_options) */
    const char *weights; /* as for dpt_predictor_options */
    /* The most tokens that will be read.  Memory for all of them is taken, and every token reads
       all of this memory.  0, or more than the model reads: as many as that. */
    size_t context;
    double device_timeout; /* seconds that a call of the device's driver may take, and ten times as
                              many while it is prepared; 0: ten minutes */
    bool deterministic;    /* logits have the same bits on any devices that support it */
} dpt_generator_options;

/* Creates a generator on the first device of the set; other devices are not used.  `options` may be
   NULL: all defaults.  `model` is finished and has a recipe.  The model and the device set must
   outlive the generator.  The caller owns `out` and destroys it with dpt_generator_destroy. Errors:
   DPT_E_INVALID if an option is out of range, the model has no recipe, the file's weights belong to
   another model, or no file is given (no message if `devices` is NULL); DPT_E_UNSUPPORTED for a
   layer that cannot be read in steps, or that the device cannot compute; DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_FORMAT for a damaged file; DPT_E_NO_MEMORY; the device's own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_generator_create(dpt_device_set *devices,
                                                         const dpt_model *model,
                                                         const dpt_generator_options *options,
                                                         dpt_generator **out);
/* Destroys a generator.  Accepts NULL.  Cannot fail; a device that does not answer keeps its memory
   (dpt_context_abandoned). */
DPT_API void dpt_generator_destroy(dpt_generator *generator);

/* Returns the number of tokens of the vocabulary; the most tokens that can be read, or 0 if there
   is no limit; the number of those that have been read.  Cannot fail. */
DPT_API size_t dpt_generator_vocabulary(const dpt_generator *generator);
DPT_API size_t dpt_generator_context(const dpt_generator *generator);
DPT_API size_t dpt_generator_tokens(const dpt_generator *generator);

/* Reads n tokens behind those that were read before.  Errors: DPT_E_INVALID if `ids` is NULL, n is
   0, an id is out of range, or there are more tokens than the context holds: nothing is read then;
   DPT_E_STATE after a failure of the device; the device's own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_generator_read(dpt_generator *generator, const int32_t *ids,
                                                       size_t n);
/* Returns the logits (vocabulary) of the token behind the last one that was read; NULL if none was.
   They are valid until the next call that reads or forgets.  Cannot fail. */
DPT_API const float *dpt_generator_logits(const dpt_generator *generator);
/* Forgets all tokens.  Errors: DPT_E_STATE after a failure of the device; the device's own
 * failures.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_generator_forget(dpt_generator *generator);

#ifdef __cplusplus
}
#endif

#endif
