/* Adapters of low rank (LoRA, Hu et al. 2021) at linear layers over sequences, in the files of
   PEFT.  Part of the public API: programs include dptrain.h.

   An adapted layer gives y + (alpha / rank) * B(A(x)) in place of y.  A is (rank, in) and B is
   (out, rank) in files, whatever layout the layer's weight has.  The parameters are called
   LAYER.lora_A.weight and LAYER.lora_B.weight.  They begin as PEFT draws them: A uniform in
   +-1/sqrt(in) (Kaiming uniform with a = sqrt 5), B zeros, whatever dpt_trainer_options.init says.
   Adapters are all that is trained: every other parameter of the model, the base, keeps its bits,
   also where a group of parameters matches it.

   Files of a model with adapters:
   - dpt_trainer_save and dpt_trainer_save_state write adapters, under PEFT's names
     ("base_model.model.LAYER.lora_A.weight"), and not the base.  They record a hash of the base.
   - dpt_trainer_load reads a file of the base, which leaves the adapters as they are, or a file of
     adapters, which leaves the base as it is.
   - A file of adapters, or of a training state, that has a hash of another base is refused:
     DPT_E_INVALID.  The base is to be loaded first.
   - dpt_fit writes adapter_model.safetensors and adapter_config.json in place of model.safetensors
     and config.json.  PEFT loads that folder. */
#ifndef DPTRAIN_LORA_H
#define DPTRAIN_LORA_H

#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_lora_options {
    size_t size;  /* sizeof(dpt_lora_options) */
    size_t rank;  /* 1 to 4096 */
    double alpha; /* default 8, as PEFT's */
    /* Names with commas between them; default "c_attn,q_proj,v_proj", PEFT's for GPT-2 and Llama.
       A name is that of a layer or its end behind a dot, as in PEFT, or a pattern of fnmatch (*, ?,
       [a-z]) for the whole name.  Each name that is given must match a layer; one of the default
       must. */
    const char *layers;
    const char *base; /* the name or path of the base's weights, for adapter_config.json; may be
                         NULL */
} dpt_lora_options;

/* Layers of dpt_sequence_linear that are added to the model from now on, and whose name matches,
   get adapters.  A layer that shares the table of an embedding gets none.  dpt_model_finish fails
   with DPT_E_INVALID if a name matches no layer.  Errors: DPT_E_INVALID for another rank, alpha or
   an empty name; DPT_E_STATE if the model has adapters, or layers with weights, already;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_set_lora(dpt_model *model,
                                                       const dpt_lora_options *options);
/* Returns how many layers of the model have adapters.  Cannot fail. */
DPT_API size_t dpt_model_adapted_count(const dpt_model *model);

/* What adapter_config.json says. */
typedef struct dpt_lora_info {
    size_t size; /* sizeof(dpt_lora_info), to be set before the call */
    size_t rank;
    double alpha, dropout; /* dropout is not applied */
    char layers[1024];     /* as dpt_lora_options.layers */
    char base[1024];       /* base_model_name_or_path; "": none */
} dpt_lora_info;

/* Reads the adapter_config.json of a folder.  Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_FORMAT if it
   is no JSON, or a value is missing or has another type; DPT_E_UNSUPPORTED, with the value, for
   what is not computed here: another kind than LORA, `bias` other than none, use_dora, use_rslora,
   other ranks for some layers, other modules that are saved. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_lora_describe(dpt_context *context, const char *folder,
                                                      dpt_lora_info *out);

/* Adds the adapters of a file to base weights and writes the sum, as float32, to a file of weights
   of the model without adapters.  `model` has adapters of the file's rank, alpha and layers.  The
   model's config.json is written beside the file.  Errors: those of reading and writing weights;
   DPT_E_FORMAT, with the tensor, for a value that is not finite; DPT_E_INVALID if the model has no
   adapters, or a file belongs to another model or the adapters to another base. */
typedef struct dpt_lora_files {
    size_t size; /* sizeof(dpt_lora_files) */
    const char *base, *adapter, *merged;
} dpt_lora_files;
DPT_API DPT_CHECK_RESULT dpt_status dpt_lora_merge(const dpt_model *model,
                                                   const dpt_lora_files *files);

#ifdef __cplusplus
}
#endif

#endif
