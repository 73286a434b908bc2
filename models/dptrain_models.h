/* Builds networks by name.  This header is part of libdptrain and uses dptrain.h only. */
#ifndef DPTRAIN_MODELS_H
#define DPTRAIN_MODELS_H

#include "dptrain.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shape of the images, and the number of classes, that a network is built for. */
typedef struct dpt_model_shape {
    size_t height, width, channels, classes;
} dpt_model_shape;

/* Returns the names of the networks for images as a NULL-terminated static list: "linear", "mlp",
   "lenet", ...  Cannot fail. */
DPT_API const char *const *dpt_model_names(void);
/* Returns the names of the networks that read ids of tokens and score the next token at each place
   (docs/models.md), as a NULL-terminated static list: "gpt2", "gpt2-medium", ...  Some are forms,
   such as "gpt:LAYERS:HEADS:WIDTH:CONTEXT[:VOCABULARY]", of which "gpt:6:6:384:256" is a name.
   Cannot fail. */
DPT_API const char *const *dpt_text_model_names(void);
/* Returns whether `name` is that of a network of either list, or begins as a form does.  Cannot
   fail. */
DPT_API bool dpt_model_is_known(const char *name);
/* Returns one line of help on a network, or NULL if `name` is unknown.  The string is static.
   Cannot fail. */
DPT_API const char *dpt_model_help(const char *name);
/* Builds and finishes a network.  A network that reads ids has `channels` tokens in a sample, with
   height and width 1, and its vocabulary is `classes` if the name does not say it.  A name that
   ends with ".onnx" is the path of a file, which dpt_model_from_onnx reads: its shape is that of
   the file, whatever `shape` says.  Any other name that ends with ".json", or is that of a folder
   with config.json, is a config.json of `transformers`: docs/models.md says which networks are
   read.  The caller owns *out and destroys it with dpt_model_destroy.
   Errors: DPT_E_INVALID if the name is unknown (the message lists the known names and suggests the
   nearest name) or the images are too small for the network (the message names the layer), or the
   data have more tokens in a sample or in their vocabulary than the network; DPT_E_FORMAT for a
   damaged config.json, and DPT_E_UNSUPPORTED for one of a network that cannot be expressed (the
   message names the key); DPT_E_NO_MEMORY; those of dpt_model_from_onnx. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_by_name(dpt_context *context, const char *name,
                                                      const dpt_model_shape *shape,
                                                      dpt_model **out);

enum { DPT_CONFIG_ENDS = 16 };
/* Reads the ids of the tokens that end a text, the "eos_token_id" of a config.json: `path` is the
   file or its folder.  *n of them, perhaps 0, are written to `ends`.  Errors: DPT_E_NOT_FOUND;
   DPT_E_FORMAT if the file is damaged; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_config_ends(dpt_context *context, const char *path,
                                                    int32_t ends[DPT_CONFIG_ENDS], size_t *n);

typedef struct dpt_model_by_name_options {
    size_t size; /* sizeof(dpt_model_by_name_options) */
    dpt_model_shape shape;
    const dpt_lora_options *lora; /* adapters (dptrain/lora.h); NULL: none */
} dpt_model_by_name_options;

/* As dpt_model_by_name, with more options.  Errors: also those of dpt_model_set_lora; DPT_E_INVALID
   if no layer of the network matches, or adapters are wanted for a network that reads no ids. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_by_name_with(dpt_context *context, const char *name,
                                                           const dpt_model_by_name_options *options,
                                                           dpt_model **out);

/* Writes how a network of this name is trained well (docs/recipes.md): to `trainer` batch_size,
   optimizer, lr, lr_base_batch, momentum, weight_decay, nesterov, no_bias_decay, beta1, beta2,
   epsilon, clip_norm, label_smoothing, augment and init, and to `schedule` the whole schedule.  The
   other fields stay as they are; trainer->size is set.  Recipes are for new weights and
   cross-entropy.  They may change from release to release, so a program that must repeat a training
   keeps the numbers.  A flip of `augment` suits images whose mirror images have the same class: not
   digits.  Returns false, and writes nothing, if the name has no recipe, as a FILE.onnx has none.
   Otherwise it cannot fail. */
DPT_API DPT_CHECK_RESULT bool dpt_training_recipe(const char *name, dpt_trainer_options *trainer,
                                                  dpt_schedule *schedule);

#ifdef __cplusplus
}
#endif

#endif
