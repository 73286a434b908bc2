/* Weights in several safetensors files: an index, which ends with ".index.json", names the file of
   each tensor, as `transformers` writes it. */
#ifndef DPTI_SHARDS_H
#define DPTI_SHARDS_H

#include "io/safetensors.h"

/* Reads a safetensors file, or an index and all files that it names.  These are in the folder of
   the index and together have at most max_bytes.  *out has the tensors of all of them and no
   metadata. Errors: those of dpti_safetensors_read_most; DPT_E_FORMAT if the index is damaged,
   names a tensor that a file does not have, or does not name one that a file has. */
DPT_CHECK_RESULT dpt_status dpti_shards_read(const char *path, size_t max_bytes,
                                             dpti_safetensors **out, dpt_error *error);
/* As dpti_safetensors_read_metadata: of an index, the header of the first file that it names. */
DPT_CHECK_RESULT dpt_status dpti_shards_read_metadata(const char *path, dpti_safetensors **out,
                                                      dpt_error *error);

#endif
