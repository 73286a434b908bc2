/* Reading the tensors of a safetensors file into the flat buffer of a model.  Uses no trainer and
   no device. */
#ifndef DPTI_TENSOR_SOURCE_H
#define DPTI_TENSOR_SOURCE_H

#include "checkpoint/tensors.h"

/* A file whose tensors are read into a model's flat buffer. */
typedef struct dpti_tensor_source {
    dpt_context *context; /* gets the errors */
    const dpt_model *model;
    const char *path;
    const dpti_safetensors *file;
    float *outside; /* (flat_size) scratch memory */
    bool partial;   /* what fits is read, and a notice says what does not; at least one must fit */
    bool resumes;   /* the file is of a training that goes on: values may be infinite or NaN */
} dpti_tensor_source;

/* Errors: DPT_E_INVALID if `except`, which is NULL or names of layers with commas between them,
   names a layer that the model does not have. */
DPT_CHECK_RESULT dpt_status dpti_tensor_source_check_layers(const dpti_tensor_source *source,
                                                            const char *except);
/* Errors: DPT_E_FORMAT if the file says that it is from dptrain and has no checksum: the entry of
   the checksum has been damaged. */
DPT_CHECK_RESULT dpt_status dpti_tensor_source_check_seal(const dpti_tensor_source *source);

/* Read a file's tensors into flat buffers.  `except`: names of layers, separated by commas, whose
   elements are left unchanged; or NULL.  dpti_weights_read finds tensors by their names as
   tensor_names.h describes, and gives the context's notices what it has read in another way than
   it is in the file, and several differences.  Errors: DPT_E_INVALID if the tensors belong to
   another model, or have a type that is not read; DPT_E_FORMAT if a value is not finite; the
   context's error names the tensor.  The flat buffers are undefined after a failure. */
DPT_CHECK_RESULT dpt_status dpti_weights_read(const dpti_tensor_source *source, const char *except,
                                              float *flat);
DPT_CHECK_RESULT dpt_status dpti_state_read(const dpti_tensor_source *source, dpti_state_kind kind,
                                            float *flat);

/* Weights of another model are read if they are larger than those of the model by at most this many
   bytes, so that the message can name the difference. */
#define DPTI_OTHER_MODEL_BYTES ((size_t)1 << 30)

/* Returns the most bytes that a file of the model's weights may have if it holds `n_flats` buffers
   of the size of the weights and facts about `n_devices` devices. */
size_t dpti_weights_most_bytes(const dpt_model *model, size_t n_flats, size_t n_devices);

/* Reads a file of weights, or of training state, into `flat` (flat_size float32, zeroed before).
   The context gets the errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_FORMAT for a
   damaged file; DPT_E_INVALID if the tensors belong to another model. */
DPT_CHECK_RESULT dpt_status dpti_weights_load(dpt_context *context, const dpt_model *model,
                                              const char *path, float *flat);

#endif
