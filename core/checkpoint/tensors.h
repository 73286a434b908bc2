/* The tensors of a checkpoint: PyTorch's names and layouts for the model's; the same behind
   "optimizer.velocity." and "optimizer.squares." for what the optimizer keeps of each parameter,
   and behind "owed.R." for what process R owes to its gradient (collective/feedback.h). */
#ifndef DPTI_TENSORS_H
#define DPTI_TENSORS_H

#include "io/safetensors.h"
#include "train/trainer.h"

/* Tensors on their way into a file; they point into flat buffers. */
typedef struct dpti_tensors {
    const dpt_model *model;
    dpti_tensor *list;
    size_t n;
    char **names; /* owned; NULL where the model owns the name */
    float *scratch;
    int64_t batches; /* that the running statistics have seen */
} dpti_tensors;

/* The name of a parameter's tensor, to be freed; NULL without memory. */
typedef char *dpti_state_name(size_t number, const char *parameter);
/* number: a dpt_tensor_kind of the optimizer's state; a process. */
char *dpti_optimizer_tensor(size_t number, const char *parameter);
char *dpti_residual_tensor(size_t number, const char *parameter);

/* Room for the weights and n_kinds - 1 buffers of other state.  *out can be freed in any case. */
DPT_CHECK_RESULT dpt_status dpti_tensors_create(const dpt_model *model, size_t n_kinds,
                                                dpti_tensors *out, dpt_error *error);
void dpti_tensors_free(dpti_tensors *tensors);
/* Adds the tensors that stand in a flat buffer, in PyTorch's order, and turns the buffer into a
   file's layout in place.  It stays valid until the file is written. */
DPT_CHECK_RESULT dpt_status dpti_tensors_add_weights(dpti_tensors *tensors, float *flat,
                                                     int64_t batches, dpt_error *error);
/* Other state of the parameters that are trained, named so. */
DPT_CHECK_RESULT dpt_status dpti_tensors_add_state(dpti_tensors *tensors, dpti_state_name *name_of,
                                                   size_t number, float *flat, dpt_error *error);

/* Whether this is the counter of one of the model's batch-norms, and a sound one; other state of
   one of its parameters. */
bool dpti_is_counter(const dpt_model *model, const dpti_tensor *tensor);
bool dpti_is_state(const dpt_model *model, const dpti_tensor *tensor);

/* Reads a file's tensors into flat buffers (weights.c); `outside` is a scratch of flat_size.
   `except`: names of layers, with commas between them, whose places are left as they are; or NULL.
   DPT_E_INVALID: they are another model's, with the tensor named in the context's error. */
DPT_CHECK_RESULT dpt_status dpti_weights_read(dpt_trainer *trainer, const char *path,
                                              const dpti_safetensors *file, const char *except,
                                              float *flat, float *outside);
DPT_CHECK_RESULT dpt_status dpti_state_read(dpt_trainer *trainer, const char *path,
                                            const dpti_safetensors *file, dpti_state_name *name_of,
                                            size_t number, float *flat, float *outside);

#endif
