/* The tensors of a checkpoint: PyTorch's names and layouts for the model's, and the same behind
   "optimizer.velocity." and "optimizer.squares." for what the optimizer keeps of each parameter. */
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

/* Room for the weights and n_kinds - 1 buffers of the optimizer's state.  *out can be freed in any
   case. */
DPT_CHECK_RESULT dpt_status dpti_tensors_create(const dpt_model *model, size_t n_kinds,
                                                dpti_tensors *out, dpt_error *error);
void dpti_tensors_free(dpti_tensors *tensors);
/* Adds the tensors that stand in a flat buffer, in PyTorch's order, and turns the buffer into a
   file's layout in place.  It stays valid until the file is written. */
DPT_CHECK_RESULT dpt_status dpti_tensors_add_weights(dpti_tensors *tensors, float *flat,
                                                     int64_t batches, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_tensors_add_optimizer(dpti_tensors *tensors, dpt_tensor_kind kind,
                                                       float *flat, dpt_error *error);

/* "optimizer.velocity.NAME"; NULL without memory. */
char *dpti_optimizer_tensor(dpt_tensor_kind kind, const char *name);
/* Whether this is the counter of one of the model's batch-norms, and a sound one; the optimizer's
   state of one of its parameters. */
bool dpti_is_counter(const dpt_model *model, const dpti_tensor *tensor);
bool dpti_is_optimizers(const dpt_model *model, const dpti_tensor *tensor);

/* Reads a file's tensors into flat buffers (checkpoint.c); `outside` is a scratch of flat_size.
   DPT_E_INVALID: they are another model's, with the tensor named in the context's error. */
DPT_CHECK_RESULT dpt_status dpti_weights_read(dpt_trainer *trainer, const char *path,
                                              const dpti_safetensors *file, float *flat,
                                              float *outside);
DPT_CHECK_RESULT dpt_status dpti_optimizer_read(dpt_trainer *trainer, const char *path,
                                                const dpti_safetensors *file, dpt_tensor_kind kind,
                                                float *flat, float *outside);

#endif
