/* The tensors of a checkpoint.  Those of the model have PyTorch's names and layouts.  The
   optimizer's state has the same names behind "optimizer.velocity." and "optimizer.squares.".  The
   error feedback of process R (collective/feedback.h) has the same names behind "owed.R.", and the
   outer velocity of local steps (train/rounds/rounds.h) behind "optimizer.outer.".  The
   factors of low rank (collective/low_rank.h) have them behind "optimizer.factor.". */
#ifndef DPTI_TENSORS_H
#define DPTI_TENSORS_H

#include "io/safetensors.h"
#include "train/state/trainer.h"

/* The list of tensors to be written to a file.  The tensors point into flat buffers. */
typedef struct dpti_tensors {
    const dpt_model *model;
    dpti_tensor *list;
    size_t n;
    char **names; /* owned; NULL if the model owns the name */
    float *scratch;
    bool base;       /* of a model with adapters, the base is written, and not the adapters */
    int64_t batches; /* number of batches that the running statistics have seen */
} dpti_tensors;

/* What PEFT puts in front of the names of adapters. */
#define DPTI_ADAPTER_PREFIX "base_model.model."
/* The name of the parameter of an adapter's tensor; NULL: it is none. */
const char *dpti_behind_adapter(const char *name);
/* Whether a file has adapters.  Of a model with adapters dpti_weights_read then reads these alone,
   and otherwise the base alone. */
bool dpti_has_adapters(const dpti_safetensors *file);

/* Returns the name of a parameter's tensor, which the caller frees; NULL if there is no memory. */
typedef char *dpti_state_name(size_t number, const char *parameter);
/* `number` is a dpt_tensor_kind of the optimizer's state in the first function, and a rank in the
   second. */
char *dpti_optimizer_tensor(size_t number, const char *parameter);
char *dpti_residual_tensor(size_t number, const char *parameter);
char *dpti_outer_tensor(size_t number, const char *parameter);  /* `number` is not used */
char *dpti_factor_tensor(size_t number, const char *parameter); /* likewise */

/* Makes room for the weights and n_kinds - 1 other buffers of training state.  `out` can be freed
   in any case. */
DPT_CHECK_RESULT dpt_status dpti_tensors_create(const dpt_model *model, size_t n_kinds,
                                                dpti_tensors *out, dpt_error *error);
void dpti_tensors_free(dpti_tensors *tensors);
/* Adds the tensors of a flat buffer in PyTorch's order, of a model with adapters those of the
   adapters under PEFT's names or those of the base, and converts the buffer into a file's
   layout in place.  The buffer must stay valid until the file is written. */
DPT_CHECK_RESULT dpt_status dpti_tensors_add_weights(dpti_tensors *tensors, float *flat,
                                                     int64_t batches, dpt_error *error);
/* One kind of training state: name_of(number, parameter) is the name of a parameter's tensor. */
typedef struct dpti_state_kind {
    dpti_state_name *name_of;
    size_t number;
} dpti_state_kind;

/* Adds other training state of the trained parameters. */
DPT_CHECK_RESULT dpt_status dpti_tensors_add_state(dpti_tensors *tensors, dpti_state_kind kind,
                                                   float *flat, dpt_error *error);

enum { DPTI_SHA256_TEXT = 65 }; /* 64 hexadecimal digits and the end of the text */

/* Computes the SHA-256 of the bytes of all tensors in their order.  These are the bytes behind the
   header of a safetensors file that has these tensors. */
void dpti_tensors_sha256(const dpti_tensors *tensors, char out[DPTI_SHA256_TEXT]);

/* dpti_is_counter returns whether a tensor is the valid counter of one of the model's batch-norms.
   The other function returns whether it is other training state of a parameter. */
bool dpti_is_counter(const dpt_model *model, const dpti_tensor *tensor);
bool dpti_is_state(const dpt_model *model, const dpti_tensor *tensor);

#endif
