/* Looks through the encoding of a file before it is decoded, without taking memory, and copies it
   without its weights. */
#ifndef DPTI_ONNX_WIRE_H
#define DPTI_ONNX_WIRE_H

#include "base/bytes.h"
#include "onnx/arena.h"

/* What decoding will make. */
typedef struct dpti_onnx_counts {
    size_t nodes, tensors, functions;
} dpti_onnx_counts;

/* Checks that the fields of the model and of its graph are within the file, that there is one
   graph, and counts what it holds.  Errors: DPT_E_FORMAT if the file is no ONNX file or is cut off.
 */
DPT_CHECK_RESULT dpt_status dpti_onnx_count(const dpti_file_bytes *file, dpti_onnx_counts *counts,
                                            dpt_error *error);
/* The raw bytes of an initialiser, as offsets in the file. */
typedef struct dpti_onnx_raw {
    size_t field;       /* where the field begins; SIZE_MAX: no raw bytes, or too few */
    size_t at, n_bytes; /* the content of the field, which ends with it */
} dpti_onnx_raw;

/* Finds the raw bytes of the n initialisers that the file was counted to have, where they are at
   least `least`.  Returns how many have such. */
size_t dpti_onnx_find_raw(const dpti_file_bytes *file, size_t least, size_t n, dpti_onnx_raw *out);
/* Copies the file without the raw bytes that were found.  Returns the size of the copy, which is
   not written if `to` is NULL. */
size_t dpti_onnx_strip(const dpti_file_bytes *file, const dpti_onnx_raw *raw, uint8_t *to);
/* Counts what a graph holds.  Returns false if its fields are not within its bytes. */
DPT_CHECK_RESULT bool dpti_onnx_count_graph(const uint8_t *bytes, size_t n_bytes,
                                            dpti_onnx_counts *counts);

#endif
