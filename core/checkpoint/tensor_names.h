/* Which tensor of a file of weights is which parameter of a model.  Files may have other names than
   the model: a prefix in front of all names, as of a module that was wrapped; names without the
   prefix of a model with a head; buffers that the model does not have. */
#ifndef DPTI_TENSOR_NAMES_H
#define DPTI_TENSOR_NAMES_H

#include "checkpoint/tensors.h"

/* A file beside a model. */
typedef struct dpti_tensor_names {
    const dpt_model *model;
    const dpti_safetensors *file;
    size_t prefix; /* this many characters in front of every name of the file count as missing */
} dpti_tensor_names;

/* Compares the names of a file with those of a model.  `prefix` becomes the length of the parts
   ("module.", "_orig_mod.") that all names of the file begin with if the model has none of these
   names as they are, and has one of them without these parts; else 0.  So it is for adapters. */
dpti_tensor_names dpti_tensor_names_of(const dpt_model *model, const dpti_safetensors *file);

/* Returns the tensor that has a name of the model; NULL if there is none. */
const dpti_tensor *dpti_tensor_named(const dpti_tensor_names *names, const char *name);
/* Returns the name of a tensor of the file without the prefix. */
const char *dpti_tensor_name(const dpti_tensor_names *names, const dpti_tensor *tensor);
/* Returns the parameter that a layer shares with another one if the tensor has the name of the
   layer's own weight; NULL if it has not. */
const dpti_parameter *dpti_tensor_tied(const dpti_tensor_names *names, const dpti_tensor *tensor);
/* Returns whether the tensor is one that a file of this model may have: a parameter, a counter of
   batches, other training state, a buffer that is not needed, an adapter, or a tied weight. */
bool dpti_tensor_is_known(const dpti_tensor_names *names, const dpti_tensor *tensor);

#endif
