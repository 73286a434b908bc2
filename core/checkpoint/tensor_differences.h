/* The tensors by which a file of weights and a model differ. */
#ifndef DPTI_TENSOR_DIFFERENCES_H
#define DPTI_TENSOR_DIFFERENCES_H

#include "checkpoint/tensor_names.h"

/* One difference.  Only `tensor`: the model lacks it.  Only `parameter`: the file lacks it.  Both:
   their shapes differ. */
typedef struct dpti_difference {
    const dpti_tensor *tensor;
    const dpti_parameter *parameter;
} dpti_difference;

typedef struct dpti_differences {
    dpti_tensor_names names;
    dpti_difference *list; /* (n), owned: first the tensors that the model lacks, in the order of
                              the file, then the others in the order of the model */
    size_t n;
    size_t n_fit; /* parameters that the file has in their shape */
} dpti_differences;

/* Returns whether a parameter is read from the file.  `except`: as in dpti_weights_read. */
bool dpti_is_wanted(const dpti_tensor_names *names, const dpti_parameter *p, const char *except);
/* Returns the tensor of a parameter; NULL if the file lacks it. */
const dpti_tensor *dpti_tensor_of(const dpti_tensor_names *names, const dpti_parameter *p);
/* Returns whether a tensor has the shape of a parameter. */
bool dpti_has_shape(const dpti_tensor *tensor, const dpti_parameter *p);

/* Finds all differences outside of the layers in `except`.  The caller frees *out with
   dpti_differences_free.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_differences_find(const dpti_tensor_names *names,
                                                  const char *except, dpti_differences *out,
                                                  dpt_error *error);
void dpti_differences_free(dpti_differences *differences);

/* Writes what differs, in words behind the name of the file, such as "has a tensor fc.weight of
   10x84 that model lenet does not have; nearest: ..." */
void dpti_difference_words(const dpti_differences *all, const dpti_difference *one, char *text,
                           size_t n_bytes);
/* Gives the context's notices a line for each difference, at most ten of each kind, with the name
   of the file in front. */
void dpti_differences_tell(dpt_context *context, const dpti_differences *differences,
                           const char *path);

#endif
