/* Reads and writes safetensors: 8 bytes with the little-endian length of the header, a JSON
   header, the tensors. https://huggingface.co/docs/safetensors describes the format.  A file is
   validated completely before any content is returned: offsets in bounds, no overlap, no gap,
   sizes that match the shapes. */
#ifndef DPTI_SAFETENSORS_H
#define DPTI_SAFETENSORS_H

#include "dpt_error.h"

enum { DPTI_TENSOR_MAX_RANK = 8 };

typedef struct dpti_tensor {
    const char *name;
    const char *dtype; /* "F32", "I64", ... */
    size_t rank;
    size_t shape[DPTI_TENSOR_MAX_RANK];
    const void *data; /* little-endian; of a file that is read: at any alignment */
    size_t n_bytes;
} dpti_tensor;

/* Writes to a temporary file beside `path`, fsyncs, renames, fsyncs the folder: `path` is either
   the old file or the whole new one.  `metadata` is a NULL-terminated list of key, value, ... or
   NULL. DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_write(const char *path, const dpti_tensor *tensors,
                                                   size_t n_tensors, const char *const *metadata,
                                                   dpt_error *error);

/* The same, sealed: the first entry of the metadata is "checksum", 16 hexadecimal digits: CRC-32
   and Adler-32 of the whole file, header included, with zeros in their place.  Other readers see
   one string more among the metadata. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_seal(const char *path, const dpti_tensor *tensors,
                                                  size_t n_tensors, const char *const *metadata,
                                                  dpt_error *error);

typedef struct dpti_safetensors dpti_safetensors;

/* Reading.  Where a file is sealed every reader verifies that before it looks at anything:
   DPT_E_FORMAT. */

DPT_CHECK_RESULT dpt_status dpti_safetensors_read(const char *path, dpti_safetensors **out,
                                                  dpt_error *error);
/* The same, refused with DPT_E_FORMAT, EFBIG, before memory is taken if it has more than max_bytes.
 */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_most(const char *path, size_t max_bytes,
                                                       dpti_safetensors **out, dpt_error *error);
/* Takes no copy: `bytes` stays valid until close.  `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_parse(const char *name, const uint8_t *bytes,
                                                   size_t n_bytes, dpti_safetensors **out,
                                                   dpt_error *error);
/* A file that must be sealed, of at most max_bytes: one that is not is refused with DPT_E_FORMAT.
 */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_sealed(const char *path, size_t max_bytes,
                                                         dpti_safetensors **out, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_safetensors_parse_sealed(const char *name, const uint8_t *bytes,
                                                          size_t n_bytes, dpti_safetensors **out,
                                                          dpt_error *error);
/* Of a file's header alone, at most max_bytes of it, and without looking whether the rest is sound:
   a value of its metadata, to be freed; NULL if there is none. */
char *dpti_safetensors_peek(const char *path, size_t max_bytes, const char *key);
/* Likewise all of its metadata: there are no tensors in *out. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_metadata(const char *path, dpti_safetensors **out,
                                                           dpt_error *error);
/* Whether it has a checksum, which then fits. */
bool dpti_safetensors_sealed(const dpti_safetensors *file);
void dpti_safetensors_close(dpti_safetensors *file);
size_t dpti_safetensors_count(const dpti_safetensors *file);
const dpti_tensor *dpti_safetensors_get(const dpti_safetensors *file, size_t i);
const dpti_tensor *dpti_safetensors_find(const dpti_safetensors *file, const char *name);
/* A value of the header's __metadata__, or NULL. */
const char *dpti_safetensors_metadata(const dpti_safetensors *file, const char *key);

#endif
