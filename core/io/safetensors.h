/* Reads and writes safetensors: 8 bytes with the little-endian length of the header, a JSON
   header, the tensors. https://huggingface.co/docs/safetensors describes the format.  A file is
   validated completely before any content is returned: offsets in bounds, no overlap, no gap,
   sizes that match the shapes. */
#ifndef DPTI_SAFETENSORS_H
#define DPTI_SAFETENSORS_H

#include "base/bytes.h"
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

/* What is written to a file. */
typedef struct dpti_tensor_file {
    const char *path;
    const dpti_tensor *tensors; /* (n_tensors) */
    size_t n_tensors;
    const char *const *metadata; /* a NULL-terminated list of key, value, ...; or NULL */
} dpti_tensor_file;

/* Writes a temporary file beside the path and renames it, with fsync of the file and of the folder.
   So the path is always either the old file or the complete new one.  Errors: DPT_E_IO;
   DPT_E_INVALID if a tensor's dtype, shape and size do not agree, a name occurs twice, or a text is
   not UTF-8; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_write(const dpti_tensor_file *file, dpt_error *error);

/* Writes a sealed file: the first entry of the metadata is "checksum", 16 hexadecimal digits with
   the CRC-32 and the Adler-32 of the whole file, header included, computed with zeros in their
   place. Other readers see one more string in the metadata.  Errors: as dpti_safetensors_write. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_seal(const dpti_tensor_file *file, dpt_error *error);

typedef struct dpti_safetensors dpti_safetensors;

/* Reading.  A file of PyTorch's torch.save that holds a dict of tensors (io/pth.h) is read as a
   safetensors file with the same tensors and without metadata.  Every reader verifies the checksum
   of a sealed file before it interprets the content: DPT_E_FORMAT. */

DPT_CHECK_RESULT dpt_status dpti_safetensors_read(const char *path, dpti_safetensors **out,
                                                  dpt_error *error);
/* Refuses a file of more than max_bytes before it allocates memory: DPT_E_FORMAT with EFBIG. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_most(const char *path, size_t max_bytes,
                                                       dpti_safetensors **out, dpt_error *error);
/* Makes no copy: the bytes must stay valid until close. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_parse(const dpti_file_bytes *bytes,
                                                   dpti_safetensors **out, dpt_error *error);
/* Reads a file of at most max_bytes that must be sealed: any other file gives DPT_E_FORMAT. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_sealed(const char *path, size_t max_bytes,
                                                         dpti_safetensors **out, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_safetensors_parse_sealed(const dpti_file_bytes *bytes,
                                                          dpti_safetensors **out, dpt_error *error);
/* Reads only the header of a file, at most max_bytes of it, without validating the rest.  Returns a
   value of its metadata, which the caller frees; NULL if there is none. */
char *dpti_safetensors_peek(const char *path, size_t max_bytes, const char *key);
/* Reads only the header in the same way.  *out has all metadata and no tensors. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_read_metadata(const char *path, dpti_safetensors **out,
                                                           dpt_error *error);
/* Several files as one. */
typedef struct dpti_safetensors_parts {
    dpti_safetensors **files;
    size_t n_files;
    dpti_tensor *tensors; /* of these files */
    size_t n_tensors;
} dpti_safetensors_parts;

/* Makes one file of several: *out has these tensors and no metadata.  After success *out owns the
   files and both lists, which malloc has given.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_safetensors_join(const dpti_safetensors_parts *parts,
                                                  dpti_safetensors **out, dpt_error *error);
/* Whether the file, or its header if only this was read, has a tensor whose name `is` accepts. */
bool dpti_safetensors_any(const dpti_safetensors *file, bool (*is)(const char *name));
/* Returns the narrowest type of the tensors of the header, "F16", "BF16", "F32" or "F64"; or
   NULL. */
const char *dpti_safetensors_type(const dpti_safetensors *file);
/* Returns whether the file is sealed; its checksum is then valid. */
bool dpti_safetensors_sealed(const dpti_safetensors *file);
void dpti_safetensors_close(dpti_safetensors *file);
size_t dpti_safetensors_count(const dpti_safetensors *file);
const dpti_tensor *dpti_safetensors_get(const dpti_safetensors *file, size_t i);
const dpti_tensor *dpti_safetensors_find(const dpti_safetensors *file, const char *name);
/* A value of the header's __metadata__, or NULL. */
const char *dpti_safetensors_metadata(const dpti_safetensors *file, const char *key);

#endif
