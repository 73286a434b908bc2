/* Reads the pickle of a PyTorch state dict without executing anything.  Of pickle's language only
   what builds dicts, lists, tuples, texts and numbers is known, and of names only those of a
   tensor's storage (torch.FloatStorage), of the functions that make a tensor of it
   (torch._utils._rebuild_tensor_v2, _rebuild_parameter) and of OrderedDict.  They are never called:
   their arguments describe a tensor.  Everything else is refused by its name. */
#ifndef DPTI_PICKLE_H
#define DPTI_PICKLE_H

#include "base/bytes.h"
#include "dpt_error.h"

enum { DPTI_PICKLE_RANK = 8 };

/* A tensor of the dict.  Its numbers are in a file of the archive. */
typedef struct dpti_pickled_tensor {
    const char *name, *key; /* name_length and key_length characters of the pickle, not terminated:
                               the name in the dict, and that of the file with the storage */
    size_t name_length, key_length;
    const char *dtype; /* as in safetensors: "F32" */
    size_t element_bytes;
    size_t storage; /* elements of the storage */
    size_t offset;  /* of the first element */
    size_t rank, shape[DPTI_PICKLE_RANK], stride[DPTI_PICKLE_RANK];
} dpti_pickled_tensor;

typedef struct dpti_pickled {
    dpti_pickled_tensor *list; /* (n), owned; NULL if there is none */
    size_t n;
} dpti_pickled;

/* Reads the pickle, whose bytes must outlive *out.  All elements of a tensor are within its
   storage. The caller frees out->list.  Errors: DPT_E_FORMAT; the message says what is not read, or
   what is damaged, in words that follow the file's name; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_pickle_read(const dpti_file_bytes *pickle, dpti_pickled *out,
                                             dpt_error *error);

#endif
